"""Modules of WebAssembly that an export writes, called from JavaScript: results, sizes, refusals, memory."""

from __future__ import annotations

import base64
import json
import random
import struct
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import CHAR, NARROW, parse_dtype
from anyshape.graph.function import Function
from anyshape.lower.llvm.jit import CodegenError
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import Export, Request, bytes_at, export, export_ranks, export_target
from anyshape.vm.export.formula import arena_formulas
from anyshape.vm.export.interface import interface
from anyshape.vm.export.loader import loader
from anyshape.vm.export.wasm_binary import (
    MAGIC,
    BinaryReader,
    Section,
    WasmKind,
    section,
    sections,
    signed,
    text,
    unsigned,
    vector,
)
from anyshape.vm.export.wasm_module import STACK, module_of
from anyshape_testing.exports.javascript import Engine, JavaScriptError, Session, command, page_text
from anyshape_testing.exports.loaded import sizes
from tests.export.test_c_programs import loop, softmax

OPTIONS = make_options({"dims": {}})
WASM = export_target("wasm32")
DTYPES = ("f32", "f64", "f16", "i8", "i64", "u8", "u64", "bool", "f8e4m3fn")


def every_dtype() -> Function:
    """Inputs of dtypes that JavaScript has arrays of, or bits; and a sine, which the module imports."""
    inputs = [anyshape.input(f"x_{t}", f"{t}[n]") for t in DTYPES]
    doubled = {f"y_{p.name}": ops.concat([p, p], axis=0) for p in inputs}
    return anyshape.function(inputs, {**doubled, "sines": ops.sin(inputs[1])})


def cube() -> Function:
    """An output of n * n * n elements."""
    x = anyshape.input("x", "f32[n]")
    planes = ops.mul(ops.expand_dims(x, [0]), ops.expand_dims(x, [1]))
    return anyshape.function([x], {"y": ops.mul(ops.expand_dims(planes, [0]), ops.expand_dims(x, [1, 2]))})


FUNCTIONS = {"softmax": softmax(), "loop": loop(), "every_dtype": every_dtype(), "cube": cube()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("javascript")


@pytest.fixture(scope="module")
def exports(folder: Path) -> dict[str, Export]:
    """Exported models, and an op of several ranks, written to one folder."""
    written = {
        name: export(f, name, WASM, OPTIONS, "file" if name == "softmax" else None) for name, f in FUNCTIONS.items()
    }
    ranked = {r: anyshape.input("x", f"f32[{', '.join('abc'[:r])}]") for r in (1, 2)}
    functions = {r: anyshape.function([x], {"y": ops.exp(x)}) for r, x in ranked.items()}
    written["exp"] = export_ranks(functions, "exp", Request(WASM, OPTIONS), 0)
    for e in written.values():
        e.write(folder)
    return written


@pytest.fixture(scope="module", params=["node", "browser"])
def session(request: pytest.FixtureRequest, folder: Path, exports: dict[str, Export]) -> Iterator[Session]:
    engine: Engine = request.param
    if command(engine) is None:
        pytest.skip(f"there is no {engine} here" if engine == "node" else "there is no browser here (chromium)")
    with Session(engine, folder) as s:
        yield s


def drawn(name: str, n: int) -> list[Any]:
    """Inputs of a model for a size."""
    rng = np.random.default_rng(n)
    if name == "every_dtype":
        return [rng.integers(0, 2, n).astype(parse_dtype(t).numpy) for t in DTYPES]
    return [rng.standard_normal((n, 6) if name == "softmax" else n).astype(np.float32)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_python(name: str, session: Session, exports: dict[str, Export]) -> None:
    python, e = anyshape.compile(FUNCTIONS[name], threads=1), exports[name]
    for n in (17, 1, 2, 0):
        inputs = drawn(name, n)
        try:
            expected = python.run(dict(zip(python.input_names, inputs)))
        except anyshape.AnyshapeError as refusal:
            with pytest.raises(JavaScriptError) as raised:
                session.call_export(e, *inputs)
            assert str(raised.value) == str(refusal)
            continue
        for result, value in zip(session.call_export(e, *inputs), expected, strict=True):
            assert (result.shape, result.dtype) == (value.shape, value.dtype)
            np.testing.assert_allclose(result.astype(np.float64), value.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_a_plan_has_the_bytes_of_the_formula_and_the_shapes(session: Session, exports: dict[str, Export]) -> None:
    e = exports["softmax"]
    m = e.interface
    (formula, *_) = arena_formulas(e.programs[0][1][0].knowledge, m).sizes
    for n in (1, 5, 1000):
        x = np.zeros((n, 6), np.float32)
        plan = session.plan("softmax", {"x": x})
        assert plan.arena_bytes == bytes_at(formula, dict(zip([d.c_name for d in m.dims], sizes(m, [x]))))
        assert list(plan.shapes.values()) == [[n, 9]]
    assert session.plan("loop", {"x": np.ones(3, np.float32)}).shapes == {"longer": [-1], "sums": [-1]}


def test_a_rank_chooses_its_model(session: Session) -> None:
    for shape in ((3,), (2, 3)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(session.call("exp", {"x": x}, {"y": np.float32})["y"], np.exp(x), rtol=1e-6)
    with pytest.raises(JavaScriptError, match="there is code for ranks 1, 2, got an input of rank 3"):
        session.call("exp", {"x": np.zeros((1, 1, 1), np.float32)}, {})


def test_refusals_have_the_words_of_the_status(session: Session) -> None:
    zeros = np.zeros
    for model, inputs, status, words in (
        ("softmax", {"x": zeros((2, 5), np.float32)}, "SHAPE", "k of b: expected 5, got 6"),
        ("softmax", {"x": zeros(6, np.float32)}, "TENSOR", "input x must be of rank 2, got rank 1"),
        ("softmax", {"x": zeros((1, 6))}, "TENSOR", "with data a Float32Array, for f32, got Float64Array"),
        ("softmax", {}, "TENSOR", "with data a Float32Array, for f32, got undefined"),
        ("softmax", {"y": zeros(1)}, "TENSOR", "there is no input y; there are x"),
        (
            "cube",
            {"x": zeros(1100, np.float32)},
            "ARENA",
            "bytes of memory are needed, and WebAssembly has no more than",
        ),
    ):
        with pytest.raises(JavaScriptError, match=words) as raised:
            session.call(model, inputs, {})
        assert (raised.value.name, raised.value.status) == ("AnyshapeError", f"ANYSHAPE_{status}")
    ones = np.ones(2, np.float32)
    assert session.call("cube", {"x": ones}, {"y": np.float32})["y"].tolist() == np.ones((2, 2, 2)).tolist()


ARRAYS = {"Float32Array": 4, "Float64Array": 8, "BigInt64Array": 8, "Uint8Array": 1, "DataView": 1, "": 0}
SHAPES: tuple[Any, ...] = (
    [0], [1], [4], [2, 2], [1, 6], [0, 6], [-1], [-2, -2], [1.5], [1e300], ["1"], [None], [[1]], [2**53], [2**62, 4, 0], "12", 7, None, {},
)  # fmt: skip


def test_calls_at_random_end_with_a_status(session: Session) -> None:
    pick = random.Random(5)
    outcomes = set()
    for _ in range(200 if session.engine == "node" else 20):
        array, model = pick.choice([*ARRAYS]), pick.choice([*FUNCTIONS, "exp"])
        data = base64.b64encode(pick.randbytes(ARRAYS[array] * pick.choice((0, 1, 4, 6)))).decode()
        tensor: Any = {
            "array": array,
            "data": data if array else pick.choice((None, 7, "text", [1])),
            "shape": pick.choice(SHAPES),
        }
        call = {"loader": f"{model}.mjs", "model": model, "plan": pick.random() < 0.2}
        try:
            session.ask({**call, "inputs": {pick.choice(("x", "x", "x_f32")): tensor}})
            outcomes.add("")
        except JavaScriptError as e:
            assert e.name == "AnyshapeError" and e.status and str(e), e
            outcomes.add(e.status)
    assert session.engine == "browser" or {"", "ANYSHAPE_TENSOR", "ANYSHAPE_SHAPE"} <= outcomes


# --- the loader's own arithmetic ---


def rounded(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def test_fma_is_rounded_once(tmp_path: Path) -> None:
    words = command("node")
    if words is None:
        pytest.skip("there is no node here")
    e = export(anyshape.function([x := anyshape.input("x", "f32[n]")], x), "same", WASM, OPTIONS)
    assert "fma" not in e.library
    script = e.files()["same.mjs"].decode() + (
        "const bits = new DataView(new ArrayBuffer(8));"
        "const read = (text) => (bits.setBigUint64(0, BigInt(text)), bits.getFloat64(0));"
        "const write = (x) => (bits.setFloat64(0, x), String(bits.getBigUint64(0)));"
        "console.log(JSON.stringify(JSON.parse(process.argv[2]).map((xs) => write(fma(...xs.map(read))))));"
    )
    (tmp_path / "same.mjs").write_text(script)
    pick, triples = random.Random(1), []
    for k in range(1200):
        a, b = (
            pick.choice((-1, 1)) * pick.uniform(1, 2) * 2.0 ** pick.choice((0, 3, -40, 500, -540, -1030)) for _ in "ab"
        )
        near = (
            -a * b * (1 + pick.choice((0, 2**-52, 2**-30)))
            if k % 2
            else pick.uniform(-1, 1) * 2.0 ** pick.randrange(-1070, 1020)
        )
        triples.append((a, b, near if abs(near) < float("inf") else 1.0))
    triples += [(5e-324, 0.5, 5e-324), (1e308, 10.0, -1e308), (0.0, -1.0, -0.0), (3.0, 0.0, 5.0), (1e-300, 1e-300, 0.0)]
    passed = json.dumps([[str(int.from_bytes(struct.pack(">d", x), "big")) for x in xs] for xs in triples])
    done = subprocess.run([words[0], str(tmp_path / "same.mjs"), passed], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = [struct.unpack(">d", int(bits).to_bytes(8, "big"))[0] for bits in json.loads(done.stdout)]
    for (a, b, c), result in zip(triples, results, strict=True):
        assert result == rounded(Fraction(a) * Fraction(b) + Fraction(c)), (a, b, c)


def test_there_is_an_array_for_every_dtype() -> None:
    """The loader names those dtypes with codes of DLPack that are not passed as bytes."""
    tables = loader("m", [interface(cube(), "cube")], False, 4).split("const ARRAYS = {")[1].partition("};")[0]
    named = {pair.split(":")[0].strip() for pair in tables.split(",") if ":" in pair}
    assert named == {*map(str, anyshape.dtypes.ALL), str(CHAR)}
    assert all(t.itemsize == 1 for t in NARROW)


# --- linking ---


def small_object(relocation: int = 5, global_name: str = "__memory_base", segment: bytes = b"\0\x41\0\x0b") -> bytes:
    """An object with a segment of 8 bytes, of which the first four are an address."""
    imported = text("env") + text(global_name) + bytes([WasmKind.GLOBAL, 0x7F, 0])
    data = vector([segment + unsigned(8) + bytes([4, 0, 0, 0, 1, 2, 3, 4])])
    place = len(data) - 8
    relocations = unsigned(6) + unsigned(1) + bytes([relocation]) + unsigned(place) + unsigned(0) + signed(4)
    named = {"linking": unsigned(2), "reloc.DATA": relocations}
    return (
        MAGIC
        + section(Section.IMPORT, vector([imported]))
        + section(Section.DATA, data)
        + b"".join(section(Section.CUSTOM, text(n) + content) for n, content in named.items())
    )


def test_an_address_in_data_moves_with_the_data() -> None:
    (data,) = [content for number, _, content in sections(module_of(small_object(), ())) if number == Section.DATA]
    stream = BinaryReader(data)
    assert (stream.number(), stream.bytes(2), stream.signed(), stream.byte(), stream.number()) == (
        1,
        b"\0\x41",
        STACK,
        0x0B,
        8,
    )
    assert stream.bytes(8) == (STACK + 4).to_bytes(4, "little") + bytes([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"relocation": 8}, "relocation of kind 8"),
        ({"global_name": "GOT.mem"}, "imports GOT.mem"),
        ({"segment": b"\1"}, "segment without an address"),
    ],
)
def test_what_linking_does_not_know_is_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(CodegenError, match=said):
        module_of(small_object(**words), ())


def test_numbers_are_read_as_they_are_written() -> None:
    for n in (0, 1, 63, 64, 127, 128, 8191, 2**31, 2**35 + 7):
        assert BinaryReader(unsigned(n)).number() == n
        assert (BinaryReader(signed(n)).signed(), BinaryReader(signed(-n)).signed()) == (n, -n)


OPENED = """<!doctype html><body><script>
localStorage.opened = 1 + Number(localStorage.opened ?? 0);
document.body.textContent = `opened ${localStorage.opened}`;
</script></body>"""


@pytest.mark.skipif(command("browser") is None, reason="there is no browser here (chromium)")
def test_a_page_that_is_not_ready_is_opened_again(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(OPENED)
    assert "<body>opened 1</body>" in page_text(tmp_path, "page.html")
    assert "<body>opened 3</body>" in page_text(tmp_path, "page.html", "opened 3")
    assert "<body>opened 5</body>" in page_text(tmp_path, "page.html", "never")
