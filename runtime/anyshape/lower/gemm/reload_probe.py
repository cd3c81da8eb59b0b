"""Measurement of how micro-kernels of the matrix product read factors fastest, done once on a machine.

In: a `Target`. Out: an answer, which the cache on disk keeps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

from anyshape.lower.gemm.tiles import Tiles, tiles_for
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.target_probe import ROUNDS, kept, least
from anyshape.lower.llvm.types import F16, F32
from anyshape.lower.target import Target, host_target

_STEPS = 10_000
"""Steps of a kernel in a round, which takes some tens of microseconds: long beside its call, and too short for all to be interrupted"""


def reloads_factors(target: Target) -> bool:
    """Whether micro-kernels that widen floats of 16 bits are faster if multiply-adds take each element of A from memory, as those of
    AVX-512 can, than if a register is loaded with it for all. It is measured, so of the host as it is."""
    is_host = target.without_tiles == host_target().without_tiles
    return target.scalef and target.f16 and is_host and measured_reloads(target.without_tiles)


@cache
def measured_reloads(target: Target) -> bool:
    """Measures on the host whether reloading operands is faster. Where the widest vectors are executed as two halves there are loads to
    spare, and loads of registers compete with conversions beside the multiply-adds; elsewhere loads may be the bottleneck."""
    return kept("reloads", target, lambda: int(_reloads_faster(target))) == 1


def _reloads_faster(target: Target) -> bool:
    """Whether reloading is faster by a twentieth of a kernel's time or more. Where conversions compete it is a fifth."""
    from anyshape.lower.gemm.microkernels import FULL, emit_kernel  # which ask this

    tiles, module = tiles_for(target, F32), Module(target)
    names = {"once": False, "again": True}
    for name, reloads in names.items():
        emit_kernel(module, tiles, name, tiles.few_rows + 1, tiles.vectors, FULL, F16, reloads=reloads)
    module.pointer_table("both", tuple(names))
    once, again = least(_kernel_calls(module, tiles), ROUNDS)
    return 1.05 * again < once


def _kernel_calls(module: Module, tiles: Tiles) -> list[Callable[[], object]]:
    """Calls of both kernels, which repeat one step, so that no cache matters."""
    rows, columns = tiles.few_rows + 1, tiles.columns
    loaded = compile_module(module)
    a, b, c = np.ones(rows, np.float32), np.ones(columns, np.float16), np.empty((rows, columns), np.float32)
    at, to, of = a.ctypes.data, c.ctypes.data, b.ctypes.data
    arguments = (_STEPS, at, 1, 0, of, 0, 0, to, columns, columns, of, 0)

    def call(address: int) -> Callable[[], object]:
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))(address)
        return lambda: (loaded, a, b, c, run(*arguments))

    return [call(address) for address in (ctypes.c_int64 * 2).from_address(loaded.address("both"))]
