"""The log of the library: what is reported of compiles, the cache and calls, and that a usual call reports nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.lower.llvm import jit
from anyshape.lower.target import host_target

LOOP = "define i64 @log_of_{name}() {{\n  ret i64 7\n}}\n"


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "anyshape")


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_a_compile_reports_what_stays_dynamic(caplog: pytest.LogCaptureFixture) -> None:
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[1]")
    anyshape.compile(anyshape.function([x, k], ops.nonzero(ops.slice(x, k, [100], [0]))))
    lines = [r.getMessage() for r in caplog.records if r.name == "anyshape.compile"]
    assert any(line.startswith("main: ") and " kernels, 1 programs in " in line for line in lines), lines
    assert any("whose size its data decides" in line or "its data decides" in line for line in lines), lines


def test_programs_compiled_while_calls_run_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    x = anyshape.input("x", "f32[n, m]")
    exe = anyshape.compile(anyshape.function([x], ops.softmax(x)))
    exe(ones(2, 3))  # the first call of a process starts its threads
    caplog.clear()
    exe(ones(2, 3))
    assert caplog.text == "", "a usual call reports nothing"
    exe(ones(0, 3))
    assert "main: a call outside of its assumptions runs the general program" in caplog.text
    y = anyshape.input("y", "f32[...]")
    anyshape.compile(anyshape.function([y], ops.softmax(y)))(ones(2, 2))
    assert "main: ranks or lengths of a call are new, its tail is compiled" in caplog.text


def test_a_call_that_python_has_to_bind_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    x = anyshape.input("x", "f32[n]")
    exe = anyshape.compile(anyshape.function([x], ops.exp(x)))
    if exe.plan.direct is None:
        pytest.skip("there is no direct entry")
    exe(ones(3))
    caplog.clear()
    exe(ones(8)[::2])
    assert "main: the direct entry leaves a call to Python (ARGUMENTS)" in caplog.text


def test_the_cache_reports_hits_and_misses(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "disk_cache", lambda: jit.DiskCache(tmp_path / "cache"))
    text, target = LOOP.format(name=tmp_path.name.replace("-", "_")), host_target()
    jit.object_for(text, target)
    jit.object_for(text, target)
    monkeypatch.setattr(jit, "_IN_PROCESS", {})
    jit.object_for(text, target)
    said = [r.getMessage() for r in caplog.records if r.name == "anyshape.cache"]
    assert [line.partition(": ")[2].partition(",")[0] for line in said] == [
        "compiled",
        "kept by the process",
        "from the cache on disk",
    ]


def test_a_saved_model_reports_that_it_is_loaded(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    x = anyshape.input("x", "f32[n]")
    anyshape.compile(anyshape.function([x], ops.exp(x))).save(tmp_path / "m")
    caplog.clear()
    anyshape.load(tmp_path / "m")
    assert "main: " in caplog.text and "kernels" in caplog.text


def test_nothing_is_printed_and_no_handler_is_set_where_the_program_sets_up_no_log() -> None:
    code = (
        "import logging, numpy as np, anyshape\n"
        "from anyshape import ops\n"
        "x = anyshape.input('x', 'f32[n]')\n"
        "exe = anyshape.compile(anyshape.function([x], ops.exp(x)))\n"
        "exe(np.ones(4, np.float32)[::2]), exe(np.ones(0, np.float32))\n"
        "names = [n for n in logging.root.manager.loggerDict if n.split('.')[0] == 'anyshape']\n"
        "assert names and not any(logging.getLogger(n).handlers for n in names), names\n"
        "assert not logging.root.handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
