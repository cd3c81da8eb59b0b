"""What testing indices at run time costs: kernels with their checks beside the same kernels without, interleaved in one process.

In: nothing; `--quick` measures less. Out: a table of times and ratios. Only the indices that nothing proves are tested (data), and those
of `checked(x)[…]`; all others cost nothing. The kernel without checks is made for this comparison only, by leaving them
out of the lowering.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from anyshape import dims
from anyshape.dims import Dim
from anyshape.dtypes import F32, I64
from anyshape.equations import Tensor
from anyshape.equations.functions import checked, wrap
from anyshape.lower.inline_values import Values
from benchmarks.gemm_measure import Array, timed
from tests.lower.groups import Builder, K, M, N
from tests.lower.native import Native

LIMIT = 1.03
Made = tuple[Builder, dict[Tensor, Array], dict[Dim, int]]


@contextmanager
def unchecked() -> Iterator[None]:
    """Kernels lowered here test no index."""
    whole = Values.checks
    Values.checks = lambda *_: ()  # type: ignore[method-assign]
    try:
        yield
    finally:
        Values.checks = whole  # type: ignore[method-assign]


def bare_call(
    b: Builder, arrays: dict[Tensor, Array], sizes: dict[Dim, int]
) -> tuple[Callable[[], object], list[Array]]:
    """A call of the bare kernel on fixed buffers."""
    native = Native(b.group())
    kernel = native.kernel
    scalars = np.array([int(dims.evaluate(s, sizes)) for s in kernel.scalars] or [0], np.int64)
    inputs = [np.ascontiguousarray(arrays[t]) for t in kernel.inputs if isinstance(t, Tensor)]
    outputs = [np.zeros([int(dims.evaluate(n, sizes)) for n in t.shape], t.dtype.numpy) for t in kernel.outputs]
    scratch = np.zeros(int(dims.evaluate(kernel.scratch, sizes)) + 64, np.uint8)
    table = np.array([a.ctypes.data for a in (*inputs, *outputs)], np.uintp)
    args = (scalars.ctypes.data, table.ctypes.data, scratch.ctypes.data + -scratch.ctypes.data % 64, 0, 1)

    def call() -> object:
        return native.call(*args)

    assert call() == 0
    return call, [*outputs, *inputs, table, scalars, scratch]


def gather_rows(rows: int, width: int, count: int) -> Made:
    b = Builder("gather")
    table, index, y = b.input([K, M]), b.input([N], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], table[wrap(index[i], K), j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {table: rng.random((rows, width), np.float32), index: rng.integers(-rows, rows, count)}
    return b, arrays, {K: rows, M: width, N: count}


def gather_elements(rows: int, width: int) -> Made:
    b = Builder("gather_elements")
    x, index, y = b.input([N, M]), b.input([N, M], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[i, wrap(index[i, j], M)])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {x: rng.random((rows, width), np.float32), index: rng.integers(-width, width, (rows, width))}
    return b, arrays, {N: rows, M: width}


def gathered_sum(rows: int, width: int) -> Made:
    """A gather fused with arithmetic: the embedding of a token and of its position."""
    b = Builder("embedding")
    table, index, position, y = b.input([K, M]), b.input([N], I64), b.input([N, M]), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], table[index[i], j] * 2.0 + position[i, j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {
        table: rng.random((30000, width), np.float32),
        index: rng.integers(0, 30000, rows),
        position: rng.random((rows, width), np.float32),
    }
    return b, arrays, {K: 30000, M: width, N: rows}


def scattered(rows: int, width: int) -> Made:
    b = Builder("scatter")
    index, updates, y = b.input([N], I64), b.input([N, M]), b.tensor([K, M])
    i, j = b.eqs.indices("i", updates.shape)
    b.eqs.update(y[wrap(index[i], K), j], "add", updates[i, j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {index: rng.integers(-rows, rows, rows), updates: rng.random((rows, width), np.float32)}
    return b, arrays, {K: rows, M: width, N: rows}


def shifted(rows: int, width: int) -> Made:
    """A read that shapes decide, and nothing proved: tested at every element."""
    b = Builder("shifted")
    x, y = b.input([K, M]), b.tensor([N, M], F32)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], checked(x)[i + 1, j] * 2.0)
    b.output(y)
    arrays = {x: np.random.default_rng(1).random((rows + 1, width), np.float32)}
    return b, arrays, {K: rows + 1, M: width, N: rows}


CASES: dict[str, Callable[[], Made]] = {
    "gather 512 rows of 768": lambda: gather_rows(30522, 768, 512),
    "gather 4096 rows of 64": lambda: gather_rows(30522, 64, 4096),
    "gather 65536 rows of 1": lambda: gather_rows(30522, 1, 65536),
    "gather_elements 512 x 768": lambda: gather_elements(512, 768),
    "embedding and position, 512 x 768": lambda: gathered_sum(512, 768),
    "scatter_add 4096 rows of 64": lambda: scattered(4096, 64),
    "scatter_add 512 rows of 768": lambda: scattered(512, 768),
    "a read that nothing proved, 512 x 768": lambda: shifted(512, 768),
}


def measure(make: Callable[[], Made], rounds: int) -> tuple[float, float]:
    """Seconds with and without checks: the least of many interleaved batches."""
    calls: list[Callable[[], object]] = []
    keep = []
    for without in (False, True):
        b, arrays, sizes = make()
        if without:
            with unchecked():
                call, outputs = bare_call(b, arrays, sizes)
        else:
            call, outputs = bare_call(b, arrays, sizes)
        calls.append(call)
        keep.append(outputs)
    repeats = max(1, int(5e-4 / timed(calls[0], 3)))
    times = [math.inf, math.inf]
    for _ in range(rounds):
        for at, call in enumerate(calls):
            times[at] = min(times[at], timed(call, repeats))
    return times[0], times[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rounds = 60 if parser.parse_args().quick else 300
    print("| kernel | with checks, us | without, us | ratio |\n|---|---|---|---|")
    ratios = []
    for name, make in CASES.items():
        with_checks, without = measure(make, rounds)
        ratios.append(with_checks / without)
        print(f"| {name} | {with_checks * 1e6:.1f} | {without * 1e6:.1f} | {ratios[-1]:.3f} |")
    print(f"\ngeometric mean {float(np.exp(np.mean(np.log(ratios)))):.3f}; the aim is below {LIMIT}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
