"""Operators that compute nothing: a constant of the file, a value handed on. They exist in ONNX only, so no spec has them."""

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
}


def constant_1(n: OnnxNode) -> Sequence[Value]:
    """The one attribute that is there says the value, as a tensor or as plain numbers."""
    said = [k for k in ("value", "sparse_value", *_DTYPES, "value_string", "value_strings") if n.has_attr(k)]
    if len(said) != 1:
        n.refuse(f"wants one attribute that says the value, got {', '.join(said) or 'none'}")
    if said[0] == "value":
        return (constant(n.attr("value")),)
    if said[0] not in _DTYPES:
        n.refuse(f"{said[0]} is not supported")
    return (constant(np.array(n.attr(said[0]), _DTYPES[said[0]])),)


def identity_1(n: OnnxNode) -> Sequence[Value]:
    return _first(n)


def dropout_1(n: OnnxNode) -> Sequence[Value]:
    """Dropout with an attribute for its ratio: at inference it hands its input on. Its mask was never given a meaning."""
    return _first(n)


def dropout_10(n: OnnxNode) -> Sequence[Value]:
    """With a mask, of what was kept: everything."""
    (x,) = _first(n)
    if n.output_count < 2:
        return (x,)
    from anyshape import ops

    return x, ops.full(True, ops.shape_of(x, source=n.source), source=n.source)


def dropout_12(n: OnnxNode) -> Sequence[Value]:
    """With an operand that says whether it trains, which must be false."""
    training = n.input(2)
    if training is not None and (training.constant is None or bool(training.constant)):
        n.refuse("training_mode must be the constant false")
    return dropout_10(n)


def _first(n: OnnxNode) -> Sequence[Value]:
    x = n.input(0)
    if x is None:
        n.refuse("its input is left out")
    return (x,)


BOOKKEEPING: dict[str, dict[int, Mapping | None]] = {
    "Constant": {1: constant_1},
    "Identity": {1: identity_1},
    "Dropout": {1: dropout_1, 10: dropout_10, 12: dropout_12},
}
