"""Constants that are folded from narrower ones: which of them contractions read as they were before, and that results are the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import F32
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.lower import host_target
from anyshape.passes.fuse import fuse
from anyshape.passes.narrow_factors import with_narrow_factors
from anyshape.passes.pipeline import optimise
from anyshape.passes.steps import KernelStep
from anyshape.vm.compiling import scheduling

K, N = 400, 500
RNG = np.random.default_rng(0)
CODES = RNG.integers(-127, 128, (K, N)).astype(np.int8)
SCALES = (RNG.random(N) + 0.5).astype(np.float32)


def scaled(
    scale: np.ndarray = SCALES, zero: np.ndarray | None = None, codes: np.ndarray = CODES, axis: int = 1
) -> Value:
    return ops.dequantize_linear(codes, scale, zero, axis=axis)


def transposed(weights: Value) -> Value:
    return ops.transpose(weights, (1, 0))


def columns(weights: Value) -> Value:
    """The first columns."""
    return ops.slice(weights, [0], [N], [1])


def product(weights: Value) -> Function:
    x = anyshape.input("x", f"f32[n, {K}]")
    return anyshape.function([x], ops.relu(ops.matmul(x, weights)))


def large_constants(f: Function) -> list[Value]:
    """The large constants that kernels read."""
    steps = [s for s in with_narrow_factors(fuse(optimise(f))).steps if isinstance(s, KernelStep)]
    return [v for s in steps for v in s.inputs if v.constant is not None and v.constant.size > 2 * N]


def constants(f: Function) -> set[str]:
    """The dtypes of the large constants of all kernels."""
    return {v.type.dtype.name for v in large_constants(f)}


NARROW: dict[str, tuple[str, Callable[[], Value]]] = {
    "a scale for each column": ("i8", scaled),
    "one scale": ("i8", lambda: scaled(np.float32(0.25))),
    "a scale for each step of the sum": ("i8", lambda: scaled(np.ones(K, np.float32), axis=0)),
    "zero points of zeros": ("i8", lambda: scaled(zero=np.zeros(N, np.int8))),
    "bytes alone": ("i8", lambda: ops.cast(CODES, to=F32)),
    "f16": ("f16", lambda: ops.cast(CODES.astype(np.float16), to=F32)),
    "transposed": ("i8", lambda: transposed(scaled(codes=CODES.T.copy(), axis=0))),
    "f16, transposed": ("f16", lambda: transposed(ops.cast(CODES.T.astype(np.float16), to=F32))),
    "some of the columns": ("i8", lambda: columns(scaled(np.tile(SCALES, 2), codes=np.tile(CODES, 2)))),
    "some of the columns, transposed": (
        "i8",
        lambda: columns(transposed(scaled(np.tile(SCALES, 2), codes=np.tile(CODES, 2).T.copy(), axis=0))),
    ),
}
WIDE: dict[str, Callable[[], Value]] = {
    "other zero points": lambda: scaled(zero=np.ones(N, np.int8)),
    "no sign": lambda: scaled(codes=CODES.view(np.uint8)),
    "a scale that is not finite": lambda: scaled(np.full(N, np.inf, np.float32)),
    "few bytes": lambda: scaled(SCALES[:100], codes=CODES[:, :100]),
    "few columns of many": lambda: columns(scaled(np.tile(SCALES, 5), codes=np.tile(CODES, 5))),
    "transposed, other zero points": lambda: transposed(scaled(zero=np.ones(N, np.int8), codes=CODES.T.copy(), axis=0)),
    "transposed and added to": lambda: ops.add(transposed(scaled(codes=CODES.T.copy(), axis=0)), np.float32(1)),
    "zeros around it": lambda: ops.pad(scaled(codes=CODES[1:]), pads=(1, 0, 0, 0)),
}


@pytest.mark.parametrize("name", NARROW)
def test_columns_stay_in_their_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype, weights = NARROW[name]
    f = product(weights())
    assert constants(f) == {dtype}
    narrow = anyshape.compile(f)
    assert narrow.report.kernels == 1
    monkeypatch.setattr(scheduling, "with_narrow", lambda schedule: schedule)
    wide = anyshape.compile(f)
    for rows in (1, 3, 9, 50):
        x = RNG.standard_normal((rows, K)).astype(np.float32)
        sizes = np.abs(x) @ np.abs(CODES.astype(np.float32)) * 2
        assert (np.abs(narrow(x) - wide(x)) <= 2.0**-20 * sizes).all()


@pytest.mark.parametrize("name", WIDE)
def test_others_are_folded(name: str) -> None:
    assert constants(product(WIDE[name]())) <= {"f32"}


def test_what_is_no_column_of_a_product_is_folded() -> None:
    x = anyshape.input("x", f"f32[{K}, {N}]")
    assert constants(anyshape.function([x], ops.mul(x, scaled()))) == {"f32"}
    rows = anyshape.input("y", f"f32[{N}, n]")
    assert constants(anyshape.function([rows], ops.matmul(scaled(), rows))) == {"f32"}


def test_several_products_read_one_constant() -> None:
    """Each of them as it is in memory."""
    x, y, w = anyshape.input("x", f"f32[n, {K}]"), anyshape.input("y", f"f32[m, {K}]"), scaled()
    f = anyshape.function([x, y], [ops.matmul(x, w), ops.matmul(y, w)])
    assert constants(f) == {"i8"}
    a, b = (RNG.standard_normal((rows, K)).astype(np.float32) for rows in (2, 20))
    w32 = CODES * SCALES
    for got, of in zip(anyshape.compile(f)(a, b), (a, b), strict=True):
        np.testing.assert_allclose(got, of @ w32, atol=2e-2)


def test_the_copy_in_f32_is_gone_once_nothing_reads_it() -> None:
    weights = scaled(codes=CODES.T.copy(), axis=0)
    x, alone = anyshape.input("x", f"f32[n, {K}]"), product(transposed(weights))
    both = anyshape.function([x], [ops.matmul(x, transposed(weights)), ops.mul(x, ops.slice(weights, [7], [8], [0]))])
    assert constants(both) == {"i8"}
    w32 = CODES * SCALES
    for f, readers in ((alone, 1), (both, 2)):
        exe = anyshape.compile(f)
        kept = CODES.nbytes if host_target().reads_narrow_constants else w32.nbytes
        assert kept <= sum(c.nbytes for c in exe.plan.programs[0].constants) < 1.1 * kept
        a = RNG.standard_normal((3, K)).astype(np.float32)
        got = exe(a) if readers == 2 else (exe(a),)
        assert np.allclose(got[0], a @ w32 if readers == 2 else np.maximum(a @ w32, 0), atol=2e-2)
        assert readers == 1 or np.array_equal(got[1], a * w32[:, 7])
    seen = anyshape.function([x], [ops.matmul(x, transposed(weights)), ops.mul(transposed(weights), ops.sum(x))])
    assert constants(seen) == {"i8", "f32"}


def test_a_call_that_moves_a_constant_keeps_none_of_its_elements() -> None:
    """The call of a constant that is folded is of the codes, by way of what nobody has computed."""
    moved = optimise(product(columns(transposed(scaled(np.tile(SCALES, 2), codes=np.tile(CODES, 2).T.copy(), axis=0)))))
    weights = next(v for n in moved.nodes for v in n.inputs if v is not None and v.constant is not None)
    node, steps = weights.folded, 0
    while node is not None:
        steps += 1
        read = [v for v in node.data_inputs if v is not None]
        assert all(v.constant is None or v.type.dtype is not F32 or v.constant.nbytes <= 8 * N for v in read)
        node = read[0].node
    assert steps == 3


@pytest.mark.parametrize("level", ["avx2", "sse"])
def test_targets_that_widen_slowly_multiply_what_is_folded(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(scheduling, "with_narrow", lambda schedule: (asked.append(True), schedule)[1])
    anyshape.compile(product(scaled()), target=level)
    assert not asked
