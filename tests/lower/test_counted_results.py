"""Products of windows count results where rows of these are long, and else places of the copy; epilogues whose rows walk memory as one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F32
from anyshape.equations.functions import cast, pad, reduce_
from anyshape.lower import Group, describe, lower_group
from anyshape.lower.analyse.windows import LONG
from anyshape.lower.emit.products import product_epilogue, product_operands
from anyshape.lower.target import host_target
from tests.lower.groups import B, Builder
from tests.lower.native import check

H, W = dims.symbol("h"), dims.symbol("w")
LEVELS = pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
LENGTHS = (1, 7, 14, 15, 16, 17, 30, 31, 32, 33, 47, 64, 70)
"""Results of a row: below and above what is long, whole vectors, and some that begin anywhere in a vector"""
SIZES = [{B: 1, H: 3, W: w} for w in LENGTHS] + [{B: 2, H: 9, W: 20}, {B: 1, H: 1, W: 18}, {B: 0, H: 4, W: 40}]


def layer(step: int = 1, dtype: str = "f32", image: Any = (H, W), after: str = "", last: bool = False) -> Group:
    """Five results of three channels under windows of 5 x 3 that move by `step`, with pads, for results as many as `image` has places.
    `after`: what is added, a bias of each column, the same of all results of a row, the position, or another image; `last`: results have
    their channels last, and weights are a constant."""
    b, batch = Builder("layer"), B if image == (H, W) else 1
    x = b.input([batch, 3, *((n - 1) * step + 1 for n in image)], dtype)
    w = b.input([5, 3, 3, 5] if last else [5, 3, 5, 3], dtype)
    y = b.tensor([batch, *image, 5] if last else [batch, 5, *image], "f64" if dtype == "f64" else "f32")
    index = b.eqs.indices("i", y.shape)
    n, o, i, j = (index[0], index[3], index[1], index[2]) if last else index
    seen, wide = pad(x, 0.0), dtype == "f16"

    def term(c: Any, p: Any, q: Any) -> Any:
        factors = seen[n, c, i * step + p - 2, j * step + q - 1], w[(p, q, c, o) if last else (o, c, p, q)]
        e, f = (cast(v, F32) for v in factors) if wide else factors
        return e * f

    value = reduce_("sum", [3, 5, 3], term)
    if after == "columns":
        value = value + b.input([image[1]])[j]
    elif after == "rows":
        value = value + b.input([image[0]])[i]
    elif after == "position":
        value = value * cast(i * 3 + j, F32)
    elif after == "image":
        value = value + b.input(list(y.shape))[index]
    b.eqs.define(y[index], value)
    b.output(y)
    group = b.group()
    if not last:
        return group
    values = np.random.default_rng(0).normal(size=(5, 3, 3, 5)).astype(np.float32)
    return replace(group, constants={w: values})


def columns(group: Group) -> int:
    """The number of columns of a product of known size."""
    match = re.search(r"columns \w+ in (\d+)", describe(group))
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("step", [1, 2])
def test_columns_are_results_where_rows_are_long(step: int) -> None:
    assert columns(layer(step, image=(4, LONG))) == 4 * LONG
    assert columns(layer(step, image=(4, LONG - 1))) == 4 * (LONG - 1 + 2 // step)


@LEVELS
@pytest.mark.parametrize(("step", "dtype"), [(1, "f32"), (2, "f32"), (3, "f32"), (1, "f64"), (2, "f64"), (1, "f16")])
def test_vectors_go_on_in_the_next_row(step: int, dtype: str, level: str) -> None:
    group = layer(step, dtype)
    assert "windows of x0" in describe(group)
    check(group, SIZES, target=host_target().limited(level), tolerance=1e-3 if dtype == "f16" else 2e-5, parts=(1, 2))


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_known_length(length: int) -> None:
    for step in (1, 2):
        check(layer(step, image=(5, length)), [{}], parts=(1, 2))


@LEVELS
def test_rows_of_a_product_count_results_too(level: str) -> None:
    """An image of few channels, of which the results have their channels last."""
    for step in (1, 2):
        group = layer(step, last=True)
        assert "gathered for" in describe(group) and "windows of x0" in describe(group)
        fixed = dict(group.constants)
        check(group, SIZES, fixed=fixed, target=host_target().limited(level), parts=(1, 2))


@LEVELS
@pytest.mark.parametrize("after", ["columns", "rows", "position", "image"])
def test_what_follows_the_sums_knows_its_row(after: str, level: str) -> None:
    check(layer(after=after), SIZES, target=host_target().limited(level), tolerance=1e-4, parts=(1, 2))


def test_a_vector_that_stays_in_its_row_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of rows that are no whole vectors are wrong without the lanes that are in the next row."""
    plain = product_operands.VectorPlace
    monkeypatch.setattr(product_operands, "VectorPlace", lambda start, gap, following: plain(start, gap, None))
    check(layer(), [{B: 1, H: 3, W: 32}])
    with pytest.raises(AssertionError):
        check(layer(), [{B: 1, H: 3, W: 20}])


def test_vectors_of_results_are_stored_whole_where_rows_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias of each column is another one in the next row: there a vector is stored row by row."""
    walks = product_epilogue._walk_as_one
    seen: dict[str, bool] = {}

    def noted(*arguments: Any) -> bool:
        seen[after] = walks(*arguments)
        return seen[after]

    monkeypatch.setattr(product_epilogue, "_walk_as_one", noted)
    for after in ("", "columns", "rows", "position", "image"):
        lower_group(layer(after=after), host_target())
    assert seen == {"": True, "columns": False, "rows": False, "position": False, "image": True}
    monkeypatch.setattr(product_epilogue, "_walk_as_one", lambda *_: True)
    with pytest.raises(AssertionError):
        check(layer(after="columns"), [{B: 1, H: 3, W: 20}])


def rows_of(after: str) -> Group:
    """A convolution of rows whose channels are last; `after`: what is added, a bias of each column of the image, or nothing."""
    b = Builder("rows")
    x, w = b.input([H, W, 16]), b.input([3, 3, 16, 32])
    y = b.tensor([H, W, 32])
    i, j, o = b.eqs.indices("i", y.shape)
    seen = pad(x, 0.0)
    value = reduce_("sum", [3, 3, 16], lambda p, q, c: seen[i + p - 1, j + q - 1, c] * w[p, q, c, o])
    b.eqs.define(y[i, j, o], value + b.input([W])[j] if after else value)
    b.output(y)
    values = np.random.default_rng(0).normal(size=(3, 3, 16, 32)).astype(np.float32)
    return replace(b.group(), constants={w: values})


@pytest.mark.parametrize(("after", "as_one"), [("", True), ("columns", False)])
def test_rows_that_walk_memory_as_one_are_not_taken_apart(
    after: str, as_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row's number is its place in the results, and no quotient of it is."""
    group = rows_of(after)
    divisions = lower_group(group, host_target()).text.count("udiv")
    monkeypatch.setattr(product_epilogue, "_walk_as_one", lambda *_: False)
    taken_apart = lower_group(group, host_target()).text.count("udiv")
    assert (divisions < taken_apart) == as_one
    monkeypatch.undo()
    check(group, [{H: 4, W: 9}, {H: 17, W: 5}, {H: 0, W: 3}], fixed=dict(group.constants), tolerance=1e-4, parts=(1, 2))
