"""Scales of narrow numbers that are multiplied: factors of the sums or of the rows, and the numbers are read as memory holds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from anyshape.dtypes import F32
from anyshape.equations import Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import reduce_
from anyshape.lower import describe, host_target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

SIZES = [
    {B: b, N: n, M: m, K: k}
    for b, n, m, k in ((2, 5, 7, 3), (1, 1, 40, 8), (2, 4, 33, 70), (3, 20, 130, 20), (2, 9, 1, 5), (1, 0, 3, 2), (2, 3, 4, 0))
]  # fmt: skip
Scale = Callable[[Builder], Callable[[Any, Any, Any], Any]]


def of_all(b: Builder) -> Callable[..., Any]:
    s = b.input([])
    return lambda n, j, r: s[()]


def of_batches(b: Builder) -> Callable[..., Any]:
    s = b.input([B])
    return lambda n, j, r: s[n]


def of_columns(b: Builder) -> Callable[..., Any]:
    s = b.input([B, M])
    return lambda n, j, r: s[n, j]


def along_sums(b: Builder) -> Callable[..., Any]:
    s = b.input([K])
    return lambda n, j, r: s[r]


def of_elements(b: Builder) -> Callable[..., Any]:
    s = b.input([M, K])
    return lambda n, j, r: s[j, r]


SCALES: dict[str, tuple[Scale, str]] = {
    "all": (of_all, "sum"),
    "batches": (of_batches, "sum"),
    "columns": (of_columns, "sum"),
    "along sums": (along_sums, "rows"),
    "elements": (of_elements, "before"),
}


SCHEDULES = {"sum": ("product",), "rows": ("blocked", "rows", "product")}


def reads_numbers(b: Builder) -> bool:
    """Whether the second factor of the product is the second input, in memory."""
    return re.search(r"r\d+ = \w+\[[^\]]*\] \* x1\[", describe(b.group())) is not None


def product(b: Builder, scale: Scale, stored: str, along_k: bool) -> Tensor:
    """Rows times narrow numbers with a scale."""
    x = b.input([B, N, K])
    codes = b.input([B, M, K] if along_k else [B, K, M], stored)
    of = scale(b)
    y = b.tensor([B, N, M])
    n, i, j = b.eqs.indices("i", y.shape)

    def term(r: Any) -> Any:
        code = codes[n, j, r] if along_k else codes[n, r, j]
        return x[n, i, r] * (cast(code, F32) * of(n, j, r))

    b.eqs.define(y[n, i, j], reduce_("sum", [K], term))
    return y


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("stored", ["i8", "f16", "bf16"])
@pytest.mark.parametrize("name", SCALES)
def test_a_product(name: str, stored: str, along_k: bool) -> None:
    scale, where = SCALES[name]
    b = Builder("scaled")
    b.output(product(b, scale, stored, along_k))
    native = check(b.group(), SIZES, tolerance=1e-4, parts=(1, 3))
    assert native.kernel.schedule == SCHEDULES.get(where, native.kernel.schedule)
    assert reads_numbers(b) == (where != "before")


@pytest.mark.parametrize("level", ["avx2", "sse"])
@pytest.mark.parametrize("name", SCALES)
def test_other_processors(name: str, level: str) -> None:
    b = Builder("scaled")
    b.output(product(b, SCALES[name][0], "i8", True))
    check(b.group(), SIZES, tolerance=1e-4, target=host_target().limited(level))


@pytest.mark.parametrize("name", SCALES)
def test_scores_and_their_softmax(name: str) -> None:
    scale, where = SCALES[name]
    b = Builder("scores")
    b.output(b.softmax(b.map(lambda v: v * 0.3, product(b, scale, "i8", True))))
    native = check(b.group(), SIZES, tolerance=1e-3)
    assert native.kernel.schedule[0] == "blocked"
    assert native.kernel.schedule[-2:] == ("product", "rows")
    assert len(native.kernel.schedule) == (3 if where == "sum" else 4)


def test_two_scales() -> None:
    """Both are taken out, one after the other."""
    b = Builder("scaled")
    x, codes, s, t = b.input([N, K]), b.input([K, M], "i8"), b.input([K]), b.input([])
    y = b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [K], lambda r: x[i, r] * (cast(codes[r, j], F32) * s[r])) * t[()])
    b.output(y)
    check(b.group(), SIZES, tolerance=1e-4)
    assert reads_numbers(b)
