"""A shared library of an exported model, by a linker of this machine: `cc` for processors like this one, else the package ziglang.

In: the object file that was written. Out: `libNAME.so` beside it.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.vm.export.targets import ExportTarget

_ZIG = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "riscv64": "riscv64-linux-gnu"}
"""What ziglang calls the first part of a triple, with its C library."""
_SECONDS = 600


def linker(target: ExportTarget) -> list[str]:
    """The command that links for a target. Raises UnsupportedError for one that has no shared libraries, and ArgumentError where there is
    no linker."""
    machine = target.architecture
    if machine not in _ZIG:
        raise UnsupportedError(
            f"{target.name} has no shared libraries; link {target.name}'s object file into a program"
        )
    own = shutil.which("cc")
    if own is not None and machine == {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    ):
        return [own]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", f"--target={_ZIG[machine]}"]
    raise ArgumentError(
        f"nothing links a shared library for {target.name} here: install a C compiler, or the package ziglang"
    )


def link_shared(folder: Path, name: str, target: ExportTarget, sources: Sequence[str] = ()) -> Path:
    """Links `NAME.o` in a folder, and C texts of the folder that the linker, a C compiler, compiles. Raises what `linker` raises, and
    ArgumentError with the linker's words where it fails."""
    path = folder / f"lib{name}.so"
    compiled = (
        ["-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", *(str(folder / s) for s in sources)] if sources else []
    )
    words = [*linker(target), "-shared", "-Wl,-Bsymbolic", "-o", str(path), *compiled, str(folder / f"{name}.o"), "-lm"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise ArgumentError(f"{words[0]} does not link: {e}") from None
    if done.returncode:
        raise ArgumentError(f"{' '.join(words)} ends with {done.returncode}: {done.stderr.strip()[-1000:]}")
    return path
