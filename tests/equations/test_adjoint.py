"""The adjoint where tensors have no elements: what is never read gets nothing added to it."""

from collections.abc import Sequence

import numpy as np
import pytest

from anyshape.dims import symbol
from anyshape.dtypes import F64
from anyshape.equations import Equations, Tensor
from anyshape.equations.adjoint import state_adjoint
from anyshape.equations.functions import pad, reduce_
from anyshape.equations.interpret import interpret

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
