"""The text of a kernel is the same in every process, or the cache on disk would never know it again: sets of objects have another order
in each. One process for each seed of Python's hashes says what the kernels of all examples of some ops are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from anyshape_testing.calls.packages import register
from anyshape_testing.process.profile import LONG
from tests.kernel_texts import differences, lines_of, texts_of

ALWAYS = ("tree_walks", "lstm", "topk", "unique")
"""Ops of several kernels, some of which read what others left."""
PARTS = 8
"""Parts of all ops: each takes two processes some ten seconds, so that one is for `make test-long`."""
SOME = 40
"""Every so manieth of the others is for `make test`."""
SCRIPT = """
import sys
from tests.kernel_texts import lines_of, texts_of
for op in sys.argv[1:]:
    print("\\n".join(lines_of(op, texts_of(op))))
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


def test_a_kernel_that_is_another_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    before = lines_of("relu", texts_of("relu"))
    assert before and differences(before, before) == 0
    assert differences(before, [*before[1:], "relu other"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "relu: 1 kernels are gone, 1 are new"
