"""Floats of 16 bits on processors with and without instructions for them: every one of them, and what lies between two."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import BF16, BOOL, F16, F32, DType
from anyshape.equations import Tensor
from anyshape.lower.ir.dag import Access, Affine, Constant, Dag, DagNode
from anyshape.lower.ir.narrow_values import of_bits

HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def between() -> Any:
    """f32 around the rounding edges of both dtypes, special numbers, and any bits."""
    edges = [np.arange(1 << 16, dtype=np.uint32) << 16]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    edges += [halves + d for d in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)] + [
        edges[0] + d for d in (1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
    ]
    edges.append(np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32))
    return np.concatenate(edges).view(np.float32)


@pytest.mark.parametrize("target", [None, "avx2", "sse"])
@pytest.mark.parametrize("name", HALVES)
def test_both_ways(name: str, target: str | None) -> None:
    options: dict[str, Any] = {} if target is None else {"target": target}
    dtype = HALVES[name]
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    x, y = anyshape.input("x", f"{name}[n]"), anyshape.input("y", "f32[n]")
    wide = anyshape.compile(anyshape.function([x], ops.cast(x, to="f32")), **options)
    np.testing.assert_array_equal(wide(every), every.astype(np.float32))
    short = anyshape.compile(anyshape.function([y], ops.cast(y, to=name)), **options)
    numbers = between()
    with np.errstate(all="ignore"):
        want = numbers.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(short(numbers).astype(np.float32), want)


@pytest.mark.parametrize("target", [None, "avx2", "sse"])
@pytest.mark.parametrize("name", HALVES)
def test_what_bits_decide(name: str, target: str | None) -> None:
    """Signs, infinities, NaN, and equality with numbers, among them 0, of which there are two."""
    options: dict[str, Any] = {} if target is None else {"target": target}
    every = np.arange(1 << 16, dtype=np.uint16).view(HALVES[name])
    x, wide = anyshape.input("x", f"{name}[n]"), every.astype(np.float32)
    numbers = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 2.0**-24]
    constants = [anyshape.constant(np.array(c, HALVES[name])) for c in numbers]
    equal = [ops.equal(x, c) for c in constants]
    function = anyshape.function([x], [ops.abs(x), ops.neg(x), ops.is_nan(x), ops.is_inf(x), *equal])
    size, opposite, nan, infinite, *equals = anyshape.compile(function, **options)(every)
    np.testing.assert_array_equal(size.astype(np.float32), np.abs(wide))
    assert not np.signbit(size.astype(np.float32)).any()
    np.testing.assert_array_equal(opposite.astype(np.float32), -wide)
    np.testing.assert_array_equal(np.signbit(opposite.astype(np.float32)), ~np.signbit(wide))
    np.testing.assert_array_equal(nan, np.isnan(wide))
    np.testing.assert_array_equal(infinite, np.isinf(wide))
    for c, result in zip(numbers, equals, strict=True):
        np.testing.assert_array_equal(result, wide == np.array(c, HALVES[name]).astype(np.float32))


def of_two(dag: Dag, dtype: DType) -> tuple[DagNode, DagNode]:
    """Two elements of a tensor, widened."""
    v = dag.variable(9)
    places = (Access(Tensor("x", dtype, (9,)), Affine(((v, 1),), k)) for k in range(2))
    first, second = (dag.op("cast", F32, dag.load(place)) for place in places)
    return first, second


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_elements_that_stay_as_they_are(dtype: DType) -> None:
    dag = Dag()
    x, _ = of_two(dag, dtype)
    (narrow,) = x.inputs
    assert of_bits(dag, "cast", dtype, [dag.op("abs", F32, x)]) is dag.op("abs", dtype, narrow)
    assert of_bits(dag, "ne", BOOL, [x, x]) is dag.op("ne", BOOL, narrow, narrow)
    for value in (0.0, 0.5, float("inf")):
        assert of_bits(dag, "eq", BOOL, [x, dag.const(value, F32)]) is dag.op(
            "eq", BOOL, narrow, dag.const(value, dtype)
        )
        widened = dag.op("cast", F32, dag.const(value, dtype))
        assert of_bits(dag, "eq", BOOL, [widened, x]) is dag.op("eq", BOOL, dag.const(value, dtype), narrow)


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_elements_that_are_widened(dtype: DType) -> None:
    """Elements are f32 in arithmetic, in signs that are not rounded, beside each other, and beside numbers that 16 bits do not hold."""
    dag = Dag()
    x, y = of_two(dag, dtype)
    other = BF16 if dtype == F16 else F16
    constants: list[Constant] = [dag.const(value, F32) for value in (0.1, 1e39, float("nan"))]
    assert all(of_bits(dag, "eq", BOOL, [x, c]) is None for c in constants)
    assert of_bits(dag, "eq", BOOL, [x, y]) is None
    assert of_bits(dag, "lt", BOOL, [x, dag.const(0.5, F32)]) is None
    assert of_bits(dag, "cast", dtype, [dag.op("sqrt", F32, x)]) is None
    assert of_bits(dag, "cast", other, [dag.op("abs", F32, x)]) is None
    assert of_bits(dag, "abs", F32, [x]) is None
