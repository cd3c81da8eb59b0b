"""Loops of rows inside of the loop of a vector: what the lanes need is computed before the rows.

In: a `Scope` whose only step is a scope of rows. Out: loops over planes, blocks of rows, vectors, and the rows of a block. What depends on
the column alone, or on the row alone, is computed ahead of all planes and kept: places, weights, and the windows of neighbours from which
lanes are permuted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from anyshape.dims import Size
from anyshape.dtypes import I32, I64
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import cost
from anyshape.lower.emit.loops.empty_loops import Spans
from anyshape.lower.emit.loops.nest import LoopRanges, VectorLoop, nest
from anyshape.lower.emit.scopes.looked_up_rows import looked_up_rows
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.emit.values.neighbours import Window, window_of
from anyshape.lower.emit.values.value import Values
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, Operation, affine, walk
from anyshape.lower.ir.stores import below
from anyshape.lower.llvm.types import I32 as WORD
from anyshape.lower.llvm.types import I64 as LONG
from anyshape.lower.llvm.types import Val, const
from anyshape.lower.schedule.lanes_first import are_lanes_heavy
from anyshape.lower.schedule.tree import Scope

ROWS = 32
"""Rows for which what the lanes of a vector need is computed once: the lines that they read and write stay in the first cache."""
FEW_ROWS = 8
"""Rows in such a block where the second cache does not hold what that many rows look up in: points of an image may be anywhere in it, so
that as many images are read again and again."""
KEPT = 8
"""Cycles of a value that is kept for all planes: loading it takes one or two."""
Lanes = tuple[frozenset[tuple[DagNode, Size]], Size]
"""Positions of lanes relative to each other: the computed places and their steps, and the step of the vector."""
NARROW_LOADS = 4
"""The most loads whose loops of rows are there once more for windows of one vector."""


def emit_lanes_first(ctx: KernelContext, scope: Scope, inside: Scope, steps: Callable[[], None], split: bool) -> None:
    """Emits a vector's loop around loops of rows, a block of rows after the other: what the lanes need is computed before them. The parts
    share the outermost loop that does not change the lanes' places, since they would otherwise have a row of images each."""
    vector = scope.vector
    assert vector is not None
    outer = [v for v in scope.variables if v is not vector]
    lets = [n for load in below(inside.stores) if isinstance(load, Load) for n, _ in load.access.address.lets]
    # where a row has places of its own, several vectors share what these take
    tiers = (2, 1) if any(v in n.domain for n in lets for v in inside.variables) else (1,)
    moving = [any(v in n.domain and vector in n.domain for n in lets) for v in outer]
    still = moving.index(True) if True in moving else len(outer)
    shares_rows = split and still == 0
    down = inside.variables[0]
    size = _rows_of_block(ctx, vector, inside)
    kept = _PlaneInvariants(ctx, scope, inside)
    if outer or are_lanes_heavy(inside.stores, vector):
        kept.compute()

    def blocks() -> None:
        first, last = (
            ctx.parts.share(ctx.sizes.of(down.extent)) if shares_rows else (const(LONG, 0), ctx.sizes.of(down.extent))
        )
        with ctx.levels.loop(first, last, size) as block:
            stop = ctx.f.smin(ctx.f.add(block.index, size), last)
            lanes = partial(
                _emit_lanes, ctx, inside, steps, kept, _RowSpans(ctx, inside.variables, (block.index, stop))
            )
            nest(ctx, [*outer[still:], vector], lanes, vector=VectorLoop(vector, tiers))

    def columns() -> None:
        nest(ctx, outer[:still], blocks, split=split and not shares_rows)

    rows = looked_up_rows(ctx, scope, inside)
    if rows is None:
        columns()
        return
    is_plain = rows.emit(steps, split)
    with ctx.levels.when(ctx.f.not_(is_plain), certain=True):
        columns()


def _rows_of_block(ctx: KernelContext, vector: LoopVar, inside: Scope) -> Val:
    """How many rows a block has, by whether the second cache holds as many images as they look up in: what the lanes look up is nearer than
    the least step of anything else."""
    f = ctx.f
    images = const(LONG, 0)
    for t, address in {n.access.tensor: n.access.address for n in below(inside.stores) if isinstance(n, Load)}.items():
        if any(vector in let.domain for let, _ in address.lets):
            apart = [c for v, c in address.terms if v is not vector]
            apart += [c for let, c in address.lets if vector not in let.domain]
            steps = [f.smax(size, f.neg(size)) for size in map(ctx.sizes.of, apart)]
            bytes_ = elementwise.memory_type(t.dtype).bytes
            images = f.add(images, f.mul(reduce(f.smin, steps), bytes_)) if steps else images
    return f.select(f.compare("gt", f.mul(images, ROWS), f.target.l2_bytes), FEW_ROWS, ROWS)


class _RowSpans(Spans):
    """The range of a loop over some of its rows, and those of the loops inside."""

    def __init__(self, ctx: KernelContext, variables: Sequence[LoopVar], rows: Range) -> None:
        super().__init__(ctx, variables)
        self.rows = rows

    def of(self, v: LoopVar) -> Range:
        return self.rows if v is self.variables[0] else super().of(v)


@dataclass
class _PlaneInvariants:
    """What is the same in all planes, in scratch: an element of a row for each column, and of a column for each row."""

    ctx: KernelContext
    scope: Scope
    inside: Scope
    windows: dict[Lanes, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)
    """Lowest place and distance to the last one, once a vector, and the lanes' places, of each load whose lanes are permuted."""

    def compute(self) -> None:
        ctx, levels, vector = self.ctx, self.ctx.levels, self.scope.vector
        assert vector is not None
        for v in (vector, *self.inside.variables):
            row = affine([(v, 1)], 0)
            buffers = {n: Buffer(ctx.memory.reserve(n.dtype, v.extent), row, 1) for n in self._nodes(v)}
            if buffers:
                nest(ctx, [v], partial(self._keep, buffers), vector=VectorLoop(vector, (1,)))
            for n, buffer in buffers.items():
                levels.hold(n, buffer)
        nest(ctx, [vector], self._keep_windows, vector=VectorLoop(vector, (1,)))

    def _keep(self, buffers: Mapping[DagNode, Buffer]) -> None:
        values = self.ctx.values
        for n, buffer in buffers.items():
            for copy in values.copies_of(n):
                values.to_buffer(buffer, n, copy)

    def _nodes(self, v: LoopVar) -> Iterator[DagNode]:
        """The largest values that depend on a variable alone, and need no check of what they are made of."""
        own, stack, seen = frozenset((v,)), [r for s in self.inside.stores for r in s.roots], set[DagNode]()
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            costs = n.domain == own and isinstance(n, Operation) and cost(n, own) >= KEPT
            if costs and not any(isinstance(m, Load) and (m.domain or m.access.checks) for m in walk([n])):
                yield n
            else:
                stack.extend(n.inputs)

    def _keep_windows(self) -> None:
        ctx, f, vector = self.ctx, self.ctx.f, self.scope.vector
        assert vector is not None and ctx.values.vector is not None
        place = ctx.levels.indices[vector]
        for lanes, accesses in windowed(ctx, self.inside).items():
            if any(n.domain != {vector} for n, _ in lanes[0]):
                continue
            if lanes not in self.windows:
                lowest, last, places = (ctx.memory.reserve(t, vector.extent) for t in (I64, I32, I32))
                self.windows[lanes] = lowest, last, places
            for tensor, value in zip(self.windows[lanes], _neighbours(ctx.values, accesses[0], 0), strict=True):
                f.store(value, f.gep(ctx.memory.base(tensor), place, value.type.scalar))

    def window(self, lanes: Lanes, access: Access, copy: int) -> Window:
        """The window of a load, at the current vector."""
        ctx, f, values = self.ctx, self.ctx.f, self.ctx.values
        assert self.scope.vector is not None
        if lanes not in self.windows:
            mask = values.mask(copy)
            return window_of(f, *_neighbours(values, access, copy), None if mask is None else f.extract(mask, 0))
        place = f.add(ctx.levels.indices[self.scope.vector], copy * ctx.lanes)
        types = (LONG, WORD, WORD.vector(ctx.lanes))
        bases = map(ctx.memory.base, self.windows[lanes])
        lowest, last, places = (f.load(f.gep(b, place, t.scalar), t) for b, t in zip(bases, types, strict=True))
        return window_of(f, lowest, last, places)


def windowed(ctx: KernelContext, inside: Scope) -> dict[Lanes, list[Access]]:
    """The reads of neighbours that differ from row to row, by where their lanes lie."""
    reads: dict[Lanes, list[Access]] = {}
    assert ctx.values.vector is not None
    along = ctx.values.vector.variable
    for n in below(inside.stores):
        if isinstance(n, Load) and not n.domain.isdisjoint(inside.variables) and _has_window(ctx.values, n.access):
            lets = frozenset((let, k) for let, k in n.access.address.lets if ctx.values.varies(let))
            reads.setdefault((lets, n.access.address.coefficient(along)), []).append(n.access)
    return reads


def _has_window(values: Values, access: Access) -> bool:
    """Whether the lanes' places are computed and known outside of the loops that are still to be opened, and a window may read them."""
    vector, element = values.vector, elementwise.memory_type(access.tensor.dtype)
    if vector is None or access.bounds or not values.f.target.permutes(element.bytes, vector.lanes):
        return False
    lets = [n for n, _ in access.address.lets if values.varies(n)]
    return bool(lets) and all(v in values.levels.level_of for n in lets for v in n.domain)


def _neighbours(values: Values, access: Access, copy: int) -> tuple[Val, Val, Val]:
    """Returns for a load that has a window the lowest place of its lanes, the distance to the last one (twice the lanes at most), and
    that to each. Lanes that do not exist are where the first one is."""
    assert values.vector is not None
    f, lanes = values.f, values.vector.lanes
    _, offsets = values.lane_offsets(access.address, copy)
    assert offsets is not None
    mask = values.mask(copy)
    if mask is not None:
        offsets = f.select(mask, offsets, f.splat(f.extract(offsets, 0), lanes))
    lowest = f.reduce("smin", offsets)
    places = f.convert("trunc", f.smin(f.sub(offsets, lowest), 2 * lanes), WORD)
    return lowest, f.reduce("smax", places), places


def _emit_lanes(
    ctx: KernelContext, inside: Scope, steps: Callable[[], None], kept: _PlaneInvariants, block: _RowSpans
) -> None:
    """Emits the loops of rows inside of a vector, once for lanes whose lookups are in windows, of one vector or of two, and once for
    others. What is the same in all rows is loaded before, without a window."""
    values, f = ctx.values, ctx.f

    def rows() -> None:
        nest(ctx, inside.variables, steps, ranges=LoopRanges(spans=block))

    reads = windowed(ctx, inside)
    if not reads:
        rows()
        return
    windows_of = {
        (lanes, copy): kept.window(lanes, accesses[0], copy)
        for lanes, accesses in reads.items()
        for copy in values.copies
    }
    loads = {(access, copy): windows_of[lanes, copy] for lanes, copy in windows_of for access in reads[lanes]}
    fits = reduce(f.and_, (w.fits for w in windows_of.values()))
    none = f.not_(fits)
    if len(loads) <= NARROW_LOADS * len(values.copies):
        narrow = reduce(f.and_, (w.is_narrow for w in windows_of.values()))
        with (
            ctx.levels.when(narrow, certain=True),
            values.within({key: replace(w, second=None) for key, w in loads.items()}),
        ):
            rows()
        fits = f.and_(fits, f.not_(narrow))
    with ctx.levels.when(fits, certain=True), values.within(loads):
        rows()
    with ctx.levels.when(none, certain=True):
        rows()
