"""The adjoint where tensors have no elements: what is never read gets nothing added to it."""

from collections.abc import Sequence

import numpy as np
import pytest

from anyshape.dims import symbol
from anyshape.dtypes import F64
from anyshape.equations import Equations, Tensor
from anyshape.equations.adjoint import state_adjoint
from anyshape.equations.builder import Equation, Update
from anyshape.equations.expr import Reduce
from anyshape.equations.functions import pad, reduce_
from anyshape.equations.interpret import interpret
from anyshape.equations.traversal import walk

N, M = symbol("n"), symbol("m")


def gradient(eqs: Equations, x: Tensor, y: Tensor, shapes: Sequence[tuple[int, ...]], sizes: dict) -> np.ndarray:
    """Of the sum of y's elements by x, whose elements are 2; `shapes` are theirs."""
    seed, wanted = Tensor("seed", F64, y.shape), Tensor("gradient", F64, x.shape)
    found = Equations("gradient", {"x": x, "seed": seed}, {"gradient": wanted})
    state_adjoint(found, eqs.equations, {y: seed}, {x: wanted})
    given = {x: np.full(shapes[0], 2.0), seed: np.ones(shapes[1])}
    return interpret(found.equations, given, sizes)[wanted]


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


@pytest.mark.parametrize(("n", "turns"), [(0, 0), (6, 0), (6, 2)])
def test_a_sum_of_no_turns_reads_nothing(n, turns):
    """Of the two variables of the sum neither index nor value have the one without values."""
    x, y = Tensor("x", F64, (N,)), Tensor("y", F64, ())
    eqs = Equations("strided", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("sum", [M, 3], lambda t, j: x[2 * j]))
    got = gradient(eqs, x, y, [(n,), ()], {N: n, M: turns})
    np.testing.assert_array_equal(got, np.tile([float(turns), 0.0], 3)[:n])


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
    wanted = Tensor("gradient", F64, of.shape)
    found = Equations("gradient", {"x": x, "w": w, "seed": seed}, {"gradient": wanted})
    state_adjoint(found, eqs.equations, {y: seed}, {of: wanted})
    return found.equations


def sums(q: Equation) -> int:
    return sum(isinstance(e, Reduce) for e in walk(q.value))


def test_the_gradient_by_weights_of_groups_is_a_sum_for_each() -> None:
    """Their index, h * m + i, is two variables, so that nothing is added one after the other."""
    (q,) = of_windows("w")
    assert q.form is None and sums(q) == 1 and len(q.variables) == 4


def test_what_is_scattered_is_added_up_before() -> None:
    """Over the results' channels, which are in no index: the sum is a product of matrices, and each element of it is added once."""
    zeros, part, added = of_windows("x")
    assert zeros.form is None and not sums(zeros)
    assert part.form is None and sums(part) == 1 and len(part.target.shape) == 4
    assert isinstance(added.form, Update) and not sums(added) and added.form.op == "add"


def test_one_tensor_in_different_groups() -> None:
    """Its gradient is gathered for the groups of one read, and scattered for those of the other."""
    x, y = Tensor("x", F64, (6,)), Tensor("y", F64, (6,))
    eqs = Equations("both", {"x": x}, {"y": y})
    a, b = eqs.index("a", 2), eqs.index("b", 3)
    eqs.define(y[b * 2 + a], x[a * 3 + b] + 10 * x[b * 2 + a] + 100 * x[0])
    got = gradient(eqs, x, y, [(6,), (6,)], {})
    np.testing.assert_array_equal(got, [611.0, *[11.0] * 5])
