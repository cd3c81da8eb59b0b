"""Phases by blocks of rows: native code equals the interpreter, in any number of parts, and holds a block at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F32, F64, I64
from anyshape.equations import Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import exp, gt, reduce_, where
from anyshape.lower import describe, host_target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

SIZES = [
    {B: b, N: n, M: m, K: k}
    for b, n, m, k in (
        (2, 5, 7, 3), (1, 1, 40, 8), (3, 200, 130, 20), (2, 90, 1, 5), (1, 0, 3, 2), (2, 3, 4, 0), (0, 3, 4, 2), (1, 97, 300, 1),
    )
]  # fmt: skip
BLOCKED = ("blocked", "product", "rows", "product")


def heads(b: Builder, groups: int, shared: int, causal: bool, dtype: Any = F32) -> tuple[Tensor, ...]:
    """Attention with heads beside each other in rows, `shared` heads of queries to one of keys, masked by a tensor and by position."""
    h = groups * shared
    q, k, v = b.input([B, N, h, K], dtype), b.input([B, M, groups, K], dtype), b.input([B, M, groups, 9], dtype)
    mask = b.input([B, 1, M], "bool")
    shape = [B, groups, shared, N, M]
    s = b.tensor(shape, dtype)
    n, g, c, i, j = b.eqs.indices("i", shape)
    b.eqs.define(s[n, g, c, i, j], reduce_("sum", [K], lambda r: q[n, i, g * shared + c, r] * k[n, j, g, r]))
    biased = b.tensor(shape, dtype)
    n, g, c, i, j = b.eqs.indices("i", shape)
    value = where(mask[n, 0, j], s[n, g, c, i, j] * 0.3, -1e9)
    b.eqs.define(biased[n, g, c, i, j], where(gt(j, i + M - N), -1e9, value) if causal else value)
    p = b.softmax(biased)
    y = b.tensor([B, N, groups, shared, 9], dtype)
    n, i, g, c, o = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, g, c, o], reduce_("sum", [M], lambda r: p[n, g, c, i, r] * v[n, r, g, o]))
    return q, k, v, mask, b.output(y)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("groups", "shared"), [(3, 1), (2, 2), (1, 3)])
def test_heads(groups: int, shared: int, causal: bool) -> None:
    b = Builder("heads")
    heads(b, groups, shared, causal)
    native = check(b.group(), SIZES, tolerance=1e-4, parts=(1, 2, 5))
    assert native.kernel.schedule == BLOCKED


@pytest.mark.parametrize("level", ["avx2", "sse"])
def test_other_processors(level: str) -> None:
    b = Builder("heads")
    heads(b, 2, 2, True)
    check(b.group(), SIZES, tolerance=1e-4, target=host_target().limited(level))


def test_double_precision() -> None:
    b = Builder("heads")
    heads(b, 2, 1, True, F64)
    check(b.group(), SIZES, tolerance=1e-9)


def test_nan_and_infinities() -> None:
    b = Builder("attention")
    q, k, v = b.input([B, N, K]), b.input([B, M, K]), b.input([B, M, K])
    b.output(b.matmul(b.softmax(b.matmul(q, k, tb=True)), v))
    check(b.group(), SIZES, tolerance=1e-3, special=True)


def test_division_after_the_second_product() -> None:
    """What the second product and another sum both need is computed once, and read from scratch."""
    b = Builder("late")
    q, k, v = b.input([B, N, K]), b.input([B, M, K]), b.input([B, M, K])
    s = b.matmul(q, k, tb=True)
    peak = b.reduce("max", s, (2,))
    e = b.tensor(s.shape)
    n, i, j = b.eqs.indices("i", e.shape)
    b.eqs.define(e[n, i, j], exp(s[n, i, j] - peak[n, i]))
    total = b.reduce("sum", e, (2,), keepdims=True)
    b.output(b.map(lambda x, t: x / t, b.matmul(e, v), total))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == (*BLOCKED, "rows")
    assert describe(b.group()).count("exp(") == 1


@pytest.mark.parametrize(("stored", "converted"), [("i32", ("transposed",)), ("f16", ())])
def test_converted_keys_are_held_for_a_batch(stored: str, converted: tuple[str, ...]) -> None:
    """What has no rows is computed ahead of the blocks that need it; products read short floats themselves."""
    b = Builder("converted")
    q, k, v = b.input([B, N, K]), b.input([B, M, K], stored), b.input([B, M, K])
    wide = b.map(lambda x: cast(x, F32), k, dtype="f32")
    b.output(b.matmul(b.softmax(b.matmul(q, wide, tb=True)), v))
    native = check(b.group(), SIZES, tolerance=2e-3)
    assert native.kernel.schedule == ("blocked", *converted, "product", "rows", "product")


def test_two_products_in_a_row() -> None:
    b = Builder("feed_forward")
    y = b.gelu(b.matmul(b.input([N, K]), b.input([K, M])))
    b.output(b.matmul(y, b.input([M, 33])))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule[0] == "blocked"


def test_constant_weights_then_norm() -> None:
    b = Builder("projected")
    w = b.input([20, 45])
    y = b.map(lambda p, q: p + q, b.matmul(b.input([N, 20]), w), b.input([N, 45]))
    b.output(b.layer_norm(y, b.input([45]), b.input([45])))
    array = np.random.default_rng(1).normal(size=w.shape).astype(np.float32)
    from dataclasses import replace

    group = replace(b.group(), constants={w: array})
    native = check(group, SIZES, tolerance=3e-4, fixed={w: array}, parts=(1, 2, 7))
    assert native.kernel.schedule == ("blocked", "product", "rows")


def test_a_sum_over_the_rows_takes_no_blocks() -> None:
    """Columns are reduced: no block of rows has all it needs."""
    b = Builder("columns")
    s = b.matmul(b.input([N, K]), b.input([K, M]))
    b.output(b.softmax(s, 0))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("product", "rows")


def test_integers() -> None:
    b = Builder("whole")
    s = b.matmul(b.input([N, K], I64), b.input([K, M], I64))
    peak = b.reduce("max", s, (1,), keepdims=True)
    b.output(b.matmul(b.map(lambda x, p: x - p, s, peak), b.input([M, 6], I64)))
    check(b.group(), SIZES)


def test_scratch_is_that_of_a_block() -> None:
    """All scores of 4096 queries would be 64 MB."""
    b = Builder("attention")
    q, k, v = b.input([B, N, 64]), b.input([B, M, 64]), b.input([B, M, 64])
    b.output(b.matmul(b.softmax(b.matmul(q, k, tb=True)), v))
    native = check(b.group(), [{B: 1, N: 3, M: 4}])
    least = host_target().l2_bytes
    assert dims.evaluate(native.kernel.scratch, {B: 8, N: 4096, M: 4096}) < 6 * least + 4096 * 64 * 4
