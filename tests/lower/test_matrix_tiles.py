"""Matrix tiles: the target that has them, the functions that emulate their instructions, the code that uses the instructions, and what of a
product goes wrong where one of these does.

Whole products by emulated tiles are in `tests/precision/test_pairs.py`, `test_forms.py` and `test_gemm_codes.py`, at the level `amx`.
"""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape.lower import gemm, target
from anyshape.lower.gemm import Codes, Side, library
from anyshape.lower.gemm.matrix_tiles import TALLEST
from anyshape.lower.gemm.pairs import FEWEST_ROWS, TILED, Pairs
from anyshape.lower.limits import emit_chains
from anyshape.lower.llvm import emulated_tiles, matrix_tiles
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.jit import Loaded, assembly, compile_module, compile_object, load_object
from anyshape.lower.llvm.matrix_tiles import EMULATIONS, ROW_BYTES, ROWS, configuration, emulation_of
from anyshape.lower.llvm.types import F32, I32, I64, PTR, VOID, Type, Val, const
from anyshape.lower.multiply_adds import multiply_adds_of
from anyshape.lower.target import MatrixTiles, Target, host_target, processor, tiles_of
from anyshape.vm.export.targets import TARGETS
from benchmarks import matrix_tiles as benchmark
from tests.kernel_texts import heard
from tests.precision.test_forms import FORMS

Array = np.ndarray[Any, Any]
HOST = replace(host_target(), slow_pairs=False)
LEAST_ROWS = MatrixTiles(pairs=True, dots=True).least_rows
EMULATED = replace(HOST, matrix_tiles=MatrixTiles(pairs=True, dots=True, emulated=True))
AMX = "+amx-tile,+amx-bf16,+amx-int8"
TRUE = replace(HOST, features=f"{HOST.features},{AMX}", matrix_tiles=MatrixTiles(pairs=True, dots=True))
"""This machine with the instructions: what is compiled for it runs only where it has them."""
pytestmark = pytest.mark.skipif(
    not (HOST.pairs and HOST.dots),
    reason="words are packed for tiles by AVX512-BF16 and AVX512-VNNI",
)


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


# --- the emulation ---


EXECUTED = {"emulated": EMULATED} | ({"the processor's": HOST} if HOST.matrix_tiles is not None else {})
"""What executes instructions of tiles here: so emulation is compared with a processor that has them."""


def emulated(
    write: Callable[[FunctionBuilder], None], with_functions: Loaded | None = None, of: Target = EMULATED
) -> Callable[..., None]:
    """A function of three addresses, of a target whose tiles are emulated, or of another one."""
    module = Module(of)
    with module.function("run", VOID, [(name, PTR) for name in "abc"], noalias=False) as f:
        write(f)
        f.ret()
    functions = with_functions or library._load_emulation(EMULATED)
    used = EMULATIONS if of is EMULATED else ()
    loaded = compile_module(module, {name: functions.address(name) for name in used})
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(loaded.address("run"))
    return lambda *arrays: (loaded, run(*(x.ctypes.data for x in arrays)))[0] and None


def shaped(shapes: dict[int, tuple[int, int]]) -> bytes:
    """A configuration of tiles of some shapes: rows and bytes of each."""
    content = bytearray(64)
    content[0] = 1
    for tile, (rows, bytes_) in shapes.items():
        content[16 + 2 * tile : 18 + 2 * tile] = bytes_.to_bytes(2, "little")
        content[48 + tile] = rows
    return bytes(content)


def product_of_tiles(product: str, a: Array, b: Array, c: Array, of: Target = EMULATED) -> Array:
    """C plus the product of an A and a B of words, by one instruction with tiles of their shapes, and by that alone."""
    shapes = {0: (*c.shape,), 1: (*a.shape,), 2: (*b.shape,)}

    def write(f: FunctionBuilder) -> None:
        at = f.module.data("shapes", shaped({t: (rows, 4 * words) for t, (rows, words) in shapes.items()}), 64)
        matrix_tiles.configure(f, at)
        for tile, x in ((0, 2), (1, 0), (2, 1)):
            matrix_tiles.load(f, tile, f.args[x], const(I64, 4 * shapes[tile][1]))
        matrix_tiles.multiply(f, product, 0, 1, 2)
        matrix_tiles.store(f, 0, f.args[2], const(I64, 4 * c.shape[1]))
        matrix_tiles.release(f)

    result = c.copy()
    emulated(write, of=of)(a, b, result)
    return result


def flushed(x: Array) -> Array:
    x = x.astype(np.float32)
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).astype(np.float32)


def expected_of_pairs(a: Array, b: Array, c: Array) -> Array:
    """The manual's description in NumPy: products of bf16 are exact in f64, and so are their sums with an f32 but for the last rounding."""
    (even_a, odd_a), (even_b, odd_b) = (
        tuple(
            flushed(np.ascontiguousarray(x).view(ml_dtypes.bfloat16)[..., half::2].astype(np.float32))
            for half in (0, 1)
        )
        for x in (a, b)
    )
    sums = []
    with np.errstate(all="ignore"):
        for x, y in ((even_a, even_b), (odd_a, odd_b)):
            total = np.zeros(c.shape, np.float32)
            for k in range(a.shape[1]):
                total = flushed(x[:, k, None].astype(np.float64) * y[None, k] + total)
            sums.append(total)
        return flushed(flushed(c.view(np.float32)) + flushed(sums[0] + sums[1]))


SHAPES = [(16, 16, 16), (1, 1, 1), (3, 5, 7), (16, 2, 16), (13, 16, 4), (2, 15, 16)]
"""Rows of A, words of its rows, words of the rows of B"""


@pytest.mark.parametrize("of", EXECUTED.values(), ids=EXECUTED)
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_products_of_pairs_are_the_manuals(m: int, k: int, n: int, of: Target) -> None:
    rng = np.random.default_rng(m + k + n)

    def pairs(*shape: int) -> Array:
        return rng.standard_normal((shape[0], 2 * shape[1])).astype(ml_dtypes.bfloat16).view(np.int32)

    a, b, c = pairs(m, k), pairs(k, n), rng.standard_normal((m, n)).astype(np.float32)
    got = product_of_tiles("tdpbf16ps", a, b, c.view(np.int32), of).view(np.float32)
    np.testing.assert_array_equal(got, expected_of_pairs(a, b, c))
    if k > 1:  # what the sums' order is compared by: exchanged halves, and one sum in place of two
        exchanged = expected_of_pairs(
            np.roll(a.view(np.int16).reshape(m, k, 2), 1, 2).reshape(m, -1).view(np.int32), b, c
        )
        assert (got != exchanged).any()


@pytest.mark.parametrize("of", EXECUTED.values(), ids=EXECUTED)
def test_products_of_pairs_take_subnormal_numbers_for_zero(of: Target) -> None:
    words = np.array(
        [[2.0**-126, 2.0**-133], [1, 0], [np.nan, 0], [np.inf, 1], [2.0**-70, 2.0**-70]], ml_dtypes.bfloat16
    )
    a = words.view(np.int32)
    b = np.array([[1, 1]], ml_dtypes.bfloat16).view(np.int32)
    c = np.full((5, 1), 2.0**-140, np.float32)
    got = product_of_tiles("tdpbf16ps", a, b, c.view(np.int32), of).view(np.float32)
    np.testing.assert_array_equal(got[:, 0], np.array([2.0**-126, 1, np.nan, np.inf, 2.0**-69], np.float32))
    small = np.array([[2.0**-70, 0]], ml_dtypes.bfloat16).view(np.int32)
    assert product_of_tiles("tdpbf16ps", small, small, np.zeros((1, 1), np.int32), of) == 0  # 2**-140


@pytest.mark.parametrize("of", EXECUTED.values(), ids=EXECUTED)
@pytest.mark.parametrize("product", matrix_tiles.PRODUCTS[1:])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_products_of_bytes_are_by_their_signs(product: str, m: int, k: int, n: int, of: Target) -> None:
    rng = np.random.default_rng(m + k + n)
    types = [np.uint8 if sign == "u" else np.int8 for sign in product[4:6]]
    a, b = (rng.integers(-(2**31), 2**31, shape, np.int64).astype(np.int32) for shape in ((m, k), (k, n)))
    c = rng.integers(-(2**31), 2**31, (m, n), np.int64).astype(np.int32)
    fours_a = a.view(types[0]).astype(np.int64)
    fours_b = b.view(types[1]).reshape(k, n, 4).swapaxes(1, 2).reshape(4 * k, n).astype(np.int64)
    np.testing.assert_array_equal(product_of_tiles(product, a, b, c, of), (c + fours_a @ fours_b).astype(np.int32))


def test_rows_and_words_beyond_the_shape_are_zeros() -> None:
    """A tile of 3 x 5 words, loaded over a whole one, is stored as a whole one: configurations clear, so it is seen by loads alone."""

    def write(f: FunctionBuilder) -> None:
        matrix_tiles.configure(f, f.module.data("shapes", shaped({0: (3, 20), 1: (16, 64)}), 64))
        matrix_tiles.load(f, 0, f.args[0], const(I64, 64))
        matrix_tiles.load(f, 1, f.args[0], const(I64, 64))
        matrix_tiles.store(f, 0, f.args[1], const(I64, 64))
        matrix_tiles.clear(f, 1)
        matrix_tiles.store(f, 1, f.args[2], const(I64, 64))
        matrix_tiles.release(f)

    full, part, cleared = (np.full((16, 16), fill, np.int32) for fill in (7, -1, -1))
    emulated(write)(full, part, cleared)
    assert (part[:3, :5] == 7).all() and (part[:3, 5:] == -1).all() and (part[3:] == -1).all() and (cleared == 0).all()


FAULTS = {
    "nothing": "",
    "no configuration": "matrix_tiles.clear(f, 0)",
    "released": "configure(configuration()); matrix_tiles.release(f); matrix_tiles.clear(f, 0)",
    "a row too many": "configure(configuration(rows=17))",
    "a word too many": "configure(configuration(row_bytes=68))",
    "palette": "configure(bytes([2, *configuration()[1:]]))",
    "reserved bytes": "configure(configuration()[:40] + bytes([1]) + configuration()[41:])",
    "shapes": "configure(shaped({0: (16, 64), 1: (16, 32), 2: (16, 64)})); matrix_tiles.multiply(f, 'tdpbusd', 0, 1, 2)",
    "one tile twice": "configure(configuration()); matrix_tiles.multiply(f, 'tdpbusd', 0, 1, 1)",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_ends_a_process_with_the_instructions_ends_it(fault: str) -> None:
    program = f"""
import numpy as np
from tests.lower.test_matrix_tiles import *
def write(f):
    def configure(content):
        matrix_tiles.configure(f, f.module.data("shapes", content, 64))
    {FAULTS[fault] or "configure(configuration()); matrix_tiles.clear(f, 7); matrix_tiles.release(f)"}
room = np.zeros(256, np.int32)
run = emulated(write)
print("begins", flush=True)
run(room, room, room)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "begins" in done.stdout, done.stderr
    assert done.returncode == (-signal.SIGTRAP if FAULTS[fault] else 0), done.stderr


# --- the instructions ---


INSTRUCTIONS = {
    library.TILED[0]: {"tilezero": 9, "tileloadd": 12, "tdpbf16ps": 9, "tilestored": 9},
    library.TILED[1]: {"tilezero": 18, "tileloadd": 24, "tdpbusd": 9, "tdpbsud": 9, "tilestored": 18},
}
"""The instructions in the kernels of one and two tiles of rows and columns"""
DRIVER = {"ldtilecfg": 1, "tilerelease": 1}


def counted(text: str, of: Target) -> dict[str, int]:
    """How often there is each instruction in the assembly of a text, if it is there."""
    names = re.findall(r"^\s+(tile\w+|tdp\w+|ldtilecfg)\b", assembly(text, of), re.MULTILINE)
    return {name: names.count(name) for name in dict.fromkeys(names)}


@pytest.mark.parametrize("element", library.TILED)
def test_kernels_become_the_instructions(element: Type) -> None:
    text = library.library_module(TRUE, element).text()
    assert counted(text, TRUE) == INSTRUCTIONS[element]
    assert compile_object(text, TRUE)


@pytest.mark.parametrize("words, element", [(Pairs(), F32), (Codes(Side(True), Side(False)), I32)])
def test_drivers_configure_tiles_once_and_release_them(words: gemm.OperandWords, element: Type) -> None:
    text = driver(TRUE, words, element).text()
    assert counted(text, TRUE) == DRIVER
    assert compile_object(text, TRUE)
    assert configuration() in compile_object(text, TRUE)
    assert counted(driver(TRUE.without_tiles, words, element).text(), TRUE) == {}


def test_the_emulated_text_is_that_of_the_instructions_but_for_their_names() -> None:
    texts = [(library.library_module(t, e).text(), t) for e in library.TILED for t in (TRUE, EMULATED)]
    texts += [(driver(t, Pairs(), F32).text(), t) for t in (TRUE, EMULATED)]
    plain = [sorted(of_one_name(text)) for text, _ in texts]
    assert plain[::2] == plain[1::2]
    assert all(emulation_of("tilezero") in text for text, t in texts[:4] if t is EMULATED)


def of_one_name(text: str) -> list[str]:
    """The lines of a text in which instructions and what emulates them have one name."""
    named = re.sub(r"llvm\.x86\.(?=tile|tdp|ldtile)", "anyshape_emulated_", text)
    return [line.removesuffix(" nounwind") if line.startswith("declare") else line for line in named.splitlines()]


def with_instructions(text: str) -> str:
    """The text of a kernel with emulated tiles, with the instructions in their place."""
    return text.replace("@anyshape_emulated_", "@llvm.x86.")


@pytest.mark.parametrize("name", ["3x3", "channels last", "columns along k", "attention", "map between"])
def test_kernels_of_models_compile_to_the_instructions(name: str) -> None:
    texts: list[str] = []
    with heard(texts.append):
        anyshape.compile(FORMS[name].function(), precision="bf16", target="amx")
    tiled = [text for text in texts if TILED.table in text]
    assert tiled
    for text in tiled:
        assert HOST.matrix_tiles is not None or emulation_of("ldtilecfg") in text
        counts = counted(with_instructions(text), TRUE)
        assert counts.keys() == DRIVER.keys() and counts["ldtilecfg"] <= counts["tilerelease"], counts
        assert compile_object(with_instructions(text), TRUE)


def test_the_command_that_measures_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    for of in benchmark.KINDS:
        assert (
            benchmark.main(["--of", of, "--emulated", "--rows", "3,20", "--shapes", "20x40", "--budget", "0.01"]) == 0
        )
        printed = capsys.readouterr().out
        assert len(re.findall(r"^ +(3|20) +20 +40 ", printed, re.MULTILINE)) == 2
        assert ("means anything" in printed) == (HOST.matrix_tiles is None)
    if HOST.matrix_tiles is None:
        assert benchmark.main([]) == 1 and "nothing to measure" in capsys.readouterr().out


def test_limits_multiply_four_tiles_of_sums() -> None:
    for kind, instruction in (("bf16 tiles", "tdpbf16ps"), ("i8 tiles", "tdpbusd")):
        assert kind in multiply_adds_of(TRUE) and (kind in multiply_adds_of(HOST)) == (HOST.matrix_tiles is not None)
        module = Module(TRUE)
        assert emit_chains(module, kind) == 4 * 16 * 16 * (32 if kind == "bf16 tiles" else 64)
        assert counted(module.text(), TRUE)[instruction] == 4
    module = Module(EMULATED)
    emit_chains(module, "i8 tiles")
    functions = library._load_emulation(EMULATED)
    loaded = compile_module(module, {name: functions.address(name) for name in module.imports})
    room = np.full(1024, 1, np.uint8)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(loaded.address("peak"))(room.ctypes.data, 3)
    assert (room.view(np.int32) == 3 * 64).all()


# --- products ---


def driver(of: Target, words: gemm.OperandWords, element: Type, visits: str = "") -> Module:
    """A product of A and B in memory. Scalars m, n, k; buffers a, b, c. `visits`: whether its polls call code that uses tiles, and whether
    they are "paused" for that."""
    module = Module(of)
    with module.kernel("product") as f:
        m, n, k = (f.load(f.arg("scalars"), I64, at) for at in range(3))
        a, b, c = (f.load(f.arg("buffers"), PTR, at) for at in range(3))

        def poll(pause: AbstractContextManager[None] | None) -> None:
            if visits:
                with pause if pause is not None and visits == "paused" else nullcontext():
                    matrix_tiles.configure(f, Val("@anyshape_tile_configuration", PTR))
                    matrix_tiles.release(f)

        spec = gemm.ContractionSpec(
            element=element, m=m, n=n, k=k, a=gemm.Strided(a, k, 1), b=gemm.Strided(b, n, 1), c=gemm.Destination(c, n), words=words
        )  # fmt: skip
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"), poll)
        f.ret(const(f.result, 0))
    return module


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
