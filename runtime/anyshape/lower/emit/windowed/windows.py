"""Reductions over windows as code: the copy is filled, then every tap reads vectors of it.

In: a `Scope` that has `windows`, or the product whose columns see them. Out: for each plane (a batch and a channel, say) one fill of the
copy, and loops over its rows of results in which the taps are written out one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial, reduce

from anyshape.dims import Size
from anyshape.lower.analyse.windows import ROOM, Staged, Windows
from anyshape.lower.emit.loops.inner_loop import accumulate
from anyshape.lower.emit.loops.nest import Accumulators, nest, nest_carrying
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.value import Vector
from anyshape.lower.ir.dag import Access, DagNode, IndexBound, LoopVar, Reduction
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.interleaving import separated
from anyshape.lower.llvm.types import I32, I64, Val, const
from anyshape.lower.schedule.tree import Loop, Scope

VECTORS = 4
"""Vectors of results at once, where rows are that long, so that taps do not wait for each other."""
FEW = 4
"""Rows of results that are left over, and those of a block where registers are few."""
REGISTERS = 16
"""Registers that hold the sums of few rows only."""
HALVED = 32
"""Bytes of the vectors whose halves are not used for short rows."""


def emit_windows(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope of rows that has `windows`."""
    windows = scope.windows
    assert windows is not None
    prepare(ctx, windows.staged)
    fill_pads(ctx, windows.staged)
    extent = windows.staged.moving[-1].position.extent
    for lanes, fits in _widths(ctx, extent) if windows.below else [(ctx.lanes, None)]:
        with nullcontext() if fits is None else ctx.levels.when(fits):
            _emit_planes(ctx, scope, windows, lanes)


def _widths(ctx: KernelContext, extent: Size) -> list[tuple[int, Val | None]]:
    """How many lanes vectors of results have, and where (None: everywhere): half of those of 512 bits where a row of results fills no more,
    since some processors execute these as two halves, and all read twice as many of them across two lines of the cache."""
    f, lanes, length = ctx.f, ctx.lanes, ctx.sizes.of(extent)
    if f.target.vector_bytes <= HALVED:
        return [(lanes, None)]
    if length.number is not None:
        return [(lanes // 2 if length.number <= lanes // 2 else lanes, None)]
    is_short = f.compare("le", length, lanes // 2)
    return [(lanes // 2, is_short), (lanes, f.not_(is_short))]


def _emit_planes(ctx: KernelContext, scope: Scope, windows: Windows[Reduction], lanes: int) -> None:
    """Emits the loops over planes, whose results are vectors of so many lanes; so are their copies where these are taken apart, and else
    have the pads of a row besides."""
    staged, results = windows.staged, _PlaneResults(replace(ctx, lanes=lanes), scope, windows)
    planes = [v for v in results.stores[0].variables if v not in results.positions]
    copying = replace(ctx, lanes=lanes) if staged.moving[-1].step > 1 else ctx

    def copied(carried: Sequence[Val]) -> list[Val]:
        fill(copying, staged, pads=False)
        return [*carried]

    over_copied_planes(ctx, planes, staged, [], copied, lambda _: results.emit())


class _PlaneResults:
    """The results of one plane, whose elements are copied already."""

    def __init__(self, ctx: KernelContext, scope: Scope, windows: Windows[Reduction]) -> None:
        self.ctx, self.staged = ctx, windows.staged
        self.stores = next(s.stores for s in scope.steps if isinstance(s, Loop) and s.stores)
        self.positions = [m.position for m in windows.staged.moving]
        self.reduction = next((s.reductions[0] for s in scope.steps if isinstance(s, Loop) and s.reductions), None)
        self.taps = () if self.reduction is None else (windows.taps, *windows.below)
        self.last = ctx.f.sub(ctx.sizes.of(self.positions[-2].extent), 1) if len(self.taps) > 1 else const(I64, 0)

    def emit(self) -> None:
        positions = self.positions
        if len(self.taps) < 2:
            tiers = (VECTORS,) if self.taps else ()
            nest(self.ctx, positions, partial(self.rows, None), vector=positions[-1], tiers=tiers)
        else:
            nest(self.ctx, positions[:-2], self.blocks)

    def blocks(self) -> None:
        """Emits rows of results: as many at once as have taps, then those that are left, in a block of which some may be no results."""
        f, extent, column = self.ctx.f, self.ctx.sizes.of(self.positions[-2].extent), self.positions[-1]
        most = len(self.taps) if f.target.vector_registers > REGISTERS else FEW
        first = const(I64, 0)
        for count in dict.fromkeys((most, FEW)):
            left = f.sub(extent, first)
            more = 0 if count == FEW else FEW
            stop = f.add(first, f.and_(f.add(left, count - 1 - more), -count))
            with self.ctx.levels.loop(first, stop, count) as iteration:
                nest(self.ctx, [column], partial(self.rows, iteration.index, count), vector=column, tiers=(1,))
            first = stop

    def rows(self, first: Val | None, count: int = 1) -> None:
        """Emits the row that is bound, or `count` rows from `first`, at the vectors of the loop. What is beyond the last row is computed,
        and stored there before the row itself: code without branches, into which sums would be moved one by one."""
        numbers, stored = self.computed(first, count)
        for number, values_of in reversed(list(zip(numbers, stored, strict=True))):
            with _row_bound(self.ctx, self.positions, number):
                for s, values in zip(self.stores, values_of, strict=True):
                    for copy, value in enumerate(values):
                        self.ctx.values.store(s.access, value, copy)

    def computed(self, first: Val | None, count: int) -> tuple[list[Val | None], list[list[list[Val]]]]:
        """Returns the numbers of the rows, and what each of them stores, by store and copy."""
        ctx, red, copies = self.ctx, self.reduction, range(len(self.ctx.values.copies))
        totals: list[list[Val]] = []
        with _row_bound(ctx, self.positions, first):
            if red is not None:
                totals = _totals(ctx, self.staged, self.taps[:count], red.kind, len(copies))
        numbers: list[Val | None] = [first]
        if first is not None:
            numbers += (ctx.f.smin(ctx.f.add(first, row), self.last) for row in range(1, count))
        stored: list[list[list[Val]]] = []
        for row, number in enumerate(numbers):
            with _row_bound(ctx, self.positions, number):
                if red is not None:
                    for copy in copies:
                        ctx.levels.define(red, copy, totals[row][copy])
                stored.append([[ctx.values.of(s.value, copy) for copy in copies] for s in self.stores])
        return numbers, stored


@contextmanager
def _row_bound(ctx: KernelContext, positions: Sequence[LoopVar], row: Val | None) -> Iterator[None]:
    """Code in which the position before the last is `row`, if that is given."""
    with nullcontext() if row is None else ctx.levels.section():
        if row is not None:
            ctx.levels.bind(positions[-2], row)
        yield


def _totals(
    ctx: KernelContext, staged: Staged, taps: Sequence[Sequence[Reduction]], kind: str, copies: int
) -> list[list[Val]]:
    """The reductions of rows of results, column by column of the taps: what a column of them reads stays in registers for all rows."""
    dtype, columns = taps[0][0].dtype, staged.moving[-1].tap.extent
    assert isinstance(columns, int)
    start = ctx.f.splat(elementwise.literal(dtype, neutral(kind, dtype)), ctx.values.lanes_of(True))
    totals = [[start] * copies for _ in taps]
    for column in range(columns):
        for tap in zip(*(row[column::columns] for row in taps), strict=True):
            totals = [[accumulate(ctx, of, v, copy) for copy, v in enumerate(row)] for of, row in zip(tap, totals)]
    return totals


def over_planes(ctx: KernelContext, variables: Sequence[LoopVar], body: Callable[[], None]) -> None:
    """Loops over all planes, shared out over the parts."""
    first, last = _share_of_planes(ctx, variables)
    with ctx.levels.loop(first, last, 1) as iteration:
        _bind_plane(ctx, variables, iteration.index)
        body()


def _share_of_planes(ctx: KernelContext, variables: Sequence[LoopVar]) -> Range:
    count = const(I64, 1)
    for v in variables:
        count = ctx.f.mul(count, ctx.sizes.of(v.extent))
    return ctx.parts.share(count)


def _bind_plane(ctx: KernelContext, variables: Sequence[LoopVar], number: Val) -> None:
    f = ctx.f
    for v in reversed(variables):
        quotient = f.binary("udiv", number, ctx.sizes.of(v.extent))
        ctx.levels.bind(v, f.sub(number, f.mul(quotient, ctx.sizes.of(v.extent))))
        number = quotient


def over_copied_planes(
    ctx: KernelContext,
    variables: Sequence[LoopVar],
    staged: Staged,
    start: Sequence[Val],
    copy: Callable[[Sequence[Val]], list[Val]],
    body: Callable[[Sequence[Val]], None],
) -> None:
    """Loops over all planes, shared out over the parts: some are copied one after the other, then they are reduced. What has just been
    stored in pieces would be waited for by the vectors that read it across these. A copy that several planes of results are of, one
    behind the other, is made once for all of these. `copy` carries values on from `start`; `body` gets them."""
    f, levels, slot = ctx.f, ctx.levels, staged.slot
    assert slot is not None
    first, last = _share_of_planes(ctx, variables)
    size = ctx.sizes.of(staged.size)
    count = f.smax(f.binary("udiv", const(I64, ROOM), size), 1)
    copied, each = _copied_once(ctx, variables, staged)
    if each is not None:
        first_copy, last_copy = f.binary("udiv", first, each), _ceil_div(f, last, each)
    else:
        first_copy, last_copy = first, last
    with levels.loop(first_copy, last_copy, count) as several:
        stop = f.smin(f.add(several.index, count), last_copy)
        with levels.loop(several.index, stop, 1, start) as iteration:
            _bind_plane(ctx, copied, iteration.index)
            levels.bind(slot, f.sub(iteration.index, several.index))
            iteration.next(copy(iteration.carried))
        begin, end = several.index, stop
        if each is not None:
            begin, end = f.smax(f.mul(begin, each), first), f.smin(f.mul(end, each), last)
        with levels.loop(begin, end, 1) as reduced:
            _bind_plane(ctx, variables, reduced.index)
            number = reduced.index if each is None else f.binary("udiv", reduced.index, each)
            levels.bind(slot, f.sub(number, several.index))
            body(iteration.results)


def _copied_once(
    ctx: KernelContext, variables: Sequence[LoopVar], staged: Staged
) -> tuple[Sequence[LoopVar], Val | None]:
    """The variables of planes by which copies differ, and how many planes of results have one copy, where these are more than one."""
    value = staged.value.domain | (frozenset() if staged.outside is None else staged.outside.domain)
    copied = [*variables]
    while copied and copied[-1] not in value:
        copied.pop()
    if len(copied) == len(variables):
        return variables, None
    each = const(I64, 1)
    for v in variables[len(copied) :]:
        each = ctx.f.mul(each, ctx.sizes.of(v.extent))
    return copied, each


def _ceil_div(f: FunctionBuilder, a: Val, b: Val) -> Val:
    return f.binary("udiv", f.add(a, f.sub(b, 1)), b)


def prepare(ctx: KernelContext, staged: Staged) -> None:
    """Reserves scratch for the copy, and binds the numbers that addresses are made of."""
    ctx.memory.place(staged.tensor, padded=True)
    if any(m.step > 1 for m in staged.moving):
        ctx.values.apart.add(staged.tensor)
    ctx.levels.bind(staged.beginning.variable, const(I64, 0))
    for number, v in staged.fixed.items():
        ctx.levels.bind(v, const(I64, number))


def fill_pads(ctx: KernelContext, staged: Staged) -> None:
    """Writes the pad's value everywhere: rows of pads are the same for all planes, and stay."""
    if not any(_limit(staged, dim) for dim in range(len(staged.along) - 1)):
        return
    assert staged.outside is not None
    f, element = ctx.f, elementwise.memory_type(staged.tensor.dtype)
    value = elementwise.store_value(f, staged.tensor.dtype, ctx.values.of(staged.outside))
    lanes = ctx.lanes
    with ctx.levels.loop(0, ctx.sizes.of(staged.tensor.shape[0]), lanes) as iteration:
        f.store(f.splat(value, lanes), f.gep(ctx.memory.base(staged.tensor), iteration.index, element))


def _limit(staged: Staged, dim: int) -> IndexBound | None:
    """The bound that only the index along this dim decides."""
    own = [b for b in staged.access.bounds if b.index.coefficient(staged.along[dim]) != 0]
    alone = ((staged.along[dim], 1),)
    if staged.outside is None or len(own) != 1 or own[0].index.terms != alone or own[0].index.lets or own[0].guard:
        return None
    return own[0]


def fill(ctx: KernelContext, staged: Staged, pads: bool = True, seen_nan: Sequence[Val] = ()) -> list[Val]:
    """Writes the copy, the variables outside of it being bound; without `pads`, rows of nothing but pads are left as they are. Returns
    `seen_nan`, if there is one, with the lanes that have met NaN."""

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
        return _CopiedRow(ctx, staged, place, length).emit(seen_nan)
    step, limit = staged.moving[dim].step, None if pads else _limit(staged, dim)
    first, held = const(I64, 0), set[IndexBound]()
    if limit is not None:
        before = f.neg(ctx.sizes.of(limit.index.offset))
        first = f.smax(before, 0)
        length = f.smin(f.add(before, ctx.sizes.of(limit.extent)), length)
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


class _CopiedRow:
    """The elements of the last dim, side by side in the original, by remainder in the copy."""

    def __init__(self, ctx: KernelContext, staged: Staged, place: Val, length: Val) -> None:
        self.ctx, self.staged, self.place, self.length = ctx, staged, place, length
        self.lanes = ctx.lanes
        self.step = staged.moving[-1].step
        self.element = elementwise.memory_type(staged.tensor.dtype)

    def emit(self, seen_nan: Sequence[Val]) -> list[Val]:
        """Emits the first vectors, and a loop over those of rows that are longer."""
        levels, staged, count = self.ctx.levels, self.staged, self.step * self.lanes
        start = staged.beginning
        seen = self.vectors(start.variable, const(I64, 0), start.access, start.value, self.first_masks(), seen_nan)
        with levels.loop(count, self.length, count, seen) as iteration:
            levels.bind(staged.along[-1], iteration.index)
            masks = self.masks(self.ctx.f.sub(self.length, iteration.index))
            carried = iteration.carried
            iteration.next(self.vectors(staged.along[-1], iteration.index, staged.access, staged.value, masks, carried))
        return [*iteration.results]

    def masks(self, left: Val) -> list[Val]:
        """Returns the masks of as many vectors as the step has remainders: lanes exist where elements are left, `left` of them."""
        f, lanes = self.ctx.f, self.lanes
        count = f.convert("trunc", f.smin(left, self.step * lanes), I32)
        return [f.tail_mask(count, lanes, copy * lanes) for copy in range(self.step)]

    def first_masks(self) -> list[Val]:
        """Returns the masks of the beginning of a row, which are the same for all rows."""
        levels = self.ctx.levels
        keys = [("beginning", self.staged.tensor, self.lanes, copy) for copy in range(self.step)]
        known = [mask for k in keys if (mask := levels.find(k)) is not None]
        if known:
            return known
        with levels.at(levels.step_depth((self.staged.lengths[-1],))):
            return [levels.remember(k, mask) for k, mask in zip(keys, self.masks(self.length), strict=True)]

    def vectors(
        self, along: LoopVar, index: Val, access: Access, value: DagNode, masks: Sequence[Val], seen_nan: Sequence[Val]
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
        value = f.splat(ctx.values.of(element, copy), self.lanes)
        asked = [b for b in access.bounds if b not in ctx.values.holding]
        inside = ctx.values.conjunction(ctx.values.inside(asked, copy), ctx.values.mask(copy))
        if staged.outside is not None and inside is not None:
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
