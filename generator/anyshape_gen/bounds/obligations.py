"""Everything that has to hold for a kernel to stay inside its tensors.

In: an analysed op. Out: `Obligation`s: for every index of every read and store that it is at least 0 and below its extent, at a generic
position of a run; that there are as many indices as dims; each with the conditions that hold where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.errors import AnyshapeError
from anyshape_gen.analysis_model import OpAnalysis, ResolvedEquation, ResolvedKernel, Role
from anyshape_gen.body_nodes import Store
from anyshape_gen.bounds import axes as at_axes
from anyshape_gen.bounds.accesses import accesses
from anyshape_gen.bounds.elements import Elements
from anyshape_gen.bounds.prove import Truth
from anyshape_gen.bounds.terms import Run, concat, is_int
from anyshape_gen.nodes import (
    Along,
    Comprehension,
    Exact,
    Expr,
    Fit,
    Flat,
    Generator,
    IfExp,
    Index,
    Item,
    Node,
    Offset,
    Over,
    Part,
    Placed,
    Reduction,
    Slice,
    Star,
    TensorRead,
    VecLit,
)
from anyshape_gen.printer import to_text
from anyshape_gen.slots import Factors, Many, ManyAt, One, Parts, Slot, slots_of
from anyshape_gen.source import Span
from anyshape_gen.traverse import children


@dataclass(frozen=True)
class Obligation:
    """One condition on one index of one read or store."""

    access: int
    """which read or store of the kernel, in the order found"""
    tensor: str
    store: bool
    span: Span
    index: str
    """the index as written, or what is asked of the rank"""
    goals: tuple[Truth, ...]
    """all have to hold"""
    given: tuple[Truth, ...]
    scope: tuple[Dim, ...]
    rank: bool = False
    """about the number of indices, not about one of them"""
    modelled: bool = True
    """False: the index is nothing that the prover can speak of"""
    value: Size | None = None
    extent: Size | None = None
    """the index and its dim, for messages"""


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: its variables, and what holds there."""

    env: dict[str, Any] = field(default_factory=dict)
    given: tuple[Truth, ...] = ()
    variables: tuple[Dim, ...] = ()

    def under(self, *c: Truth) -> Scope:
        return replace(self, given=(*self.given, *c))


class Obligations(Elements):
    """Collects the obligations of one op."""

    def __init__(self, analysis: OpAnalysis) -> None:
        super().__init__(analysis)
        self.found: list[Obligation] = []
        self.numbers = (
            {id(n): k for k, n in enumerate(accesses(analysis.kernel))} if analysis.kernel is not None else {}
        )
        operands = (*self.spec.inputs, *self.spec.outputs)
        self.operands = {o.name: o for o in operands}
        self.counts = {o.name: o.signature.variadic.count for o in operands if o.signature.variadic}

    def collect(self) -> list[Obligation]:
        kernel = self.analysis.kernel
        if kernel is None:
            return []
        for born in kernel.born:
            self._visit(born.value, Scope())
        for q in kernel.equations:
            before = len(self.found)
            try:
                self._equation(q)
            except (AnyshapeError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
                # A construct that nobody thought of here: nothing is claimed of the whole equation.
                del self.found[before:]
                self._unmodelled(q)
        for a in kernel.asserts:
            self._visit(a.cond, Scope())
        return self.found

    def _unmodelled(self, q: ResolvedEquation) -> None:
        for node in accesses(ResolvedKernel((), (), (q,), ())):
            store = isinstance(node, Store)
            if isinstance(node, (Store, TensorRead)):
                self._nothing_known(node, node.tensor, store)

    def _nothing_known(self, node: Node, tensor: str, store: bool) -> None:
        asked = _Asked(self, node, tensor, store, node.span, Scope(), False)
        asked.index(None, 0, "…")

    def _equation(self, q: ResolvedEquation) -> None:
        scope = Scope(given=tuple(self.truth(c, {}) for c in q.conditions))
        for v in q.vars:
            if v.role is Role.ELEMENT or not v.run:
                scope = self._with_variable(scope, v.name, v.extent)
            else:
                scope = self._with_run(scope, v.name, v.extent)
        self._parts(q.target.tensor, q.target.element, q.parts, scope, True, q.target.span, q.target)
        for part in q.parts:
            for child in children(part):
                self._visit(child, scope)
        self._visit(q.value, scope)

    def _with_variable(self, scope: Scope, name: str, extent: Expr) -> Scope:
        v = self.variable(name, self.integer(extent, scope.env))
        return replace(scope, env={**scope.env, name: v}, variables=(*scope.variables, v))

    def _with_run(self, scope: Scope, name: str, extents: Expr) -> Scope:
        return replace(scope, env={**scope.env, name: self.variable_run(name, self.vector(extents, scope.env))})

    # --- expressions

    def _visit(self, e: Node, scope: Scope) -> None:
        match e:
            case TensorRead():
                self._parts(e.tensor, e.element, e.parts, scope, False, e.span, e)
                for child in children(e):
                    self._visit(child, scope)
            case IfExp(cond=cond, then=then, other=other):
                self._visit(cond, scope)
                self._visit(then, scope.under(*self._truths(cond, scope, True)))
                self._visit(other, scope.under(*self._truths(cond, scope, False)))
            case (
                Reduction(generators=generators, element=element, conditions=conditions)
                | Comprehension(generators=generators, element=element, conditions=conditions)
            ):
                inner = self._generators(generators, scope)
                for c in conditions:
                    self._visit(c, inner)
                for c in conditions:
                    inner = inner.under(*self._truths(c, inner, True))
                self._visit(element, inner)
            case _:
                for child in children(e):
                    self._visit(child, scope)

    def _truths(self, c: Expr, scope: Scope, holds: bool) -> tuple[Truth, ...]:
        """What is known where a condition holds, or does not."""
        v = self.value(c, scope.env)
        truth = self.truth(c, scope.env) if not isinstance(v, Run) else True
        if holds and truth is not True and self._about_vectors(c, scope.env):
            self.learn(c, scope.env, (truth,))
        return (truth if holds else dims.not_(truth),) if truth is not True or not isinstance(v, Run) else ()

    def _generators(self, generators: tuple[Generator, ...], scope: Scope) -> Scope:
        for g in generators:
            self._visit(g.domain, scope)
            names = [t.name for t in g.targets]
            if g.over is Over.EXTENTS:
                scope = self._with_run(scope, names[0], g.domain)
            elif g.over is Over.EXTENT:
                scope = self._with_variable(scope, names[0], g.domain)
            else:
                scope = self._items(g, names, scope)
        return scope

    def _items(self, g: Generator, names: list[str], scope: Scope) -> Scope:
        """`for k in range(a, b)`, `for n in v`: one turn that stands for all."""
        turns = self.turns(g.domain, scope.env)
        if turns is None:
            unknown = {n: self.context.thing("turn", n, g) for n in names}
            return replace(scope, env={**scope.env, **unknown})
        length, items_at = turns
        v = self.variable("turn", length)
        found = items_at(v)
        bound = dict(zip(names, found)) if len(names) > 1 or len(found) == 1 else {names[0]: concat(found)}
        return replace(scope, env={**scope.env, **bound}, variables=(*scope.variables, v))

    # --- indices

    def slots(self, tensor: str, element: Expr | None) -> tuple[Slot, ...]:
        if tensor in self.operands:
            return slots_of(self.operands[tensor], self.analysis.kinds, self.counts, element)
        shape = self.scratch[tensor].shape
        items: tuple[Item, ...] = shape.items if isinstance(shape, VecLit) else (Star(shape),)
        return tuple(Many(i.value) if isinstance(i, Star) else One(i) for i in items if not isinstance(i, Slice))

    def _parts(
        self,
        tensor: str,
        element: Expr | None,
        parts: tuple[Part, ...],
        scope: Scope,
        store: bool,
        span: Span,
        at: Node,
    ) -> None:
        padded = isinstance(at, TensorRead) and at.outside is not None
        if isinstance(at, TensorRead) and at.absent is not None:
            scope = scope.under(self.present(tensor))
        asked = _Asked(self, at, tensor, store, span, scope, padded)
        if element is not None and tensor in self.counts:
            asked.index(self.value(element, scope.env), self.integer(self.counts[tensor], scope.env), to_text(element))
        slots = self.slots(tensor, element)
        if len(parts) == 1 and (isinstance(parts[0], Placed) or len(slots) != 1):
            asked.whole(parts[0], self._shape(slots, scope), self._vector_of(parts[0], scope))
            return
        if len(parts) != len(slots):
            asked.rank(len(parts), len(slots), "the number of indices")
            return
        for part, slot in zip(parts, slots):
            self._part(asked, part, slot, scope)

    def _part(self, asked: _Asked, part: Part, slot: Slot, scope: Scope) -> None:
        env = scope.env
        match part, slot:
            case Flat(items=items), Factors(extents=extents):
                for item, extent in zip(items, extents):
                    asked.index(self.value(item, env), self.integer(extent, env), to_text(item))
            case Offset(element=element, within=inner, sizes=sizes), Parts(count=count):
                number = self.value(element, env)
                asked.index(number, self.integer(count, env), to_text(element))
                asked.index(self.value(inner, env), self.integer(Index(sizes, (element,)), env), to_text(inner))
            case Along(), _:
                pass  # a vector is put along it, and cut at its end
            case Exact(items=(Star() as run,)), One(extent=extent):
                asked.whole(part, concat([self.integer(extent, env)]), self.vector(run.value, env))
            case Exact(items=(item,)), One(extent=extent) if not isinstance(item, (Star, Slice)):
                asked.index(self.value(item, env), self.integer(extent, env), to_text(item))
            case _:
                asked.whole(part, self._shape((slot,), scope), self._vector_of(part, scope))

    def _shape(self, slots: tuple[Slot, ...], scope: Scope) -> Run:
        env = scope.env
        pieces: list[Any] = []
        picked: list[ManyAt] = []
        for slot in slots:
            match slot:
                case One(extent=extent):
                    pieces.append(self.integer(extent, env))
                case Many(extents=extents):
                    pieces.append(self.vector(extents, env))
                case Factors(extents=extents):
                    product: Size = 1
                    for extent in extents:
                        product = product * self.integer(extent, env)
                    pieces.append(product)
                case Parts(sizes=sizes):
                    pieces.append(self.context.unknown("sum", self.value(sizes, env), low=0))
                case ManyAt():
                    picked.append(slot)
        shape = concat(pieces)
        for slot in picked:
            shape = at_axes.place(self.context, shape, self.value(slot.extents, env), self._axes(slot.axes))
        return shape

    def _vector_of(self, part: Part, scope: Scope) -> Run:
        """All indices of a part that covers several dims."""
        match part:
            case Exact(items=items) | Fit(items=items):
                return self.items(items, scope.env)
            case Placed(rest=rest, picked=picked, axes=axes):
                others, chosen = self.items(rest, scope.env), self.items(picked, scope.env)
                return at_axes.place(self.context, others, chosen, self.value(axes, scope.env))
        return self._some_run(part)


@dataclass
class _Asked:
    """The obligations of one access."""

    owner: Obligations
    at: Node
    tensor: str
    store: bool
    span: Span
    scope: Scope
    padded: bool

    def _add(self, text: str, goals: tuple[Truth, ...], rank: bool = False, modelled: bool = True, **more: Any) -> None:
        given = (*self.scope.given, *more.get("given", ()))
        number = self.owner.numbers.get(id(self.at), -1)
        scope = (*self.scope.variables, *more.get("scope", ()))
        self.owner.found.append(
            Obligation(
                number,
                self.tensor,
                self.store,
                self.span,
                text,
                goals,
                given,
                scope,
                rank,
                modelled,
                more.get("value"),
                more.get("extent"),
            )
        )

    def index(self, v: Any, extent: Size, text: str, **more: Any) -> None:
        if self.padded:
            return
        if not is_int(v) or not is_int(extent):
            self._add(text, (False,), modelled=False, **more)
            return
        self._add(text, (dims.ge(v, 0), dims.lt(v, extent)), value=v, extent=extent, **more)

    def _variables_at(self, p: Size) -> tuple[Dim, ...]:
        """The runs of variables that there are, at a position."""
        found = [v.at(p) for v in self.scope.env.values() if isinstance(v, Run) and v.variable]
        return tuple(v for v in found if isinstance(v, Dim))

    def rank(self, have: Size, want: Size, text: str) -> None:
        goal = dims.eq(have, want)
        if goal is not True:
            self._add(text, (goal,), rank=True)

    def whole(self, part: Part, shape: Run, run: Run) -> None:
        """A vector of indices for a vector of dims: at each position of few, else at one position that stands for all."""
        text = _text_of(part)
        p = self.owner.context.position()
        inside = (dims.lt(p, shape.length),)
        if isinstance(part, Fit):
            goal = dims.le(shape.length, run.length)
            if goal is not True:
                self._add(text, (goal,), rank=True)
            v, n = run.at(p + run.length - shape.length), shape.at(p)
            if is_int(v) and is_int(n) and not self.padded:
                one = dims.eq(n, 1)
                goals = (dims.or_(one, dims.ge(v, 0)), dims.or_(one, dims.lt(v, n)))
                scope = self._variables_at(p + run.length - shape.length)
                self._add(text, goals, given=inside, scope=scope, value=v, extent=n)
            elif not self.padded:
                self._add(text, (False,), modelled=False)
            return
        self.rank(run.length, shape.length, text)
        if isinstance(run.length, int):
            for k in range(run.length):
                there = (dims.lt(k, shape.length),)
                self.index(run.at(k), shape.at(k), text, given=there, scope=self._variables_at(k))
            return
        self.index(run.at(p), shape.at(p), text, given=inside, scope=self._variables_at(p))


def _text_of(part: Part) -> str:
    match part:
        case Exact(items=items) | Fit(items=items):
            return ", ".join(map(to_text, items))
        case Placed(rest=rest, picked=picked, axes=axes):
            return ", ".join((*map(to_text, rest), *(f"{to_text(i)}@{to_text(axes)}" for i in picked)))
    return "…"
