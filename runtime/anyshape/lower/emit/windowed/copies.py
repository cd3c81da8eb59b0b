"""Copies of what windows see as code: planes of scratch with their pads, filled row by row.

In: a `Staged`, and the variables outside of it, bound. Out: its elements in scratch, by remainder where the window moves by more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from anyshape.lower.analyse.windows import RowEnd, Staged
from anyshape.lower.emit.loops.nest import Accumulators, nest_carrying
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.dag import Access, DagNode, IndexBound, Load, LoopVar
from anyshape.lower.ir.padded import is_zero
from anyshape.lower.llvm.interleaving import separated
from anyshape.lower.llvm.types import I32, I64, Val, const


def prepare(ctx: KernelContext, staged: Staged) -> None:
    """Reserves scratch for the copy, and binds the numbers that addresses are made of."""
    ctx.memory.place(staged.tensor, padded=True)
    if any(m.step > 1 for m in staged.moving):
        ctx.values.apart.add(staged.tensor)
    ctx.levels.bind(staged.ends[0].variable, const(I64, 0))
    for number, v in staged.fixed.items():
        ctx.levels.bind(v, const(I64, number))


def bind_ends(ctx: KernelContext, staged: Staged) -> None:
    """Binds where the last vectors of a row begin, ahead of all rows: behind the first ones, and those that lie inside of its bound."""
    f, at_once, limit = ctx.f, staged.moving[-1].step * ctx.lanes, _row_limit(staged)
    length = ctx.sizes.of(staged.lengths[-1])
    first, stop = (const(I64, 0), length) if limit is None else _range_inside(ctx, limit, length)
    stop = f.smax(f.select(f.compare("le", first, at_once), stop, 0), at_once)
    ctx.levels.bind(staged.ends[1].variable, f.mul(f.binary("udiv", stop, const(I64, at_once)), at_once))


def fill_pads(ctx: KernelContext, staged: Staged) -> None:
    """Writes the pad's value everywhere: rows of pads are the same for all planes, and stay."""
    if not _has_rows_of_pads(staged):
        return
    assert staged.outside is not None
    f, element = ctx.f, elementwise.memory_type(staged.tensor.dtype)
    value = elementwise.store_value(f, staged.tensor.dtype, ctx.values.of(staged.outside))
    lanes = ctx.lanes
    with ctx.levels.loop(0, ctx.sizes.of(staged.tensor.shape[0]), lanes) as iteration:
        f.store(f.splat(value, lanes), f.gep(ctx.memory.base(staged.tensor), iteration.index, element))


def _has_rows_of_pads(staged: Staged) -> bool:
    return any(_limit(staged, dim) for dim in range(len(staged.along) - 1))


def _limit(staged: Staged, dim: int) -> IndexBound | None:
    """The bound that only the index along this dim decides."""
    own = [b for b in staged.access.bounds if b.index.coefficient(staged.along[dim]) != 0]
    alone = ((staged.along[dim], 1),)
    if staged.outside is None or len(own) != 1 or own[0].index.terms != alone or own[0].index.lets or own[0].guard:
        return None
    return own[0]


def _row_limit(staged: Staged) -> IndexBound | None:
    return _limit(staged, len(staged.along) - 1)


def fill(ctx: KernelContext, staged: Staged, pads: bool = True, seen_nan: Sequence[Val] = ()) -> list[Val]:
    """Writes the copy, the variables outside of it being bound; without `pads`, those that `fill_pads` has written are left as they are.
    Returns `seen_nan`, if there is one, with the lanes that have met NaN."""

    slot = const(I64, 0) if staged.slot is None else ctx.levels.indices[staged.slot]

    def rows(sums: Accumulators) -> Accumulators:
        return [_rows(ctx, staged, 0, ctx.f.mul(slot, ctx.sizes.of(staged.size)), pads, sums[0])]

    return nest_carrying(ctx, staged.channels, [[*seen_nan]], rows)[0]


def _rows(ctx: KernelContext, staged: Staged, dim: int, place: Val, pads: bool, seen_nan: Sequence[Val]) -> list[Val]:
    """Writes the rows of the copy; `place` is where the elements with the indices so far begin."""
    f = ctx.f
    length = ctx.sizes.of(staged.lengths[dim])
    if dim == len(staged.along) - 1:
        for v, pitch in zip(staged.channels, staged.channel_pitches, strict=True):
            place = f.add(place, f.mul(ctx.levels.indices[v], ctx.sizes.of(pitch)))
        return _CopiedRow(ctx, staged, place, length, pads or not _has_rows_of_pads(staged)).emit(seen_nan)
    step, limit = staged.moving[dim].step, None if pads else _limit(staged, dim)
    first, held = const(I64, 0), set[IndexBound]()
    if limit is not None:
        first, length = _range_inside(ctx, limit, length)
        held = {limit} - ctx.values.holding
    with ctx.levels.loop(first, length, 1, seen_nan) as iteration, ctx.values.held(held):
        ctx.levels.bind(staged.along[dim], iteration.index)
        quotient = f.binary("udiv", iteration.index, const(I64, step)) if step > 1 else iteration.index
        place = f.add(place, f.mul(quotient, ctx.sizes.of(staged.pitches[dim])))
        if step > 1:
            remainder = f.sub(iteration.index, f.mul(quotient, step))
            planes = f.mul(ctx.sizes.of(staged.plane), staged.remainder_pitches[dim])
            place = f.add(place, f.mul(remainder, planes))
        iteration.next(_rows(ctx, staged, dim + 1, place, pads, iteration.carried))
    return [*iteration.results]


def _range_inside(ctx: KernelContext, limit: IndexBound, length: Val) -> Range:
    """The first index along a dim of so many at which its bound holds, and the one after the last."""
    f = ctx.f
    before = f.neg(ctx.sizes.of(limit.index.offset))
    return f.smax(before, 0), f.smin(f.add(before, ctx.sizes.of(limit.extent)), length)


class _CopiedRow:
    """The elements of the last dim, side by side in the original, by remainder in the copy. `pads`: those at its ends are written too."""

    def __init__(self, ctx: KernelContext, staged: Staged, place: Val, length: Val, pads: bool) -> None:
        self.ctx, self.staged, self.place, self.length = ctx, staged, place, length
        self.lanes = ctx.lanes
        self.step = staged.moving[-1].step
        self.at_once = self.step * self.lanes
        self.element = elementwise.memory_type(staged.tensor.dtype)
        self.limit = _row_limit(staged)
        self.bounds = {b for b in staged.access.bounds if b not in ctx.values.holding}
        self.is_plain = self.bounds <= {self.limit}
        """Whether all that is to be tested of an element is the bound along the row."""
        self.only_inside = self.is_plain and bool(self.bounds) and not pads and self.step == 1

    def emit(self, seen_nan: Sequence[Val]) -> list[Val]:
        """Emits the row without its pads, if these are there already; else the first vectors, and what follows if it is longer."""
        if self.only_inside:
            return self.inside(seen_nan)
        f, count = self.ctx.f, self.at_once
        seen = self.end(self.staged.ends[0], const(I64, 0), seen_nan)
        with self.ctx.levels.when(f.compare("gt", self.length, count), seen) as more:
            more.next(self.following(more.carried))
        return [*more.results]

    def following(self, seen_nan: Sequence[Val]) -> list[Val]:
        """Emits the vectors inside of the bound, the last ones of the row, and what is left if there is no telling where these are."""
        f, levels, count, end = self.ctx.f, self.ctx.levels, self.at_once, self.staged.ends[1]
        first, seen = const(I64, count), [*seen_nan]
        if self.is_plain and end.variable in levels.level_of:
            last = levels.indices[end.variable]
            with levels.loop(first, last, count, seen) as whole, self.ctx.values.held(self.bounds):
                whole.next(self.along(whole.index, [None] * self.step, whole.carried))
            with levels.when(f.compare("lt", last, self.length), whole.results) as rest:
                rest.next(self.end(end, last, rest.carried))
            first, seen = f.add(last, count), [*rest.results]
        with levels.loop(first, self.length, count, seen) as iteration:
            masks = self.masks(f.sub(self.length, iteration.index))
            iteration.next(self.along(iteration.index, masks, iteration.carried))
        return [*iteration.results]

    def inside(self, seen_nan: Sequence[Val]) -> list[Val]:
        """Emits the elements inside of the bound: whole vectors, of which the last overlaps the one before it, or what is less than one.
        That is stored as a whole vector, over pads and rows that are still to be written."""
        f, levels, lanes, limit = self.ctx.f, self.ctx.levels, self.lanes, self.limit
        assert limit is not None
        with levels.at(self.depth):
            first, stop = _range_inside(self.ctx, limit, self.length)
            left, final = f.sub(stop, first), f.sub(stop, lanes)
            end = f.select(f.compare("ge", left, lanes), stop, first)
            mask = f.tail_mask(f.convert("trunc", f.smax(f.smin(left, lanes), 0), I32), lanes)
        with self.ctx.values.held(self.bounds):
            with levels.loop(first, end, lanes, seen_nan) as iteration:
                iteration.next(self.along(f.smin(iteration.index, final), [None], iteration.carried))
            with levels.when(f.compare("lt", end, stop), iteration.results) as rest:
                rest.next(self.along(end, [mask], rest.carried))
        return [*rest.results]

    @property
    def depth(self) -> int:
        """The outermost level at which the ends of a row are known."""
        bound = () if self.limit is None else (self.limit.index.offset, self.limit.extent)
        return self.ctx.levels.step_depth((self.staged.lengths[-1], *bound))

    def along(self, index: Val, masks: Sequence[Val | None], seen_nan: Sequence[Val]) -> list[Val]:
        """Emits vectors from an index on."""
        staged = self.staged
        self.ctx.levels.bind(staged.along[-1], index)
        return self.vectors(staged.along[-1], index, staged.access, staged.value, masks, seen_nan)

    def masks(self, left: Val) -> list[Val]:
        """Returns the masks of as many vectors as the step has remainders: lanes exist where elements are left, `left` of them."""
        f, lanes = self.ctx.f, self.lanes
        count = f.convert("trunc", f.smin(left, self.step * lanes), I32)
        return [f.tail_mask(count, lanes, copy * lanes) for copy in range(self.step)]

    def end(self, end: RowEnd, index: Val, seen_nan: Sequence[Val]) -> list[Val]:
        """Emits the vectors at an end of the row, whose masks are the same for all rows."""
        levels = self.ctx.levels
        keys = [("masks", end.variable, self.lanes, copy) for copy in range(self.step)]
        masks = [mask for k in keys if (mask := levels.find(k)) is not None]
        if not masks:
            with levels.at(max(levels.level_of[end.variable], levels.step_depth((self.staged.lengths[-1],)))):
                emitted = self.masks(self.ctx.f.sub(self.length, index))
                masks = [levels.remember(k, mask) for k, mask in zip(keys, emitted, strict=True)]
        return self.vectors(end.variable, index, end.access, end.value, masks, seen_nan)

    def vectors(
        self,
        along: LoopVar,
        index: Val,
        access: Access,
        value: DagNode,
        masks: Sequence[Val | None],
        seen_nan: Sequence[Val],
    ) -> list[Val]:
        """Stores vectors of the copy from an index on; returns `seen_nan` with what is NaN among them."""
        with self.ctx.values.along(Vector(along, self.lanes, tuple(masks))):
            values = [self.value(value, access, copy) for copy in range(self.step)]
            self.store(values, index)
        return [reduce(self.watched, values, seen) for seen in seen_nan]

    def watched(self, seen_nan: Val, value: Val) -> Val:
        return self.ctx.f.or_(seen_nan, self.ctx.f.fcmp("uno", value, value))

    def value(self, element: DagNode, access: Access, copy: int) -> Val:
        ctx, f, staged = self.ctx, self.ctx.f, self.staged
        value = ctx.values.of(element, copy)
        asked = [b for b in access.bounds if b not in ctx.values.holding]
        inside = ctx.values.conjunction(ctx.values.inside(asked, copy), ctx.values.mask(copy))
        is_masked = isinstance(element, Load) and value.type.lanes and not ctx.memory.is_padded(access.tensor)
        value = f.splat(value, self.lanes)
        if staged.outside is not None and inside is not None and not (is_masked and is_zero(staged.outside)):
            value = f.select(f.splat(inside, self.lanes), value, f.splat(ctx.values.of(staged.outside), self.lanes))
        return elementwise.store_value(f, staged.tensor.dtype, value)

    def store(self, values: list[Val], index: Val) -> None:
        """Stores all elements of one remainder, then all of the other."""
        ctx, f = self.ctx, self.ctx.f
        place = f.add(self.place, f.binary("udiv", index, const(I64, self.step)) if self.step > 1 else index)
        to = f.gep(ctx.memory.base(self.staged.tensor), place, self.element)
        if self.step == 1:
            f.store(values[0], to)
            return
        plane = ctx.sizes.of(self.staged.plane)
        for remainder, each in enumerate(separated(f, values)):
            f.store(each, f.gep(to, f.mul(plane, remainder), self.element))
