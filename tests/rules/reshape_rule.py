"""The reshape rule of the design, written by hand in the form the generator emits, to try the rule calls before it
does.
"""

# Each lambda of a rule is called, or dropped, before its loop goes on.
# ruff: noqa: B023

from __future__ import annotations

from typing import Any

from anyshape.rules import Bound, Rule, Vec, all_, count, enumerate_, eq, ge, le, ne, not_, prod


def reshape(r: Rule, x: Vec, newshape: Any, allowzero: bool = False) -> Bound:
    d = Vec(x)
    r.require(ge(newshape, -1), lambda: f"entries of newshape must be at least -1, got {newshape}")
    r.require(
        le(count(Vec(eq(n, -1) for n in newshape)), 1), lambda: f"only one entry of newshape may be -1, got {newshape}"
    )
    r.require(
        r.or_(allowzero, lambda: all_(Vec(ne(n, 0) for n in newshape[len(d) :]))),
        lambda: f"a 0 copies a dim of x, which has only {len(d)}",
    )
    wanted = Vec(
        r.where(r.and_(eq(n, 0), lambda: not_(allowzero)), lambda: r.item(d, k), lambda: n)
        for k, n in enumerate_(newshape)
    )
    known = prod(r.where(ne(n, -1), lambda: n, lambda: 1) for n in wanted)
    s = Vec(r.where(eq(n, -1), lambda: r.exact_div(prod(d), known), lambda: n) for n in wanted)
    r.require(eq(prod(s), prod(d)), lambda: f"cannot view {prod(d)} elements as {s}")
    return r.bind({"y": s}, d=d, s=s)
