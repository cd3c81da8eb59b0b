"""Compile, load and run where the address space ends: each in a process of its own, at limits that step upward, ends in a result, an
AnyshapeError or a MemoryError, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from errno import EACCES, ENOMEM
from pathlib import Path

import pytest

from anyshape.errors import AnyshapeError, library_error
from anyshape.public import edge

STEPS = (1, 4, 8, 20, 40, 400)
"""Megabytes beyond what the process has: also where Python has enough, and LLVM, which ends a process that has not, would begin."""
CHILD = """
import resource, sys
import numpy as np
import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError

what, path, room = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
x = anyshape.input("x", "f32[n, k]")
f = anyshape.function([x], ops.softmax(ops.matmul(ops.exp(x), ops.transpose(x)), axis=-1))
anyshape.compile(anyshape.function([x], ops.neg(x)))  # all modules
made = anyshape.compile(f) if what == "run" else None
a = np.ones((1500, 700), np.float32)
load, compile, Refused = anyshape.load, anyshape.compile, AnyshapeError
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
try:
    for _ in range(2):
        {"compile": lambda: compile(f), "load": lambda: load(path), "run": lambda: made.run({"x": a})}[what]()
    said = "made"
except (Refused, MemoryError):
    said = "refused"
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
assert compile(f).run({"x": a[:2]})[0].shape == (2, 2)
print(said)
"""


def outcome(what: str, path: Path, room: int) -> str:
    words = [sys.executable, "-c", CHILD, what, str(path), str(room)]
    own = {"ANYSHAPE_CACHE": str(path.parent / f"cache{room}")}  # so that there is machine code to make
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **(own if what == "compile" else {})},
    )
    assert done.returncode == 0, f"{what} with {room} MB ended with {done.returncode}: {done.stderr[-800:]}"
    return done.stdout.strip()


@pytest.mark.parametrize("what", ["compile", "load", "run"])
def test_a_process_outlives_spent_memory(what: str, tmp_path: Path) -> None:
    import anyshape
    from anyshape import ops

    x = anyshape.input("x", "f32[n]")
    path = tmp_path / "f.anyshape"
    anyshape.compile(anyshape.function([x], ops.exp(x))).save(path)
    said = [outcome(what, path, room) for room in STEPS]
    assert said[-1] == "made", "with room enough it is made"
    assert set(said) <= {"made", "refused"}
    if what == "run":
        assert said[0] == "refused", "the first limit was none"


@pytest.mark.parametrize("raised", [MemoryError, SystemError("error return without exception set"), StopIteration])
def test_what_python_says_of_spent_memory_is_reported_as_such(raised: BaseException) -> None:
    @edge
    def call() -> None:
        raise raised

    with pytest.raises(AnyshapeError, match="not enough memory") as caught:
        call()
    assert caught.value.__cause__ is not None


IMPORTS = """
import resource, sys
import numpy as np
import anyshape
from anyshape.errors import AnyshapeError

what, path, room = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
try:
    getattr(anyshape, what)(path)
    said = "made"
except (AnyshapeError, MemoryError) as e:
    said = f"{type(e).__name__}: {e}"
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
getattr(anyshape, what)(path)
print(said)
"""


@pytest.mark.parametrize("what", ["load", "compile"])
def test_what_cannot_be_imported_is_reported_and_imported_later(what: str, tmp_path: Path) -> None:
    """Memory is spent before anything of the library is imported: LLVM, numbers of short floats and the system's own modules are machine
    code, which is mapped."""
    import anyshape
    from anyshape import ops
    from tests.robust.test_files import exp_model

    x = anyshape.input("x", "f32[n]")
    anyshape.compile(anyshape.function([x], ops.exp(x))).save(tmp_path / "load")
    (tmp_path / "compile").write_bytes(exp_model().SerializeToString())
    printed = {}
    for room in (4, 12, 17, 60, 2000):
        words = [sys.executable, "-c", IMPORTS, what, str(tmp_path / what), str(room)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{what} with {room} MB ended with {done.returncode}: {done.stderr[-800:]}"
        printed[room] = done.stdout.strip()
    assert all("there is not enough memory to load a module" in printed[room] for room in (4, 12, 17)), printed
    assert printed[2000] == "made"
    assert "LLVM, which makes machine code, cannot be loaded" in printed[60] and "RLIMIT_AS" in printed[60]


def test_an_import_error_that_is_no_matter_of_memory_stays() -> None:
    @edge
    def call(path: str) -> None:
        raise ImportError("cannot be mapped", name="m", path=path)

    with pytest.raises(AnyshapeError, match=r"cannot be mapped: a process .* \(ulimit -v, RLIMIT_AS\)"):
        call("/lib/m.cpython-311-x86_64-linux-gnu.so")
    with pytest.raises(ImportError, match="cannot be mapped"):
        call("/lib/m.py")


def test_a_folder_that_cannot_be_listed_for_want_of_memory_is_reported() -> None:
    said = library_error(OSError(ENOMEM, "Cannot allocate memory", "packages"))
    assert isinstance(said, AnyshapeError) and "packages" in str(said) and "not enough memory" in str(said)
    assert "not enough memory" in str(library_error(SystemError("error return without exception set")))
    with pytest.raises(OSError, match="Permission denied"):
        library_error(OSError(EACCES, "Permission denied", "packages"))


def test_a_defect_is_not_taken_for_spent_memory() -> None:
    @edge
    def call() -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError):
        call()
