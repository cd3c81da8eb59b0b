"""The text of a kernel is the same in every process, or the cache on disk would never know it again: sets of objects have another order
in each. One process for each seed of Python's hashes says what the kernels of all examples of some ops are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from anyshape.testing.running import register

LONG = os.environ.get("ANYSHAPE_LONG", "0") not in ("", "0")
ALWAYS = ("tree_ensemble", "lstm", "topk", "unique")
"""Ops of several kernels, some of which read what others left."""
PARTS = 8
"""Of all ops: each takes two processes some ten seconds, so that one is for `make test-long`."""
SOME = 40
"""Every so manieth of the others is for `make test`."""
SCRIPT = """
import hashlib, sys
import anyshape
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.testing.calls import ByName, flat_values, typed
from anyshape.testing.examples import call_of
from anyshape.testing.running import register
from anyshape.vm import kernels

def load(self, kernel, load=kernels.NativeKernels._load):
    print(op, hashlib.sha256(kernel.text.encode()).hexdigest())
    return load(self, kernel)

kernels.NativeKernels._load = load
known = register("anyshape_ops")
for op in sys.argv[1:]:
    for example in known[op].examples:
        if example.error is None:
            c = call_of(op, example)
            inputs = flat_values(c.values(typed))
            anyshape.compile(Function(inputs, call(c.op, c.values(ByName(inputs)), c.params)))
"""


def texts(ops: list[str], seed: int) -> list[str]:
    command = [sys.executable, "-c", SCRIPT, *ops]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


def chosen() -> list[list[str]]:
    every = sorted(register("anyshape_ops"))
    return [every[part::PARTS] for part in range(PARTS)] if LONG else [[*ALWAYS, *every[::SOME]]]


@pytest.mark.parametrize("ops", chosen(), ids=lambda ops: f"{ops[0]} and others")
def test_kernels_have_one_text_in_every_process(ops: list[str]) -> None:
    first = texts(ops, 1)
    assert first, "no kernel was made"
    assert texts(ops, 2) == first
