"""The matrix product of f32 rounded to f16 by multiply-adds of f16, against the same additions in NumPy.

A processor that multiplies f16 adds up 32 even and 32 odd elements along k in f16, these two in f16, and such sums in f32. NumPy rounds
twice what an instruction rounds once, so that a few results are another neighbour. What holds of all words is in `test_pairs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.lower import gemm, host_target
from anyshape.lower.gemm.library import library_module
from anyshape.lower.gemm.pairs import CHUNK_OF_F16
from anyshape.lower.llvm.jit import assembly
from anyshape.lower.llvm.types import F16
from anyshape.lower.multiply_adds import multiply_adds_of
from anyshape.lower.target import processor
from tests.precision.test_pairs import HAS_F16, SIZES, drawn, laid, of_f16

Array = NDArray[Any]
CASE = of_f16("fp16")
WORDS, product, rounded = CASE.words, CASE.contract, CASE.rounded
in_f16 = pytest.mark.skipif(not HAS_F16, reason="vectors of 512 bits")


def chunked(a: Array, b: Array, chunk: int = CHUNK_OF_F16) -> Array:
    """The product of two matrices by sums of f16 of `chunk` even elements along k, and of as many odd ones."""
    k = a.shape[-1]
    a, b = (np.pad(x, ((0, 0), *of)) for x, of in ((a, ((0, 0), (0, k % 2))), (b, ((0, k % 2), (0, 0)))))
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((*a.shape[:2], b.shape[-1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, k, 2 * chunk):
            halves = []
            for parity in range(2):
                half = np.zeros(total.shape, np.float16)
                for step in range(first + parity, min(first + 2 * chunk, a.shape[-1]), 2):
                    half = (a[..., step, None] * b[:, None, step] + half.astype(np.float32)).astype(np.float16)
                halves.append(half)
            total = total + (halves[0] + halves[1]).astype(np.float32)
    return total


def alike(got: Array, want: Array) -> bool:
    """Whether results are the same but for some that were rounded to another neighbour of f16 on the way."""
    near = np.abs(got - want) <= 2.0**-9 * np.abs(want).max(initial=0)
    return bool(near.all() and (got == want).mean() >= 0.9)


@in_f16
def test_chunks_are_added_up_in_f16() -> None:
    """Sums of so many rows that B is packed, and of constants."""
    for index, (m, n, k) in enumerate([*SIZES, (60, 40, 130), (1, 70, 64), (11, 33, 65), (9, 16, 1000), (2, 5, 0)]):
        for prepacked in {True, m <= 8}:
            a, b = drawn(2, m, k), drawn(2, k, n)
            got = product(laid(a, index % 3), b if prepacked else laid(b, 2), prepacked)
            assert alike(got, chunked(rounded(a), rounded(b))), (m, n, k, prepacked)


WRONG: dict[str, Callable[[Array, Array], Array]] = {
    "factors as they are": chunked,
    "sums of f32": lambda a, b: rounded(a).astype(np.float32) @ rounded(b).astype(np.float32),
    "other chunks": lambda a, b: chunked(rounded(a), rounded(b), CHUNK_OF_F16 // 2),
    "elements of a pair exchanged": lambda a, b: chunked(rounded(a[..., np.arange(a.shape[-1]) ^ 1]), rounded(b)),
    "without the last element": lambda a, b: chunked(rounded(a[..., :-1]), rounded(b[:, :-1])),
}


@in_f16
@pytest.mark.parametrize("wrong", WRONG)
def test_the_comparison_catches(wrong: str) -> None:
    a, b = drawn(1, 20, 130), drawn(1, 130, 40)
    got = product(laid(a, 0), laid(b, 0), False)
    assert alike(got, chunked(rounded(a), rounded(b))) and not alike(got, WRONG[wrong](a, b))


@in_f16
def test_a_sum_beyond_the_largest_f16_is_infinite_in_one_chunk_and_no_sum_of_chunks() -> None:
    large, b = (
        np.full((1, 9, 2 * CHUNK_OF_F16 * 3), 240, np.float32),
        np.zeros((1, 2 * CHUNK_OF_F16 * 3, 17), np.float32),
    )
    b[:, :: 2 * CHUNK_OF_F16] = 250
    assert (product(large, b, True) == 3 * 60000).all()
    b[:, 1] = 250
    assert (product(large, b, True) == np.inf).all()


def test_the_instruction_is_used_where_there_is_one() -> None:
    """The code for a processor with AVX512-FP16 multiplies words of f16; that of this machine, which may lack it, computes the same."""
    names = ",".join(
        f"+{n}" for n in ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512fp16", "fma", "f16c", "avx2")
    )
    with_fp16 = processor("x86_64-unknown-linux-gnu", "sapphirerapids", names)
    without = processor("x86_64-unknown-linux-gnu", "icelake-server", names.replace("avx512fp16", "avx512vbmi"))
    code = assembly(library_module(with_fp16, F16.vector(2)).text(), with_fp16)
    assert code.count("vfmadd231ph") > 100 and "__truncdfhf2" not in code
    assert "ph\t" not in assembly(library_module(without, F16.vector(2)).text(), without).replace("cvtps2ph", "")
    assert ("f16" in multiply_adds_of(with_fp16), "f16" in multiply_adds_of(without)) == (True, False)
    assert (WORDS.per(with_fp16), WORDS.per(without), WORDS.stored_b(with_fp16, 1), WORDS.stored_b(without, 1)) == (
        2,
        1,
        None,
        F16,
    )


def test_levels() -> None:
    host = host_target()
    assert host.limited("fp16").emulates_halves == (HAS_F16 and not host.halves)
    assert not any(host.limited(level).halves for level in ("avx512f", "avx2", "sse"))
    assert not replace(host, vector_bytes=32).limited("fp16").halves
    assert not gemm.by_matrix_tiles(WORDS, host.limited("amx")), "there are no tiles of f16"
