"""`match_shape(x, "f32[n, 10]")`: a type written in the middle of a program, checked there and known from there on.

In: a value and the text of a type. Out: the same value through `ensure_shape`, its wanted dims an operand. A name in the text
stands for a size of the function that the call ends up in: a dim of an input that has the name, or else the dim at which the
name is written first. Which that is shows only when the function is closed, so until then the name is a `NamedDim`, and
`resolved` puts the size in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anyshape.dims import Dim, Size
from anyshape.dtypes import parse_dtype
from anyshape.errors import DtypeError, ParseError, ShapeError
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import Function, topological
from anyshape.graph.infer import rebuild
from anyshape.graph.matching import make
from anyshape.graph.value import Value, constant
from anyshape.types import TensorType, parse_type

I64 = parse_dtype("i64")


class NamedDim(Value):
    """A size that a text calls by a name, as a vector of one item; `of` and `axis` say where it is written."""

    __slots__ = ("axis", "of", "size")

    def __init__(self, size: Dim, of: Value, axis: int) -> None:
        super().__init__(TensorType(I64, (1,)), f"dim {size}", contents=(size,))
        self.size, self.of, self.axis = size, of, axis


def match_shape(x: Value, type: str, source: str = "") -> Value:
    """x, known to be of this type: numbers are checked, `?` is anything, a name is the same size wherever the function says it.

    Raises DtypeError or ShapeError where x cannot be of that type, ParseError for a text that is none.
    """
    wanted = parse_type(type)
    if x.type.dtype is not wanted.dtype:
        raise DtypeError(f"match_shape: wanted {type}, got {x.type}; use cast to change the dtype")
    if wanted.shape is None:
        return x
    if x.type.rank not in (None, wanted.rank):
        raise ShapeError(f"match_shape: wanted {type}, of rank {wanted.rank}, got {x.type}")
    pieces = [_piece(n, x, axis, type) for axis, n in enumerate(wanted.shape)]
    if all(p.constant is not None for p in pieces):
        shape: Value = constant(np.concatenate([np.zeros(0, np.int64), *(p.constant for p in pieces)]))
    else:
        shape = make("concat", [pieces], {"axis": 0}, source)
    return make("ensure_shape", [x], {"shape": shape}, source)


def _piece(n: Size, x: Value, axis: int, text: str) -> Value:
    """One wanted dim as a vector of one item; -1 for `?`."""
    if isinstance(n, int):
        return constant(np.array([n], np.int64))
    if str(n).startswith("?"):
        return constant(np.array([-1], np.int64))
    if not n.is_symbol:
        raise ParseError(
            f"match_shape: {text!r}: a dim is a number, a name or ?, got {n}; name it, and say the rest of the name"
        )
    return NamedDim(n, x, axis)


def resolved(params: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    """The results with every name of a dim read off an input, or off the value at which it is written first."""
    nodes = topological(results)
    if not any(isinstance(v, NamedDim) for node in nodes for v in node.inputs):
        return list(results)
    scope = _entry_names(params)
    entry = EntryFacts(Function(params, ()))
    mapped: dict[Value, Value] = {}
    for node in nodes:
        for v in node.inputs:
            if isinstance(v, NamedDim):
                of, axis = scope.setdefault(str(v.size), (v.of, v.axis))
                mapped[v] = make("shape_of", [mapped.get(of, of)], {"start": axis, "end": axis + 1}, node.source)
        made = rebuild(node, tuple(v if v is None else mapped.get(v, v) for v in node.inputs), entry.facts)
        entry.learn(made)
        mapped.update(zip(node.outputs, made.outputs, strict=True))
    return [mapped.get(v, v) for v in results]


def _entry_names(params: Sequence[Value]) -> dict[str, tuple[Value, int]]:
    found: dict[str, tuple[Value, int]] = {}
    for p in params:
        for axis, n in enumerate(p.type.shape or ()):
            if isinstance(n, Dim) and n.is_symbol and not str(n).startswith("?"):
                found.setdefault(str(n), (p, axis))
    return found
