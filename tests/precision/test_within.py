"""bf16 within a bound of errors: which nodes stay exact, what is reported, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError
from anyshape.precision import Within
from anyshape.vm.executable.bounded import kept_exact
from anyshape.vm.report.summary import Report

RNG = np.random.default_rng(1)
X = RNG.standard_normal((6, 40)).astype(np.float32)
PLAIN = RNG.standard_normal((40, 9)).astype(np.float32)
CANCELLING = np.linalg.svd(X)[2][-9:].T.astype(np.float32) * 100 + PLAIN * 1e-2
"""Almost orthogonal to all rows of X, so that sums are far smaller than their terms."""


def function() -> Any:
    x = anyshape.input("x", "f32[n, 40]")
    return anyshape.function([x], [ops.matmul(x, PLAIN), ops.matmul(x, CANCELLING)])


def within(error: float, **options: Any) -> anyshape.Executable:
    return anyshape.compile(function(), precision=Within(max_relative_error=error, inputs=[{"x": X}]), **options)


def test_what_is_too_far_stays_exact(tmp_path: Path) -> None:
    exe, exact = within(1e-2), anyshape.compile(function())
    assert (exe.report.narrowed, exe.report.kept_exact) == (["matmul"], ["matmul #2"])
    assert 1e-4 < exe.report.example_errors[0] <= 1e-2
    text = str(exe.report)
    assert "  exact: matmul #2\n" in text and "largest relative error of example 0: 0.0" in text
    (a, b), (c, d) = exe(X), exact(X)
    assert not np.array_equal(a, c) and np.abs(b - d).max() <= 1e-4 * np.abs(d).max()
    exe.save(tmp_path / "m.anyshape")
    loaded = anyshape.load(tmp_path / "m.anyshape")
    assert (
        loaded.options.exact_nodes == ("matmul #2",) and str(loaded.report).splitlines()[-4:] == text.splitlines()[-4:]
    )


def test_a_loose_bound_narrows_all_and_none_at_all_nothing() -> None:
    assert within(100.0).report.kept_exact == []
    nothing = within(0.0)
    assert nothing.report.narrowed == [] and nothing.report.example_errors == [0.0]
    assert all(np.array_equal(p, q) for p, q in zip(nothing(X), anyshape.compile(function())(X), strict=True))


def test_nodes_are_named_to_stay_exact() -> None:
    exe = anyshape.compile(function(), precision="bf16", exact_nodes=["matmul"])
    assert (exe.report.narrowed, exe.report.kept_exact) == (["matmul #2"], ["matmul"])
    with pytest.raises(ArgumentError, match="exact_nodes: conv names no contraction; there are matmul, matmul #2"):
        anyshape.compile(function(), precision="bf16", exact_nodes=["conv"])
    with pytest.raises(ArgumentError, match="exact_nodes must be"):
        anyshape.compile(function(), precision="bf16", exact_nodes="matmul")


@pytest.mark.parametrize("error", [-1.0, float("nan"), "0.1", None])
def test_a_bound_that_is_no_number_is_refused(error: Any) -> None:
    with pytest.raises(ArgumentError, match="max_relative_error must be a number of at least 0"):
        Within(max_relative_error=error, inputs=[{"x": X}])


@pytest.mark.parametrize("inputs", [[], None, {"x": X}, [X]])
def test_inputs_that_are_none_are_refused(inputs: Any) -> None:
    with pytest.raises(ArgumentError, match="inputs must be at least one mapping"):
        Within(max_relative_error=0.1, inputs=inputs)


def test_f16_within_a_bound() -> None:
    exe = anyshape.compile(function(), precision=Within(max_relative_error=1e-3, inputs=[{"x": X}], precision="f16"))
    assert exe.options.precision == "f16" and exe.report.narrowed == ["matmul"]
    with pytest.raises(ArgumentError, match="Within: precision must be one of bf16, f16, f16-chunked, got str 'exact'"):
        Within(max_relative_error=0.1, inputs=[{"x": X}], precision="exact")  # type: ignore[arg-type]


def test_inputs_that_the_model_refuses_are_refused() -> None:
    with pytest.raises(ArgumentError, match="y"):
        anyshape.compile(function(), precision=Within(max_relative_error=0.1, inputs=[{"y": X}]))


def test_a_saved_model_is_not_judged_again(tmp_path: Path) -> None:
    anyshape.compile(function(), precision="bf16").save(tmp_path / "m.anyshape")
    with pytest.raises(ArgumentError, match="is a saved model; pass precision when you compile the ONNX model"):
        anyshape.compile(tmp_path / "m.anyshape", precision=Within(max_relative_error=0.1, inputs=[{"x": X}]))


class Additive:
    """A model whose error is the sum of those of its narrowed nodes."""

    def __init__(self, errors: dict[str, float], exact: Any) -> None:
        self.report = Report()
        self.report.narrowed = [] if exact is None else [n for n in errors if n not in exact]
        self.error = sum(errors[n] for n in self.report.narrowed)

    def run(self, inputs: Any) -> Any:
        return [np.array([1.0 + self.error])]


def test_nodes_of_small_errors_are_narrowed_first() -> None:
    errors, compiles = {"a": 0.05, "b": 0.01, "c": 0.5, "d": 0.02}, []

    def compiled(exact: Any) -> Additive:
        compiles.append(exact)
        return Additive(errors, exact)

    kept, left = kept_exact(Within(max_relative_error=0.04, inputs=[{}, {}]), compiled)
    assert sorted(kept) == ["a", "c"] and left == pytest.approx([0.03, 0.03]) and len(compiles) <= 2 + 4 + 2
