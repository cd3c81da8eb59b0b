"""Sums with small constant tables: what is written out, what stays a loop, and results at edges, in tiles and in windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.equations import Tensor
from anyshape.equations.functions import pad, quotient, reduce_, remainder
from anyshape.lower import Group, describe, host_target, lower_group
from anyshape.lower.llvm.interleaving import interleaved, separated
from tests.lower.groups import B, Builder
from tests.lower.native import Native, check

H, W = dims.symbol("h"), dims.symbol("w")
SIZES = [{B: 1, H: 9, W: 9}, {B: 2, H: 4, W: 37}, {B: 3, H: 6, W: 5}, {B: 1, H: 3, W: 141}, {B: 0, H: 5, W: 5}]
TABLES = {
    "signs": [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    "pairs": [[1, 1, 1, 0.5], [0, 2, -2, 0], [0, 3, 3, 0], [0, 0, 0, 0]],
    "dense": [[0.5, -0.25, 3, 1], [2, 2, 2, 2], [-1, 1, -1, 1], [1.5, 0, 0, -0.75]],
}


def table(name: str) -> Any:
    return np.array(TABLES[name], np.float32)


def group_of(b: Builder, t: Tensor, array: Any, constant: bool = True) -> Group:
    g = b.group()
    return Group(g.name, g.equations, g.inputs, outputs=g.outputs, constants={t: array} if constant else {})


def spread(name: str, step: int, first: int = 1, constant: bool = True) -> tuple[Group, Tensor, Any]:
    """Windows of 4 by 4, `step` apart, with a table from both sides."""
    b = Builder("spread")
    x, t = b.input([B, 2, H, W]), b.input([4, 4])
    y = b.tensor([2, 4, 4, B, dims.ceil_div(H, step), dims.ceil_div(W, step)])
    c, i, j, n, p, q = b.eqs.indices("i", y.shape)
    seen = pad(x, 0.0)
    value = reduce_(
        "sum", [4, 4], lambda k, m: seen[n, c, p * step + k - first, q * step + m - first] * t[i, k] * t[j, m]
    )
    b.eqs.define(y[c, i, j, n, p, q], value)
    b.output(y)
    return group_of(b, t, table(name), constant), t, table(name)


def tiled(name: str, size: int, constant: bool = True, image: Any = (H, W)) -> tuple[Group, Tensor, Any]:
    """Tiles side by side of sums with a table from both sides, plus an operand of the result's shape."""
    b = Builder("tiled")
    h, w = image
    x = b.input([2, 4, 4, B, dims.ceil_div(h, size), dims.ceil_div(w, size)])
    t, z = b.input([4, 4]), b.input([B, 2, h, w])
    y = b.tensor([B, 2, h, w])
    n, c, r, s = b.eqs.indices("i", y.shape)
    total = reduce_(
        "sum",
        [4, 4],
        lambda k, m: (
            x[c, k, m, n, quotient(r, size), quotient(s, size)] * t[remainder(r, size), k] * t[remainder(s, size), m]
        ),
    )
    b.eqs.define(y[n, c, r, s], total * 2.0 + z[n, c, r, s])
    b.output(y)
    return group_of(b, t, table(name), constant), t, table(name)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("name", TABLES)
def test_windows_times_tables(name: str, step: int) -> None:
    group, t, array = spread(name, step)
    assert lower_group(group, host_target()).schedule == ("windows",)
    check(group, SIZES, fixed={t: array})


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("name", TABLES)
def test_results_in_tiles(name: str, size: int) -> None:
    group, t, array = tiled(name, size)
    assert lower_group(group, host_target()).schedule == ("tiles",)
    check(group, SIZES, fixed={t: array})


@pytest.mark.parametrize("side", [7, 8, 14, 16, 33])
def test_tiles_of_pictures_of_known_size(side: int) -> None:
    group, t, array = tiled("dense", 4, image=(side, side))
    assert lower_group(group, host_target()).schedule == ("tiles",)
    check(group, [{B: 2}], fixed={t: array})


@pytest.mark.parametrize("name", ["avx2", "sse"])
def test_other_processors(name: str) -> None:
    for group, t, array in (spread("signs", 4), tiled("pairs", 4)):
        check(group, SIZES[1:3], fixed={t: array}, target=host_target().limited(name))


def test_tables_that_are_no_constants_stay_loops() -> None:
    windows, results = spread("signs", 2, constant=False)[0], tiled("signs", 2, constant=False)[0]
    assert "sum" in describe(windows) and "sum" not in describe(spread("signs", 2)[0])
    assert lower_group(results, host_target()).schedule == ("rows",)
    for group in (windows, results):
        check(group, SIZES[:2])


def test_nothing_is_multiplied_by_zero_or_one() -> None:
    """The text has the additions of the table's signs, and no product."""
    group, _, _ = spread("signs", 2)
    text = lower_group(group, host_target()).text
    assert "fmul <" not in text and "llvm.fma" not in text and "fadd <" in text


def test_rows_that_differ_in_signs_share_their_sums() -> None:
    """A table of 4 rows, two of them the sum and the difference of two elements, from both sides: 4 + 2 additions for each line."""
    group, _, _ = spread("signs", 4)
    text = lower_group(group, host_target()).text
    assert text.count("fadd <") + text.count("fsub <") + text.count("fneg <") <= 2 * 4 * 4


def test_a_tile_without_products_is_zero() -> None:
    group, t, array = tiled("pairs", 4)
    native = Native(group)
    arrays = {
        v: np.ones([int(dims.evaluate(n, {B: 1, H: 8, W: 8})) for n in v.shape], np.float32) for v in group.inputs
    }
    _, (y,) = native.run({**arrays, t: array}, {B: 1, H: 8, W: 8})
    assert (y[0, 0, 3::4] == 1).all() and (y[0, 0, 0, 0] == 1 + 2 * 3.5**2)


def test_the_copy_is_described() -> None:
    group, _, _ = spread("signs", 2)
    assert "windows of x0" in describe(group)


class Lanes:
    """A builder of which only shuffles are wanted, on lists of numbers."""

    def shuffle(self, a: Any, b: Any, lanes: list[int]) -> Any:
        both = [*a.values, *b.values]
        return Numbers([both[k] if k >= 0 else -1 for k in lanes])


class Numbers:
    """A vector of numbers, as far as a builder asks for its type."""

    def __init__(self, values: list[int]) -> None:
        self.values, self.type = values, self

    @property
    def lanes(self) -> int:
        return len(self.values)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_interleaving(count: int, lanes: int) -> None:
    f: Any = Lanes()
    vectors: Any = [Numbers(list(range(k * lanes, (k + 1) * lanes))) for k in range(count)]
    parts = separated(f, vectors)
    assert [v.values for v in parts] == [list(range(r, count * lanes, count)) for r in range(count)]
    assert [v.values for v in interleaved(f, parts)] == [v.values for v in vectors]
