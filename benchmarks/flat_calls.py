"""Memory and time of very many calls: whether both stay as they are, for calls of every kind that a process makes for days.

    PYTHONPATH=runtime:generated python -m benchmarks.flat_calls [--calls 100000] [--cases sizes refused ...] [--json FILE]

Each case has a process of its own and one executable, at sizes that change from call to call:

- sizes: a small network at 1,000 shapes; its arguments are made anew for each call;
- kept: the same, and the caller holds the results of the last 64 calls;
- destinations: results are written into the caller's memory;
- elements: how many results there are depends on elements;
- loop: a loop whose body runs as often as an argument says, and collects its results;
- refused: sizes that do not fit, an index out of range, an argument of another dtype, in turns;
- cancelled: calls that are cancelled before they begin;
- hooks: a hook is called for each call, and `max_memory` compares its bytes;
- session: `anyshape.onnxruntime`, with names of inputs and outputs;
- threads: four threads call at once, on two threads of the pool each.

Printed are the resident set after a tenth of the calls and at the end, what came to it meanwhile for each call, and microseconds of a call
in the second tenth and in the last. Linux only.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import anyshape
from anyshape import ops
from anyshape.errors import Cancelled
from benchmarks.memory import MB, resident

Call = Callable[[int], object]
SHAPES = [(1 + k % 40, 1 + k % 25) for k in range(1000)]
WIDTH = 16


def network() -> anyshape.Function:
    """Rows normalised, multiplied by a matrix, and summed: `x: f32[b, n, WIDTH]`."""
    rng = np.random.default_rng(0)
    x = anyshape.input("x", f"f32[b, n, {WIDTH}]")
    w = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)
    return anyshape.function([x], ops.sum(ops.softmax(ops.tanh(ops.matmul(x, w)), axis=1), axes=[1]))


def rows(k: int) -> np.ndarray[Any, Any]:
    """The argument of the k-th call."""
    b, n = SHAPES[k % len(SHAPES)]
    return np.full((b, n, WIDTH), 1 / (1 + k % 7), np.float32)


def sizes() -> Call:
    e = anyshape.compile(network(), threads=1)
    return lambda k: e(rows(k))


def kept() -> Call:
    e, results = anyshape.compile(network(), threads=1), deque[Any](maxlen=64)
    return lambda k: results.append(e(rows(k)))


def destinations() -> Call:
    e = anyshape.compile(network(), threads=1)
    (name,) = e.output_names
    memory = {b: np.empty((b, WIDTH), np.float32) for b in {b for b, _ in SHAPES}}

    def call(k: int) -> object:
        x = rows(k)
        return e.run({"x": x}, {name: memory[len(x)]})

    return call


def elements() -> Call:
    x = anyshape.input("x", "f32[n]")
    e = anyshape.compile(anyshape.function([x], ops.nonzero(x)), threads=1)
    return lambda k: e((np.arange(1 + k % 97) % (2 + k % 5) > 0).astype(np.float32))


def loop() -> Call:
    e = anyshape.compile(_loop_model(), threads=1)
    return lambda k: e(np.array(k % 13), np.ones(1 + k % 5, np.float32))


def _loop_model() -> Any:
    import onnx

    return onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (int64 count, float[n] x) => (float[n] last, float[m, n] all) {
            go = Constant <value_int = 1> ()
            yes = Cast <to = 9> (go)
            last, all = Loop (count, yes, x) <body = b (int64 i, bool c, float[n] h) => (bool d, float[n] t, float[n] s) {
                d = Identity (c)
                t = Sin (h)
                s = Add (t, h)
            }>
        }""")


def refused() -> Call:
    x, i = anyshape.input("x", "f32[n, m]"), anyshape.input("i", "i64[k]")
    y = anyshape.input("y", "f32[n, m]")
    e = anyshape.compile(
        anyshape.function([x, i, y], ops.add(ops.gather(x, i, axis=0), ops.gather(y, i, axis=0))), threads=1
    )
    a, b = np.ones((3, 4), np.float32), np.ones((3, 5), np.float32)
    wrong = [(a, np.array([0]), b), (a, np.array([3]), a), (a, np.array([0.5]), a)]

    def call(k: int) -> None:
        with suppress(anyshape.AnyshapeError):
            e(*wrong[k % 3])
            raise AssertionError("it was not refused")

    return call


def cancelled() -> Call:
    e = anyshape.compile(network(), threads=1)

    def call(k: int) -> None:
        c = anyshape.Cancellation()
        c.cancel()
        with suppress(Cancelled):
            e.run({"x": rows(k)}, cancellation=c)
            raise AssertionError("it was cancelled before it began")

    return call


def hooks() -> Call:
    e, seen = anyshape.compile(network(), threads=1, max_memory=1 << 24), deque[Any](maxlen=8)
    e.on_call(seen.append)
    return lambda k: e(rows(k))


def session() -> Call:
    import anyshape.onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    s = ort.InferenceSession(_loop_model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda k: s.run(["all"], {"count": np.array(k % 13), "x": np.ones(1 + k % 5, np.float32)})


def threads() -> Call:
    """Each call of the four makes a quarter of those that are counted."""
    e = anyshape.compile(network(), threads=2)

    def work(first: int) -> None:
        for k in range(first, first + 100):
            e(rows(k))

    def call(k: int) -> None:
        if k % 400 == 0:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(work, range(k, k + 400, 100)))  # raises what one of them raises

    return call


CASES = {
    f.__name__: f for f in (sizes, kept, destinations, elements, loop, refused, cancelled, hooks, session, threads)
}


def measured(case: str, calls: int) -> dict[str, float]:
    """The figures of one case in this process, in bytes and seconds."""
    call, tenth = CASES[case](), max(calls // 10, 1)
    seconds = list[float]()
    memory = list[int]()
    for part in range(10):
        start = time.perf_counter()
        for k in range(part * tenth, (part + 1) * tenth):
            call(k)
        seconds.append((time.perf_counter() - start) / tenth)
        gc.collect()
        memory.append(resident("VmRSS"))
    later = 9 * tenth
    return {
        "first": memory[0],
        "last": memory[-1],
        "growth": (memory[-1] - memory[0]) / later,
        "early": seconds[1],
        "late": seconds[-1],
    }


def main() -> int:
    parser = argparse.ArgumentParser("flat_calls", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.child, args.calls)))
        return 0
    print(f"{args.calls:,} calls each")
    print("| calls | MB after a tenth | MB at the end | bytes more for each call | µs for a call, early | late |")
    print("|---|---:|---:|---:|---:|---:|")
    rows = {}
    for case in args.cases:
        command = [sys.executable, "-m", "benchmarks.flat_calls", "--child", case, "--calls", str(args.calls)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows[case] = r = json.loads(done.stdout)
        memory = f"{r['first'] / MB:.1f} | {r['last'] / MB:.1f} | {r['growth']:.2f}"
        print(f"| {case} | {memory} | {r['early'] * 1e6:.1f} | {r['late'] * 1e6:.1f} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
