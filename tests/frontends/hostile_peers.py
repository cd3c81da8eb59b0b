"""Damaged files of whole models in anyshape and in onnxruntime, each in a child process: what becomes of them, by the kind of damage.

    python -m tests.frontends.hostile_peers [--count N] [--first SEED] [--kinds bits ...] [--json FILE]

In: the small models of `hostile_files`, each with one change of a kind. A file is loaded, and run on arrays of the shapes that it asks for,
by one thread. Out: a table of how many files ended in a result, in an error of the engine, in another error, in the death of the process,
or took over a minute of the processor, and the seeds of the latter three.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.hostile_files import KINDS, broken_alike, drawn_array, whole
from tests.frontends.isolated import run_isolated

ENGINES = ("anyshape", "onnxruntime")
OUTCOMES = ("result", "refused", "other error", "process died", "no end")
ELEMENTS = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32",
    "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}  # fmt: skip
"""Element types of onnxruntime, and NumPy's"""


@dataclass(frozen=True)
class _Element:
    numpy: Any


@dataclass(frozen=True)
class _Type:
    shape: list[Any] | None
    dtype: _Element


def _anyshape(seed: int, data: bytes) -> str:
    import anyshape

    try:
        exe = anyshape.compile(data, threads=1)
        pick, sizes = random.Random(seed), dict[Any, int]()
        feed = {n: drawn_array(pick, t, sizes) for n, t in zip(exe.input_names, exe.input_types, strict=True)}
        if all(a is not None for a in feed.values()):
            exe.run(feed)
    except anyshape.AnyshapeError:
        return "refused"
    return "result"


def _onnxruntime(seed: int, data: bytes) -> str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        pick, sizes = random.Random(seed), dict[Any, int]()
        feed = {i.name: drawn_array(pick, _type_of(i), sizes) for i in session.get_inputs()}
        if all(a is not None for a in feed.values()):
            session.run(None, feed)
    except Exception as e:
        if "onnxruntime" in type(e).__module__:
            return "refused"
        raise
    return "result"


def _type_of(i: Any) -> _Type:
    """The type of an input of onnxruntime, without a shape where no array can be drawn."""
    element = ELEMENTS.get(i.type.removeprefix("tensor(").removesuffix(")"))
    if element is None or not isinstance(i.shape, list):
        return _Type(None, _Element(None))
    shape = [f"unnamed {k}" if n is None else n for k, n in enumerate(i.shape)]
    is_size = all(isinstance(n, str) or n >= 0 for n in shape)
    return _Type(shape if is_size else None, _Element(np.dtype(element)))


def outcome(engine: str, kind: str, seed: int) -> str:
    """What became of one file: an outcome, and behind it the words of an error that is not the engine's own."""
    _, data = broken_alike(kind, seed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return (_anyshape if engine == "anyshape" else _onnxruntime)(seed, data)
    except BaseException as e:
        return f"other error: {type(e).__name__}: {' '.join(str(e).split())[:200]}"


def outcomes(engine: str, kind: str, seeds: range) -> Iterator[tuple[int, str, str]]:
    """(seed, outcome, words) of each file."""
    for seed, said in run_isolated(seeds, lambda seed: outcome(engine, kind, seed), lambda _: kind):
        what, _, words = said.partition(": ")
        if what in OUTCOMES:
            yield seed, what, words
        else:
            yield seed, "no end" if "seconds" in words else "process died", _death(words)


def _death(words: str) -> str:
    """The words about the end of a process, with the name of the signal."""
    number = words.rpartition("-")[2]
    return f"{words} ({signal.Signals(int(number)).name})" if number.isdigit() else words


def main() -> int:
    parser = argparse.ArgumentParser(
        "hostile_peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="files of each kind")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    whole()
    rows = []
    print(f"| damage | engine | {' | '.join(OUTCOMES)} |")
    print(f"|---|---|{'---:|' * len(OUTCOMES)}")
    for kind in args.kinds:
        for engine in ENGINES:
            counts: Counter[str] = Counter()
            for seed, what, words in outcomes(engine, kind, range(args.first, args.first + args.count)):
                counts[what] += 1
                if what not in OUTCOMES[:2]:
                    print(f"{engine}, {kind}, seed {seed}: {what}: {words}", file=sys.stderr, flush=True)
            print(f"| {kind} | {engine} | {' | '.join(str(counts[o]) for o in OUTCOMES)} |", flush=True)
            rows.append({"kind": kind, "engine": engine, **{o: counts[o] for o in OUTCOMES}})
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
