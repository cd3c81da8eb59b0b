"""Limits of this machine, measured: multiply-adds of one core, and bytes moved by a copy.

Figures of kernels are stated as fractions of these. Nothing that runs programs depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.target_probe import emit_multiply_adds, least, multiply_adds_calls
from anyshape.lower.target import host_target


def measure_peak() -> float:
    """Measures multiply-adds of one core, in GFLOP/s."""
    target, iterations = host_target(), 20_000
    module = Module(target)
    emit_multiply_adds(module, "peak", target.lanes(4))
    (best,) = least(multiply_adds_calls(module, iterations), 30)
    return 2 * (target.vector_registers - 6) * target.lanes(4) * iterations / best / 1e9


def measure_copy(size: int) -> float:
    """Measures bytes read and written by a copy within a working set of `size` bytes, in GB/s."""
    half = max(size // 2, 1 << 12)
    source, to = np.ones(half, np.uint8), np.empty(half, np.uint8)
    repeats = max(1, (1 << 24) // half)

    def copies() -> None:
        for _ in range(repeats):
            np.copyto(to, source)

    return 2 * half * repeats / min(timed(copies) for _ in range(10)) / 1e9


def timed(call: Callable[[], object]) -> float:
    """Measures the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
