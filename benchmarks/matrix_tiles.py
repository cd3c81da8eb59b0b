"""Products by matrix tiles (AMX) beside those by vectors, one thread: peaks, shares of them, and from how many rows on tiles are faster.

The peak of tiles has all factors in registers. Beside it stands what they do with factors from the second cache: two tiles of each are
loaded for four products, half of that cache is read over and over, and no sum is stored.

    python -m benchmarks.matrix_tiles [--of bf16|i8] [--rows 1,2,4,8,12,16,24,32,64,256] [--shapes 256x1024,768x768]

Both are kernels of the one template with a constant B, called in turns in batches of half a millisecond and of `CALLS` calls, so that all
but the first find in the second cache what the one before left there; the best batch counts.
Tiles multiply from the first row on here, whatever `least_rows` of `anyshape.lower.target.MatrixTiles` is: it should be the number that
this command prints last. A machine without tiles has nothing to measure; `--emulated` runs the command there to try it, and its figures
mean nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anyshape.lower import gemm
from anyshape.lower.gemm.pairs import Pairs
from anyshape.lower.limits import measure_peak
from anyshape.lower.llvm import matrix_tiles
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import F32, I8, I32, I64, PTR, VOID, Type, const
from anyshape.lower.multiply_adds import multiply_adds_of
from anyshape.lower.target import Target, host_target
from benchmarks.gemm_measure import best_times
from benchmarks.lines import placed

ROWS = "1,2,4,8,12,16,24,32,64,256"
CALLS = 8
PAIR_BYTES = 2 * matrix_tiles.ROWS * matrix_tiles.ROW_BYTES
"""Bytes of two tiles"""
SHAPES = "256x256,256x1024,768x768,1024x1024,3072x768"


@dataclass(frozen=True)
class Kind:
    """What is multiplied: the words, and the types of sums and of operands in memory."""

    name: str
    element: Type
    words: gemm.OperandWords
    of_a: Any
    of_b: Any

    def drawn(self, *shape: int, of: Any) -> Any:
        rng = np.random.default_rng(sum(shape))
        return rng.integers(0, 100, shape).astype(of) if self.element == I32 else rng.standard_normal(shape).astype(of)


KINDS = {
    "bf16": Kind("bf16", F32, Pairs(), np.float32, np.float32),
    "i8": Kind("i8", I32, gemm.Codes(gemm.Side(True), gemm.Side(False)), np.uint8, np.int8),
}


def product_kernel(target: Target, kind: Kind) -> Loaded:
    """Scalars m, n, k; buffers a, b, c."""
    module = Module(target)
    with module.kernel("product") as f:
        m, n, k = (f.load(f.arg("scalars"), I64, at) for at in range(3))
        a, b, c = (f.load(f.arg("buffers"), PTR, at) for at in range(3))
        spec = gemm.ContractionSpec(
            element=kind.element, m=m, n=n, k=k, a=gemm.Strided(a, k, 1), b=gemm.Prepacked(b),
            c=gemm.Destination(c, n), words=kind.words,
        )  # fmt: skip
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))
        f.ret(const(f.result, 0))
    return compile_module(module, gemm.resolve(module.imports, module.target))


def product_call(target: Target, kind: Kind, loaded: Loaded, a: Any, b: Any) -> Callable[[], Any]:
    """A call that returns its result."""
    (m, k), n, tiles = a.shape, b.shape[1], gemm.tiles_for(target, kind.element)
    panels = kind.words.prepacked(b, tiles, target)
    by_tiles = gemm.by_matrix_tiles(kind.words, target)
    steps = -(-k // kind.words.per(target))
    widens = kind.words.stored_b(target, b.size) is not None  # panels of B, into scratch
    scratch = np.empty(gemm.scratch_bytes(tiles, m, n, steps, widens, by_tiles=by_tiles) + 64, np.uint8)
    c = placed(np.empty((m, n), np.float32 if kind.element == F32 else np.int32))
    scalars, buffers = np.array([m, n, k]), np.array([x.ctypes.data for x in (a, panels, c)])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("product"))
    args = scalars.ctypes.data, buffers.ctypes.data, scratch.ctypes.data, 0, 1
    keep = (loaded, scalars, buffers, scratch, panels, a)
    return lambda: (function(*args), keep, c)[2]


def from_second_cache(target: Target, words: gemm.OperandWords) -> float:
    """Measures the multiply-adds of tiles whose factors come from the second cache, in GFLOP/s."""
    module, names, per = Module(target), words.tiles(target), words.per(target)
    assert names is not None
    with module.function("stream", VOID, [("a", PTR), ("b", PTR), ("steps", I64)]) as f:
        a, b, steps = f.args
        matrix_tiles.configure(f, matrix_tiles.define_configuration(module))
        for total in range(4):
            matrix_tiles.clear(f, total)
        tile, two = const(I64, matrix_tiles.ROW_BYTES), const(I64, 2 * matrix_tiles.ROW_BYTES)
        with f.for_range(0, f.mul(steps, PAIR_BYTES), PAIR_BYTES) as loop:
            a_now, b_now = f.gep(a, loop.index, I8), f.gep(b, loop.index, I8)
            for at in range(2):
                matrix_tiles.load(f, 6 + at, f.gep(b_now, at * matrix_tiles.ROW_BYTES, I8), two)
            for at in range(2):
                matrix_tiles.load(f, 4 + at, f.gep(a_now, at * PAIR_BYTES // 2, I8), tile)
                for column in range(2):
                    matrix_tiles.multiply(f, names.product, 2 * at + column, 4 + at, 6 + column)
        matrix_tiles.release(f)
        f.ret()
    loaded = compile_module(module, gemm.resolve(module.imports, module.target))
    steps = target.l2_bytes // 4 // PAIR_BYTES
    a, b = (np.ones(steps * PAIR_BYTES + 64, np.uint8) for _ in range(2))  # pages of their own: those of zeros are one
    stream = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(loaded.address("stream"))
    arguments = *(x.ctypes.data + -x.ctypes.data % 64 for x in (a, b)), steps
    flops = 2.0 * steps * 4 * matrix_tiles.ROWS * matrix_tiles.WORDS**2 * per
    (least,) = best_times([lambda: stream(*arguments)], flops, 1000.0, 0.5)
    return flops / least / 1e9


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Products by matrix tiles beside those by vectors, one thread.")
    parser.add_argument("--of", choices=sorted(KINDS), default="bf16")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--shapes", default=SHAPES, help="pairs KxN")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds per case")
    parser.add_argument("--emulated", action="store_true", help="try the command where there are no tiles")
    options = parser.parse_args(argv)
    kind, host = KINDS[options.of], host_target()
    target = host.limited("amx") if options.emulated else host
    if target.matrix_tiles is not None:
        target = replace(target, matrix_tiles=replace(target.matrix_tiles, least_rows=1))
    if not gemm.by_matrix_tiles(kind.words, target):
        print(
            f"this processor has no matrix tiles for {kind.name}, or the operating system grants none: nothing to measure"
        )
        return 1
    measured = f"{kind.name} tiles" in multiply_adds_of(host)
    peaks = [
        measure_peak(name) if name in multiply_adds_of(host) else float("nan")
        for name in (kind.name, f"{kind.name} tiles")
    ]
    near = from_second_cache(target, kind.words)
    print(
        f"peaks of one core: {peaks[0]:.0f} GFLOP/s by vectors, {peaks[1]:.0f} by tiles, "
        f"{near:.0f} with factors from the second cache"
    )
    if not measured:
        print("tiles are emulated: no figure of theirs means anything")
    print(
        f"{'M':>5} {'K':>5} {'N':>5} {'vectors us':>11} {'% of peak':>9} {'tiles us':>10} {'% of peak':>9} "
        f"{'% of L2':>9} {'vectors/tiles':>13}"
    )
    kernels = [(t, product_kernel(t, kind)) for t in (host.without_tiles, target)]
    rows, shapes = ([*map(int, text.split(","))] for text in (options.rows, options.shapes.replace("x", ",")))
    faster: dict[int, bool] = dict.fromkeys(rows, True)
    for m in rows:
        for k, n in zip(shapes[::2], shapes[1::2], strict=True):
            a, b = placed(kind.drawn(m, k, of=kind.of_a)), kind.drawn(k, n, of=kind.of_b)
            calls = [product_call(t, kind, loaded, a, b) for t, loaded in kernels]
            by_vectors, by_tiles = (call() for call in calls)
            np.testing.assert_allclose(by_tiles, by_vectors, rtol=1e-4, atol=1e-4 * k**0.5)
            flops = 2.0 * m * k * n
            times = best_times([*calls], flops, peaks[0], options.budget, CALLS)
            shares = [100 * flops / t / 1e9 / peak for t, peak in zip(times, peaks)]
            faster[m] &= times[1] < times[0]
            vectors, by = (f"{t * 1e6:10.1f} {share:9.1f}" for t, share in zip(times, shares))
            of_near = 100 * flops / times[1] / 1e9 / near
            print(f"{m:5} {k:5} {n:5}  {vectors} {by} {of_near:9.1f} {times[0] / times[1]:13.2f}", flush=True)
    from_here = next((m for at, m in enumerate(rows) if all(faster[later] for later in rows[at:])), None)
    print(
        f"tiles are faster at all shapes from {from_here} rows on"
        if from_here
        else "tiles are not faster at all shapes for the most rows"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
