"""How near each other two processors are: a line of the cache to the other and back, in nanoseconds, and what two threads bring meanwhile.

    PYTHONPATH=runtime:generated:. python -m benchmarks.round_trip [--seconds 20]

The processors of a virtual machine are threads of its host, which may move them at any time: to the two halves of one core, which have one
unit for multiply-adds, or to cores without a common last cache. Neither can be asked for or seen from within, but for this time. Every
half second: the round trip, the time of two loops of multiply-adds, one on each processor, over that of one alone, and the time of a call
of bert_mini at 1x7 on two threads over that on one.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from threading import Barrier

os.environ.setdefault("OMP_NUM_THREADS", "1")

import anyshape
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.target_probe import emit_multiply_adds, multiply_adds_calls
from anyshape.lower.llvm.types import I64, PTR, VOID
from anyshape.lower.target import host_target
from benchmarks.engines import PROCESSORS
from benchmarks.lines import aligned
from benchmarks.models import Arrays, load

BATCH, BATCHES = 100, 20
"""Round trips; of the batches the least counts, as others have lost a processor to somebody."""
LOOP_TURNS = 1_000_000
"""Multiply-adds of one loop, which take milliseconds."""
CALL_SECONDS = 0.1


@cache
def _answer() -> tuple[Callable[[int, int, int], None], object]:
    """`answer(word, first, count)`, so many times: waits for the word to be `first`, adds 1 to it, and then waits for 2 more."""
    module = Module(host_target())
    arguments = [("word", PTR), ("first", I64), ("count", I64)]
    with module.function("answer", VOID, arguments, noalias=False) as f:
        word, first, count = f.args
        with f.for_range(0, count) as loop:
            expected = f.add(first, f.mul(loop.index, 2))
            wait, go_on = f.new_block(), f.new_block()
            f.jump(wait)
            f.start(wait)
            f.branch(f.compare("eq", f.atomic_load(word, I64), expected), go_on, wait)
            f.start(go_on)
            f.atomic_store(f.add(expected, 1), word)
        f.ret()
    loaded = compile_module(module)
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(loaded.address("answer")), loaded


def round_trip() -> float:
    """Nanoseconds between the first two processors that we may use."""
    (answer, _), line, seconds = _answer(), aligned(16), []

    def ask() -> None:
        for k in range(BATCHES):
            start = time.perf_counter()
            answer(line.ctypes.data, 2 * BATCH * k, BATCH)
            seconds.append((time.perf_counter() - start) / BATCH)

    _on_both(ask, lambda: answer(line.ctypes.data, 1, BATCH * BATCHES))
    return min(seconds) * 1e9


def _on_both(*calls: Callable[[], object]) -> list[float]:
    """Seconds of two calls that begin at once, each on a processor of its own."""
    begin = Barrier(2)

    def run(cpu: int, call: Callable[[], object]) -> float:
        os.sched_setaffinity(0, {cpu})
        begin.wait()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(run, PROCESSORS, calls))


@cache
def _loops() -> list[Callable[[], object]]:
    """Makes two loops, with memory of their own."""
    calls = []
    for _ in range(2):
        module = Module(host_target())
        emit_multiply_adds(module, "peak", module.target.lanes(4))
        calls += multiply_adds_calls(module, LOOP_TURNS)
    return calls


def loops_together() -> float:
    """Seconds of two loops of multiply-adds at once, over those of one alone: 2 where the processors are halves of one core, or one."""
    if len(PROCESSORS) < 2:
        return 2.0
    one, other = _loops()
    start = time.perf_counter()
    one()
    alone = time.perf_counter() - start
    return max(_on_both(one, other)) / alone


def call_seconds(exe: anyshape.Executable, arguments: Arrays) -> float:
    seconds, end = [], time.perf_counter() + CALL_SECONDS
    while (start := time.perf_counter()) < end:
        exe.run(arguments)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of measuring (20)")
    options = parser.parse_args()
    if len(PROCESSORS) < 2:
        raise SystemExit("this process may use one processor only: there is nothing to measure")
    model = load("bert_mini")
    with tempfile.TemporaryDirectory() as folder:
        path = model.build(Path(folder) / "m.onnx")
        alone, shared = (anyshape.compile(path, threads=t) for t in (1, 2))
    arguments, end = model.inputs(1, 7), time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        ratio = call_seconds(shared, arguments) / call_seconds(alone, arguments)
        pair = f"round trip {round_trip():4.0f} ns   two loops {loops_together():.2f}"
        print(f"{pair}   bert_mini 1x7 on two threads {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
