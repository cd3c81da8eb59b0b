"""Elements that no equation defines are zero, whatever was in the memory of results and intermediate tensors, alike in all executors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.graph.call import call
from anyshape.graph.infer import equations_of, tensors_of
from anyshape_gen.analysis import analyse
from anyshape_gen.bounds.check_op import How, verdicts
from anyshape_testing.matrix.making import make
from tests.equations.test_gradients_of_forms import differences
from tests.vm.poisoning import poison

INPUTS = '{x: "f32[n]", at: "i64[m]"}'
X, AT = np.arange(1, 6, dtype=np.float32), np.array([3, 0, 3])
N, M = len(X), len(AT)
ZERO = np.zeros(N, np.float32)


def op_of(kernel: str, outputs: str, more: str = "", inputs: str = INPUTS) -> Any:
    lines = "\n      ".join(kernel.split("\n"))
    return make(
        f"ops:\n  an_op:\n    summary: An op.\n    inputs: {inputs}\n    outputs: {outputs}\n{more}    kernel: |\n      {lines}\n"
        "    reference: None\n    examples: []\n",
        "an_op",
    )


FLAG = "    params: {flag: {kind: bool, default: false}}\n"
SOME = '    shape: assert n > 0, "nothing"\n'
CASES: dict[str, tuple[str, str, str, Any]] = {
    "one column": ("y[i, 0] = x[i]", '{y: "f32[n, 3]"}', "", np.stack([X, ZERO, ZERO], 1)),
    "columns on both sides": ("y[i, 0] = x[i]\ny[i, 2] = x[i]", '{y: "f32[n, 3]"}', "", np.stack([X, ZERO, X], 1)),
    "a column in the middle": ("y[i, 1] = x[i]", '{y: "f32[n, 3]"}', "", np.stack([ZERO, X, ZERO], 1)),
    "a corner": ("y[0, 1] = x[0]", '{y: "f32[n, 2]"}', SOME, [[0, 1], *[[0, 0]] * (N - 1)]),
    "all but the ends": ("y[i + 1] = x[i]", '{y: "f32[n + 2]"}', "", [0, *X, 0]),
    "the first": ("y[0] = x[n - 1]", '{y: "f32[n]"}', SOME, [5, 0, 0, 0, 0]),
    "the first and the last": ("y[0] = x[1]\ny[n - 1] = x[0]", '{y: "f32[n]"}', '    shape: assert n > 1, "one"\n', [2, 0, 0, 0, 1]),
    "every other one": ("y[2 * i + 1] = x[i]", '{y: "f32[2 * n]"}', "", np.stack([ZERO, X], 1).ravel()),
    "two of three": ("y[3 * i] = x[i]\ny[3 * i + 2] = x[i]", '{y: "f32[3 * n]"}', "", np.stack([X, ZERO, X], 1).ravel()),
    "every other one of more": ("y[2 * i] = x[i]", '{y: "f32[2 * n + 3]"}', "", [*np.stack([X, ZERO], 1).ravel(), 0, 0, 0]),
    "a diagonal": ("y[i, i] = x[i]", '{y: "f32[n, n]"}', "", np.diag(X)),
    "two diagonals": ("y[i, i] = x[i]\ny[i, n - 1 - i] = 2 * x[i]", '{y: "f32[n, n]"}', "", None),
    "a place twice": ("y[i // 2] = x[i]", '{y: "f32[n]"}', "", [2, 4, 5, 0, 0]),
    "one that another defines too": ("y[0] = x[0]\ny[n - 1] = x[1]", '{y: "f32[n]"}', '    shape: assert n > 1, "one"\n', [1, 0, 0, 0, 2]),
    "nothing": ("if flag: y[i] = x[i]", '{y: "f32[n]"}', FLAG, ZERO),
    "one part of two": ("y[i, 0] = x[i]\nif flag: y[i, 1] = x[i]", '{y: "f32[n, 2]"}', FLAG, np.stack([X, ZERO], 1)),
    "one of several tensors": ("ys[1][i] = x[i]", '{ys: "f32[n] for v in 3"}', "", (ZERO, X, ZERO)),
    "what updates follow": ("y[i, 0] = x[i]\ny[wrap(at[j], n), 1] += 1", '{y: "f32[n, 2]"}', "", np.stack([X, [1, 0, 0, 2, 0]], 1)),
    "fewer than there is room for": ("y[:] = [x[i] for i in n if x[i] > 3]", '{y: "f32[n]"}', "", [4, 5, 0, 0, 0]),
    "places of fewer": ("y[:] = argsort([-x[i] for i in n])", '{y: "i64[n + m]"}', "", [4, 3, 2, 1, 0, 0, 0, 0]),
    "rows of fewer": ("y[j, :] = [x[i] for i in n if i < at[j]]", '{y: "f32[m, n]"}', "", [[1, 2, 3, 0, 0], [0] * N, [1, 2, 3, 0, 0]]),
    "an intermediate": ("t[i, 0]: f32[n, 3] = x[i]\ny[i] = sum(t[i, k] for k in 3)", '{y: "f32[n]"}', "", X),
    "an intermediate in pieces": ("t[i + 1]: f32[n + 3] = x[i]\nt[0] = 5\ny[j] = t[j]", '{y: "f32[n + 3]"}', "", [5, *X, 0, 0]),
    "pieces that are summed": ("t[i, 0]: f32[n, 2] = x[i]\nt[i, 1] = x[i]\ny[i] = sum(t[i, k] for k in 2)", '{y: "f32[n]"}', "", 2 * X),
    "a column of sums": ("y[i, 1] = x[i] + (y[i - 1, 1] if i > 0 else 0)", '{y: "f32[n, 2]"}', "", np.stack([ZERO, np.cumsum(X)], 1)),
}  # fmt: skip
CASES["two diagonals"] = (*CASES["two diagonals"][:3], np.where(np.fliplr(np.eye(N)), 2 * X[:, None], np.diag(X)))


@pytest.mark.parametrize("kernels", ["native", "interpret"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_left_out_is_zero(case: str, kernels: Any) -> None:
    kernel, outputs, more, expected = CASES[case]
    op = op_of(kernel, outputs, more)
    with op.in_place():
        x, at = anyshape.input("x", "f32[n]"), anyshape.input("at", "i64[m]")
        results = list(call(op.defs[0], [x, at], {}))
        exe = anyshape.compile(anyshape.function([x, at], results), kernels=kernels)
        several = expected if isinstance(expected, tuple) else (expected,)
        for _ in range(2):
            destinations = {
                f"output{k}": np.full(np.shape(w), 77, results[k].type.dtype.numpy) for k, w in enumerate(several)
            }
            got = exe.run({"x": X, "at": AT}, destinations)
            for result, array, w in zip(got, destinations.values(), several, strict=True):
                assert result is array
                np.testing.assert_array_equal(result, w)
            poison(exe)


@pytest.mark.parametrize("size", ["n", "0", "2"])
def test_a_tensor_that_no_equation_of_the_author_defines_has_one(size: str) -> None:
    op = op_of(*CASES["nothing"][:3])
    with op.in_place():
        x, at = anyshape.input("x", f"f32[{size}]"), anyshape.input("at", "i64[m]")
        (y,) = call(op.defs[0], [x, at], {})
        assert y.node is not None
        eqs = equations_of(y.node, *tensors_of(y.node))
    assert [q.target.name for q in eqs.equations] == ["y"]


@pytest.mark.parametrize("kernels", ["native", "interpret"])
def test_results_of_one_element_of_a_list(kernels: Any) -> None:
    op = op_of("y[v, 1] = sum(xs[v][k] for k in n[v])", '{y: "f32[c, 3]"}', inputs='{xs: "seq f32[n[v]] for v in c"}')
    with op.in_place():
        xs = anyshape.input("xs", "list[f32[?]]")
        exe = anyshape.compile(anyshape.function([xs], list(call(op.defs[0], [xs], {}))), kernels=kernels)
        for rows in ([X], [X, X[:2], X[:0], X[1:]]):
            (got,) = exe.run({"xs": rows}, {"output0": np.full((len(rows), 3), 77, np.float32)})
            np.testing.assert_array_equal(got, [[0, sum(r), 0] for r in rows])


@pytest.mark.parametrize("kernels", ["native", "interpret"])
def test_results_of_other_elements_of_a_list_stay(kernels: Any) -> None:
    op = op_of("y[v, k] = xs[v][k] + 1", '{y: "f32[(v, n[v])]"}', inputs='{xs: "seq f32[n[v]] for v in c"}')
    with op.in_place():
        xs = anyshape.input("xs", "list[f32[?]]")
        exe = anyshape.compile(anyshape.function([xs], list(call(op.defs[0], [xs], {}))), kernels=kernels)
        for rows in ([X], [X, X[:2], X[:0], X[1:]]):
            (got,) = exe.run({"xs": rows}, {"output0": np.full(sum(map(len, rows)), 77, np.float32)})
            np.testing.assert_array_equal(got, np.concatenate(rows) + 1)


def stated(kernel: str, outputs: str, more: str = "") -> list[str]:
    """The equations of a call."""
    op = op_of(kernel, outputs, more)
    with op.in_place():
        results = call(op.defs[0], [anyshape.input("x", "f32[n]"), anyshape.input("at", "i64[m]")], {})
        return [str(q) for q in equations_of(results[0].node, *tensors_of(results[0].node)).equations]


@pytest.mark.parametrize(
    ("kernel", "outputs"),
    [
        ("y[i, 0] = x[i]\ny[i, 1] = x[i]", '{y: "f32[n, 2]"}'),
        ("y[i] = x[i]\ny[n + j] = f32(at[j])", '{y: "f32[n + m]"}'),
        ("y[2 * i] = x[i]\ny[2 * i + 1] = x[i]", '{y: "f32[2 * n]"}'),
        ("y[i, k] = x[i]", '{y: "f32[(n, m)]"}'),
        ("k = count(x[i] > 3 for i in n)\ny[:] = [x[i] for i in n if x[i] > 3]", '{y: "f32[k]"}'),
        ("y[:] = argsort([x[i] for i in n])", '{y: "i64[n]"}'),
    ],
)
def test_what_is_defined_once_stays_as_it_is(kernel: str, outputs: str) -> None:
    assert len(stated(kernel, outputs)) == len(kernel.split("\n"))


def test_only_what_is_left_out_is_made_zero() -> None:
    assert stated("y[i, 1] = x[i]", '{y: "f32[n, 3]"}')[:2] == ["y[z0, z1] = 0", "y[z0, (z1 + 2)] = 0"]
    assert stated("y[i, i] = x[i]", '{y: "f32[n, n]"}')[0] == "y[z0, z1] = 0"


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        ("y[i, i] = x[i] * x[i]\ny[i, n - 1 - i] = 2 * x[i]", "[n, n]"),
        ("y[:] = [x[i] for i in n if x[i] > 2.5]", "[n]"),
    ],
)
def test_a_gradient_flows_through_what_is_defined(kernel: str, shape: str) -> None:
    op, weights = op_of(kernel, f'{{y: "f64{shape}"}}', inputs='{x: "f64[n]"}'), np.arange(1.0, N + 1)
    with op.in_place():
        x = anyshape.input("x", "f64[n]")
        y = call(op.defs[0], [x], {})[0] * weights
        forward = anyshape.compile(anyshape.function([x], y))
        slope = anyshape.compile(anyshape.function([x], anyshape.gradients(y, [x])))
        for array in (X, X[::-1], -X):
            expected = differences(forward, [array.astype(np.float64)], 0)
            np.testing.assert_allclose(np.ravel(slope(array.astype(np.float64))), expected, rtol=1e-5, atol=1e-5)


PROVED = {How.STRUCTURAL, How.LINEAR, How.CASES}


@pytest.mark.parametrize(
    ("kernel", "proved"),
    [
        ("by[:] = argsort([x[i] for i in n])\ny[u] = x[by[u]]", True),
        ("by[:]: i64[n + 1] = argsort([x[i] for i in n])\ny[u] = x[by[u]]", True),  # there is a u, and so an x[0]
        ("by[:]: i64[m] = argsort([x[i] for i in n])\ny[u] = x[by[at[u]]] if 0 <= at[u] < m and u < m else 0", False),
        (
            "k = count(x[i] > 0 for i in n)\nkept[:] = [i for i in n if x[i] > 0]\ny[j] = sum(x[kept[u]] for u in k)",
            True,
        ),
        ("kept[:]: i64[n] = [i + 1 for i in n if i + 1 < n]\ny[u] = x[kept[u]]", False),
    ],
)
def test_proofs_know_of_elements_that_nothing_filled(kernel: str, proved: bool) -> None:
    lines = "\n      ".join(kernel.split("\n"))
    text = (
        f"ops:\n  an_op:\n    summary: An op.\n    inputs: {INPUTS}\n    outputs: {{y: 'f32[n]'}}\n    kernel: |\n      {lines}\n"
        "    reference: x\n    examples: [{x: [3], at: [2], y: [3]}]\n"
    )
    a = analyse({"specs/m.yaml": text}).op("an_op")
    assert ({v.how for v in verdicts(a)} <= PROVED) == proved
