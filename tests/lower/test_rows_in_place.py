"""Rows of windows that are read where they lie: which are, and what comes out where windows are partly or wholly in the pads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F32, parse_dtype
from anyshape.equations.expr import apply
from anyshape.equations.functions import cast, pad, reduce_
from anyshape.lower import Group, describe, host_target, lower_group
from anyshape.lower.emit.products import product
from anyshape.lower.gemm import tap_rows
from anyshape.lower.gemm.microkernels import adding_name, table_name
from anyshape.lower.gemm.tap_rows import rows_at_once
from anyshape.lower.gemm.tiles import tiles_for
from anyshape.lower.llvm.types import F16 as HALVES
from anyshape.lower.llvm.types import F32 as FLOATS
from anyshape.lower.schedule import rows_in_place
from anyshape.lower.schedule.rows_in_place import LEAST_STEPS, LEAST_WITHOUT_PADS
from tests.lower.groups import B, Builder
from tests.lower.native import Native, check

D, H, W = dims.symbol("d"), dims.symbol("h"), dims.symbol("w")
SIZES = [
    {B: 1, H: 7, W: 7},
    {B: 3, H: 1, W: 2},
    {B: 2, H: 5, W: 31},
    {B: 0, H: 4, W: 4},
    {B: 1, H: 0, W: 3},
    {B: 1, H: 2, W: 130},
]
TYPES = {"f32": FLOATS, "f16": HALVES}
LINE = 4096
"""Bytes between rows of A that drive each other out of the first cache."""


@dataclass(frozen=True)
class Windows:
    """A convolution of channels that lie last, `image` being its spatial dims."""

    image: Sequence[Any] = (H, W)
    channels: int = 16
    results: int = 40
    taps: int = 3
    step: int = 1
    spread: int = 1
    pads: int = 1
    dtype: str = "f32"
    groups: int = 1
    value: float = 0.0
    """What is outside of the image."""
    weight: float | None = None
    """One of the weights, if that is no random number."""
    rounding: str | None = None
    """The operation that rounds both factors, if one does."""

    def group(self) -> Group:
        b, rank = Builder("convolution"), len(self.image)
        x = b.input([B, *self.image, self.groups * self.channels], self.dtype)
        w = b.input([self.groups, self.channels, *[self.taps] * rank, self.results], self.dtype)
        reach = (self.taps - 1) * self.spread + 1
        rooms = [dims.maximum(n + 2 * self.pads - reach + self.step, 0) // self.step for n in self.image]
        y = b.tensor([B, *rooms, self.groups, self.results], "f32")
        n, *rest = b.eqs.indices("i", y.shape)
        *places, g, i = rest
        wide = self.dtype != "f32"
        seen = pad(x, self.value) if self.pads else x

        def product(c: Any, *q: Any) -> Any:
            at = [p * self.step + t * self.spread - self.pads for p, t in zip(places, q, strict=True)]
            factors = seen[(n, *at, g * self.channels + c)], w[(g, c, *q, i)]
            p, r = (cast(v, F32) for v in factors) if wide else factors
            return p * r if self.rounding is None else apply(self.rounding, p) * apply(self.rounding, r)

        b.eqs.define(y[(n, *places, g, i)], reduce_("sum", [self.channels, *[self.taps] * rank], product))
        b.output(y)
        numbers = np.random.default_rng(3).normal(size=[int(v) for v in w.shape if isinstance(v, int)])
        if self.weight is not None:
            numbers.reshape(-1)[5] = self.weight
        return replace(b.group(), constants={w: numbers.astype(parse_dtype(self.dtype).numpy)})


def checked(windows: Windows, sizes: Sequence[Any] = tuple(SIZES), **options: Any) -> Native:
    group = windows.group()
    return check(group, sizes, fixed=group.constants, tolerance=2e-4, **options)


def is_in_place(windows: Windows) -> bool:
    text = describe(windows.group())
    assert ("read in place" in text) is not ("gathered" in text)
    return "read in place" in text


@pytest.mark.parametrize("level", ["sse", "avx2", "avx512"])
@pytest.mark.parametrize(
    "windows",
    [
        Windows(),
        Windows(taps=5, pads=2),
        Windows(step=2),
        Windows(step=3, taps=4, pads=3),
        Windows(spread=2, pads=2),
        Windows(spread=3, pads=1, taps=2, step=2),
        Windows(pads=0, channels=24),
        Windows(pads=6),
        Windows(results=5),
        Windows(results=16),
        Windows(groups=2, channels=32),
        Windows(dtype="f16"),
        Windows(dtype="bf16", groups=2, channels=32, step=2),
    ],
    ids=str,
)
def test_windows_at_all_edges(windows: Windows, level: str) -> None:
    assert is_in_place(windows)
    checked(windows, target=host_target().limited(level))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(
    ("image", "more"), [((W,), {}), ((D, H, W), {"taps": 2}), ((D, H, W), {"step": 2, "pads": 2})], ids=str
)
def test_any_number_of_dims(image: Sequence[Any], more: dict[str, int], dtype: str) -> None:
    windows = Windows(image, dtype=dtype, **more)
    assert is_in_place(windows)
    sizes = [{D: 3, **s} for s in SIZES]
    checked(windows, sizes)


def test_what_is_not_finite_stays_where_it_is_seen() -> None:
    checked(Windows(), special=True)


@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_products_of_pads_that_are_no_zeros_are_not_left_out(weight: float, dtype: str) -> None:
    assert is_in_place(Windows(dtype=dtype, weight=1e30))
    windows = Windows(dtype=dtype, weight=weight)
    assert not is_in_place(windows)
    checked(windows)


def test_pads_that_are_no_zeros_are_gathered() -> None:
    windows = Windows(value=1.0)
    assert not is_in_place(windows)
    checked(windows)


def test_calls_of_few_steps_are_gathered() -> None:
    assert is_in_place(Windows(channels=LEAST_STEPS // 2))
    assert is_in_place(Windows(channels=LEAST_STEPS, spread=2, pads=2))
    assert not is_in_place(Windows(channels=LEAST_STEPS - 1, spread=2, pads=2)), "taps do not lie side by side"
    assert not is_in_place(Windows(channels=4))


def test_calls_have_more_steps_where_no_tap_is_left_out() -> None:
    for channels, pads, expected in ((16, 1, True), (16, 0, False), (24, 0, True)):
        assert (3 * channels >= LEAST_WITHOUT_PADS) is (channels == 24)
        assert is_in_place(Windows(channels=channels, pads=pads)) is expected


def test_rows_that_share_few_lines_of_the_cache_are_gathered() -> None:
    assert is_in_place(Windows(channels=LINE // 8))
    assert not is_in_place(Windows(channels=LINE // 4))
    assert not is_in_place(Windows(channels=LINE // 8, step=2))


def test_long_lines_are_cut() -> None:
    """Sums of a line that is longer stay in scratch of the same size."""
    most = rows_at_once(tiles_for(host_target(), FLOATS))
    native = checked(Windows((W,)), [{B: 2, W: n} for n in (most - 1, most, most + 1, 2 * most + 1)])
    assert native.kernel.scratch == tap_rows.tap_scratch_bytes(tiles_for(host_target(), FLOATS))


def test_a_tap_more_or_less_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of taps that all positions of a tile have is wrong by one."""
    whole = tap_rows._TapDriver._whole

    def one_more(self: Any, tile: Any) -> Any:
        first, count = whole(self, tile)
        return first, self.f.smin(self.f.add(count, 1), self.last.taps)

    monkeypatch.setattr(tap_rows._TapDriver, "_whole", one_more)
    with pytest.raises(AssertionError):
        checked(Windows(weight=2.5), SIZES[:1])


def test_a_bound_that_is_ignored_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(*arguments: Any) -> Any:
        return (None,) * (len(arguments[1]) - 1)

    monkeypatch.setattr(rows_in_place, "_bounds", unbounded)
    with pytest.raises(AssertionError):
        checked(Windows(weight=3.5), [{B: 3, H: 9, W: 9}])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_short_lines_are_gathered_where_columns_come_from_afar(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Native(Windows(dtype=dtype).group()).kernel
    monkeypatch.setattr(product._ProductEmission, "is_far", True)
    windows = Windows(dtype=dtype)
    far = checked(windows, [*SIZES, *({B: 2, H: h, W: w} for h in (1, 3) for w in range(1, product.SHORT + 1))]).kernel
    assert [kernel.imports.count(table_name(FLOATS, TYPES[dtype])) for kernel in (near, far)] == [0, 1]
    short, long = (Native(replace(windows, image=(H, n)).group()).kernel for n in (product.SHORT - 1, product.SHORT))
    assert [adding_name(FLOATS, TYPES[dtype]) in kernel.imports for kernel in (short, long)] == [False, True]
    assert [table_name(FLOATS, TYPES[dtype]) in kernel.imports for kernel in (short, long)] == [True, False]


@pytest.mark.parametrize(("results", "is_far"), [(100, False), (20000, True)])
def test_columns_are_far_where_the_second_cache_does_not_hold_them(results: int, is_far: bool) -> None:
    kernel = lower_group(Windows(results=results).group(), host_target())
    assert (table_name(FLOATS, FLOATS) in kernel.imports) is is_far
