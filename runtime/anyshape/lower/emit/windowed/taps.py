"""Reductions over short windows of which the lanes are no part: per place of a result one test whether all of its window is inside.

In: a `Scope` that runs over places and, along the lanes, over channels. Out: its loops, in which the taps are one after the other, twice:
without any mask for places whose window is inside of what it reads, and masked for those at edges. Places are the inner loop, for a few
channels at a time. Where the factors of all taps do not fit registers, several places are computed together: a row of what they read is
loaded once for all of them, and so are its factors. Sums of products of bytes take several taps at a time (`tap_words.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from anyshape.lower.analyse.byte_products import byte_product
from anyshape.lower.emit.loops.inner_loop import accumulate, emit_loop
from anyshape.lower.emit.loops.nest import LoopRanges, Ranges, VectorLoop, nest, nest_carrying
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.windowed.tap_positions import (
    all_inside,
    are_few,
    at_taps,
    prefetch_places,
    tap_bounds,
    tap_numbers,
)
from anyshape.lower.emit.windowed.tap_words import WordSums, tap_words
from anyshape.lower.emit.windowed.windows import over_planes
from anyshape.lower.emit.windowed.word_kinds import word_kind
from anyshape.lower.ir.dag import Constant, DagNode, IndexBound, Load, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.tree import Loop, Scope

TOGETHER = 8
"""Places that are computed together: as many sums as hide the latency of adding to one."""
IN_REGISTERS = 20
"""The most factors, of all taps and vectors of channels, that stay in registers from place to place."""


def has_taps(scope: Scope) -> bool:
    """Whether the scope has one reduction over a few taps, at edges of which reads are masked alike for all lanes."""
    loops = [s for s in scope.steps if isinstance(s, Loop)]
    summing = [s for s in loops if s.reductions]
    if any(len(s.reductions) > 1 for s in summing):
        return False
    if len(loops) != len(scope.steps) or len(summing) != 1 or scope.fills or any(s.keep for s in loops):
        return False
    if scope.vector is None or len(scope.variables) < 3 or any(s.variables for s in loops if s is not summing[0]):
        return False
    (red,) = summing[0].reductions
    return are_few(red.variables) and bool(tap_bounds([red.body], red.variables, scope.vector))


def emit_taps(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope that `has_taps`."""
    *outer, place, channels = scope.variables
    (red,) = next(s.reductions for s in scope.steps if isinstance(s, Loop) and s.reductions)
    bounds = tap_bounds([red.body], red.variables, channels)
    product = byte_product(red, channels)
    kind = None if product is None else word_kind(ctx, product)
    if product is None or kind is None or not bounds.issuperset(product.byte.access.bounds):
        _emit_values(ctx, scope, red, bounds)
        return
    words = tap_words(red.variables, _taps_moved(product.byte, place, red.variables[-1]), kind.per)
    store = _TapSums(ctx, scope, red, bounds, {}).store
    sums = WordSums(
        ctx=ctx, red=red, product=product, kind=kind, bounds=bounds,
        outer=outer, place=place, channels=channels, words=words, store=store,
    )  # fmt: skip
    sums.emit(otherwise=lambda: _emit_values(ctx, scope, red, bounds, seldom=True))


def _emit_values(
    ctx: KernelContext, scope: Scope, red: Reduction, bounds: set[IndexBound], seldom: bool = False
) -> None:
    """Emits a scope whose terms are computed one by one; `seldom`: in as little code as there can be."""
    *outer, place, channels = scope.variables
    fixed = [
        n
        for n in walk([red.body])
        if isinstance(n, Load) and scope.vector in n.domain and not n.domain & {*outer, place}
    ]

    if not fixed:
        places = _TapSums(ctx, scope, red, bounds, {})
        over_planes(ctx, outer, lambda own: nest(ctx, [place], places.emit_channels, ranges=LoopRanges(own)), place)
        return
    step = _step(red, fixed, place)

    def of_channels(own: Ranges) -> None:
        places = _TapSums(ctx, scope, red, bounds, _factors(ctx, red, fixed))
        if step and not places.factors:
            places.emit_together(fixed, step, own[place])
        else:
            nest(ctx, [place], places.emit, ranges=LoopRanges(own))

    tiers = (2, 1) if 2 * len(tap_numbers(red.variables)) <= IN_REGISTERS else (1,) if step else (4, 1)
    tiers = (1,) if seldom else tiers
    over_planes(
        ctx,
        outer,
        lambda own: nest(ctx, [channels], partial(of_channels, own), vector=VectorLoop(channels, tiers)),
        place,
    )


def _step(red: Reduction, fixed: Sequence[Load], place: LoopVar) -> int:
    """Returns the number of taps of the last variable by which a window moves from one place to the next; 0 where what is summed depends on
    the place, or on that tap, in another way than by what is read there."""
    tap = red.variables[-1]
    steps: set[int] = set()
    for n in _computed(red.body):
        if isinstance(n, Load) and n not in fixed:
            steps.add(_taps_moved(n, place, tap))
        elif not isinstance(n, Load | Operation | Constant):
            return 0
    return steps.pop() if len(steps) == 1 and fixed else 0


def _taps_moved(n: Load, place: LoopVar, tap: LoopVar) -> int:
    """The number of taps by which a read moves from one place to the next; 0 if it is none of 1 and 2."""
    a = n.access.address
    along = a.coefficient(place)
    moved = [k for k in (1, 2) if along == a.coefficient(tap) * k and along != 0]
    return moved[0] if moved and not a.lets else 0


def _computed(n: DagNode) -> Iterator[DagNode]:
    """What a value is computed of where all reads are inside, so that none is tested."""
    padded = padded_load(n) if isinstance(n, Operation) else None
    yield n
    for a in n.inputs if padded is None else (padded.load,):
        yield from _computed(a)


Known = Mapping[tuple[DagNode, int], Val]
"""Values of nodes, by vector."""
Factors = Mapping[tuple[int, ...], Mapping[tuple[DagNode, int], Val]]
"""Values of nodes that are the same for all places, by tap, then by vector."""


def _factors(ctx: KernelContext, red: Reduction, nodes: Sequence[Load]) -> Factors:
    """Loads the factors of all taps, if that many vectors may stay in registers."""
    factors: dict[tuple[int, ...], dict[tuple[DagNode, int], Val]] = {}
    copies = ctx.values.copies
    if len(tap_numbers(red.variables)) * len(copies) * len(nodes) > IN_REGISTERS:
        return factors
    for numbers in at_taps(ctx, red.variables):
        factors[numbers] = {(n, copy): ctx.values.of(n, copy) for n in nodes for copy in copies}
    return factors


@dataclass(frozen=True)
class _TapSums:
    """One place of the results: all that is summed, and what is stored of it."""

    ctx: KernelContext
    scope: Scope
    red: Reduction
    bounds: set[IndexBound]
    factors: Factors

    def emit_together(self, fixed: Sequence[Load], step: int, own: Range) -> None:
        """Loops over a range of places, several at a time: without tests where all of their windows are inside; else each vector that is
        read is tested, and whether a place is one of the results."""
        ctx, f, levels, (first, end) = self.ctx, self.ctx.f, self.ctx.levels, own
        with levels.loop(first, end, TOGETHER) as iteration:
            index = iteration.index
            with self.at(index):
                inside = all_inside(ctx, self.red.variables, self.bounds, (TOGETHER - 1) * step)
            whole = f.and_(f.compare("le", f.add(index, TOGETHER), end), inside)
            with levels.when(whole), ctx.values.held(self.bounds):
                self.together(index, fixed, step)
            with levels.when(f.not_(whole)):
                self.together(index, fixed, step, end)

    @contextmanager
    def at(self, index: Val, tap: int | None = None) -> Iterator[None]:
        """Code for a place, and a tap of the last variable."""
        levels = self.ctx.levels
        with levels.section():
            levels.bind(self.scope.variables[-2], index)
            if tap is not None:
                levels.bind(self.red.variables[-1], const(I64, tap))
            yield

    def together(self, index: Val, fixed: Sequence[Load], step: int, end: Val | None = None) -> None:
        """Emits places from an index on, up to an end: row after row of the taps, and of a row each vector that is read with all factors
        that it meets."""
        ctx, taps = self.ctx, self.red.variables
        moving = [n for n in _computed(self.red.body) if isinstance(n, Load) and n not in fixed]
        width = len(tap_numbers(taps[-1:]))

        def row(totals: list[list[Val]]) -> list[list[Val]]:
            factors = [self.loaded(fixed, index, tap) for tap in range(width)]
            for tap in range(width + (TOGETHER - 1) * step):
                read = self.loaded(moving, index, tap)
                for j in range(TOGETHER):
                    k = tap - j * step
                    if 0 <= k < width:
                        with self.at(index, k):
                            totals[j] = self.added(totals[j], {**factors[k], **read})
            return totals

        start = [[self.start()] * len(ctx.values.copies) for _ in range(TOGETHER)]
        for j, sums in enumerate(nest_carrying(ctx, taps[:-1], start, row)):
            place = ctx.f.add(index, j)
            with (
                nullcontext() if end is None or not j else ctx.levels.when(ctx.f.compare("lt", place, end)),
                self.at(place),
            ):
                self.store(sums)

    def loaded(self, nodes: Sequence[Load], index: Val, tap: int) -> Known:
        with self.at(index, tap):
            return {(n, copy): self.ctx.values.of(n, copy) for n in nodes for copy in self.ctx.values.copies}

    def added(self, totals: Sequence[Val], known: Known) -> list[Val]:
        """Adds what is summed at the tap that is bound, of which nodes are known."""
        for (node, copy), value in known.items():
            self.ctx.levels.define(node, copy, value)
        return [accumulate(self.ctx, self.red, total, copy) for copy, total in enumerate(totals)]

    def start(self) -> Val:
        literal = elementwise.literal(self.red.dtype, neutral(self.red.kind, self.red.dtype))
        return self.ctx.f.splat(literal, self.ctx.values.lanes_of(True))

    def emit(self) -> None:
        ctx = self.ctx
        inside = all_inside(ctx, self.red.variables, self.bounds)
        with ctx.levels.when(inside), ctx.values.held(self.bounds):
            self.results(ahead=True)
        with ctx.levels.when(ctx.f.not_(inside)):
            self.results()

    def emit_channels(self) -> None:
        """Emits one place at all channels, which read no factors that further places would: one test decides for all of them."""
        ctx, channels = self.ctx, self.scope.variables[-1]
        inside = all_inside(ctx, self.red.variables, self.bounds)
        with ctx.levels.when(inside), ctx.values.held(self.bounds):
            nest(ctx, [channels], self.results, vector=VectorLoop(channels, (4, 1)))
        with ctx.levels.when(ctx.f.not_(inside)):
            nest(ctx, [channels], self.results, vector=VectorLoop(channels, (4, 1)))

    def results(self, ahead: bool = False) -> None:
        self.store(self.totals(ahead))

    def store(self, totals: Sequence[Val]) -> None:
        for copy, total in enumerate(totals):
            self.ctx.levels.define(self.red, copy, total)
        for step in self.scope.steps:
            if isinstance(step, Loop) and step.stores:
                emit_loop(self.ctx, replace(step, variables=(), reductions=()))

    def totals(self, ahead: bool) -> list[Val]:
        ctx = self.ctx
        totals = [self.start()] * len(ctx.values.copies)
        for numbers in at_taps(ctx, self.red.variables):
            totals = self.added(totals, self.factors.get(numbers, {}))
            if ahead:
                self.fetch(numbers)
        return totals

    def fetch(self, numbers: tuple[int, ...]) -> None:
        """Prefetches what places further on see first at this tap: a row of which these are few channels is no stream of adjacent lines."""
        ctx, place, tap = self.ctx, self.scope.variables[-2], self.red.variables[-1]
        for n in walk([self.red.body]):
            if not isinstance(n, Load) or place not in n.domain:
                continue
            along = n.access.address.coefficient(place)
            step = next((k for k in range(1, 5) if along == n.access.address.coefficient(tap) * k), 1)
            if isinstance(tap.extent, int) and numbers[-1] >= tap.extent - step:
                prefetch_places(ctx, ctx.values.pointer(n.access.tensor, n.access.address), n.access, place)
