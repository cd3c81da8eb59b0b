"""Measurements of how micro-kernels of the matrix product read factors fastest, done once on a machine.

In: a `Target`. Out: answers, which the cache on disk keeps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from anyshape.lower.gemm.tiles import Tiles, tiles_for
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.target_probe import ROUNDS, kept, least
from anyshape.lower.llvm.types import F16, F32, Type
from anyshape.lower.target import Target, host_target

_STEPS = 10_000
"""Steps of a kernel in a round, which takes some tens of microseconds: long beside its call, and too short for all to be interrupted"""


def reloads_factors(target: Target) -> bool:
    """Whether micro-kernels that widen floats of 16 bits are faster if multiply-adds take each element of A from memory, as those of
    AVX-512 can, than if a register is loaded with it for all. It is measured, so of the host as it is."""
    return _is_measured(target) and measured_reloads(target.without_tiles)


def shares_widened(target: Target) -> bool:
    """Whether several tiles take less time if the first one keeps what it widens for the others: not where micro-kernels widen without
    extra time, by reloading factors or because conversions have units of their own. That is measured, so of the host as it is."""
    return not (
        _is_measured(target) and (measured_reloads(target.without_tiles) or measured_free(target.without_tiles))
    )


def _is_measured(target: Target) -> bool:
    return target.scalef and target.f16 and target.without_tiles == host_target().without_tiles


@cache
def measured_reloads(target: Target) -> bool:
    """Measures on the host whether reloading operands is faster. Where the widest vectors are executed as two halves there are loads to
    spare, and loads of registers compete with conversions beside the multiply-adds; elsewhere loads may be the bottleneck."""
    return kept("reloads", target, lambda: int(_reloads_faster(target))) == 1


@cache
def measured_free(target: Target) -> bool:
    """Measures on the host whether conversions compete with multiply-adds for units."""
    return kept("free conversions", target, lambda: int(_widens_freely(target))) == 1


def _reloads_faster(target: Target) -> bool:
    """Whether reloading is faster by a twentieth of a kernel's time or more. Where conversions compete it is a fifth."""
    once, again = _seconds(target, [(F16, False), (F16, True)], tiles_for(target, F32).few_rows + 1)
    return 1.05 * again < once


def _widens_freely(target: Target) -> bool:
    """Whether the tallest tile takes no longer, by a 25th or more, if it widens: two conversions beside 28 multiply-adds are a 14th where
    they take the place of some."""
    wide, narrow = _seconds(target, [(F32, False), (F16, False)], tiles_for(target, F32).rows)
    return narrow < 1.04 * wide


def _seconds(target: Target, kinds: Sequence[tuple[Type, bool]], rows: int) -> list[float]:
    """The least seconds of kernels of so many rows, by what B is in memory and whether they reload factors."""
    from anyshape.lower.gemm.microkernels import FULL, emit_kernel  # which ask this

    tiles, module = tiles_for(target, F32), Module(target)
    names = [f"kernel_{i}" for i in range(len(kinds))]
    for name, (stored, reloads) in zip(names, kinds, strict=True):
        emit_kernel(module, tiles, name, rows, tiles.vectors, FULL, stored, reloads=reloads)
    module.pointer_table("kernels", names)
    return least(_kernel_calls(module, tiles, rows, len(kinds)), ROUNDS)


def _kernel_calls(module: Module, tiles: Tiles, rows: int, count: int) -> list[Callable[[], object]]:
    """Calls of the kernels, which repeat one step, so that no cache matters. Zeros are so in any type."""
    columns = tiles.columns
    loaded = compile_module(module)
    a, b, c = np.ones(rows, np.float32), np.zeros(columns, np.float32), np.empty((rows, columns), np.float32)
    at, to, of = a.ctypes.data, c.ctypes.data, b.ctypes.data
    arguments = (_STEPS, at, 1, 0, of, 0, 0, to, columns, columns, of, 0)

    def call(address: int) -> Callable[[], object]:
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))(address)
        return lambda: (loaded, a, b, c, run(*arguments))

    return [call(address) for address in (ctypes.c_int64 * count).from_address(loaded.address("kernels"))]
