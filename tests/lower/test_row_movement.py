"""Movement: transposes, slices, concatenations, pads and gathers give natively what the interpreter gives, whatever the shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import I64
from anyshape.equations.functions import (
    exp,
    lt,
    pad,
    where,
    wrap,
)  # fmt: skip
from anyshape.lower.target import host_target
from tests.lower.groups import ROW_SIZES as SIZES
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native, check


@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)])
def test_transposes(perm: tuple[int, ...]) -> None:
    b = Builder("transpose")
    x = b.input([K, N, M])
    y = b.tensor([x.shape[a] for a in perm])
    i = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i], x[tuple(i[perm.index(a)] for a in range(3))] * 2.0)
    b.output(y)
    check(b.group(), SIZES)


@pytest.mark.parametrize("kib", [1, 1024])
def test_short_rows_walk_the_operand(kib: int) -> None:
    """Rows are moved with a second cache that holds them, and with one that does not, so that the loops over rows are exchanged."""
    b = Builder("heads")
    x = b.input([B, N, K, M])
    y = b.tensor([B, K, N, M])
    i = b.eqs.indices("i", y.shape)
    b.eqs.define(y[tuple(i)], x[i[0], i[2], i[1], i[3]])
    b.output(y)
    sizes = [
        {B: p, N: n, K: k, M: m}
        for p, n, k, m in ((2, 9, 3, 20), (1, 40, 5, 64), (3, 4, 7, 33), (2, 0, 3, 16), (1, 17, 2, 3))
    ]
    check(b.group(), sizes, target=replace(host_target(), l2_bytes=kib << 10))


def test_transposed_operand_of_a_sum() -> None:
    b = Builder("addt")
    x, t, y = b.input([N, M]), b.input([M, N]), b.tensor([N, M])
    i, j = b.eqs.indices("i", [N, M])
    b.eqs.define(y[i, j], x[i, j] + t[j, i])
    b.output(y)
    check(b.group(), SIZES)


def test_slices_with_steps() -> None:
    b = Builder("slice")
    x = b.input([N, M])
    y = b.tensor([N, dims.ceil_div(M, 2)])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[N - 1 - i, M - 1 - 2 * j])
    b.output(y)
    check(b.group(), SIZES)


def test_concat_of_expressions() -> None:
    b = Builder("concat")
    x, z = b.input([N, M]), b.input([N, K])
    y = b.tensor([N, M + K])
    i, j = b.eqs.indices("i", x.shape)
    b.eqs.define(y[i, j], exp(x[i, j]))
    i, j = b.eqs.indices("i", z.shape)
    b.eqs.define(y[i, j + M], z[i, j] * 2.0)
    b.output(y)
    check(b.group(), SIZES)


def test_concat_read_by_a_reduction() -> None:
    """Several equations define an intermediate: it stays in memory, and stages are ordered."""
    b = Builder("concat_softmax")
    x, z = b.input([N, M]), b.input([N, K])
    y = b.tensor([N, M + K])
    for t, offset in ((x, 0), (z, M)):
        i, j = b.eqs.indices("i", t.shape)
        b.eqs.define(y[i, j + offset], t[i, j])
    b.output(b.softmax(y))
    check(b.group(), SIZES)


def test_split() -> None:
    b = Builder("split")
    x = b.input([N, M + K])
    for extent, offset in ((M, 0), (K, M)):
        y = b.tensor([N, extent])
        i, j = b.eqs.indices("i", y.shape)
        b.eqs.define(y[i, j], x[i, j + offset])
        b.output(y)
    check(b.group(), SIZES)


def test_pad() -> None:
    b = Builder("pad")
    x = b.input([N, M])
    y = b.tensor([N + 2, M + 5])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], pad(x, -1.5)[i - 1, j - 2])
    b.output(y)
    check(b.group(), SIZES)


def test_where_guards_its_reads() -> None:
    b = Builder("shift")
    x = b.input([N, M])
    y = b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], where(lt(j, 3), 0.0, x[i, j - 3]))
    b.output(y)
    check(b.group(), SIZES)


def _gather(wrapped: bool, axis0: bool = True) -> tuple[Builder, object, object]:
    b = Builder("gather")
    table, index = b.input([B + 5, M]), b.input([N], I64)
    y = b.tensor([N, M] if axis0 else [B + 5, N])
    i, j = b.eqs.indices("i", y.shape)
    picked = index[i if axis0 else j]
    at = wrap(picked, table.shape[0] if axis0 else table.shape[1]) if wrapped else picked
    b.eqs.define(y[i, j], table[at, j] if axis0 else table[i, at])
    b.output(y)
    return b, table, index


@pytest.mark.parametrize("axis0", [True, False])
def test_gather(axis0: bool) -> None:
    b, table, index = _gather(True, axis0)
    native = Native(b.group())
    rng = np.random.default_rng(3)
    for n, m in ((4, 33), (1, 1), (50, 16), (0, 3)):
        rows = 7
        limit = rows if axis0 else m
        arrays = {index: rng.integers(-limit, limit, n)}
        check(b.group(), [{N: n, M: m, B: 2}], fixed=arrays)
        if n:
            bad = arrays[index].copy()
            bad[-1] = limit
            x = {table: rng.normal(size=(rows, m)).astype(np.float32), index: bad}
            native.run(x, {N: n, M: m, B: 2})
            assert "out of range for axis" in native.refusal


def test_embedding_then_layer_norm() -> None:
    b = Builder("embed")
    table, index, position = b.input([7, M]), b.input([B, N], I64), b.input([N, M])
    y = b.tensor([B, N, M])
    i = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i], table[index[i[0], i[1]], i[2]] + position[i[1], i[2]])
    b.output(b.layer_norm(y, b.input([M]), b.input([M])))
    rng = np.random.default_rng(3)
    for n, m in ((4, 33), (1, 1), (20, 64)):
        check(b.group(), [{N: n, M: m, B: 2}], fixed={index: rng.integers(0, 7, (2, n))}, tolerance=1e-4)
