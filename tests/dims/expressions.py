"""Random expressions for the tests of dims, built three ways at once: as dims, for sympy, and as plain Python on
integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from anyshape import dims

SYMBOLS = {
    "a": dims.symbol("a", 0),
    "b": dims.symbol("b", 1),
    "c": dims.symbol("c", 2, 5),
    "d": dims.symbol("d", None),
    "e": dims.symbol("e", -3, 4),
}
RANGES = {"a": (0, 6), "b": (1, 6), "c": (2, 5), "d": (-6, 6), "e": (-3, 4)}

values = st.fixed_dictionaries({name: st.integers(*r) for name, r in RANGES.items()})


@dataclass(frozen=True)
class Both:
    """An expression as a dim (or condition), and what plain integers say it is."""

    dim: Any
    plain: Callable[[dict[str, int]], Any]


def floordiv(x: int, y: int) -> int:
    return x // y if y else 0


def mod(x: int, y: int) -> int:
    return x % y if y else 0


def ceil_div(x: int, y: int) -> int:
    return -(-x // y) if y else 0


def _symbol(name: str) -> Both:
    return Both(SYMBOLS[name], lambda v: v[name])


def _two(f: Callable[..., Any], g: Callable[..., Any]) -> Callable[[Both, Both], Both]:
    return lambda x, y: Both(f(x.dim, y.dim), lambda v: g(x.plain(v), y.plain(v)))


leaves = st.one_of(
    st.sampled_from(sorted(SYMBOLS)).map(_symbol), st.integers(-5, 5).map(lambda k: Both(k, lambda v: k))
)
RING = [
    _two(lambda x, y: x + y, lambda x, y: x + y),
    _two(lambda x, y: x - y, lambda x, y: x - y),
    _two(lambda x, y: x * y, lambda x, y: x * y),
]
OPAQUE = [
    _two(dims.floordiv, floordiv),
    _two(dims.mod, mod),
    _two(dims.ceil_div, ceil_div),
    _two(dims.minimum, min),
    _two(dims.maximum, max),
]
COMPARE = [
    _two(dims.eq, lambda x, y: x == y),
    _two(dims.ne, lambda x, y: x != y),
    _two(dims.le, lambda x, y: x <= y),
    _two(dims.lt, lambda x, y: x < y),
    _two(dims.ge, lambda x, y: x >= y),
    _two(dims.gt, lambda x, y: x > y),
]


def selected(c: Both, x: Both, y: Both) -> Both:
    return Both(dims.select(c.dim, x.dim, y.dim), lambda v: x.plain(v) if c.plain(v) else y.plain(v))


def compared(sizes: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    return st.builds(lambda f, x, y: f(x, y), st.sampled_from(COMPARE), sizes, sizes)


def _logic(conds: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    return st.one_of(
        st.builds(lambda c: Both(dims.not_(c.dim), lambda v: not c.plain(v)), conds),
        st.builds(_two(dims.and_, lambda x, y: x and y), conds, conds),
        st.builds(_two(dims.or_, lambda x, y: x or y), conds, conds),
    )


def _grown(inner: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    return st.one_of(
        st.builds(lambda f, x, y: f(x, y), st.sampled_from(RING), inner, inner),
        st.builds(lambda f, x, y: f(x, y), st.sampled_from(OPAQUE), inner, inner),
        st.builds(selected, compared(inner), inner, inner),
    )


polynomials = st.recursive(
    leaves, lambda inner: st.builds(lambda f, x, y: f(x, y), st.sampled_from(RING), inner, inner), max_leaves=8
)
sizes = st.recursive(leaves, _grown, max_leaves=8)
conditions = st.recursive(compared(sizes), _logic, max_leaves=4)


def bound_to(v: dict[str, int]) -> dict[dims.Dim, int]:
    return {SYMBOLS[name]: value for name, value in v.items()}
