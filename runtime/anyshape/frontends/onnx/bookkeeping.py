"""Imports Constant, which is no operator but the way in which a graph of ONNX spells a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshape.frontends.onnx.node import Mapping, OnnxNode
from anyshape.graph.value import Value, constant

_DTYPES: dict[str, Any] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": np.str_,
    "value_strings": np.str_,
}


def constant_1(n: OnnxNode) -> Sequence[Value]:
    """Takes the value of the one attribute that is present: a tensor, or plain numbers."""
    said = [k for k in ("value", "sparse_value", *_DTYPES) if n.has_attr(k)]
    if len(said) != 1:
        n.refuse(f"needs exactly one attribute with the value, got {', '.join(said) or 'none'}")
    if said[0] not in _DTYPES:
        return (constant(n.attr(said[0])),)
    return (constant(np.array(n.attr(said[0], []), _DTYPES[said[0]])),)


BOOKKEEPING: dict[str, dict[int, Mapping | None]] = {"Constant": {1: constant_1}}
