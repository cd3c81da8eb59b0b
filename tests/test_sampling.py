"""Tests that one in so many cases of a test that is marked as sampled is kept, and all cases of other tests."""

from __future__ import annotations

import pytest

from anyshape_testing.process.profile import LONG
from tests.sampling import sampled


def cases(count: int, *marks: pytest.MarkDecorator) -> list[pytest.Item]:
    """Cases of one test, as far as `sampled` asks them."""

    class Case:
        function = object()

        def get_closest_marker(self, name: str) -> pytest.Mark | None:
            return next((m.mark for m in marks if m.mark.name == name), None)

    return [Case() for _ in range(count)]  # type: ignore[misc]


def test_one_in_so_many_is_kept() -> None:
    many, few, plain = cases(7, pytest.mark.sampled(3)), cases(2, pytest.mark.sampled(5)), cases(3, pytest.mark.skip)
    kept, left = sampled([*many, *few, *plain])
    assert kept == [many[0], many[3], many[6], few[0], *plain]
    assert left == [many[1], many[2], many[4], many[5], few[1]]
    assert sampled(plain) == (plain, [])


def test_the_cases_of_two_tests_are_counted_apart() -> None:
    one, other = cases(4, pytest.mark.sampled(2)), cases(4, pytest.mark.sampled(2))
    kept, _ = sampled([case for pair in zip(one, other, strict=True) for case in pair])
    assert kept == [one[0], other[0], one[2], other[2]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", range(4))
def test_the_second_and_the_fourth_are_left_out(case: int, request: pytest.FixtureRequest) -> None:
    alone = len([i for i in request.session.items if getattr(i, "function", None) is request.function]) == 1
    assert LONG or alone or case % 2 == 0
