"""Sums of products of narrow integers less zero points: which are products of bytes, and that they are exact in every form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import parse_dtype
from anyshape.equations import Tensor
from anyshape.equations.functions import cast, pad, reduce_
from anyshape.lower import Group, describe, lower_group
from anyshape.lower.target import host_target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

LEVELS = ["amx", "avx512", "avxvnni", "avx2", "sse"]
SIZES = [
    {B: b, N: n, M: m, K: k}
    for b, n, m, k in ((2, 3, 40, 77), (1, 1, 33, 64), (0, 2, 5, 3), (2, 17, 1, 5), (1, 20, 70, 130))
]
ZEROS: Mapping[str, Callable[..., Any]] = {
    "none": lambda b, dtype, rows: None,
    "scalar": lambda b, dtype, rows: (z := b.input([], dtype), lambda g, i: z[()]),
    "each": lambda b, dtype, rows: (z := b.input([rows], dtype), lambda g, i: z[i]),
    "batches": lambda b, dtype, rows: (z := b.input([B, rows], dtype), lambda g, i: z[g, i]),
}
WIDE = parse_dtype("i32")


class Case:
    """y[g, i, j] = sum((a[g, i, l] - za) * (b[l, j] - zb)); `after` is what follows."""

    def __init__(self, a: str, b: str, za: str, zb: str, k: Any = K, m: Any = M, after: Any = lambda b, y: y) -> None:
        builder = Builder("bytes")
        self.a, self.b = builder.input([B, N, k], a), builder.input([k, m], b)
        zero_a, zero_b = ZEROS[za](builder, a, N), ZEROS[zb](builder, b, m)
        y = builder.tensor([B, N, m], "i32")
        g, i, j = builder.eqs.indices("i", y.shape)

        def term(q: Any) -> Any:
            x, w = cast(self.a[g, i, q], WIDE), cast(self.b[q, j], WIDE)
            x = x if zero_a is None else x - cast(zero_a[1](g, i), WIDE)
            return x * (w if zero_b is None else w - cast(zero_b[1](g, j), WIDE))

        builder.eqs.define(y[g, i, j], reduce_("sum", [k], term))
        builder.output(after(builder, y))
        self.group = builder.group()

    def random_bytes(self, sizes: Mapping[Any, int]) -> dict[Tensor, Any]:
        """Draws any bytes, the ends among them."""
        rng, arrays = np.random.default_rng(3), {}
        for t in self.group.inputs:
            ends = np.iinfo(t.dtype.numpy)
            shape = tuple(int(dims.evaluate(n, sizes)) for n in t.shape)
            values = rng.integers(ends.min, ends.max + 1, shape)
            picks = rng.choice([ends.min, ends.max], shape)
            arrays[t] = np.asarray(np.where(rng.random(shape) < 0.2, picks, values)).astype(t.dtype.numpy)
        return arrays

    def check(self, level: str = "avx512", parts: tuple[int, ...] = (1, 2, 3)) -> None:
        for sizes in SIZES:
            arrays = {**self.random_bytes(sizes), **self.group.constants}
            check(self.group, [sizes], fixed=arrays, target=host_target().limited(level), parts=parts)

    def with_constant_b(self) -> Case:
        self.group = replace(self.group, constants={self.b: self.random_bytes(dict.fromkeys((B, N), 1))[self.b]})
        return self


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("a", "b"), [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")])
def test_every_order_of_signs(a: str, b: str, level: str) -> None:
    for za, zb in (("scalar", "each"), ("none", "none"), ("none", "scalar"), ("each", "none")):
        case = Case(a, b, za, zb)
        assert case.group.name in describe_bytes(case.group)
        case.check(level, parts=(1, 2))


@pytest.mark.parametrize("za", ZEROS)
@pytest.mark.parametrize("zb", ZEROS)
def test_every_form_of_zero_points(za: str, zb: str) -> None:
    Case("u8", "i8", za, zb).check()
    Case("u8", "u8", za, zb, k=37, m=50).with_constant_b().check()


def describe_bytes(group: Group) -> str:
    """The description, of what is one product of bytes: its operands are not converted before."""
    text = describe(group)
    assert text.startswith("product") and "i32(x" not in text.split("\n")[1]
    return group.name + text


@pytest.mark.parametrize("level", ["avx512f", "avx2", "sse"])
@pytest.mark.parametrize(("a", "b"), [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")])
def test_large_constants_are_widened_as_they_are_read(a: str, b: str, level: str) -> None:
    """The limit is what the second cache holds as words of two elements of 16 bits."""
    case, target = Case(a, b, "scalar", "none", k=37, m=50).with_constant_b(), host_target().limited(level)
    assert "narrow_kernels" not in lower_group(case.group, target).text
    near = replace(target, l2_bytes=37 * 50 * 2 - 1)
    assert "narrow_kernels" in lower_group(case.group, near).text
    for sizes in SIZES:
        arrays = {**case.random_bytes(sizes), **case.group.constants}
        check(case.group, [sizes], fixed=arrays, target=near, parts=(1, 2))


def test_sums_of_constants_are_packed_with_them() -> None:
    text = describe_bytes(Case("u8", "i8", "scalar", "none", k=37, m=50).with_constant_b().group)
    assert "packed sums0" in text and "prepacked" in text and "ahead" not in text
    assert "ahead sums0" in describe_bytes(Case("u8", "i8", "scalar", "none").group)


def test_what_zero_points_of_zero_would_need_is_left_out() -> None:
    """Whether constants are zeros is part of a kernel's form, as long as they are few."""
    for count, few in ((300, True), (20_000, False)):
        case = Case("u8", "i8", "scalar", "each", k=5, m=count)
        z = case.group.inputs[-1]
        text = describe_bytes(replace(case.group, constants={z: np.zeros(count, np.int8)}))
        assert ("sums1" not in text) == few
        assert "sums1" in describe_bytes(replace(case.group, constants={z: np.eye(1, count, dtype=np.int8)[0]}))


def test_rows_follow_the_sums() -> None:
    """A reduction of the results reads them from scratch, where they are corrected."""
    case = Case("u8", "i8", "scalar", "each", after=lambda b, y: b.reduce("max", y, [2]))
    assert "product" in describe(case.group)
    case.check()


def test_one_row_of_known_size() -> None:
    b = Builder("row")
    x, w, z = b.input([37], "u8"), b.input([37, 50], "i8"), b.input([], "u8")
    y = b.tensor([50], "i32")
    (j,) = b.eqs.indices("i", y.shape)
    b.eqs.define(y[j], reduce_("sum", [37], lambda q: (cast(x[q], WIDE) - cast(z[()], WIDE)) * cast(w[q, j], WIDE)))
    b.output(y)
    values = np.random.default_rng(0).integers(-128, 128, (37, 50)).astype(np.int8)
    group = replace(b.group(), constants={w: values})
    assert "prepacked" in describe(group)
    check(group, fixed={w: values})


def test_a_zero_point_that_varies_along_the_sum_is_none() -> None:
    """A zero point that varies along the sum makes no product of bytes; it is summed up in words of i32."""
    b = Builder("varying")
    x, w, z = b.input([N, K], "u8"), b.input([K, M], "i8"), b.input([K], "u8")
    y = b.tensor([N, M], "i32")
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [K], lambda q: (cast(x[i, q], WIDE) - cast(z[q], WIDE)) * cast(w[q, j], WIDE)))
    b.output(y)
    assert "ahead" not in describe(b.group())
    check(b.group(), SIZES)


def test_sums_of_other_dtypes_are_none() -> None:
    b = Builder("i64")
    x, w = b.input([N, K], "u8"), b.input([K, M], "i8")
    y = b.tensor([N, M], "i64")
    i, j = b.eqs.indices("i", y.shape)
    long = parse_dtype("i64")
    b.eqs.define(y[i, j], reduce_("sum", [K], lambda q: cast(x[i, q], long) * cast(w[q, j], long)))
    b.output(y)
    check(b.group(), SIZES)


# --- windows ---

H, W, C = (dims.symbol(name) for name in "hwc")


def window(
    x_dtype: str,
    w_dtype: str,
    zero: bool,
    step: int = 1,
    spread: int = 1,
    taps: int = 3,
    channels: Any = 5,
    rank: int = 2,
) -> Group:
    """y[n, o, *p] = sum((pad(x, zx)[n, c, *(p * step + q * spread - 1)] - zx) * (w[o, c, *q] - zw[o]))"""
    b = Builder("window")
    image = (H, W, 6)[:rank]
    x, w, zx = (
        b.input([B, channels, *image], x_dtype),
        b.input([7, channels, *[taps] * rank], w_dtype),
        b.input([], x_dtype),
    )
    zw = b.input([7], w_dtype) if zero else None
    reach = (taps - 1) * spread - 2
    y = b.tensor([B, 7, *((n - reach - 1) // step + 1 for n in image)], "i32")
    n, o, *p = b.eqs.indices("i", y.shape)
    seen = pad(x, zx[()])

    def term(c: Any, *q: Any) -> Any:
        at = [i * step + k * spread - 1 for i, k in zip(p, q, strict=True)]
        weight = cast(w[o, c, *q], WIDE)
        weight = weight if zw is None else weight - cast(zw[o], WIDE)
        return (cast(seen[n, c, *at], WIDE) - cast(zx[()], WIDE)) * weight

    b.eqs.define(y[n, o, *p], reduce_("sum", [channels, *[taps] * rank], term))
    b.output(y)
    return b.group()


SHAPES = [
    {B: b, H: h, W: w, C: c}
    for b, h, w, c in ((1, 9, 9, 3), (2, 4, 37, 6), (1, 40, 3, 1), (0, 5, 5, 2), (1, 12, 20, 4))
]


def check_window(group: Group, level: str = "avx512", parts: tuple[int, ...] = (1, 2)) -> None:
    for sizes in SHAPES:
        if any(dims.evaluate(n, sizes) <= 0 for n in group.outputs[0].shape[2:]):
            continue
        case = Case.__new__(Case)
        case.group = group
        check(group, [sizes], fixed=case.random_bytes(sizes), target=host_target().limited(level), parts=parts)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("x", "w"), [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")])
def test_windows_in_every_order_of_signs(x: str, w: str, level: str) -> None:
    for zero in (False, True):
        group = window(x, w, zero)
        assert "windows of x0" in describe_bytes(group)
        check_window(group, level)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8, C])
@pytest.mark.parametrize("taps", [2, 3, 5])
def test_words_of_windows_hold_taps_of_several_channels(taps: int, channels: Any) -> None:
    for level in ("avx512", "avx2"):
        group = window("i8", "i8", True, taps=taps, channels=channels)
        assert "windows of x0" in describe_bytes(group)
        check_window(group, level, parts=(1,))


@pytest.mark.parametrize(("step", "spread"), [(2, 1), (3, 1), (1, 2)])
@pytest.mark.parametrize("rank", [1, 2])
def test_windows_that_move_and_spread(step: int, spread: int, rank: int) -> None:
    group = window("u8", "i8", True, step, spread, rank=rank)
    assert "windows of x0" in describe_bytes(group)
    check_window(group)


def test_sums_of_windows_are_made_only_where_weights_have_zero_points() -> None:
    assert "columns" in describe(window("u8", "i8", True))
    assert "columns[" not in describe(window("u8", "i8", False))


@pytest.mark.parametrize("level", LEVELS)
def test_windows_that_cannot_be_copied_are_computed_as_they_are_packed(level: str) -> None:
    """Windows of three dims, and of many taps, cannot be copied."""
    for group in (window("u8", "i8", True, rank=3), window("u8", "i8", True, taps=9, spread=1)):
        assert describe(group).startswith("product")
        check_window(group, level)


# --- channels last ---


def gathered(
    x_dtype: str, w_dtype: str, zero: bool, channels: int, step: int = 1, taps: int = 3, last: bool = True
) -> Group:
    """y[n, i, j, o] = sum((pad(x, zx)[n, i * step + p - 1, j * step + q - 1, c] - zx) * (w[p, q, c, o] - zw[o])), w being a constant; or of
    images of which the channels are not `last`."""
    b = Builder("gathered")
    image = [H, W, channels] if last else [channels, H, W]
    x, zx = b.input([B, *image], x_dtype), b.input([], x_dtype)
    w, zw = b.input([taps, taps, channels, 21], w_dtype), b.input([21], w_dtype) if zero else None
    y = b.tensor([B, *((n + 2 - taps) // step + 1 for n in (H, W)), 21], "i32")
    n, i, j, o = b.eqs.indices("i", y.shape)
    seen = pad(x, zx[()])

    def term(c: Any, p: Any, q: Any) -> Any:
        at = (i * step + p - 1, j * step + q - 1)
        weight = cast(w[p, q, c, o], WIDE)
        weight = weight if zw is None else weight - cast(zw[o], WIDE)
        return (cast(seen[(n, *at, c) if last else (n, c, *at)], WIDE) - cast(zx[()], WIDE)) * weight

    b.eqs.define(y[n, i, j, o], reduce_("sum", [channels, taps, taps], term))
    b.output(y)
    group = b.group()
    ends = np.iinfo(w.dtype.numpy)
    values = np.random.default_rng(1).integers(ends.min, ends.max + 1, (taps, taps, channels, 21)).astype(w.dtype.numpy)
    return replace(group, constants={w: values})


def check_gathered(group: Group, level: str = "avx512", parts: tuple[int, ...] = (1, 2)) -> None:
    case = Case.__new__(Case)
    case.group = group
    for sizes in SHAPES:
        if all(dims.evaluate(n, sizes) > 0 for n in group.outputs[0].shape[1:]):
            arrays = {**case.random_bytes(sizes), **group.constants}
            check(group, [sizes], fixed=arrays, target=host_target().limited(level), parts=parts)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("x", "w"), [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")])
def test_rows_of_bytes_are_gathered(x: str, w: str, level: str, last: bool) -> None:
    for zero in (False, True):
        group = gathered(x, w, zero, channels=5, last=last)
        text = describe_bytes(group)
        assert "prepacked" in text and "packed sums" in text and ("windows of x0" in text) != last
        assert ("ahead" in text) == zero
        check_gathered(group, level)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8, 70])
def test_rows_of_any_length_are_gathered(channels: int, last: bool) -> None:
    for level, taps, step in (("avx512", 3, 2), ("avx2", 2, 1), ("avx512", 1, 1), ("sse", 5, 2)):
        check_gathered(gathered("i8", "i8", True, channels, step, taps, last), level, parts=(1,))
