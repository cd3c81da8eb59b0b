"""Programs as code: one part runs them; scalars are held in registers, arrays in scratch.

In: a `LoweredProcedure`. Out: instructions. Every action is a phase of its own whose loads stay inside, since any action may change what
the next one reads; what depends on no memory is still computed as far out as it can be. A loop is left by a jump: it carries nothing but
scalars, which LLVM makes values of (`llvm/scalars.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from anyshape.equations import Tensor
from anyshape.lower.emit.scopes.rows import emit_scope
from anyshape.lower.emit.sequences.sort import OrderOnDemand, begin_order, sort_row
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import DagNode, LoopVar
from anyshape.lower.ir.procedure import Assign, Break, Choose, InOrder, Lowered, LoweredProcedure, Repeat, SizeIs, Sort
from anyshape.lower.ir.stores import Store, reductions_of
from anyshape.lower.llvm.instructions import BasicBlock
from anyshape.lower.llvm.types import I64 as WORD
from anyshape.lower.llvm.types import Val, const
from anyshape.lower.schedule.tree import plan


def emit_procedure(ctx: KernelContext, p: LoweredProcedure) -> None:
    scalars = [t for t in p.own if not t.shape and not ctx.memory.has(t)]
    ctx.memory.hold(scalars)
    for t in p.makes:
        if t not in scalars:
            _zero(ctx, t)
    _ProcedureEmission(ctx).block(p.actions)


def _zero(ctx: KernelContext, t: Tensor) -> None:
    f = ctx.f
    count: Val = const(WORD, elementwise.memory_type(t.dtype).bytes)
    for n in t.shape:
        count = f.mul(count, ctx.sizes.of(n))
    f.memset_zero(ctx.memory.base(t), count)


class _ProcedureEmission:
    def __init__(self, ctx: KernelContext) -> None:
        self.ctx = ctx
        self.exits: dict[LoopVar, BasicBlock] = {}
        self.around: list[LoopVar] = []

    def block(self, actions: Sequence[Lowered]) -> None:
        with ExitStack() as sizes:
            for a in actions:
                if isinstance(a, SizeIs):
                    sizes.enter_context(self.ctx.levels.step_to(a.symbol, self.value(a.value)))
                else:
                    self.action(a)

    def action(self, a: Lowered) -> None:
        ctx, f = self.ctx, self.ctx.f
        match a:
            case Assign(op, store):
                with ctx.levels.phase(everything):
                    self.assign(op, store)
            case Sort(ordered, room):
                with ctx.levels.phase(everything):
                    sort_row(ctx, ordered, room.shape[0])
            case Repeat(v, body):
                self.repeat(v, body)
            case InOrder(Sort(ordered, room), Repeat(v, body)):
                with ctx.levels.phase(everything):
                    order = begin_order(ctx, ordered, room.shape[0])
                self.repeat(v, body, order)
            case Choose(condition, then, other):
                test = self.value(condition)
                with ctx.levels.when(test):
                    self.block(then)
                if other:
                    with ctx.levels.when(f.not_(test)):
                        self.block(other)
            case Break(loop):
                f.jump(self.exits[loop])
                f.start(f.new_block())  # what follows is never reached

    def value(self, n: DagNode) -> Val:
        with self.ctx.levels.phase(everything):
            return self.ctx.values.of(n)

    def assign(self, op: str, store: Store) -> None:
        ctx, f = self.ctx, self.ctx.f
        if store.variables or reductions_of([store]):
            emit_scope(ctx, plan([store], frozenset(self.around)))
            return
        value, access = ctx.values.of(store.value), store.access
        if op == "set":
            ctx.values.store(access, value, 0)
            return
        dtype = access.tensor.dtype
        ctx.values.check(access, 0)
        pointer = ctx.values.pointer(access.tensor, access.address)
        old = elementwise.load_value(f, dtype, f.load(pointer, elementwise.memory_type(dtype)))
        new = elementwise.apply(f, op, dtype, [old, value], [dtype, dtype])
        f.store(elementwise.store_value(f, dtype, new), pointer)

    def repeat(self, v: LoopVar, body: Sequence[Lowered], order: OrderOnDemand | None = None) -> None:
        ctx = self.ctx
        with ctx.levels.loop(const(WORD, 0), ctx.sizes.of(v.extent), 1) as iteration:
            ctx.levels.bind(v, iteration.index)
            self.exits[v] = iteration.exit
            self.around.append(v)
            if order is not None:
                with ctx.levels.when(ctx.f.compare("eq", iteration.index, order.known)), ctx.levels.phase(everything):
                    order.complete()
            self.block(body)
            self.around.pop()


class _Everything(frozenset[Tensor]):
    """The set of all tensors: what a step reads, another step may have written."""

    def __contains__(self, t: object) -> bool:
        return True


everything = _Everything()
