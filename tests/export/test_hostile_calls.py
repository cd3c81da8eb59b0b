"""Calls of exported functions with sizes, memory and pointers at random: each returns a code, and writes nothing beside its memory."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import OverflowedError
from anyshape.graph.function import Function
from anyshape.vm.export.status_code import Code
from anyshape_testing.exports.loaded import SATURATED, Exported, Guarded, Output, Status
from anyshape_testing.laws.exported_ops import RUNS_HERE, exported_call
from tests.export.test_c_programs import loop, softmax

SIZES = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 64, 1000, 2**31, 2**32 + 1, 2**40, 2**61, 2**62, 2**63 - 1)
FEW = 1 << 16
"""Elements of an input that is made."""

pytestmark = pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")


def rows() -> Function:
    x, w = anyshape.input("x", "f32[n, m]"), anyshape.input("w", "f32[m, k]")
    return anyshape.function([x, w], ops.softmax(ops.matmul(ops.exp(x), w)))


def picked() -> Function:
    x, i = anyshape.input("x", "f32[n, 8]"), anyshape.input("i", "i64[m]")
    return anyshape.function([x, i], {"picked": ops.gather(x, i), "where": ops.nonzero(x)})


def call(c: Exported, pick: random.Random) -> int:
    """One call; its code."""
    m = c.interface
    dims = [pick.choice(SIZES) if pick.random() < 0.4 else pick.randrange(12) for _ in m.dims]
    needed, status = c.arena_bytes(dims), Status()
    known = dict(zip((d.symbol for d in m.dims), dims))
    shapes = [[n if isinstance(n, int) else known.get(n, 0) for n in t.shape] for t in m.inputs]
    counts = [int(np.prod(s, dtype=object)) if min(s, default=1) >= 0 else -1 for s in shapes]
    arrays: list[Any] = [
        np.asarray([pick.randrange(-20, 20) for _ in range(n)]).astype(t.dtype.numpy) if 0 < n < FEW else None
        for n, t in zip(counts, m.inputs)
    ]
    passed = [a if pick.random() < 0.95 else None for a in arrays]
    arena = Guarded(
        pick.choice((0, 1, 64, 4096, min(needed, 1 << 20), min(needed, 1 << 20), min(needed, 1 << 20) + 64))
    )
    rooms = [Guarded(pick.choice((0, 3, 64, 1 << 14))) for _ in m.outputs]
    ranks = [(ctypes.c_int64 * max(t.rank, 1))() for t in m.outputs]
    outputs = (Output * len(rooms))(
        *(Output(r.address if pick.random() < 0.95 else None, r.bytes, s) for r, s in zip(rooms, ranks))
    )
    addresses = (ctypes.c_void_p * len(passed))(*(a.ctypes.data if a is not None else None for a in passed))
    code: int = c._functions["run"](
        ctypes.c_void_p(arena.address if pick.random() < 0.9 else pick.choice((None, arena.address + 8))),
        ctypes.c_uint64(arena.bytes), addresses if pick.random() < 0.98 else None, outputs if pick.random() < 0.98 else None,
        *map(ctypes.c_int64, dims), ctypes.byref(status) if pick.random() < 0.9 else None,
    )  # fmt: skip
    for memory in (arena, *rooms):
        memory.demand_whole()
    assert code in range(8), code
    if status.code:
        assert status.code == code and status.text
    if min(dims) < 0:
        assert code and needed == SATURATED
    if code == Code.OVERFLOW:
        with pytest.raises(OverflowedError):
            c.check(dims)
    return code


@pytest.mark.parametrize("make", [softmax, rows, picked, loop])
def test_calls_at_random(make: Any) -> None:
    c = Exported(exported_call(make()))
    codes = [call(c, random.Random(f"{make.__name__} {seed}")) for seed in range(400)]
    assert len(set(codes)) > 3 and 0 in codes, set(codes)
