"""Recurrences as equations state them and as they are computed: prefix reductions become steps, and what need not wait moves out.

In: the equations of one call. Out: the same values by other equations. `y[k] = sum(x[j] for j in n if j <= k)` takes time in proportion
to n * n; the running sum that it is becomes a tensor of its own, one step from the previous one, in the dtype that sums run in. A
reduction in a recurrence that reads nothing of it becomes an equation before it, for all positions at once: the input contraction of a
recurrent network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshape.dtypes import accum, highest, lowest
from anyshape.equations.builder import Equation, Step
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor, Var, apply, as_expr, cast, const, read
from anyshape.equations.traversal import children, replace_node, substitute, walk  # fmt: skip

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def as_steps(equations: Sequence[Equation]) -> list[Equation]:
    """Prefix reductions as recurrences, then reductions out of recurrences that do not read them."""
    cycles = max((q.form.cycle for q in equations if isinstance(q.form, Step)), default=-1) + 1
    expanded: list[Equation] = []
    for q in equations:
        steps = _prefix(q, cycles)
        cycles += len(steps) > 1
        expanded += steps
    return _moved_out(expanded)


def _prefix(q: Equation, cycle: int) -> list[Equation]:
    """The equation alone, or the steps of its prefix reduction and itself as the last of them."""
    if q.form is not None or q.born is not None:
        return [q]
    inner = {v for e in walk(q.value) if isinstance(e, Reduce) for v in e.vars}
    for r in walk(q.value):
        if isinstance(r, Reduce) and not r.free & inner:
            running = _running(q, r)
            if running is not None:
                k, exclusive, backward = running
                return _steps(q, r, k, exclusive, backward, cycle)
    return [q]


def _running(q: Equation, r: Reduce) -> tuple[Var, bool, bool] | None:
    """(the position, whether it is left out itself, whether it runs from the end) of `kind(… for j in n if j <= k)`."""
    where = r.where
    if r.kind not in _COMBINE or len(r.vars) != 1 or not isinstance(where, Apply) or where.op not in _MIRRORED:
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


def _steps(q: Equation, r: Reduce, k: Var, exclusive: bool, backward: bool, cycle: int) -> list[Equation]:
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
    form = Step(k, backward, cycle)
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
        if isinstance(q.form, Step):
            written.setdefault(q.form.cycle, set()).add(q.target)
    moved: list[Equation] = []
    for q in equations:
        if isinstance(q.form, Step):
            own = _without_waiting(q, written[q.form.cycle])
            for k, r in enumerate(own):
                variables = tuple(sorted(r.free, key=lambda v: v.serial))
                assert r.dtype is not None
                ahead = Tensor(f"ahead{len(moved)}_{k}", r.dtype, tuple(v.extent for v in variables))
                moved.append(Equation(ahead, variables, r, q.source))
                q = replace(q, value=replace_node(q.value, {r: read(ahead, variables)}))
        moved.append(q)
    return moved


def _without_waiting(q: Equation, written: set[Tensor]) -> list[Reduce]:
    """The outermost reductions of an equation that read nothing of its recurrence, and no variable that another reduction binds."""
    reductions: list[Reduce] = []
    stack = [q.value]
    while stack:
        e = stack.pop()
        if isinstance(e, Reduce) and e.free <= set(q.variables) and not _reads_any(e, written):
            if e not in reductions:
                reductions.append(e)
            continue
        stack.extend(children(e))
    return reductions


def _reads_any(e: Expr, tensors: set[Tensor]) -> bool:
    return any(isinstance(n, Read) and n.tensor in tensors for n in walk(e))


def without_units(q: Equation) -> Equation:
    """The equation without variables of extent 1 that its index adds to others: h for h * 1 + c."""
    ones: dict[Var, Expr] = {v: as_expr(0) for i in q.index if isinstance(i, Apply) for v in i.free if v.extent == 1}
    if not ones or q.form is not None:
        return q
    return replace(q, index=tuple(substitute(i, ones) for i in q.index), value=substitute(q.value, ones))
