"""Searches: the place that a condition holds up to, found in as many steps as a size has digits, alike in all executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import dims
from anyshape.dtypes import F32, from_numpy
from anyshape.graph.call import call
from anyshape.vm.executable.memory_text import memory_text
from anyshape_gen.analysis import analyse
from anyshape_testing.matrix.making import make

HEAD = """
ops:
  an_op:
    summary: A search.
"""
TAIL = """
    reference: None
    examples: []
"""
EXECUTORS = ("native", "interpret")


def run(body: str, arrays: dict[str, np.ndarray], kernels: Any, gradient: bool = False) -> list[np.ndarray]:
    op = make(HEAD + body + TAIL, "an_op")
    with op.in_place():
        params = [
            anyshape.input(n, f"{from_numpy(a.dtype)}[{', '.join(f'{n}{k}' for k in range(a.ndim))}]")
            for n, a in arrays.items()
        ]
        outputs: Any = call(op.defs[0], params, {})
        outputs = anyshape.gradients(outputs[0], params[:1]) if gradient else outputs
        got = anyshape.compile(anyshape.function(params, list(outputs)), kernels=kernels)(*arrays.values())
    return list(got) if isinstance(got, list | tuple) else [got]


PLACES = """
    inputs: {x: "F[n]", v: "F[m]"}
    outputs: {y: "i64[m, 2]", z: "i64[]"}
    dtypes: {F: [f32, i64]}
    kernel: |
      y[j, 0] = search(x[k] < v[j] for k in n)
      y[j, 1] = search(x[k] <= v[j] for k in n)
      z[()]   = search(x[k] < 0 for k in n)
"""


@pytest.mark.parametrize("kernels", EXECUTORS)
@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097])
def test_places_are_those_of_numpy(n: int, kernels: str) -> None:
    rng = np.random.default_rng(n)
    x = np.sort(rng.integers(-n, n + 1, n)).astype(np.float32)
    v = np.array([*rng.integers(-n - 1, n + 2, 20), -np.inf, np.inf], np.float32)
    y, z = run(PLACES, {"x": x, "v": v}, kernels)
    np.testing.assert_array_equal(y, np.stack([np.searchsorted(x, v, side) for side in ("left", "right")], 1))
    assert z == np.searchsorted(x, 0)


@pytest.mark.parametrize("kernels", EXECUTORS)
def test_a_row_in_no_order_has_a_place_where_the_condition_ends(kernels: str) -> None:
    x = np.random.default_rng(0).integers(0, 9, 37)
    y, _ = run(PLACES, {"x": x, "v": np.arange(10)}, kernels)
    for v, p in enumerate(y[:, 0]):
        assert (p == 0 or x[p - 1] < v) and (p == len(x) or x[p] >= v)


ROWS = """
    inputs: {x: "f32[n, w]", v: "f32[m, w]"}
    outputs: {y: "i64[m]", found: "bool[m]"}
    kernel: |
      y[j]     = search(any(x[k, l] < v[j, l] and all(x[k, q] == v[j, q] for q in range(l)) for l in w) for k in n)
      found[j] = y[j] < n and all(x[clamp(y[j], 0, n - 1), l] == v[j, l] for l in w)
"""


@pytest.mark.parametrize("kernels", EXECUTORS)
def test_the_condition_may_reduce(kernels: str) -> None:
    """Rows in lexicographic order."""
    x = np.array([[0, 1], [0, 2], [1, 0], [1, 0], [3, 1]], np.float32)
    v = np.array([[0, 0], [0, 2], [1, 0], [2, 9], [3, 1], [3, 2]], np.float32)
    y, contained = run(ROWS, {"x": x, "v": v}, kernels)
    np.testing.assert_array_equal(y, [sum(tuple(r) < tuple(w) for r in x) for w in v])
    np.testing.assert_array_equal(contained, [any((r == w).all() for r in x) for w in v])


COUNTED = """
    inputs: {x: "f64[n]", v: "f64[m]"}
    outputs: {y: "i64[m]"}
    kernel: |
      w        = count(x[i] > 0 for i in n)
      kept[:]  = [x[i] for i in n if x[i] > 0]
      order[:] = argsort([kept[k] for k in w])
      y[j]     = search(kept[order[k]] < v[j] for k in w)
"""


@pytest.mark.parametrize("kernels", EXECUTORS)
@pytest.mark.parametrize("n", [0, 5, 40])
def test_a_size_may_depend_on_data(n: int, kernels: str) -> None:
    rng = np.random.default_rng(n)
    x, v = rng.normal(size=n), rng.normal(size=7)
    (y,) = run(COUNTED, {"x": x, "v": v}, kernels)
    np.testing.assert_array_equal(y, np.searchsorted(np.sort(x[x > 0]), v))


INTERPOLATED = """
    inputs: {x: "f64[m]", at: "f64[n]", y: "f64[n]"}
    outputs: {z: "f64[m]"}
    shape: assert n > 1, "no line through {n} points"
    kernel: |
      right[i] = search(at[k] < x[i] for k in n)
      p[i]     = clamp(right[i], 1, n - 1)
      z[i]     = y[p[i] - 1] + (x[i] - at[p[i] - 1]) * (y[p[i]] - y[p[i] - 1]) / (at[p[i]] - at[p[i] - 1])
"""


def test_what_reads_at_a_place_has_a_gradient() -> None:
    x, at, y = np.array([0.5, 1.5, 2.5]), np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 4.0, 2.0])
    arrays = {"x": x, "at": at, "y": y}
    (z,) = run(INTERPOLATED, arrays, "native")
    np.testing.assert_allclose(z, np.interp(x, at, y))
    np.testing.assert_allclose(run(INTERPOLATED, arrays, "native", gradient=True)[0], [1, 3, -2])


def test_names_of_a_search_are_nobodys() -> None:
    """The names of its equations differ from all that the op has."""
    text = (HEAD + """
    inputs: {y_by: "F[step]", y_at: "F[digits]"}
    outputs: {y: "i64[digits]"}
    kernel: |
      y_next[s] = y_by[s] + 1
      y[j] = search(y_next[k] < y_at[j] for k in step)
""")  # fmt: skip
    (a,) = analyse({"a.yaml": text}, complete=False).ops
    assert a.kernel is not None
    names = [e.target.tensor for e in a.kernel.equations]
    assert {"y_next", "y_by_", "y_at_", "y_next_", "y"} == set(names)
    assert [e.target.tensor for e in a.spec.kernel.equations] == ["y_next", "y"], "the spec is what its author wrote"


def test_a_search_takes_as_many_steps_as_a_size_has_digits() -> None:
    """The positions of the recurrence, for some sizes."""
    op = make(HEAD + PLACES + TAIL, "an_op")
    with op.in_place():
        steps = []
        for n in (1, 15, 16, 255, 256, 1 << 20):
            x, v = anyshape.input("x", f"f32[{n}]"), anyshape.input("v", "f32[3]")
            steps.append(longest(call(op.defs[0], [x, v], {})))
    assert steps == [4, 4, 8, 8, 12, 24]


def test_a_search_keeps_its_last_place_alone() -> None:
    op = make(HEAD + """
    inputs: {x: "f32[n]", v: "f32[m]"}
    outputs: {y: "i64[m]"}
    kernel: "y[j] = search(x[k] < v[j] for k in n)"
""" + TAIL, "an_op")  # fmt: skip
    with op.in_place():
        inputs = [anyshape.input("x", "f32[n]"), anyshape.input("v", "f32[m]")]
        exe = anyshape.compile(anyshape.function(inputs, list(call(op.defs[0], inputs, {}))))
    assert "none but the results" in memory_text(exe)


KEPT = """
    inputs: {x: "f32[n, m]"}
    outputs: {y: "f32[m]", first: "f32[m]", all: "f32[n, m]", end: "f32[m]", twice: "f32[m]"}
    shape: assert n > 1, "too few"
    kernel: |
      t[i, j]     = x[i, j] + (t[i - 1, j] / 2 if i > 0 else 0)
      y[j]        = t[n - 1, j]
      s[i, j]     = x[i, j] + (s[i + 1, j] / 2 if i < n - 1 else 0)
      first[j]    = s[0, j]
      all[i, j]   = x[i, j] + (all[i - 1, j] / 2 if i > 0 else 0)
      end[j]      = all[n - 1, j]
      u[i, j]     = x[i, j] + (u[i - 1, j] / 2 if i > 0 else 0)
      twice[j]    = u[n - 1, j] + u[n - 2, j]
"""


@pytest.mark.parametrize("kernels", EXECUTORS)
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("m", [0, 1, 40])
def test_last_positions_of_recurrences(n: int, m: int, kernels: str) -> None:
    """Last positions are read of what others read too, of a recurrence from the end, and of one of which another position is read."""
    x = np.random.default_rng(n).normal(size=(n, m)).astype(np.float32)
    y, first, every, end, twice = run(KEPT, {"x": x}, kernels)
    forward, backward = [x[0]], [x[-1]]
    for k in range(1, n):
        forward.append(x[k] + forward[-1] / 2)
        backward.append(x[-1 - k] + backward[-1] / 2)
    expected = (forward[-1], backward[-1], np.array(forward), forward[-1], forward[-1] + forward[-2])
    for got, array in zip((y, first, every, end, twice), expected, strict=True):
        np.testing.assert_allclose(got, array, rtol=1e-6)


@pytest.mark.parametrize("size", [1, "n"])
def test_a_last_position_is_a_step_where_there_is_one(size: int | str) -> None:
    """The equation stays one of its own where there may be no position at all."""
    from anyshape.equations import Equations, RecurrenceStep, Tensor
    from anyshape.equations.functions import gt, where
    from anyshape.equations.recurrences import with_last_positions

    n = dims.symbol("n") if size == "n" else dims.symbol("n", 1)
    x, y = Tensor("x", F32, (n, 3)), Tensor("y", F32, (3,))
    eqs = Equations("op", {"x": x}, {"y": y})
    t = eqs.scratch("t", F32, (n, 3))
    i, j = eqs.indices("i", t.shape)
    eqs.step(t[i, j], x[i, j] + where(gt(i, 0), lambda: t[i - 1, j], 0.0), i)
    (k,) = eqs.indices("k", y.shape)
    eqs.define(y[k], t[n - 1, k])
    steps = [isinstance(q.form, RecurrenceStep) for q in with_last_positions(eqs.equations, [y])]
    assert steps == [True, size == 1]
    assert [isinstance(q.form, RecurrenceStep) for q in with_last_positions(eqs.equations, [y, t])] == [True, False]


def longest(results: Sequence[Any]) -> int:
    """The longest recurrence among the equations that compute results."""
    from anyshape.equations import RecurrenceStep
    from anyshape_testing.calls.nodes import equations_below

    forms = [q.form for q in equations_below(results[0].node)]
    return max(int(form.along.extent) for form in forms if isinstance(form, RecurrenceStep))
