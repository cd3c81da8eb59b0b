"""Scales of narrow numbers that are multiplied: factors of the sums or of the rows, and the numbers are read as memory holds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import F32
from anyshape.equations import Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import reduce_
from anyshape.kernel_model.contractions import MOST_SCALES
from anyshape.lower import Group, describe, host_target
from tests.lower.groups import Builder, N
from tests.lower.native import check

SIZES = [{N: n} for n in (0, 1, 3, 4, 8, 20)]
BATCHES, COLUMNS, LENGTH = 2, 33, 40
Place = Callable[[Any, Any, Any], Sequence[Any]]
SCALES: dict[str, tuple[tuple[int, ...], Place, str]] = {
    "one": ((), lambda n, j, r: (), "sums"),
    "of batches": ((BATCHES,), lambda n, j, r: (n,), "sums"),
    "of columns": ((BATCHES, COLUMNS), lambda n, j, r: (n, j), "sums"),
    "along sums": ((LENGTH,), lambda n, j, r: (r,), "rows"),
    "of elements": ((COLUMNS, LENGTH), lambda n, j, r: (j, r), "nothing"),
}
"""The shape of scales, where the scale of an element is, and what is multiplied by it."""
SCHEDULES = {"sums": ("product",), "rows": ("blocked", "rows", "product")}


class Scaled:
    """Rows times narrow numbers with constant scales."""

    def __init__(self, name: str, stored: str = "i8", along_k: bool = True, value: float = 0.3) -> None:
        self.b = Builder("scaled")
        shape, place, self.multiplies = SCALES[name]
        x = self.b.input([BATCHES, N, LENGTH])
        codes = self.b.input([BATCHES, COLUMNS, LENGTH] if along_k else [BATCHES, LENGTH, COLUMNS], stored)
        scale = self.b.input(shape)
        drawn = np.random.default_rng(3).normal(size=shape) * value
        self.constants = {scale: np.asarray(drawn, np.float32)}
        self.y = self.b.tensor([BATCHES, N, COLUMNS])
        n, i, j = self.b.eqs.indices("i", self.y.shape)

        def term(r: Any) -> Any:
            code = codes[n, j, r] if along_k else codes[n, r, j]
            return x[n, i, r] * (cast(code, F32) * scale[tuple(place(n, j, r))])

        self.b.eqs.define(self.y[n, i, j], reduce_("sum", [LENGTH], term))

    def group(self, y: Tensor | None = None) -> Group:
        self.b.output(y or self.y)
        return replace(self.b.group(), constants=self.constants)


def reads_numbers(group: Group) -> bool:
    """Whether the second factor of the product is the second input, in memory."""
    return re.search(r"r\d+ = \w+\[[^\]]*\] \* x1\[", describe(group)) is not None


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("stored", ["i8", "f16", "bf16"])
@pytest.mark.parametrize("name", SCALES)
def test_a_product(name: str, stored: str, along_k: bool) -> None:
    scaled = Scaled(name, stored, along_k)
    group = scaled.group()
    native = check(group, SIZES, tolerance=1e-4, parts=(1, 3), fixed=scaled.constants)
    assert native.kernel.schedule == SCHEDULES.get(scaled.multiplies, native.kernel.schedule)
    assert reads_numbers(group) == (scaled.multiplies != "nothing")


@pytest.mark.parametrize("level", ["avx2", "sse"])
@pytest.mark.parametrize("name", SCALES)
def test_other_processors(name: str, level: str) -> None:
    scaled = Scaled(name)
    check(scaled.group(), SIZES, tolerance=1e-4, target=host_target().limited(level), fixed=scaled.constants)


@pytest.mark.parametrize("name", SCALES)
def test_scores_and_their_softmax(name: str) -> None:
    scaled = Scaled(name)
    native = check(scaled.group(scaled.b.softmax(scaled.y)), SIZES, tolerance=1e-3, fixed=scaled.constants)
    assert native.kernel.schedule[0] == "blocked" and native.kernel.schedule[-2:] == ("product", "rows")
    assert len(native.kernel.schedule) == (3 if scaled.multiplies == "sums" else 4)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["one", "of columns", "along sums"])
def test_scales_that_are_not_finite_stay(name: str, value: float) -> None:
    """A column of zeros times infinity is NaN, and no infinity; kernels of one form may differ in their constants."""
    finite, scaled = Scaled(name), Scaled(name, value=value)
    assert reads_numbers(finite.group())
    group = scaled.group()
    check(group, SIZES, tolerance=1e-4, fixed=scaled.constants)
    assert not reads_numbers(group)


def test_scales_that_are_no_constants_stay() -> None:
    scaled = Scaled("one")
    scaled.constants = {}
    group = scaled.group()
    check(group, SIZES, tolerance=1e-4)
    assert not reads_numbers(group)


def test_two_scales() -> None:
    """Both are taken out, one after the other."""
    b = Builder("scaled")
    x, codes, s, t = b.input([N, LENGTH]), b.input([LENGTH, COLUMNS], "i8"), b.input([LENGTH]), b.input([])
    y = b.tensor([N, COLUMNS])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [LENGTH], lambda r: x[i, r] * (cast(codes[r, j], F32) * s[r])) * t[()])
    b.output(y)
    constants = {s: np.linspace(-1, 1, LENGTH, dtype=np.float32), t: np.float32(3) * np.ones((), np.float32)}
    group = replace(b.group(), constants=constants)
    check(group, SIZES, tolerance=1e-4, fixed=constants)
    assert reads_numbers(group)


def test_a_large_constant_stays() -> None:
    long = MOST_SCALES // F32.itemsize + 1
    b = Builder("scaled")
    x, codes, s = b.input([N, long]), b.input([long, 5], "i8"), b.input([long])
    y = b.tensor([N, 5])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [long], lambda r: x[i, r] * (cast(codes[r, j], F32) * s[r])))
    b.output(y)
    assert not reads_numbers(replace(b.group(), constants={s: np.ones(long, np.float32)}))
