"""Blocks of rows that have several loops each: the first loop of all rows of the block, then the second of all.

In: a scope whose loops reduce along a row and then read the row again (softmax, a norm). Out: the same loops, each run for all rows of a
block before the next. A reduction ends in a chain of dependent instructions, and the next loop over the row waits for its end; the next row
does not, so that the processor overlaps the two. What a loop hands to the next one is in scratch, for every row of the block; a block is as
many rows as leave this scratch in the first cache. A row longer than that cache, which is a block of its own, is handed on in the memory of
the result instead (`_home`): a cache further out is then read and written once less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import accesses
from anyshape.lower.emit.loops.inner_loop import Fetch, emit_loop
from anyshape.lower.emit.loops.nest import nest
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.elementwise import memory_type
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.ir.dag import Access, DagNode, LoopVar, affine, row_major
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.reuse import is_in_row, matches
from anyshape.lower.schedule.tree import Loop, Scope

MOST = 8
"""Rows of a block: more hide no more latency."""
PART_OF_CACHE = 4
"""The part of the first cache that a block's rows in scratch take; what they are computed from is there too."""


def runs_in_blocks(ctx: KernelContext, scope: Scope) -> bool:
    """Whether loops along rows wait for reductions of loops before them, and nothing else is in the scope."""
    if ctx.values.vector is not None or scope.vector is not None or not scope.variables or scope.fills:
        return False
    loops = [s for s in scope.steps if isinstance(s, Loop)]
    if len(loops) != len(scope.steps):
        return False
    if ctx.levels.step_depth(v.extent for s in loops for v in s.variables):
        return False
    first = next((k for k, s in enumerate(loops) if s.reductions), len(loops))
    return any(s.variables for s in loops[first + 1 :])


def emit_in_blocks(ctx: KernelContext, scope: Scope, split: bool) -> None:
    """Emits the loops for blocks of rows. `split`: the outermost variable is shared out to the parts."""
    outer = scope.variables[:-1]
    loops = [s for s in scope.steps if isinstance(s, Loop)]
    held = _BlockScratch(ctx, scope.variables, loops)
    fetched = _fetched_while_computing(ctx, loops, held)

    def body() -> None:
        extent = ctx.sizes.of(held.row.extent)
        first, last = ctx.parts.share(extent) if split and not outer else (const(I64, 0), extent)
        with ctx.levels.loop(first, last, held.count) as block:
            held.begin(block.index)
            end = ctx.f.smin(ctx.f.add(block.index, held.count), last)
            for s in loops:
                with ctx.levels.loop(block.index, end, 1) as iteration:
                    ctx.levels.bind(held.row, iteration.index)
                    emit_loop(ctx, s, [(n, held.buffers[n]) for n in s.keep], fetched.get(s, ()))
                    for r in s.reductions:
                        ctx.values.to_buffer(held.buffers[r], r, 0)
                held.publish(s)

    nest(ctx, outer, body, split=split)


def _fetched_while_computing(ctx: KernelContext, loops: list[Loop], held: _BlockScratch) -> dict[Loop, list[Fetch]]:
    """Memory that is prefetched, by the loop that does it. A loop whose results are worth keeping computes more than it reads: it
    prefetches the next block's rows, and the memory of the results."""
    row, along = held.row, [s for s in loops if s.variables]
    busy = next((s for s in along if s.keep), None)
    if busy is None:
        return {}
    first = [a for a, _ in accesses((), along[0].reductions, set())] if along[0] is not busy else []
    last = [s.access for s in along[-1].stores] if along[-1] is not busy else []
    fetched = [
        Fetch(a, None if to_write else ctx.f.mul(held.count, ctx.sizes.of(a.address.coefficient(row))), to_write)
        for a, to_write in (*((a, False) for a in first), *((a, True) for a in last))
        if not a.address.lets
        and row in a.domain
        and busy.vector is not None
        and a.address.coefficient(busy.vector) == 1
    ]
    return {busy: fetched}


class _BlockScratch:
    """Scratch of a block: a value per row for a reduction, a row of whole vectors for what later loops read again."""

    def __init__(self, ctx: KernelContext, variables: tuple[LoopVar, ...], loops: list[Loop]) -> None:
        self.ctx, self.row = ctx, variables[-1]
        self.buffers: dict[DagNode, Buffer] = {}
        self.strides: dict[Tensor, Size] = {}
        lanes, budget = ctx.f.target.lanes(4), ctx.f.target.l1_bytes // PART_OF_CACHE // 4
        lengths = {s: _whole_vectors(s.variables, lanes) for s in loops}
        self.home = _home(ctx, variables, loops)
        for s in loops:
            for r in s.reductions:
                self._hold(r, (), 1, MOST)
            for n in s.keep:
                self._hold(n, s.variables, lengths[s], lengths[s] + budget)
        self.count: Val = ctx.sizes.of(dims.clamp(budget // dims.maximum(*lengths.values()), 1, MOST))

    def _hold(self, n: DagNode, variables: Sequence[LoopVar], stride: Size, elements: Size) -> None:
        terms = [(self.row, stride), *row_major(variables)[0]]
        tensor = self.ctx.memory.reserve(n.dtype, elements)
        self.buffers[n] = Buffer(tensor, affine(terms, 0), 1, self.home is not None and n is self.home.kept)
        self.strides[tensor] = stride

    def begin(self, first: Val) -> None:
        """Moves the bases of the buffers, since rows are counted from the first one of the block."""
        ctx, f = self.ctx, self.ctx.f
        for buffer in self.buffers.values():
            before = f.mul(first, ctx.sizes.of(self.strides[buffer.tensor]))
            base = ctx.memory.base(buffer.tensor)
            if buffer.exact and self.home is not None:
                base = f.select(self.home.taken, self.home.start(ctx, self.row, first), base)
            moved = f.gep(base, f.neg(before), memory_type(buffer.tensor.dtype))
            ctx.memory.move(buffer.tensor, moved)

    def publish(self, loop: Loop) -> None:
        """Has the loops that follow read what this one kept."""
        for n in (*loop.reductions, *loop.keep):
            self.ctx.levels.hold(n, self.buffers[n])


@dataclass(frozen=True, slots=True)
class _Home:
    """A value that may be kept in the memory of a result, `along` being the variable of both; `taken` says at run time whether it is."""

    kept: DagNode
    result: Access
    along: LoopVar
    taken: Val

    def start(self, ctx: KernelContext, row: LoopVar, first: Val) -> Val:
        """The address of the result's row `first`."""
        address = self.result.address
        outer = affine([(v, c) for v, c in address.terms if v not in (row, self.along)], address.offset)
        element = memory_type(self.result.tensor.dtype)
        down = ctx.f.mul(first, ctx.sizes.of(address.coefficient(row)))
        return ctx.f.gep(ctx.values.pointer(self.result.tensor, outer), down, element)


def _home(ctx: KernelContext, variables: tuple[LoopVar, ...], loops: list[Loop]) -> _Home | None:
    """The memory for the last value that is handed on: the only result of the last loop, if it has room for it, lane by lane, and nothing
    in between reads memory that the result may overlap (`reuse.py`)."""
    busy, last = next((s for s in reversed(loops) if s.keep), loops[-1]), loops[-1]
    if busy is last or busy.stores or [len(busy.keep), len(busy.variables), len(last.stores)] != [1, 1, 1]:
        return None
    (kept,), (along,), (store,) = busy.keep, busy.variables, last.stores
    access = store.access
    if {busy.vector, last.vector} != {along} or last.variables != busy.variables or access.tensor.dtype != kept.dtype:
        return None
    if not access.is_plain or access.address.coefficient(along) != 1 or variables[-1] not in access.domain:
        return None
    if _is_read(store, loops, busy, frozenset(variables)):
        return None
    most, extent = ctx.f.target.l1_bytes // PART_OF_CACHE // memory_type(kept.dtype).bytes, along.extent
    if isinstance(extent, int) and extent <= most:
        return None
    return _Home(kept, access, along, ctx.f.compare("gt", ctx.sizes.of(extent), most))


def _is_read(store: Store, loops: list[Loop], busy: Loop, rows: frozenset[LoopVar]) -> bool:
    """Whether a loop reads what may be the memory of the result once `busy` has written there: any but the element of the same
    iteration."""
    done = {n for s in loops for n in (*s.reductions, *s.keep)}
    for s in loops[loops.index(busy) :]:
        accessed = accesses(s.stores, s.reductions, done.difference(s.keep))
        loads = [a for a, stored in accessed if not stored and not (s is busy and matches(a, store))]
        if any(is_in_row(a, store, rows) or (s is not busy and store.access.domain & a.domain - rows) for a in loads):
            return True
    return False


def _whole_vectors(variables: Sequence[LoopVar], lanes: int) -> Size:
    length: Size = 1
    for v in variables:
        length = length * v.extent
    return dims.maximum((length + lanes - 1) // lanes, 1) * lanes
