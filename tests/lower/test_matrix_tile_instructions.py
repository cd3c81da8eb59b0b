"""Instructions of matrix tiles: the functions that emulate them, and the code that uses them."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape.lower import gemm
from anyshape.lower.gemm import Codes, Side, library
from anyshape.lower.gemm.pairs import TILED, Pairs
from anyshape.lower.limits import emit_chains
from anyshape.lower.llvm import matrix_tiles
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.jit import Loaded, assembly, compile_module, compile_object
from anyshape.lower.llvm.matrix_tiles import EMULATIONS, configuration, emulation_of
from anyshape.lower.llvm.types import F32, I32, I64, PTR, VOID, Type, const
from anyshape.lower.multiply_adds import multiply_adds_of
from anyshape.lower.target import Target
from benchmarks import matrix_tiles as benchmark
from tests.kernel_texts import heard
from tests.lower.tile_targets import EMULATED, HOST, TRUE, driver, packs_words
from tests.precision.test_forms import FORMS

Array = np.ndarray[Any, Any]
pytestmark = packs_words


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
from tests.lower.test_matrix_tile_instructions import *
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
    library.TILED[0]: {"tilezero": 18, "tileloadd": 24, "tdpbf16ps": 18, "tilestored": 18},
    library.TILED[1]: {"tilezero": 36, "tileloadd": 48, "tdpbusd": 18, "tdpbsud": 18, "tilestored": 36},
}
"""The instructions in the kernels of one and two tiles of rows and columns, of rows as of taps: of pairs, or of both kinds of bytes"""
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
