"""Measures when a map, and a transpose, should store past the caches: alone, and with what reads the result next.

    PYTHONPATH=runtime:generated python -m benchmarks.past_caches [--threads 2] [--seconds 0.1]

Megabytes that an operation on f32 reads and writes; then for max(x, 0) alone, with a sum of the result behind it, for a chain of three such
maps round three pieces of memory, and for a transpose alone and with a sum, microseconds by ordinary stores, and what stores past the
caches take of them. Each thread has a part of its own, over which it goes many times.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from anyshape.lower.gemm.library import resolve
from anyshape.lower.gemm.transposition import TRANSPOSE_ARGUMENTS, transpose_name
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.types import F32, I64, PTR, VOID, Val, const
from anyshape.lower.target import host_target
from benchmarks.gemm_measure import aligned

BLOCK = 4
"""Vectors a turn."""
WORKS = ("map", "map, sum", "three maps", "transpose", "transpose, sum")
COLUMNS = 1504
"""Columns of what is transposed."""
ARGUMENTS = [("x", PTR), ("y", PTR), ("z", PTR), ("count", I64), ("turns", I64)]
TURNS = 12
Run = Callable[..., None]


def compiled(work: str, past: bool) -> Run:
    """A function that does the work on `count` elements so many times."""
    module = Module(host_target())
    with module.function("work", VOID, ARGUMENTS) as f:
        x, y, z, count, turns = f.args
        with f.for_range(0, turns):
            if work.startswith("transpose"):
                emit_transpose(f, x, y, count, past)
            else:
                emit_map(f, x, y, count, past)
            if work.endswith("sum"):
                emit_sum(f, y, z, count)
            if work.startswith("three"):
                emit_map(f, y, z, count, past)
                emit_map(f, z, x, count, past)
        f.ret()
    loaded = compile_module(module, resolve(module.imports, module.target))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(ARGUMENTS))(loaded.address("work"))

    def run(*arguments: int, keep: object = loaded) -> None:
        function(*arguments)

    return run


def blocks(f: FunctionBuilder, x: Val, i: Val) -> Iterator[tuple[int, Val]]:
    lanes = f.target.lanes(F32.bytes)
    for at in range(0, BLOCK * lanes, lanes):
        yield at, f.load(f.gep(x, f.add(i, at), F32), F32.vector(lanes))


def emit_map(f: FunctionBuilder, x: Val, y: Val, count: Val, past: bool) -> None:
    lanes = f.target.lanes(F32.bytes)
    zero = const(F32.vector(lanes), 0.0)
    store = f.store_past_caches if past else f.store
    with f.for_range(0, count, BLOCK * lanes) as turn:
        for at, value in list(blocks(f, x, turn.index)):
            positive = f.select(f.fcmp("ogt", value, zero), value, zero)
            store(positive, f.gep(y, f.add(turn.index, at), F32))
    if past:
        f.end_past_caches()


def emit_transpose(f: FunctionBuilder, x: Val, y: Val, count: Val, past: bool) -> None:
    columns = const(I64, COLUMNS)
    rows = f.and_(f.binary("udiv", count, columns), -f.target.line_bytes // F32.bytes)
    f.module.declare(transpose_name(F32), VOID, [type_ for _, type_ in TRANSPOSE_ARGUMENTS])
    moved = const(I64, 1 << 62 if past else 0)
    f.call(transpose_name(F32), VOID, [x, columns, rows, const(I64, 0), columns, columns, y, rows, moved])


def emit_sum(f: FunctionBuilder, y: Val, to: Val, count: Val) -> None:
    lanes = f.target.lanes(F32.bytes)
    start = [const(F32.vector(lanes), 0.0)] * BLOCK
    with f.for_range(0, count, BLOCK * lanes, start) as turn:
        turn.next(*[f.add(s, v) for s, (_, v) in zip(turn.carried, list(blocks(f, y, turn.index)), strict=True)])
    for at, value in enumerate(turn.results):
        f.store(value, f.gep(to, at * lanes, F32))


def measured(run: Run, memory: list[int], count: int, threads: int) -> float:
    """Seconds of one turn."""
    part = count // threads // 1024 * 1024
    start = threading.Barrier(threads + 1)

    def life(k: int) -> None:
        start.wait()
        run(*[m + k * part * F32.bytes for m in memory], part, TURNS)

    workers = [threading.Thread(target=life, args=(k,)) for k in range(threads)]
    for w in workers:
        w.start()
    start.wait()
    begin = time.perf_counter()
    for w in workers:
        w.join()
    return (time.perf_counter() - begin) / TURNS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="which share the work (1)")
    parser.add_argument("--seconds", type=float, default=0.1, help="of measuring one way of doing it (0.1)")
    options = parser.parse_args()
    last = host_target().l3_bytes
    arrays = [aligned(2 * last // F32.bytes) for _ in range(3)]
    for a in arrays:
        a[:] = 1.0
    memory = [a.ctypes.data for a in arrays]
    variants = {(w, past): compiled(w, past) for w in WORKS for past in (False, True)}
    print(f"last cache {last >> 20} MB\n{'MB':>6}" + "".join(f"{w:>20}" for w in WORKS))
    for eighths in (2, 4, 6, 8, 10, 12, 16, 20, 24, 32):
        count = last * eighths // 16 // F32.bytes
        best = dict.fromkeys(variants, np.inf)
        end = time.perf_counter() + options.seconds * len(variants)
        while time.perf_counter() < end:
            for way, run in variants.items():
                best[way] = min(best[way], measured(run, memory, count, options.threads))
        cells = (f"{best[w, False] * 1e6:12.0f} x {best[w, True] / best[w, False]:5.2f}" for w in WORKS)
        print(f"{2 * count * F32.bytes >> 20:6}" + "".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
