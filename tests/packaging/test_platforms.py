"""Systems that the run time is for, and others, which are told so before anything else fails."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from anyshape.errors import UnsupportedError
from anyshape.lower.binding import binding as llvm
from anyshape.lower.llvm.jit import compile_object
from anyshape.lower.target import host_target
from anyshape.vm.native import demand_platform
from anyshape.vm.native.entry import entry_module
from anyshape.vm.native.loop import loop_module
from anyshape_testing.process.profile import LONG


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_systems_of_posix_are_accepted(platform: str) -> None:
    demand_platform(platform)


def test_windows_is_refused_where_a_model_is_compiled() -> None:
    with pytest.raises(UnsupportedError, match="WSL"):
        demand_platform("win32")
    code = (
        "import numpy, llvmlite.binding, multiprocessing, subprocess, sys\n"
        "sys.platform = 'win32'\n"
        "import anyshape\n"
        "try:\n"
        "    anyshape.compile\n"
        "except anyshape.AnyshapeError as e:\n"
        "    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "runs on Linux and macOS" in done.stdout, done.stderr


@pytest.mark.skipif(not LONG, reason="long: ANYSHAPE_LONG=1")
@pytest.mark.parametrize(
    ("triple", "cpu"),
    [
        ("aarch64-unknown-linux-gnu", "generic"),
        ("arm64-apple-darwin", "apple-m1"),
        ("x86_64-apple-darwin", "x86-64-v3"),
    ],
)
def test_the_native_run_time_is_generated_for_systems_that_are_not_here(triple: str, cpu: str) -> None:
    """Object code of the direct entry, the pool's functions and the loop; nothing of it runs."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    registers = 16 if triple.startswith("x86") else 32
    target = replace(
        host_target(), triple=triple, cpu=cpu, features="", vector_bytes=16, vector_registers=registers, masks=False, scalef=False
    )  # fmt: skip
    for make in (loop_module, entry_module):
        module = make(target)
        text = module.text()
        exported = re.findall(r'^define (?!internal|private)[^@\n]*@"?([\w.]+)', text, re.MULTILINE)
        content = compile_object(text, target)
        assert exported and [name for name in exported if name.encode() not in content] == []
        assert ("syscall" in module.imports) == ("linux" in triple and make is loop_module)
