"""`anyshape run`: runs a model on random or given inputs; prints its outputs and the time of a call."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.cli import arguments
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import accepted_inputs, make_inputs
from anyshape.vm import Executable


def run(exe: Executable, args: argparse.Namespace) -> str:
    """Runs once, then `--repeat` times to measure the time. Returns the text to print."""
    shapes, contents = arguments.shapes(args.shape), arguments.arrays(args.input)
    ints, repeat = arguments.bounds(args.ints, "--ints"), arguments.repeats(args.repeat, 0)
    make = partial(make_inputs, exe.input_names, exe.input_types, shapes, contents, ints, args.seed)
    called: list[tuple[float, list[NDArray[Any]]]] = []
    feed, sizes = accepted_inputs(lambda inputs: called.append(_timed(exe, inputs)), make)
    lines = [f"{name}: {_spell(a)}" for name, a in feed.items()]
    if sizes.chosen:
        chosen = ", ".join(f"{name}={n}" for name, n in sizes.chosen.items())
        lines.append(f"(chosen sizes: {chosen}; set them by --shape NAME=4x128)")
    with progress("running"):
        first, results = called[0] if called else _timed(exe, feed)
        times = [_timed(exe, feed)[0] for _ in range(repeat)]
    lines += [f"{name}: {_spell(a)}\n{_values(a)}" for name, a in zip(exe.output_names, results)]
    lines.append(f"first call {_seconds(first)}" + (f", best of {len(times)}: {_seconds(min(times))}" if times else ""))
    return "\n".join(lines)


def _timed(exe: Executable, feed: Mapping[str, NDArray[Any]]) -> tuple[float, list[NDArray[Any]]]:
    start = time.perf_counter()
    results = exe.run(feed)
    return time.perf_counter() - start, results


def _seconds(s: float) -> str:
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.2f} ms" if s >= 1e-3 else f"{s * 1e6:.0f} µs"


def _spell(a: Any) -> str:
    if a is None or isinstance(a, list):
        return (
            "nothing" if a is None else f"list of {len(a)}: {'; '.join(map(_spell, a[:4]))}{' …' if len(a) > 4 else ''}"
        )
    return f"{a.dtype}[{', '.join(map(str, a.shape))}]"


def _values(a: Any) -> str:
    if a is None or isinstance(a, list):
        return "\n".join(map(_values, a or ()))
    text = np.array2string(a, threshold=24, edgeitems=3, precision=5, suppress_small=True)
    return "\n".join(f"  {line}" for line in text.splitlines())
