"""Remainders of a variable: of whole turns they become variables of their own, and others stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import dims, ops
from anyshape.equations.functions import quotient, remainder
from anyshape.lower import Group, describe
from tests.lower.groups import B, Builder
from tests.lower.native import check


def repeated(extent: dims.Size, n: dims.Size) -> Group:
    """Rows that repeat the first n elements of others, times what the number of the repetition chooses."""
    b = Builder("repeated")
    x, scale = b.input([B, n]), b.input([dims.ceil_div(extent, n)])
    y = b.tensor([B, extent])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[i, remainder(j, n)] * scale[quotient(j, n)])
    b.output(y)
    return b.group()


@pytest.mark.parametrize(
    ("extent", "n", "split"), [(96, 24, True), (4 * B, B, True), (12, 3, False), (100, 24, False), (B, 24, False)]
)
def test_whole_iterations_are_loops(extent: dims.Size, n: dims.Size, split: bool) -> None:
    group = repeated(extent, n)
    assert ("%" not in describe(group)) == split
    check(group, [{B: 1}, {B: 3}, {B: 37}])


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize(
    ("dims_of_x", "repeats"),
    [("n, 24", [1, 4]), ("n, m", [2, 3]), ("n, m, 3", [2, 1, 5]), ("n, 24", [3, 1, 0]), ("n, 1", [1, 40])],
)
def test_tensors_side_by_side(dims_of_x: str, repeats: list[int], level: str) -> None:
    x = anyshape.input("x", f"i16[{dims_of_x}]")
    exe = anyshape.compile(anyshape.function([x], ops.tile(x, repeats)), target=level, threads=1)
    for n in (0, 1, 3, 17, 40):
        shape = [{"n": n, "m": n + 5}.get(d) or (n if d == "n" else int(d)) for d in dims_of_x.split(", ")]
        data = np.arange(np.prod(shape)).astype(np.int16).reshape(shape)
        np.testing.assert_array_equal(exe(data), np.tile(data, repeats))
