"""Rows of two variables: the longer one is inside, whichever it is; where both are one loop, or there is only one, nothing changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import gt, reduce_, where
from anyshape.lower import describe
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

R = dims.symbol("r")
SIZES = [
    {B: b, N: n, M: m, K: k, R: r}
    for b, n, m, k, r in (
        (2, 1, 40, 8, 4), (1, 3, 17, 20, 12), (2, 5, 7, 3, 4), (1, 90, 33, 5, 2), (1, 1, 1, 1, 1), (2, 0, 4, 2, 3), (2, 3, 4, 2, 0),
        (1, 4, 0, 2, 6), (1, 200, 130, 9, 16), (1, 2, 130, 9, 200), (0, 1, 4, 2, 3),
    )
]  # fmt: skip


def scores(b: Builder, shared: Size, queries: Size = N) -> tuple[Tensor, Tensor, Tensor]:
    """Products of queries, [b, r, n, k], with keys that the r heads share."""
    q, k = b.input([B, shared, queries, K]), b.input([B, M, K])
    s = b.tensor([B, shared, queries, M])
    n, c, i, j = b.eqs.indices("i", s.shape)
    b.eqs.define(s[n, c, i, j], reduce_("sum", [K], lambda l: q[n, c, i, l] * k[n, j, l]))  # noqa: E741
    return q, k, s


def attention(b: Builder, shared: Size, queries: Size = N, causal: bool = False) -> Tensor:
    """Attention with a bias for each query and key, which all heads share."""
    s = scores(b, shared, queries)[2]
    bias = b.input([queries, M])
    biased = b.tensor(s.shape)
    n, c, i, j = b.eqs.indices("i", s.shape)
    value = s[n, c, i, j] * 0.3 + bias[i, j]
    b.eqs.define(biased[n, c, i, j], where(gt(j, i + M - N), -1e9, value) if causal else value)
    p, v = b.softmax(biased), b.input([B, M, 9])
    y = b.tensor([B, queries, shared, 9])
    n, i, c, o = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, c, o], reduce_("sum", [M], lambda j: p[n, c, i, j] * v[n, j, o]))
    return b.output(y)


def rows(text: str) -> Sequence[str]:
    """The rows of each block of a schedule."""
    return re.findall(r"block of \S+ rows from \S+ in (.*):", text)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_or_queries(causal: bool) -> None:
    b = Builder("attention")
    attention(b, R, causal=causal)
    native = check(b.group(), SIZES, tolerance=1e-4, parts=(1, 2, 5))
    assert native.kernel.schedule[0] == "blocked"
    assert rows(describe(b.group())) == ["select(n >= r + 1, n, r)"]


def test_nan_and_infinities() -> None:
    b = Builder("attention")
    attention(b, R)
    check(b.group(), SIZES, tolerance=1e-3, special=True)


@pytest.mark.parametrize(
    ("shared", "queries", "expected"),
    [
        (4, N, "select(n >= 5, n, 4)"),
        (R, 3, "select(r >= 3, r, 3)"),
        (4, 2, "4"),
        (2, 4, "4"),
        (1, N, "n"),
        (R, 1, "r"),
    ],
)
def test_numbers(shared: Size, queries: Size, expected: str) -> None:
    """What is known to be longer is the rows, and of one head or query the other."""
    b = Builder("attention")
    attention(b, shared, queries)
    check(b.group(), SIZES, tolerance=1e-4)
    assert rows(describe(b.group())) == [expected]


def test_one_loop_of_both_stays() -> None:
    """Heads and queries are one loop if nothing tells them apart."""
    b = Builder("attention")
    b.output(b.softmax(scores(b, R)[2]))
    check(b.group(), SIZES, tolerance=1e-4)
    assert rows(describe(b.group())) == ["n*r"]


def test_a_product_alone() -> None:
    """Each head has another place in the results, so that the loops do not merge."""
    b = Builder("scores")
    s = scores(b, R)[2]
    y = b.tensor([B, N, R, M])
    n, i, c, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, c, j], s[n, c, i, j])
    b.output(y)
    check(b.group(), SIZES, tolerance=1e-4, parts=(1, 3))
    assert "rows i5 in select(" in re.sub(r"rows i\d+", "rows i5", describe(b.group()))


def test_rows_that_the_other_factor_has_too_stay() -> None:
    """Each head has keys of its own."""
    b = Builder("attention")
    q, k = b.input([B, N, R, K]), b.input([B, M, R, K])
    s = b.tensor([B, R, N, M])
    n, c, i, j = b.eqs.indices("i", s.shape)
    b.eqs.define(s[n, c, i, j], reduce_("sum", [K], lambda l: q[n, i, c, l] * k[n, j, c, l]))  # noqa: E741
    b.output(b.softmax(s))
    check(b.group(), SIZES, tolerance=1e-4)
    assert rows(describe(b.group())) == ["n"]


def test_columns_stay() -> None:
    """A product whose second factor has two variables of its own, in one of which the results lie."""
    b = Builder("columns")
    x, w = b.input([N, K]), b.input([K, M, R])
    y = b.tensor([M, N, R])
    j, i, c = b.eqs.indices("i", y.shape)
    b.eqs.define(y[j, i, c], reduce_("sum", [K], lambda l: x[i, l] * w[l, j, c]))  # noqa: E741
    b.output(y)
    check(b.group(), SIZES, tolerance=1e-4)
    assert "select" not in describe(b.group())


def test_products_with_a_constant_stay() -> None:
    b = Builder("weights")
    q, w = b.input([N, B, 20]), b.input([20, 33])
    y = b.tensor([B, N, 33])
    n, i, o = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, o], reduce_("sum", [20], lambda l: q[i, n, l] * w[l, o]))  # noqa: E741
    b.output(y)
    assert "select" in describe(b.group())
    array = np.random.default_rng(1).normal(size=w.shape).astype(np.float32)
    group = replace(b.group(), constants={w: array})
    check(group, SIZES, tolerance=1e-4, fixed={w: array})
    assert "select" not in describe(group)


def test_narrow_keys() -> None:
    """Keys of i8 are read as they are by either."""
    b = Builder("narrow")
    q, k = b.input([B, R, N, K]), b.input([B, M, K], "i8")
    wide = b.map(lambda x: cast(x, q.dtype), k, dtype="f32")
    s = b.tensor([B, N, R, M])
    n, i, c, j = b.eqs.indices("i", s.shape)
    b.eqs.define(s[n, i, c, j], reduce_("sum", [K], lambda l: q[n, c, i, l] * wide[n, j, l]))  # noqa: E741
    b.output(b.softmax(s))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("blocked", "product", "rows")
