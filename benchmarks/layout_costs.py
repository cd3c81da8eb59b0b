"""What layers gain by channels last, in transposes: the constants of `passes/layouts.py` beside what is measured here.

    PYTHONPATH=runtime:generated:. python -m benchmarks.layout_costs [--quick]

A layer is compiled once and several times in a row, with all values as they lie and with channels last between a transpose at the
beginning and one at the end, on one thread, in turns. So what a further layer takes is known for both, and what a transpose takes. A
constant is right if a layer saves as many transposes of its result as it says: FASTER for convolutions of 3 x 3, FASTER_PLAIN for those of
one tap, TAPS for depthwise ones. A layer that is no faster implies none (inf).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from unittest.mock import patch

import numpy as np

import anyshape
from anyshape import ops
from anyshape.passes import layouts
from benchmarks.lines import Array

FURTHER = 4
"""Layers after the first one."""


@dataclass(frozen=True)
class Layer:
    """A convolution of as many channels as it reads. `constant`: the name of what says how much it saves."""

    constant: str
    channels: int
    taps: int
    depthwise: bool

    @property
    def name(self) -> str:
        return f"{'depthwise ' if self.depthwise else ''}{self.taps} x {self.taps}, {self.channels} channels"

    def model(self, count: int, last: bool) -> anyshape.Executable:
        c, k = self.channels, self.taps
        first = 1 if self.depthwise else c
        x = y = anyshape.input("x", f"f32[b, {c}, h, w]")
        for seed in range(count):
            w = (
                np.random.default_rng(seed).standard_normal((c, first, k, k)).astype(np.float32)
                * (first * k * k) ** -0.5
            )
            y = ops.conv(y, w, pads=[k // 2] * 4, groups=c // first)
        with patch.object(layouts._ValueUses, "pays", lambda storage, group: last):
            return anyshape.compile(anyshape.function([x], y), threads=1, growth=0)

    def implied(self, saved: float) -> float:
        """The constant by which the layer saves so many transposes."""
        if saved <= 0:
            return float("inf")
        return self.taps**2 / saved if self.depthwise else self.channels * self.taps**2 / (layouts.LANES * saved)


LAYERS = [
    *(Layer("FASTER", c, 3, False) for c in (32, 64, 128)),
    *(Layer("FASTER_PLAIN", c, 1, False) for c in (64, 128, 256)),
    *(Layer("TAPS", 96, k, True) for k in (3, 5, 7)),
]


def least(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    """The least seconds of each call, in turns."""
    times = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[k] = min(times[k], time.perf_counter() - start)
    return times


def measure(layer: Layer, sides: list[int], seconds: float) -> list[float]:
    """Prints a row for each size of pictures; returns the constants that they imply."""
    executables = [layer.model(count, last) for last in (False, True) for count in (1, 1 + FURTHER)]
    rows = []
    for side in sides:
        x: Array = np.random.default_rng(side).standard_normal((1, layer.channels, side, side)).astype(np.float32)
        one, several, one_last, several_last = least([partial(e, x) for e in executables], seconds)
        planes, last = (several - one) / FURTHER, (several_last - one_last) / FURTHER
        transpose = max(one_last - last, 1e-9) / 2
        rows.append(layer.implied((planes - last) / transpose))
        figures = "".join(f"{t * 1e6:12.1f}" for t in (planes, last, transpose))
        print(f"{layer.name + f', {side} x {side}':44}{figures}{rows[-1]:12.1f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one size, and less of it")
    options = parser.parse_args()
    sides, seconds = ([14], 0.05) if options.quick else ([14, 28, 56], 0.5)
    print(f"{'microseconds':44}{'planes':>12}{'last':>12}{'transpose':>12}{'constant':>12}")
    implied: dict[str, list[float]] = {}
    for layer in LAYERS:
        implied.setdefault(layer.constant, []).extend(measure(layer, sides, seconds))
    for name, constants in implied.items():
        print(
            f"{name}: {getattr(layouts, name)}; measured {min(constants):.1f} at least, {median(constants):.1f} in the median"
        )


if __name__ == "__main__":
    main()
