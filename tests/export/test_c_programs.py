"""Exported models as whole C programs, for every target whose tools are here."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.cli.parser import TARGET_NAMES
from anyshape.graph.function import Function
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import TARGETS, Export, export, export_target, own_targets
from anyshape.vm.export.shared_library import link_shared
from anyshape_testing.exports.c_programs import CProgram, toolchain
from anyshape_testing.exports.loaded import Exported
from anyshape_testing.laws.exported_ops import RUNS_HERE

OPTIONS = make_options({"dims": {}})
OWN = tuple(name for name, target in TARGETS.items() if target.architecture == "x86_64")
"""Targets of other instructions for the same code: that of most features that this machine has, and the usual one, are run."""


def softmax() -> Function:
    x = anyshape.input("x", "f32[n, m]")
    return anyshape.function([x], ops.softmax(ops.matmul(x, anyshape.constant(weights()))))


def weights() -> Any:
    return np.random.default_rng(2).standard_normal((6, 9)).astype(np.float32)


def loop() -> Function:
    """A value that grows by its first row until its sum is large, and the sums on the way: their number only a run tells."""
    x = anyshape.input("x", "f32[n]")

    def iteration(_: Any, value: Any) -> list[Any]:
        longer = ops.concat([value, ops.add(ops.slice(value, [0], [1], axes=[0]), np.float32(1))], axis=0)
        return [ops.less(ops.sum(longer), np.float32(40)), longer, ops.sum(longer)]

    longer, sums = control.loop(30, iteration, [x], anyshape.constant(np.array(True)), collects=1)
    return anyshape.function([x], {"longer": longer, "sums": sums})


def branches() -> Function:
    """Branches of other sizes, decided by an element."""
    x, cond = anyshape.input("x", "f32[n]"), anyshape.input("cond", "bool[]")
    y = control.if_(cond, lambda: ops.concat([x, x], axis=0), lambda: ops.exp(x))
    return anyshape.function([x, cond], y)


def compiled(f: Function, target: str | None, **options: Any) -> Export:
    return export(f, "model", export_target(target), OPTIONS, **options)


@pytest.mark.parametrize("target", TARGETS)
def test_programs_of_each_target(target: str, tmp_path: Path) -> None:
    tools = toolchain(target)
    run = {export_target(None).name, own_targets()[-1].name} if own_targets() else set()
    if tools is None or (target in OWN and target not in run):
        pytest.skip(f"nothing compiles and runs programs for {target} here, or one like it is tested")
    rng = np.random.default_rng(5)
    for f, cases in (
        (softmax(), [[rng.standard_normal(s).astype(np.float32)] for s in ((1, 6), (17, 6), (0, 6))]),
        (loop(), [[np.arange(n, dtype=np.float32)] for n in (1, 3, 9)]),
    ):
        python = anyshape.compile(f, threads=1)
        c = CProgram(compiled(f, target, weights="file" if f.results[0].type.rank == 2 else None), tools, tmp_path)
        for inputs in cases:
            expected = python.run(dict(zip(python.input_names, inputs)))
            for got, value in zip(c(*inputs), expected, strict=True):
                assert got.shape == value.shape
                np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="k of b: expected 5, got 6"):
        CProgram(compiled(softmax(), target), tools, tmp_path)(np.zeros((2, 5), np.float32))


@pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")
@pytest.mark.parametrize("make", [loop, branches])
def test_control_flow_has_the_bits_of_the_virtual_machine(make: Any) -> None:
    f = make()
    c, python = Exported(compiled(f, None)), anyshape.compile(f, threads=1)
    for n in (1, 2, 7, 0):
        x = np.arange(1, n + 1, dtype=np.float32)
        for cond in (True, False):
            inputs = [x, np.array(cond)][: len(f.params)]
            try:
                expected = python.run(dict(zip(python.input_names, inputs)))
            except anyshape.AnyshapeError as e:
                with pytest.raises(type(e)) as raised:
                    c(*inputs)
                assert str(raised.value) == str(e)
                continue
            for got, value in zip(c(*inputs), expected, strict=True):
                assert got.shape == value.shape
                np.testing.assert_allclose(got, value, rtol=1e-6)


@pytest.mark.skipif(shutil.which("cc") is None or not RUNS_HERE, reason="there is no C compiler, or no target")
def test_a_shared_library_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    e = compiled(branches(), None)
    *_, path = anyshape.compile(branches()).export(tmp_path, name="model", shared=True)
    assert path.name == "libmodel.so"
    library = ctypes.CDLL(str(path))
    library.model_arena_bytes.restype = ctypes.c_uint64
    assert library.model_arena_bytes(ctypes.c_int64(1000)) == Exported(e).arena_bytes([1000])
    (tmp_path / "model.o").write_bytes(b"no object")
    with pytest.raises(anyshape.errors.ArgumentError, match="ends with"):
        link_shared(tmp_path, "model", e.target)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(anyshape.errors.ArgumentError, match="install a C compiler, or the package ziglang"):
        e.write(tmp_path, shared=True)


@pytest.mark.skipif(shutil.which("cc") is None or not RUNS_HERE, reason="there is no C compiler, or no target")
def test_two_models_in_one_program(tmp_path: Path) -> None:
    """Headers that share types, in C of 1999 and C++ too; of the symbols only the functions of the headers are visible."""
    for name, f in (("first", branches()), ("second", softmax())):
        export(f, name, export_target(None), OPTIONS).write(tmp_path)
    main = tmp_path / "main.c"
    main.write_text(
        '#include "first.h"\n#include "second.h"\n#include <stdio.h>\n'
        'int main(void) { printf("%d %d", first_check(3, 0), second_check(-1, 6, 0)); return 0; }\n'
    )
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(tmp_path)]
    objects = [str(tmp_path / "libfirst.a"), str(tmp_path / "libsecond.a"), "-lm", "-o", str(tmp_path / "main")]
    for words in (
        ["cc", "-std=c99", *strict, str(main), *objects],
        ["cc", "-x", "c++", "-fsyntax-only", *strict, str(main)],
    ):
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0 or "cc1plus" in done.stderr, done.stderr[
            -2000:
        ]  # a C compiler may come without C++
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert said.stdout == "0 1"


def test_the_command_line_knows_the_targets() -> None:
    assert tuple(TARGETS) == TARGET_NAMES


@pytest.mark.parametrize("target", ["riscv64-linux-gnu", "x86-64-v2,x86-64-v3,x86-64-v4"])
def test_what_is_made_depends_on_neither_the_process_nor_its_caches(target: str, tmp_path: Path) -> None:
    """Exports in two processes with other seeds of hashes, of which one has no cache on disk."""
    script = (
        "import sys; from tests.export.test_c_programs import *\n"
        "Path(sys.argv[1]).write_bytes(b''.join(compiled(branches(), sys.argv[2]).files().values()))"
    )
    paths, environment = (
        [tmp_path / "one", tmp_path / "other"],
        {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
    )
    for path, own in zip(paths, ({"PYTHONHASHSEED": "1", "ANYSHAPE_CACHE": ""}, {"PYTHONHASHSEED": "2"})):
        words = [sys.executable, "-c", script, str(path), target]
        done = subprocess.run(words, env={**environment, **own}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_what_is_made_does_not_depend_on_what_was_made_before(tmp_path: Path) -> None:
    """Exports for all targets in both orders, each in a process of its own: LLVM keeps some choices of a target for the process."""
    script = (
        "import sys; from tests.export.test_c_programs import *\n"
        "for t in sys.argv[2:]: Path(sys.argv[1], t).write_bytes(compiled(branches(), t).object)"
    )
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, targets in zip(folders, ([*TARGETS, "x86-64-v2"], [*reversed(TARGETS), "wasm32"])):
        folder.mkdir()
        words = [sys.executable, "-c", script, str(folder), *targets]
        environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    for target in TARGETS:
        assert (folders[0] / target).read_bytes() == (folders[1] / target).read_bytes(), target
