"""Windows that move over an operand: recognised, and moved to a copy in scratch from which every tap reads contiguously.

In: the body of a reduction over window variables. Out: `Staged`, a copy of what the window sees with its pads written out and, where the
window moves by more than one, with the elements of equal remainder side by side; and the body once more for each tap, reading from there.
So no read has a mask or a stride, and pads are computed once instead of at every tap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import F32, DType
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import contiguous
from anyshape.lower.analyse.collapse import Numbered, Rebuild
from anyshape.lower.ir.dag import (
    Access,
    Affine,
    Dag,
    DagNode,
    IndexBound,
    Load,
    LoopVar,
    Operation,
    Reduction,
    affine,
    walk,
)
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.ir.stores import Store, below, reductions_of

ROOM = 4096
"""Elements of all copies of planes together, if that is more than one: with them and the results, a part of the first cache."""
SLACK = 128
"""Elements past a plane that whole vectors may read or write: several of the longest."""
ROWS = 8
"""Rows of results whose taps are read together: as many sums as hide how long each addition takes."""
TAPS = 64
"""The most taps that are written out."""
LONG = 15
"""Results of a row from which on a vector of 16 lanes, the most that products have, is in two rows at most, wherever it begins."""
Tap = TypeVar("Tap", bound=DagNode)
_STEPS, _SPREADS = range(1, 5), range(2, 17)


@dataclass(frozen=True)
class Moving:
    """One dim of a window: element `step * position + spread * tap` of what it moves over, counted from the start of that."""

    position: LoopVar
    tap: LoopVar
    step: int
    spread: int

    @property
    def reach(self) -> int:
        """The distance from the first tap to the last."""
        assert isinstance(self.tap.extent, int)
        return self.spread * (self.tap.extent - 1)


@dataclass(frozen=True, slots=True)
class RowEnd:
    """The elements at one end of a row of a copy: `access` reads the original at `variable`, and `value` is made of that."""

    variable: LoopVar
    access: Access
    value: DagNode


@dataclass(eq=False, kw_only=True)
class Staged:
    """The copy: [channels][remainders][places], the places being those of windows and their reach beyond the last.

    `access` reads the original at `along`, one variable per dim that runs over `lengths`; the copy has `value`, which is made of that, and
    `outside` where its bounds do not hold. `ends` have the same value where a row begins and where it ends, at variables of their own for
    the last of `along`, so that the masks of the first and the last vectors are computed once for all rows. `fixed` are variables that
    stand for small numbers, so that addresses share their products with sizes.
    """

    tensor: Tensor
    access: Access
    value: DagNode
    ends: tuple[RowEnd, RowEnd]
    outside: DagNode | None
    moving: tuple[Moving, ...]
    channels: tuple[LoopVar, ...]
    along: tuple[LoopVar, ...]
    lengths: tuple[Size, ...]
    pitches: tuple[Size, ...]
    plane: Size
    channel_pitches: tuple[Size, ...]
    fixed: dict[int, LoopVar]
    size: Size
    slot: LoopVar | None
    """Number of the copy, of several of `size` elements, where planes are copied some ahead of the one that is reduced."""

    @property
    def remainder_pitches(self) -> tuple[int, ...]:
        """How many planes apart the remainders of each dim are."""
        return tuple(math.prod(m.step for m in self.moving[k + 1 :]) for k in range(len(self.moving)))

    @property
    def result_pitches(self) -> tuple[Size, ...]:
        """How far apart results are in each dim as a product counts them. Short rows of results have as many as the rows of the copy have
        places, of which the last are no results."""
        if len(self.moving) == 1:
            return self.pitches
        pitch, count = self.pitches[-2], self.moving[-1].position.extent
        return (*self.pitches[:-2], dims.select(dims.ge(count, LONG), count, pitch), 1)


@dataclass(eq=False)
class Windows(Generic[Tap]):
    """A reduction by taps, in its order: as reductions of one element each, or as the values that a product sums."""

    staged: Staged
    taps: tuple[Tap, ...]
    below: tuple[tuple[Tap, ...], ...] = ()
    """The taps of the results below, row by row: they have elements in common, and all that does not vary with the row."""


@dataclass(eq=False)
class Folded:
    """A reduction over windows of several dims whose taps differ in nothing but the place, one dim after the other.

    What the taps of all dims but the last give at a place of the last is its column, which the windows of several places have in common.
    `columns` are where those taps read for a result's first column, one tuple for each remainder of the last dim that is in use; `taps` say
    for each tap of the last dim which of them it needs, and how many places further on.
    """

    staged: Staged
    reduction: Reduction
    columns: tuple[tuple[Affine, ...], ...]
    taps: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _WindowRead:
    """A load, or the choice between it and what is outside of its bounds."""

    node: DagNode
    load: Load
    outside: DagNode | None = None


def row_windows(dag: Dag, stores: Sequence[Store]) -> Windows[Reduction] | Folded | None:
    """The windows of stores whose one reduction runs over a window and nothing else, and that store contiguously what the window moves
    along."""
    reds = reductions_of(stores)
    if len(reds) != 1 or reds[0].kind not in ("sum", "prod", "max", "min"):
        return None
    (r,) = reds
    if any(s.domain != r.domain or not s.access.is_plain for s in stores) or _has_checks(stores):
        return None
    staging = _staged(dag, r, stores, spare=ROWS - 1, several=True)
    if staging is None or staging[0].channels or _is_open(stores, staging[0]):
        return None
    staged, read = staging
    if _is_row(staged):
        return None
    folded = _folded(dag, staged, read, r)
    if folded is not None:
        return folded
    staged, read = _widened(dag, staged, read, r)
    rows = [_taps(dag, staged, read, r.body, {}, row) for row in range(_rows_at_once(dag, r, read, staged))]
    taps, *below = (tuple(dag.red(r.kind, (), body, r.dtype) for body in bodies) for bodies in rows)
    return Windows(staged, taps, tuple(below))


def _widened(dag: Dag, staged: Staged, read: _WindowRead, r: Reduction) -> tuple[Staged, _WindowRead]:
    """The copy as f32 where the body takes floats of 16 bits as such, so that none is converted at a tap."""
    users = [n for n in walk([r.body]) if read.node in n.inputs]
    if not (read.node.dtype.is_float and read.node.dtype.bits == 16):
        return staged, read
    match users:
        case [Operation("cast") as wide] if wide.dtype == F32:
            return _copied_as(staged, F32, lambda n: dag.op("cast", F32, n)), replace(read, node=wide)
    return staged, read


def _copied_as(staged: Staged, dtype: DType, value_of: Callable[[DagNode], DagNode]) -> Staged:
    """A copy of what is made of each element."""
    first, last = staged.ends
    return replace(
        staged,
        tensor=Tensor("staged", dtype, staged.tensor.shape),
        value=value_of(staged.value),
        ends=(replace(first, value=value_of(first.value)), replace(last, value=value_of(last.value))),
        outside=None if staged.outside is None else value_of(staged.outside),
    )


def _rows_at_once(dag: Dag, r: Reduction, read: _WindowRead, staged: Staged) -> int:
    """How many rows of results have taps of their own: one where the taps vary with the row by more than the elements."""
    without_read = Rebuild(dag, {read.node: dag.const(0, read.node.dtype)}).node(r.body)
    return ROWS if len(staged.moving) > 1 and staged.moving[-2].position not in without_read.domain else 1


def _folded(dag: Dag, staged: Staged, read: _WindowRead, r: Reduction) -> Folded | None:
    """The reduction one dim after the other, of a copy of what is reduced, if that depends on the element and not on where it is seen from.
    Floats of 16 bits are copied as f32, so that none is converted at a tap."""
    if len(staged.moving) < 2 or r.dtype != r.body.dtype or r.dtype.is_narrow or r.dtype.kind == "bool":
        return None
    dtype = F32 if r.dtype.is_float and r.dtype.bits == 16 else r.dtype
    copy = _copied_as(staged, dtype, lambda n: _body_of(dag, r, read, n, dtype))
    seen_from = {v for m in staged.moving for v in (m.position, m.tap)}
    if copy.value.domain & seen_from or (copy.outside is not None and copy.outside.domain):
        return None
    *outer, last = staged.moving
    remainders = list(dict.fromkeys(last.spread * k % last.step for k in _steps_of(last)))
    columns = [
        tuple(_address(staged, (*numbers, k), {}) for numbers in itertools.product(*map(_steps_of, outer)))
        for k in (next(k for k in _steps_of(last) if last.spread * k == remainder) for remainder in remainders)
    ]
    taps = [divmod(last.spread * k, last.step) for k in _steps_of(last)]
    return Folded(copy, r, tuple(columns), tuple((remainders.index(k), shift) for shift, k in taps))


def _body_of(dag: Dag, r: Reduction, read: _WindowRead, element: DagNode, dtype: DType) -> DagNode:
    """What is reduced of an element, in a dtype that has all its values."""
    body = Rebuild(dag, {read.node: element}).node(r.body)
    return body if dtype == r.dtype else dag.op("cast", dtype, body)


def staged_taps(
    dag: Dag, r: Reduction, stores: Sequence[Store], value: DagNode
) -> tuple[Staged, dict[tuple[int, ...], DagNode]] | None:
    """The copy that a summed value is read from, if it is seen through windows and nothing else is summed over; and the value at each
    tap."""
    staging = _staged(dag, r, stores, value, several=True)
    if staging is None or _is_open(stores, staging[0]) or _is_row(staging[0]):
        return None
    staged, read = staging
    if r.variables != tuple(m.tap for m in staged.moving):
        return None
    return staged, dict(zip(_numbers(staged), _taps(dag, staged, read, value, {}), strict=True))


def product_windows(
    dag: Dag, r: Reduction, b: DagNode, stores: Sequence[Store], stored_along: bool = True
) -> tuple[Windows[DagNode], LoopVar] | None:
    """The windows that `b` reads in a sum of products over channels, then taps: the taps of `b`, and the variable of its columns. In two
    dims columns count the results of all rows, as `Staged.result_pitches` has it. `stored_along`: results have to be contiguous along the
    last position."""
    staging = _staged(dag, r, stores, b, stored_along)
    if staging is None or len(staging[0].moving) > 2:
        return None
    staged, read = staging
    if r.variables != (*staged.channels, *(m.tap for m in staged.moving)):
        return None
    last = staged.moving[-1].position
    n = last if len(staged.moving) == 1 else dag.variable(staged.moving[0].position.extent * staged.result_pitches[0])
    merged = {m.position: n for m in staged.moving}
    taps = _taps(dag, staged, read, b, merged)
    positions = {m.position for m in staged.moving} - {n}
    if any(t.domain & positions for t in taps):
        return None
    return Windows(staged, taps), n


def _has_checks(stores: Sequence[Store]) -> bool:
    return any(isinstance(n, Load) and n.access.checks for n in below(stores))


def _is_row(staged: Staged) -> bool:
    """Whether each result has a short row of its own. A copy pays off for pairs, which one shuffle separates, and not for more."""
    (first, *inner) = staged.moving
    return not inner and first.step > max(first.reach, 2) and not staged.access.bounds


def _is_open(stores: Sequence[Store], staged: Staged) -> bool:
    """Whether only the run decides if an operand is broadcast along the vectors: plain rows have loops for either."""
    last = staged.moving[-1].position
    steps = (n.access.address.coefficient(last) for n in below(stores) if isinstance(n, Load))
    return any(not isinstance(c, int) and contiguous(c) for c in steps)


def _staged(
    dag: Dag,
    r: Reduction,
    stores: Sequence[Store],
    body: DagNode | None = None,
    stored_along: bool = True,
    spare: int = 0,
    several: bool = False,
) -> tuple[Staged, _WindowRead] | None:
    """The one read of the body that sees windows, and its copy, which has room for `spare` more rows of results; `several`: of planes
    there are some at a time."""
    over, shared = r.variables, stores[0].variables
    along = {v for v in shared if not stored_along or all(s.access.address.coefficient(v) == 1 for s in stores)}
    body = r.body if body is None else body
    nodes = walk([body])
    if any(isinstance(n, Reduction) for n in nodes):
        return None
    moving = ((read, _moving(read.load.access, over, shared, along, body is r.body)) for read in _reads(nodes))
    seen = [(read, pairs) for read, pairs in moving if pairs]
    if len(seen) != 1:
        return None
    ((read, pairs),) = seen
    access = read.load.access
    taps = [m.tap.extent for m in pairs]
    if math.prod(n for n in taps if isinstance(n, int)) > TAPS or any(v not in access.domain for v in over):
        return None
    channels = tuple(v for v in over if all(v is not m.tap for m in pairs))
    return _copy(dag, read, pairs, channels, spare, several), read


def _moving(
    x: Access, over: Sequence[LoopVar], shared: Sequence[LoopVar], along: Set[LoopVar], whole: bool
) -> tuple[Moving, ...]:
    """The pairs of an access that sees windows along vectors, or none; `whole`: all of the sum reads it."""
    pairs = _pairs(x, over, shared)
    if not whole:
        pairs = tuple(m for m in pairs if m is pairs[-1] or m.step <= m.reach or _is_bounded(x, m))
    fits = bool(pairs) and pairs[-1].position in along and _in_order(x, pairs) and _bounded(x, pairs)
    return pairs if fits else ()


def _reads(nodes: Sequence[DagNode]) -> list[_WindowRead]:
    """Padded reads, and loads that are not in one."""
    padded = [_WindowRead(n, p.load, p.outside) for n in nodes if (p := padded_load(n)) is not None]
    inside = {read.load for read in padded}
    loads = [_WindowRead(n, n) for n in nodes if isinstance(n, Load) and n not in inside and not n.access.bounds]
    return [read for read in (*padded, *loads) if not read.load.access.checks and not read.load.access.address.lets]


def _pairs(x: Access, over: Sequence[LoopVar], shared: Sequence[LoopVar]) -> tuple[Moving, ...]:
    """Pairs of variables that move together, derived from their coefficients, in the order of `over`. In an image of known size a channel
    is a number of rows, and a row a number of elements, so the closest pairs come first."""
    close: list[Moving] = []
    for q in over:
        c = x.address.coefficient(q)
        if c != 0 and isinstance(q.extent, int) and q.extent >= 1:
            steps = ((p, _together(x.address.coefficient(p), c)) for p in shared)
            close += [m for p, s in steps if s is not None and not _is_apart(m := Moving(p, q, *s))]
    pairs: list[Moving] = []
    for m in sorted(close, key=lambda m: m.step * m.spread):
        if all(m.position is not p.position and m.tap is not p.tap for p in pairs):
            pairs.append(m)
    return tuple(sorted(pairs, key=lambda m: over.index(m.tap)))


def _is_apart(m: Moving) -> bool:
    """Whether no two windows share an element, since one tap is beyond all that the tap before it sees."""
    return m.spread > 1 and isinstance(m.position.extent, int) and m.spread >= m.position.extent


def _together(position: Size, tap: Size) -> tuple[int, int] | None:
    """Returns (step, spread) of a window by its coefficients, one of them 1; None if they are of none."""
    if position == 0:
        return None
    for k in _STEPS:
        if position == tap * k:
            return k, 1
    for k in _SPREADS:
        if tap == position * k:
            return 1, k
    return None


def _in_order(x: Access, pairs: tuple[Moving, ...]) -> bool:
    """Whether the last dim is the one whose elements are contiguous, and no other window has them."""
    last = pairs[-1]
    return x.address.coefficient(last.position) == last.step and x.address.coefficient(last.tap) == last.spread


def _bounded(x: Access, pairs: tuple[Moving, ...]) -> bool:
    """Whether every bound is about one dim of the window, or about none."""
    variables = {v for m in pairs for v in (m.position, m.tap)}
    for b in x.bounds:
        own = {v: c for v, c in b.index.terms if v in variables}
        fits = any(own == {m.position: m.step, m.tap: m.spread} for m in pairs)
        single = any(m.tap.extent == 1 and own == {m.position: m.step} for m in pairs)
        if b.index.lets or b.guard is not None or (own and not fits and not single):
            return False
    return True


def _is_bounded(x: Access, m: Moving) -> bool:
    return any(b.index.coefficient(m.tap) != 0 for b in x.bounds)


def _copy(
    dag: Dag, read: _WindowRead, pairs: tuple[Moving, ...], channels: tuple[LoopVar, ...], spare: int, several: bool
) -> Staged:
    access = read.load.access
    lengths = tuple(m.step * (m.position.extent - 1) + m.reach + 1 for m in pairs)
    places = [m.position.extent + m.reach // m.step for m in pairs]
    pitches: list[Size] = [1]
    for n in reversed(places[1:]):
        pitches.insert(0, pitches[0] * n)
    below = spare * pitches[-2] if len(pairs) > 1 else 0
    plane = pitches[0] * places[0] + below + SLACK + pairs[-1].reach
    size: Size = plane * math.prod(m.step for m in pairs)
    channel_pitches: list[Size] = []
    for v in reversed(channels):
        channel_pitches.insert(0, size)
        size = size * v.extent
    along = tuple(dag.variable(n) for n in lengths)
    first, last = (_row_end(dag, access, pairs, along[:-1], lengths[-1]) for _ in range(2))
    numbers = {k for m in pairs for k in range(max(m.reach // m.step + 1, 1) + spare)} | set(
        range(math.prod(m.step for m in pairs))
    )
    fixed = {k: dag.variable(k + 1) for k in sorted(numbers)}
    tensor = Tensor("staged", read.node.dtype, (dims.maximum(size, ROOM) if several else size,))
    original = _JoinedVariables(dag, pairs, along).access(access)
    return Staged(
        tensor=tensor,
        access=original,
        value=dag.load(original),
        ends=(first, last),
        outside=read.outside,
        moving=pairs,
        channels=channels,
        along=along,
        lengths=lengths,
        pitches=tuple(pitches),
        plane=plane,
        channel_pitches=tuple(channel_pitches),
        fixed=fixed,
        size=size,
        slot=dag.variable(ROOM) if several else None,
    )


def _row_end(dag: Dag, x: Access, pairs: tuple[Moving, ...], outer: tuple[LoopVar, ...], length: Size) -> RowEnd:
    variable = dag.variable(length)
    access = _JoinedVariables(dag, pairs, (*outer, variable)).access(x)
    return RowEnd(variable, access, dag.load(access))


class _JoinedVariables(Rebuild):
    """Rewrites position and tap of each dim as one variable, the element of what the window moves over."""

    def __init__(self, dag: Dag, pairs: tuple[Moving, ...], along: tuple[LoopVar, ...]) -> None:
        super().__init__(dag)
        self.kept = {(m.tap if m.spread == 1 else m.position): u for m, u in zip(pairs, along, strict=True)}
        self.dropped = {(m.position if m.spread == 1 else m.tap) for m in pairs}

    def affine(self, x: Affine) -> Affine:
        return affine([(self.kept.get(v, v), c) for v, c in x.terms if v not in self.dropped], x.offset)

    def bound(self, b: IndexBound) -> IndexBound:
        return IndexBound(self.affine(b.index), b.extent, b.error)


def _taps(
    dag: Dag, staged: Staged, read: _WindowRead, body: DagNode, merged: dict[LoopVar, LoopVar], row: int = 0
) -> tuple[DagNode, ...]:
    """The body for each tap, the last dim running fastest, of results so many rows below."""
    taps = []
    for numbers in _numbers(staged):
        load = dag.load(Access(staged.tensor, _address(staged, numbers, merged, row)))
        chosen = {m.tap: k for m, k in zip(staged.moving, numbers, strict=True)}
        taps.append(Numbered(dag, {read.node: load}, chosen).node(body))
    return tuple(taps)


def _numbers(staged: Staged) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(_steps_of, staged.moving))


def _steps_of(m: Moving) -> range:
    assert isinstance(m.tap.extent, int)
    return range(m.tap.extent)


def _address(staged: Staged, numbers: tuple[int, ...], merged: dict[LoopVar, LoopVar], row: int = 0) -> Affine:
    terms: list[tuple[LoopVar, Size]] = list(zip(staged.channels, staged.channel_pitches, strict=True))
    if staged.slot is not None:
        terms.append((staged.slot, staged.size))
    plane, offset, rows = 0, 0, staged.moving[-2] if row else None
    for m, k, pitch, planes in zip(staged.moving, numbers, staged.pitches, staged.remainder_pitches, strict=True):
        shift, remainder = divmod(m.spread * k, m.step)
        shift += row if m is rows else 0
        plane += remainder * planes
        if isinstance(pitch, int):
            offset += shift * pitch
        elif shift:
            terms.append((staged.fixed[shift], pitch))
        if not merged:
            terms.append((m.position, pitch))
    if merged:
        terms.append((merged[staged.moving[-1].position], 1))
    if plane:
        terms.append((staged.fixed[plane], staged.plane))
    return affine(terms, offset)
