"""Properties of processors that no list of features has, without a table of processors' names: they are asked of LLVM, or measured.

In: a `Target`. Out: an answer. The cache on disk keeps it, so that it is determined once on a machine and all processes agree; the possible
answers lie so far apart that other work on the machine does not decide. Measurements are of the host only.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable
from functools import cache

import numpy as np

from anyshape.code_version import code_version
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import assembly, compile_module, disk_cache, object_key
from anyshape.lower.llvm.types import F32, I8, I64, PTR, VOID, const
from anyshape.lower.target import Target, host_target

_ITERATIONS = 4000
ROUNDS = 16
"""A round is some tens of microseconds: long beside its call, and too short for all to be interrupted."""


_NUMBER = struct.Struct("<d")
_STRETCH, _STRETCHES_AHEAD, _SUMS = 2048, 3, 4
"""Bytes of the codes of a block of 64 columns, how many blocks ahead they are prefetched, and sums that do not wait for each other"""
_NARROWEST = 16
"""Bytes of a vector that no processor executes as two halves"""


@cache
def gathers(target: Target) -> bool:
    """Whether an instruction that loads from several places exists and is faster than as many loads. LLVM, which knows a processor's
    tuning, uses `vgatherdps` with AVX-512 on any processor, with AVX2 only where that is faster (`TuningFastGather` in LLVM's `X86.td`): so
    the code for the processor with AVX2 alone decides."""
    return target.scalef and kept("gathers", target, lambda: int(_takes_gathers(target.limited("avx2")))) == 1


@cache
def gathers_masked(target: Target) -> bool:
    """Whether LLVM loads from several places under a mask by an instruction, and not by a branch and a load for each lane."""
    if target.scalef or not target.masks:
        return target.scalef
    x86 = target.triple.startswith("x86_64")
    return not x86 or kept("masked gathers", target, lambda: int(_takes_gathers(target))) == 1


def _takes_gathers(target: Target) -> bool:
    module = Module(target)
    with module.function("picks", VOID, [("to", PTR), ("base", PTR), ("places", PTR)]) as f:
        to, base, places = f.args
        f.store(f.gather(base, F32.vector(8), f.load(places, I64.vector(8))), to)
        f.ret()
    return "vgather" in assembly(module.text(), target)


def multiply_adds(target: Target) -> int:
    """Vectors that are multiplied and added in a cycle: one where the widest are executed as two halves, or two units join for them. It is
    measured on the host; any other target has two. As no code depends on it, only how much work is worth sharing and which algorithm takes
    less time, it is no part of the target's description."""
    measured = target.fma and target.vector_bytes > _NARROWEST and target.without_tiles == host_target().without_tiles
    return measured_multiply_adds(target.without_tiles) if measured else 2


@cache
def measured_multiply_adds(target: Target) -> int:
    """Measures on the host how many of its widest vectors are multiplied and added in a cycle, if it is two of half the width. No list
    tells processors apart by that; Intel, too, advises to measure it ("Servers with a Single FMA Unit" in the Optimization Reference
    Manual)."""
    return kept("multiply-adds", target, lambda: 1 if _takes_twice(target) else 2)


def _takes_twice(target: Target) -> bool:
    module, lanes = Module(target), target.lanes(F32.bytes)
    emit_multiply_adds(module, "half", lanes // 2)
    emit_multiply_adds(module, "whole", lanes)
    half, whole = least(multiply_adds_calls(module, _ITERATIONS), ROUNDS)
    return whole > 1.5 * half


def prefetches_streams(target: Target) -> bool:
    """Whether code that reads memory in order prefetches some kilobytes of it ahead, into the second cache: where the first one has miss
    buffers to spare, unless the processor's own prefetches are faster alone. That is measured on the host."""
    if not target.has_buffers_to_prefetch:
        return False
    is_host = not target.foreign and target.without_tiles == host_target().without_tiles
    return not (is_host and measured_reads_ahead(target.without_tiles))


@cache
def measured_reads_ahead(target: Target) -> bool:
    """Measures on the host whether what the last cache holds is read in less time without prefetches."""
    return kept("reads ahead", target, lambda: int(_reads_ahead(target))) == 1


def _reads_ahead(target: Target) -> bool:
    """Whether prefetches cost more than a 33rd of the time: a tenth, where they do. Where they help, they save a fifth."""
    alone, prefetched = least(_stream_calls(target), ROUNDS)
    return 1.03 * alone < prefetched


def _stream_calls(target: Target) -> list[Callable[[], object]]:
    """Calls of functions that add up memory of four times the second cache, by stretches, without prefetches and with them."""
    module, lines = Module(target), target.line_bytes
    lanes = target.lanes(F32.bytes)
    vector = F32.vector(lanes)
    for name, ahead in (("alone", 0), ("prefetched", _STRETCHES_AHEAD)):
        with module.function(name, VOID, [("to", PTR), ("of", PTR), ("bytes", I64)]) as f:
            to, of, count = f.args
            with f.for_range(0, count, _STRETCH, carried=[const(vector, 0)] * _SUMS, at_least_once=True) as loop:
                at, sums = f.gep(of, loop.index, I8), list(loop.carried)
                for line in range(0, _STRETCH if ahead else 0, lines):
                    f.prefetch(f.gep(at, ahead * _STRETCH + line, I8), False, into=2)
                for k in range(_STRETCH // F32.bytes // lanes):
                    sums[k % _SUMS] = f.add(sums[k % _SUMS], f.load(at, vector, k * lanes))
                loop.next(*sums)
            for k, total in enumerate(loop.results):
                f.store(total, to, k * lanes)
            f.ret()
    loaded, size = compile_module(module), min(4 * target.l2_bytes, target.l3_bytes // 2) // _STRETCH * _STRETCH
    memory = np.ones(size + (_STRETCHES_AHEAD + 1) * _STRETCH, np.uint8)
    results = np.zeros(_SUMS * lanes, np.float32)

    def call(name: str) -> Callable[[], object]:
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(loaded.address(name))
        start = memory.ctypes.data + -memory.ctypes.data % lines
        return lambda: (loaded, memory, results, run(results.ctypes.data, start, size))

    return [call(name) for name in module.symbols]


def emit_multiply_adds(module: Module, name: str, lanes: int) -> None:
    """Emits a function that multiplies and adds, in so many `iterations`, as many vectors as fit the registers: no sum waits for the last
    one."""
    chains, vector = module.target.vector_registers - 6, F32.vector(lanes)
    with module.function(name, VOID, [("to", PTR), ("iterations", I64)]) as f:
        start = [const(vector, 0.001 * i) for i in range(chains)]
        with f.for_range(0, f.args[1], carried=start, at_least_once=True) as loop:
            loop.next(*[f.fma(x, 0.999, 0.001) for x in loop.carried])
        for at, value in enumerate(loop.results):
            f.store(value, f.args[0], at * lanes)
        f.ret()


def multiply_adds_calls(module: Module, iterations: int) -> list[Callable[[], object]]:
    """Calls of all such functions of a module, with room for their results."""
    loaded = compile_module(module)
    memory = np.zeros(module.target.vector_registers * module.target.lanes(F32.bytes) + 16, np.float32)
    to = memory.ctypes.data + -memory.ctypes.data % 64

    def call(name: str) -> Callable[[], object]:
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(loaded.address(name))
        return lambda: (loaded, memory, run(to, iterations))

    return [call(name) for name in module.symbols]


def least(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least seconds of each call, measured in alternation: a disturbance is not of one of them alone."""
    seconds = [float("inf")] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[at] = min(seconds[at], time.perf_counter() - start)
    return seconds


def kept(question: str, target: Target, find: Callable[[], int]) -> int:
    """The answer from the cache on disk, or else a new one, a byte."""
    return _kept_bytes(question, target, lambda: bytes([find()]))[0]


def kept_number(question: str, target: Target, measure: Callable[[], float]) -> float:
    """The figure from the cache on disk, or else a new one."""
    (number,) = _NUMBER.unpack(_kept_bytes(question, target, lambda: _NUMBER.pack(measure())))
    return float(number)


def _kept_bytes(question: str, target: Target, find: Callable[[], bytes]) -> bytes:
    key, cache = object_key(f"{question} by {code_version('anyshape.lower')}", target), disk_cache()
    known = cache.get(key)
    if known is None:
        cache.put(key, known := find())
    return known
