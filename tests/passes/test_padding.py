"""Functions on padded operands: right up to the true ends whatever stands behind them, for every op of the specs, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import anyshape
from anyshape import dims, ops
from anyshape.dims import Dim, symbol
from anyshape.dtypes import F32, I64, from_numpy
from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Var, read
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.kernel_model.padding import fills_of
from anyshape.passes import optimise, padding
from anyshape.passes.padding import PaddedFunction, padded
from anyshape.types import TensorType
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.operands import ByName, flat_values, input_arrays
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.process.profile import LONG

ONE_OF = 6
"""Ops of which one is tried, but in the long run."""
MORE = 3
"""Elements by which operands are padded."""
Array = Any


def run(f: Function, arrays: list[Array], kernels: str = "interpret") -> list[Array]:
    exe = anyshape.compile(f, kernels=kernels)  # type: ignore[arg-type]  # a name of kernels
    return exe.run(dict(zip(exe.input_names, arrays, strict=True)))


def garbage(a: Array, shape: tuple[int, ...]) -> Array:
    """The array in one of a larger shape, in whose padded tails is what no kernel likes to see."""
    out = np.full(shape, np.nan if a.dtype.kind in "fV" else 77, a.dtype)
    out[tuple(map(slice, a.shape))] = a
    return out


def run_padded(
    f: Function, p: PaddedFunction, sizes: dict[Dim, int], true: dict[Dim, int], arrays: list[Array]
) -> list[Array]:
    """Runs the function on padded operands, and cuts the results."""
    larger = [
        garbage(a, tuple(dims.evaluate(n, sizes) for n in v.type.shape or ()))
        for a, v in zip(arrays, f.params, strict=True)
    ]
    lengths = [np.array(dims.evaluate(n, true)) for n in p.lengths]
    results = run(p.function, [*larger, *lengths])
    cuts = [tuple(slice(dims.evaluate(n, true)) for n in v.type.shape or ()) for v in f.results]
    return [r[c] for r, c in zip(results, cuts, strict=True)]


def functions_of(name: str) -> Iterator[tuple[Function, Dim, int, list[Array]]]:
    """Calls of the op's examples with one size as a dim: along one axis of an operand, or wherever there is that size."""
    for example in PROPERTIES[name].examples:
        if example.error is not None:
            continue
        c = call_of(name, example)
        arrays = input_arrays(c)
        axes = [(k, axis, n) for k, a in arrays.items() for axis, n in enumerate(a.shape) if n > 0]
        alike = [[(k, axis) for k, axis, m in axes if m == n] for n in {n for *_, n in axes}]
        for chosen in [*alike, *([(k, axis)] for k, axis, _ in axes)]:
            try:
                f, n = with_dim(c, chosen)
            except AnyshapeError:
                continue  # the op wants a number there
            yield f, n, arrays[chosen[0][0]].shape[chosen[0][1]], [arrays[p.name] for p in f.params]


def with_dim(c: Call, axes: list[tuple[str, int]]) -> tuple[Function, Dim]:
    """The call with a dim, which is returned too, along these axes of its operands."""
    n = symbol("n", 1)

    def typed(array: Array, name: str) -> Value:
        shape = tuple(n if (name, axis) in axes else m for axis, m in enumerate(array.shape))
        return Value(TensorType(from_numpy(array.dtype), shape), name)

    inputs = flat_values(c.values(typed))
    return optimise(Function(inputs, call(c.op, c.values(ByName(inputs)), c.params))), n


def held_calls(name: str) -> int:
    """Compares all calls of an op's examples that are padded with those that are not; how many there were."""
    held = 0
    for f, n, size, arrays in functions_of(name):
        try:
            p = padded(f, {n: size + MORE})
        except UnsupportedError:
            continue
        want = run(f, arrays)
        got = run_padded(f, p, {n: size + MORE}, {n: size}, arrays)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6, err_msg=str(p.function))
        held += 1
    return held


register("anyshape_ops")


@pytest.mark.parametrize("name", [op for op in sorted(PROPERTIES) if LONG or crc32(op.encode()) % ONE_OF == 0])
def test_results_up_to_the_true_ends_are_the_same(name: str) -> None:
    held_calls(name)


@pytest.mark.parametrize(
    ("name", "least"), [("softmax", 8), ("max_pool", 9), ("conv", 17), ("matmul", 25), ("gather", 13), ("lstm", 9)]
)
def test_ops_that_are_padded(name: str, least: int) -> None:
    assert held_calls(name) >= least


def test_what_stands_behind_the_end_is_seen_without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "fills_of", lambda *_: {})
    for name in ("softmax", "conv", "matmul"):
        with pytest.raises(AssertionError):
            held_calls(name)


def rows(op: Callable[[Value], Any]) -> tuple[Function, Dim]:
    x = anyshape.input("x", "f32[b, n]")
    f = optimise(anyshape.function([x], op(x)).specialize(n=(1, 9)))
    return f, next(s for s in f.symbols() if s.name == "n")


MASKED: list[tuple[Callable[[Value], Any], list[float]]] = [
    (lambda x: ops.tanh(x), []),
    (lambda x: ops.transpose(x), []),
    (lambda x: ops.softmax(x), [-np.inf]),
    (lambda x: ops.sum(ops.exp(x), axes=[-1]), [0.0]),
    (lambda x: ops.prod(x, axes=[-1]), [1.0]),
    (lambda x: ops.argmin(x, axis=-1), [np.inf]),
    (lambda x: ops.sum(ops.cos(x), axes=[-1]), [0.0]),
    (lambda x: ops.cumsum(x, axis=-1, reverse=True), [0.0]),
    (lambda x: ops.matmul(x, ops.transpose(x)), [0.0, 0.0]),
    (lambda x: ops.softmax(ops.softmax(x), axis=0), [-np.inf]),
    (lambda x: ops.max_pool(ops.expand_dims(x, [1]), [3], pads=[1, 1])[0], [-np.inf]),
    (lambda x: ops.reshape(ops.expand_dims(x, [1]), [-1, 1, 1, x.shape[1]]), []),
]


@pytest.mark.parametrize(("op", "fills"), MASKED, ids=range(len(MASKED)))
def test_masks(op: Callable[[Value], Any], fills: list[float]) -> None:
    f, n = rows(op)
    p = padded(f, {n: 9})
    nodes = [node for node in p.function.nodes if node.op.name == "fill_after"]
    assert [float(node.inputs[2].constant) for node in nodes] == fills  # type: ignore[union-attr,arg-type]  # a constant
    x = np.random.default_rng(0).standard_normal((2, 6), np.float32)
    true = dict(zip(f.symbols(), x.shape, strict=True))
    (got,), (want,) = run_padded(f, p, {**true, n: 9}, true, [x]), run(f, [x])
    np.testing.assert_allclose(got, want, rtol=1e-5)


REFUSED: list[tuple[Callable[[Value], Any], str]] = [
    (lambda x: ops.mean(x, axes=[-1]), "static.mean: its elements depend on n"),
    (lambda x: ops.sort(x), "sort: the places of elements of order depend on other elements"),
    (lambda x: ops.flip(x, axes=[-1]), "static.flip: its elements depend on n - 1"),
    (lambda x: ops.reshape(x, [-1]), r"static.reshape: f32\[b, n\] as f32\[b\*n\] has no axis for each padded dim"),
    (lambda x: ops.log_sum_exp(x, axes=[-1]), "no constant in the padded tail leaves its sum over n as it is"),
    (lambda x: ops.shape_of(x), "a result tells a size"),
    (lambda x: ops.mul(x, ops.cast(ops.size(x), to="f32")), "computes with a size|depend on"),
    (lambda x: ops.concat([x, x], axis=1), "concat: its elements depend on n"),
]


@pytest.mark.parametrize(("op", "why"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_padded_is_refused_with_the_reason(op: Callable[[Value], Any], why: str) -> None:
    f, n = rows(op)
    with pytest.raises(UnsupportedError, match=why):
        padded(f, {n: 9})


def test_a_check_of_a_padded_dim_is_kept_for_the_true_one() -> None:
    x = anyshape.input("x", "f32[n]")
    f = optimise(anyshape.function([x], ops.reshape(x, [4, -1])))
    with pytest.raises(UnsupportedError, match="n % 4 == 0"):
        padded(f, {f.symbols()[0]: 12})


@pytest.mark.parametrize("shape", ["n", "m"])
def test_a_position_that_is_read_is_checked_against_the_true_size(shape: str) -> None:
    """An element that is looked up behind the true end is an error, and would be none within the padded one."""
    n, m = symbol("n", 1), symbol("m", 1)
    x, at, y = Tensor("x", F32, ({"n": n, "m": m}[shape],)), Tensor("at", I64, (m,)), Tensor("y", F32, (m,))
    k = Var("k", m)
    stated = [Equation(y, (k,), read(x, [read(at, [k])]))]
    if shape == "m":
        assert fills_of(stated, [x, at], {n}) == {}
        return
    with pytest.raises(UnsupportedError, match=r"an element is at at\[k\] of n, which is checked"):
        fills_of(stated, [x, at], {n})
