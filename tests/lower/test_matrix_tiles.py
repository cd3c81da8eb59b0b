"""Matrix tiles: the target that has them, products by them, and what of a product goes wrong where an instruction does.

Whole products by emulated tiles are in `tests/precision/test_pairs.py`, `test_forms.py` and `test_gemm_codes.py`, at the level `amx`.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from anyshape.lower import gemm, target
from anyshape.lower.gemm import Codes, Side, library
from anyshape.lower.gemm.matrix_tiles import TALLEST
from anyshape.lower.gemm.pairs import FEWEST_ROWS, Pairs
from anyshape.lower.llvm import emulated_tiles, matrix_tiles
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.jit import compile_module, compile_object, load_object
from anyshape.lower.llvm.matrix_tiles import EMULATIONS, ROW_BYTES, ROWS
from anyshape.lower.llvm.types import F32, I32, I64, PTR, Type, Val, const
from anyshape.lower.target import MatrixTiles, Target, host_target, processor, tiles_of
from anyshape.vm.export.targets import TARGETS
from tests.lower.tile_targets import AMX, EMULATED, HOST, LEAST_ROWS, TRUE, driver, packs_words

Array = np.ndarray[Any, Any]
pytestmark = packs_words


# --- the target ---


def test_tiles_are_those_of_the_features_beside_what_packs_words() -> None:
    everything = dict.fromkeys(("amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512vnni"), True)
    assert tiles_of(64, everything) == MatrixTiles(pairs=True, dots=True)
    assert tiles_of(64, everything | {"amx-bf16": False}) == MatrixTiles(pairs=False, dots=True)
    assert tiles_of(64, everything | {"avx512vnni": False}) == MatrixTiles(pairs=True, dots=False)
    assert tiles_of(64, everything | {"amx-tile": False}) is None
    assert tiles_of(64, everything | {"amx-int8": False, "amx-bf16": False}) is None
    assert tiles_of(32, everything) is None


@pytest.mark.parametrize("granted", [True, False])
def test_the_operating_system_is_asked_once_and_may_refuse(granted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []
    monkeypatch.setattr(target, "tiles_permitted", lambda: asked.append(None) or granted)
    monkeypatch.setattr(target, "tiles_of", lambda *_: MatrixTiles(pairs=True, dots=True))
    fresh = cache(host_target.__wrapped__)
    tiles = [fresh().matrix_tiles for _ in range(2)]
    assert tiles == [MatrixTiles(pairs=True, dots=True) if granted else None] * 2 and len(asked) == 1


def test_a_processor_without_tiles_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "tiles_permitted", lambda: pytest.fail("asked"))
    monkeypatch.setattr(target, "tiles_of", lambda *_: None)
    assert host_target.__wrapped__().matrix_tiles is None


def test_lesser_targets_have_no_tiles() -> None:
    for level in ("avx512", "avxvnni", "avx2", "sse"):
        limited = TRUE.limited(level)
        assert limited.matrix_tiles is None and not gemm.by_matrix_tiles(Pairs(), limited)
        if level != "avx512":
            assert {"-amx-tile", "-amx-bf16", "-amx-int8"} <= {*limited.features.split(",")}
    assert TRUE.limited("amx") is TRUE
    emulated = HOST.without_tiles.limited("amx").matrix_tiles
    assert emulated == MatrixTiles(pairs=True, dots=True, emulated=True, least_rows=emulated.least_rows)
    assert emulated.least_rows <= LEAST_ROWS
    assert HOST.limited("avx2").limited("amx").matrix_tiles is None
    assert EMULATED.without_tiles == HOST.without_tiles != EMULATED


def test_exported_objects_have_none() -> None:
    assert all(t.processor.matrix_tiles is None for t in TARGETS.values())
    tiles = processor(
        HOST.triple, "sapphirerapids", f"+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512bf16,+avx512vnni,{AMX}"
    )
    assert tiles.matrix_tiles is None and not gemm.by_matrix_tiles(Pairs(), tiles)


def test_what_is_measured_of_vectors_holds_with_tiles() -> None:
    from anyshape.lower.gemm.reload_probe import reloads_factors
    from anyshape.lower.llvm.target_probe import multiply_adds

    assert multiply_adds(EMULATED) == multiply_adds(HOST)
    assert reloads_factors(EMULATED) == reloads_factors(HOST)


# --- products ---


def multiplied(of: Target, a: Array, b: Array, visits: str = "") -> Array:
    """The product of bytes, or of f32 in pairs of bf16, by the template."""
    words: gemm.OperandWords = Pairs() if a.dtype == np.float32 else Codes(Side(True), Side(False))
    element = F32 if a.dtype == np.float32 else I32
    (m, k), n, tiles = a.shape, b.shape[1], gemm.tiles_for(of, element)
    module = driver(of, words, element, visits)
    loaded = compile_module(module, gemm.resolve(module.imports, of))
    steps = -(-k // words.per(of))
    size = gemm.scratch_bytes(tiles, m, n, steps, True, by_tiles=gemm.by_matrix_tiles(words, of))
    scratch, c = np.full(size + 64, 255, np.uint8), np.full((m + 1, n), 77, element_type(element))
    scalars, buffers = np.array([m, n, k]), np.array([x.ctypes.data for x in (a, b, c)])
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("product"))
    assert run(scalars.ctypes.data, buffers.ctypes.data, scratch.ctypes.data, 0, 1) == 0
    assert (scratch[size:] == 255).all()
    assert (c[m:] == 77).all(), "a row behind the last one was written"
    return c[:m]


def element_type(element: Type) -> Any:
    return np.float32 if element == F32 else np.int32


def factors(m: int, n: int, k: int, pairs: bool) -> tuple[Array, Array]:
    """Small integers: every sum of theirs is exact, in whatever order."""
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(0, 9, (m, k)), rng.integers(-9, 9, (k, n))
    return (a.astype(np.float32), b.astype(np.float32)) if pairs else (a.astype(np.uint8), b.astype(np.int8))


def is_right(of: Target, m: int, n: int, k: int, pairs: bool) -> bool:
    a, b = factors(m, n, k, pairs)
    return bool((multiplied(of, a, b) == a.astype(np.int64) @ b.astype(np.int64)).all())


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("m", [1, 4, 5, LEAST_ROWS - 1, LEAST_ROWS, 17, 31, 32, 33, 48, 49, TALLEST + 16, 130])
def test_rows_of_every_number_of_tiles(m: int, pairs: bool) -> None:
    for n, k in ((1, 3), (16, 64), (17, 65), (33, 127), (64, 128), (70, 1)):
        assert is_right(EMULATED, m, n, k, pairs), (n, k)


def with_emulation(
    monkeypatch: pytest.MonkeyPatch, instruction: str, write: Callable[[FunctionBuilder], None]
) -> Target:
    """A target one of whose instructions is emulated by another function."""
    _, arguments = emulated_tiles._EMULATIONS[instruction]
    monkeypatch.setitem(emulated_tiles._EMULATIONS, instruction, (write, arguments))
    functions = emulated_tiles.emulation_module(EMULATED)
    loaded = load_object(compile_object(functions.text(), EMULATED), EMULATIONS)
    monkeypatch.setattr(library, "_load_emulation", lambda of: loaded)
    return replace(EMULATED, l3_bytes=EMULATED.l3_bytes + 64 * (1 + next(_OTHER)))  # whose libraries are linked anew


_OTHER = iter(range(1000))


def _exchanged(f: FunctionBuilder, there: Val, row: Val, steps: Val, b: Val) -> Val:
    """Products of pairs of which B has the second element first."""
    swapped = f.alloca(I32, ROWS * ROW_BYTES // 4)
    words = I32.vector(16)
    with f.for_range(0, ROWS) as loop:
        at = f.mul(loop.index, 16)
        word = f.load(b, words, at, align=1)
        f.store(f.or_(f.shl(word, 16), f.lshr(word, 16)), swapped, at)
    return emulated_tiles._pairs(f, there, row, steps, swapped)


def _one_row_more(f: FunctionBuilder) -> None:
    """A tile stored with a copy of its last row behind it."""
    number, at, step = f.args
    tile = emulated_tiles._TileState(f, f.call(emulated_tiles._STATE, PTR, []), number)
    with f.for_range(0, f.add(tile.rows, 1)) as loop:
        row = tile.row(f.smin(loop.index, f.sub(tile.rows, 1)))
        f.memcpy(f.gep(at, f.mul(loop.index, step), matrix_tiles.I8), row, tile.row_bytes)
    f.ret()


def _not_cleared(f: FunctionBuilder) -> None:
    f.ret()


def _one_row_less(f: FunctionBuilder) -> None:
    """A tile without its last row."""
    number, at, step = f.args
    tile = emulated_tiles._TileState(f, f.call(emulated_tiles._STATE, PTR, []), number)
    tile.clear()
    with f.for_range(0, f.sub(tile.rows, 1)) as loop:
        f.memcpy(tile.row(loop.index), f.gep(at, f.mul(loop.index, step), matrix_tiles.I8), tile.row_bytes)
    f.ret()


def _unsigned(f: FunctionBuilder, there: Val, row: Val, steps: Val, b: Val) -> Val:
    return emulated_tiles._fours(f, there, row, steps, b, signs=(False, False))


WRONG: dict[str, tuple[str, Callable[[FunctionBuilder], None], bool]] = {
    "pairs of B packed the other way": ("tdpbf16ps", partial(emulated_tiles._multiply, row_product=_exchanged), True),
    "a row too many stored": ("tilestored64", _one_row_more, False),
    "a row too few loaded": ("tileloadd64", _one_row_less, False),
    "sums not cleared": ("tilezero", _not_cleared, False),
    "bytes of B without sign": ("tdpbusd", partial(emulated_tiles._multiply, row_product=_unsigned), False),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_instruction_makes_a_wrong_product_of_tiles_alone(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which shows that tiles multiply from `LEAST_ROWS` rows on, that fewer rows are multiplied by vectors, and what the tests notice."""
    instruction, write, pairs = WRONG[wrong]
    of = with_emulation(monkeypatch, instruction, write)
    with pytest.raises(AssertionError):
        for m in (2 * TALLEST, 2 * TALLEST + 3):
            assert is_right(of, m, 70, 130, pairs)
    assert is_right(of, LEAST_ROWS - 1, 70, 130, pairs)
    monkeypatch.undo()
    assert is_right(EMULATED, 2 * TALLEST + 3, 70, 130, pairs)


def test_tiles_multiply_fewer_rows_of_pairs_where_vectors_of_them_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong, pairs, least in (
        ("pairs of B packed the other way", True, FEWEST_ROWS),
        ("bytes of B without sign", False, LEAST_ROWS),
    ):
        instruction, write, _ = WRONG[wrong]
        of = replace(with_emulation(monkeypatch, instruction, write), slow_pairs=True)
        assert is_right(of, least - 1, 70, 130, pairs) and not is_right(of, least, 70, 130, pairs)
        monkeypatch.undo()


def test_code_that_a_poll_calls_may_use_tiles() -> None:
    a, b = factors(70, 70, 70, True)
    np.testing.assert_array_equal(multiplied(EMULATED, a, b, "paused"), a @ b)
    program = """
from tests.lower.test_matrix_tiles import *
print("begins", flush=True)
multiplied(EMULATED, *factors(70, 70, 70, True), "unpaused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "begins" in done.stdout and done.returncode == -signal.SIGTRAP, done.stderr


def computed(m: int, n: int, k: int, way: str) -> bool:
    """Whether a product is right whose factors, words of pairs in memory, are copied as the template asks: A by rows ("gathered") or
    step by step ("packed"), B step by step. Scratch is full of NaN."""
    a, b = factors(m, n, k, True)
    words_a, words_b = (x.astype(ml_dtypes.bfloat16) for x in (a, np.ascontiguousarray(b.T)))
    steps = -(-k // 2)
    words_a, words_b = (
        np.ascontiguousarray(np.pad(x, ((0, 0), (0, 2 * steps - k)))).view(np.int32) for x in (words_a, words_b)
    )
    module = Module(EMULATED)
    with module.kernel("product") as f:
        at_a, at_b, at_c = (f.load(f.arg("buffers"), PTR, at) for at in range(3))

        def copy(
            of: Val, of_rows: bool, f: FunctionBuilder, tile: object, first: Val, count: Val, width: Val, to: Val
        ) -> None:
            row_step, step = (width, const(I64, 1)) if of_rows else (const(I64, 1), width)
            with f.for_range(0, steps) as loop, f.for_range(0, count) as rows:
                word = f.load(of, I32, f.add(f.mul(f.add(first, rows.index), steps), loop.index))
                f.store(word, to, f.add(f.mul(rows.index, row_step), f.mul(loop.index, step)))

        left = (
            gemm.Gathered(partial(copy, at_a, True)) if way == "gathered" else gemm.Packed(partial(copy, at_a, False))
        )
        spec = gemm.ContractionSpec(
            element=F32, m=m, n=n, k=k, a=left, b=gemm.Packed(partial(copy, at_b, False)), c=gemm.Destination(at_c, n), words=Pairs()
        )  # fmt: skip
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))
        f.ret(const(f.result, 0))
    loaded = compile_module(module, gemm.resolve(module.imports, EMULATED))
    tiles = gemm.tiles_for(EMULATED, F32)
    size = gemm.scratch_bytes(
        tiles, m, n, steps, True, block=tiles.computed_block, gathered=way == "gathered", by_tiles=True
    )
    scratch, c = np.full(size + 64, 255, np.uint8), np.empty((m, n), np.float32)
    buffers = np.array([x.ctypes.data for x in (words_a, words_b, c)])
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("product"))
    assert run(0, buffers.ctypes.data, scratch.ctypes.data, 0, 1) == 0
    assert (scratch[size:] == 255).all()
    return bool((c == a @ b).all())


@pytest.mark.parametrize("way", ["gathered", "packed"])
def test_computed_factors_end_with_zeros(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for m, n, k in ((3, 40, 9), (16, 33, 1), (40, 33, 64), (70, 20, 67), (33, 70, 130)):
        assert computed(m, n, k, way), (m, n, k)
    from anyshape.lower.gemm import tiled_rows

    name = "clear_row_ends" if way == "gathered" else "clear_steps"
    monkeypatch.setattr(tiled_rows, name, lambda *_: None)
    assert computed(40, 33, 64, way) and not computed(70, 20, 67, way)


@pytest.mark.parametrize("way", ["gathered", "packed"])
def test_panels_end_with_zeros(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from anyshape.lower.gemm import panels_of_b

    monkeypatch.setattr(panels_of_b, "clear_steps", lambda *_: None)
    assert computed(40, 33, 64, way) and not computed(70, 20, 67, way)


def test_the_ends_of_words_are_zeros_in_both_factors() -> None:
    """Scratch and memory around operands are full of NaN: one that reached a product would show."""
    for k in (1, 31, 33, 63, 65):
        a, b = np.full((40, k + 3), np.nan, np.float32), np.full((k, 70), np.nan, np.float32)
        a[:, :k], b[:, :69] = 1, 2
        got = multiplied(EMULATED, np.ascontiguousarray(a[:, :k]), np.ascontiguousarray(b[:, :69]))
        assert (got == 2 * k).all()
