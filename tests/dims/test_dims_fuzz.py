"""Large random expressions, more than hypothesis tries: the right value, without a blow-up of work."""

from __future__ import annotations

import random

from anyshape import dims
from anyshape.errors import OverflowedError
from tests.dims.expressions import COMPARE, OPAQUE, RANGES, RING, SYMBOLS, Both, bound_to, selected

HOW_MANY = 4000


def number(k: int) -> Both:
    return Both(k, lambda v: k)


def symbol(name: str) -> Both:
    return Both(SYMBOLS[name], lambda v: v[name])


def size(rng: random.Random, leaves: int) -> Both:
    if leaves <= 1:
        return symbol(rng.choice(sorted(SYMBOLS))) if rng.random() < 0.7 else number(rng.randint(-5, 5))
    left, kind = rng.randint(1, leaves - 1), rng.random()
    if kind < 0.8:
        return rng.choice(RING if kind < 0.5 else OPAQUE)(size(rng, left), size(rng, leaves - left))
    part = max(1, leaves // 3)
    return selected(condition(rng, part), size(rng, part), size(rng, part))


def condition(rng: random.Random, leaves: int) -> Both:
    left = rng.randint(1, max(1, leaves - 1))
    if leaves <= 3 or rng.random() < 0.6:
        return rng.choice(COMPARE)(size(rng, left), size(rng, max(1, leaves - left)))
    c, d = condition(rng, left), condition(rng, leaves - left)
    if rng.random() < 0.5:
        return Both(dims.and_(c.dim, d.dim), lambda v: c.plain(v) and d.plain(v))
    return Both(dims.or_(c.dim, d.dim), lambda v: c.plain(v) or d.plain(v))


def test_large_expressions_keep_their_values() -> None:
    rng = random.Random(20)
    for _ in range(HOW_MANY):
        e = (size if rng.random() < 0.5 else condition)(rng, rng.randint(2, 14))
        for _ in range(4):
            v = {name: rng.randint(*between) for name, between in RANGES.items()}
            try:
                got = dims.evaluate(e.dim, bound_to(v))
            except OverflowedError:
                continue
            assert got == e.plain(v), (e.dim, v)


def test_a_divisor_known_to_be_zero() -> None:
    n, zero = SYMBOLS["a"], dims.minimum(SYMBOLS["a"] * 0 + SYMBOLS["e"] - SYMBOLS["e"], 0)
    assert zero == 0 and n // zero == 0 and n % zero == 0
    always = dims.select(dims.eq(n, 3), 0, 0)
    assert always == 0
