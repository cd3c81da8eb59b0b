"""Builds the calls of the examples of a spec.

In: an example. Out: a call, with the example's literal values, or random contents of its shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, DType, parse_dtype
from anyshape.errors import DtypeError
from anyshape.graph.opdef import InputDef, OpDef
from anyshape.graph.value import Node
from anyshape.properties import Example, Given, Property
from anyshape.strings import as_chars
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.contents import contents
from anyshape_testing.calls.dtypes import input_dtype
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.packages import PROPERTIES


def array(op: OpDef, i: InputDef, example_input: Given, seed: int) -> Any:
    """Makes the array of an example's input: its literal values, or random ones of its shape, in the first dtype that the op allows; a list
    for a variadic input."""
    dtype = (
        parse_dtype(example_input.dtype)
        if example_input.dtype
        else input_dtype(i, {v: parse_dtype(c[0]) for v, c in op.dtypes.items()})
    )
    if example_input.is_literal:
        return [literal(v, dtype) for v in example_input.value] if i.variadic else literal(example_input.value, dtype)
    if i.variadic:
        return [contents(tuple(s), dtype, seed + k, "plain") for k, s in enumerate(example_input.shape)]
    return contents(tuple(example_input.shape), dtype, seed, "plain")


def literal(value: Any, dtype: DType) -> NDArray[Any]:
    """Converts literal values to an array; strings become characters."""
    return as_chars(np.array(value, str)) if dtype is CHAR else np.asarray(value, dtype.numpy)


def call_of(op_name: str, e: Example) -> Call:
    op = variants(op_name)[0]
    arrays = {
        i.name: array(op, i, e.inputs[i.name], k) if i.name in e.inputs else None for k, i in enumerate(op.inputs)
    }
    return Call(PROPERTIES[op_name], arrays, {p.name: e.params.get(p.name) for p in op.params})


def shown(p: Property, wide: bool = False) -> Iterator[Node]:
    """Builds the calls of the spec's examples that give a result; `wide`: in f64, where the op allows it."""
    op = variants(p.op)[0]
    floats = {i.name for i in op.inputs if wide and "f64" in op.dtypes.get(i.dtype, ())}
    for e in p.examples:
        if e.error is None:
            c = call_of(p.op, e)
            inputs = {name: _in_f64(v) if name in floats else v for name, v in c.inputs.items()}
            with suppress(DtypeError):  # its parameters may be those of another dtype
                yield static_node(replace(c, inputs=inputs))


def _in_f64(v: Any) -> Any:
    return None if v is None else [a.astype(np.float64) for a in v] if isinstance(v, list) else v.astype(np.float64)
