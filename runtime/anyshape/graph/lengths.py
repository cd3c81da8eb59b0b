"""Lengths of vectors that each iteration of a loop computes anew and that inference can decide: `v[i:i+1]` has one element.

A body is compiled once, for all iterations, so a vector whose length decides a rank (the starts of a slice, a shape) must have one length
there. In: a call within a body of which only such lengths are open. Out: the call on vectors that are known to be as long as the others
that the op takes, or as they are where nothing cuts them short. The length is checked where the vector is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from anyshape.dims import Size, bounds, free_symbols, substitute
from anyshape.errors import AnyshapeError
from anyshape.graph.infer import build
from anyshape.graph.opdef import ParamDef
from anyshape.graph.registry import find_op
from anyshape.graph.value import Node, Value, constant

ROOM = 1 << 20
"""The size by which a tensor is assumed to be longer than every slice taken of it, so that no slice is cut short."""

_repeated: ContextVar[bool] = ContextVar("repeated", default=False)


@contextmanager
def repeated() -> Iterator[None]:
    """Marks what is built in this context as a loop body, which runs many times."""
    token = _repeated.set(True)
    try:
        yield
    finally:
        _repeated.reset(token)


def with_lengths(node: Node) -> Node:
    """The call on vectors of known length; the node itself outside of what is repeated, or where nothing tells the lengths."""
    if node.bound is not None or not _repeated.get():
        return node
    open_ = {v: p.name for p, v in _vectors(node) if not isinstance(_length(v), int)}
    beside = {n for _, v in _vectors(node) if isinstance(n := _length(v), int)}
    if not open_:
        return node
    known: dict[Value, Value] = {}
    for v, name in open_.items():
        own = roomy(_length(v))
        length = own if own is not None else beside.pop() if len(beside) == 1 else None
        if length is None:
            return node
        known[v] = as_long(
            v, length, f"{name} of {node.op.full_name}, whose length is one in all iterations", node.source
        )
        beside = {length}
    try:
        inputs = [known.get(v, v) if v is not None else None for v in node.inputs]
        return build(node.op, inputs, node.attrs, node.source, count=node.count)
    except AnyshapeError:
        return node


def as_long(v: Value, length: int, what: str, source: str, axis: int = 0) -> Value:
    """v, known to be of this length along an axis; checked when it is made."""
    shape = [-1] * (v.type.rank or 1)
    shape[axis] = length
    where = f"{what}; {source}" if source else what
    return build(find_op("static.ensure_shape"), [v], {"shape": tuple(shape)}, where).outputs[0]


def roomy(n: Size) -> int | None:
    """The greatest that a length is where one of the sizes in it is larger than all others; None where none of them tells a number.

    `min(i + 1, k) - min(i, k)` is 1 where k is larger than i."""
    if isinstance(n, int):
        return n
    symbols, lengths = free_symbols(n), list[int]()
    for s in symbols:
        if bounds(s)[0] is None:
            continue
        wide: Size = s + ROOM
        for other in symbols - {s}:
            wide = wide + other
        length = substitute(n, {s: wide})
        if isinstance(length, int) and length >= 0:
            lengths.append(length)
    return max(lengths, default=None)


def one_number(v: Value) -> int | None:
    """The number that all elements of a vector are, as far as the call that makes it has the same for vectors of two lengths; whoever
    relies on that checks it."""
    node = v.node
    if node is None or node.regions or node.op.kernel is None:
        return None
    operands = {o for o in node.operand_inputs().values() if o is not None and o.constant is None}
    numbers: set[object] = set()
    for length in (2, 3):
        replaced = [constant(np.full(_count(o), length)) if o in operands else o for o in node.inputs]
        try:
            contents = build(node.op, replaced, node.attrs).outputs[v.index].contents
        except AnyshapeError:
            return None
        numbers.update(contents or (None,))
    number = numbers.pop() if len(numbers) == 1 else None
    return number if isinstance(number, int) else None


def _count(v: Value | None) -> tuple[int, ...]:
    assert v is not None
    return tuple(n if isinstance(n, int) else 1 for n in v.type.shape or ())


def _vectors(node: Node) -> Iterator[tuple[ParamDef, Value]]:
    by_name = node.operand_inputs()
    for p in node.op.operands:
        v = by_name[p.name]
        if v is not None and p.is_vector and v.type.rank == 1:
            yield p, v


def _length(v: Value) -> Size:
    assert v.type.shape is not None
    return v.type.shape[0]
