"""Computes a call by the reference of its spec."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, DType, from_numpy
from anyshape.graph.infer import absent_dtype
from anyshape.graph.opdef import InputDef
from anyshape.graph.value import Node
from anyshape.properties import BrokenReference
from anyshape.strings import as_chars, as_strings, is_text
from anyshape.types import TensorType
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import resolved

Array = NDArray[Any]


def run_reference(c: Call, node: Node) -> list[Array]:
    """Computes the outputs by `reference:`, flattened, and caches them; absent inputs are their default constants, or None.

    16-bit floats are computed in f32, and results rounded once: NumPy itself rounds after every operation (f16), or has few of them (bf16).
    An op that reads bits gets the original arrays. Raises BrokenReference, with the line of the spec, where the reference raises.
    """
    return c.cached("reference", node, lambda: _reference(c, node))


def _reference(c: Call, node: Node) -> list[Array]:
    inputs: dict[str, Any] = {}
    reads_bits = any(name == "bitcast" for name, *_ in node.op.computed.values())
    shown = np.asarray if reads_bits else _shown
    for i in node.op.inputs:
        v = c.inputs[i.name]
        if v is None and i.default is not None:
            v = in_place_of_nothing(i, node)
        inputs[i.name] = [shown(a) for a in v] if isinstance(v, list) else None if v is None else shown(v)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = c.property.reference(**inputs, **resolved(node))
        results = result if isinstance(result, (tuple, list)) else [result]
        assert len(results) == len(node.outputs), f"{len(results)} results for {len(node.outputs)} outputs"
        return [_as_computed(np.asarray(r), o.type) for r, o in zip(results, node.outputs, strict=True)]
    except Exception as e:
        where = c.property.reference_source or c.property.source
        raise BrokenReference(f"in the reference of {c.property.op}, {where}: {type(e).__name__}: {e}") from e


def in_place_of_nothing(i: InputDef, node: Node) -> Array:
    """Returns the constant that an absent input is read as."""
    dtype = absent_dtype(node, i.dtype)
    return np.asarray(i.absent(dtype), dtype.numpy)


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _widened(a: Array) -> Array:
    return a.astype(np.float32) if _is_half(from_numpy(a.dtype)) else a


def _shown(a: Array) -> Array:
    """Converts an array to what references take: tensors of characters become strings, 16-bit floats f32."""
    return as_strings(a) if a.dtype == CHAR.numpy and a.ndim else _widened(a)


def _as_computed(a: Array, t: TensorType) -> Array:
    """Converts a result of a reference to the op's type: strings become characters, as many as the type has."""
    if t.dtype is not CHAR or not is_text(a):
        return _narrowed(a, t.dtype)
    chars = as_chars(a)
    width = t.shape[-1] if t.shape is not None and isinstance(t.shape[-1], int) else chars.shape[-1]
    longest = int(np.max((chars != "") * np.arange(1, chars.shape[-1] + 1), initial=0))
    assert longest <= width, f"a string of {longest} characters in {t}"
    return np.concatenate([chars[..., :width], np.zeros((*a.shape, max(width - chars.shape[-1], 0)), CHAR.numpy)], -1)


def _narrowed(a: Array, dtype: DType) -> Array:
    """Rounds a result that was computed in f32 or f64 to a 16-bit float, where the type is one."""
    with np.errstate(over="ignore"):
        return a.astype(dtype.numpy) if _is_half(dtype) and a.dtype.kind == "f" else a
