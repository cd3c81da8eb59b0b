"""What results of windows are computed with besides the elements, such as how many of a window there are: rows of it, computed once for
all rows of results in which it is the same.

In: the stores of a scope, the variables of its rows and of the elements of a row. Out: scratch for a row, which is written where the row
begins, if what it is computed of is not what it was for the row before.

The number of elements in a window is a product of what varies with the row, which is a small number for most of them, and of what
varies along it: it changes at the first rows of a plane and at the last ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from anyshape.lower.analyse.classify import cost
from anyshape.lower.emit.loops.nest import VectorLoop, nest
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.ir.dag import DagNode, LoopIndex, LoopVar, Operation, affine, walk
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm.types import I64, Val, const

KEPT = 8
"""Cycles of a vector of what is kept: loading it takes one or two."""
_STEPPED = frozenset(("min", "max", "select", "lt", "le", "gt", "ge", "eq", "ne"))
"""Operations by which a value that varies with the row may be the same for most of them."""


@dataclass(frozen=True)
class _KeptRow:
    """A value along a row: its scratch, what it is computed of that varies with the row, and where that is for the row in scratch."""

    node: DagNode
    buffer: Buffer
    parts: tuple[DagNode, ...]
    slots: tuple[Val, ...]


class KeptRows:
    """The values of stores that are kept along `last`, the innermost of their variables `positions`, ahead of whose loops this is made."""

    def __init__(self, ctx: KernelContext, stores: Sequence[Store], positions: Sequence[LoopVar]) -> None:
        self.ctx, self.last = ctx, positions[-1]
        rows = frozenset(positions[:-1])
        self._rows: list[_KeptRow] = []
        for node in dict.fromkeys(n for s in stores for n in values_of_rows(s.value, rows, self.last)):
            buffer = Buffer(ctx.memory.reserve(node.dtype, self.last.extent), affine([(self.last, 1)], 0), 1)
            parts = (*_parts(node, self.last),)
            slots = tuple(ctx.f.alloca(elementwise.memory_type(p.dtype), 1) for p in parts)
            row = _KeptRow(node, buffer, parts, slots)
            with ctx.levels.section():
                for v in positions[:-1]:
                    ctx.levels.bind(v, const(I64, 0))
                self._compute(row, self._parts_of(row))
            if parts:
                self._rows.append(row)
            else:
                ctx.levels.hold(node, buffer)

    def begin_row(self) -> None:
        """Emits the values of the row that is bound, where they are others than those in scratch."""
        f = self.ctx.f
        for row in self._rows:
            parts = self._parts_of(row)
            differ = (f.compare("ne", p, f.load(slot, p.type)) for p, slot in zip(parts, row.slots, strict=True))
            with self.ctx.levels.when(reduce(f.or_, differ)):
                self._compute(row, parts)
            self.ctx.levels.hold(row.node, row.buffer)

    def _parts_of(self, row: _KeptRow) -> list[Val]:
        return [elementwise.store_value(self.ctx.f, p.dtype, self.ctx.values.of(p)) for p in row.parts]

    def _compute(self, row: _KeptRow, parts: Sequence[Val]) -> None:
        for part, slot in zip(parts, row.slots, strict=True):
            self.ctx.f.store(part, slot)
        nest(self.ctx, [self.last], partial(self._keep, row), vector=VectorLoop(self.last, (1,)))

    def _keep(self, row: _KeptRow) -> None:
        for copy in self.ctx.values.copies_of(row.node):
            self.ctx.values.to_buffer(row.buffer, row.node, copy)


def values_of_rows(root: DagNode, rows: frozenset[LoopVar], last: LoopVar) -> Iterator[DagNode]:
    """The largest values that vary along a row, with rows in steps at most and with nothing else, and that take long enough."""
    stack, seen = [root], set[DagNode]()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if _is_kept(n, rows, last):
            yield n
        else:
            stack.extend(n.inputs)


def _is_kept(n: DagNode, rows: frozenset[LoopVar], last: LoopVar) -> bool:
    own = frozenset((last,))
    if (
        not isinstance(n, Operation)
        or not own <= n.domain <= rows | own
        or n.dtype.kind == "bool"
        or cost(n, own) < KEPT
    ):
        return False
    if not all(isinstance(m, Operation | LoopIndex) for m in walk([n]) if m.domain):
        return False
    return all(any(isinstance(m, Operation) and m.name in _STEPPED for m in walk([p])) for p in _parts(n, last))


def _parts(n: DagNode, last: LoopVar) -> Iterator[DagNode]:
    """The largest values below a node that vary with rows and not along them."""
    stack, seen = [n], set[DagNode]()
    while stack:
        m = stack.pop()
        if m in seen:
            continue
        seen.add(m)
        if m.domain and last not in m.domain:
            yield m
        else:
            stack.extend(m.inputs)
