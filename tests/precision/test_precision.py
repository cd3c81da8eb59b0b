"""`compile(..., precision="bf16")`: what is rounded, what is not, and where that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError
from anyshape.precision import CHUNKED, NARROW, Narrow
from anyshape.vm.compiling.options import TargetName

RNG = np.random.default_rng(0)
SUMS = 2.0**-19
"""The share of a sum's terms by which sums of f32 of some hundred terms may differ; a rounding to bf16 is 2**-9 of one term."""


DTYPES: dict[Narrow, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f16-chunked": np.float16}


def rounded(a: Any, precision: Narrow = "bf16") -> Any:
    with np.errstate(over="ignore"):
        return np.asarray(a).astype(DTYPES[precision]).astype(np.float64)


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def product(w: Any = None) -> Any:
    x = anyshape.input("x", "f32[m, k]")
    y = anyshape.input("y", "f32[k, n]") if w is None else w
    return anyshape.function([x, y] if w is None else [x], [ops.matmul(x, y)])


def within(got: Any, a: Any, b: Any) -> bool:
    """Whether a result is that of two matrices, but for the order of its sums."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return bool((np.abs(got - a @ b) <= SUMS * (np.abs(a) @ np.abs(b))).all())


@pytest.mark.parametrize("precision, half", [("bf16", 2.0**-8), ("f16", 2.0**-11)])
@pytest.mark.parametrize("kernels", ["interpret", "native"])
@pytest.mark.parametrize("constant", [False, True])
def test_factors_are_rounded_to_the_nearest_even(precision: Narrow, half: float, kernels: Any, constant: bool) -> None:
    a, b = drawn(5, 37), drawn(37, 19)
    a[0, :2] = 1 + half, 1 + 3 * half  # halfway between two
    exe = anyshape.compile(product(b if constant else None), precision=precision, kernels=kernels)
    result = exe(*([a] if constant else [a, b]))
    near_a, near_b = rounded(a, precision), rounded(b, precision)
    assert within(result, near_a, near_b)
    assert not within(result, a, b) and not within(result, near_a, b) and not within(result, a, near_b)


def test_numbers_beyond_f16_are_infinite_and_the_smallest_are_kept() -> None:
    a, b = np.array([[1e5, 0], [2.0**-24, 0]], np.float32), np.eye(2, dtype=np.float32) + 1
    for f, arguments in ((product(), [a, b]), (product(b), [a])):
        result = anyshape.compile(f, precision="f16")(*arguments)
        assert np.isposinf(result[0]).all() and np.array_equal(result[1], [2.0**-23, 2.0**-24])


def test_constants_of_f16_take_half_the_memory_and_are_shared() -> None:
    """Constants that are read as they are, too, stay beside those of f16."""
    w, x = drawn(300, 300), anyshape.input("x", "f32[m, 300]")
    f = anyshape.function([x], [ops.matmul(x, w)])
    both = anyshape.function([x], [ops.matmul(x, w) + w[0], ops.matmul(ops.exp(x), w)])
    exact, narrow = (anyshape.compile(f, precision=p).plan.programs[0] for p in ("exact", "f16"))
    assert 2 * sum(c.nbytes for c in narrow.constants) == sum(c.nbytes for c in exact.constants)
    a = drawn(4, 300)
    got = anyshape.compile(both, precision="f16")(a)
    near = rounded(w, "f16")
    assert within(got[0] - w[0], rounded(a, "f16"), near) and within(got[1], rounded(np.exp(a), "f16"), near)


def test_the_default_is_exact() -> None:
    a, b = drawn(5, 37), drawn(37, 19)
    plain = anyshape.compile(product())
    assert np.array_equal(plain(a, b), anyshape.compile(product(), precision="exact")(a, b))
    assert within(plain(a, b), a, b) and not plain.report.narrowed and "precision" not in str(plain.report)


@pytest.mark.parametrize("precision", NARROW)
def test_nothing_but_contractions_is_rounded(precision: Narrow) -> None:
    """Softmax, sums, maps, and a convolution of one channel each, whose products have no factor of their own, stay as they are."""
    x = anyshape.input("x", "f32[n, 4, h, w]")
    depthwise = ops.conv(x, drawn(4, 1, 3, 3), groups=4)
    f = anyshape.function([x], [ops.softmax(x, axis=-1), ops.sum(ops.exp(x) * x, axes=(1,)), depthwise])
    narrow = anyshape.compile(f, precision=precision)
    a = drawn(2, 4, 9, 11)
    assert all(np.array_equal(p, q) for p, q in zip(narrow(a), anyshape.compile(f)(a), strict=True))
    assert narrow.report.narrowed == []


@pytest.mark.parametrize("precision", NARROW)
def test_factors_of_16_bits_stay_as_they_are(precision: Narrow) -> None:
    x, y = anyshape.input("x", "f16[m, k]"), anyshape.input("y", "f16[k, n]")
    f = anyshape.function([x, y], [ops.matmul(x, y)])
    a, b = drawn(5, 37).astype(np.float16), drawn(37, 19).astype(np.float16)
    narrow = anyshape.compile(f, precision=precision)
    assert np.array_equal(narrow(a, b), anyshape.compile(f)(a, b)) and narrow.report.narrowed == []


@pytest.mark.parametrize("precision", ["bf17", "", "f8", "EXACT"])
def test_another_precision_is_refused(precision: Any) -> None:
    with pytest.raises(
        ArgumentError, match=f"precision must be one of exact, bf16, f16, f16-chunked, got '{precision}'"
    ):
        anyshape.compile(product(), precision=precision)


def test_a_precision_that_is_no_text_is_refused() -> None:
    with pytest.raises(ArgumentError, match="precision must be str, got int 16"):
        anyshape.compile(product(), precision=16)  # type: ignore[arg-type]


def test_the_report_names_what_is_narrowed() -> None:
    exe = anyshape.compile(product(), precision="bf16")
    assert exe.report.narrowed == ["matmul"] and "precision bf16: 1 node" in str(exe.report)


@pytest.mark.parametrize(("precision", "target"), [*((p, "host") for p in NARROW), (CHUNKED, "fp16")])
def test_a_saved_file_keeps_the_precision_and_says_it(precision: Narrow, target: TargetName, tmp_path: Path) -> None:
    a, b = drawn(5, 37), drawn(37, 19)
    exe = anyshape.compile(product(b), precision=precision, target=target)
    exe.by(threads=1).save(tmp_path / "m.anyshape")
    loaded = anyshape.load(tmp_path / "m.anyshape")
    near = within(loaded(a), rounded(a, precision), rounded(b, precision))
    assert np.array_equal(loaded(a), exe(a)) and near == (exe.report.sums == "in f32")
    assert loaded.options.precision == precision
    assert str(exe.report).splitlines()[-2:] == str(loaded.report).splitlines()[-2:]
    with pytest.raises(ArgumentError, match="pass precision when you compile the ONNX model"):
        anyshape.compile(tmp_path / "m.anyshape", precision="exact")
    assert anyshape.compile(tmp_path / "m.anyshape", precision=precision).options.precision == precision


@pytest.mark.parametrize("precision", NARROW)
def test_products_in_a_branch_are_narrowed(precision: Narrow) -> None:
    from anyshape import control

    x, w = anyshape.input("x", "f32[m, 8]"), drawn(8, 8)
    f = anyshape.function([x], control.if_(ops.sum(x) > 0, lambda: [ops.matmul(x, w)], lambda: [x]))
    exe, a = anyshape.compile(f, precision=precision), np.abs(drawn(3, 8))
    near = within(exe(a), rounded(a, precision), rounded(w, precision))
    assert near == (exe.report.sums == "in f32") and not within(exe(a), a, w)
    assert exe.report.narrowed == ["matmul"]
