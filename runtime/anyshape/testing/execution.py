"""The three ways to compute a call: the oracle of the spec, the slow reading of its equations, and native code.

`run_native` is the one place that says what native means.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anyshape
from anyshape.dtypes import DType, from_numpy, parse_dtype
from anyshape.equations.interpret import interpret
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.testing.calls import Call, equations, resolved

Array = NDArray[Any]


def run_reference(c: Call, node: Node) -> list[Array]:
    """The outputs by `reference:`, flattened; absent inputs are their constants, or None where they have none.

    Where a 16-bit float comes in or out, NumPy computes in f32 and the results are rounded once: NumPy itself would round after every
    operation (f16), or knows few of them (bf16).
    """
    given: dict[str, Any] = {}
    for i in node.op.inputs:
        v = c.inputs[i.name]
        if v is None and i.default is not None:
            dtype = node.dtypes[i.dtype] if i.dtype in node.dtypes else parse_dtype(i.dtype)
            v = np.asarray(i.absent(dtype), dtype.numpy)
        given[i.name] = [_widened(a) for a in v] if isinstance(v, list) else None if v is None else _widened(v)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = c.property.reference(**given, **resolved(node, c.property))
    results = result if isinstance(result, (tuple, list)) else [result]
    return [_narrowed(np.asarray(r), o.type.dtype) for r, o in zip(results, node.outputs, strict=True)]


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _widened(a: Array) -> Array:
    return a.astype(np.float32) if _is_half(from_numpy(a.dtype)) else a


def _narrowed(a: Array, dtype: DType) -> Array:
    """A 16-bit result, from what f32 (or f64, where a parameter is one) gives."""
    with np.errstate(over="ignore"):
        return a.astype(dtype.numpy) if _is_half(dtype) and a.dtype.kind == "f" else a


def run_equations(c: Call, node: Node) -> list[Array]:
    """The outputs by the slow reading of the equations (or the view)."""
    if node.op.view:
        source = c.inputs[next(iter(node.op.view.values()))]
        shape = node.outputs[0].type.shape
        assert shape is not None
        return [np.reshape(source, [int(str(n)) for n in shape])]
    eqs, ins, outs = equations(node)
    arrays = dict(zip([t for t in ins if t.absent is None], c.flat_inputs(), strict=True))
    results = interpret(eqs.equations, arrays)
    return [results[t] for t in outs]


_compiled: dict[Hashable, Any] = {}


def run_native(
    key: Hashable, make: Callable[[], tuple[Sequence[Value], Sequence[Value]]], arrays: Mapping[str, Array]
) -> list[Array] | None:
    """Compiled (once for equal keys; `make` gives params and results), then run on arrays by the names of the params.

    None where inference leaves the rank of a result open: what the program does then is tested beside the VM.
    """
    if key not in _compiled:
        if len(_compiled) > 200:
            _compiled.clear()
        params, results = make()
        known = all(v.type.shape is not None for v in results)
        _compiled[key] = anyshape.compile(Function(params, results)) if known else None
    f = _compiled[key]
    if f is None:
        return None
    return list(f.run({name: arrays[name] for name in f.input_names}))


def call_key(c: Call) -> Hashable:
    """What of the inputs is fixed when dims are symbols: which are there, their dtypes and ranks."""
    kinds = []
    for name, v in c.inputs.items():
        arrays = v if isinstance(v, list) else [v]
        kinds.append((name, tuple(None if a is None else (a.dtype.str, a.ndim) for a in arrays)))
    return (c.property.op, tuple(kinds))


def input_arrays(c: Call) -> dict[str, Array]:
    """Arrays by the names that `Call.values` gives their operands."""
    found: dict[str, Array] = {}

    def take(a: Array, name: str) -> Array:
        found[name] = a
        return a

    c.values(take)
    return found
