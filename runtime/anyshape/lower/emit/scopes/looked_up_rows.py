"""Rows whose lanes are looked up, each written from its first vector to its last.

In: a scope of rows inside of the loop of a vector, which looks up one tensor at places of the vector alone. Out: what each vector reads and
picks, in scratch, and loops over rows that have the vectors inside. A vector reads as many neighbours as it has lanes, all of them in the
row that is looked up, so that no load has a mask. Memory is then written in the order in which it lies, which a processor fetches ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import I32, I64
from anyshape.equations import Tensor
from anyshape.lower.emit.loops.nest import Accumulators, VectorLoop, nest, nest_carrying
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.neighbours import Window
from anyshape.lower.ir.dag import Access, Load, LoopVar, walk
from anyshape.lower.ir.stores import below
from anyshape.lower.llvm.gathering import lane_picks
from anyshape.lower.llvm.types import I1, I8, Val, const
from anyshape.lower.llvm.types import I32 as WORD
from anyshape.lower.llvm.types import I64 as LONG
from anyshape.lower.schedule.tree import Scope

TIERS = (4, 1)
"""Vectors of a block. Rows of less than a block are faster in columns, which have a loop less for each row."""


@dataclass(frozen=True, kw_only=True)
class LookedUpRows:
    """The one tensor that a scope looks up along its vector: `access`, with rows of `width` elements; where each vector begins to read, and
    what it picks, are kept in `starts` and `picks`."""

    ctx: KernelContext
    scope: Scope
    inside: Scope
    access: Access
    width: Size
    starts: Tensor
    picks: Tensor

    def emit(self, steps: Callable[[], None], split: bool) -> Val:
        """Emits the rows under the condition that one vector has what each vector looks up; returns it."""
        vector = self.scope.vector
        assert vector is not None
        is_plain = self._keep(vector)
        outer = [v for v in self.scope.variables if v is not vector]

        def rows() -> None:
            windows = {(self.access, copy): self._window(vector, copy) for copy in self.ctx.values.copies}
            with self.ctx.values.within(windows):
                steps()

        with self.ctx.levels.when(is_plain, certain=True):
            nest(
                self.ctx, [*outer, *self.inside.variables, vector], rows, vector=VectorLoop(vector, TIERS), split=split
            )
        return is_plain

    def _keep(self, vector: LoopVar) -> Val:
        """Keeps the reads of all vectors; returns whether each has all that its lanes look up."""
        ctx, f = self.ctx, self.ctx.f
        width = ctx.sizes.of(self.width)
        final = f.sub(width, ctx.lanes)

        def keep(carried: Accumulators) -> Accumulators:
            _, offsets = ctx.values.lane_offsets(self.access.address, 0)
            assert offsets is not None
            mask = ctx.values.mask(0)
            if mask is not None:  # lanes that do not exist are where the first one is
                offsets = f.select(mask, offsets, f.splat(f.extract(offsets, 0), ctx.lanes))
            start = f.smax(f.smin(f.reduce("smin", offsets), final), 0)
            places = f.sub(offsets, start)
            inside = f.and_(f.compare("ge", places, 0), f.compare("lt", places, ctx.lanes))
            f.store(start, f.gep(ctx.memory.base(self.starts), self._number(vector, 0), LONG))
            picks = lane_picks(f, self._bytes, f.convert("trunc", places, WORD))
            f.store(picks, self._pointer(vector, 0))
            return [[f.and_(carried[0][0], f.reduce("and", inside))]]

        holds = f.compare("ge", width, ctx.lanes)
        if f.target.permutes(self._bytes, ctx.lanes):  # else columns would load each lane
            holds = f.and_(holds, f.compare("ge", ctx.sizes.of(vector.extent), TIERS[0] * ctx.lanes))
        ((is_plain,),) = nest_carrying(ctx, [vector], [[holds]], keep, vector=VectorLoop(vector, (1,)))
        return is_plain

    @property
    def _bytes(self) -> int:
        return elementwise.memory_type(self.access.tensor.dtype).bytes

    def _number(self, vector: LoopVar, copy: int) -> Val:
        """The number of a vector in its row."""
        f, lanes = self.ctx.f, self.ctx.lanes
        return f.add(f.lshr(self.ctx.levels.indices[vector], lanes.bit_length() - 1), copy)

    def _pointer(self, vector: LoopVar, copy: int) -> Val:
        f, at = self.ctx.f, self.ctx.levels.indices[vector]
        element = elementwise.memory_type(self.access.tensor.dtype)
        return f.gep(self.ctx.memory.base(self.picks), f.add(at, copy * self.ctx.lanes), element)

    def _window(self, vector: LoopVar, copy: int) -> Window:
        f, lanes = self.ctx.f, self.ctx.lanes
        type_ = WORD.vector(lanes) if self._bytes == WORD.bytes else I8.vector(self._bytes * lanes)
        start = f.load(f.gep(self.ctx.memory.base(self.starts), self._number(vector, copy), LONG), LONG)
        places, holds = f.load(self._pointer(vector, copy), type_), const(I1, 1)
        return Window(lowest=start, places=places, first=None, second=None, fits=holds, is_narrow=holds)


def looked_up_rows(ctx: KernelContext, scope: Scope, inside: Scope) -> LookedUpRows | None:
    """Finds rows that are written one after the other if one vector has what each vector looks up: one tensor is looked up, at places
    of the vector alone, in rows of its last axis."""
    vector = scope.vector
    assert vector is not None
    accesses = {n.access for n in below(inside.stores) if isinstance(n, Load)}
    looked_up = [a for a in accesses if any(vector in let.domain for let, _ in a.address.lets)]
    if len(looked_up) != 1:
        return None
    (access,) = looked_up
    element, width = elementwise.memory_type(access.tensor.dtype), access.tensor.shape[-1]
    own = [(let, c) for let, c in access.address.lets if vector in let.domain]
    row_steps = [c for let, c in access.address.lets if vector not in let.domain]
    row_steps += [c for _, c in access.address.terms]
    is_row = len(own) == 1 and own[0][1] == 1 and own[0][0].domain == {vector}
    is_row = is_row and all(dims.mod(c, width) == 0 for c in (*row_steps, access.address.offset))
    refusable = access.checks or any(isinstance(n, Load) and n.access.checks for n in walk([let for let, _ in own]))
    if not is_row or access.bounds or refusable or not ctx.f.target.picks_lanes(element.bytes, ctx.lanes):
        return None
    starts, picks = ctx.memory.reserve(I64, vector.extent), ctx.memory.reserve(I32, vector.extent)
    return LookedUpRows(ctx=ctx, scope=scope, inside=inside, access=access, width=width, starts=starts, picks=picks)
