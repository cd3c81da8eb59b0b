"""Collects the conditions under which all indices of a kernel are in bounds.

In: an analysed op. Out: `Obligation`s: that every index of every read and store is at least 0 and below its extent, at a generic
position of a run; and that there are as many indices as dims; each with the hypotheses at its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape_gen.bounds import axes as at_axes
from anyshape_gen.bounds.elements import Elements, variable, variable_run
from anyshape_gen.bounds.evaluate import integer, iterations, listed, term, truth, vector
from anyshape_gen.bounds.learn import about_vectors, learn
from anyshape_gen.bounds.signature import OpNames
from anyshape_gen.bounds.terms import NO_TERMS, Literal, NotModelled, Run, Truth, concat, is_int
from anyshape_gen.model.accesses import accesses
from anyshape_gen.model.analysis import OpAnalysis, ResolvedEquation, ResolvedKernel, Role
from anyshape_gen.model.body_nodes import Store
from anyshape_gen.model.nodes import (
    Along,
    BoolOp,
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
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Span
from anyshape_gen.model.traverse import children, walk
from anyshape_gen.resolve.slots import Factors, Many, ManyAt, One, Parts, Slot, slots_of

NO_INDEX = "the prover has no terms for the index"


@dataclass(frozen=True, kw_only=True)
class Obligation:
    """A condition on one index of one read or store."""

    access: int
    """the number of the read or store in the kernel"""
    tensor: str
    store: bool
    span: Span
    index: str
    """the index as written, or words for the number of indices"""
    claims: tuple[tuple[Literal, ...], ...]
    """conditions that all have to hold: of each, one of its literals; no literal where the index is not modelled"""
    hypotheses: tuple[Truth, ...] = ()
    lazily: tuple[Truth, ...] = ()
    """conditions left of the index in an `and` or `or`: they hold where the index is evaluated if the operands are evaluated lazily"""
    scope: tuple[Dim, ...] = ()
    rank: bool = False
    """whether it is about the number of indices, not about one of them"""
    unmodelled: str = ""
    """what the prover has no terms for, where it cannot model the index"""
    value: Size | None = None
    extent: Size | None = None
    """the index and its dim, for messages"""

    @cached_property
    def goals(self) -> tuple[Truth, ...]:
        """The claims as far as `dims` leaves them undecided."""
        return tuple(dims.or_(*(part.truth for part in claim)) for claim in self.claims)


@dataclass(frozen=True)
class Scope:
    """The variables and hypotheses at the place of an expression."""

    env: dict[str, Any] = field(default_factory=dict)
    hypotheses: tuple[Truth, ...] = ()
    variables: tuple[Dim, ...] = ()
    lazily: tuple[Truth, ...] = ()

    def behind(self, *c: Truth) -> Scope:
        """The scope right of operands of `and` or `or`, or of conditions of a reduction, which decide whether it matters."""
        return replace(self, lazily=(*self.lazily, *c))

    def under(self, *c: Truth) -> Scope:
        return replace(self, hypotheses=(*self.hypotheses, *c))


class Obligations:
    """Collects the obligations of one op, or of one call of it."""

    def __init__(self, analysis: OpAnalysis, call: Mapping[str, Any] | None = None) -> None:
        self.analysis, self.at_call = analysis, call is not None
        self.names = OpNames(analysis, call)
        self.state, self.context = self.names.state, self.names.context
        self.elements = Elements(self.names)
        self.obligations: list[Obligation] = []
        self.numbers = access_numbers(analysis.kernel)
        operands = (*analysis.spec.inputs, *analysis.spec.outputs)
        self.operands = {o.name: o for o in operands}
        self.counts = {o.name: o.signature.variadic.count for o in operands if o.signature.variadic}

    def collect(self) -> list[Obligation]:
        kernel = self.analysis.kernel
        if kernel is None:
            return []
        for unbacked in kernel.unbacked:
            self._visit(unbacked.value, Scope())
        for q in kernel.equations:
            before = len(self.obligations)
            try:
                self._equation(q)
            except NO_TERMS as e:  # all indices of the equation are unknown
                del self.obligations[before:]
                self.obligations += unmodelled(ResolvedKernel((), (), (q,), ()), self.numbers, str(e))
        for a in kernel.asserts:
            self._visit(a.cond, Scope())
        return self.obligations

    def _equation(self, q: ResolvedEquation) -> None:
        scope = Scope(hypotheses=tuple(truth(self.state, c, {}) for c in q.conditions))
        for v in q.vars:
            if v.role is Role.ELEMENT or not v.run:
                scope = self._with_variable(scope, v.name, v.extent)
            else:
                scope = self._with_run(scope, v.name, v.extent)
        scope = self._kept(q.generators, q.filters, scope)
        self._access(q.target, q.parts, scope)
        for part in q.parts:
            for child in children(part):
                self._visit(child, scope)
        self._visit(q.value, scope)

    def _with_variable(self, scope: Scope, name: str, extent: Expr) -> Scope:
        v = variable(self.context, name, integer(self.state, extent, scope.env))
        return replace(scope, env={**scope.env, name: v}, variables=(*scope.variables, v))

    def _with_run(self, scope: Scope, name: str, extents: Expr) -> Scope:
        """Adds a run of variables. In a call in which a size of the run is 0, the loop has no iteration, and every goal in it holds."""
        run = vector(self.state, extents, scope.env)
        if self.at_call and isinstance(run.length, int) and any(run.at(p) == 0 for p in range(run.length)):
            scope = scope.under(False)
        return replace(scope, env={**scope.env, name: variable_run(self.context, name, run)})

    # --- expressions

    def _visit(self, e: Node, scope: Scope) -> None:
        match e:
            case TensorRead():
                self._access(e, e.parts, scope)
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
                self._visit(element, self._kept(generators, conditions, scope))
            case BoolOp(op=op, items=items):
                self._lazily(items, op == "and", scope)
            case _:
                for child in children(e):
                    self._visit(child, scope)

    def _kept(self, generators: tuple[Generator, ...], conditions: tuple[Expr, ...], scope: Scope) -> Scope:
        """Visits generators and conditions, and returns the scope where all of these hold."""
        scope = self._generators(generators, scope)
        self._lazily(conditions, True, scope)
        for c in conditions:
            scope = scope.under(*self._truths(c, scope, True))
        return scope

    def _lazily(self, items: tuple[Expr, ...], going_on: bool, scope: Scope) -> None:
        """Visits the operands of `and` or `or`, each where those left of it leave the result open."""
        for k, item in enumerate(items):
            self._visit(item, scope)
            if any(isinstance(n, TensorRead) for rest in items[k + 1 :] for n in walk(rest)):
                try:
                    scope = scope.behind(*self._truths(item, scope, going_on))
                except NO_TERMS:
                    continue

    def _truths(self, c: Expr, scope: Scope, holds: bool) -> tuple[Truth, ...]:
        """Returns the facts where a condition holds, or where it does not."""
        v = term(self.state, c, scope.env)
        if isinstance(v, Run):
            return ()
        known = truth(self.state, c, scope.env)
        if holds and known is not True and about_vectors(self.state, c, scope.env):
            learn(self.state, c, scope.env, (known,))
        return (known if holds else dims.not_(known),)

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
        """Adds the targets of `for k in range(a, b)` or `for n in v`, in a generic iteration."""
        taken = iterations(self.state, g.domain, scope.env)
        if taken is None:
            unknown = {n: self.context.opaque_value("iteration", n, g) for n in names}
            return replace(scope, env={**scope.env, **unknown})
        length, items_at = taken
        v = variable(self.context, "iteration", length)
        items = items_at(v)
        bound = dict(zip(names, items)) if len(names) > 1 or len(items) == 1 else {names[0]: concat(items)}
        return replace(scope, env={**scope.env, **bound}, variables=(*scope.variables, v))

    # --- indices

    def _slots(self, tensor: str, element: Expr | None) -> tuple[Slot, ...]:
        if tensor in self.operands:
            return slots_of(self.operands[tensor], self.analysis.kinds, self.counts, element)
        shape = self.elements.scratch[tensor].shape
        items: tuple[Item, ...] = shape.items if isinstance(shape, VecLit) else (Star(shape),)
        if any(isinstance(i, Slice) for i in items):
            raise NotModelled(f"the shape of {tensor} has a slice")
        return tuple(Many(i.value) if isinstance(i, Star) else One(i) for i in items if not isinstance(i, Slice))

    def _access(self, node: Store | TensorRead, parts: tuple[Part, ...], scope: Scope) -> None:
        tensor, element = node.tensor, node.element
        if isinstance(node, TensorRead) and node.absent is not None:
            scope = scope.under(self.names.present(tensor))
        access = _AccessObligations(self, node, scope)
        if element is not None and tensor in self.counts:
            access.index(
                term(self.state, element, scope.env),
                integer(self.state, self.counts[tensor], scope.env),
                to_text(element),
            )
        slots = self._slots(tensor, element)
        if len(parts) == 1 and (isinstance(parts[0], Placed) or len(slots) != 1):
            access.whole(parts[0], self._shape(slots, scope), self._vector_of(parts[0], scope))
            return
        if len(parts) != len(slots):
            access.rank(len(parts), len(slots), "the number of indices")
            return
        for part, slot in zip(parts, slots):
            self._part(access, part, slot, scope)

    def _part(self, access: _AccessObligations, part: Part, slot: Slot, scope: Scope) -> None:
        env = scope.env
        match part, slot:
            case Flat(items=items), Factors(extents=extents):
                for item, extent in zip(items, extents):
                    access.index(term(self.state, item, env), integer(self.state, extent, env), to_text(item))
            case Offset(element=element, within=inner, sizes=sizes), Parts(count=count):
                number = term(self.state, element, env)
                access.index(number, integer(self.state, count, env), to_text(element))
                access.index(
                    term(self.state, inner, env), integer(self.state, Index(sizes, (element,)), env), to_text(inner)
                )
            case Along(), _:
                pass  # a vector is stored along the dim, and cut at its end
            case Exact(items=(Star() as run,)), One(extent=extent):
                access.whole(part, concat([integer(self.state, extent, env)]), vector(self.state, run.value, env))
            case Exact(items=(item,)), One(extent=extent) if not isinstance(item, (Star, Slice)):
                access.index(term(self.state, item, env), integer(self.state, extent, env), to_text(item))
            case _:
                access.whole(part, self._shape((slot,), scope), self._vector_of(part, scope))

    def _shape(self, slots: tuple[Slot, ...], scope: Scope) -> Run:
        env = scope.env
        pieces: list[Any] = []
        picked: list[ManyAt] = []
        for slot in slots:
            match slot:
                case One(extent=extent):
                    pieces.append(integer(self.state, extent, env))
                case Many(extents=extents):
                    pieces.append(vector(self.state, extents, env))
                case Factors(extents=extents):
                    product: Size = 1
                    for extent in extents:
                        product = product * integer(self.state, extent, env)
                    pieces.append(product)
                case Parts(sizes=sizes):
                    pieces.append(self.context.unknown("sum", term(self.state, sizes, env), low=0))
                case ManyAt():
                    picked.append(slot)
        shape = concat(pieces)
        for slot in picked:
            shape = at_axes.place(self.context, shape, term(self.state, slot.extents, env), self.names.axes(slot.axes))
        return shape

    def _vector_of(self, part: Part, scope: Scope) -> Run:
        """Returns the indices of a part that covers several dims."""
        match part:
            case Exact(items=items) | Fit(items=items):
                return listed(self.state, items, scope.env)
            case Placed(rest=rest, picked=picked, axes=axes):
                kept, chosen = listed(self.state, rest, scope.env), listed(self.state, picked, scope.env)
                return at_axes.place(self.context, kept, chosen, term(self.state, axes, scope.env))
        return self.context.vector(part)


def access_numbers(kernel: ResolvedKernel | None) -> dict[int, int]:
    """Maps the ids of the nodes of a kernel's accesses to their numbers."""
    return {id(n): k for k, n in enumerate(accesses(kernel))} if kernel is not None else {}


def unmodelled(kernel: ResolvedKernel, numbers: Mapping[int, int], why: str) -> list[Obligation]:
    """Returns an unmodelled obligation for each access of a kernel."""
    return [
        Obligation(
            access=numbers[id(n)],
            tensor=n.tensor,
            store=isinstance(n, Store),
            span=n.span,
            index="…",
            claims=((),),
            unmodelled=why,
        )
        for n in accesses(kernel)
        if isinstance(n, (Store, TensorRead))
    ]


@dataclass
class _AccessObligations:
    """Adds the obligations of one access."""

    owner: Obligations
    node: Store | TensorRead
    scope: Scope

    @property
    def _padded(self) -> bool:
        return isinstance(self.node, TensorRead) and self.node.outside is not None

    def _add(
        self,
        text: str,
        claims: tuple[tuple[Literal, ...], ...],
        hypotheses: tuple[Truth, ...] = (),
        scope: tuple[Dim, ...] = (),
        **more: Any,
    ) -> None:
        self.owner.obligations.append(
            Obligation(
                access=self.owner.numbers.get(id(self.node), -1),
                tensor=self.node.tensor,
                store=isinstance(self.node, Store),
                span=self.node.span,
                index=text,
                claims=claims,
                hypotheses=(*self.scope.hypotheses, *hypotheses),
                lazily=self.scope.lazily,
                scope=(*self.scope.variables, *scope),
                **more,
            )
        )

    def index(self, v: Any, extent: Size, text: str, **more: Any) -> None:
        if self._padded:
            return
        if not is_int(v) or not is_int(extent):
            self._add(text, ((),), unmodelled=NO_INDEX, **more)
            return
        self._add(text, ((Literal(v),), (Literal(extent - v - 1),)), value=v, extent=extent, **more)

    def _variables_at(self, p: Size) -> tuple[Dim, ...]:
        """Returns the variables of all runs in scope at a position."""
        values = [v.at(p) for v in self.scope.env.values() if isinstance(v, Run) and v.variable]
        return tuple(v for v in values if isinstance(v, Dim))

    def rank(self, have: Size, want: Size, text: str) -> None:
        same = Literal(have - want, True)
        if same.truth is not True:
            self._add(text, ((same,),), rank=True)

    def whole(self, part: Part, shape: Run, run: Run) -> None:
        """Adds the obligations of indices for a vector of dims: at each position if the length is known, else at a generic one."""
        text = _text_of(part)
        if isinstance(part, Fit):
            self._broadcast(text, shape, run)
            return
        self.rank(run.length, shape.length, text)
        if isinstance(run.length, int):
            for k in range(run.length):
                there = (dims.lt(k, shape.length),)
                self.index(run.at(k), shape.at(k), text, hypotheses=there, scope=self._variables_at(k))
            return
        p = self.owner.context.position()
        inside = (dims.lt(p, shape.length),)
        self.index(run.at(p), shape.at(p), text, hypotheses=inside, scope=self._variables_at(p))

    def _broadcast(self, text: str, shape: Run, run: Run) -> None:
        """Adds the obligations of indices that broadcast to a vector of dims: no fewer than dims, each within its dim unless that is 1."""
        enough = Literal(run.length - shape.length)
        if enough.truth is not True:
            self._add(text, ((enough,),), rank=True)
        if self._padded:
            return
        rank = shape.length
        positions: Iterable[Size] = range(rank) if isinstance(rank, int) else [self.owner.context.position()]
        for p in positions:
            at = p + run.length - rank
            v, n = run.at(at), shape.at(p)
            if not is_int(v) or not is_int(n):
                self._add(text, ((),), unmodelled=NO_INDEX)
                continue
            one = Literal(n - 1, True)
            inside = () if isinstance(rank, int) else (dims.lt(p, rank),)
            claims = ((one, Literal(v)), (one, Literal(n - v - 1)))
            self._add(text, claims, hypotheses=inside, scope=self._variables_at(at), value=v, extent=n)


def _text_of(part: Part) -> str:
    match part:
        case Exact(items=items) | Fit(items=items):
            return ", ".join(map(to_text, items))
        case Placed(rest=rest, picked=picked, axes=axes):
            return ", ".join((*map(to_text, rest), *(f"{to_text(i)}@{to_text(axes)}" for i in picked)))
    return "…"
