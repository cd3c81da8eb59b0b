"""Reductions over windows as code: the copy is filled, then every tap reads vectors of it.

In: a `Scope` that has `windows`, or the product whose columns see them. Out: for each plane (a batch and a channel, say) one fill of the
copy, and loops over its rows of results in which the taps are written out one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from anyshape.dims import Size
from anyshape.lower.analyse.windows import ROOM, Staged, Windows
from anyshape.lower.emit.loops.inner_loop import accumulate, products_of
from anyshape.lower.emit.loops.nest import Ranges, VectorLoop, nest
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.windowed.copies import bind_ends, fill, fill_pads, prepare
from anyshape.lower.ir.dag import LoopVar, Reduction
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I64, Val, const
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
    staged, results = windows.staged, _PlaneResults(replace(ctx, lanes=lanes), scope, windows, lanes < ctx.lanes)
    planes = [v for v in results.stores[0].variables if v not in results.positions]
    copying = replace(ctx, lanes=lanes) if staged.moving[-1].step > 1 else ctx

    bind_ends(copying, staged)

    def copied(carried: Sequence[Val]) -> list[Val]:
        fill(copying, staged, pads=False)
        return [*carried]

    over_copied_planes(ctx, planes, staged, [], copied, lambda _: results.emit())


class _PlaneResults:
    """The results of one plane, whose elements are copied already. `halved`: rows are in half vectors."""

    def __init__(self, ctx: KernelContext, scope: Scope, windows: Windows[Reduction], halved: bool) -> None:
        self.ctx, self.staged, self.halved = ctx, windows.staged, halved
        self.stores = next(s.stores for s in scope.steps if isinstance(s, Loop) and s.stores)
        self.positions = [m.position for m in windows.staged.moving]
        self.reduction = next((s.reductions[0] for s in scope.steps if isinstance(s, Loop) and s.reductions), None)
        self.taps = () if self.reduction is None else (windows.taps, *windows.below)
        self.last = ctx.f.sub(ctx.sizes.of(self.positions[-2].extent), 1) if len(self.taps) > 1 else const(I64, 0)

    def emit(self) -> None:
        positions = self.positions
        if len(self.taps) < 2:
            tiers = (VECTORS,) if self.taps else ()
            nest(self.ctx, positions, partial(self.rows, None), vector=VectorLoop(positions[-1], tiers))
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
                nest(self.ctx, [column], partial(self.rows, iteration.index, count), vector=VectorLoop(column, (1,)))
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
                totals = self.totals(count, len(copies))
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

    def totals(self, count: int, copies: int) -> list[list[Val]]:
        """Returns the reductions of rows of results, column by column of the taps: what a column of them reads stays in registers for all
        rows."""
        columns, taps = self.staged.moving[-1].tap.extent, self.taps[:count]
        assert isinstance(columns, int)
        taps_of_rows = [
            list(tap) for c in range(columns) for tap in zip(*(row[c::columns] for row in taps), strict=True)
        ]
        if self.halved and copies == 1 and count % 2 == 0 and products_of(self.ctx, taps_of_rows[0][0], 0):
            return [[total] for total in _of_joined_rows(self.ctx, taps_of_rows)]
        totals = [[_start(self.ctx, taps_of_rows[0][0])] * copies for _ in taps]
        for tap in taps_of_rows:
            totals = [[accumulate(self.ctx, of, v, k) for k, v in enumerate(row)] for of, row in zip(tap, totals)]
        return totals


@contextmanager
def _row_bound(ctx: KernelContext, positions: Sequence[LoopVar], row: Val | None) -> Iterator[None]:
    """Code in which the position before the last is `row`, if that is given."""
    with nullcontext() if row is None else ctx.levels.section():
        if row is not None:
            ctx.levels.bind(positions[-2], row)
        yield


def _start(ctx: KernelContext, r: Reduction) -> Val:
    return ctx.f.splat(elementwise.literal(r.dtype, neutral(r.kind, r.dtype)), ctx.values.lanes_of(True))


def _of_joined_rows(ctx: KernelContext, taps_of_rows: Sequence[Sequence[Reduction]]) -> list[Val]:
    """The sums of products of rows of half a vector each: all rows add up a tap, then the next one. A row and the one that is half of them
    further on are the halves of one vector; each such pair of rows has two sums, added up in the end, so that a multiply-add does not
    wait for the one before it."""
    f, lanes, half = ctx.f, ctx.values.lanes_of(True), len(taps_of_rows[0]) // 2
    start = _start(ctx, taps_of_rows[0][0])
    sums = [[_joined(f, start, start, lanes)] * half for _ in range(2)]
    for k, tap in enumerate(taps_of_rows):
        for row, (upper, lower) in enumerate(zip(tap, tap[half:], strict=False)):
            pairs = zip(*(products_of(ctx, r, 0) for r in (upper, lower)), strict=True)
            for (negative, factors), (_, further) in pairs:
                both = zip(factors, further, strict=True)
                x, y = (_joined(f, ctx.values.of(a, 0), ctx.values.of(b, 0), lanes) for a, b in both)
                sums[k % 2][row] = f.fma(f.neg(x) if negative else x, y, sums[k % 2][row])
    totals = [f.add(a, b) for a, b in zip(*sums, strict=True)]
    return [f.shuffle(t, None, range(first, first + lanes)) for first in (0, lanes) for t in totals]


def _joined(f: FunctionBuilder, a: Val, b: Val, lanes: int) -> Val:
    """One vector of the lanes of two, or of one number."""
    if a == b and not a.type.lanes:
        return f.splat(a, 2 * lanes)
    return f.shuffle(f.splat(a, lanes), f.splat(b, lanes), range(2 * lanes))


def over_planes(
    ctx: KernelContext, variables: Sequence[LoopVar], body: Callable[[Ranges], None], inner: LoopVar, block: int = 1
) -> None:
    """Loops over all planes around the loop of a body over an inner variable, which gets its range. Planes are shared out over the parts,
    or, where they are fewer than these, as a signal is one, the inner iterations, in whole blocks, unless their number is known."""
    count, extent = _number_of_planes(ctx, variables), ctx.sizes.of(inner.extent)
    if block > 1 and isinstance(inner.extent, int):
        (first, last), own = ctx.parts.share(count), (const(I64, 0), extent)
    else:
        (first, last), own = ctx.parts.share_either(count, extent, block)
    with ctx.levels.loop(first, last, 1) as iteration:
        _bind_plane(ctx, variables, iteration.index)
        body({inner: own})


def _share_of_planes(ctx: KernelContext, variables: Sequence[LoopVar]) -> Range:
    return ctx.parts.share(_number_of_planes(ctx, variables))


def _number_of_planes(ctx: KernelContext, variables: Sequence[LoopVar]) -> Val:
    count = const(I64, 1)
    for v in variables:
        count = ctx.f.mul(count, ctx.sizes.of(v.extent))
    return count


def _bind_plane(ctx: KernelContext, variables: Sequence[LoopVar], number: Val) -> None:
    f = ctx.f
    for v in reversed(variables[1:]):
        quotient = f.binary("udiv", number, ctx.sizes.of(v.extent))
        ctx.levels.bind(v, f.sub(number, f.mul(quotient, ctx.sizes.of(v.extent))))
        number = quotient
    for v in variables[:1]:
        ctx.levels.bind(v, number)


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
