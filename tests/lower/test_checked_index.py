"""Indices that are tested when a kernel runs: data in fused kernels, and reads that nothing proved."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import Size
from anyshape.equations.functions import checked, clamp, exp, lt, where
from anyshape.equations.interpret import interpret
from anyshape.errors import ShapeError
from tests.lower.groups import Builder, M, N
from tests.lower.native import Native


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize("name", ["relu", "chain", "positions", "rows"])
def test_an_index_into_a_computed_tensor_is_checked(loop: str, name: str) -> None:
    """The tensor is inlined into the kernel that gathers: what it is computed from must not be read beyond its end."""
    x, i = anyshape.input("x", "f32[n]"), anyshape.input("i", "i64[m]")
    tensors = {
        "relu": lambda: ops.relu(x),
        "chain": lambda: ops.exp(ops.relu(x)),
        "positions": lambda: ops.relu(ops.arange(0, 3)),
        "rows": lambda: ops.reshape(ops.relu(x), (3, 1)),
    }
    exe = anyshape.compile(anyshape.function([x, i], ops.gather(tensors[name](), i)), loop=loop)
    exe(np.zeros(3, np.float32), np.array([0, 2, -3]))
    for index in ([3], [0, 1, -4], [2, 1 << 40]):
        with pytest.raises(ShapeError, match="out of range for axis 0"):
            exe(np.zeros(3, np.float32), np.array(index))


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize("index", ["range", "range of negatives", "sizes", "range that may be broadcast"])
def test_an_index_that_is_computed_of_sizes_is_checked(loop: str, index: str) -> None:
    """What the op reads as data is a position, or a size, once what computes it is inlined: it has no load, and no proof covers it."""
    x, y = anyshape.input("x", "i64[n]"), anyshape.input("y", "i64[m]")
    table = np.arange(96 * 4, dtype=np.float32).reshape(96, 4)
    n = x.shape[0]
    at = {
        "range": lambda: ops.arange(0, n),
        "range of negatives": lambda: ops.arange(-n, 0),
        "sizes": lambda: ops.shape_of(x),
        "range that may be broadcast": lambda: ops.arange(0, n) + ops.zeros(ops.shape_of(y), dtype="i64"),
    }[index]()
    exe = anyshape.compile(anyshape.function([x, y], ops.gather(table, at)), loop=loop)
    for size in (0, 1, 7, 64, 95):
        rows = np.zeros(size, np.int64)
        expected = {"range of negatives": table[96 - size :], "sizes": table[[size]]}.get(index, table[:size])
        np.testing.assert_array_equal(exe(rows, rows), expected)
    for size in (97, 1000, 100_000):
        with pytest.raises(ShapeError, match="out of range for axis 0 of x with size 96"):
            exe(np.zeros(size, np.int64), np.zeros(size, np.int64))


@pytest.mark.parametrize("by", [0, 1, -1])
@pytest.mark.parametrize("between", [False, True])
def test_a_read_that_nothing_proved_is_checked(by: int, between: bool) -> None:
    """A read is checked in both executors, also where the tensor is computed in the same kernel, and only where a condition asks for it."""
    b = Builder("shifted")
    x, y, z = b.input([N, M]), b.tensor([N, M]), b.tensor([N, M])
    source = x
    if between:
        source = b.tensor([N, M])
        i, j = b.eqs.indices("i", source.shape)
        b.eqs.define(source[i, j], exp(x[i, j]))
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], checked(source)[i + by, j])
    i, j = b.eqs.indices("i", z.shape)
    b.eqs.define(z[i, j], where(lt(i + abs(by), N), checked(source)[i + abs(by), j], 0.0))
    b.output(z)
    guarded = Native(b.group())
    b.output(y)
    native = Native(b.group())
    for n, m in ((0, 3), (1, 1), (7, 2), (40, 33), (5, 0)):
        array = np.arange(n * m, dtype=np.float32).reshape(n, m)
        sizes = {N: n, M: m}
        assert guarded.run({x: array}, sizes)[0] == 0
        status, _ = native.run({x: array}, sizes)
        if by == 0 or n == 0 or m == 0:
            assert status == 0
            continue
        assert "is out of range for axis 0" in native.refusal
        with pytest.raises(ShapeError, match="out of range for axis 0"):
            interpret(b.group().equations, {x: array}, sizes)


@pytest.mark.parametrize("shape", [[0], [N], [3, 0], [3, N], [N, 3]])
def test_an_element_that_all_results_share_is_looked_up_only_if_there_are_some(shape: list[Size]) -> None:
    """An element that is the same in all iterations is looked up ahead of the loops."""
    b = Builder("shared")
    x, at, y = b.input([M]), b.input([1], "i64"), b.tensor(shape)
    v = b.eqs.indices("i", y.shape)
    b.eqs.define(y[v], 2 * x[clamp(at[0], 0, M - 1)])
    b.output(y)
    native = Native(b.group())
    for n, m in ((0, 0), (0, 3), (5, 0), (40, 3)):
        status, _ = native.run({x: np.ones(m, np.float32), at: np.zeros(1, np.int64)}, {N: n, M: m})
        assert (status != 0) == (m == 0 and n > 0 and 0 not in shape)


@pytest.mark.parametrize("loop", ["native", "python"])
def test_a_demand_tells_numbers_of_sizes_that_nothing_else_needs(loop: str) -> None:
    """The kernel reads `n + 1` nowhere but in its message."""
    c, o = anyshape.input("c", "f32[n, m]"), anyshape.input("o", "i64[v]")
    exe = anyshape.compile(anyshape.function([c, o], ops.pair_weights(c, o)), loop=loop)
    for n in (1, 4):
        with pytest.raises(ShapeError, match=f"^pair_weights: a support is not of one of {n + 1} classes"):
            exe(np.zeros((n, 2), np.float32), np.array([0, n + 1]))
