"""Programs for the emitter: their steps over the graph that everything else is lowered to.

In: a `StepProgram`, and the inliner that lowers expressions to nodes. Out: a tree of actions. Loops that only write elements which their
own variables number become stores over those variables, so that they are scheduled as equations are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anyshape.dims import Dim
from anyshape.equations import Expr, Read, Tensor, Var
from anyshape.equations.builder import Sorting
from anyshape.equations.indexing import is_variable
from anyshape.equations.program import Action, Each, Leave, Let, Order, Put, StepProgram, When, every, expressions_of
from anyshape.equations.traversal import walk
from anyshape.lower.ir.dag import Access, Affine, Dag, DagNode, LoopVar
from anyshape.lower.ir.stores import Ordered, Store

Env = dict[Var, Affine]


@dataclass(frozen=True, eq=False, slots=True)
class SizeIs:
    symbol: Dim
    value: DagNode


@dataclass(frozen=True, eq=False, slots=True)
class Assign:
    """The store for all values of its variables; one element unless `op` is `set`."""

    op: str
    store: Store


@dataclass(frozen=True, eq=False, slots=True)
class Sort:
    ordered: Ordered
    room: Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Repeat:
    variable: LoopVar
    body: tuple[Lowered, ...]


@dataclass(frozen=True, eq=False, slots=True)
class InOrder:
    """The loop over the positions of a sort, which it may leave before it has come to all of them."""

    sort: Sort
    loop: Repeat


@dataclass(frozen=True, eq=False, slots=True)
class Choose:
    condition: DagNode
    then: tuple[Lowered, ...]
    other: tuple[Lowered, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Break:
    loop: LoopVar


Lowered = SizeIs | Assign | Sort | Repeat | InOrder | Choose | Break


@dataclass(frozen=True, eq=False, slots=True)
class LoweredProcedure:
    """A lowered program. `makes` are zero at first; `own` is what needs memory unless it is an operand of the kernel."""

    actions: tuple[Lowered, ...]
    makes: tuple[Tensor, ...]
    own: tuple[Tensor, ...]


class Inliner(Protocol):
    """Lowering of expressions to nodes. `around`: loop variables that no other loop may use."""

    dag: Dag
    around: list[LoopVar]

    def value(self, e: Expr, env: Env, guard: DagNode | None) -> DagNode: ...

    def place(self, t: Tensor, index: Sequence[Expr], env: Env) -> Access: ...


def lower_program(program: StepProgram, inliner: Inliner) -> LoweredProcedure:
    actions = _ProcedureLowering(inliner).block(program.actions, {})
    return LoweredProcedure(actions, program.makes, (*program.makes, *program.arrays))


@dataclass
class _ProcedureLowering:
    inliner: Inliner
    loops: dict[Var, LoopVar] = field(default_factory=dict)

    def block(self, actions: Sequence[Action], env: Env) -> tuple[Lowered, ...]:
        lowered: list[Lowered] = []
        before: Action | None = None
        for a in actions:
            after = self.action(a, env)
            match before, lowered[-1:], after:
                case Order(), [Sort() as sort], [Repeat() as loop] if isinstance(a, Each) and _may_end_early(before, a):
                    lowered[-1] = InOrder(sort, loop)
                case _:
                    lowered += after
            before = a
        return tuple(lowered)

    def action(self, a: Action, env: Env) -> Sequence[Lowered]:
        match a:
            case Let(symbol, value):
                return [SizeIs(symbol, self.inliner.value(value, env, None))]
            case Put():
                return [self.put(a, env)]
            case Order(target, over, key, descending):
                return [self.order(target, over, key, descending, env)]
            case Each():
                puts = _independent(a)
                return [self.whole(p, vs, env) for p, vs in puts] if puts else [self.each(a, env)]
            case When(condition, then, other):
                test = self.inliner.value(condition, env, None)
                return [Choose(test, self.block(then, env), self.block(other, env))]
            case Leave(loop):
                return [Break(self.loops[loop])]

    def each(self, a: Each, env: Env) -> Repeat:
        v = self.bound(a.var)
        self.loops[a.var] = v
        body = self.block(a.body, {**env, a.var: Affine(((v, 1),))})
        self.inliner.around.remove(v)
        return Repeat(v, body)

    def put(self, a: Put, env: Env) -> Assign:
        return self.whole(a, a.over, env)

    def whole(self, a: Put, over: Sequence[Var], env: Env) -> Assign:
        own = [self.bound(v) for v in over]
        inner = {**env, **{v: Affine(((w, 1),)) for v, w in zip(over, own, strict=True)}}
        value = self.inliner.value(a.value, inner, None)
        store = Store(self.inliner.place(a.target, a.index, inner), value, tuple(own))
        for w in own:
            self.inliner.around.remove(w)
        return Assign(a.op, store)

    def order(self, target: Tensor, over: Var, key: Expr, descending: bool, env: Env) -> Sort:
        v, position = self.bound(over), self.bound(Var("position", over.extent))
        value = self.inliner.value(key, {**env, over: Affine(((v, 1),))}, None)
        store = Store(Access(target, Affine(((position, 1),))), value, ())
        for w in (v, position):
            self.inliner.around.remove(w)
        return Sort(Ordered(Sorting(over, over, descending), store, (v,), position=position, where=None), target)

    def bound(self, v: Var) -> LoopVar:
        variable = self.inliner.dag.variable(v.extent)
        self.inliner.around.append(variable)
        return variable


def _may_end_early(o: Order, a: Each) -> bool:
    """Whether a loop goes along an order, may leave it, and changes nothing that the order was made by."""
    body = list(every(a.body))
    if a.var.extent != o.over.extent or not any(isinstance(b, Leave) and b.loop is a.var for b in body):
        return False
    written = {b.target for b in body if isinstance(b, (Put, Order))}
    keys = {e.tensor for e in walk(o.key) if isinstance(e, Read)}
    places = [
        e.index
        for b in body
        for part in expressions_of(b)
        for e in walk(part)
        if isinstance(e, Read) and e.tensor is o.target
    ]
    return written.isdisjoint({*keys, o.target}) and all(is_variable(i, a.var) for (i,) in places)


def _independent(a: Each) -> list[tuple[Put, tuple[Var, ...]]]:
    """The stores of a nest of loops in which no iteration reads what another one writes; none where one may."""
    variables = [a.var]
    body = a.body
    while len(body) == 1 and isinstance(body[0], Each):
        variables.append(body[0].var)
        body = body[0].body
    puts = [p for p in body if isinstance(p, Put) and p.op == "set" and not p.over]
    if not puts or len(puts) < len(body) or len({p.target for p in puts}) < len(puts):
        return []
    written = {p.target for p in puts}
    for p in puts:
        read = {e.tensor for part in (p.value, *p.index) for e in walk(part) if isinstance(e, Read)}
        numbered = [v for v in variables if any(is_variable(i, v) for i in p.index)]
        if read & written or len(numbered) < len(variables):
            return []
    return [(p, tuple(variables)) for p in puts]
