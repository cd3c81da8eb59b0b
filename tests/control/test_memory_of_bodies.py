"""The memory plan as text, of what branches and turns use: `anyshape explain --memory`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ArgumentError
from anyshape.vm.executable.memory_text import memory_text

X, K, C = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]"), anyshape.input("c", "bool[]")


def test_iterations_and_branches_have_their_regions() -> None:
    def iteration(i: Any, s: Any) -> Any:
        longer = ops.concat([s, X], axis=0)
        (t,) = control.if_(C, lambda: ops.sort(longer, axis=0), lambda: ops.exp(longer))
        return [t, ops.mul(X, 2.0)]

    last, twice = control.loop(K, iteration, [X], collects=1, source="Grow")
    exe = anyshape.compile(anyshape.function([X, K, C], [ops.exp(last), twice]))
    text = memory_text(exe, {"n": 16})
    lines = [line.strip() for line in text.splitlines()]
    assert "each iteration of loop (Grow):" in lines
    assert "if, where its condition holds:" in lines and "if, where its condition does not hold:" in lines
    assert any("carried0, read in one and written in the other, 64*((" in line for line in lines)
    assert any("collected value 0, 4*n = 64 bytes more in each iteration" in line for line in lines)
    assert "64*((carried0.shape[0] + n + 15) // 16)" in text and "turn." not in text
    assert exe(np.ones(3, np.float32), np.array(2), np.array(True))[0].shape == (9,)


def test_sizes_that_data_decides_have_names_that_people_know() -> None:
    selected = ops.gather(X, ops.reshape(ops.nonzero(X), (-1,)), axis=0)
    f = anyshape.function([X], ops.sum(ops.sort(ops.exp(selected), axis=0), axes=(0,)))
    text = memory_text(anyshape.compile(f))
    assert "nonzero.shape[1]" in text and "k." not in text


def test_a_name_of_no_dim_is_refused() -> None:
    exe = anyshape.compile(anyshape.function([X], ops.softmax(X)))
    with pytest.raises(ArgumentError, match="no input has a dim m; there are n"):
        memory_text(exe, {"m": 3})
