"""What no list of a processor's features says, found without knowing processors by name: asked of LLVM, or measured.

In: a `Target`. Out: an answer. The cache on disk keeps it, so that it is looked for once on a machine and all processes agree; the answers
to choose from lie so far apart that other work on the machine does not decide. What is measured is asked of the host only.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from anyshape.code_version import code_version
from anyshape.lower.gemm.microkernels import FULL, emit_kernel
from anyshape.lower.gemm.tiles import Tiles, tiles_for
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import assembly, compile_module, disk_cache, object_key
from anyshape.lower.llvm.types import F16, F32, I64, PTR, VOID, const
from anyshape.lower.target import Target

_TURNS, _STEPS, _ROUNDS = 4000, 10_000, 16
"""A round is some tens of microseconds: long beside its call, and too short for all to be interrupted."""


def gathers_well(target: Target) -> bool:
    """Whether LLVM, which knows a processor's tuning, takes `vgatherdps` where AVX2 is all there is: with AVX-512 it does on any processor,
    with AVX2 only where that is faster than as many loads (`TuningFastGather` in LLVM's `X86.td`)."""
    return _kept("gathers", target, lambda: int(_takes_gathers(target.limited("avx2")))) == 1


def _takes_gathers(target: Target) -> bool:
    module = Module(target)
    with module.function("picks", VOID, [("to", PTR), ("base", PTR), ("places", PTR)]) as f:
        to, base, places = f.args
        f.store(f.gather(base, F32.vector(8), f.load(places, I64.vector(8))), to)
        f.ret()
    return "vgather" in assembly(module.text(), target)


def multiply_adds(target: Target) -> int:
    """Of the host: how many of its widest vectors are multiplied and added in a cycle, if it is two of half the width. It is one where such
    a vector is executed as two halves, or two units join for it, and two where both units have the whole width. No list tells those apart;
    Intel, too, advises to measure it ("Servers with a Single FMA Unit" in the Optimization Reference Manual)."""
    return _kept("multiply-adds", target, lambda: 1 if _takes_twice(target) else 2)


def _takes_twice(target: Target) -> bool:
    module, lanes = Module(target), target.lanes(F32.bytes)
    emit_multiply_adds(module, "half", lanes // 2)
    emit_multiply_adds(module, "whole", lanes)
    half, whole = least(multiply_adds_calls(module, _TURNS), _ROUNDS)
    return whole > 1.5 * half


def reloads_factors(target: Target) -> bool:
    """Of the host: whether a kernel of the matrix product that widens f16 is faster if each multiply-add takes its element of A from memory
    than if a register is loaded with it for all. Where the widest vectors are executed as two halves there are loads to spare, and loads of
    registers get in the way of conversions beside the multiply-adds; elsewhere it may be loads that are short."""
    return _kept("reloads", target, lambda: int(_reloads_faster(target))) == 1


def _reloads_faster(target: Target) -> bool:
    """By a twentieth of a kernel's time or more. Where conversions get in the way it is a fifth."""
    tiles, module = tiles_for(target, F32), Module(target)
    names = {"once": False, "again": True}
    for name, reloads in names.items():
        emit_kernel(module, tiles, name, tiles.few_rows + 1, tiles.vectors, FULL, F16, reloads=reloads)
    module.pointer_table("both", tuple(names), exported=True)
    once, again = least(_kernel_calls(module, tiles), _ROUNDS)
    return 1.05 * again < once


def _kernel_calls(module: Module, tiles: Tiles) -> list[Callable[[], object]]:
    """Of both: a step that is repeated, so that no cache counts."""
    rows, columns = tiles.few_rows + 1, tiles.columns
    loaded = compile_module(module)
    a, b, c = np.ones(rows, np.float32), np.ones(columns, np.float16), np.empty((rows, columns), np.float32)
    at, to, of = a.ctypes.data, c.ctypes.data, b.ctypes.data
    arguments = (_STEPS, at, 1, 0, of, 0, 0, to, columns, columns, of, 0)

    def call(address: int) -> Callable[[], object]:
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))(address)
        return lambda: (loaded, a, b, c, run(*arguments))

    return [call(address) for address in (ctypes.c_int64 * 2).from_address(loaded.address("both"))]


def emit_multiply_adds(module: Module, name: str, lanes: int) -> None:
    """A function that multiplies and adds, for so many `turns`, as many vectors as fit the registers: no sum waits for the last one."""
    chains, vector = module.target.vector_registers - 6, F32.vector(lanes)
    with module.function(name, VOID, [("to", PTR), ("turns", I64)]) as f:
        start = [const(vector, 0.001 * i) for i in range(chains)]
        with f.for_range(0, f.args[1], carried=start, at_least_once=True) as loop:
            loop.next(*[f.fma(x, 0.999, 0.001) for x in loop.carried])
        for at, value in enumerate(loop.results):
            f.store(value, f.args[0], at * lanes)
        f.ret()


def multiply_adds_calls(module: Module, turns: int) -> list[Callable[[], object]]:
    """Calls of all such functions of a module, with room for their results."""
    loaded = compile_module(module)
    memory = np.zeros(module.target.vector_registers * module.target.lanes(F32.bytes) + 16, np.float32)
    to = memory.ctypes.data + -memory.ctypes.data % 64

    def call(name: str) -> Callable[[], object]:
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(loaded.address(name))
        return lambda: (loaded, memory, run(to, turns))

    return [call(name) for name in module.symbols]


def least(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least seconds of each, taken in turns: nothing that passes, be it faster or slower, is of one of them alone."""
    found = [float("inf")] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            start = time.perf_counter()
            call()
            found[at] = min(found[at], time.perf_counter() - start)
    return found


def _kept(question: str, target: Target, find: Callable[[], int]) -> int:
    """The answer that the cache on disk has, else what is found now."""
    key, cache = object_key(f"{question} by {code_version('anyshape.lower')}", target), disk_cache()
    known = cache.get(key)
    if known is None:
        cache.put(key, known := bytes([find()]))
    return known[0]
