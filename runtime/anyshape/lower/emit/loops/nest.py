"""Loops around a body: nests of them, shares of parts, and whole vectors with a masked rest.

In: loop variables, the one that runs along the lanes, which iterations run, accumulators, a body. Out: instructions, and the
accumulators after the last iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from anyshape.dims import Size
from anyshape.lower.emit.loops.empty_loops import Spans
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.levels import Iteration
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.types import I32, I64, Val, const

Accumulators = list[list[Val]]
"""Accumulators of each reduction, one per copy."""

Ranges = Mapping[LoopVar, Range]
"""First iterations of loops, and what follows the last ones"""

CarryingBody = Callable[[Accumulators], Accumulators]
WRITTEN_OUT = 4
"""Iterations of an innermost loop that is unrolled: pairs of a complex number, corners of a box, channels of a picture, for which counting
would cost as much as an iteration."""


@dataclass(frozen=True, slots=True)
class VectorLoop:
    """A loop whose variable runs along the lanes: in blocks of `tiers` vectors, the largest first, and then in masked vectors. `overlaps`:
    elements may be computed twice, so that a row of at least one vector ends with one that overlaps the one before it. `width_factor`: how
    many times as many lanes the vectors of a block without masks have, which are so many fewer."""

    variable: LoopVar
    tiers: Sequence[int] = ()
    overlaps: bool = False
    width_factor: int = 1

    def vectors(self, lanes: int, copies: int) -> Vector:
        """A block of so many vectors without masks, or of fewer and wider ones."""
        wider = self.width_factor if copies % self.width_factor == 0 else 1
        return Vector(self.variable, lanes * wider, (None,) * (copies // wider))


def vector_loop(v: LoopVar | None, tiers: Sequence[int]) -> VectorLoop | None:
    """The loop along the lanes, if a variable runs along them."""
    return None if v is None else VectorLoop(v, tiers)


@dataclass(frozen=True, slots=True)
class LoopRanges:
    """The iterations of loops that run: `own`, what this part runs of some of them; `spans`, those of all others without iterations that do
    nothing (None: all iterations)."""

    own: Ranges = field(default_factory=dict)
    spans: Spans | None = None

    def of(self, ctx: KernelContext, v: LoopVar) -> Range:
        """The range of a variable."""
        if v in self.own:
            return self.own[v]
        return (const(I64, 0), ctx.sizes.of(v.extent)) if self.spans is None else self.spans.of(v)


ALL = LoopRanges()
"""All iterations of all loops"""


def nest(
    ctx: KernelContext,
    variables: Sequence[LoopVar],
    body: Callable[[], None],
    *,
    vector: VectorLoop | None = None,
    split: bool = False,
    ranges: LoopRanges = ALL,
) -> None:
    """Loops over the variables, outermost first, around a body that accumulates nothing. `split`: the outermost one is shared out, or,
    where it has fewer iterations than there are parts, the next one."""
    if split:
        ranges = replace(ranges, own=_shares(ctx, variables, vector, ranges.spans))
    nest_carrying(ctx, variables, [], _carrying_nothing(body), vector=vector, ranges=ranges)


def nest_carrying(
    ctx: KernelContext,
    variables: Sequence[LoopVar],
    sums: Accumulators,
    body: CarryingBody,
    *,
    vector: VectorLoop | None = None,
    ranges: LoopRanges = ALL,
) -> Accumulators:
    """Loops over the variables around a body with accumulators, which are carried through all of the loops."""

    def loops(variables: Sequence[LoopVar], sums: Accumulators) -> Accumulators:
        if not variables:
            return body(sums)
        v, levels = variables[0], ctx.levels
        range_ = ranges.of(ctx, v)
        if vector is not None and v is vector.variable:
            return _blocks_and_rest(ctx, vector, range_, sums, body)
        few = 0 if v in ranges.own or len(variables) > 1 else _written_out(ctx, range_)
        if few:
            for index in range(few):
                with levels.section():
                    levels.bind(v, const(I64, index))
                    sums = body(sums)
            return sums
        first, last = range_
        with levels.loop(first, last, 1, flat(sums), certain=ctx.values.has_positions(v)) as iteration:
            levels.bind_iteration(v, iteration.index)
            carried = shaped(iteration.carried, sums)
            iteration.next(flat(loops(variables[1:], carried)))
        return shaped(iteration.results, sums)

    return loops(variables, sums)


def _shares(
    ctx: KernelContext, variables: Sequence[LoopVar], vector: VectorLoop | None, spans: Spans | None
) -> dict[LoopVar, Range]:
    """The ranges of this part: of the outermost variable, or of the next one where the outermost has fewer iterations than there are
    parts, unless that is a known number of lanes."""
    if not variables:
        return {}
    outermost, along = variables[0], None if vector is None else vector.variable
    tiers = () if vector is None else vector.tiers
    if outermost is along:
        return {outermost: vector_share(ctx, outermost, tiers, True)} if spans is None else {}
    count = ctx.sizes.of(outermost.extent) if spans is None else spans.of(outermost)[1]
    inner = None if spans is not None or len(variables) == 1 else variables[1]
    if inner is None or (inner is along and isinstance(inner.extent, int)):  # whose blocks are known
        return {outermost: ctx.parts.share(count)}
    block = _block_elements(ctx, tiers) if inner is along else 1
    return dict(zip(variables, ctx.parts.share_either(count, ctx.sizes.of(inner.extent), block), strict=False))


def _carrying_nothing(body: Callable[[], None]) -> CarryingBody:
    def run(sums: Accumulators) -> Accumulators:
        body()
        return sums

    return run


def _written_out(ctx: KernelContext, range_: Range) -> int:
    """How many iterations of an innermost loop around vectors are unrolled, or 0: what they have in common, a byte of several codes, say,
    is then read once."""
    first, last = range_
    count = 0 if last.number is None or first.number != 0 else int(last.number)
    return count if ctx.values.vector is not None and count <= WRITTEN_OUT else 0


def vector_share(ctx: KernelContext, v: LoopVar, tiers: Sequence[int], split: bool) -> Range:
    """The range of the loop that this part runs: its share if the loop is shared out."""
    extent = ctx.sizes.of(v.extent)
    return ctx.parts.share(extent, _block_elements(ctx, tiers)) if split else (const(I64, 0), extent)


def _block_elements(ctx: KernelContext, tiers: Sequence[int]) -> int:
    """Elements of the largest block of vectors."""
    return tiers[0] * ctx.lanes if tiers else ctx.lanes


def vector_range(ctx: KernelContext, v: LoopVar, tiers: Sequence[int], range_: Range, body: Callable[[], None]) -> None:
    """Emits blocks of `tiers` vectors, largest first, then what is left in masked single vectors.

    One masked vector at most is left if the last tier is 1. Where blocks are large because accumulators wait for their own latency, several
    vectors that are left are one masked block.
    """
    _blocks_and_rest(ctx, VectorLoop(v, tiers), range_, [], _carrying_nothing(body))


def masked_vectors(ctx: KernelContext, v: LoopVar, range_: Range, body: Callable[[], None]) -> None:
    """Emits single vectors over a range, each with a mask."""
    f, (first, last) = ctx.f, range_
    with ctx.levels.loop(first, last, ctx.lanes) as iteration:
        left = f.smin(f.sub(last, iteration.index), ctx.lanes)
        vector = Vector(v, ctx.lanes, (f.tail_mask(f.convert("trunc", left, I32), ctx.lanes),))
        _block(ctx, vector, iteration.index, [], _carrying_nothing(body))


def _blocks_and_rest(
    ctx: KernelContext, loop: VectorLoop, range_: Range, sums: Accumulators, body: CarryingBody
) -> Accumulators:
    v, tiers = loop.variable, loop.tiers
    if loop.overlaps and not sums:
        range_, tiers = (_overlapping(ctx, loop, range_, body), range_[1]), ()
    f, levels, lanes = ctx.f, ctx.levels, ctx.lanes
    first, last = range_
    at_once = tiers[-1] if len(tiers) > 1 and not sums and f.target.masks else 1
    tiers = [t for t in tiers if not isinstance(v.extent, int) or t * lanes <= v.extent]
    depth, certain = _known_since(ctx, v, range_), ctx.values.has_positions(v)
    with levels.at(depth):
        start, count = first, f.sub(last, first)
        stops = [f.add(start, f.and_(count, -copies * lanes)) for copies in tiers]
    for copies, stop in zip(tiers, stops, strict=True):
        part = [s[:copies] for s in sums]
        with levels.loop(first, stop, copies * lanes, flat(part), certain=certain) as iteration:
            vector = loop.vectors(lanes, copies)
            iteration.next(flat(_block(ctx, vector, iteration.index, shaped(iteration.carried, part), body)))
        sums = _replaced(sums, shaped(iteration.results, part))
        first = stop
    known = isinstance(v.extent, int) and range_[0].number == 0 and last.number == v.extent
    if known and tiers and last.number is not None and last.number % (tiers[-1] * lanes) == 0:
        return sums
    if at_once > 1:
        first = _rest_at_once(ctx, v, (first, last), at_once, body, certain)
    part = [s[:1] for s in sums]
    once = bool(tiers) and tiers[-1] == 1
    with _rest(ctx, (first, last), flat(part), once, certain) as (iteration, index):
        with levels.at(depth if once else levels.innermost):
            left = f.smin(f.sub(last, index), lanes)
            mask = f.tail_mask(f.convert("trunc", left, I32), lanes)
        vector = Vector(v, lanes, (mask,))
        iteration.next(flat(_block(ctx, vector, index, shaped(iteration.carried, part), body)))
    return _replaced(sums, shaped(iteration.results, part))


def _overlapping(ctx: KernelContext, loop: VectorLoop, range_: Range, body: CarryingBody) -> Val:
    """Emits blocks of vectors without masks, then single ones, of which the last ends where the range does and overlaps the one before it;
    returns where what is left begins: the end, or the beginning of a range of less than a vector."""
    f, levels, lanes, v = ctx.f, ctx.levels, ctx.lanes, loop.variable
    first, last = range_
    certain = ctx.values.has_positions(v)
    with levels.at(_known_since(ctx, v, range_)):
        start, count, final = first, f.sub(last, first), f.sub(last, lanes)
        blocks = [t for t in loop.tiers if t > 1 and not (isinstance(v.extent, int) and t * lanes > v.extent)]
        stops = [f.add(start, f.and_(count, -copies * lanes)) for copies in blocks]
        end = f.select(f.compare("ge", count, lanes), last, first)
    for copies, stop in zip([*blocks, 1], [*stops, end], strict=True):
        with levels.loop(first, stop, copies * lanes, [], certain=certain) as iteration:
            index = iteration.index if copies > 1 else f.smin(iteration.index, final)
            _block(ctx, loop.vectors(lanes, copies), index, [], body)
        first = stop
    return end


def _rest_at_once(ctx: KernelContext, v: LoopVar, range_: Range, copies: int, body: CarryingBody, certain: bool) -> Val:
    """Emits a rest of more than one vector as one masked block; returns where the loop over single vectors begins."""
    f, lanes = ctx.f, ctx.lanes
    first, last = range_
    left = f.sub(last, first)
    several = f.compare("gt", left, lanes)
    with ctx.levels.when(several, certain=certain):
        count = f.convert("trunc", left, I32)
        masks = tuple(f.tail_mask(count, lanes, copy * lanes) for copy in range(copies))
        _block(ctx, Vector(v, lanes, masks), first, [], body)
    return f.select(several, last, first)


def _known_since(ctx: KernelContext, v: LoopVar, range_: Range) -> int:
    """The outermost level at which both ends exist: those of a whole row are the same for all rows."""
    first, last = range_
    whole = first.number == 0 and last == ctx.sizes.of(v.extent)
    return ctx.levels.step_depth((v.extent,)) if whole else ctx.levels.innermost


@contextmanager
def _rest(
    ctx: KernelContext, range_: Range, carried: Sequence[Val], once: bool, certain: bool
) -> Iterator[tuple[Iteration, Val]]:
    first, last = range_
    if once:
        with ctx.levels.when(ctx.f.compare("lt", first, last), carried, certain=certain) as iteration:
            yield iteration, first
    else:
        with ctx.levels.loop(first, last, ctx.lanes, carried, certain=certain) as iteration:
            yield iteration, iteration.index


def _block(ctx: KernelContext, vector: Vector, index: Val, sums: Accumulators, body: CarryingBody) -> Accumulators:
    ctx.levels.bind_iteration(vector.variable, index)
    with ctx.values.along(vector):
        return body(sums)


def tiers_that_run(extent: Size, tiers: Sequence[int], lanes: int) -> tuple[int, ...]:
    """Leaves out of tiers of blocks those that a whole loop of a known extent has no block of."""
    if not isinstance(extent, int):
        return tuple(tiers)
    run, left = list[int](), extent
    for t in tiers:
        if left >= t * lanes:
            run.append(t)
            left %= t * lanes
    return tuple(run) if left == 0 else (*(t for t in run if t > 1), 1)


def flat(sums: Accumulators) -> list[Val]:
    return [v for s in sums for v in s]


def shaped(values: Sequence[Val], like: Accumulators) -> Accumulators:
    rest = iter(values)
    return [[next(rest) for _ in s] for s in like]


def _replaced(sums: Accumulators, part: Accumulators) -> Accumulators:
    return [[*new, *old[len(new) :]] for old, new in zip(sums, part, strict=True)]
