"""Contractions of one operand are one kernel, whoever wrote them, unless one needs another, or what they share are weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.kernel_model.left_operand import MOST_BESIDE
from anyshape.passes.fuse import fuse
from anyshape.passes.steps import KernelStep
from anyshape.vm import compile

RNG = np.random.default_rng(5)


def kernels(f: Any) -> list[list[str]]:
    """The ops of each kernel."""
    return [[n.op.name for n in s.nodes] for s in fuse(f).steps if isinstance(s, KernelStep)]


def products(f: Any) -> list[int]:
    """How many products each kernel with any has."""
    return [n for names in kernels(f) if (n := names.count("matmul") + names.count("gemm"))]


def tokens(dtype: str = "f32") -> Any:
    return anyshape.input("x", f"{dtype}[b, s, 48]")


def weights(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def dense(x: Any, columns: int) -> Any:
    return ops.add(ops.matmul(x, weights(48, columns)), weights(columns))


def agree(f: Any, *shapes: tuple[int, ...], dtype: Any = np.float32, tolerance: float = 1e-4) -> None:
    """Native code equals the interpreter, and itself on any number of threads to the bit."""
    executables = [compile(f, threads=n) for n in (1, 2, 4)]
    slow = compile(f, kernels="interpret", fuse=False)
    for shape in shapes:
        x = RNG.normal(size=shape).astype(dtype)
        results = [[np.asarray(y) for y in exe.run({"x": x})] for exe in executables]
        for k, want in enumerate(slow.run({"x": x})):
            np.testing.assert_allclose(results[0][k], want, rtol=tolerance, atol=tolerance)
            assert len({r[k].tobytes() for r in results}) == 1


def test_queries_keys_and_values() -> None:
    """Products have different widths, each an epilogue of its own, and one has its heads moved."""
    x = tokens()
    heads = ops.transpose(ops.reshape(dense(x, 64), [0, 0, 4, 16]), axes=[0, 2, 1, 3])
    f = anyshape.function([x], {"q": heads, "k": ops.relu(dense(x, 33)), "v": dense(x, 40)})
    assert products(f) == [3]
    agree(f, (1, 1, 48), (2, 3, 48), (3, 50, 48), (2, 0, 48))


def test_a_factor_that_is_no_constant() -> None:
    x, w = tokens(), anyshape.input("w", "f32[48, n]")
    f = anyshape.function([x, w], {"a": ops.matmul(x, w), "b": ops.matmul(x, weights(48, 20))})
    assert products(f) == [2]
    arrays = {"x": weights(2, 9, 48), "w": weights(48, 70)}
    got, want = compile(f, threads=2).run(arrays), compile(f, kernels="interpret", fuse=False).run(arrays)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_short_floats() -> None:
    x = tokens("f16")
    f = anyshape.function([x], {n: ops.matmul(x, weights(48, 40, dtype=np.float16)) for n in "abc"})
    assert products(f) == [3]
    agree(f, (1, 1, 48), (2, 20, 48), dtype=np.float16, tolerance=2e-2)


def test_at_most_so_many() -> None:
    x = tokens()
    f = anyshape.function([x], {f"y{k}": dense(x, 24) for k in range(MOST_BESIDE + 2)})
    assert sorted(products(f)) == [2, MOST_BESIDE]


def test_what_needs_the_other_stays_behind_it() -> None:
    """The second's epilogue reads what rows made of the first; the third may join either."""
    x = tokens()
    first = dense(x, 40)
    second = ops.add(dense(x, 40), ops.softmax(first, axis=-1))
    f = anyshape.function([x], {"first": first, "second": second, "third": dense(x, 8)})
    assert sorted(products(f)) == [1, 2]
    agree(f, (2, 5, 48))


def test_no_circle_through_others() -> None:
    """Each of two operands has a product that needs one of the other operand: only one of the two pairs can be one kernel."""
    x, y = anyshape.input("x", "f32[n, 8]"), anyshape.input("y", "f32[n, 8]")
    a = ops.matmul(x, weights(8, 12))
    b = ops.matmul(y, weights(8, 12))
    soft = [ops.softmax(t, axis=-1) for t in (a, b)]
    c = ops.add(ops.matmul(y, weights(8, 12)), soft[0])
    d = ops.add(ops.matmul(x, weights(8, 12)), soft[1])
    f = anyshape.function([x, y], {"c": c, "d": d})
    assert sorted(products(f)) == [1, 1, 2]
    arrays = {"x": weights(5, 8), "y": weights(5, 8)}
    got, want = compile(f).run(arrays), compile(f, kernels="interpret", fuse=False).run(arrays)
    for p, q in zip(got, want, strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("other", ["transposed", "of other rows", "constant"])
def test_what_is_not_read_alike_stays_apart(other: str) -> None:
    x = anyshape.input("x", "f32[8, 8]")
    y, w = anyshape.input("y", "f32[8, n]"), weights(8, 8)
    pairs = {
        "transposed": [ops.matmul(x, y), ops.matmul(ops.transpose(x, axes=[1, 0]), y)],
        "of other rows": [ops.matmul(x, y), ops.matmul(ops.slice(x, starts=[0], ends=[4], axes=[0], steps=[1]), y)],
        "constant": [ops.matmul(w, x), ops.matmul(w, y)],
    }
    first, second = pairs[other]
    f = anyshape.function([x, y], {"first": first, "second": second})
    assert products(f) == [1, 1]
