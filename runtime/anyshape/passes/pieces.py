"""Maps of what is written in pieces, as a concat is: a map for each piece, computed from the piece's own value.

In: equations, producers first. Out: equations in which nobody reads a tensor that several of them write, or None where that cannot be:
what would have to be in memory as a whole before it is read keeps its kernel to itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.dependencies import reads
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var, read
from anyshape.equations.traversal import replace_node, walk

MOST_EQUATIONS = 8
"""The most equations that a map may become: each is a loop of its own."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """`equation` writes `count` positions from `first` on along an axis; along the other axes its own variables, all of them."""

    equation: Equation
    first: Size
    count: Size


def in_pieces(equations: Sequence[Equation]) -> bool:
    """Whether an equation reads what several others write."""
    counts = Counter(q.target for q in equations if q.form is None)
    several = {t for t, n in counts.items() if n > 1}
    return bool(several) and any(several & reads(q) for q in equations)


def by_pieces(equations: Sequence[Equation]) -> tuple[Equation, ...] | None:
    done: list[Equation] = []
    written: dict[Tensor, list[Equation]] = {}
    parts: dict[Equation, Tensor] = {}
    last = {q.target: k for k, q in enumerate(equations)}
    for k, q in enumerate(equations):
        read_tensors = tuple(dict.fromkeys(e.tensor for e in walk(q.value) if isinstance(e, Read)))
        if q.form is not None or any(last.get(t, -1) >= k for t in read_tensors):
            return None
        split: list[Equation] = [q]
        for t in read_tensors:
            if len(written.get(t, ())) > 1:
                several = [None if _reduces(each) else _apart(each, t, written[t], parts) for each in split]
                split = [each for some in several if some is not None for each in some]
                if None in several or len(split) > MOST_EQUATIONS:
                    return None
        written.setdefault(q.target, []).extend(split)
        done += split
    return tuple(each for q in done for each in _with_part(q, parts.get(q)))


def _with_part(q: Equation, part: Tensor | None) -> tuple[Equation, ...]:
    """The equation of a piece, behind that of the piece alone where somebody reads it."""
    if part is None:
        return (q,)
    variables = q.variables
    return replace(q, target=part, index=variables), replace(q, value=read(part, variables))


def _reduces(q: Equation) -> bool:
    return any(isinstance(e, Reduce) for e in walk(q.value))


def _apart(q: Equation, t: Tensor, writers: Sequence[Equation], parts: dict[Equation, Tensor]) -> list[Equation] | None:
    """The equation for each of the pieces that t is written in."""
    for axis in range(len(t.shape)):
        pieces = [_piece(w, axis) for w in writers]
        if all(p is not None for p in pieces) and _tile([p for p in pieces if p is not None], t.shape[axis]):
            return _over(q, t, axis, [p for p in pieces if p is not None], parts)
    return None


def _piece(q: Equation, axis: int) -> _Piece | None:
    indices = [i for k, i in enumerate(q.index) if k != axis]
    plain = all(
        isinstance(i, Var) and i.extent == n for i, n in zip(indices, _without_axis(q.target.shape, axis), strict=True)
    )
    if not plain or len(set(indices)) < len(indices):
        return None
    i, first = q.index[axis], _offset(q.index[axis])
    if first is None or i.free & set(indices):
        return None
    count: Size = next(iter(i.free)).extent if i.free else 1
    return _Piece(q, first, count)


def _without_axis(shape: Sequence[Size], axis: int) -> list[Size]:
    return [n for k, n in enumerate(shape) if k != axis]


def _offset(i: Expr) -> Size | None:
    """The offset that an index adds to its variable; the whole index where it has none."""
    total: Size = 0
    variables, left = 0, [i]
    while left:
        e = left.pop()
        if isinstance(e, Apply) and e.op == "add":
            left += e.args
        elif isinstance(e, Const):
            total = total + int(e.value)
        elif isinstance(e, Scalar) and isinstance(e.size, int | Dim):
            total = total + e.size
        elif isinstance(e, Var) and not variables:
            variables = 1
        else:
            return None
    return total


def _tile(pieces: Sequence[_Piece], extent: Size) -> bool:
    """Whether the pieces cover the axis, one directly after the other."""
    at: Size = 0
    for p in pieces:
        if dims.eq(p.first, at) is not True:
            return False
        at = at + p.count
    return dims.eq(at, extent) is True


def _over(
    q: Equation, t: Tensor, axis: int, pieces: Sequence[_Piece], parts: dict[Equation, Tensor]
) -> list[Equation] | None:
    accesses = {e for e in walk(q.value) if isinstance(e, Read) and e.tensor is t}
    along = {e.index[axis] for e in accesses}
    (i, *more) = along
    if more or not isinstance(i, Var) or i not in q.variables or any(e.outside is not None for e in accesses):
        return None
    if i.extent != t.shape[axis]:
        return None  # a part of the pieces, of which only the run may know where it ends
    if any(e.tensor is t for part in q.index for e in walk(part) if isinstance(e, Read)):
        return None
    for p in pieces:
        w = p.equation
        if w not in parts:
            parts[w] = Tensor(f"{t.name}_{len(parts)}", t.dtype, tuple(v.extent for v in w.variables))
    return [_one(q, accesses, axis, i, p.equation, parts[p.equation]) for p in pieces]


def _one(q: Equation, accesses: set[Read], axis: int, i: Var, piece: Equation, part: Tensor) -> Equation:
    """The equation at the positions of one piece, which reads the piece alone."""
    place = piece.index[axis]
    own: dict[Expr, Expr] = {v: Var(v.name, v.extent) for v in place.free}
    done: dict[Expr, Expr] = {i: replace_node(place, own)}
    for e in sorted(accesses, key=lambda e: e.serial):
        values = own | {v: replace_node(e.index[k], done) for k, v in enumerate(piece.index) if k != axis}
        done[e] = read(part, [values[v] for v in piece.variables])
    index = tuple(replace_node(k, done) for k in q.index)
    return replace(q, index=index, value=replace_node(q.value, done))
