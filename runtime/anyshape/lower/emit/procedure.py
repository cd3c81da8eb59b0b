"""Programs as code: one part runs them, all variables are in scratch.

In: a `Procedure`. Out: instructions. Every action is a phase of its own whose loads stay inside, since any action may change what the next
one reads; what depends on no memory is still computed as far out as it can be. A loop is left by a jump: it carries nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from anyshape.equations import Tensor
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.sort import sort_row
from anyshape.lower.ir.dag import DagNode, LoopVar
from anyshape.lower.ir.procedure import Assign, Choose, Lowered, Procedure, Repeat, SizeIs, Sort, Stop
from anyshape.lower.ir.stores import Store, reductions_of
from anyshape.lower.llvm.emitter import Block
from anyshape.lower.llvm.types import I64 as WORD
from anyshape.lower.llvm.types import Val, const
from anyshape.lower.schedule.tree import plan


def emit_procedure(rows: Rows, p: Procedure) -> None:
    for t in p.makes:
        _zero(rows, t)
    _Emitter(rows).block(p.actions)


def _zero(rows: Rows, t: Tensor) -> None:
    f = rows.f
    count: Val = const(WORD, elementwise.memory_type(t.dtype).bytes)
    for n in t.shape:
        count = f.mul(count, rows.size(n))
    f.memset_zero(rows.base(t), count)


class _Emitter:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.exits: dict[LoopVar, Block] = {}
        self.around: list[LoopVar] = []

    def block(self, actions: Sequence[Lowered]) -> None:
        with ExitStack() as sizes:
            for a in actions:
                if isinstance(a, SizeIs):
                    sizes.enter_context(self.rows.step_to(a.symbol, self.value(a.value)))
                else:
                    self.action(a)

    def action(self, a: Lowered) -> None:
        rows, f = self.rows, self.rows.f
        match a:
            case Assign(op, store):
                with rows.phase(everything):
                    self.assign(op, store)
            case Sort(ordered, room):
                with rows.phase(everything):
                    sort_row(rows, ordered, room.shape[0])
            case Repeat(v, body):
                self.repeat(v, body)
            case Choose(condition, then, other):
                test = self.value(condition)
                with rows.when(test):
                    self.block(then)
                if other:
                    with rows.when(f.not_(test)):
                        self.block(other)
            case Stop(loop):
                f.jump(self.exits[loop])
                f.start(f.new_block())  # what follows is never reached

    def value(self, n: DagNode) -> Val:
        with self.rows.phase(everything):
            return self.rows.value(n)

    def assign(self, op: str, store: Store) -> None:
        rows, f = self.rows, self.rows.f
        if store.variables or reductions_of([store]):
            rows.scope(plan([store], frozenset(self.around)))
            return
        value, access = rows.value(store.value), store.access
        if op == "set":
            rows.store(access, value, 0)
            return
        dtype = access.tensor.dtype
        rows.check(access, 0)
        pointer = rows.pointer(access.tensor, access.address)
        old = elementwise.load_value(f, dtype, f.load(pointer, elementwise.memory_type(dtype)))
        new = elementwise.apply(f, op, dtype, [old, value], [dtype, dtype])
        f.store(elementwise.store_value(f, dtype, new), pointer)

    def repeat(self, v: LoopVar, body: Sequence[Lowered]) -> None:
        rows = self.rows
        with rows.loop(const(WORD, 0), rows.size(v.extent), 1) as iteration:
            rows.bind(v)
            rows.indices[v] = iteration.index
            self.exits[v] = iteration.exit
            self.around.append(v)
            self.block(body)
            self.around.pop()


class _Everything(frozenset[Tensor]):
    """Any tensor: what a step reads, another step may have written."""

    def __contains__(self, t: object) -> bool:
        return True


everything = _Everything()

__all__ = ["emit_procedure"]
