"""The adjoint of equations: from how much each element of the results counts, how much each element of the inputs does.

In: the equations of one call. Out: equations of gradients, stated in a builder. One rule makes all of them: where an equation
`t[i] = e` reads `x[f(i)]`, the gradient of x at f(i) gets what t counts at i times the derivative of e by that read, for every i
and for every variable of a sum around the read. Reads at plain variables become sums over the variables that are not in the index
(so that the adjoint of a product of matrices is products of matrices, and that of a broadcast a sum); other reads become
additions at the index. The adjoint of a recurrence is one that runs the other way, over the values that the forward one stored.

Reverse accumulation, after "Evaluating Derivatives" by Griewank and Walther (2008), chapters 3 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import I64, accum
from anyshape.equations.adjoint_indices import digits_of, in_order_of_places, shift_of
from anyshape.equations.adjoint_preparation import needs_before, next_cycle, prepared
from anyshape.equations.adjoint_terms import Term, all_of, either_of, gathered_at, only_where, total_of
from anyshape.equations.adjoint_updates import factors, number, other_factors, ties, winner
from anyshape.equations.builder import Demand, Equation, Equations, RecurrenceStep, Run, Update
from anyshape.equations.dependencies import needed
from anyshape.equations.derivatives import shares_of
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor, Var, apply, cast, const, reduce_node, scalar
from anyshape.equations.functions import checked, inside
from anyshape.equations.traversal import substitute, walk


class NotDifferentiable(Exception):
    """Equations of a form that has no adjoint here; the reason."""


@dataclass
class _Adjoint:
    eqs: Equations
    seeds: Mapping[Tensor, Tensor]
    active: set[Tensor]
    """Tensors of floats that depend on an input whose gradient is required."""
    ordered: list[Equation]
    _: KW_ONLY
    terms: dict[Tensor, list[Term]] = field(default_factory=dict)
    waiting: dict[tuple[Expr, tuple[Var, ...], tuple[Expr, ...]], tuple[Expr, tuple[Expr, ...]]] = field(
        default_factory=dict
    )
    """The seed of each expression that is not differentiated yet and the conditions around it, by the variables around it; that of a read
    by the conditions too, which say where its index is in range."""
    gradients: dict[Tensor, Tensor | None] = field(default_factory=dict)
    """What equations that follow all of those that define a tensor make of it; None where none makes anything."""
    starting: dict[Tensor, tuple[int, list[Term]]] = field(default_factory=dict)
    """The axis of its recurrence for each tensor of one, and the terms of its own equations, in which its start counts."""
    winners: dict[Equation, Tensor] = field(default_factory=dict)
    ties: dict[Equation, Tensor] = field(default_factory=dict)

    def find_active(self) -> None:
        """Finds the active tensors: those of a recurrence may read each other anywhere. Raises NotDifferentiable for procedures."""
        before = -1
        while before != len(self.active):
            before = len(self.active)
            for q in self.ordered:
                if q.target.dtype.is_float and any(self.depends(e) for e in q.expressions):
                    self.active.add(q.target)
        for q in self.ordered:
            if q.target in self.active and isinstance(q.form, Run):
                raise NotDifferentiable(f"a procedure has no adjoint{f' ({q.source})' if q.source else ''}")
            if q.target in self.active and isinstance(q.form, Update) and q.form.op == "set":
                self.winners[q] = winner(self.eqs, q)

    def gradient(self, t: Tensor) -> Tensor | None:
        """The gradient of a tensor by what reads it, without the equations of its own recurrence."""
        if t not in self.gradients:
            self.gradients[t] = self.seeds.get(t)
            if t in self.terms:
                own = self.eqs.scratch(f"gradient_of_{t.name}", t.dtype, t.shape)
                terms = self.terms.pop(t)
                if t in self.seeds:
                    vars_ = self.eqs.indices("s", t.shape)
                    terms.append(Term(vars_, self.seeds[t][vars_], vars_, ()))
                self.state(own, terms)
                self.gradients[t] = own
        return self.gradients[t]

    def reverse(self, unit: Sequence[Equation]) -> None:
        """Adds to the terms what the equations of one unit read."""
        if unit and isinstance(unit[0].form, RecurrenceStep):
            self.recurrence(unit, not unit[0].form.backward)
        for q in unit:
            if not isinstance(q.form, RecurrenceStep):
                self.equation(q)

    def equation(self, q: Equation) -> None:
        gradient, t = self.gradient(q.target), q.target
        seed: Expr | None = None
        if gradient is not None:
            seed = (checked(gradient) if isinstance(q.form, Update) else gradient)[q.index]
        if t in self.starting:
            axis, terms = self.starting[t]
            inner = [gathered_at(term, q.index, t.dtype, axis, everywhere=True) for term in terms]
            seed = total_of((e for e in (seed, *inner) if e is not None), accum(t.dtype))
        if seed is None:
            return
        later = self.later(q)
        conditions = self.not_replaced(later, q.index)
        if isinstance(q.form, Update):
            conditions += [q.form.where] if q.form.where is not None else []
            seed = self.of_update(q, seed, conditions)
        elif later and needs_before(later[0]):
            seed = self.of_copy(q, later[0], seed, conditions)
        self.pull(q.value, seed, q.variables, tuple(conditions))

    def later(self, q: Equation) -> list[Equation]:
        """The equations of the same tensor that follow."""
        return [o for o in self.ordered[self.ordered.index(q) + 1 :] if o.target is q.target]

    def not_replaced(self, later: Sequence[Equation], index: tuple[Expr, ...]) -> list[Expr]:
        """Conditions under which no later equation puts another element there."""
        return [apply("eq", checked(self.winners[o])[index], 0) for o in later if o in self.winners]

    def of_update(self, q: Equation, seed: Expr, conditions: list[Expr]) -> Expr:
        """What an update's value counts, where what the updates left counts the seed."""
        assert isinstance(q.form, Update)
        if q.form.op == "set":
            conditions.append(apply("eq", checked(self.winners[q])[q.index], number(q) + 1))
        elif q.form.op == "mul":
            return seed * checked(self.before(q))[q.index] * other_factors(self.eqs, q, self.next_cycle())
        elif q.form.op in ("max", "min"):
            self.ties[q] = ties(self.eqs, q, self.before(q))
            conditions.append(apply("eq", q.value, checked(q.target)[q.index]))
            return seed / checked(self.ties[q])[q.index]
        return -seed if q.form.op == "sub" else seed

    def of_copy(self, q: Equation, update: Equation, seed: Expr, conditions: list[Expr]) -> Expr:
        """What an element counts that an update then changes."""
        assert isinstance(update.form, Update)
        if update.form.op == "mul":
            return seed * factors(self.eqs, update)[q.index]
        if update.form.op in ("max", "min"):
            conditions.append(apply("eq", q.value, q.target[q.index]))
            return seed / self.ties[update][q.index]
        return seed

    def before(self, update: Equation) -> Tensor:
        """Returns the tensor before an update, of which its own is a copy."""
        copy = next(q for q in self.ordered if q.target is update.target)
        assert isinstance(copy.value, Read)
        return copy.value.tensor

    def next_cycle(self) -> int:
        """A number that no recurrence has yet, forward or in the adjoint."""
        return next_cycle([*self.ordered, *self.eqs.equations])

    def recurrence(self, unit: Sequence[Equation], backward: bool) -> None:
        """States the gradients of what a recurrence computes: from the last position to the first, each by those that read it."""
        ahead = {q.target: self.gradient(q.target) for q in unit}
        if all(g is None for g in ahead.values()):
            return
        whole = {t: self.eqs.scratch(f"gradient_of_{t.name}_by_step", t.dtype, t.shape) for t in ahead}
        for q in unit:
            self.pull(q.value, whole[q.target][q.index], q.variables, ())
        alongs = {_along(q) for q in unit}
        for q in unit:
            axis = next(k for k, i in enumerate(q.index) if _along(q) in i.free)
            terms = self.starting[q.target][1] if q.target in self.starting else self.terms.pop(q.target, [])
            self.starting[q.target] = axis, terms
            if any(shift_of(term.index[axis])[0] not in alongs for term in terms):
                raise NotDifferentiable(f"a recurrence reads itself at a position that is found while it runs{_of(q)}")
        cycle = self.next_cycle()
        for q in reversed(unit):
            own = {v: Var(v.name, v.extent) for v in q.variables}
            index = tuple(substitute(i, own) for i in q.index)
            (axis, terms), seed_after, wide = self.starting[q.target], ahead[q.target], whole[q.target].dtype
            parts = [gathered_at(term, index, wide, axis, everywhere=True) for term in terms]
            if seed_after is not None:
                parts.insert(0, only_where(self.not_replaced(self.later(q), index), cast(seed_after[index], wide)))
            value = total_of((e for e in parts if e is not None), wide)
            self.eqs.step(whole[q.target][index], value, own[_along(q)], backward, cycle, q.source)

    def pull(self, e: Expr, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        """Adds `seed` times e's derivative to the terms of what e reads. A shared expression is differentiated once, when all its uses have
        added to its seed: the expressions that use it were made after it. So a chain of choices, whose paths are many, costs as much
        as it is long."""
        self.waiting = {}
        self.push(e, seed, vars_, conditions)
        while self.waiting:
            key = max(self.waiting, key=lambda k: k[0].serial)
            seed, conditions = self.waiting.pop(key)
            self.step(key[0], seed, key[1], conditions)

    def push(self, e: Expr, seed: Expr, vars_: tuple[Var, ...], conditions: tuple[Expr, ...]) -> None:
        if e.dtype is None or not e.dtype.is_float or not self.depends(e):
            return
        key = (e, vars_, conditions if isinstance(e, Read) else ())
        self.waiting[key] = (
            either_of(self.waiting[key], (seed, conditions)) if key in self.waiting else (seed, conditions)
        )

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
        axes = [
            k for k, (i, n) in enumerate(zip(e.index, e.tensor.shape)) if e.outside is not None and not digits_of(i, n)
        ]
        if e.outside is not None and axes:
            within = inside([e.index[k] for k in axes], [e.tensor.shape[k] for k in axes])
            self.push(e.outside, seed, vars_, (*conditions, apply("not", within)))
            conditions = (*conditions, within)
        if e.tensor in self.active:
            self.terms.setdefault(e.tensor, []).append(Term(e.index, seed, vars_, conditions))

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
            seed = seed * self._other_factors(e, own)
        elif e.kind != "sum":
            raise NotDifferentiable(f"{e.kind} of elements has no derivative here")
        self.push(body, seed, (*vars_, *own), conditions)

    @staticmethod
    def _other_factors(e: Reduce, own: Sequence[Var]) -> Expr:
        """The product of all elements but one: a quotient would not do where that is 0."""
        other = tuple(Var(v.name, v.extent) for v in e.vars)
        renamed: Mapping[Var, Expr] = dict(zip(e.vars, other))
        differs: Expr | None = None
        for v, w in zip(other, own):
            one = apply("ne", v, w)
            differs = one if differs is None else apply("or", differs, one)
        if differs is None:
            return const(1.0, e.dtype)
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

    def state(self, target: Tensor, terms: Sequence[Term]) -> None:
        """States the gradient of a tensor: the sum of the terms of all its reads."""
        place = tuple(self._place(k, n, terms) for k, n in enumerate(target.shape))
        scattered, gathered = list[Term](), list[Expr]()
        for term in terms:
            one = gathered_at(term, place, target.dtype)
            if one is None:
                scattered.append(term)
            else:
                gathered.append(one)
        self.eqs.define(target[place], total_of(gathered, target.dtype))
        for term in scattered:
            self._scatter(target, term)

    def _place(self, axis: int, n: Size, terms: Sequence[Term]) -> Expr:
        """A place along an axis of a gradient: a variable, or several where an index has them, as h * c + j for the channels of groups."""
        for digits in (digits_of(term.index[axis], n) for term in terms):
            if len(digits) > 1:
                place: Expr | None = None
                for k, v in enumerate(digits):
                    own = Var(f"g{axis}_{k}", v.extent)
                    place = own if place is None else place * scalar(v.extent, I64) + own
                assert place is not None
                return place
        return Var(f"g{axis}", n)

    def _summed(self, target: Tensor, term: Term) -> Term:
        """The term added up over the variables that its index lacks, in a tensor of its own: a product of matrices, if it is one, is
        computed as such before it is scattered. The tensor has 0 where the conditions do not hold. The term as it is where a condition
        varies with such a variable: it may be what keeps the index in range."""
        kept = in_order_of_places(term.index)
        over = tuple(v for v in term.vars if v not in kept and v in term.masked.free)
        if not over or any(not c.free.isdisjoint(over) for c in term.conditions):
            return term
        own: dict[Var, Expr] = {v: Var(v.name, v.extent) for v in (*kept, *over)}
        part = self.eqs.scratch(f"part_of_{target.name}", target.dtype, [v.extent for v in kept])
        value = cast(substitute(term.value, own), part.dtype)
        total = reduce_node("sum", tuple(v for u in over if isinstance(v := own[u], Var)), value, None, part.dtype)
        self.eqs.define(
            part[tuple(own[v] for v in kept)], only_where([substitute(c, own) for c in term.conditions], total)
        )
        unused = tuple(v for v in term.vars if v not in kept and v not in over)
        again: dict[Var, Expr] = {v: Var(v.name, v.extent) for v in kept}
        return Term(
            tuple(substitute(i, again) for i in term.index),
            part[tuple(again[v] for v in kept)],
            (*(v for v in again.values() if isinstance(v, Var)), *unused),
            tuple(substitute(c, again) for c in term.conditions),
        )

    def _scatter(self, target: Tensor, term: Term) -> None:
        """Adds the term at its index, only where its conditions hold: elsewhere the index may be out of range."""
        term = self._summed(target, term)
        value, used = term.value, {v for e in (*term.index, *term.conditions, term.value) for v in e.free}
        conditions = [*term.conditions]
        for v in term.vars:
            if v not in used:  # it counts as often as there are values of the variable
                value = value * cast(scalar(v.extent, I64), accum(target.dtype))
                if dims.ge(v.extent, 1) is not True:
                    conditions.append(apply("gt", scalar(v.extent, I64), 0))
        self.eqs.update(checked(target)[term.index], "add", value, where=all_of(conditions))


def _along(q: Equation) -> Var:
    assert isinstance(q.form, RecurrenceStep)
    return q.form.along


def _of(q: Equation) -> str:
    return f" ({q.source}: {q})" if q.source else ""


def state_adjoint(
    eqs: Equations, forward: Sequence[Equation], seeds: Mapping[Tensor, Tensor], gradients_of: Mapping[Tensor, Tensor]
) -> None:
    """States in `eqs` the gradients of inputs, {input: its gradient}, for the seeds of results, {result: its seed}. What the equations
    demand of elements is demanded here, too.

    Raises NotDifferentiable, with the reason and the place in the spec, for floats that procedures make."""
    ordered = prepared(eqs, forward)
    work = _Adjoint(eqs, seeds, set(gradients_of), [q for unit in ordered for q in unit])
    work.find_active()
    for unit in reversed(ordered):
        work.reverse([q for q in unit if q.target in work.active])
    for x, gradient in gradients_of.items():
        work.state(gradient, work.terms.get(x, ()))
    _restate(eqs, work.ordered)


def _restate(eqs: Equations, forward: Sequence[Equation]) -> None:
    """States again those forward equations that the gradients read, directly or not, and what is demanded of elements."""
    read = {x.tensor for q in eqs.equations for e in q.expressions for x in walk(e) if isinstance(x, Read)}
    demands = {q.target for q in forward if isinstance(q.form, Demand)}
    kept = needed(forward, read | demands)
    eqs.scratches += dict.fromkeys(q.target for q in kept)
    eqs.equations[:0] = kept
