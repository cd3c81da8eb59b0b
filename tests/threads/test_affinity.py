"""Affinity of workers as a program sets it, and the one pool that all models of a process share."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import anyshape
from anyshape.errors import ArgumentError

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are pinned on Linux alone")

PROGRAM = """
import os, threading, numpy as np, anyshape
from anyshape import ops
from anyshape.vm.native import pool as pool_module
from anyshape.vm.compiling import kernels
kernels.CYCLES_PER_PART = 16
pool_module.usable_threads = lambda: 4

def model(op):
    x = anyshape.input("x", "f32[n, 96]")
    return anyshape.compile(anyshape.function([x], op(x)), threads=4)

def workers():
    return sorted(t.native_id for t in threading.enumerate() if t.name.startswith("anyshape-"))

def places():
    return [os.sched_getaffinity(w) for w in workers()]

x = np.ones((64, 96), np.float32)
one, other = model(ops.softmax), model(ops.tanh)
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_all_models_of_a_process_share_one_pool() -> None:
    run(
        "one(x)\n"
        "first = workers()\n"
        "other(x), model(ops.exp)(x)\n"
        "assert len(first) == 3 and workers() == first, (first, workers())\n"
    )


def test_workers_of_now_and_of_later_run_where_they_are_set_to() -> None:
    run(
        "mine = os.sched_getaffinity(0)\n"
        "chosen = max(mine)\n"
        "anyshape.set_affinity([chosen])\n"
        "assert workers() == []\n"
        "expected = one(x)\n"
        "assert places() == [{chosen}] * 3, places()\n"
        "for _ in range(300): one(x), other(x)\n"  # policies that move workers leave them alone
        "assert places() == [{chosen}] * 3, places()\n"
        "anyshape.set_affinity([min(mine)])\n"
        "assert places() == [{min(mine)}] * 3\n"
        "assert (one(x) == expected).all() and os.sched_getaffinity(0) == mine\n"
        "anyshape.set_affinity(None)\n"
        "assert places() == [mine] * 3\n"
        "for _ in range(300): one(x)\n"
        "assert (one(x) == expected).all()\n"
    )


def test_a_forked_child_keeps_the_setting() -> None:
    run(
        "chosen = max(os.sched_getaffinity(0))\n"
        "anyshape.set_affinity([chosen])\n"
        "one(x)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    one(x)\n"
        "    os._exit(0 if places() == [{chosen}] * 3 else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
    )


@pytest.mark.parametrize("processors", [[], [-1], [10**30], [10**6], [0, 4095], "0", [True], [0.0], 3, [None]])
def test_what_is_no_processor_is_refused(processors: Any) -> None:
    with pytest.raises(ArgumentError, match="set_affinity"):
        anyshape.set_affinity(processors)


def test_the_processors_of_the_process_are_accepted() -> None:
    anyshape.set_affinity(sorted(os.sched_getaffinity(0)))
    anyshape.set_affinity(None)
