"""What looks equal and is not: zeros of two signs, and the negative of a number without a sign."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import anyshape
from anyshape import ops
from anyshape.graph.alike import alike
from anyshape.graph.value import constant
from anyshape.passes import optimise


def test_attributes_that_differ_in_the_sign_of_zero_are_two_calls() -> None:
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], [ops.leaky_relu(x, alpha=0.0), ops.leaky_relu(x, alpha=-0.0)])
    plus, minus = anyshape.compile(f).run({"x": np.float32([-1, 2])})
    assert np.signbit(plus).tolist() == [True, False]
    assert np.signbit(minus).tolist() == [False, False]


def test_attributes_are_distinguished_at_any_depth() -> None:
    assert alike({"a": (0.0, 1)}) != alike({"a": (-0.0, 1)})
    assert alike({"a": True}) != alike({"a": 1})
    assert alike({"b": 2, "a": (1.5, float("nan"))}) == alike({"a": [1.5, float("nan")], "b": 2})


def test_the_absolute_value_of_a_negative_without_a_sign() -> None:
    x = anyshape.input("x", "u8[n]")
    f = anyshape.function([x], [ops.abs(ops.neg(x))])
    assert anyshape.compile(f).run({"x": np.uint8([0, 7, 255])})[0].tolist() == [0, 249, 1]


def test_constants_of_equal_bytes_and_two_narrow_dtypes() -> None:
    """NumPy says `<V1` of each of these dtypes."""
    scale, codes = anyshape.input("scale", "f32[]"), np.uint8([2, 7])
    kinds = (ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4)
    constants = [constant(codes.view(kind)) for kind in kinds]
    f = anyshape.function([scale], [ops.dequantize_linear(x, scale) for x in constants])
    results = anyshape.compile(f).run({"scale": np.float32(1)})
    assert [r.tolist() for r in results] == [[2**-8, 7 * 2**-9], [2, 7], [2, 7]]
    again = constant(codes.view(kinds[1]))
    twice = anyshape.function([scale], [ops.dequantize_linear(x, scale) for x in (constants[1], again)])
    assert len(optimise(twice).nodes) == 1
