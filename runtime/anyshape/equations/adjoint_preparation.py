"""Equations restated so that each has an adjoint by one rule: what the adjoint needs as a value becomes a tensor of its own.

In: the equations of one call, in an order of evaluation. Out: the same values by other equations, in an order of evaluation:

- a compaction of floats becomes a gather in the order that the same compaction of the places gives;
- a running sum or product becomes a recurrence, whose adjoint is one, too, and takes one step for each element;
- a reduction within a recurrence becomes an equation of it, so that its value is stored, and its gradient computed once for each position;
- an update whose adjoint needs what was there before (`*=`, max, min, and one that reads its own target) becomes an update of a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anyshape.dims import Size
from anyshape.dtypes import I64, accum
from anyshape.equations.builder import Compaction, Equation, Equations, RecurrenceStep, Update
from anyshape.equations.dependencies import reads, units
from anyshape.equations.expr import Expr, Tensor, Var, apply, cast, const, scalar
from anyshape.equations.recurrences import outermost_reductions, prefix_steps, reads_any
from anyshape.equations.traversal import reading, replace_node, substitute

Unit = list[Equation]
"""One equation, or those of one recurrence."""


def prepared(eqs: Equations, forward: Sequence[Equation]) -> list[Unit]:
    """The equations restated, as units in an order of evaluation. Scratches go into `eqs`."""
    partial = {q.target for q in forward if q.form is None}
    by_order = [p for q in forward for p in _by_order(eqs, q, q.target in partial)]
    ordered = [q for unit in units(_without_running(by_order)) for q in _with_reductions_apart(unit)]
    return units(_with_versions(ordered))


def next_cycle(equations: Iterable[Equation]) -> int:
    """A number that no recurrence has yet."""
    return 1 + max((q.form.cycle for q in equations if isinstance(q.form, RecurrenceStep)), default=-1)


def ravelled(variables: Sequence[Expr], extents: Sequence[Size]) -> Expr:
    """The number of a point, row by row."""
    number: Expr = const(0, I64)
    for v, n in zip(variables, extents, strict=True):
        number = number * scalar(n, I64) + v
    return number


def point(variables: Sequence[Var], number: Expr) -> dict[Var, Expr]:
    """The values of variables at the point that has a number."""
    left, places = number, dict[Var, Expr]()
    for v in reversed(variables):
        extent = scalar(v.extent, I64)
        places[v] = left if v is variables[0] else apply("mod", left, extent)
        left = apply("floordiv", left, extent)
    return places


def _by_order(eqs: Equations, q: Equation, partial: bool) -> list[Equation]:
    """A compaction of floats as places, and what is read at them; `partial`: where there are fewer than its tensor has room for, the places
    are -1, and another equation defines the rest."""
    form = q.form
    if not isinstance(form, Compaction) or not q.target.dtype.is_float:
        return [q]
    order = eqs.scratch(f"order_of_{q.target.name}", I64, q.target.shape)
    places = ravelled(form.over, [v.extent for v in form.over])
    gathered = substitute(q.value, point(form.over, order[q.index]))
    compacted = Equation(order, q.index, places, q.source, form)
    if not partial:
        return [compacted, Equation(q.target, q.index, gathered, q.source)]
    none = Equation(order, eqs.indices("z", order.shape), const(-1, I64), q.source)
    is_there = apply("ge", order[q.index], 0)
    return [none, compacted, Equation(q.target, q.index, gathered, q.source, Update("set", is_there))]


def _without_running(equations: Sequence[Equation]) -> list[Equation]:
    """The equations with each running sum and product of floats as a recurrence before the equation that reads it."""
    left, done = list(equations), list[Equation]()
    cycle = next_cycle(left)
    while left:
        q = left.pop(0)
        *running, last = prefix_steps(q, cycle, ("sum", "prod")) if q.target.dtype.is_float else [q]
        cycle += bool(running)
        done += running
        if running:
            left.insert(0, replace(last, form=None))
        else:
            done.append(last)
    return done


def _with_reductions_apart(unit: Unit) -> Unit:
    if not isinstance(unit[0].form, RecurrenceStep):
        return unit
    written = {q.target for q in unit}
    apart: Unit = []
    for q in unit:
        assert isinstance(q.form, RecurrenceStep)
        outermost = outermost_reductions(
            q, lambda r: r.dtype is not None and r.dtype.is_float and reads_any(r, written)
        )
        for k, (r, guard) in enumerate(outermost.items()):
            assert r.dtype is not None
            wide = accum(r.dtype)
            value = cast(r, wide) if guard is None else apply("select", guard, cast(r, wide), const(0.0, wide))
            variables = tuple(v for v in q.variables if v in value.free or v is q.form.along)
            own = Tensor(f"{r.kind}{k}_of_{q.target.name}", wide, tuple(v.extent for v in variables))
            apart.append(Equation(own, variables, value, q.source, q.form))
            q = replace(q, value=replace_node(q.value, {r: cast(own[variables], r.dtype)}))
        apart.append(q)
    return apart


def needs_before(q: Equation) -> bool:
    """Whether the adjoint of an update needs what was there before it."""
    return isinstance(q.form, Update) and (q.form.op in ("mul", "max", "min") or q.target in reads(q))


def _reading(q: Equation, t: Tensor, before: Tensor) -> Equation:
    """The equation that reads what was there before in place of its target."""
    form, index = q.form, tuple(reading(i, {t: before}) for i in q.index)
    if isinstance(form, Update) and form.where is not None:
        form = replace(form, where=reading(form.where, {t: before}))
    return replace(q, index=index, value=reading(q.value, {t: before}), form=form)


def _with_versions(ordered: Sequence[Equation]) -> list[Equation]:
    """The equations with a tensor of its own for what each update that needs what was there before finds and leaves."""
    instead: dict[Equation, list[Equation]] = {}
    for t in {q.target for q in ordered if q.target.dtype.is_float and needs_before(q)}:
        segments: list[Unit] = [[]]
        for q in (q for q in ordered if q.target is t):
            if needs_before(q) or (segments[-1] and needs_before(segments[-1][0])):
                segments.append([])
            segments[-1].append(q)
        versions = [Tensor(f"{t.name}_{k}", t.dtype, t.shape) for k in range(len(segments) - 1)] + [t]
        for before, version, segment in zip([None, *versions], versions, segments):
            for q in segment:
                instead[q] = [replace(q if before is None else _reading(q, t, before), target=version)]
            if before is not None:
                place = tuple(Var(f"c{k}", n) for k, n in enumerate(t.shape))
                instead[segment[0]].insert(0, Equation(version, place, before[place], segment[0].source))
        if not segments[0]:  # nothing defines the tensor before its first update: it is 0
            place = tuple(Var(f"c{k}", n) for k, n in enumerate(t.shape))
            instead[segments[1][0]].insert(0, Equation(versions[0], place, const(0.0, t.dtype)))
    return [p for q in ordered for p in instead.get(q, [q])]
