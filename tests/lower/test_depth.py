"""A long chain of maps is one deep kernel, and leaves Python's limit of recursion as it was."""

from __future__ import annotations

import sys

import numpy as np

import anyshape
from anyshape import ops
from anyshape.lower.depth import room_for
from tests.in_threads import in_threads


def test_a_long_chain_in_several_threads_leaves_the_limit_alone() -> None:
    x = anyshape.input("x", "f32[n]")
    y = x
    for _ in range(400):
        y = ops.add(y, 1.0)
    f, before = anyshape.function([x], y), sys.getrecursionlimit()
    results = []
    in_threads(lambda _: results.append(anyshape.compile(f)(np.zeros(3, np.float32))), range(3))
    assert [r.tolist() for r in results] == [[400.0] * 3] * 3
    assert sys.getrecursionlimit() == before


def test_the_limit_stays_up_until_the_last_has_left() -> None:
    before = sys.getrecursionlimit()
    outer, inner = room_for(1000), room_for(5000)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert sys.getrecursionlimit() >= 40_000
    inner.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before
