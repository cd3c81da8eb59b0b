"""Compaction, sorting and updates: native code against the interpreter, over dtypes, sizes, parts and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import parse_dtype
from anyshape.equations import Equations, Tensor
from anyshape.equations.functions import item, ne, wrap
from anyshape.equations.interpret import interpret
from anyshape.lower import Group, describe, host_target, lower_group
from anyshape.lower.emit.sequences.sort import SHORT
from anyshape.vm.compiling.kernels import THREADS, parts_worth
from tests.lower.native import Native

N, M, K = (dims.symbol(name) for name in ("n", "m", "k"))
RNG = np.random.default_rng(3)


def tensor(name: str, dtype: str, *shape: Any) -> Tensor:
    return Tensor(name, parse_dtype(dtype), shape)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"])
def test_sort(dtype: str, descending: bool) -> None:
    x, y, eqs = tensor("x", dtype, M, N), tensor("y", "i64", M, N), Equations("sort", {}, {})
    a = eqs.index("a", M)
    eqs.argsort(y[a, :], [N], lambda j: x[a, j], descending=descending)
    kernel = Native(Group("sort", tuple(eqs.equations), (x,), outputs=(y,)))
    counted = SHORT * host_target().lanes(8) * x.dtype.numpy.itemsize  # rows up to this length are sorted by counting
    around = [(2, n) for n in (7, 8, 9, 17, counted - 1, counted, counted + 1)]
    for shape in ((3, 5), (2, 0), (0, 4), (1, 40), (2, 41), *around, (3, 600), (4, 1)):
        values = (RNG.integers(-60, 60, shape) / 4).astype(x.dtype.numpy)
        if x.dtype.is_float and values.size > 3:
            values.flat[[1, 2]] = np.nan, -0.0
        sizes = {M: shape[0], N: shape[1]}
        expected = interpret(eqs.equations, {x: values}, sizes)[y]
        for parts in (1, 3):
            status, (got,) = kernel.run({x: values}, sizes, parts)
            assert status == 0
            np.testing.assert_array_equal(got, expected)


def test_rows_that_are_sorted_are_worth_parts_and_a_single_row_is_not() -> None:
    x, y, eqs = tensor("x", "f32", M, N), tensor("y", "i64", M, N), Equations("sort", {}, {})
    a = eqs.index("a", M)
    eqs.argsort(y[a, :], [N], lambda j: x[a, j])
    kernel = lower_group(Group("sort", tuple(eqs.equations), (x,), outputs=(y,)), host_target())
    assert dims.evaluate(parts_worth(kernel.work, kernel.pieces), {M: 100, N: 80, THREADS: 4}) == 4
    assert dims.evaluate(parts_worth(kernel.work, kernel.pieces), {M: 1, N: 80_000, THREADS: 4}) == 1
    assert dims.evaluate(parts_worth(kernel.work, kernel.pieces), {M: 4, N: 80, THREADS: 4}) == 1


def positions() -> tuple[Equations, Tensor, Tensor]:
    x, y, eqs = tensor("x", "f32", N, M), tensor("y", "i64", 2, K), Equations("positions", {}, {})
    r = eqs.index("r", 2)
    eqs.compact(y[r, :], [N, M], lambda *i: item(i, r), where=lambda *i: ne(x[i], 0))
    return eqs, x, y


def test_compaction_in_one_pass() -> None:
    eqs, x, y = positions()
    group = Group("positions", tuple(eqs.equations), (x,), outputs=(y,))
    kernel = Native(group)
    for shape in ((3, 4), (0, 3), (5, 1), (20, 30)):
        values = RNG.integers(0, 2, shape).astype(np.float32)
        places = np.stack(np.nonzero(values))
        status, (got,) = kernel.run({x: values}, {N: shape[0], M: shape[1], K: places.shape[1]}, 2)
        assert status == 0
        np.testing.assert_array_equal(got, places)
    assert describe(group).startswith("compaction ") and "if (x[" in describe(group)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "bool"])
@pytest.mark.parametrize("transposed", [False, True])
def test_kept_rows_are_copied_by_vectors(transposed: bool, dtype: str, level: str) -> None:
    """Rows that lie side by side where they are read and stored; columns of a matrix element by element."""
    x, kept, y = (
        tensor("x", dtype, *(M, N) if transposed else (N, M)),
        tensor("kept", "bool", N),
        tensor("y", dtype, K, M),
    )
    eqs = Equations("rows", {}, {})
    b = eqs.index("b", M)
    eqs.compact(y[:, b], [N], lambda i: x[b, i] if transposed else x[i, b], where=lambda i: kept[i])
    native = Native(Group("rows", tuple(eqs.equations), (x, kept), outputs=(y,)), host_target().limited(level))
    assert ("load <" in native.kernel.text or "masked.load" in native.kernel.text) != transposed
    for n, m in ((0, 3), (4, 0), (7, 1), (9, 16), (20, 67), (3, 300)):
        values = RNG.integers(0, 2, (m, n) if transposed else (n, m)).astype(x.dtype.numpy)
        which = RNG.integers(0, 2, n).astype(bool)
        status, (got,) = native.run({x: values, kept: which}, {N: n, M: m, K: int(which.sum())}, 2)
        assert status == 0
        np.testing.assert_array_equal(got, (values.T if transposed else values)[which])


def test_a_wrong_size_never_writes_outside() -> None:
    """Canaries around the output are checked by the harness."""
    eqs, x, y = positions()
    kernel = Native(Group("positions", tuple(eqs.equations), (x,), outputs=(y,)))
    status, (got,) = kernel.run({x: np.ones((3, 4), np.float32)}, {N: 3, M: 4, K: 5})
    assert status == 0
    np.testing.assert_array_equal(got, [[0, 0, 0, 0, 1], [0, 1, 2, 3, 0]])


@pytest.mark.parametrize("op", ["set", "add", "sub", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "i64", "f16"])
def test_updates_in_order(op: str, dtype: str) -> None:
    x, u, y = tensor("x", dtype, N), tensor("u", dtype, M), tensor("y", dtype, N)
    at, eqs = tensor("at", "i64", M), Equations("scatter", {}, {})
    i, j = eqs.index("i", N), eqs.index("j", M)
    eqs.define(y[i], x[i])
    eqs.update(y[wrap(at[j], N)], op, u[j])
    kernel = Native(Group("scatter", tuple(eqs.equations), (x, at, u), outputs=(y,)))
    arrays = {x: RNG.integers(-3, 4, 9), at: RNG.integers(-9, 9, 12), u: RNG.integers(-3, 4, 12)}
    arrays = {t: a.astype(t.dtype.numpy) for t, a in arrays.items()}
    expected = interpret(eqs.equations, arrays, {N: 9, M: 12})[y]
    status, (got,) = kernel.run(arrays, {N: 9, M: 12}, 2)
    assert status == 0
    np.testing.assert_array_equal(got, expected)
    arrays[at][5] = 9
    status, _ = kernel.run(arrays, {N: 9, M: 12})
    assert "out of range for axis 0 of y" in kernel.refusal
