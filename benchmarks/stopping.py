"""How soon calls stop.

    python -m benchmarks.stopping

First, for a loop and for a product of 6000 x 6000: the seconds from `cancel()`, from a deadline and from a signal until the call has
raised, the longest of several. Then the time of a call that nobody stops, to be compared with that of another version in turns.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import anyshape
from anyshape import control, ops
from anyshape.errors import Cancelled

TIMES = 5
DELAY = 0.2


def loop() -> tuple[anyshape.Executable, list[Any], list[Any]]:
    trip, x = anyshape.input("trip", "i64[]"), anyshape.input("x", "f32[]")
    (y,) = control.loop(trip, lambda _, s: [ops.add(s, 1.0)], [x])
    exe = anyshape.compile(anyshape.function([trip, x], y))
    return exe, [np.array(2**62), np.float32(0)], [np.array(200_000), np.float32(0)]


def product() -> tuple[anyshape.Executable, list[Any], list[Any]]:
    a, b = anyshape.input("a", "f32[m, k]"), anyshape.input("b", "f32[k, n]")
    exe = anyshape.compile(anyshape.function([a, b], ops.matmul(a, b)))
    large, small = np.ones((6000, 6000), np.float32), np.ones((384, 384), np.float32)
    return exe, [large] * 2, [small] * 2


def late(call: Callable[[], object], act: Callable[[], object] | None) -> float:
    """Seconds from the moment at which it is to stop until it has."""
    stopped_at = [time.perf_counter() + DELAY]

    def acts() -> None:
        stopped_at[0] = time.perf_counter()
        assert act is not None
        act()

    timer = threading.Timer(DELAY, acts) if act is not None else None
    if timer is not None:
        timer.start()
    try:
        call()
        raise AssertionError("the call ended by itself")
    except (Cancelled, KeyboardInterrupt):
        return time.perf_counter() - stopped_at[0]


def seconds(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def main() -> None:
    for name, (exe, large, small) in (("loop", loop()), ("product", product())):
        exe(*small)
        feed = dict(zip(exe.input_names, large))
        variants: dict[str, tuple[Callable[[], object], Callable[[], object] | None]] = {
            "cancel()": (partial(exe, *large), exe.cancel),
            "deadline=": (partial(exe.run, feed, deadline=DELAY), None),
            "Ctrl-C": (partial(exe, *large), partial(os.kill, os.getpid(), signal.SIGINT)),
        }
        for way, (call, act) in variants.items():
            print(f"{name:<8} {way:<10} {max(late(call, act) for _ in range(TIMES)) * 1e3:7.1f} ms at most", flush=True)
        least = min(seconds(partial(exe, *small), 20) for _ in range(15))
        print(f"{name:<8} a call that is not stopped {least / 20 * 1e6:8.1f} us")


if __name__ == "__main__":
    main()
