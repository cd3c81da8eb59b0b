"""Exported models beside the same models in Python: bytes of code and weights, and time per call, in turns.

    python -m benchmarks.exported [MODEL ...]

Both are for x86-64 with AVX2, on one thread. An exported call is made through ctypes with all pointers ready, which takes some 2 us itself;
the call in Python writes into arrays of the caller, too.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import anyshape
from anyshape.vm.executable.entry import function_of
from anyshape.vm.export import export, export_target
from anyshape.vm.export.status_code import Code
from anyshape_testing.exports.loaded import Exported, Guarded, Output, Status
from benchmarks.models import load

Array = NDArray[Any]
USUAL = ("mlp", "bert_mini", "gpt2", "lstm", "detection")
SAMPLES, SECONDS = 15, 0.02


def caller(c: Exported, inputs: list[Array], results: list[Array]) -> tuple[Callable[[], int], int]:
    """A call of `NAME_run` with memory and pointers that are made once, and the bytes of its arena."""
    dims, status = c.sizes(inputs), Status()
    needed = c.arena_bytes(dims)
    rooms = [Guarded(a.nbytes) for a in results]
    outputs = (Output * len(rooms))(*(Output(r.address, r.bytes, None) for r in rooms))
    addresses = (ctypes.c_void_p * len(inputs))(*(a.ctypes.data for a in inputs))
    weights = [ctypes.c_void_p(c._weights.ctypes.data)] if c._weights is not None else []
    run = c._functions["run"]
    while True:
        arena = Guarded(needed)
        words = [
            ctypes.c_void_p(arena.address), ctypes.c_uint64(arena.bytes), *weights, addresses, outputs,
            *map(ctypes.c_int64, dims), ctypes.byref(status),
        ]  # fmt: skip
        if run(*words) != Code.ARENA:
            break
        needed = 2 * status.needed

    def call() -> int:
        code: int = run(*words)
        held = arena, rooms, c  # memory and code, which live as long as the call
        assert code == 0, (status.text, held)
        return code

    return call, needed


def least(calls: list[Callable[[], object]]) -> list[float]:
    """Seconds of each call, the least of samples taken in turns."""
    best = [float("inf")] * len(calls)
    start = time.perf_counter()
    calls[0]()
    repeats = max(1, int(SECONDS / (time.perf_counter() - start)))
    for _ in range(SAMPLES):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best[k] = min(best[k], (time.perf_counter() - start) / repeats)
    return best


def main(names: list[str]) -> None:
    print(f"{'model':<12} {'sizes':>10} {'code':>8} {'weights':>9} {'arena':>9}   exported     Python   ratio")
    for name in names or USUAL:
        model = load(name)
        with tempfile.TemporaryDirectory() as folder:
            f, options = function_of(model.build(Path(folder) / "model.onnx"))
        e = export(f, "model", export_target("x86-64-v3"), options)
        c, python = Exported(e), anyshape.compile(f, threads=1, target="avx2")
        for batch, length in (model.SHAPES[0], model.SHAPES[len(model.SHAPES) // 2]):
            named = model.inputs(batch, length)
            inputs = [named[n] for n in python.input_names]
            results = python.run(named)
            destinations = dict(zip(python.output_names, results))
            call, arena = caller(c, inputs, results)
            ours, theirs = least([call, partial(python.run, named, destinations)])
            sizes = f"{batch} x {length}"
            print(
                f"{name:<12} {sizes:>10} {len(e.object) // 1024:>5} KB {len(e.weights.content()) // 1024:>6} KB {arena // 1024:>6} KB "
                f"{ours * 1e6:>7.1f} us {theirs * 1e6:>7.1f} us {theirs / ours:>7.2f}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
