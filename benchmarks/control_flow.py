"""What a turn of a loop and a call cost beside their kernels, in nanoseconds: counting, a kernel, lists, branches, recursion.

    python -m benchmarks.control_flow [--turns N]

Minimum of nine runs each, everything counted; a run is one call of an executable with that many turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import anyshape
from anyshape import control, lists, ops

RUNS = 9


def least(run: Callable[[], Any]) -> float:
    run()
    took = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return min(took)


def looped(body: Callable[..., list[Any]], start: Callable[[Any], Any]) -> anyshape.Executable:
    """`body(turn, carried, x)` repeated; of a list, its length comes out."""
    x, n = anyshape.input("x", "f32[4]"), anyshape.input("n", "i64[]")
    (last,) = control.loop(n, lambda i, v: body(i, v, x), [start(x)])
    return anyshape.compile(anyshape.function([x, n], lists.length(last) if last.type.dtype == "list" else last))


def in_branch(i: Any, rows: Any, x: Any) -> list[Any]:
    return list(control.if_(ops.greater_equal(i, 0), lambda: lists.append(rows, x), lambda: rows))


LOOPS: dict[str, tuple[Callable[..., list[Any]], Callable[[Any], Any]]] = {
    "a loop that counts": (lambda i, k, x: [ops.add(k, 1)], lambda x: ops.gather(ops.shape_of(x), 0)),
    "a kernel over four elements": (lambda i, v, x: [ops.add(v, x)], lambda x: x),
    "a list, appended to and erased from": (
        lambda i, rows, x: [lists.erase(lists.append(rows, x), 0)],
        lambda x: lists.of([x, x, x]),
    ),
    "the same with an element taken out and a kernel": (
        lambda i, rows, x: [lists.erase(lists.append(rows, ops.add(lists.at(rows, 0), 1.0)), 0)],
        lambda x: lists.of([x, x, x]),
    ),
    "a list, appended to in a branch": (in_branch, lambda x: lists.of([x])),
}


def fibonacci() -> anyshape.Executable:
    f = control.function("f", {"n": "i64[]"}, ["i64[]"])

    def both(n: Any) -> Any:
        return ops.add(*(control.call(f, [ops.sub(n, k)])[0] for k in (1, 2)))

    control.define(f, lambda n: control.if_(ops.less(n, 2), lambda: n, lambda: both(n)))
    n = anyshape.input("n", "i64[]")
    return anyshape.compile(anyshape.function([n], control.call(f, [n])))


def main() -> int:
    parser = argparse.ArgumentParser("control_flow", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    turns = parser.parse_args().turns
    x = np.ones(4, np.float32)
    for name, (body, start) in LOOPS.items():
        exe = looped(body, start)
        print(f"{name:<50} {least(partial(exe, x, np.array(turns))) / turns * 1e9:7.1f} ns per turn")
    exe, n = fibonacci(), 18
    calls = 2 * int(exe(np.array(n + 1))) - 1
    print(f"{'a call of a recursive function':<50} {least(lambda: exe(np.array(n))) / calls * 1e9:7.1f} ns per call")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
