"""What the adjoints of updates need besides gradients: which update of an element is the last, what the others multiply to, how many tie.

In: an update. Out: tensors and expressions that say so, stated in the equations of the adjoint.
"""

from __future__ import annotations

from math import prod

from anyshape.dtypes import I64, accum
from anyshape.equations.adjoint_preparation import point, ravelled
from anyshape.equations.builder import Equation, Equations
from anyshape.equations.expr import Expr, Tensor, apply, cast, const
from anyshape.equations.functions import checked
from anyshape.equations.traversal import substitute


def number(q: Equation) -> Expr:
    """The number of an update in the order in which updates are made, from 0 on."""
    return ravelled(q.variables, [v.extent for v in q.variables])


def winner(eqs: Equations, q: Equation) -> Tensor:
    """Returns for each element the last of the updates that put something there, from 1 on; 0 where there is none."""
    last = eqs.scratch(f"last_put_in_{q.target.name}", I64, q.target.shape)
    place = eqs.indices("w", q.target.shape)
    eqs.define(last[place], const(0, I64))
    eqs.update(checked(last)[q.index], "max", number(q) + 1, over=q.variables, where=q.where)
    return last


def factors(eqs: Equations, q: Equation) -> Tensor:
    """Returns for each element the product of what updates by mul multiply it with."""
    product = eqs.scratch(f"factors_of_{q.target.name}", q.target.dtype, q.target.shape)
    place = eqs.indices("w", q.target.shape)
    eqs.define(product[place], const(1.0, product.dtype))
    eqs.update(checked(product)[q.index], "mul", cast(q.value, product.dtype), over=q.variables, where=q.where)
    return product


def ties(eqs: Equations, q: Equation, before: Tensor) -> Tensor:
    """Counts for each element how many of its first value and the updates equal the extreme that it has after them: they share its
    gradient."""
    many = eqs.scratch(f"ties_of_{q.target.name}", q.target.dtype, q.target.shape)
    place = eqs.indices("w", q.target.shape)
    one, none = const(1.0, many.dtype), const(0.0, many.dtype)
    eqs.define(many[place], apply("select", apply("eq", before[place], q.target[place]), one, none))
    extreme = apply("eq", q.value, checked(q.target)[q.index])
    eqs.update(checked(many)[q.index], "add", apply("select", extreme, one, none), over=q.variables, where=q.where)
    return many


def other_factors(eqs: Equations, q: Equation, cycle: int) -> Expr:
    """The product of what all other updates by mul multiply the same element with, at an update's variables: a quotient would not do
    where that is 0. Updates in the order of their elements have those of one element side by side;
    products run over them both ways, as recurrences of the number `cycle` and the next."""
    if not q.variables:
        return const(1.0, accum(q.target.dtype))
    name, many = q.target.name, (prod(v.extent for v in q.variables),)
    element, order, rank = (eqs.scratch(f"{what}_of_{name}", I64, many) for what in ("element", "order", "rank"))
    value, before, after = (
        eqs.scratch(f"{what}_of_{name}", q.target.dtype, many) for what in ("factor", "before", "after")
    )

    def at(e: Expr, u: Expr) -> Expr:
        return substitute(e, point(q.variables, u))

    def guarded(e: Expr, otherwise: Expr) -> Expr:
        return e if q.where is None else apply("select", q.where, e, otherwise)

    (u,) = eqs.indices("u", many)
    eqs.define(element[u], at(guarded(ravelled(q.index, q.target.shape), const(-1, I64)), u))
    eqs.argsort(order[:], many, lambda k: element[k])
    (u,) = eqs.indices("u", many)
    eqs.define(value[u], cast(at(guarded(q.value, const(1.0, q.value.dtype)), order[u]), value.dtype))
    (u,) = eqs.indices("u", many)
    eqs.update(rank[order[u]], "set", u)
    for k, (running, backward) in enumerate(((before, False), (after, True))):
        (s,) = eqs.indices("s", many)
        other = s + 1 if backward else s - 1
        is_first = apply("eq", s, s.extent - 1 if backward else 0)
        is_same = apply("eq", element[order[other]], element[order[s]])
        one = const(1.0, running.dtype)
        product = apply("select", is_same, running[other] * value[other], one)
        eqs.step(running[s], apply("select", is_first, one, product), s, backward, cycle + k)
    return before[rank[number(q)]] * after[rank[number(q)]]
