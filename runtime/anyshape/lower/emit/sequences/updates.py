"""Updates of a tensor at places that data names, one after the other, as code.

In: an `Ordered` whose form is an update. Out: instructions. Elements that are adjacent in the target and in the operands are updated by
vectors: their places differ, so that their order does not matter. Indices are tested a block at a time, by vectors, ahead of the loop that
uses them: one branch for all of them, and none in that loop. It reads and wraps the indices again, which takes no time where it waits for
its stores; to keep them in scratch would be more stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from anyshape import dims
from anyshape.lower.emit.loops.empty_loops import Spans
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.bounds import check_block, remember_checked
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.dag import Access, Load, LoopVar, walk
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.llvm.types import Val

COPIES = 4
"""Vectors of indices in a block, as many as a row's loop takes at a time."""
SHORT_ROWS = 2
"""Rows of few elements in an iteration: counting rows is a good part of the work, and each further one needs registers for its address."""


def emit_update(ctx: KernelContext, o: Ordered, op: str) -> None:
    _UpdateEmission(ctx, o, op).run()


class _UpdateEmission:
    def __init__(self, ctx: KernelContext, o: Ordered, op: str) -> None:
        self.ctx, self.o, self.op = ctx, o, op
        self.spans = Spans(ctx, o.store.variables, where=o.where)
        self.lanes = ctx.lanes
        self.ahead = self._tested_ahead()
        self.row = self._row()

    def run(self) -> None:
        """Emits the update. Rows shorter than a vector, if only the run knows it, have loops of their own, which need no test for each
        row."""
        row, variables = self.row, self.o.store.variables
        if row is None or dims.ge(row.extent, self.lanes) is True:
            self._loops(variables)
            return
        long = self.ctx.f.compare("ge", self.ctx.sizes.of(row.extent), self.lanes)
        with self.ctx.levels.when(long, certain=True):
            self._loops(variables)
        self.row = None
        with self.ctx.levels.when(self.ctx.f.not_(long), certain=True):
            self._loops(variables)

    # what is chosen

    def _tested_ahead(self) -> LoopVar | None:
        """The innermost variable of the indices, if every iteration of its loop has a test, and the kernel does not write what that
        reads. Under a condition an index is tested where it is used, behind a branch that there is in any case."""
        checks = self.o.store.access.checks
        inner = [v for v in self.o.store.variables if any(v in b.index.domain for b in checks)]
        if not inner or self.o.where is not None or any(b.guard is not None or b.index.terms for b in checks):
            return None
        indices = walk([n for b in checks for n, _ in b.index.lets])
        loads = [n.access for n in indices if isinstance(n, Load)]
        written = any(a.tensor in self.ctx.levels.written or a.checks for a in loads)
        extent = inner[-1].extent
        small = isinstance(extent, int) and extent < COPIES * self.lanes
        return None if written or small else inner[-1]

    def _row(self) -> LoopVar | None:
        """The innermost variable, if it goes along the elements of the target, and no element read is one that is written."""
        variables, access = self.o.store.variables, self.o.store.access
        if not variables or access.address.coefficient(variables[-1]) != 1:
            return None
        v, roots = variables[-1], [self.o.store.value] if self.o.where is None else [self.o.store.value, self.o.where]
        loads = [n.access for n in walk(roots) if isinstance(n, Load)]
        apart = all(a.tensor is not access.tensor for a in loads)
        side_by_side = all(a.address.coefficient(v) in (0, 1) and not _lets_vary(a, v) for a in loads)
        plain = not any(a.bounds or a.checks for a in loads)
        if _lets_vary(access, v) or not (apart and side_by_side and plain):
            return None
        return None if isinstance(v.extent, int) and v.extent < self.lanes else v

    # loops

    def _loops(self, variables: Sequence[LoopVar], tested: bool = False) -> None:
        """Emits the loops of the variables. The condition of the update is tested as soon as it is known; `tested`: it is known to hold."""
        where = self.o.where
        if where is not None and not tested and where.domain.isdisjoint(variables):
            with self.ctx.levels.when(self.ctx.values.of(where)):
                self._loops(variables, True)
            return
        if not variables:
            self._element()
            return
        v, range_ = variables[0], self.spans.of(variables[0])
        # Unless a condition cuts ranges, a loop further out has no iteration where this one has none.
        surely = v is not self.o.store.variables[0] and self.o.where is None
        if v is self.ahead:
            range_, surely = self._blocks(v, range_, variables[1:]), False
        elif v is self.row:
            range_, surely = self._vectors(v, range_), False
        with self.ctx.levels.loop(*range_, 1, surely=surely) as iteration:
            self.ctx.levels.bind_iteration(v, iteration.index)
            self._loops(variables[1:], tested)

    def _vectors(self, v: LoopVar, range_: Range) -> Range:
        """Emits whole vectors of a row; returns the range of the elements that are left."""
        ctx, f = self.ctx, self.ctx.f
        first, last = range_
        for copies in (COPIES, 1):
            size = copies * self.lanes
            stop = f.add(first, f.and_(f.sub(last, first), -size))
            with ctx.levels.loop(first, stop, size) as iteration, self._along(v, iteration.index, copies):
                self._element(copies)
            first = stop
        return first, last

    def _blocks(self, v: LoopVar, range_: Range, inner: Sequence[LoopVar]) -> Range:
        """Emits whole blocks of tested indices; returns the range of the indices that are left, which are tested where they are used."""
        ctx, f = self.ctx, self.ctx.f
        first, last = range_
        size = COPIES * self.lanes
        stop = f.add(first, f.and_(f.sub(last, first), -size))
        with ctx.levels.loop(first, stop, size) as block:
            with ctx.levels.section(), self._along(v, block.index, COPIES):
                check_block(ctx.values, self.o.store.access.checks, range(COPIES))
            at_once = self._at_once(inner)
            with ctx.levels.loop(block.index, f.add(block.index, size), at_once, surely=True) as iteration:
                for b in self.o.store.access.checks:
                    remember_checked(ctx.values, b)
                for k in range(at_once):
                    with ctx.levels.section():
                        ctx.levels.bind_iteration(v, f.add(iteration.index, k))
                        self._loops(inner)
        return stop, last

    def _at_once(self, inner: Sequence[LoopVar]) -> int:
        """How many of a block's indices an iteration of the inner loop takes."""
        short = len(inner) == 1 and self.row is None
        return SHORT_ROWS if short else 1 if inner else COPIES

    @contextmanager
    def _along(self, v: LoopVar, first: Val, copies: int) -> Iterator[None]:
        """Code whose values are vectors from a position on."""
        self.ctx.levels.bind_iteration(v, first)
        with self.ctx.values.along(Vector(v, self.lanes, (None,) * copies)):
            yield

    # one element, or vectors of them

    def _element(self, copies: int = 1) -> None:
        values, where, access = self.ctx.values, self.o.where, self.o.store.access
        if where is None or not values.varies(where):
            self._update(access, copies)
            return
        assert values.vector is not None
        masks = tuple(values.of(where, copy) for copy in range(copies))
        with values.along(replace(values.vector, masks=masks)):
            self._update(replace(access, checks=tuple(replace(b, guard=where) for b in access.checks)), copies)

    def _update(self, access: Access, copies: int) -> None:
        values = [self.ctx.values.of(self.o.store.value, copy) for copy in range(copies)]
        for copy, value in enumerate(values):
            if self.op == "set":
                self.ctx.values.store(access, value, copy)
            else:
                self._combine(access, value, copy)

    def _combine(self, access: Access, value: Val, copy: int) -> None:
        ctx, f = self.ctx, self.ctx.f
        dtype, element = access.tensor.dtype, elementwise.memory_type(access.tensor.dtype)
        ctx.values.check(access, copy)
        pointer, mask = ctx.values.pointer(access.tensor, access.address), ctx.values.mask(copy)
        if ctx.values.vector is not None:
            pointer, element = f.gep(pointer, copy * self.lanes, element), element.vector(self.lanes)
            value = f.splat(value, self.lanes)
        raw = f.load(pointer, element) if mask is None else f.masked_load(pointer, element, mask)
        new = elementwise.apply(f, self.op, dtype, [elementwise.load_value(f, dtype, raw), value], [dtype, dtype])
        raw = elementwise.store_value(f, dtype, new)
        if mask is None:
            f.store(raw, pointer)
        else:
            f.masked_store(raw, pointer, mask)


def _lets_vary(access: Access, v: LoopVar) -> bool:
    return any(v in n.domain for n, _ in access.address.lets)
