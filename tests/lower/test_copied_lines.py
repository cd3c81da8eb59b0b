"""Rows of words that matrix tiles read from a copy of lines: which are, at all edges, for several images, and in blocks of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import I32
from anyshape.equations.functions import cast, pad, reduce_
from anyshape.lower import Group, describe, lower_group
from anyshape.lower.emit.products import copied_lines
from anyshape.lower.gemm import tap_tiles
from anyshape.lower.gemm.codes import Side, tiled
from anyshape.lower.gemm.pairs import TILED
from tests.lower.groups import B, Builder
from tests.lower.native import check
from tests.lower.test_rows_in_place import D, H, W, Windows
from tests.lower.tile_targets import EMULATED, HOST, TRUE, packs_words

pytestmark = packs_words

PAIRS = Windows(channels=32, rounding="round_bf16")
SIZES = [
    {B: 1, H: 7, W: 7},
    {B: 3, H: 1, W: 2},
    {B: 2, H: 9, W: 31},
    {B: 0, H: 4, W: 4},
    {B: 1, H: 0, W: 3},
    {B: 1, H: 3, W: 66},
    {B: 5, H: 6, W: 5},
]


def checked(windows: Windows, sizes: Sequence[Any] = tuple(SIZES), target: Any = EMULATED, **options: Any) -> None:
    group = windows.group()
    check(group, sizes, fixed=group.constants, tolerance=2e-4, target=target, **options)


def is_copied(windows: Windows, target: Any = EMULATED) -> bool:
    return TILED.taps in lower_group(windows.group(), target).imports


@pytest.fixture(params=["chosen", "always"])
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read from a copy where that pays, or always."""
    if request.param == "always":
        monkeypatch.setattr(copied_lines, "COPIED", 1000)
        monkeypatch.setattr(copied_lines, "FEW", 0)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    "windows",
    [
        PAIRS,
        replace(PAIRS, taps=5, pads=2, channels=64),
        replace(PAIRS, pads=0, results=32),
        replace(PAIRS, pads=4, results=5),
        replace(PAIRS, taps=2, results=70),
    ],
    ids=str,
)
def test_windows_at_all_edges(windows: Windows) -> None:
    assert is_copied(windows)
    checked(windows)


@pytest.mark.usefixtures("chosen")
def test_lines_of_one_dim() -> None:
    windows = replace(PAIRS, image=(W,), taps=5, pads=2)
    assert is_copied(windows)
    checked(windows, [*SIZES, {B: 2, W: 300}])


def bytes_(dtype: str, point: int, channels: int = 64, pads: int = 1) -> Group:
    """A convolution of bytes less a zero point, which pads are."""
    b = Builder("convolution of bytes")
    x, w = b.input([B, H, W, channels], dtype), b.input([channels, 3, 3, 40], "i8")
    y = b.tensor([B, *(dims.maximum(n + 2 * pads - 2, 0) for n in (H, W)), 40], "i32")
    n, i, j, o = b.eqs.indices("i", y.shape)
    seen = pad(x, point) if pads else x

    def product(c: Any, p: Any, q: Any) -> Any:
        less = cast(seen[n, i + p - pads, j + q - pads, c], I32) - point
        return less * cast(w[c, p, q, o], I32)

    b.eqs.define(y[n, i, j, o], reduce_("sum", [channels, 3, 3], product))
    b.output(y)
    weights = np.random.default_rng(3).integers(-127, 128, (channels, 3, 3, 40)).astype(np.int8)
    return replace(b.group(), constants={w: weights})


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("dtype", "point", "pads"), [("i8", -128, 1), ("i8", 5, 1), ("u8", 0, 2), ("u8", 130, 1), ("u8", 7, 0)]
)
def test_bytes_at_all_edges(dtype: str, point: int, pads: int) -> None:
    group = bytes_(dtype, point, pads=pads)
    assert tiled(Side(True)).taps in lower_group(group, EMULATED).imports
    check(group, SIZES, fixed=group.constants, target=EMULATED)


def test_bytes_that_are_no_whole_tiles_are_gathered() -> None:
    for level in (EMULATED, EMULATED.without_tiles):
        assert tiled(Side(True)).taps not in lower_group(bytes_("u8", 7, channels=32), level).imports
    assert tiled(Side(True)).taps not in lower_group(bytes_("u8", 7), EMULATED.without_tiles).imports


@pytest.mark.skipif(HOST.matrix_tiles is None, reason="this processor has no matrix tiles")
def test_the_instructions_give_the_same() -> None:
    checked(PAIRS, target=TRUE)


def test_lines_are_copied_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap_tiles, "_block_bytes", lambda tiles: 4096)
    checked(PAIRS, [{B: 3, H: 11, W: 9}, {B: 1, H: 5, W: 200}])


def test_what_is_not_finite_stays_where_it_is_seen() -> None:
    checked(PAIRS, special=True)
    checked(replace(PAIRS, weight=float("inf")))


@pytest.mark.parametrize(
    "windows",
    [
        replace(PAIRS, step=2),
        replace(PAIRS, spread=2, pads=2),
        replace(PAIRS, channels=48),
        replace(PAIRS, groups=2),
        replace(PAIRS, value=1.0),
        replace(PAIRS, image=(D, H, W)),
        replace(PAIRS, rounding="round_f16"),
        replace(PAIRS, rounding=None),
    ],
    ids=str,
)
def test_others_are_gathered(windows: Windows) -> None:
    assert not is_copied(windows)


def test_vectors_gather() -> None:
    assert not is_copied(PAIRS, EMULATED.without_tiles)
    assert "copy of lines" in describe(PAIRS.group()) and "copy of lines" not in describe(
        replace(PAIRS, step=2).group()
    )


@pytest.mark.parametrize("name", ["_has_line", "_has_results"])
def test_a_line_that_is_taken_for_another_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of pads are taken for those of images, or tiles of an image for those between two."""
    decide = getattr(tap_tiles._TapTileDriver, name)
    monkeypatch.setattr(tap_tiles._TapTileDriver, name, lambda self, *args: self.f.not_(decide(self, *args)))
    with pytest.raises(AssertionError):
        checked(PAIRS, [{B: 2, H: 9, W: 31}])


@pytest.mark.parametrize(
    ("image", "is_copied"),
    [
        ((1, 7, 7), True),
        ((4, 3, 3), False),
        ((1, 3, 3), True),
        ((2, 7, 7), True),
        ((13, 7, 7), True),
        ((9, 3, 3), False),
    ],
)
def test_few_positions_are_gathered(
    image: tuple[int, int, int], is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 lines of 7 positions have 63 places, two tiles as 49 rows are; 4 images of 3 x 3 have 90, three tiles instead of two, and few; 2 of
    7 x 7 have five instead of four, and 13 of them 33 instead of 20. A copy of nothing but pads shows which it is."""
    has_line = tap_tiles._TapTileDriver._has_line
    monkeypatch.setattr(tap_tiles._TapTileDriver, "_has_line", lambda self, n: self.f.not_(has_line(self, n)))
    sizes = [dict(zip((B, H, W), image, strict=True))]
    if is_copied:
        with pytest.raises(AssertionError):
            checked(PAIRS, sizes)
    else:
        checked(PAIRS, sizes)
