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
from anyshape.lower.target import host_target
from anyshape.vm.export import TARGETS, Request, arena_of, export_ranks, export_target
from anyshape.vm.export.level_code import ANSWERS, LEVEL_OF, define_answers, define_level_of
from anyshape.vm.export.op_function import of_op, of_rank
from anyshape.vm.export.processor_features import FEATURES, OSXSAVE, ProcessorAnswer, bits_of, needed_bits
from anyshape.vm.export.status_code import Code
from anyshape_testing.exports.c_programs import CProgram, toolchain
from anyshape_testing.exports.loaded import SATURATED, Exported, StatusError
from tests.export.test_c_programs import OPTIONS, branches, compiled, loop, softmax
from tests.export.test_values import arrays, rows

NAMES = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
ALL = ",".join(NAMES)
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
on_x86 = pytest.mark.skipif(not IS_X86, reason="this machine has no level of x86-64")
V2, V3, V4 = (needed_bits(TARGETS[name].processor) for name in NAMES)
Answers = dict[ProcessorAnswer, int]


def without(answers: Answers, answer: ProcessorAnswer, bits: int) -> Answers:
    return {**answers, answer: answers[answer] & ~bits}


@cache
def level_of() -> Any:
    """The function that decides, alone in a module for this machine."""
    module = Module(host_target())
    define_level_of(module, [TARGETS[name] for name in NAMES], internal=False)
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


def levels_here() -> list[str]:
    """The levels whose features LLVM says that this machine has."""
    answers, features = dict.fromkeys(ProcessorAnswer, 0), host_target().features.split(",")
    for feature in FEATURES:
        if f"+{feature}" in features:
            for answer, bits in bits_of(feature).items():
                answers[answer] |= bits
    return list(NAMES[: level_of()(answers) + 1])


@pytest.mark.parametrize(("answers", "level"), [
    (V2, 0), (V3, 1), (V4, 2),
    (dict.fromkeys(ProcessorAnswer, (1 << 32) - 1), 2),
    (dict.fromkeys(ProcessorAnswer, 0), -1),
    (without(V4, ProcessorAnswer.STATE, 0xE0), 1),  # the operating system does not keep zmm
    (without(V4, ProcessorAnswer.STATE, 0x80), 1),  # nor the upper sixteen of them
    (without(V4, ProcessorAnswer.STATE, 0xE4), 0),  # nor ymm
    ({**V4, ProcessorAnswer.STATE: 0}, 0),
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
            needing = [number for number, needed in enumerate((V2, V3, V4)) if needed[answer] & missing]
            level = level_of()(without(dict.fromkeys(ProcessorAnswer, (1 << 32) - 1), answer, missing))
            assert level == (min(needing) - 1 if needing else 2), (answer, k)


def test_a_higher_level_needs_what_a_lower_one_does() -> None:
    for low, high in ((V2, V3), (V3, V4)):
        assert low != high
        assert all(high[a] & low[a] == low[a] for a in ProcessorAnswer)


@on_x86
def test_answers_of_this_processor_are_those_that_llvm_has() -> None:
    answers, features = answers_here(), host_target().features.split(",")
    present = {f for f in FEATURES if all(answers[a] & bits == bits for a, bits in bits_of(f).items())}
    assert present == {f for f in FEATURES if f"+{f}" in features}
    assert "sse4.2" in present


@on_x86
@pytest.mark.parametrize("make", [softmax, loop, rows])
def test_each_level_has_the_bits_of_its_own_export(make: Any) -> None:
    f = make()
    c, python, here = Exported(compiled(f, ALL)), anyshape.compile(f, threads=1), levels_here()
    assert c.level() == here[-1]
    cases: list[list[Any]] = (
        [arrays(*sizes) for sizes in ((2, 3, 5), (17, 40, 33), (0, 3, 4), (64, 1, 100))]
        if make is rows
        else [[np.linspace(-1, 1, 6 * n, dtype=np.float32).reshape(n, 6)] for n in (1, 17, 0)]
        if make is softmax
        else [[np.arange(n, dtype=np.float32)] for n in (1, 3, 9)]
    )
    for number, name in enumerate(NAMES):
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
    assert c.level() == NAMES[0]


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
    """Plans that are alike, and weights; matrices are packed for each width of vectors."""
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], ops.add(ops.exp(x), anyshape.constant(np.arange(1000, dtype=np.float32)[:1])))
    plain, packed = compiled(f, ALL), compiled(softmax(), ALL)
    assert b"plan_0_0" in plain.object and b"plan_1_0" not in plain.object
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
