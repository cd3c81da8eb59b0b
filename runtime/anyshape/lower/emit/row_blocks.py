"""Rows of several loops each, a few rows at a time: all first loops, then all second ones.

In: a scope whose loops reduce along a row and then read the row again (softmax, a norm). Out: the same loops, run for a block of
rows by turns. A reduction ends in a chain of instructions that each wait for the one before, and all of the next loop waits for its
end; the next row does not. So the processor fills the wait with it. What a loop hands to the next one is in scratch, for every row of
the block; a block is as many rows as leave this scratch in the first cache. A row longer than that cache, which is a block of its own,
is handed on in the memory of the result instead (`_home`): what is further out is read and written once less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import accesses
from anyshape.lower.emit.elementwise import memory_type
from anyshape.lower.emit.value import Buffer
from anyshape.lower.ir.dag import Access, DagNode, LoopVar, affine
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.reuse import is_in_row, matches
from anyshape.lower.schedule.tree import Loop, Scope

if TYPE_CHECKING:
    from anyshape.lower.emit.nest import Sums
    from anyshape.lower.emit.rows import Rows

MOST = 8
"""Rows of a block: the wait at the end of a row is filled long before."""
PART_OF_CACHE = 4
"""A block's rows in scratch take this part of the first cache; what they are computed from is there too."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Memory to ask for ahead of its use: where an access is, or so many elements further on."""

    access: Access
    elements: Val | None
    to_write: bool


def runs_in_blocks(rows: Rows, scope: Scope) -> bool:
    """Whether loops along rows wait for reductions of loops before them, and nothing else is in the scope."""
    if rows.vector is not None or scope.vector is not None or not scope.variables or scope.fills:
        return False
    loops = [s for s in scope.steps if isinstance(s, Loop)]
    if len(loops) != len(scope.steps):
        return False
    if rows.step_depth(v.extent for s in loops for v in s.variables):
        return False
    first = next((k for k, s in enumerate(loops) if s.reductions), len(loops))
    return any(s.variables for s in loops[first + 1 :])


def emit_in_blocks(rows: Rows, scope: Scope, split: bool) -> None:
    """`split`: the outermost variable is shared out to the parts."""
    outer = scope.variables[:-1]
    loops = [s for s in scope.steps if isinstance(s, Loop)]
    held = _Held(rows, scope.variables, loops)
    _fetch_while_computing(rows, loops, held)

    def body(sums: Sums) -> Sums:
        extent = rows.size(held.row.extent)
        first, last = rows.part_of(extent, 1) if split and not outer else (const(I64, 0), extent)
        with rows.loop(first, last, held.count) as block:
            held.begin(block.index)
            end = rows.f.smin(rows.f.add(block.index, held.count), last)
            for s in loops:
                with rows.loop(block.index, end, 1) as iteration:
                    rows.bind(held.row)
                    rows.indices[held.row] = iteration.index
                    rows.loop_step(s, [(n, held.buffers[n]) for n in s.keep])
                    for r in s.reductions:
                        rows.to_buffer(held.buffers[r], r, 0)
                held.publish(s)
        return sums

    rows.nest(outer, None, (), [], body, split)


def _fetch_while_computing(rows: Rows, loops: list[Loop], held: _Held) -> None:
    """A loop whose results are worth keeping computes more than it reads: it asks for the next block's rows, and for the memory of
    the results, so that neither is waited for."""
    row, along = held.row, [s for s in loops if s.variables]
    busy = next((s for s in along if s.keep), None)
    if busy is None:
        return
    first = [a for a, _ in accesses((), along[0].reductions, set())] if along[0] is not busy else []
    last = [s.access for s in along[-1].stores] if along[-1] is not busy else []
    fetched = [
        Fetch(a, None if to_write else rows.f.mul(held.count, rows.size(a.address.coefficient(row))), to_write)
        for a, to_write in (*((a, False) for a in first), *((a, True) for a in last))
        if not a.address.lets
        and row in a.domain
        and busy.vector is not None
        and a.address.coefficient(busy.vector) == 1
    ]
    rows.fetched[busy] = fetched


class _Held:
    """Scratch of a block: a value per row for a reduction, a row of whole vectors for what later loops read again."""

    def __init__(self, rows: Rows, variables: tuple[LoopVar, ...], loops: list[Loop]) -> None:
        self.rows, self.row = rows, variables[-1]
        self.buffers: dict[DagNode, Buffer] = {}
        self.strides: dict[Tensor, Size] = {}
        lanes, budget = rows.f.target.lanes(4), rows.f.target.l1_bytes // PART_OF_CACHE // 4
        lengths = {s: _whole_vectors(s.variables, lanes) for s in loops}
        self.home = _home(rows, variables, loops)
        for s in loops:
            for r in s.reductions:
                self._hold(r, (), 1, MOST)
            for n in s.keep:
                self._hold(n, s.variables, lengths[s], lengths[s] + budget)
        self.count: Val = rows.size(dims.clamp(budget // dims.maximum(*lengths.values()), 1, MOST))

    def _hold(self, n: DagNode, variables: Sequence[LoopVar], stride: Size, elements: Size) -> None:
        terms: list[tuple[LoopVar, Size]] = [(self.row, stride)]
        step: Size = 1
        for v in reversed(variables):
            terms.append((v, step))
            step = step * v.extent
        tensor = self.rows.reserve(n.dtype, elements)
        self.buffers[n] = Buffer(tensor, affine(terms, 0), 1, self.home is not None and n is self.home.kept)
        self.strides[tensor] = stride

    def begin(self, first: Val) -> None:
        """Rows are counted from the first one of the block."""
        rows, f = self.rows, self.rows.f
        for buffer in self.buffers.values():
            before = f.mul(first, rows.size(self.strides[buffer.tensor]))
            base = rows.base(buffer.tensor)
            if buffer.exact and self.home is not None:
                base = f.select(self.home.taken, self.home.start(rows, self.row, first), base)
            moved = f.gep(base, f.neg(before), memory_type(buffer.tensor.dtype))
            rows.remember(("base", buffer.tensor), moved)

    def publish(self, loop: Loop) -> None:
        """The loops that follow read what this one left."""
        for n in (*loop.reductions, *loop.keep):
            self.rows.levels[-1].buffers[n] = self.buffers[n]
        self.rows.forget_depths()


@dataclass(frozen=True, slots=True)
class _Home:
    """A value that may wait in the memory of a result, `along` being the variable of both, and whether it does."""

    kept: DagNode
    result: Access
    along: LoopVar
    taken: Val

    def start(self, rows: Rows, row: LoopVar, first: Val) -> Val:
        """Where the result's row `first` begins."""
        address = self.result.address
        outer = affine([(v, c) for v, c in address.terms if v not in (row, self.along)], address.offset)
        element = memory_type(self.result.tensor.dtype)
        down = rows.f.mul(first, rows.size(address.coefficient(row)))
        return rows.f.gep(rows.pointer(self.result.tensor, outer), down, element)


def _home(rows: Rows, variables: tuple[LoopVar, ...], loops: list[Loop]) -> _Home | None:
    """Of the last value that is handed on, where the only result of the last loop has room for it, lane by lane, and nobody reads
    memory in between that the result may lie over (`reuse.py`)."""
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
    most, extent = rows.f.target.l1_bytes // PART_OF_CACHE // memory_type(kept.dtype).bytes, along.extent
    if isinstance(extent, int) and extent <= most:
        return None
    return _Home(kept, access, along, rows.f.compare("gt", rows.size(extent), most))


def _is_read(store: Store, loops: list[Loop], busy: Loop, rows: frozenset[LoopVar]) -> bool:
    """Whether a loop reads what may be the memory of the result, once `busy` has written there: any but the element of its own turn."""
    done = {n for s in loops for n in (*s.reductions, *s.keep)}
    for s in loops[loops.index(busy) :]:
        found = accesses(s.stores, s.reductions, done.difference(s.keep))
        loads = [a for a, stored in found if not stored and not (s is busy and matches(a, store))]
        if any(is_in_row(a, store, rows) or (s is not busy and store.access.domain & a.domain - rows) for a in loads):
            return True
    return False


def _whole_vectors(variables: Sequence[LoopVar], lanes: int) -> Size:
    length: Size = 1
    for v in variables:
        length = length * v.extent
    return dims.maximum((length + lanes - 1) // lanes, 1) * lanes
