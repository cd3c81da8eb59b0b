"""Windows of bytes along channels: which of them are multiplied four taps at a time, and what comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dims import Dim
from anyshape.dtypes import F32, I32, parse_dtype
from anyshape.equations.functions import cast, pad, reduce_, round_even
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.emit.loops.nest import tiers_that_run
from anyshape.lower.emit.windowed import tap_words, taps
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.types import I32 as WORD
from anyshape.lower.llvm.types import const
from anyshape.lower.target import Target, processor
from tests.lower.forbidden import before_forbidden_memory
from tests.lower.groups import B, Builder
from tests.lower.native import Array, check

H, W, C = (dims.symbol(name) for name in "hwc")
LEVELS = ("avx512", "avxvnni", "avx2", "sse")
SHAPES = [
    {B: b, H: h, W: w, C: c}
    for b, h, w, c in ((1, 7, 9, 64), (2, 5, 6, 33), (1, 4, 8, 96), (0, 5, 5, 16), (1, 9, 3, 5), (1, 6, 7, 145))
]


def windows(
    x_dtype: str = "u8",
    w_dtype: str = "i8",
    *,
    step: int = 1,
    spread: int = 1,
    taps: int = 3,
    channels: Any = C,
    points: tuple[bool, bool] = (True, True),
    padded: Any = "point",
    bytes_to: str | None = None,
    sum_dtype: str = "i32",
    kind: str = "sum",
) -> Group:
    """y[n, i, j, c] = sum((pad(x, zx)[n, i * step + p * spread - 1, …, c] - zx) * (w[p, q, c] - zw[c])), or rounded bytes of that."""
    b, sum_ = Builder("taps"), parse_dtype(sum_dtype)
    x, w = b.input([B, H, W, channels], x_dtype), b.input([taps, taps, channels], w_dtype)
    zx, zw, scale = b.input([], x_dtype), b.input([channels], w_dtype), b.input([channels])
    reach = (taps - 1) * spread - 2
    y = b.tensor([B, *((n - reach - 1) // step + 1 for n in (H, W)), channels], bytes_to or sum_)
    n, i, j, c = b.eqs.indices("i", y.shape)
    seen = pad(x, zx[()] if padded == "point" else padded)

    def term(p: Any, q: Any) -> Any:
        byte = cast(seen[n, i * step + p * spread - 1, j * step + q * spread - 1, c], sum_)
        factor = cast(w[p, q, c], sum_)
        byte = byte - cast(zx[()], sum_) if points[0] else byte
        return byte * (factor - cast(zw[c], sum_) if points[1] else factor)

    total = reduce_(kind, [taps, taps], term)
    if bytes_to is not None:
        total = cast(round_even(cast(total, F32) * scale[c]) + cast(zx[()], F32), parse_dtype(bytes_to))
    b.eqs.define(y[n, i, j, c], total)
    b.output(y)
    return b.group()


def random_bytes(group: Group, sizes: dict[Dim, int], points: str) -> dict[Any, Array]:
    """Bytes of the whole range; zero points of the factors are 0, small, or so large that factors less these are no bytes."""
    rng, arrays = np.random.default_rng(5), {}
    for t in group.inputs:
        shape = [int(dims.evaluate(n, sizes)) for n in t.shape]
        if t.dtype == F32:
            arrays[t] = rng.random(shape, np.float32) / 999
            continue
        ends = np.iinfo(t.dtype.numpy)
        arrays[t] = np.asarray(rng.integers(ends.min, ends.max + 1, shape), t.dtype.numpy)
    w, zw = group.inputs[1], group.inputs[3]
    if points == "none":
        arrays[zw] = np.zeros_like(arrays[zw])
        arrays[w] = np.minimum(arrays[w], 127)
    elif points == "small":
        arrays[zw] = np.full_like(arrays[zw], 3)
        arrays[w] = np.clip(arrays[w], -100 if w.dtype.kind == "int" else 0, 100)
    return arrays


def check_bytes(group: Group, level: str, points: str, parts: tuple[int, ...] = (1, 2)) -> None:
    for sizes in SHAPES:
        if all(dims.evaluate(n, sizes) > 0 for n in group.outputs[0].shape[1:]):
            arrays = random_bytes(group, sizes, points)
            check(group, [sizes], fixed=arrays, target=host_target().limited(level), parts=parts)


@pytest.mark.parametrize("points", ["none", "small", "large"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("x", "w"), [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")])
def test_windows_in_every_order_of_signs(x: str, w: str, level: str, points: str) -> None:
    check_bytes(windows(x, w), level, points)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("taps", [2, 3, 4, 5])
@pytest.mark.parametrize(("step", "spread"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_windows_that_move_and_spread(step: int, spread: int, taps: int, level: str) -> None:
    check_bytes(windows("i8", "i8", step=step, spread=spread, taps=taps), level, "small", parts=(1,))


@pytest.mark.parametrize("points", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("padded", ["point", 0, 7])
def test_numbers_that_are_not_subtracted(points: tuple[bool, bool], padded: Any) -> None:
    """What is outside need not be the zero point."""
    for x in ("u8", "i8"):
        check_bytes(windows(x, "i8", points=points, padded=padded), "avx512", "small", parts=(1,))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("channels", [16, 32, 64, 96, 144])
def test_sums_become_bytes_again(channels: int, level: str) -> None:
    check_bytes(windows("i8", "i8", channels=channels, bytes_to="i8"), level, "none")


@pytest.mark.parametrize("level", LEVELS)
def test_windows_of_different_pads_in_one_kernel(level: str) -> None:
    b, channels = Builder("two"), 20
    x, zx, w = b.input([B, H, W, channels], "u8"), b.input([], "u8"), b.input([3, 3, channels], "i8")
    for step, outside in ((1, zx[()]), (2, 200)):
        y = b.tensor([B, (H - 1) // step + 1, (W - 1) // step + 1, channels], "i32")
        n, i, j, c = b.eqs.indices("i", y.shape)
        seen = pad(x, outside)

        def term(p: Any, q: Any, at: Any = (seen, step, n, i, j, c)) -> Any:
            seen, step, n, i, j, c = at
            return cast(seen[n, i * step + p - 1, j * step + q - 1, c], I32) * cast(w[p, q, c], I32)

        b.eqs.define(y[n, i, j, c], reduce_("sum", [3, 3], term))
        b.output(y)
    group = b.group()
    assert lower_group(group, host_target().limited(level)).schedule == ("taps", "taps")
    check(group, [{B: 2, H: 5, W: 6}], fixed={zx: np.uint8(9)}, target=host_target().limited(level))


WITH_DOTS = processor(
    "x86_64-unknown-linux-gnu", "x86-64-v4", "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni"
)
DOTS, PAIRS = "vpdpbusd", "pmadd"


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        (WITH_DOTS, DOTS),
        (replace(WITH_DOTS, dots=False), PAIRS),
        (host_target().limited("avx2"), PAIRS),
        (host_target().limited("sse"), PAIRS),
    ],
    ids=["dots", "pairs of 512 bits", "avx2", "sse"],
)
def test_which_sums_are_of_words(target: Target, instruction: str) -> None:
    def has_words(group: Group) -> bool:
        return instruction in lower_group(group, target).text

    assert has_words(windows())
    assert has_words(windows("i8", "u8", step=2))
    assert has_words(windows(points=(False, False)))
    assert not has_words(windows("i16", "i8"))
    assert not has_words(windows("i32", "i32"))
    assert not has_words(windows(sum_dtype="i64"))
    assert not has_words(windows(kind="max"))


def test_what_integers_of_16_bits_hold() -> None:
    """Factors of 16 bits may be no bytes, which is known when the kernel runs; less a zero point they may be more than 16 bits hold."""
    wide = windows("u8", "i16")
    assert DOTS in lower_group(wide, WITH_DOTS).text
    assert PAIRS not in lower_group(wide, replace(WITH_DOTS, dots=False)).text
    for level in LEVELS:
        for points in ("none", "large"):
            check_bytes(wide, level, points, parts=(1,))


def test_factors_that_are_no_bytes_are_multiplied_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors that are bytes have the same results without code for any that are not; those have none."""
    target = host_target()
    if not target.dots:
        pytest.skip("there is no instruction for dot products of bytes")
    monkeypatch.setattr(taps, "_emit_values", lambda *args, **kwargs: None)
    group, sizes = windows(channels=37), [{B: 1, H: 5, W: 6, C: 37}]
    for points in ("none", "small"):
        check(group, sizes, fixed=random_bytes(group, sizes[0], points))
    with pytest.raises(AssertionError, match="in 1 parts"):
        check(group, sizes, fixed=random_bytes(group, sizes[0], "large"))


@pytest.mark.parametrize("step", [1, 2])
def test_wrong_factors_are_noticed(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    group, sizes = windows(channels=41, step=step), [{B: 1, H: 5, W: 6, C: 41}]
    fixed = random_bytes(group, sizes[0], "none")
    check(group, sizes, fixed=fixed)
    monkeypatch.setattr(tap_words.WordSums, "word", lambda self, taps, factors: const(WORD.vector(self.ctx.lanes), 1))
    with pytest.raises(AssertionError, match="in 1 parts"):
        check(group, sizes, fixed=fixed)


def test_places_share_what_they_see() -> None:
    """Two places of three taps see four columns; of places that are two taps apart each has words of its own."""

    def loads(group: Group, target: Target, bytes_: int) -> int:
        return lower_group(group, target).text.count(f"load <{bytes_} x i8>")

    pairs = replace(WITH_DOTS, dots=False)
    for target, bytes_ in ((WITH_DOTS, 64), (pairs, 32)):
        assert loads(windows(channels=64), target, bytes_) == 3 * 4 + 3 * 3
        assert loads(windows(channels=64, step=2), target, bytes_) == 2 * 9


def test_blocks_of_known_channels() -> None:
    """Blocks that no channels are left for have no code."""
    assert tiers_that_run(C, (4, 2, 1), 16) == (4, 2, 1)
    assert tiers_that_run(192, (4, 2, 1), 16) == (4,)
    assert tiers_that_run(96, (4, 2, 1), 16) == (4, 2)
    assert tiers_that_run(144, (4, 2, 1), 16) == (4, 1)
    assert tiers_that_run(100, (4, 2, 1), 16) == (4, 2, 1)
    assert tiers_that_run(5, (4, 2, 1), 16) == (1,)
    text = lower_group(windows(channels=192, points=(False, False)), WITH_DOTS).text
    assert "load <64 x i8>" in text
    assert "load <32 x i8>" not in text


def test_words_of_taps() -> None:
    rows, columns = LoopVar(0, 2), LoopVar(1, 3)
    shared = tap_words.tap_words([rows, columns], 1, 4)
    assert (shared.places, shared.further) == (2, 1)
    assert shared.taps == tuple(tuple((row, k) for k in range(4)) for row in range(2))
    assert tap_words.tap_words([rows, columns], 1, 2).taps[:2] == (((0, 0), (0, 1)), ((0, 2), (0, 3)))
    alone = tap_words.tap_words([rows, columns], 2, 4)
    assert alone.places == 1
    assert alone.taps == (((0, 0), (0, 1), (0, 2), (1, 0)), ((1, 1), (1, 2), None, None))
    assert tap_words.tap_words([rows, columns], 0, 4).taps == alone.taps
    assert tap_words.tap_words([LoopVar(0, 7)], 1, 4).places == 1
    assert tap_words.tap_words([LoopVar(0, 2)], 1, 4).places == 3


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("step", [1, 2])
def test_nothing_is_read_past_the_end(step: int, level: str) -> None:
    """The last bytes of what is seen, and of the factors, are the last ones of a page."""
    group = windows("i8", "i8", step=step, channels=C)
    for sizes in SHAPES:
        arrays = random_bytes(group, sizes, "none")
        x, w, _, zw, _ = group.inputs
        ends = {t: before_forbidden_memory(arrays[t]) if arrays[t].size else arrays[t] for t in (x, w, zw)}
        check(group, [sizes], fixed={**arrays, **ends}, target=host_target().limited(level), parts=(1,))
