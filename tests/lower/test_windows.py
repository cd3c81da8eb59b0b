"""Windows over a copy: which reductions become some, and what comes out at edges, by remainder, and where rows of places are longer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F32, parse_dtype
from anyshape.equations.functions import cast, pad, reduce_, where
from anyshape.lower import Group, describe, lower_group
from anyshape.lower.analyse.windows import ROOM
from anyshape.lower.emit.windowed import windows as emitted_windows
from anyshape.lower.emit.windowed.windows import HALVED
from anyshape.lower.target import host_target
from tests.lower.groups import B, Builder
from tests.lower.native import check

H, W = dims.symbol("h"), dims.symbol("w")
SIZES = [{B: 1, H: 9, W: 9}, {B: 2, H: 4, W: 37}, {B: 3, H: 6, W: 5}, {B: 1, H: 40, W: 3}, {B: 0, H: 5, W: 5}]


def windows(
    kind: str,
    step: int,
    spread: int,
    channels: int = 0,
    taps: int = 3,
    image: Any = (H, W),
    batch: Any = B,
    dtype: str = "f32",
    term: Callable[[Any, Any], Any] | None = None,
) -> Group:
    """Rows and columns of x under a window with a pad of one; with `channels`, times weights for that many results; `term` of each element
    and the weight of its tap."""
    b = Builder("windows")
    reach = (taps - 1) * spread - 2
    x = b.input([batch, max(channels, 2), *image], dtype)
    tall, wide = ((n - reach - 1) // step + 1 for n in image)
    y = b.tensor([batch, max(channels, 2), tall, wide], dtype)
    n, c, i, j = b.eqs.indices("i", y.shape)
    outside = {"sum": 0.0, "prod": 1.0, "min": 2.0}.get(kind, -2.0)
    seen = pad(x, outside if parse_dtype(dtype).is_float else 2)

    def at(p: Any, q: Any) -> Any:
        return p * step + q * spread - 1

    if channels:
        w = b.input([channels, channels, taps, taps])
        value = reduce_("sum", [channels, taps, taps], lambda d, p, q: seen[n, d, at(i, p), at(j, q)] * w[c, d, p, q])
    elif term is not None:
        w = b.input([taps, taps])
        value = reduce_(kind, [taps, taps], lambda p, q: term(seen[n, c, at(i, p), at(j, q)], w[p, q]))
    else:
        value = reduce_(kind, [taps, taps], lambda p, q: seen[n, c, at(i, p), at(j, q)])
    b.eqs.define(y[n, c, i, j], value)
    b.output(y)
    return b.group()


LEVELS = pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])


@LEVELS
@pytest.mark.parametrize(("step", "spread"), [(1, 1), (2, 1), (3, 1), (1, 2)])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_windows_are_reduced_one_dim_after_the_other(kind: str, step: int, spread: int, level: str) -> None:
    group = windows(kind, step, spread)
    assert lower_group(group, host_target()).schedule == ("folded",)
    check(group, SIZES, target=host_target().limited(level))


@LEVELS
@pytest.mark.parametrize("taps", [2, 5, 8])
def test_shifts_are_as_far_as_windows_reach(taps: int, level: str) -> None:
    """Across three vectors and more, where vectors are short."""
    group = windows("max", 1, 2 if taps < 8 else 1, taps=taps)
    assert lower_group(group, host_target()).schedule == ("folded",)
    check(group, [{B: 1, H: 20, W: 37}, {B: 2, H: 17, W: 19}], target=host_target().limited(level))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "u8", "i32"])
def test_extremes_of_windows_of_any_dtype(dtype: str, kind: str) -> None:
    group = windows(kind, 1, 1, dtype=dtype)
    assert lower_group(group, host_target()).schedule == ("folded",)
    check(group, SIZES)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("kind", "dtype"), [("max", "f32"), ("sum", "f32"), ("sum", "f16")])
def test_planes_are_copied_some_at_a_time(kind: str, dtype: str, step: int) -> None:
    """There are more planes than are copied together, and planes that are too large for two of them."""
    term = None if kind == "max" else lambda value, weight: cast(value, F32) * cast(weight, F32)
    group = windows(kind, step, 1, dtype=dtype, term=term)
    sizes = [{B: 9, H: 4, W: 5}, {B: 1, H: 70, W: 70}, {B: 2, H: 20, W: 40}]
    check(group, sizes, special=kind == "max", tolerance=1e-2 if dtype == "f16" else 2e-5)
    assert f"udiv i64 {ROOM}" in lower_group(group, host_target()).text


@LEVELS
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_nan_is_in_all_windows_that_see_it(dtype: str, kind: str, level: str) -> None:
    """NaN is in one plane and not in the other, which has the version without it."""
    group = windows(kind, 1, 1, dtype=dtype)
    (x,) = group.inputs
    for at in [(0, 0, 0, 0), (0, 1, 8, 20), (0, 0, 3, 15), (0, 1, 4, 16)]:
        values = np.random.default_rng(0).normal(size=(1, 2, 9, 21)).astype(parse_dtype(dtype).numpy)
        values[at] = np.nan
        check(group, [{B: 1, H: 9, W: 21}], fixed={x: values}, target=host_target().limited(level))


@pytest.mark.parametrize(("step", "spread"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_what_is_reduced_is_made_once_of_each_element(step: int, spread: int) -> None:
    """A window with weights of its own for each tap has no columns in common with others."""
    plain, weighted = (windows("sum", step, spread, term=term) for term in (lambda e, w: e * e, lambda e, w: e * w))
    assert lower_group(plain, host_target()).schedule == ("folded",)
    assert lower_group(weighted, host_target()).schedule == ("windows",)
    for group in (plain, weighted):
        check(group, SIZES)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_rows_of_results_are_computed_together(level: str) -> None:
    """Rows are eight at most, or four, and some are beyond the last; what is added to a result may lie where the result is stored."""
    b = Builder("depthwise")
    x, w, more = b.input([2, H + 2, W + 2]), b.input([2, 3, 3]), b.input([2, H, W])
    y = b.tensor([2, H, W])
    c, i, j = b.eqs.indices("i", y.shape)
    product = reduce_("sum", [3, 3], lambda p, q: x[c, i + p, j + q] * w[c, p, q])
    b.eqs.define(y[c, i, j], product + more[c, i, j])
    b.output(y)
    native = check(b.group(), [{H: h, W: 19} for h in range(22)], target=host_target().limited(level))
    assert native.kernel.schedule == ("windows",)
    assert native.kernel.reusable


@pytest.mark.parametrize("level", ["", "avx2"])
@pytest.mark.parametrize("taps", [3, 5])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_short_rows_of_results_fill_half_vectors(step: int, taps: int, level: str) -> None:
    """There are versions of the loops over planes for rows of up to half the lanes and for longer ones, and one where vectors are short.
    Two rows of half a vector are multiplied as one."""
    target = host_target().limited(level) if level else host_target()
    group, half = windows("sum", step, 1, taps=taps, term=lambda x, w: x * w), target.lanes(4) // 2
    sides = [taps - 2 + (side - 1) * step for side in (1, half - 1, half, half + 1, 2 * half + 1)]
    check(group, [{B: 3, H: h, W: w} for h, w in zip(sides, reversed(sides), strict=True)], target=target)
    text = lower_group(group, target).text
    multiplied, stored = (
        {int(n) for n in re.findall(rf"@llvm.{name}.v(\d+)f32", text)} for name in ("fma", "masked.store")
    )
    assert multiplied == {2 * half}
    assert stored == ({half, 2 * half} if target.vector_bytes > HALVED else {2 * half})
    known = windows("sum", step, 1, taps=taps, term=lambda x, w: x * w, image=(20, sides[2]))
    check(known, [{B: 2}], target=target)


def test_what_varies_with_the_row_is_computed_row_by_row() -> None:
    b = Builder("own weights")
    x, w = b.input([2, H + 2, W + 2]), b.input([H, 3, 3])
    y = b.tensor([2, H, W])
    c, i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[c, i, j], reduce_("sum", [3, 3], lambda p, q: x[c, i + p, j + q] * w[i, p, q]))
    b.output(y)
    native = check(b.group(), [{H: h, W: 19} for h in (0, 1, 5, 9)])
    assert native.kernel.schedule == ("windows",)


@pytest.mark.parametrize(("step", "spread"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_products_of_windows(step: int, spread: int) -> None:
    group = windows("sum", step, spread, channels=3)
    assert "windows of x0" in describe(group)
    check(group, SIZES)


@pytest.mark.parametrize("side", [7, 8, 14, 28])
@pytest.mark.parametrize(("step", "spread"), [(1, 1), (2, 1), (1, 2)])
def test_images_of_known_size_have_the_same_windows(step: int, spread: int, side: int) -> None:
    """A channel whose sizes are numbers is a whole number of rows, and a row of elements, all of which are steps of a window too."""
    rows, product = (windows("sum", step, spread, c, image=(side, side), batch=1) for c in (0, 16))
    assert lower_group(rows, host_target()).schedule == ("folded",)
    assert "windows of x0" in describe(product)
    for group in (rows, product):
        check(group, [{}])


def test_channels_of_a_small_image_are_no_window() -> None:
    b = Builder("sum of channels")
    x, y = b.input([3, 4, 5]), b.tensor([4, 5])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [3], lambda c: x[c, i, j]))
    b.output(y)
    group = b.group()
    assert lower_group(group, host_target()).schedule != ("windows",)
    check(group, [{}])


def test_what_does_not_overlap_and_has_no_pads_stays_channels() -> None:
    """A batch of three channels is no window that moves by three."""
    assert "windows of x0 over i2 by" in describe(windows("sum", 1, 1, channels=3))


def test_a_condition_that_is_data_is_no_pad() -> None:
    """Reads guarded by it look like padded ones, but where it fails is not where they end."""
    b = Builder("guarded")
    x, keep = b.input([B, W]), b.input([B, W], "bool")
    y = b.tensor([B, W - 2])
    n, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, j], reduce_("sum", [3], lambda q: where(keep[n, j + q], x[n, j + q], 0.0)))
    b.output(y)
    check(b.group(), [{B: 2, W: 40}, {B: 1, W: 5}])


def test_long_windows_are_not_written_out() -> None:
    assert lower_group(windows("max", 1, 1, taps=9), host_target()).schedule == ("rows",)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_pad_may_be_a_scalar_in_memory(step: int, level: str) -> None:
    """Pads of integers that stand for floats are their zero point."""
    group = codes_under_windows(step, of_channel=False)
    assert lower_group(group, host_target()).schedule == ("folded",)
    check(group, SIZES, target=host_target().limited(level))


def test_a_pad_that_varies_is_computed_in_place() -> None:
    group = codes_under_windows(1, of_channel=True)
    assert lower_group(group, host_target()).schedule not in (("windows",), ("folded",))
    check(group, SIZES)


def codes_under_windows(step: int, of_channel: bool) -> Group:
    """Sums of u8 less a zero point, one for all or one of each channel, which pads are."""
    b = Builder("codes")
    x, zero = b.input([B, 2, H, W], "u8"), b.input([2] if of_channel else [], "u8")
    y = b.tensor([B, 2, (H - 1) // step + 1, (W - 1) // step + 1], "i32")
    n, c, i, j = b.eqs.indices("i", y.shape)
    point = zero[c] if of_channel else zero[()]
    seen = pad(x, point)
    wide = parse_dtype("i32")

    def tap(p: Any, q: Any) -> Any:
        return cast(seen[n, c, i * step + p - 1, j * step + q - 1], wide) - cast(point, wide)

    b.eqs.define(y[n, c, i, j], reduce_("sum", [3, 3], tap))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_rows_of_places_fill_a_tile_of_more_rows_than_a_vector_has_lanes(level: str) -> None:
    """An image of few channels, of which the results have their channels last."""
    b = Builder("places")
    x, w = b.input([B, 3, H, W]), b.input([3, 3, 3, 21])
    y = b.tensor([B, H, W, 21])
    n, i, j, o = b.eqs.indices("i", y.shape)
    seen = pad(x, 0.0)
    b.eqs.define(
        y[n, i, j, o], reduce_("sum", [3, 3, 3], lambda c, p, q: seen[n, c, i + p - 1, j + q - 1] * w[p, q, c, o])
    )
    b.output(y)
    values = np.random.default_rng(0).normal(size=(3, 3, 3, 21)).astype(np.float32)
    group = replace(b.group(), constants={w: values})
    assert "windows of x0" in describe(group)
    check(group, SIZES, fixed={w: values}, target=host_target().limited(level))


def results_of_planes(step: int, results: int, dtype: str = "f32") -> Group:
    """`results` of each plane of x under windows of 3 x 3, each with weights of its own."""
    b = Builder("results of planes")
    x, w = b.input([B, 3, H, W], dtype), b.input([3, results, 3, 3], dtype)
    y = b.tensor([B, 3, results, (H - 1) // step + 1, (W - 1) // step + 1])
    n, c, m, i, j = b.eqs.indices("i", y.shape)
    seen, wide = pad(x, 0.0), dtype != "f32"

    def product(p: Any, q: Any) -> Any:
        factors = seen[n, c, i * step + p - 1, j * step + q - 1], w[c, m, p, q]
        e, f = (cast(v, F32) for v in factors) if wide else factors
        return e * f

    b.eqs.define(y[n, c, m, i, j], reduce_("sum", [3, 3], product))
    b.output(y)
    return b.group()


@LEVELS
@pytest.mark.parametrize(
    ("step", "results", "schedule"), [(1, 2, "windows"), (1, 40, "windows"), (2, 8, "windows"), (2, 9, "product")]
)
def test_several_results_of_a_plane_are_no_product(step: int, results: int, schedule: str, level: str) -> None:
    """Rows of a copy, made once for all results, take the place of a product for which each tap would be packed for few results."""
    native = check(results_of_planes(step, results), SIZES, target=host_target().limited(level))
    assert native.kernel.schedule == (schedule,)


def test_narrow_planes_are_copied_once() -> None:
    check(results_of_planes(1, 5, "f16"), SIZES, tolerance=1e-3)


def test_one_copy_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is taken for twice as many results as are of it gives wrong ones."""
    group = results_of_planes(1, 5)
    plain = emitted_windows._copied_once

    def more(*arguments: Any) -> Any:
        copied, each = plain(*arguments)
        return copied, arguments[0].f.mul(each, 2)

    once = lower_group(group, host_target()).text
    monkeypatch.setattr(emitted_windows, "_copied_once", lambda ctx, variables, staged: (variables, None))
    assert lower_group(group, host_target()).text != once
    check(group, SIZES)
    monkeypatch.setattr(emitted_windows, "_copied_once", more)
    with pytest.raises(AssertionError):
        check(group, SIZES)
