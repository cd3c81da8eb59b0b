"""The search for sizes: what it answers is what trying all sizes of a small range answers."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from anyshape.dims import Dim, Size, eq, evaluate, ge, gt, le, lt, maximum, mod, ne, not_, select, substitute, symbol
from anyshape.frontends.symbolic_shapes.search import Outcome, _numbered, solve

N, M, K, H = (symbol(name) for name in "nmkh")
ANY = symbol("e", None)
BOUND = symbol("b", 2, 5)


@pytest.mark.parametrize(("conditions", "outcome", "smallest"), [
    ([eq(N + M, 512)], "solved", {"m": 0, "n": 512}), ([eq(2 * N + 1, 513)], "solved", {"n": 256}),
    ([eq(2 * N + 1, 512)], "impossible", {}), ([eq(4 * N + 6 * M, 21)], "impossible", {}),
    ([eq(N * M, 512)], "solved", {"m": 16, "n": 32}), ([eq(H // 2, 256)], "solved", {"h": 512}),
    ([lt(N, 5), gt(N, 7)], "impossible", {}), ([eq(N * N, 17)], "none found", {}), ([le(N, 20), eq(N * N, 17)], "impossible", {}),
    ([not_(le(N, 512))], "solved", {"n": 513}), ([ne(N, M), ne(M, 1), ne(N, 1)], "solved", {"m": 0, "n": 2}),
    ([eq(select(eq(ANY, -1), 4 * N, ANY), 8)], "solved", {"e": -1, "n": 2}), ([eq(ANY, -3)], "solved", {"e": -3}),
    ([eq(BOUND + N, 4)], "solved", {"b": 2, "n": 2}), ([eq(BOUND, 6)], "impossible", {}), ([ge(BOUND * N, 21)], "solved", {"b": 4, "n": 6}),
    ([eq(mod(N, 7), 3), eq(mod(N, 11), 4), eq(mod(N, 13), 5)], "solved", {"n": 213}),
    ([eq(mod(N, 2), 1), eq(mod(N + 1, 2), 1)], "none found", {}), ([], "solved", {}), ([True], "solved", {}), ([False], "impossible", {}),
])  # fmt: skip
def test_what_is_answered(conditions: list[Any], outcome: str, smallest: dict[str, int]) -> None:
    answer = solve(conditions)
    assert answer.outcome is Outcome(outcome)
    if ge(BOUND * N, 21) in conditions:
        assert sum(answer.smallest.values()) == 10  # 4 x 6 and 5 x 5 have one sum
        return
    assert {s.name: n for s, n in answer.smallest.items()} == smallest


def test_what_dims_must_be_is_said_in_terms_of_others() -> None:
    answer = solve([eq(N + M, 512), le(M, K)])
    assert {s.name: str(v) for s, v in answer.values.items()} == {"n": "-m + 512"}
    assert sorted(map(str, answer.rest)) == ["k >= m", "m <= 512"]


def test_the_range_of_the_search() -> None:
    """A number beyond it is not chosen, but may follow from an equation; and the search ends."""
    assert solve([eq(H // 2, 256)], up_to=511).outcome is Outcome.NONE_FOUND
    assert solve([eq(H // 2, 256)], up_to=512).smallest == {H: 512}
    assert solve([eq(H, 10**6)], up_to=5).smallest == {H: 10**6}
    hopeless = solve([eq(mod(N * N + M * M, 4), 3)], up_to=10**6)  # squares leave 0 or 1
    assert hopeless.outcome is Outcome.NONE_FOUND and hopeless.gave_up


@pytest.mark.parametrize(("low", "high", "numbers"), [
    (0, None, [0, 1, 2]), (3, 5, [3, 4, 5, None]), (None, None, [0, 1, -1, 2, -2]), (-2, 4, [0, 1, -1, 2, -2, 3, 4, None]),
    (-4, 1, [0, 1, -1, -2, -3, -4, None]), (None, 1, [0, 1, -1, -2, -3]), (-1, None, [0, 1, -1, 2, 3]), (None, -1, [-1, -2]),
    (-3, -2, [-2, -3, None]), (4, 3, [None]),
])  # fmt: skip
def test_numbers_in_the_order_of_their_amounts(low: int | None, high: int | None, numbers: list[int | None]) -> None:
    assert [_numbered(k, low, high) for k in range(len(numbers))] == numbers


def an_expression(pick: random.Random) -> Size:
    x, y = pick.choice((N, M, K)), pick.choice((N, M, K))
    forms: list[Size] = [
        x, x * pick.randrange(1, 4) + y, x // 2, mod(x + 1, 3), maximum(x, y), x * y, pick.randrange(9), select(eq(x, 1), y, x),
    ]  # fmt: skip
    return pick.choice(forms)


def holds(condition: Any, numbers: dict[Dim, int]) -> bool:
    return condition if isinstance(condition, bool) else evaluate(condition, numbers)


def test_the_sum_is_the_least_of_all() -> None:
    pick = random.Random(1)
    outcomes = set()
    for _ in range(150):
        conditions = [
            pick.choice((eq, le, ne))(an_expression(pick), an_expression(pick)) for _ in range(pick.randrange(1, 4))
        ]
        points = (dict(zip((N, M, K), p)) for p in itertools.product(range(7), repeat=3))
        sums = [sum(p.values()) for p in points if all(holds(c, p) for c in conditions)]
        answer = solve(conditions, up_to=6)
        outcomes.add(answer.outcome)
        if answer.outcome is not Outcome.SOLVED:
            assert not sums, (conditions, answer)
            continue
        numbers = {N: 1, M: 1, K: 1, **answer.smallest}
        assert all(holds(c, numbers) for c in conditions), (conditions, answer)
        mentioned = set(answer.smallest)
        for s, v in answer.values.items():  # what equations say of a dim is true of the sizes, too
            assert substitute(v, {**dict.fromkeys((N, M, K), 1), **answer.smallest}) == answer.smallest[s]
        if sums and mentioned == {N, M, K}:
            assert sum(answer.smallest.values()) == min(sums), (conditions, answer)
    assert outcomes == set(Outcome)
