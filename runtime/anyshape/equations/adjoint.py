"""The adjoint of equations: from how much each element of the results counts, how much each element of the inputs does.

In: the equations of one call. Out: equations of gradients, stated in a builder. One rule makes all of them: where an equation
`t[i] = e` reads `x[f(i)]`, the gradient of x at f(i) gets what t counts at i times the derivative of e by that read, for every i
and for every variable of a sum around the read. Reads at plain variables become sums over the variables that are not in the index
(so that the adjoint of a product of matrices is products of matrices, and that of a broadcast a sum); other reads become
additions at the index.

Reverse accumulation, after "Evaluating Derivatives" by Griewank and Walther (2008), chapters 3 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from anyshape import dims
from anyshape.dtypes import I64, accum
from anyshape.equations.builder import Compaction, Demand, Equation, Equations, Run, Step, Update
from anyshape.equations.dependencies import units
from anyshape.equations.derivatives import shares_of
from anyshape.equations.expr import (
    Apply,
    Const,
    Expr,
    Read,
    Reduce,
    Tensor,
    Var,
    apply,
    cast,
    const,
    reduce_node,
    scalar,
)
from anyshape.equations.functions import checked, inside
from anyshape.equations.traversal import substitute, walk


class NotDifferentiable(Exception):
    """Equations of a form that has no adjoint here; the reason."""


@dataclass(frozen=True)
class _Term:
    """A summand of a tensor's gradient: `value` counts at `index`, for every value of `vars`, where all `conditions` hold."""

    index: tuple[Expr, ...]
    value: Expr
    vars: tuple[Var, ...]
    conditions: tuple[Expr, ...]

    @property
    def masked(self) -> Expr:
        """The term's value where its conditions hold, else 0; the value outside the conditions may be no number."""
        value = self.value
        for c in reversed(self.conditions):
            value = apply("select", c, value, const(0.0, value.dtype))
        return value


@dataclass
class _Adjoint:
    eqs: Equations
    active: set[Tensor]
    """Tensors of floats that depend on an input whose gradient is required."""
    terms: dict[Tensor, list[_Term]] = field(default_factory=dict)
    waiting: dict[tuple[Expr, tuple[Var, ...], tuple[Expr, ...]], Expr] = field(default_factory=dict)
    """The seed of each expression that is not differentiated yet, by the variables and conditions around it."""

    def pull(self, e: Expr, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        """Adds `seed` times e's derivative to the terms of what e reads. A shared expression is differentiated once, when all its uses have
        added to its seed: the expressions that use it were made after it."""
        self.waiting = {}
        self.push(e, seed, vars_, conditions)
        while self.waiting:
            key = max(self.waiting, key=lambda k: k[0].serial)
            self.step(key[0], self.waiting.pop(key), *key[1:])

    def push(self, e: Expr, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        if e.dtype is None or not e.dtype.is_float or not self.depends(e):
            return
        key = (e, vars_, conditions)
        self.waiting[key] = self.waiting[key] + seed if key in self.waiting else seed

    def step(self, e: Expr, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        if isinstance(e, Read):
            self._read(e, seed, vars_, conditions)
        elif isinstance(e, Reduce):
            self._reduce(e, seed, vars_, conditions)
        elif isinstance(e, Apply) and e.op == "select":
            chosen, a, b = e.args
            self.push(a, seed, vars_, (*conditions, chosen))
            self.push(b, seed, vars_, (*conditions, apply("not", chosen)))
        elif isinstance(e, Apply):
            shares = shares_of(e, seed)
            if shares is None:
                raise NotDifferentiable(f"{e.op} has no derivative")
            for operand, share in shares:
                self.push(operand, share, vars_, conditions)

    def depends(self, e: Expr) -> bool:
        return any(isinstance(x, Read) and x.tensor in self.active for x in walk(e))

    def _read(self, e: Read, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        if any(self.depends(i) for i in e.index):
            raise NotDifferentiable("an index is computed from floats")
        if e.outside is not None:
            within = inside(e.index, e.tensor.shape)
            self.push(e.outside, seed, vars_, (*conditions, apply("not", within)))
            conditions = (*conditions, within)
        if e.tensor in self.active:
            self.terms.setdefault(e.tensor, []).append(_Term(e.index, seed, vars_, conditions))

    def _reduce(self, e: Reduce, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        own = tuple(Var(v.name, v.extent) for v in e.vars)
        fresh: Mapping[Var, Expr] = dict(zip(e.vars, own))
        body = substitute(e.body, fresh)
        if e.where is not None:
            conditions = (*conditions, substitute(e.where, fresh))
        if e.kind in ("max", "min"):
            counted = self._counted(e)
            ties = reduce_node("sum", e.vars, counted, None, counted.dtype)
            seed, conditions = seed / ties, (*conditions, apply("eq", body, e))
        elif e.kind == "prod":
            seed = seed * self._others(e, own)
        elif e.kind != "sum":
            raise NotDifferentiable(f"{e.kind} of elements has no derivative here")
        self.push(body, seed, (*vars_, *own), conditions)

    @staticmethod
    def _others(e: Reduce, own: Sequence[Var]) -> Expr:
        """The product of all elements but one: a quotient would not do where that is 0."""
        other = tuple(Var(v.name, v.extent) for v in e.vars)
        renamed: Mapping[Var, Expr] = dict(zip(e.vars, other))
        differs: Expr | None = None
        for v, w in zip(other, own):
            one = apply("ne", v, w)
            differs = one if differs is None else apply("or", differs, one)
        assert differs is not None
        where = differs if e.where is None else apply("and", substitute(e.where, renamed), differs)
        return reduce_node("prod", other, substitute(e.body, renamed), where, e.dtype)

    @staticmethod
    def _counted(e: Reduce) -> Expr:
        """1 at each element that is the extreme: they share its seed."""
        other = tuple(Var(v.name, v.extent) for v in e.vars)
        renamed: Mapping[Var, Expr] = dict(zip(e.vars, other))
        where = None if e.where is None else substitute(e.where, renamed)
        extreme = reduce_node(e.kind, other, substitute(e.body, renamed), where, e.dtype)
        equal = apply("eq", e.body, extreme)
        equal = equal if e.where is None else apply("and", e.where, equal)
        assert e.dtype is not None
        wide = accum(e.dtype)
        return apply("select", equal, const(1.0, wide), const(0.0, wide))

    def state(self, target: Tensor, terms: Sequence[_Term]) -> None:
        """States the gradient of a tensor: the sum of the terms of all its reads."""
        place = self.eqs.indices("g", target.shape)
        total: Expr = const(0.0, target.dtype)
        scattered: list[_Term] = []
        for term in terms:
            gathered = _gathered(term, place, target)
            if gathered is None:
                scattered.append(term)
            else:
                total = gathered if isinstance(total, Const) else total + gathered
        self.eqs.define(target[place], total)
        for term in scattered:
            self._scatter(target, term)

    def _scatter(self, target: Tensor, term: _Term) -> None:
        value = term.masked
        index = tuple(self._guarded(i, term) for i in term.index)
        used = value.free.union(*(i.free for i in index))
        unused = [v for v in term.vars if v not in used]
        for v in unused:  # it counts as often as there are values of the variable
            value = value * cast(scalar(v.extent, I64), accum(target.dtype))
        if unused or term.conditions:
            index, value = _unless_empty(target, index, value, [v for v in term.vars if v in used])
        self.eqs.update(checked(target)[index], "add", value)

    @staticmethod
    def _guarded(i: Expr, term: _Term) -> Expr:
        """The index, or 0 where the read is not made, which adds 0."""
        if isinstance(i, Const) and i.value == 0:
            return i
        for c in reversed(term.conditions):
            i = apply("select", c, i, const(0, I64))
        return i


def _unless_empty(
    target: Tensor, index: tuple[Expr, ...], value: Expr, over: Sequence[Var]
) -> tuple[tuple[Expr, ...], Expr]:
    """Index and value with no values of the first variable where the tensor has no elements: no read of it is made then, be it for
    its conditions or for a variable without values that neither index nor value have."""
    elements = prod(target.shape)
    if not index or dims.ge(elements, 1) is True:
        return index, value
    if not over:
        return (index[0] + Var("once", dims.minimum(1, elements)), *index[1:]), value
    first = over[0]
    known: Mapping[Var, Expr] = {first: Var(first.name, dims.minimum(first.extent, first.extent * elements))}
    return tuple(substitute(i, known) for i in index), substitute(value, known)


def _gathered(term: _Term, place: tuple[Var, ...], target: Tensor) -> Expr | None:
    """The term at one place of the gradient: a sum over the variables that its index leaves open. None where the index is no variables."""
    known: dict[Var, Expr] = {}
    at: list[Expr] = []
    for i, p in zip(term.index, place):
        if isinstance(i, Var) and i in term.vars and i not in known and i.extent == p.extent:
            known[i] = p
        elif isinstance(i, Const):
            if p.extent != 1:
                at.append(apply("eq", p, i))
        else:
            return None
    value = substitute(term.masked, known)
    open_ = tuple(v for v in term.vars if v not in known)
    if open_:
        wide = accum(target.dtype)
        value = reduce_node("sum", open_, cast(value, wide), None, wide)
    for c in at:
        value = apply("select", c, value, const(0.0, target.dtype))
    return value


def state_adjoint(
    eqs: Equations, forward: Sequence[Equation], seeds: Mapping[Tensor, Tensor], gradients_of: Mapping[Tensor, Tensor]
) -> None:
    """States in `eqs` the gradients of inputs, {input: its gradient}, for the seeds of results, {result: its seed}. What the equations
    demand of elements is demanded here, too.

    Raises NotDifferentiable, with the reason and the place in the spec, for equations of floats that are procedures, recurrences or
    updates by anything but a sum, a difference or an element in the place of another."""
    ordered = [_by_order(eqs, q) for unit in units(forward) for q in unit]
    active = set(gradients_of)
    work = _Adjoint(eqs, active)
    for q in ordered:
        if q.target.dtype.is_float and any(work.depends(e) for e in q.expressions):
            active.add(q.target)
    for q in ordered:
        if q.target in active and not (
            q.form is None or (isinstance(q.form, Update) and q.form.op in ("set", "add", "sub"))
        ):
            raise NotDifferentiable(f"{_words(q.form)} has no adjoint here{f' ({q.source}: {q})' if q.source else ''}")
    gradients: dict[Tensor, Tensor] = dict(seeds)
    winners = {
        q: _winner(eqs, q) for q in ordered if q.target in active and isinstance(q.form, Update) and q.form.op == "set"
    }
    for k, q in reversed(list(enumerate(ordered))):
        if q.target not in active:
            continue
        later = [o for o in ordered[k + 1 :] if o.target is q.target]
        if not later and q.target in work.terms:
            own = eqs.scratch(f"gradient_of_{q.target.name}", q.target.dtype, q.target.shape)
            more = work.terms.pop(q.target)
            if q.target in seeds:
                vars_ = eqs.indices("s", q.target.shape)
                more.append(_Term(vars_, seeds[q.target][vars_], vars_, ()))
            work.state(own, more)
            gradients[q.target] = own
        if q.target in gradients:
            seed = (checked(gradients[q.target]) if isinstance(q.form, Update) else gradients[q.target])[q.index]
            conditions = [apply("eq", checked(winners[o])[q.index], 0) for o in later if o in winners]
            if q in winners:
                conditions.append(apply("eq", checked(winners[q])[q.index], _number(q)))
            if isinstance(q.form, Update) and q.form.op == "sub":
                seed = -seed
            work.pull(q.value, seed, q.variables, tuple(conditions))
    for x, gradient in gradients_of.items():
        work.state(gradient, work.terms.get(x, ()))
    _restate(eqs, ordered)


def _words(form: object) -> str:
    if isinstance(form, Update):
        return f"an update by {form.op}"
    return {Step: "a recurrence", Run: "a procedure"}.get(type(form), "an equation of this form")


def _by_order(eqs: Equations, q: Equation) -> Equation:
    """A compaction of floats as a gather: the elements at the places that the same compaction of the places gives."""
    form = q.form
    if not isinstance(form, Compaction) or not q.target.dtype.is_float:
        return q
    order = eqs.scratch(f"order_of_{q.target.name}", I64, q.target.shape)
    eqs.equations.append(Equation(order, q.index, _ravelled(form.over), q.source, form))
    left: Expr = order[q.index]
    places: dict[Var, Expr] = {}
    for v in reversed(form.over):
        extent = scalar(v.extent, I64)
        places[v] = left if v is form.over[0] else apply("mod", left, extent)
        left = apply("floordiv", left, extent)
    return Equation(q.target, q.index, substitute(q.value, places), q.source)


def _ravelled(variables: Sequence[Var]) -> Expr:
    """The number of a point, row by row."""
    number: Expr = const(0, I64)
    for v in variables:
        number = number * scalar(v.extent, I64) + v
    return number


def _number(q: Equation) -> Expr:
    """When an update is made, from 1 on."""
    return _ravelled(q.variables) + 1


def _winner(eqs: Equations, q: Equation) -> Tensor:
    """For each element, which of the updates that put something there is the last; 0 where there is none."""
    winner = eqs.scratch(f"last_put_in_{q.target.name}", I64, q.target.shape)
    place = eqs.indices("w", q.target.shape)
    eqs.define(winner[place], const(0, I64))
    eqs.update(checked(winner)[q.index], "max", _number(q))
    return winner


def _restate(eqs: Equations, forward: Sequence[Equation]) -> None:
    """States again those forward equations that the gradients read, directly or not, and what is demanded of elements."""
    needed = {x.tensor for q in eqs.equations for e in q.expressions for x in walk(e) if isinstance(x, Read)}
    kept: list[Equation] = []
    for q in reversed(forward):
        if q.target in needed or isinstance(q.form, Demand):
            kept.append(q)
            needed |= {x.tensor for e in q.expressions for x in walk(e) if isinstance(x, Read)}
    eqs.scratches += dict.fromkeys(q.target for q in kept)
    eqs.equations[:0] = kept[::-1]
