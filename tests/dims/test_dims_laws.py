"""Dims against plain integers and against sympy: whatever is simplified must keep its value."""

from __future__ import annotations

import sympy
from hypothesis import given, settings

from anyshape import dims
from anyshape.dims import Cond, Dim
from tests.dims.expressions import SYMBOLS, Both, bound_to, conditions, polynomials, sizes, values

THOROUGH = settings(max_examples=200, deadline=None)


@THOROUGH
@given(sizes, values)
def test_a_size_has_the_value_of_plain_integers(e: Both, v: dict[str, int]) -> None:
    expected = e.plain(v)
    assert dims.evaluate(e.dim, bound_to(v)) == expected
    assert dims.substitute(e.dim, dict(bound_to(v))) == expected


@THOROUGH
@given(conditions, values)
def test_a_condition_has_the_truth_of_plain_integers(c: Both, v: dict[str, int]) -> None:
    expected = bool(c.plain(v))
    assert dims.evaluate(c.dim, bound_to(v)) is expected
    assert dims.substitute(c.dim, dict(bound_to(v))) is expected


@THOROUGH
@given(sizes, values)
def test_values_lie_within_bounds(e: Both, v: dict[str, int]) -> None:
    low, high = dims.bounds(e.dim)
    value = e.plain(v)
    assert (low is None or low <= value) and (high is None or value <= high)
    assert not dims.nonneg(e.dim) or value >= 0
    assert not dims.nonzero(e.dim) or value != 0


@THOROUGH
@given(sizes, sizes, values)
def test_substituting_dims_is_substituting_their_values(e: Both, by: Both, v: dict[str, int]) -> None:
    replaced = dims.substitute(e.dim, {SYMBOLS["d"]: by.dim})
    assert dims.evaluate(replaced, bound_to(v)) == e.plain({**v, "d": by.plain(v)})


@given(polynomials, polynomials)
@settings(max_examples=200, deadline=None)
def test_polynomials_agree_with_sympy(e: Both, f: Both) -> None:
    names = {name: sympy.Symbol(name, integer=True) for name in SYMBOLS}
    mine, other = sympy.expand(e.plain(names)), sympy.expand(f.plain(names))
    assert sympy.expand(sympy.sympify(str(e.dim), locals=names)) == mine
    assert (e.dim is f.dim or (type(e.dim) is int and e.dim == f.dim)) == (mine == other)


@given(sizes)
@settings(max_examples=200, deadline=None)
def test_text_of_a_size_reads_back(e: Both) -> None:
    again = dims.parse_dim(str(e.dim), SYMBOLS)
    assert again is e.dim or again == e.dim


@given(conditions)
@settings(max_examples=200, deadline=None)
def test_text_of_a_condition_reads_back(c: Both) -> None:
    assert dims.parse_cond(str(c.dim), SYMBOLS) is c.dim


@given(conditions)
@settings(max_examples=200, deadline=None)
def test_not_is_its_own_opposite(c: Both) -> None:
    assert dims.not_(dims.not_(c.dim)) is c.dim
    assert dims.and_(c.dim, dims.not_(c.dim)) is False
    assert dims.or_(c.dim, dims.not_(c.dim)) is True


def test_a_dim_is_never_constant_and_equal_dims_are_one() -> None:
    n, m = SYMBOLS["a"], SYMBOLS["b"]
    assert (n + 1) * (m + 2) is n * m + 2 * n + m + 2
    assert (n + 3) - n == 3 and type((n + 3) - n) is int
    assert isinstance(n * 2, Dim) and n * 0 == 0
    assert isinstance(dims.eq(n, m), Cond)
