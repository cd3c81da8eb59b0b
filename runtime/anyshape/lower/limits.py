"""What this machine can do at most, measured: multiply-adds of one core, and bytes moved by a copy.

Figures of kernels are told as fractions of these. Nothing that runs programs depends on them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.types import F32, I64, PTR, VOID, const
from anyshape.lower.target import host_target


def measure_peak() -> float:
    """Multiply-adds of one core, in GFLOP/s."""
    target = host_target()
    lanes, chains, turns = target.lanes(4), target.vector_registers - 6, 20_000
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
    memory = np.zeros(chains * lanes + 16, np.float32)
    to = memory.ctypes.data + -memory.ctypes.data % 64
    best = min(timed(lambda: run(to, turns)) for _ in range(30))
    return 2 * chains * lanes * turns / best / 1e9


def measure_copy(size: int) -> float:
    """Bytes read and written by a copy within a working set of `size` bytes, in GB/s."""
    half = max(size // 2, 1 << 12)
    source, to = np.ones(half, np.uint8), np.empty(half, np.uint8)
    repeats = max(1, (1 << 24) // half)

    def copies() -> None:
        for _ in range(repeats):
            np.copyto(to, source)

    return 2 * half * repeats / min(timed(copies) for _ in range(10)) / 1e9


def timed(call: Callable[[], object]) -> float:
    """The seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
