"""Compiles the kernels of a package of operators of PyTorch, for its wheel, by `anyshape export --for torch` in a process of its own.

In: a wheel without them, and options that choose levels of processors and calls. Out: files of the wheel, and the platform that they are
for. The wheel is unpacked where the process finds its ops as those of an installed package.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from anyshape.errors import SpecError

NONE = "none"
"""The levels of a wheel without kernels"""
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""Names of processors in a wheel's platform, by the numbers that ELF has for them"""
_OLDEST_GLIBC = 17
"""The minor version of the oldest C library that installers know all names of"""


@dataclass(frozen=True)
class Kernels:
    """Files by path in the package, the platform, and a line for each call that has no kernel."""

    files: Mapping[str, bytes]
    platform: str
    left_out: Sequence[str]


def compiled(archive: bytes, package: str, ops: Sequence[str], options: Sequence[str]) -> Kernels:
    """The kernels of ops. `options` are those of the command. Raises SpecError with its words where it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(BytesIO(archive)) as z:
            z.extractall(folder / "site")
        path = os.pathsep.join([str(folder / "site"), *(str(Path(p).resolve()) for p in sys.path if p)])
        words = [
            "export",
            "--for",
            "torch",
            "--op",
            ",".join(ops),
            "--name",
            package,
            "--out",
            str(folder / "out"),
            "--json",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "anyshape", *words, *options],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SpecError(f"{done.stderr.strip()}\na wheel without compiled kernels is written by --kernels {NONE}")
        left_out = json.loads(done.stdout)["left_out"]
        files = {p.name: p.read_bytes() for p in sorted((folder / "out").iterdir()) if p.suffix != ".o"}
    (library,) = (data for name, data in files.items() if name.endswith(".so"))
    return Kernels(files, platform_of(library), [f"no kernel: {call}: {why}" for call, why in left_out.items()])


def platform_of(library: bytes) -> str:
    """The platform of a wheel with a shared library, in ELF: the oldest GNU C library that has all versions of functions that it calls.
    What was linked with the C library musl is for machines like this one."""
    machine = _MACHINES[int.from_bytes(library[18:20], "little")]
    if re.search(rb"\0libc\.musl", library):
        return f"linux_{machine}"
    versions = [int(n) for n in re.findall(rb"\0GLIBC_2\.(\d+)", library)]
    return f"manylinux_2_{max([_OLDEST_GLIBC, *versions])}_{machine}"
