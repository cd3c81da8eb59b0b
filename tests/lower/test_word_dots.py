"""Products of bytes in blocks that have scales: words of four bytes, rows in groups, and sums that are added up where they are computed."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import anyshape
from anyshape import dims, ops
from anyshape.dtypes import F32, I32
from anyshape.equations.functions import bit_and, cast, reduce_, shift_right
from anyshape.lower import Group, describe, host_target, lower_group
from anyshape.lower.emit.loops import streams_ahead
from anyshape.lower.emit.scopes import row_groups
from anyshape.lower.llvm import target_probe
from anyshape.lower.target import Target, processor
from tests.lower.groups import Builder, M
from tests.lower.native import check

C = dims.symbol("c")
BLOCKS, WORDS = 3, 2
SIZES = [{M: m, C: c} for m, c in ((1, 40), (0, 16), (5, 0), (8, 17), (9, 64), (15, 3), (23, 33))]
"""Rows of each size of group, and of several; columns of whole vectors and of parts."""


def without_dots(target: Target) -> Target:
    return replace(target, dots=False)


TARGETS = {
    "host": host_target(),
    "pairs of 512 bits": without_dots(host_target()),
    "avx2": without_dots(host_target().limited("avx2")),
    "sse": without_dots(host_target().limited("sse")),
}


WITH_DOTS = processor(
    "x86_64-unknown-linux-gnu", "x86-64-v4", "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni"
)


def blocks(
    bits: int = 4,
    *,
    mask: int | None = None,
    signs: tuple[str, str] = ("i8", "u8"),
    columns_last: bool = False,
    nested: bool = True,
    columns: dims.Size = C,
    words: int = WORDS,
) -> Group:
    """Rows of bytes in blocks times columns of codes of so many bits, with a scale for each block of a column."""
    b, per = Builder("blocks"), 8 // bits
    x = b.input([M, BLOCKS, words, per, 4], signs[0])
    codes = b.input([BLOCKS, words, 4, columns] if columns_last else [BLOCKS, words, columns, 4], signs[1])
    scale, y = b.input([BLOCKS, columns]), b.tensor([M, columns] if nested else [M, columns, BLOCKS])
    i, j, *q = b.eqs.indices("i", y.shape)

    def of_block(block: object) -> object:
        def term(t: object, s: object, e: object) -> object:
            byte = cast(codes[block, t, e, j] if columns_last else codes[block, t, j, e], I32)
            code = bit_and(shift_right(byte, cast(s * bits, I32)), 2**bits - 1 if mask is None else mask)
            return cast(x[i, block, t, s, e], I32) * code

        return cast(reduce_("sum", [words, per, 4], term), F32) * scale[block, j]

    b.eqs.define(y[(i, j, *q)], reduce_("sum", [BLOCKS], of_block) if nested else of_block(q[0]))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_words_of_codes(bits: int, target: Target) -> None:
    group = blocks(bits)
    assert "dot(" in describe(group)
    check(group, SIZES, target=target)
    rng = np.random.default_rng(bits)
    x, codes, scale = (rng.integers(0, 256, [int(dims.evaluate(n, SIZES[4])) for n in t.shape]) for t in group.inputs)
    whole = {  # sums that floats hold
        group.inputs[0]: x.astype(np.uint8).view(np.int8), group.inputs[1]: codes.astype(np.uint8),
        group.inputs[2]: (scale % 8 - 4).astype(np.float32),
    }  # fmt: skip
    check(group, SIZES[4:5], 0, target=target, fixed=whole)


def test_a_dot_product_is_one_instruction_where_there_is_one() -> None:
    assert WITH_DOTS.dots
    assert "vpdpbusd" in lower_group(blocks(), WITH_DOTS).text
    assert "vpdpbusd" not in lower_group(blocks(), without_dots(WITH_DOTS)).text


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(("bits", "words"), [(2, 10), (2, 11), (4, 4), (4, 5), (8, 1)])
def test_sums_of_the_largest_products(bits: int, words: int, target: Target) -> None:
    """Sums of 16 bits are as large as they can be, those of one word more do not fit, and two products of 8 bits do not either."""
    group = blocks(bits, words=words)
    x, codes, scale = ([int(dims.evaluate(n, SIZES[4])) for n in t.shape] for t in group.inputs)
    for byte in (-128, 127):
        fixed = {
            group.inputs[0]: np.full(x, byte, np.int8), group.inputs[1]: np.full(codes, 255, np.uint8),
            group.inputs[2]: np.ones(scale, np.float32),
        }  # fmt: skip
        check(group, SIZES[4:5], 0, target=target, fixed=fixed)


@pytest.mark.parametrize(
    ("bits", "words", "of_bytes", "in_halves"), [(4, 4, True, True), (4, 5, True, False), (8, 1, False, False)]
)
def test_products_of_few_bits_are_added_up_in_16_bits(bits: int, words: int, of_bytes: bool, in_halves: bool) -> None:
    target = without_dots(WITH_DOTS.limited("avx2"))
    text = lower_group(blocks(bits, words=words), target).text
    assert ("llvm.x86.avx2.pmadd.ub.sw" in text) == of_bytes
    assert (re.search(r"add <16 x i16>", text) is not None) == in_halves


def test_codes_of_later_blocks_are_prefetched_where_a_block_is_one_stretch_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_probe, "measured_reads_ahead", lambda target: False)
    many, few = (replace(WITH_DOTS, l1_bytes=size << 10) for size in (48, 32))  # miss buffers
    assert "@llvm.prefetch" in lower_group(blocks(columns=64), many).text
    assert "@llvm.prefetch" not in lower_group(blocks(columns=64), few).text
    assert (
        "@llvm.prefetch" not in lower_group(blocks(), many).text
    )  # as many columns as vectors have are a part of a block
    check(blocks(columns=64), [{M: 1}, {M: 9}], target=replace(host_target(), l1_bytes=48 << 10))
    monkeypatch.setattr(target_probe, "measured_reads_ahead", lambda target: True)
    here = replace(many, foreign=False)
    monkeypatch.setattr(target_probe, "host_target", lambda: here)
    assert "@llvm.prefetch" not in lower_group(blocks(columns=64), here).text  # the processor does so by itself
    assert "@llvm.prefetch" in lower_group(blocks(columns=64), many).text  # of another one nothing is measured


def test_parts_of_a_block_are_prefetched_where_vectors_are_narrower_than_a_line() -> None:
    """A vector of eight columns reads half a line of each word of a block of 64, and the next block is a kilobyte further on."""
    narrow = without_dots(WITH_DOTS.limited("avx2"))
    text = lower_group(blocks(columns=64, words=4), narrow).text
    assert f"{streams_ahead.PARTS_AHEAD * 64 * 4 * 4}" in text
    assert "@llvm.prefetch" in text
    assert "@llvm.prefetch" not in lower_group(blocks(columns=64, words=streams_ahead.MOST_PARTS + 1), narrow).text
    check(blocks(columns=64, words=4), [{M: 9}], target=narrow)


@pytest.mark.parametrize(
    "group",
    [
        blocks(mask=31),  # takes a bit of the next byte, if words were shifted
        blocks(signs=("u8", "u8")),
        blocks(signs=("i8", "i8")),
        blocks(columns_last=True),  # a word would be of four columns
        blocks(nested=False),  # a product of matrices, which packs its operands
    ],
    ids=["bits of two bytes", "no sign", "two signs", "columns last", "alone"],
)
def test_what_is_no_dot_product_of_words(group: Group) -> None:
    assert "dot(" not in describe(group)
    check(group, SIZES)


def test_rows_are_summed_in_groups_without_scratch() -> None:
    text = describe(blocks())
    assert "in groups of 8, 4, 2, 1" in text
    assert "scratch" not in text


def sums_of_sums(kind: str) -> Group:
    """The sum of scaled sums, and their largest as well (`largest`), or how each compares with the whole (`shares`)."""
    b = Builder("sums")
    x, scale = b.input([M, BLOCKS, WORDS, C]), b.input([BLOCKS])
    y, other = b.tensor([M, C]), b.tensor([M, C])
    i, j = b.eqs.indices("i", y.shape)

    def of_block(q: object) -> object:
        return reduce_("sum", [WORDS], lambda t: x[i, q, t, j])

    whole = reduce_("sum", [BLOCKS], lambda q: of_block(q) * scale[q])
    b.eqs.define(y[i, j], whole)
    b.eqs.define(
        other[i, j],
        reduce_("max", [BLOCKS], (lambda q: of_block(q) - whole) if kind == "shares" else of_block),
    )
    b.output(y), b.output(other)
    return b.group()


@pytest.mark.parametrize(("kind", "kept"), [("largest", False), ("shares", True)])
def test_inner_sums_are_kept_only_for_a_later_loop(kind: str, kept: bool) -> None:
    """Sums that one loop over blocks adds up stay in registers; what a later loop needs too is computed once, into scratch."""
    group = sums_of_sums(kind)
    assert ("scratch" in describe(group)) == kept
    check(group, SIZES)


def test_rows_of_several_blocks_are_what_each_is_alone() -> None:
    """Panels of codes are outside of groups of rows, and blocks of rows outside of these."""
    rng, panels, columns = np.random.default_rng(3), 3, 16
    a = anyshape.input("a", f"i8[rows, {BLOCKS}, {WORDS * 8}]")
    step, total = (anyshape.input(n, f"f32[rows, {BLOCKS}]") for n in ("step", "total"))
    codes = rng.integers(0, 256, (panels, BLOCKS, WORDS, columns, 4)).astype(np.uint8)
    scale = rng.standard_normal((panels, BLOCKS, columns)).astype(np.float32)
    product = anyshape.function([a, step, total], ops.matmul_nbits_of_bytes(a, step, total, codes, scale))
    rows = 2 * row_groups.BLOCK + 5
    drawn = {
        "a": rng.integers(-128, 128, (rows, BLOCKS, WORDS * 8)).astype(np.int8),
        "step": rng.random((rows, BLOCKS)).astype(np.float32),
        "total": rng.standard_normal((rows, BLOCKS)).astype(np.float32),
    }
    for threads in (1, 2):
        run = anyshape.compile(product, threads=threads).run
        alone = [run({n: x[k : k + 1] for n, x in drawn.items()})[0] for k in range(rows)]
        np.testing.assert_array_equal(run(drawn)[0], np.concatenate(alone))
    wide = ((codes[:, :, :, None] >> np.array([0, 4])[:, None, None]) & 15).astype(np.float64)
    sums = np.einsum("rqtse,uqtsje->ruqj", drawn["a"].reshape(rows, BLOCKS, WORDS, 2, 4).astype(np.float64), wide)
    exact = (sums * drawn["step"][:, None, :, None] - 8 * drawn["total"][:, None, :, None]) * scale
    np.testing.assert_allclose(run(drawn)[0], exact.sum(2).reshape(rows, -1), rtol=1e-4, atol=1e-3)
