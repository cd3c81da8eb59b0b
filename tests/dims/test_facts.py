"""Facts: what is learned is used, branches do not leak, and nothing decided under facts is wrong for numbers that
satisfy them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape import dims
from anyshape.dims import Facts, symbol
from tests.dims.expressions import Both, bound_to, conditions, sizes, values

n, m, k = symbol("n"), symbol("m"), symbol("k")


def test_equal_symbols_become_the_older_one() -> None:
    old, young = dims.fresh("old"), dims.fresh("young")
    facts = Facts()
    facts.learn(dims.eq(young, old))
    assert facts.canonical(young * 2 + old) is old * 3
    assert facts.decide(dims.eq(young, old)) is True
    facts.learn(dims.eq(old, 7))
    assert facts.canonical(young) == 7


def test_numbers_win() -> None:
    facts = Facts()
    facts.learn(dims.eq(n, 5))
    assert facts.canonical(n * m) is m * 5
    assert facts.decide(dims.ge(n, 6)) is False


def test_equalities_of_expressions_are_solved() -> None:
    facts = Facts()
    facts.learn(dims.eq(n + m, k + 3))
    assert facts.canonical(n + m - k) == 3


def test_bounds_are_used_in_products() -> None:
    facts = Facts()
    assert facts.decide(dims.ge(n * m, n)) is not True
    facts.learn(dims.ge(m, 1))
    assert facts.decide(dims.ge(n * m, n)) is True
    facts.learn(dims.le(m, 1))
    assert facts.canonical(n * m) is n


def test_divisibility_discharges_the_count() -> None:
    p, q = n * m, k
    facts = Facts()
    facts.learn(dims.ne(q, 0))
    facts.learn(dims.eq(dims.mod(p, q), 0))
    assert facts.decide(dims.eq(q * (p // q), p)) is True


def test_a_branch_does_not_leak() -> None:
    facts = Facts()
    inner = facts.under(dims.eq(n, 0))
    assert inner.canonical(n) == 0
    assert facts.canonical(n) is n


def test_bounds_survive_an_equality() -> None:
    old, young = dims.fresh("old", 0), dims.fresh("young", 0)
    facts = Facts()
    facts.learn(dims.ge(young, 4))
    facts.learn(dims.eq(young, old))
    assert facts.decide(dims.ge(old, 4)) is True


@pytest.mark.parametrize(
    ("cond", "low", "high"),
    [
        (dims.ge(n // 3, 1), 3, None),
        (dims.eq(n // 3, 0), 0, 2),
        (dims.le(n // 3, 5), 0, 17),
        (dims.gt(2 * ((n + 1) // 4), 3), 7, None),
        (dims.ge(n // 2 // 3, 1), 6, None),
        (dims.ge((2 * n) // 3, 1), 2, None),
        (dims.ge((7 - n) // 3, 1), 0, 4),
        (dims.ge(n // 3, m), 0, None),
        (dims.ge(n // m, 1), 0, None),
        (dims.eq(n // 3, 2), 0, None),
        (dims.ne(n % 3, 0), 0, None),
    ],
)
def test_a_bound_of_a_quotient_is_one_of_what_is_divided(cond: Any, low: int, high: int | None) -> None:
    """A quotient by a number has a bound; of what is divided by another symbol nothing is known, nor of one value that is not the least."""
    facts = Facts()
    facts.learn(cond)
    assert (facts.decide(dims.ge(n, low)), facts.decide(dims.le(n, 100 if high is None else high))) == (
        True,
        dims.le(n, 100) if high is None else True,
    )
    assert low == 0 or facts.decide(dims.ge(n, low + 1)) is not True
    assert high is None or facts.decide(dims.le(n, high - 1)) is not True


def test_a_quotient_that_is_not_0_is_no_divisor_that_may_be() -> None:
    """What was decided of a symbol is decided of the quotient that replaces it."""
    size, facts = dims.fresh("size", 1), Facts()
    part = n // 3
    facts.learn(dims.eq(size, part))
    facts.learn(dims.ge(part, 1))
    assert size // dims.maximum(2 * size, 1) == 0
    assert facts.canonical(part // dims.maximum(2 * part, 1)) == 0


def test_a_bound_of_several_symbols_settles_what_chooses_between_them() -> None:
    facts, smallest, largest = Facts(), dims.minimum, dims.maximum
    between = smallest(n, m) + 2 * largest(n, m) * smallest(m, 4)
    assert facts.canonical(between) is between
    facts.learn(dims.le(m, n))
    assert facts.canonical(smallest(n, m)) is m and facts.canonical(largest(n, m)) is n
    assert facts.canonical(between) is m + 2 * n * smallest(m, 4)
    assert facts.canonical(smallest(n, m, k)) is smallest(m, k) and facts.canonical(smallest(n, k)) is smallest(n, k)
    assert facts.canonical(smallest(n, m + 1)) is smallest(n, m + 1) and facts.canonical(smallest(n + 1, m)) is m
    assert facts.canonical(dims.select(dims.le(m, n), k, n)) is k
    inner = facts.under(dims.le(n, k))
    assert inner.canonical(smallest(n, k)) is n and facts.canonical(smallest(n, k)) is smallest(n, k)
    facts.learn(dims.le(n + 3, k))
    assert facts.canonical(dims.floordiv(smallest(n, k), 2)) is dims.floordiv(n, 2)


@settings(max_examples=200, deadline=None)
@given(st.lists(conditions, min_size=1, max_size=3), conditions, sizes, values)
def test_facts_are_sound(learned: list[Both], asked: Both, size: Both, v: dict[str, int]) -> None:
    facts = Facts()
    for c in learned:
        facts.learn(facts.decide(c.dim))
    decided, spelled = facts.decide(asked.dim), facts.canonical(size.dim)
    if all(c.plain(v) for c in learned):
        assert dims.evaluate(decided, bound_to(v)) == bool(asked.plain(v))
        assert dims.evaluate(spelled, bound_to(v)) == size.plain(v)
