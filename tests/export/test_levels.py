"""Exports for several levels of processors: which is chosen, what each computes, and that its memory holds whichever runs."""

from __future__ import annotations

import ctypes
import json
import platform
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.cli.main import main
from anyshape.cli.show import variant
from anyshape.dims import evaluate, free_symbols
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module, load_object
from anyshape.lower.llvm.target_probe import gathers
from anyshape.lower.target import host_target
from anyshape.vm.export import (
    TARGETS,
    Request,
    arena_of,
    asking,
    export,
    export_ranks,
    export_target,
    level_code,
    own_levels,
)
from anyshape.vm.export.level_code import ANSWERS, LEVEL_OF, define_answers, define_level_of
from anyshape.vm.export.op_function import of_op, of_rank
from anyshape.vm.export.processor_features import FEATURES, OSXSAVE, ProcessorAnswer, bits_of, needed_bits
from anyshape.vm.export.status_code import Code
from anyshape_testing.exports.c_programs import CProgram, toolchain
from anyshape_testing.exports.loaded import SATURATED, Exported, StatusError
from tests.export.test_c_programs import OPTIONS, branches, compiled, loop, softmax
from tests.export.test_values import arrays, rows

NAMES = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
CHAIN = (*NAMES, "znver4", "sapphirerapids")
"""All levels of x86-64, each of which has what the one before it has"""
ALL = ",".join(NAMES)
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
on_x86 = pytest.mark.skipif(not IS_X86, reason="this machine has no level of x86-64")
V2, V3, V4, ZEN4, SAPPHIRE_RAPIDS = NEEDED = [needed_bits(TARGETS[name].processor) for name in CHAIN]
EVERY_BIT = dict.fromkeys(ProcessorAnswer, (1 << 32) - 1)
Answers = dict[ProcessorAnswer, int]
BEYOND_V4: dict[str, tuple[ProcessorAnswer, int]] = {
    "avx512ifma": (ProcessorAnswer.STRUCTURED, 21),
    "avx512vbmi": (ProcessorAnswer.STRUCTURED_ECX, 1),
    "avx512vbmi2": (ProcessorAnswer.STRUCTURED_ECX, 6),
    "gfni": (ProcessorAnswer.STRUCTURED_ECX, 8),
    "avx512vnni": (ProcessorAnswer.STRUCTURED_ECX, 11),
    "avx512bitalg": (ProcessorAnswer.STRUCTURED_ECX, 12),
    "avx512vpopcntdq": (ProcessorAnswer.STRUCTURED_ECX, 14),
    "avx512fp16": (ProcessorAnswer.STRUCTURED_EDX, 23),
    "avx512bf16": (ProcessorAnswer.SECOND_EAX, 5),
}
"""Features that some target has beside x86-64-v4, and their bits in the manuals of both makers"""


def without(answers: Answers, answer: ProcessorAnswer, bits: int) -> Answers:
    return {**answers, answer: answers[answer] & ~bits}


@cache
def level_of() -> Any:
    """The function that decides, alone in a module for this machine."""
    module = Module(host_target())
    define_level_of(module, [TARGETS[name] for name in CHAIN], internal=False)
    loaded = compile_module(module)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loaded.address(LEVEL_OF))

    def call(answers: Answers, loaded: Any = loaded) -> int:
        row = (ctypes.c_int64 * len(ProcessorAnswer))(*(answers[a] for a in ProcessorAnswer))
        return int(function(ctypes.addressof(row)))

    return call


def answers_here() -> Answers:
    module = Module(host_target())
    define_answers(module, internal=False)
    loaded = compile_module(module)
    row = (ctypes.c_int64 * len(ProcessorAnswer))(*(-1 for _ in ProcessorAnswer))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address(ANSWERS))(ctypes.addressof(row))
    return dict(zip(ProcessorAnswer, row, strict=True))


def levels_here(names: Sequence[str] = NAMES) -> list[str]:
    """The levels of these names whose features LLVM says that this machine has."""
    answers, features = dict.fromkeys(ProcessorAnswer, 0), host_target().features.split(",")
    for feature in FEATURES:
        if f"+{feature}" in features:
            for answer, bits in bits_of(feature).items():
                answers[answer] |= bits
    here = CHAIN[: level_of()(answers) + 1]
    return [name for name in names if name in here]


@pytest.mark.parametrize(("answers", "level"), [
    (V2, 0), (V3, 1), (V4, 2), (ZEN4, 3), (SAPPHIRE_RAPIDS, 4),
    (EVERY_BIT, 4),
    (dict.fromkeys(ProcessorAnswer, 0), -1),
    (without(V4, ProcessorAnswer.STATE, 0xE0), 1),  # the operating system does not keep zmm
    (without(V4, ProcessorAnswer.STATE, 0x80), 1),  # nor the upper sixteen of them
    (without(V4, ProcessorAnswer.STATE, 0xE4), 0),  # nor ymm
    ({**V4, ProcessorAnswer.STATE: 0}, 0),
    (without(SAPPHIRE_RAPIDS, ProcessorAnswer.STATE, 0xE0), 1),
    ({**SAPPHIRE_RAPIDS, ProcessorAnswer.SECOND_EAX: 0}, 2),  # no subleaf 1 of leaf 7
    ({**SAPPHIRE_RAPIDS, ProcessorAnswer.STRUCTURED_EDX: 0}, 3),
    (without(V4, ProcessorAnswer.BASIC, OSXSAVE), 0),
    (without(V4, ProcessorAnswer.STRUCTURED, 1 << 16), 1),
    ({**V4, ProcessorAnswer.STRUCTURED: 0}, 0),  # no leaf 7
    ({**V4, ProcessorAnswer.EXTENDED: 0}, -1),
])  # fmt: skip
def test_a_level_needs_its_instructions_and_registers_that_are_kept(answers: Answers, level: int) -> None:
    assert level_of()(answers) == level


def test_each_bit_that_is_missing_takes_away_the_levels_that_need_it() -> None:
    for answer in ProcessorAnswer:
        for k in range(32):
            missing = 1 << k
            needing = [number for number, needed in enumerate(NEEDED) if needed[answer] & missing]
            level = level_of()(without(EVERY_BIT, answer, missing))
            assert level == (min(needing) - 1 if needing else 4), (answer, k)


@pytest.mark.parametrize("feature", BEYOND_V4)
def test_a_feature_that_is_missing_takes_away_the_targets_that_have_it(feature: str) -> None:
    answer, bit = BEYOND_V4[feature]
    assert bits_of(feature) == {answer: 1 << bit}
    first = 4 if feature == "avx512fp16" else 3
    assert [f"+{feature}" in TARGETS[name].processor.features for name in CHAIN] == [k >= first for k in range(5)]
    for answers in (EVERY_BIT, SAPPHIRE_RAPIDS):
        assert level_of()(answers) == 4 and level_of()(without(answers, answer, 1 << bit)) == first - 1


def test_the_features_beyond_a_level_are_those() -> None:
    beyond = {f for name in CHAIN[3:] for f in TARGETS[name].processor.features.split(",") if f.startswith("+")}
    assert beyond - {*TARGETS["x86-64-v4"].processor.features.split(",")} == {f"+{f}" for f in BEYOND_V4}


def test_what_the_targets_beyond_a_level_multiply() -> None:
    v4, zen4, sapphire_rapids = (TARGETS[name].processor for name in CHAIN[2:])
    assert not (v4.dots or v4.pairs or v4.halves or v4.permutes_bytes)
    for p in (zen4, sapphire_rapids):
        assert p.dots and p.pairs and p.permutes_bytes and p.matrix_tiles is None and p.vector_bytes == 64
    assert [(p.halves, p.slow_pairs, p.multiplies_pairs, gathers(p)) for p in (zen4, sapphire_rapids)] == [
        (False, False, True, False),
        (True, True, False, True),
    ]


def test_what_is_joined_unless_it_is_named() -> None:
    """Building a library takes a level's time for each; those of some processors alone are there for who names them."""
    expected = NAMES if IS_X86 else (export_target(None).name,)
    assert tuple(t.name for t in own_levels().levels) == expected
    assert tuple(t.name for t in export_target("znver4,x86-64-v3").levels) == ("x86-64-v3", "znver4")


def test_a_higher_level_needs_what_a_lower_one_does() -> None:
    for low, high in pairwise(NEEDED):
        assert low != high
        assert all(high[a] & low[a] == low[a] for a in ProcessorAnswer)


@on_x86
def test_answers_of_this_processor_are_those_that_llvm_has() -> None:
    answers, features = answers_here(), host_target().features.split(",")
    present = {f for f in FEATURES if all(answers[a] & bits == bits for a, bits in bits_of(f).items())}
    assert present == {f for f in FEATURES if f"+{f}" in features}
    assert "sse4.2" in present


Leaf = tuple[int, int]
CPUID: dict[Leaf, tuple[int, int, int, int]] = {
    (0, 0): (7, 0, 0, 0),
    (1, 0): (0, 0, 0xB1 | OSXSAVE, 0),
    (7, 0): (1, 0xB2, 0xC2, 0xD2),
    (7, 1): (0xA3, 0, 0, 0),
    (0x80000000, 0): (0x80000001, 0, 0, 0),
    (0x80000001, 0): (0, 0, 0xC4, 0),
}
"""Words of a processor, in eax, ebx, ecx and edx, by leaf and subleaf"""
ANSWERED = dict(zip(ProcessorAnswer, (0xB1 | OSXSAVE, 0xB2, 0xC2, 0xD2, 0xA3, 0xC4, 0xE7), strict=True))


@on_x86
@pytest.mark.parametrize(("words", "lacking"), [
    ({}, []),
    ({(7, 0): (0, 0xB2, 0xC2, 0xD2)}, [ProcessorAnswer.SECOND_EAX]),
    ({(0, 0): (6, 0, 0, 0)}, list(ProcessorAnswer)[1:5]),
    ({(0x80000000, 0): (0x80000000, 0, 0, 0)}, [ProcessorAnswer.EXTENDED]),
    ({(1, 0): (0, 0, 0xB1, 0)}, [ProcessorAnswer.STATE]),
])  # fmt: skip
def test_a_processor_is_asked_what_it_has_an_answer_for(
    words: dict[Leaf, tuple[int, int, int, int]], lacking: list[ProcessorAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each word is the right register's; a leaf or subleaf beyond the highest one is not read, as some processors answer it by another."""
    asked: list[Leaf] = []

    def cpuid(leaf: int, subleaf: int, row: Any) -> None:
        asked.append((leaf, subleaf))
        for k, word in enumerate({**CPUID, **words}[leaf, subleaf]):
            row[k] = word

    kinds = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))
    called = kinds(cpuid)
    address = ctypes.cast(called, ctypes.c_void_p).value
    assert address is not None
    jump = b"\x48\xb8" + address.to_bytes(8, "little") + b"\xff\xe0"  # mov rax, address; jmp rax
    monkeypatch.setattr(level_code, "_CPUID", jump)
    monkeypatch.setattr(level_code, "_XGETBV", bytes.fromhex("b8 e7 00 00 00 c3"))  # mov eax, 0xe7; ret
    basic = {**CPUID, **words}[1, 0][2]
    assert answers_here() == {**ANSWERED, ProcessorAnswer.BASIC: basic, **dict.fromkeys(lacking, 0)}
    read = {
        (7, 1): ProcessorAnswer.SECOND_EAX,
        (7, 0): ProcessorAnswer.STRUCTURED,
        (0x80000001, 0): ProcessorAnswer.EXTENDED,
    }
    assert {leaf for leaf in CPUID if leaf not in asked} == {leaf for leaf, a in read.items() if a in lacking}


@on_x86
@pytest.mark.parametrize(("make", "names"), [(softmax, NAMES), (loop, NAMES), (rows, CHAIN)])
def test_each_level_has_the_bits_of_its_own_export(make: Any, names: tuple[str, ...]) -> None:
    f = make()
    c, python, here = Exported(compiled(f, ",".join(names))), anyshape.compile(f, threads=1), levels_here(names)
    assert c.level() == here[-1]
    cases: list[list[Any]] = (
        [arrays(*sizes) for sizes in ((2, 3, 5), (17, 40, 33), (0, 3, 4), (64, 1, 100))]
        if make is rows
        else [[np.linspace(-1, 1, 6 * n, dtype=np.float32).reshape(n, 6)] for n in (1, 17, 0)]
        if make is softmax
        else [[np.arange(n, dtype=np.float32)] for n in (1, 3, 9)]
    )
    for number, name in enumerate(names):
        if name not in here:
            with pytest.raises(StatusError, match=f"lacks instructions of {name}") as raised:
                c.choose(number)
            assert raised.value.code is Code.PROCESSOR and c.level() == here[-1]
            continue
        c.choose(number)
        assert c.level() == name
        alone = Exported(compiled(f, name))
        for inputs in cases:
            expected = python.run(dict(zip(python.input_names, inputs)))
            for result, same, value in zip(c(*inputs), alone(*inputs), expected, strict=True):
                np.testing.assert_array_equal(result, same)
                np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)
    c.choose(0)
    assert c.level() == names[0]


@on_x86
def test_code_for_a_processor_that_this_one_is_not_ends_with_a_text() -> None:
    lacking = [name for name in CHAIN if name not in levels_here(CHAIN)]
    if not lacking:
        pytest.skip("this machine has all levels")
    said = f"this processor, or its operating system, lacks instructions of {lacking[0]}, the lowest level"
    c = Exported(export(softmax(), "model", asking(export_target(lacking)), OPTIONS))
    assert c.level() is None
    with pytest.raises(StatusError, match=said) as raised:
        c(np.ones((2, 6), np.float32))
    assert raised.value.code is Code.PROCESSOR


@on_x86
def test_the_arena_is_the_most_that_a_level_needs() -> None:
    c, formulas = Exported(compiled(softmax(), ALL)), arena_of(softmax(), export_target(ALL), OPTIONS).sizes
    alone = [Exported(compiled(softmax(), name)) for name in NAMES]
    counts = set()
    for n in (0, 1, 100, 20_000):
        needed = [a.arena_bytes([n, 6]) for a in alone]
        counts.add(len(set(needed)))
        assert c.arena_bytes([n, 6]) == max(needed)
        formula = formulas[n == 0]
        assert evaluate(formula, dict.fromkeys(free_symbols(formula), n)) == max(needed)
    assert max(counts) > 1, "levels that need the same tell nothing"
    for dims in ([-1, 6], [2**62, 6]):
        assert c.arena_bytes(dims) == SATURATED


@on_x86
def test_a_budget_is_for_the_level_that_needs_most() -> None:
    (least, _, most) = (Exported(compiled(softmax(), name)).arena_bytes([1, 6]) for name in NAMES)
    assert least < most
    assert compiled(softmax(), NAMES[0], budget=least).fits and compiled(softmax(), ALL, budget=most).fits
    with pytest.raises(UnsupportedError, match=f"needs {most} bytes of memory at n = 1"):
        compiled(softmax(), ALL, budget=most - 1)


@on_x86
def test_a_level_that_is_not_there_is_refused() -> None:
    c = Exported(compiled(branches(), ALL))
    for number in (-1, 3, 2**31 - 1):
        with pytest.raises(StatusError, match=rf"there is no level {number}; there are 0 \(x86-64-v2\), 1") as raised:
            c.choose(number)
        assert raised.value.code is Code.PROCESSOR


@on_x86
def test_threads_that_call_first_at_once_run_one_level() -> None:
    c, x = Exported(compiled(softmax(), ALL)), np.ones((5, 6), np.float32)
    results, names, start = [None] * 8, set(), threading.Barrier(8)

    def call(k: int) -> None:
        start.wait()
        (results[k],) = c(x)
        names.add(c.level())

    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert names == {levels_here()[-1]}
    for r in results:
        np.testing.assert_array_equal(r, results[0])


@on_x86
def test_ranks_of_an_op_share_a_choice() -> None:
    functions = {r: of_op(variant("add"), of_rank({"a": "f32[...]", "b": "f32[...]"}, r), {}) for r in (1, 2)}
    e = export_ranks(functions, "sum", Request(export_target(ALL), OPTIONS), 0)
    assert {"sum_rank1_choose", "sum_rank2_level"} <= set(e.functions)
    loaded = load_object(e.object, e.functions)
    level = ctypes.CFUNCTYPE(ctypes.c_char_p)(loaded.address("sum_rank2_level"))
    choose = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(loaded.address("sum_rank1_choose"))
    assert level().decode() == levels_here()[-1]
    assert choose(0, None) == 0 and level().decode() == NAMES[0]
    assert choose(7, None) == Code.PROCESSOR and level().decode() == NAMES[0]
    second = Exported(replace(e, interface=e.programs[1][0]))
    np.testing.assert_array_equal(second(*(np.ones((2, 3), np.float32) for _ in "ab"))[0], np.full((2, 3), 2))


@pytest.mark.skipif(not IS_X86 or shutil.which("qemu-x86_64") is None or toolchain(ALL) is None,
                    reason="nothing compiles programs here, or runs them on other processors")  # fmt: skip
def test_programs_on_lower_processors(tmp_path: Path) -> None:
    """A program on processors that lack AVX-512, AVX2 and SSE 4.2."""
    tools = toolchain(ALL)
    assert tools is not None
    c, x = CProgram(compiled(softmax(), ALL), tools, tmp_path), np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 6)
    expected = anyshape.compile(softmax(), threads=1)(x)
    for cpu, name in (("Nehalem", "x86-64-v2"), ("Haswell", "x86-64-v3")):
        c.tools = replace(tools, run=("qemu-x86_64", "-cpu", cpu))
        level, (result,) = c.at_level(None, x)
        assert level == name
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        with pytest.raises(RuntimeError, match="lacks instructions of x86-64-v4"):
            c.at_level(2, x)
        assert c.at_level(0, x)[0] == "x86-64-v2"
    c.tools = replace(tools, run=("qemu-x86_64", "-cpu", "qemu64"))
    with pytest.raises(
        RuntimeError, match=r"(?m)^model: this processor, or .* lacks instructions of x86-64-v2, the lowest level"
    ):
        c(x)


@pytest.mark.parametrize(("names", "said"), [
    ("x86-64-v2,vax", "there is no target 'vax' to export for; there are x86-64-v2, x86-64-v3"),
    (["x86-64-v2", ""], "there is no target '' to export for; there are"),
    ([], "target must name at least one of x86-64-v2, x86-64-v3"),
    ("x86-64-v3,x86-64-v2,x86-64-v3", "target 'x86-64-v3' is named twice in x86-64-v3,x86-64-v2,x86-64-v3; name each level once, of x86"),
    ("aarch64-linux-gnu,aarch64-linux-gnu", "target 'aarch64-linux-gnu' is named twice"),
    ("wasm32,x86-64-v3", "targets x86-64-v3 (x86_64) and wasm32 (wasm32) are two architectures; the levels of one object are of one"),
])  # fmt: skip
def test_levels_that_no_object_has_are_refused(names: str | Sequence[str], said: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        export_target(names)
    assert str(raised.value).startswith(said)


def test_levels_are_in_order_however_they_are_named() -> None:
    assert export_target("x86-64-v4,x86-64-v2") == export_target(["x86-64-v2", "x86-64-v4"])
    assert export_target(["x86-64-v3"]) is export_target("x86-64-v3") is TARGETS["x86-64-v3"]


def test_what_no_level_decides_is_there_once() -> None:
    """Plans that are alike, and weights; matrices are packed for each width of vectors. Unknown sizes are shared out to threads by the work
    that they are for vectors of a width, so that their plans differ."""
    plain, unknown = (
        compiled(
            anyshape.function([x], ops.add(ops.exp(x), anyshape.constant(np.arange(1000, dtype=np.float32)[:1]))), ALL
        )
        for x in (anyshape.input("x", "f32[8]"), anyshape.input("x", "f32[n]"))
    )
    packed = compiled(softmax(), ALL)
    assert b"plan_0_0" in plain.object and b"plan_1_0" not in plain.object
    assert b"plan_1_0" in unknown.object
    assert b"plan_0_0" in packed.object and b"plan_2_0" in packed.object
    assert set(plain.own_weights) == set(NAMES) and not any(plain.own_weights.values())
    assert packed.own_weights["x86-64-v4"] > 0
    assert compiled(softmax(), NAMES[0]).own_weights == {}


def test_files_say_each_level() -> None:
    e = compiled(softmax(), ALL)
    files = e.files()
    models = json.loads(files["model.certificate.json"])["models"]
    assert [(m["name"], m["target"]) for m in models] == [("model", name) for name in NAMES]
    for name in NAMES:
        assert f"model for {name}:" in files["model.certificate.txt"].decode()
    assert "for x86-64-v2, x86-64-v3, x86-64-v4." in e.header and "#define MODEL_LEVEL_X86_64_V4 2" in e.header
    one = compiled(softmax(), NAMES[1]).header
    assert "LEVEL" not in one and "PROCESSOR" not in one and "model_level" not in one


def test_levels_by_python_and_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / "python", tmp_path / "command"]
    executable = anyshape.compile(softmax())
    executable.export(folders[0], name="model", target=["x86-64-v2", "x86-64-v3"])
    executable.save(tmp_path / "m.anyshape")
    words = ["export", str(tmp_path / "m.anyshape"), "--name", "model", "--out", str(folders[1])]
    assert main([*words, "--target", "x86-64-v3,x86-64-v2"]) == 0
    said = capsys.readouterr().out
    assert "model for x86-64-v2,x86-64-v3, " in said and "weights of x86-64-v3 alone: " in said
    for name in ("model.o", "model.h"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert main([*words, "--target", "x86-64-v3,wasm32"]) == 2
    assert "are two architectures" in capsys.readouterr().err
