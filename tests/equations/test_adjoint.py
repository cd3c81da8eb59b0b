"""The adjoint where tensors have no elements: what is never read gets nothing added to it."""

from collections.abc import Sequence

import numpy as np
import pytest

from anyshape.dims import symbol
from anyshape.dtypes import F64, I64
from anyshape.equations import Equations, Tensor
from anyshape.equations.adjoint import state_adjoint
from anyshape.equations.builder import Equation, Update
from anyshape.equations.expr import Reduce, apply, const, scalar
from anyshape.equations.functions import clamp, eq, pad, reduce_, where
from anyshape.equations.interpret import interpret
from anyshape.equations.traversal import walk
from tests.counting import calls

N, M = symbol("n"), symbol("m")


def gradient(eqs: Equations, x: Tensor, y: Tensor, shapes: Sequence[tuple[int, ...]], sizes: dict) -> np.ndarray:
    """Interprets the gradient of the sum of y's elements by x, whose elements are 2; `shapes` are theirs."""
    seed, result = Tensor("seed", F64, y.shape), Tensor("gradient", F64, x.shape)
    adjoint = Equations("gradient", {"x": x, "seed": seed}, {"gradient": result})
    state_adjoint(adjoint, eqs.equations, {y: seed}, {x: result})
    arrays = {x: np.full(shapes[0], 2.0), seed: np.ones(shapes[1])}
    return interpret(adjoint.equations, arrays, sizes)[result]


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("column", [0, 1])
def test_padding_of_nothing(n, column):
    """Beyond the only column the read is known not to be made, and no variable is left in it."""
    x, y = Tensor("x", F64, (N, 1)), Tensor("y", F64, (N,))
    eqs = Equations("padded", {"x": x}, {"y": y})
    g = eqs.index("g", N)
    eqs.define(y[g], pad(x, 0)[2 * g, column])
    got = gradient(eqs, x, y, [(n, 1), (n,)], {N: n})
    np.testing.assert_array_equal(got, [[(1.0 - column) * (k % 2 == 0)] for k in range(n)] if n else np.zeros((0, 1)))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_condition_keeps_an_index_in_range(n):
    """The clamped index of an empty tensor is -1, where the condition never holds; the condition varies with j, which the index lacks."""
    x, y = Tensor("x", F64, (N,)), Tensor("y", F64, (N + 3, N + 3))
    eqs = Equations("diagonal", {"x": x}, {"y": y})
    i, j = eqs.index("i", N + 3), eqs.index("j", N + 3)
    eqs.define(y[i, j], where(eq(j, i - 3), x[clamp(i - 3, 0, scalar(N - 1, I64))], 0.0))
    np.testing.assert_array_equal(gradient(eqs, x, y, [(n,), (n + 3, n + 3)], {N: n}), np.ones(n))


@pytest.mark.parametrize(("n", "iterations"), [(0, 0), (6, 0), (6, 2)])
def test_a_sum_of_no_iterations_reads_nothing(n, iterations):
    """The sum has two variables, and neither index nor value have the one without values."""
    x, y = Tensor("x", F64, (N,)), Tensor("y", F64, ())
    eqs = Equations("strided", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("sum", [M, 3], lambda t, j: x[2 * j]))
    got = gradient(eqs, x, y, [(n,), ()], {N: n, M: iterations})
    np.testing.assert_array_equal(got, np.tile([float(iterations), 0.0], 3)[:n])


def chain_of_choices(length: int) -> tuple[Equations, Tensor, Tensor]:
    """y = x, then again and again e where e > k, else e * e, which two paths lead through each time."""
    x, y = Tensor("x", F64, (N,)), Tensor("y", F64, (N,))
    eqs = Equations("choices", {"x": x}, {"y": y})
    g = eqs.index("g", N)
    e = x[g]
    for k in range(length):
        e = where(apply("gt", e, const(0.5 + k, F64)), e + 1.0, e * e)
    eqs.define(y[g], e)
    return eqs, x, y


def test_a_chain_of_choices_has_the_slope_of_the_path_taken():
    eqs, x, y = chain_of_choices(8)
    seed, result = Tensor("seed", F64, y.shape), Tensor("gradient", F64, x.shape)
    adjoint = Equations("gradient", {"x": x, "seed": seed}, {"gradient": result})
    state_adjoint(adjoint, eqs.equations, {y: seed}, {x: result})
    at = np.array([-1.2, 0.1, 0.4, 0.9, 1.1, 3.0])

    def run(values: np.ndarray) -> np.ndarray:
        return interpret(eqs.equations, {x: values}, {N: len(at)})[y]

    got = interpret(adjoint.equations, {x: at, seed: np.ones_like(at)}, {N: len(at)})[result]
    np.testing.assert_allclose(got, (run(at + 1e-6) - run(at - 1e-6)) / 2e-6, rtol=1e-6, atol=1e-9)


def test_the_adjoint_of_a_chain_of_choices_is_as_long_as_the_chain():
    def nodes(length: int) -> int:
        eqs, x, y = chain_of_choices(length)
        seed, result = Tensor("seed", F64, y.shape), Tensor("gradient", F64, x.shape)
        adjoint = Equations("gradient", {"x": x, "seed": seed}, {"gradient": result})
        state_adjoint(adjoint, eqs.equations, {y: seed}, {x: result})
        return sum(1 for q in adjoint.equations for e in q.expressions for _ in walk(e))

    assert nodes(16) < 2.5 * nodes(8)


def test_a_chain_of_choices_is_interpreted_in_as_many_operations():
    """Elements that are chosen alike on the way are the same points, whichever path leads there."""

    def operations(length: int) -> int:
        eqs, x, _ = chain_of_choices(length)
        return calls(lambda: interpret(eqs.equations, {x: np.array([3.0, 0.1])}, {N: 2}))

    operations(2)
    assert operations(16) < 3 * operations(8)


GROUPS, CHANNELS, WIDE = 2, symbol("c"), symbol("d")


def of_windows(by: str) -> list[Equation]:
    """The equations of the gradient of windows of 3 taps over the channels of groups, by what they read or by their weights."""
    x, w = Tensor("x", F64, (GROUPS * CHANNELS, WIDE)), Tensor("w", F64, (GROUPS * M, CHANNELS, 3))
    y = Tensor("y", F64, (GROUPS * M, N))
    eqs = Equations("windows", {"x": x, "w": w}, {"y": y})
    h, i, p = eqs.index("h", GROUPS), eqs.index("i", M), eqs.index("p", N)
    eqs.define(
        y[h * M + i, p],
        reduce_("sum", [CHANNELS, 3], lambda j, q: pad(x, 0)[h * CHANNELS + j, 2 * p + q] * w[h * M + i, j, q]),
    )
    seed, of = Tensor("seed", F64, y.shape), {"x": x, "w": w}[by]
    result = Tensor("gradient", F64, of.shape)
    adjoint = Equations("gradient", {"x": x, "w": w, "seed": seed}, {"gradient": result})
    state_adjoint(adjoint, eqs.equations, {y: seed}, {of: result})
    return adjoint.equations


def sums(q: Equation) -> int:
    return sum(isinstance(e, Reduce) for e in walk(q.value))


def test_the_gradient_by_weights_of_groups_is_a_sum_for_each() -> None:
    """The index of groups, h * m + i, is two variables, so that nothing is added one after the other."""
    (q,) = of_windows("w")
    assert q.form is None and sums(q) == 1 and len(q.variables) == 4


def test_what_is_scattered_is_added_up_before() -> None:
    """The sum over the results' channels, which are in no index, is a product of matrices, and each element of it is added once."""
    zeros, part, added = of_windows("x")
    assert zeros.form is None and not sums(zeros)
    assert part.form is None and sums(part) == 1 and len(part.target.shape) == 4
    assert isinstance(added.form, Update) and not sums(added) and added.form.op == "add"


def test_one_tensor_in_different_groups() -> None:
    """The gradient is gathered for the groups of one read, and scattered for those of the other."""
    x, y = Tensor("x", F64, (6,)), Tensor("y", F64, (6,))
    eqs = Equations("both", {"x": x}, {"y": y})
    a, b = eqs.index("a", 2), eqs.index("b", 3)
    eqs.define(y[b * 2 + a], x[a * 3 + b] + 10 * x[b * 2 + a] + 100 * x[0])
    got = gradient(eqs, x, y, [(6,), (6,)], {})
    np.testing.assert_array_equal(got, [611.0, *[11.0] * 5])
