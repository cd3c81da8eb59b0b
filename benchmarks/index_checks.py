"""What testing indices at run time costs: kernels with their checks beside the same kernels without, interleaved in one process.

In: nothing; `--quick` measures less. Out: a table of times and ratios. Only the indices that nothing proves are tested (data), and those
of `checked(x)[…]`; all others cost nothing. The kernel without checks is made for this comparison only, by leaving them
out of the lowering. The last column is that kernel against itself, loaded once more: what a ratio differs by for no other reason
than where code lies.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np

from anyshape import dims
from anyshape.dims import Dim
from anyshape.dtypes import F32, I32, I64, DType
from anyshape.equations import Tensor
from anyshape.equations.functions import cast, checked, wrap
from anyshape.lower.ir.inline_values import InlinedValues
from benchmarks.gemm_measure import Array, timed
from tests.lower.groups import Builder, K, M, N
from tests.lower.native import Native

LIMIT = 1.03
Built = tuple[Builder, dict[Tensor, Array], dict[Dim, int]]


@contextmanager
def unchecked() -> Iterator[None]:
    """Kernels lowered here test no index."""
    whole = InlinedValues.checks
    InlinedValues.checks = lambda *_: ()
    try:
        yield
    finally:
        InlinedValues.checks = whole


def bare_calls(natives: list[Native], arrays: dict[str, Array], sizes: dict[Dim, int]) -> list[Callable[[], object]]:
    """Calls of bare kernels on the same buffers: where those lie decides more than what is compared."""
    kernel = natives[0].kernel
    inputs = [np.ascontiguousarray(arrays[t.name]) for t in kernel.inputs if isinstance(t, Tensor)]
    outputs = [np.zeros([int(dims.evaluate(n, sizes)) for n in t.shape], t.dtype.numpy) for t in kernel.outputs]
    table = np.array([a.ctypes.data for a in (*inputs, *outputs)], np.uintp)

    def of(native: Native) -> Callable[[], object]:
        assert [t.name for t in native.kernel.inputs] == [t.name for t in kernel.inputs]
        scalars = np.array([int(dims.evaluate(s, sizes)) for s in native.kernel.scalars] or [0], np.int64)
        scratch = np.zeros(int(dims.evaluate(native.kernel.scratch, sizes)) + 64, np.uint8)
        args = (scalars.ctypes.data, table.ctypes.data, scratch.ctypes.data + -scratch.ctypes.data % 64, 0, 1)

        def call(keep: object = (*inputs, *outputs, table, scalars, scratch)) -> object:
            return native.call(*args)

        assert call() == 0
        return call

    return [of(n) for n in natives]


def gather_rows(rows: int, width: int, count: int) -> Built:
    b = Builder("gather")
    table, index, y = b.input([K, M]), b.input([N], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], table[wrap(index[i], K), j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {table: rng.random((rows, width), np.float32), index: rng.integers(-rows, rows, count)}
    return b, arrays, {K: rows, M: width, N: count}


def gather_elements(rows: int, width: int) -> Built:
    b = Builder("gather_elements")
    x, index, y = b.input([N, M]), b.input([N, M], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[i, wrap(index[i, j], M)])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {x: rng.random((rows, width), np.float32), index: rng.integers(-width, width, (rows, width))}
    return b, arrays, {N: rows, M: width}


def gather_vector(rows: int, count: int, dtype: DType = I64) -> Built:
    """Single numbers of a vector: every element has an index of its own."""
    b = Builder("gather_vector")
    x, index, y = b.input([K]), b.input([N], dtype), b.tensor([N])
    (i,) = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i], x[wrap(cast(index[i], I64), K)])
    b.output(y)
    rng = np.random.default_rng(1)
    indices = rng.integers(-rows, rows, count).astype(dtype.numpy)
    return b, {x: rng.random(rows, np.float32), index: indices}, {K: rows, N: count}


def gather_nd(rows: int, count: int, width: int) -> Built:
    """Rows picked by pairs of indices."""
    b = Builder("gather_nd")
    x, index, y = b.input([K, K, M]), b.input([N, 2], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[wrap(index[i, 0], K), wrap(index[i, 1], K), j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {x: rng.random((rows, rows, width), np.float32), index: rng.integers(-rows, rows, (count, 2))}
    return b, arrays, {K: rows, N: count, M: width}


def scatter_elements(rows: int, width: int) -> Built:
    """Every element is written to a place of its own."""
    b = Builder("scatter_elements")
    index, updates, y = b.input([N, M], I64), b.input([N, M]), b.tensor([N, M])
    i, j = b.eqs.indices("i", updates.shape)
    b.eqs.update(y[i, wrap(index[i, j], M)], "set", updates[i, j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {index: rng.integers(-width, width, (rows, width)), updates: rng.random((rows, width), np.float32)}
    return b, arrays, {N: rows, M: width}


def gathered_sum(rows: int, width: int) -> Built:
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


def scattered(rows: int, width: int) -> Built:
    b = Builder("scatter")
    index, updates, y = b.input([N], I64), b.input([N, M]), b.tensor([K, M])
    i, j = b.eqs.indices("i", updates.shape)
    b.eqs.update(y[wrap(index[i], K), j], "add", updates[i, j])
    b.output(y)
    rng = np.random.default_rng(1)
    arrays = {index: rng.integers(-rows, rows, rows), updates: rng.random((rows, width), np.float32)}
    return b, arrays, {K: rows, M: width, N: rows}


def shifted(rows: int, width: int) -> Built:
    """A read that shapes decide, and nothing proved: tested at every element."""
    b = Builder("shifted")
    x, y = b.input([K, M]), b.tensor([N, M], F32)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], checked(x)[i + 1, j] * 2.0)
    b.output(y)
    arrays = {x: np.random.default_rng(1).random((rows + 1, width), np.float32)}
    return b, arrays, {K: rows + 1, M: width, N: rows}


CASES: dict[str, Callable[[], Built]] = {
    "gather 512 rows of 768": lambda: gather_rows(30522, 768, 512),
    "gather 4096 rows of 64": lambda: gather_rows(30522, 64, 4096),
    "gather 65536 rows of 1": lambda: gather_rows(30522, 1, 65536),
    "gather 64 rows of 16": lambda: gather_rows(1000, 16, 64),
    "gather 8 rows of 768": lambda: gather_rows(1000, 768, 8),
    "gather 65536 numbers of 1000": lambda: gather_vector(1000, 65536),
    "gather 65536 numbers of 1000 by i32": lambda: gather_vector(1000, 65536, I32),
    "gather 65536 numbers of 1000000": lambda: gather_vector(1000000, 65536),
    "gather 256 numbers of 1000": lambda: gather_vector(1000, 256),
    "gather_nd 4096 rows of 64": lambda: gather_nd(100, 4096, 64),
    "gather_nd 65536 rows of 1": lambda: gather_nd(100, 65536, 1),
    "gather_elements 512 x 768": lambda: gather_elements(512, 768),
    "gather_elements 16 x 100": lambda: gather_elements(16, 100),
    "embedding and position, 512 x 768": lambda: gathered_sum(512, 768),
    "embedding and position, 16 x 768": lambda: gathered_sum(16, 768),
    "scatter_add 4096 rows of 64": lambda: scattered(4096, 64),
    "scatter_add 512 rows of 768": lambda: scattered(512, 768),
    "scatter_add 65536 rows of 1": lambda: scattered(65536, 1),
    "scatter_add 64 rows of 16": lambda: scattered(64, 16),
    "scatter_elements 512 x 768": lambda: scatter_elements(512, 768),
    "scatter_elements 16 x 100": lambda: scatter_elements(16, 100),
    "a read that nothing proved, 512 x 768": lambda: shifted(512, 768),
    "a read that nothing proved, 64 x 16": lambda: shifted(64, 16),
}


def measure(make: Callable[[], Built], rounds: int) -> tuple[float, float, float]:
    """Seconds with checks, without, and without once more at another address: the least of many interleaved batches."""
    natives = []
    for without in (False, True, True):
        b, arrays, sizes = make()
        with unchecked() if without else nullcontext():
            natives.append(Native(b.group(), anew=True))
    calls = bare_calls(natives, {t.name: a for t, a in arrays.items()}, sizes)
    repeats = max(1, int(5e-4 / timed(calls[0], 3)))
    times = [math.inf] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            times[at] = min(times[at], timed(call, repeats))
    return times[0], times[1], times[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rounds = 40 if parser.parse_args().quick else 300
    print("| kernel | with checks, us | without, us | ratio | without, against itself |\n|---|---|---|---|---|")
    ratios = []
    for name, make in CASES.items():
        with_checks, without, again = measure(make, rounds)
        ratios.append(with_checks / without)
        print(f"| {name} | {with_checks * 1e6:.2f} | {without * 1e6:.2f} | {ratios[-1]:.3f} | {again / without:.3f} |")
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"\ngeometric mean {mean:.3f}, worst {max(ratios):.3f}; the aim is below {LIMIT} for each")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
