"""Gradient of ai.onnx.preview.training: names in attributes, values from inputs, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import anyshape
from anyshape import ops
from anyshape.errors import ModelError, UnsupportedError
from anyshape.expansion.gradient import gradients

HEAD = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.preview.training": 1]>'


def run(text, **arrays):
    return anyshape.compile(parser.parse_model(f"{HEAD} {text}")).run(arrays)


X, W = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), np.array([[2.0, 1.0], [-1.0, 0.5]], np.float32)


def test_a_layer_by_its_weights_and_its_input():
    text = """g (float[n, 2] x, float[2, 2] w) => (float[n, 2] dx, float[2, 2] dw) {
        dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y: string = "y"> (x, w)
        h = MatMul(x, w)
        y = Tanh(h)
    }"""
    dx, dw = run(text, x=X, w=W)
    dh = 1 - np.tanh(X @ W) ** 2
    np.testing.assert_allclose(dx, dh @ W.T, rtol=1e-5)
    np.testing.assert_allclose(dw, X.T @ dh, rtol=1e-5)


def test_by_a_value_between_and_at_another_value():
    text = """g (float[n] x, float[n] other) => (float[n] dh) {
        h = Exp(x)
        y = Mul(h, h)
        dh = ai.onnx.preview.training.Gradient <xs = ["h"], y: string = "y"> (other)
    }"""
    x, other = np.ones(3, np.float32), np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(run(text, x=x, other=other)[0], 2 * other)


def test_second_derivatives():
    text = """g (float[n] x) => (float[n] ddx) {
        y = Sin(x)
        dx = ai.onnx.preview.training.Gradient <xs = ["x"], y: string = "y"> (x)
        ddx = ai.onnx.preview.training.Gradient <xs = ["x"], y: string = "dx"> (x)
    }"""
    x = np.array([0.1, 2.0, -1.0], np.float32)
    np.testing.assert_allclose(run(text, x=x)[0], -np.sin(x), rtol=1e-5)


def test_what_does_not_depend_has_zeros():
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    f = anyshape.function([x, y], gradients(ops.exp(x), [x, y]))
    got = anyshape.compile(f)(np.zeros(2, np.float32), np.ones(3, np.float32))
    assert [g.tolist() for g in got] == [[1, 1], [0, 0, 0]]


def test_a_root_of_0_counts_nothing_where_its_result_counts_nothing():
    """What is normalised over equal elements is 0 divided by the root of a variance of 0. A root that counts has an infinite slope."""
    x = anyshape.input("x", "f32[n, m]")
    equal = np.full((2, 3), 5.0, np.float32)
    f = anyshape.function([x], gradients(ops.mean_variance_norm(x, axes=[1]), [x]))
    assert np.isfinite(anyshape.compile(f)(equal)).all()
    f = anyshape.function([x], gradients(ops.sqrt(x), [x]))
    assert np.isposinf(anyshape.compile(f)(np.zeros((1, 2), np.float32))).all()


def test_the_side_that_an_op_does_not_take_counts_nothing():
    x = anyshape.input("x", "f64[n]")
    f = anyshape.function([x], gradients(ops.elu(x), [x]))
    assert anyshape.compile(f)(np.array([1000.0, 0.0])).tolist() == [1.0, 1.0]  # exp(1000) is no number


def test_what_has_no_adjoint_is_refused_by_name():
    text = """g (float[n, m] x) => (float[n, m] dx) {
        y = Unique <axis = 0> (x)
        dx = ai.onnx.preview.training.Gradient <xs = ["x"], y: string = "y"> (x)
    }"""
    with pytest.raises(
        UnsupportedError,
        match=r"no gradient of unique_slices \(at Unique 'y'\): a procedure has no adjoint \(specs/sorting",
    ):
        run(text, x=X[0, 0])
    x = anyshape.input("x", "i64[n]")
    with pytest.raises(UnsupportedError, match=r"gradients are of floats, and x is i64\[n\]"):
        gradients(x, [x])


def test_models_that_differentiate_are_not_simplified():
    text = """g (float[n] x) => (float[n] dx) {
        y = Exp(x)
        dx = ai.onnx.preview.training.Gradient <xs = ["x"], y: string = "y"> (x)
    }"""
    with pytest.raises(UnsupportedError, match="attributes name tensors to differentiate by"):
        anyshape.simplify(parser.parse_model(f"{HEAD} {text}"))


def test_names_that_nothing_produces():
    text = """g (float[n] x) => (float[n] dx) {
        dx = ai.onnx.preview.training.Gradient <xs = ["x"], y: string = "nobody"> (x)
    }"""
    with pytest.raises(ModelError, match="reads 'nobody', which nothing produces"):
        run(text, x=X[0])
