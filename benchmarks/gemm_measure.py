"""How the matrix-product benchmarks measure: aligned arrays, the machine's peak, interleaved batches.

In: calls without arguments. Out: the best time of each.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.types import F32, I64, PTR, VOID, const
from anyshape.lower.target import host_target

Array = npt.NDArray[np.float32]


def aligned(*shape: int) -> Array:
    size = math.prod(shape)
    memory = np.zeros(size + 32, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + size].reshape(shape)


def measure_peak() -> float:
    """Multiply-adds of one core, in GFLOP/s."""
    target = host_target()
    lanes, chains, turns = target.lanes(4), 20, 20_000
    module = Module(target)
    with module.function("peak", VOID, [("to", PTR), ("turns", I64)]) as f:
        vector = F32.vector(lanes)
        start = [const(vector, 0.001 * i) for i in range(chains)]
        with f.for_range(0, f.args[1], carried=start) as loop:
            loop.next(*[f.fma(x, 0.999, 0.001) for x in loop.carried])
        for at, value in enumerate(loop.results):
            f.store(value, f.args[0], at * lanes)
        f.ret()
    loaded = compile_module(module)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(loaded.address("peak"))
    to = aligned(chains * lanes)
    best = min(timed(lambda: run(to.ctypes.data, turns), 1) for _ in range(30))
    return 2 * chains * lanes * turns / best / 1e9


def timed(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def best_times(calls: list[Callable[[], object]], flops: float, peak: float, budget: float) -> list[float]:
    repeats = max(1, int(5e-4 / (flops / peak / 1e9 + 2e-6)))
    best = [math.inf] * len(calls)
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for at, call in enumerate(calls):
            best[at] = min(best[at], timed(call, repeats))
    return best
