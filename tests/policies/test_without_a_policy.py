"""Policies of the run time: each can be left out, by its name alone, and then it is gone; results stay as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anyshape.errors import ArgumentError
from anyshape.lower.target import host_target
from anyshape.vm.native import allocator, executor
from anyshape.vm.native.loop import loop_module
from anyshape.vm.run import arena, policies
from anyshape.vm.run.policies import VARIABLE, Policy, in_use, policies_left_out
from tests.resident import HANGS

ROOT = Path(__file__).parents[2]
CALLS = """\
import hashlib, sys
import numpy as np
import anyshape
from anyshape import ops

x, w = anyshape.input("x", "f32[n, 256]"), anyshape.input("w", "f32[256, m]")
exe = anyshape.compile(anyshape.function([x, w], ops.softmax(ops.tanh(ops.matmul(x, w)), axis=-1)), threads=2)
rng, found, held = np.random.default_rng(0), hashlib.sha256(), []
for n, m in ((1, 1), (7, 33), (700, 500), (1, 2000), (300, 1), (0, 4)) * 3:
    held.append(exe(rng.standard_normal((n, 256), np.float32), rng.standard_normal((256, m), np.float32)))
    found.update(np.asarray(held[-1]))
print(found.hexdigest())
"""


def left_out(monkeypatch: pytest.MonkeyPatch, *names: Policy) -> None:
    monkeypatch.setattr(policies, "policies_left_out", lambda: frozenset(names))


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What the environment says is read anew, before the test and after it."""
    monkeypatch.setattr(policies, "policies_left_out", policies_left_out.__wrapped__)
    return monkeypatch


@pytest.mark.parametrize("text", ["", ",", "stalls", "store,spins,stalls,"])
def test_the_environment_names_policies(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv(VARIABLE, text)
    assert {p for p in Policy if not in_use(p)} == {p for p in Policy if p in text}


@pytest.mark.parametrize("text", ["stall", "Stalls", "stalls spins", "stalls,nothing"])
def test_a_name_of_no_policy_is_refused(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv(VARIABLE, text)
    with pytest.raises(ArgumentError, match=f"{VARIABLE} names no policy by .*; there are affinity, stalls"):
        in_use(Policy.STALLS)


def calls(without: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, VARIABLE: without}
    command = [sys.executable, "-c", CALLS]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=HANGS, check=False)


def test_a_compile_refuses_it() -> None:
    done = calls("nothing")
    assert done.returncode != 0
    assert "ArgumentError: ANYSHAPE_WITHOUT names no policy by nothing" in done.stderr


@pytest.fixture(scope="module")
def with_all() -> str:
    return calls("").stdout


@pytest.mark.parametrize("policy", [*Policy, ",".join(Policy)])
def test_results_are_the_same_without_a_policy(policy: str, with_all: str) -> None:
    done = calls(policy)
    assert done.returncode == 0, done.stderr
    assert done.stdout == with_all


CODE = {
    Policy.AFFINITY: "call void @pool_keep_off",
    Policy.STALLS: "call void @pool_bring",
    Policy.SPINS: "4000",
}
"""What stands in the loop's text by reason of a policy."""


@pytest.mark.parametrize("policy", CODE)
def test_the_loop_has_no_code_of_a_policy_that_is_left_out(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CODE[policy] in loop_module(host_target()).text()
    left_out(monkeypatch, policy)
    text = loop_module(host_target()).text()
    assert CODE[policy] not in text
    assert {p for p in CODE if CODE[p] not in text} == {policy}


def test_such_a_loop_is_other_code_to_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {executor._object(loop_module, "anyshape_run")[0]}
    for policy in CODE:
        monkeypatch.setattr(executor, "policies_left_out", lambda policy=policy: frozenset({policy}))
        left_out(monkeypatch, policy)
        keys.add(executor._object(loop_module, "anyshape_run")[0])
    assert len(keys) == len(CODE) + 1


def test_there_is_no_allocator_or_none_for_large_results(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out(monkeypatch, Policy.ALLOCATOR)
    assert allocator.new_allocator(lambda _: 0) == 0
    left_out(monkeypatch, Policy.STORE)
    assert allocator._addresses() is None


def test_a_region_of_varying_size_is_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def capacity() -> int:
        region = arena.Region(varies=True, roomy=True)
        region.grow(100_000)
        return region.capacity

    assert capacity() == arena.MAPPED
    left_out(monkeypatch, Policy.MAPPING)
    assert capacity() == 100_000


def test_new_memory_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out(monkeypatch, Policy.READING)
    arena.bring_near(0, 1)  # which nobody can read
