"""Compile, load and run where the address space ends: each in a process of its own, at limits that step upward, ends in a result, an
AnyshapeError or a MemoryError, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anyshape.errors import AnyshapeError
from anyshape.public import edge

STEPS = (1, 8, 40, 400)
"""Megabytes beyond what the process has"""
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
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
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
def test_what_python_says_of_spent_memory_is_told_as_such(raised: BaseException) -> None:
    @edge
    def call() -> None:
        raise raised

    with pytest.raises(AnyshapeError, match="not enough memory") as told:
        call()
    assert told.value.__cause__ is not None


def test_a_defect_is_not_taken_for_spent_memory() -> None:
    @edge
    def call() -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError):
        call()
