"""Terms of a gradient: what counts, at which index and where, and a term as it is gathered at one place of the gradient.

In: terms, conditions and places. Out: expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import takewhile
from math import prod

from anyshape import dims
from anyshape.dtypes import BOOL, I64, DType, accum
from anyshape.equations.adjoint_indices import are_alike, digits_of, moved_by, shift_of
from anyshape.equations.expr import Const, Expr, Var, apply, cast, const, reduce_node, scalar
from anyshape.equations.traversal import substitute


@dataclass(frozen=True)
class Term:
    """A summand of a tensor's gradient: `value` counts at `index`, for every value of `vars`, where all `conditions` hold."""

    index: tuple[Expr, ...]
    value: Expr
    vars: tuple[Var, ...]
    conditions: tuple[Expr, ...]

    @property
    def masked(self) -> Expr:
        """The term's value where its conditions hold, else 0; the value outside the conditions may be no number."""
        return only_where(self.conditions, self.value)

    @property
    def guarded(self) -> tuple[Expr, ...]:
        """The index, or 0 where the read is not made, which adds 0."""
        return tuple(map(self._guarded, self.index))

    def _guarded(self, i: Expr) -> Expr:
        if isinstance(i, Const) and i.value == 0:
            return i
        for c in reversed(self.conditions):
            i = apply("select", c, i, const(0, I64))
        return i


def either_of(a: tuple[Expr, tuple[Expr, ...]], b: tuple[Expr, tuple[Expr, ...]]) -> tuple[Expr, tuple[Expr, ...]]:
    """The sum of two seeds, each under its conditions, and the conditions under which either counts."""
    shared = tuple(x for x, _ in takewhile(lambda pair: pair[0] is pair[1], zip(a[1], b[1])))
    (first, one), (second, other) = ((seed, conditions[len(shared) :]) for seed, conditions in (a, b))
    total = only_where(one, first) + only_where(other, second)
    if not one or not other:
        return total, shared
    return total, (*shared, apply("or", reduce(partial(apply, "and"), one), reduce(partial(apply, "and"), other)))


def all_of(conditions: Sequence[Expr]) -> Expr:
    """Whether all conditions hold; each is computed only where those before it hold."""
    total: Expr = const(True, BOOL)
    for c in reversed(conditions):
        total = c if isinstance(total, Const) else apply("select", c, total, const(False, BOOL))
    return total


def gathered_at(
    term: Term, place: Sequence[Expr], dtype: DType, first: int = 0, everywhere: bool = False
) -> Expr | None:
    """The term at one place of the gradient: a sum over the variables that its index leaves open. None where the index is not variables,
    or variables and sizes; `everywhere`: then all points are compared with the place. `first` is the axis that is solved for first."""
    known: dict[Var, Expr] = {}
    at, among = list[Expr](), list[Expr]()
    for axis in sorted(range(len(place)), key=lambda a: a != first):
        i, p = term.index[axis], place[axis]
        v, more = shift_of(i)
        parts = digits_of(p)
        if len(parts) > 1 and are_alike(digits := digits_of(i), parts) and known.keys().isdisjoint(digits):
            known |= dict(zip(digits, parts))
        elif v is not None and v in term.vars and v not in known:
            known[v] = moved_by(p, -more)
            if more != 0 or not parts or dims.eq(v.extent, prod(d.extent for d in parts)) is not True:
                at += [apply("ge", known[v], 0), apply("lt", known[v], scalar(v.extent, I64))]
        elif isinstance(i, Const):
            if not isinstance(p, Var) or p.extent != 1:
                at.append(apply("eq", p, i))
        elif everywhere:
            among.append(apply("eq", p, term.guarded[axis]))
        else:
            return None
    open_ = tuple(v for v in term.vars if v not in known)
    own = tuple(Var(v.name, v.extent) for v in open_)
    value = only_where(among, term.masked)
    value = substitute(value, {**known, **dict(zip(open_, own))})
    if open_:
        wide = accum(dtype)
        value = reduce_node("sum", own, cast(value, wide), None, wide)
    return only_where(at, value)


def only_where(conditions: Sequence[Expr], value: Expr) -> Expr:
    """The value where all conditions hold, else 0."""
    for c in reversed(conditions):
        value = apply("select", c, value, const(0.0, value.dtype))
    return value


def total_of(values: Iterable[Expr], dtype: DType) -> Expr:
    total: Expr = const(0.0, dtype)
    for value in values:
        total = value if isinstance(total, Const) else total + value
    return total
