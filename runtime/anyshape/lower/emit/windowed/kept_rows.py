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
from anyshape.lower.emit.loops.nest import nest
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.ir.dag import DagNode, LoopIndex, LoopVar, Operation, affine, walk
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm.types import I8, Val, const

KEPT = 8
"""Cycles of a vector of what is kept: loading it takes one or two."""
_STEPPED = frozenset(("min", "max", "select", "lt", "le", "gt", "ge", "eq", "ne"))
"""Operations by which a value that varies with the row may be the same for most of them."""


@dataclass(frozen=True)
class _KeptRow:
    """A value along a row: its scratch, what it is computed of that varies with the row, and where that is for the row which is kept."""

    node: DagNode
    buffer: Buffer
    parts: tuple[DagNode, ...]
    slots: tuple[Val, ...]
    known: Val


class KeptRows:
    """The values of stores that are kept along `last`, the innermost of their variables `positions`, ahead of whose loops this is made."""

    def __init__(self, ctx: KernelContext, stores: Sequence[Store], positions: Sequence[LoopVar]) -> None:
        self.ctx, self.last = ctx, positions[-1]
        rows = frozenset(positions[:-1])
        self._rows: list[_KeptRow] = []
        for node in dict.fromkeys(n for s in stores for n in _values_of_rows(s.value, rows, self.last)):
            buffer = Buffer(ctx.memory.reserve(node.dtype, self.last.extent), affine([(self.last, 1)], 0), 1)
            parts = (*_parts(node, self.last),)
            if not parts:
                self._compute([node], [buffer])
                ctx.levels.hold(node, buffer)
                continue
            slots = tuple(ctx.f.alloca(elementwise.memory_type(p.dtype), 1) for p in parts)
            known = ctx.f.alloca(I8, 1)
            ctx.f.store(const(I8, 0), known)
            self._rows.append(_KeptRow(node, buffer, parts, slots, known))

    def begin_row(self) -> None:
        """Emits the values of the row that is bound, where they are others than those of the row before."""
        for row in self._rows:
            self._begin(row)
            self.ctx.levels.hold(row.node, row.buffer)

    def _begin(self, row: _KeptRow) -> None:
        ctx, f = self.ctx, self.ctx.f
        parts = [elementwise.store_value(f, p.dtype, ctx.values.of(p)) for p in row.parts]
        differ = [f.compare("ne", part, f.load(slot, part.type)) for part, slot in zip(parts, row.slots, strict=True)]
        unknown = f.compare("eq", f.load(row.known, I8), 0)
        with ctx.levels.when(reduce(f.or_, differ, unknown)):
            for part, slot in zip(parts, row.slots, strict=True):
                f.store(part, slot)
            f.store(const(I8, 1), row.known)
            self._compute([row.node], [row.buffer])

    def _compute(self, nodes: Sequence[DagNode], buffers: Sequence[Buffer]) -> None:
        nest(self.ctx, [self.last], partial(self._keep, nodes, buffers), vector=self.last, tiers=(1,))

    def _keep(self, nodes: Sequence[DagNode], buffers: Sequence[Buffer]) -> None:
        for node, buffer in zip(nodes, buffers, strict=True):
            for copy in self.ctx.values.copies_of(node):
                self.ctx.values.to_buffer(buffer, node, copy)


def _values_of_rows(root: DagNode, rows: frozenset[LoopVar], last: LoopVar) -> Iterator[DagNode]:
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
    if not isinstance(n, Operation) or not own <= n.domain <= rows | own or n.dtype.kind == "bool" or cost(n, own) < KEPT:
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
