"""Kernels divide by sizes, blocks and numbers of parts: none of them is 0 at the smallest sizes, in more parts than there is work for.

A division by 0 ends the process (SIGFPE), so that each case that comes to its end has divided by none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from anyshape.dtypes import F16, F32
from anyshape.equations.expr import cast
from anyshape.equations.functions import reduce_
from anyshape.lower import Group, host_target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

SIZES = [dict(zip((B, N, M, K), sizes)) for sizes in product((0, 1, 2), (0, 1, 3), (0, 1, 5), (0, 1, 2))]
PARTS = (1, 2, 5)


def products(dtype: str) -> Group:
    """Makes products of batches, each with an epilogue."""
    b = Builder("products")
    b.output(b.map(lambda p: p + 1.0, b.matmul(b.input([B, N, K], dtype), b.input([B, K, M], dtype))))
    return b.group()


def narrow() -> Group:
    """B is widened as it is packed, or once for several tiles."""
    b = Builder("narrow")
    x, w = b.input([B, N, K], F16), b.input([K, M], F16)
    y = b.output(b.tensor([B, N, M], F32))
    i, j, k = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j, k], reduce_("sum", [K], lambda r: cast(x[i, j, r], F32) * cast(w[r, k], F32)))
    return b.group()


def attention() -> Group:
    """Blocks of rows: two products, and softmax between them."""
    b = Builder("attention")
    q, k, v = b.input([B, N, K]), b.input([B, M, K]), b.input([B, M, K])
    b.output(b.matmul(b.softmax(b.matmul(q, k, tb=True)), v))
    return b.group()


def rows() -> Group:
    b = Builder("rows")
    b.output(b.softmax(b.input([B, N, M])))
    return b.group()


@pytest.mark.parametrize("level", ["avx512", "sse"])
@pytest.mark.parametrize("form", [lambda: products("f32"), lambda: products("f64"), narrow, attention, rows])
def test_nothing_is_divided_by_zero(form: Callable[[], Group], level: str) -> None:
    check(form(), SIZES, tolerance=1e-3, target=host_target().limited(level), parts=PARTS)
