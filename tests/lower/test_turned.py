"""Maps that turn an operand: bare copies by the library, others by blocks, short sides element by element; ends that overlap."""

from __future__ import annotations

import pytest

from anyshape.equations.functions import exp
from anyshape.lower import Group, lower_group
from anyshape.lower.target import host_target
from tests.lower.groups import B, Builder, M, N
from tests.lower.native import check

SIZES = [(16, 16), (17, 33), (100, 70), (3, 90), (90, 3), (1, 1), (15, 16), (0, 20), (20, 0), (65, 129)]


def turned(bare: bool, dtype: str = "f32") -> Group:
    b = Builder("turned")
    x = b.input([B, N, M], dtype)
    y = b.tensor([B, M, N], dtype)
    n, i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, j], x[n, j, i] if bare else exp(x[n, j, i]))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "i8", "f16"])
def test_copies(dtype: str) -> None:
    check(turned(True, dtype), [{B: 2, N: n, M: m} for n, m in SIZES])


@pytest.mark.parametrize("few", [1, 2, 3, 5, 7, 8, 9, 12, 15])
@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_few_planes(few: int, level: str) -> None:
    """Planes become elements side by side, and back: a copy, by picking lanes, or in squares of which some rows are left out."""
    sizes = [{B: 2, N: few, M: m} for m in (16, 17, 40, 129, 200)] + [
        {B: 2, N: m, M: few} for m in (16, 17, 40, 129, 200)
    ]
    for dtype in ("f32", "i64"):
        check(turned(True, dtype), sizes, target=host_target().limited(level))


def test_maps() -> None:
    group = turned(False)
    assert lower_group(group, host_target()).schedule == ("turned",)
    check(group, [{B: 2, N: n, M: m} for n, m in SIZES])
