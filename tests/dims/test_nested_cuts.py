"""Cuts of cuts: lengths that nest in one another take as much work for each cut, whatever they are made of. Work is counted, not timed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import anyshape
from anyshape import dims, ops
from anyshape.dims import Size, symbol
from anyshape.dims.bound import nonneg
from anyshape.graph.value import Value
from tests.counting import calls

WORK = 30_000
"""Calls of functions for one cut, about twice what the dearest takes."""

CUTS: dict[str, Callable[[Value], tuple[Value | list[int], Value]]] = {
    "one in 64": lambda n: ([0], ops.sub(n, ops.div(n, 64))),
    "three quarters": lambda n: ([0], ops.div(ops.mul(n, 3), 4)),
    "a half less": lambda n: ([0], ops.sub(n, ops.div(n, 2))),
    "a half and one": lambda n: ([0], ops.add(ops.div(n, 2), 1)),
    "both ends": lambda n: (ops.div(n, 64), ops.sub(n, ops.div(n, 32))),
    "a remainder": lambda n: ([0], ops.sub(n, ops.mod(n, 7))),
    "at most eight": lambda n: ([0], ops.sub(n, ops.minimum(ops.div(n, 64), 8))),
    "by remainder and quotient": lambda n: (ops.mod(n, 3), ops.sub(n, ops.div(n, 5))),
}


def chain(cut: str, iterations: int) -> Value:
    y = anyshape.input("x", f"f32[batch, {cut.replace(' ', '_')}_{iterations}]")
    for _ in range(iterations):
        start, end = CUTS[cut](ops.shape_of(y, start=1, end=2))
        y = ops.slice(y, start, end, [1])
    return y


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_of_cuts_takes_as_much_work_as_the_first(cut: str) -> None:
    chain(cut, 1)
    few, many = calls(lambda: chain(cut, 12)), calls(lambda: chain(cut, 24))
    assert many < 2 * 1.6 * few and many < 24 * WORK, (few, many)


def test_an_end_that_may_lie_before_the_start() -> None:
    """Each of these choices stands in the next one: comparisons are not taken into all of them."""

    def cut(iterations: int) -> int:
        def run() -> None:
            y = anyshape.input("x", f"f32[may_be_negative_{iterations}]")
            for _ in range(iterations):
                n = ops.shape_of(y)
                y = ops.slice(y, [0], ops.sub(ops.sub(n, ops.mod(n, 7)), 1), [0])

        return calls(run)

    assert cut(12) < min(4 * cut(6), 12 * WORK)


def nested(iterations: int) -> Size:
    length: Size = symbol("length")
    for _ in range(iterations):
        length = length - dims.floordiv(length, 64)
    return length


def test_a_length_of_many_cuts_is_proved_at_once() -> None:
    """No cut was decided before the proof: each proof needs that of the cut it is made of."""
    assert nonneg(nested(40)) and nonneg(nested(30) - nested(31)) and not nonneg(nested(31) - nested(30))
    assert not nonneg(nested(20) - 1)


def test_what_cannot_be_proved_is_given_up_in_bounded_time() -> None:
    """Sums of quotients, each a little less than one in the other sum: true nowhere near what bounds tell."""

    def work(terms: int) -> int:
        parts = [symbol(f"part_{terms}_{k}") for k in range(terms)]
        above: Size = sum(dims.floordiv(p * 3 + 2, 4) for p in parts)
        below: Size = sum(dims.floordiv(p * 2 + 1, 3) for p in parts)
        return calls(lambda: nonneg(above - below))

    few, many = work(4), work(16)
    assert many < 16 * few and many < 500_000, (few, many)
