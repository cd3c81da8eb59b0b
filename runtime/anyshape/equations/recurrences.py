"""Recurrences as equations state them and as they are computed: prefix reductions become steps, and what need not wait moves out.

In: the equations of one call. Out: the same values by other equations. `y[k] = sum(x[j] for j in n if j <= k)` takes time in proportion
to n * n; the running sum that it is becomes a tensor of its own, one step from the previous one, in the dtype that sums run in. A
reduction in a recurrence that reads nothing of it becomes an equation before it, for all positions at once: the input contraction of a
recurrent network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import replace

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.dtypes import BOOL, accum, highest, lowest
from anyshape.equations.builder import Equation, RecurrenceStep
from anyshape.equations.expr import (
    Apply,
    Const,
    Expr,
    Read,
    Reduce,
    Scalar,
    Tensor,
    Var,
    apply,
    as_expr,
    cast,
    const,
    read,
)
from anyshape.equations.traversal import children, replace_node, substitute, walk  # fmt: skip

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def as_steps(equations: Sequence[Equation]) -> list[Equation]:
    """Prefix reductions as recurrences, then reductions out of recurrences that do not read them."""
    cycles = max((q.form.cycle for q in equations if isinstance(q.form, RecurrenceStep)), default=-1) + 1
    expanded: list[Equation] = []
    for q in equations:
        steps = prefix_steps(q, cycles)
        cycles += len(steps) > 1
        expanded += steps
    return _moved_out(expanded)


def with_last_positions(equations: Sequence[Equation], results: Collection[Tensor]) -> list[Equation]:
    """The equations with those that read the last position of a recurrence, of which nobody else reads a position, as steps of it: each
    position puts its own value there, and the last one stays. So the recurrence needs no memory for its positions."""
    steps = {q.target: q for q in equations if isinstance(q.form, RecurrenceStep)}
    counts = Counter(q.target for q in equations)
    instead: dict[Equation, Equation] = {}
    for t, s in steps.items():
        readers = [q for q in equations if not isinstance(q.form, RecurrenceStep) and reads_any_of(q, t)]
        last = {q: _at_each_position(q, s) for q in readers if counts[q.target] == 1}
        replaced = {q: p for q, p in last.items() if p is not None}
        if counts[t] == 1 and t not in results and len(replaced) == len(readers):
            instead |= replaced
    return [instead.get(q, q) for q in equations]


def reads_any_of(q: Equation, t: Tensor) -> bool:
    return any(reads_any(e, {t}) for e in q.expressions)


def _at_each_position(q: Equation, s: Equation) -> Equation | None:
    """The equation `y[j] = t[last, j]` as a step of the recurrence of t, `y[j] = t[position, j]`."""
    assert isinstance(s.form, RecurrenceStep)
    e, along = q.value, s.form.along
    if q.form is not None or not isinstance(e, Read) or e.outside is not None or dims.ge(along.extent, 1) is not True:
        return None
    axis = next(k for k, i in enumerate(s.index) if along in i.free)
    last = substitute(s.index[axis], {along: as_expr(0 if s.form.backward else along.extent - 1)})
    rest = [i for k, i in enumerate(e.index) if k != axis]
    plain = [i for i in q.index if not isinstance(i, Const)]
    end, place = _size(last), _size(e.index[axis])
    if end is None or place is None or dims.eq(end, place) is not True:
        return None
    if rest != plain or len(set(rest)) < len(rest) or not all(isinstance(i, Var) for i in rest):
        return None
    position = Var(along.name, along.extent)
    index = [substitute(s.index[axis], {along: position}) if k == axis else i for k, i in enumerate(e.index)]
    return replace(q, value=read(e.tensor, index), form=replace(s.form, along=position))


def _size(e: Expr) -> Size | None:
    """The size that an index is, if it is one."""
    value = e.value if isinstance(e, Const) else e.size if isinstance(e, Scalar) else None
    return value if isinstance(value, int | Dim) else None


def prefix_steps(q: Equation, cycle: int, kinds: Container[str] = tuple(_COMBINE)) -> list[Equation]:
    """The equation alone, or the steps of its first prefix reduction of one of the kinds, and itself as the last of them."""
    if q.form is not None or q.unbacked is not None:
        return [q]
    for r, guard in outermost_reductions(q, lambda r: r.kind in kinds and _running(q, r) is not None).items():
        running = _running(q, r)
        if running is not None and (guard is None or running[0] not in guard.free):
            k, exclusive, backward = running
            return _steps(q, r, guard, k, exclusive, backward, cycle)
    return [q]


def _running(q: Equation, r: Reduce) -> tuple[Var, bool, bool] | None:
    """(the position, whether it is left out itself, whether it runs from the end) of `kind(… for j in n if j <= k)`."""
    where = r.where
    if len(r.vars) != 1 or not isinstance(where, Apply) or where.op not in _MIRRORED:
        return None
    (j,) = r.vars
    op, (a, b) = where.op, where.args
    if b is j:
        op, a, b = _MIRRORED[op], b, a
    if a is not j or not isinstance(b, Var) or b not in q.variables or b.extent != j.extent or b in r.body.free:
        return None
    if sum(b in i.free for i in q.index) != 1 or not any(i is b for i in q.index):
        return None
    return b, op in ("lt", "gt"), op in ("ge", "gt")


def _steps(
    q: Equation, r: Reduce, guard: Expr | None, k: Var, exclusive: bool, backward: bool, cycle: int
) -> list[Equation]:
    variables = q.variables
    assert r.dtype is not None
    wide = accum(r.dtype)
    running = Tensor(f"running{cycle}", wide, tuple(v.extent for v in variables))

    def at(position: Expr) -> Expr:
        return read(running, [position if v is k else v for v in variables])

    previous = k + 1 if backward else k - 1
    before = apply("lt", k, as_expr(k.extent) - 1) if backward else apply("gt", k, 0)
    neutral = const(_neutral(r), wide)
    new = cast(substitute(r.body, {r.vars[0]: previous if exclusive else k}), wide)
    both = apply(_COMBINE[r.kind], at(previous), new)
    value = apply("select", before, both, neutral if exclusive else new)
    value = value if guard is None else apply("select", guard, value, neutral)
    form = RecurrenceStep(k, backward, cycle)
    whole = replace_node(q.value, {r: cast(at(k), r.dtype)})
    return [Equation(running, variables, value, q.source, form), replace(q, value=whole, form=form)]


def _neutral(r: Reduce) -> int | float | bool:
    assert r.dtype is not None
    if r.kind in ("any", "all"):
        return r.kind == "all"
    if r.kind in ("sum", "prod"):
        return 0 if r.kind == "sum" else 1
    return lowest(r.dtype) if r.kind == "max" else highest(r.dtype)


def _moved_out(equations: list[Equation]) -> list[Equation]:
    written: dict[int, set[Tensor]] = {}
    for q in equations:
        if isinstance(q.form, RecurrenceStep):
            written.setdefault(q.form.cycle, set()).add(q.target)
    moved: list[Equation] = []
    for q in equations:
        if isinstance(q.form, RecurrenceStep):
            for k, (r, guard) in enumerate(_without_waiting(q, written[q.form.cycle])):
                nothing = const(False if r.dtype is BOOL else 0, r.dtype)
                whole = r if guard is None else apply("select", guard, r, nothing)
                variables = tuple(sorted(whole.free, key=lambda v: v.serial))
                assert r.dtype is not None
                ahead = Tensor(f"ahead{len(moved)}_{k}", r.dtype, tuple(v.extent for v in variables))
                moved.append(Equation(ahead, variables, whole, q.source))
                q = replace(q, value=replace_node(q.value, {r: read(ahead, variables)}))
        moved.append(q)
    return moved


def _without_waiting(q: Equation, written: Container[Tensor]) -> list[tuple[Reduce, Expr | None]]:
    """The outermost reductions that read nothing of a recurrence, nor do the conditions under which they are evaluated."""
    outermost = outermost_reductions(q, lambda r: not reads_any(r, written))
    return [(r, guard) for r, guard in outermost.items() if guard is None or not reads_any(guard, written)]


def outermost_reductions(q: Equation, selected: Callable[[Reduce], bool]) -> dict[Reduce, Expr | None]:
    """The outermost of the selected reductions of an equation, those that read no variable that another reduction binds, each with the
    condition under which it is evaluated: what it reads may be out of range elsewhere. None: always, or its reads are in range anyway."""
    guards: dict[Reduce, Expr | None] = {}
    stack: list[tuple[Expr, Expr | None]] = [(q.value, None)]
    seen: set[tuple[Expr, Expr | None]] = set()
    variables, holding = set(q.variables), _holding_reductions(q.value)
    while stack:
        e, guard = part = stack.pop()
        if part in seen or e not in holding:  # what has none may be a chain of choices, of many paths
            continue
        seen.add(part)
        if isinstance(e, Reduce) and e.free <= variables and selected(e):
            guard = None if _is_in_range(e) else guard
            known = guards.get(e, guard)
            guards[e] = (
                None if known is None or guard is None else guard if known is guard else apply("or", known, guard)
            )
        elif isinstance(e, Apply) and e.op == "select":
            chosen, a, b = e.args
            stack += [(chosen, guard), (a, _both(guard, chosen)), (b, _both(guard, apply("not", chosen)))]
        elif isinstance(e, Reduce) and e.where is not None:
            stack += [(e.where, guard), (e.body, _both(guard, e.where))]
        else:
            stack += [(c, guard) for c in children(e)]
    return {r: guard for r, guard in guards.items() if guard is None or guard.free <= variables}


def _holding_reductions(e: Expr) -> set[Expr]:
    """The reductions of an expression, and all that has one below it."""
    holding: set[Expr] = set()
    for n in sorted(walk(e), key=lambda n: n.serial):  # an expression is made after those below it
        if isinstance(n, Reduce) or not holding.isdisjoint(children(n)):
            holding.add(n)
    return holding


def _both(guard: Expr | None, condition: Expr) -> Expr:
    return condition if guard is None else apply("and", guard, condition)


def _is_in_range(r: Reduce) -> bool:
    """Whether every index of what a reduction reads is a variable of the extent of its dim."""
    read_ = [e for e in walk(r) if isinstance(e, Read) and e.outside is None]
    return all(isinstance(i, Var) and i.extent == n for e in read_ for i, n in zip(e.index, e.tensor.shape))


def reads_any(e: Expr, tensors: Container[Tensor]) -> bool:
    return any(isinstance(n, Read) and n.tensor in tensors for n in walk(e))


def without_units(q: Equation) -> Equation:
    """The equation without variables of extent 1 that its index adds to others: h for h * 1 + c."""
    ones: dict[Var, Expr] = {v: as_expr(0) for i in q.index if isinstance(i, Apply) for v in i.free if v.extent == 1}
    if not ones or q.form is not None:
        return q
    return replace(q, index=tuple(substitute(i, ones) for i in q.index), value=substitute(q.value, ones))
