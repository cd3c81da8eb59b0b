"""`anyshape run`: runs a model on random or given inputs; shows its outputs and the time of a call, and writes outputs to files."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, described
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import accepted_inputs, make_inputs
from anyshape.errors import AnyshapeError
from anyshape.files import replacing
from anyshape.vm import Executable


def run(exe: Executable, args: argparse.Namespace) -> Answer:
    """Runs once, then `--repeat` times to measure the time."""
    shapes, contents = arguments.shapes(args.shape), arguments.arrays(args.input)
    ints = arguments.bounds(args.ints, "--ints")
    make = partial(make_inputs, exe.input_names, exe.input_types, shapes, contents, ints, args.seed)
    called: list[tuple[float, list[NDArray[Any]]]] = []
    feed, sizes = accepted_inputs(lambda inputs: called.append(_timed(exe, inputs)), make)
    lines = [f"{name}: {spell_array(a)}" for name, a in feed.items()]
    if sizes.chosen:
        chosen = ", ".join(f"{name}={n}" for name, n in sizes.chosen.items())
        lines.append(f"(chosen sizes: {chosen}; set them by --shape NAME=4x128)")
    with progress("running"):
        first, results = called[0] if called else _timed(exe, feed)
        times = [_timed(exe, feed)[0] for _ in range(args.repeat)]
        if exe.report.variants:  # of a policy: what it made of these sizes runs now
            exe.wait()
            times += [_timed(exe, feed)[0] for _ in range(args.repeat)]
    lines += [f"{name}: {spell_array(a)}\n{_values(a)}" for name, a in zip(exe.output_names, results)]
    lines.append(f"first call {_seconds(first)}" + (f", best of {len(times)}: {_seconds(min(times))}" if times else ""))
    variants = [str(v) for v in exe.report.variants if v.calls]
    lines += [f"variant for {v}" for v in variants]
    outputs = dict(zip(exe.output_names, results, strict=True))
    files = _written(Path(args.output_dir), outputs) if args.output_dir is not None else {}
    lines += [f"{name} is in {path}" for name, path in files.items()]
    data = {
        "inputs": {name: described(a, elements=False) for name, a in feed.items()},
        "chosen": sizes.chosen,
        "outputs": {name: described(a) for name, a in outputs.items()},
        "files": files,
        "variants": variants,
        "seconds": {"first": first, "best": min(times, default=None), "repeat": len(times)},
    }
    return Answer(text="\n".join(lines), data=data)


def _written(folder: Path, outputs: Mapping[str, Any]) -> dict[str, str]:
    """Writes each array as NAME.npy, those of a list as NAME.0.npy and so on; a name has other characters where files cannot have its
    own. Raises AnyshapeError if the folder cannot be written."""
    files: dict[str, str] = {}
    taken: set[str] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for output, value in outputs.items():
            for name, a in _arrays(output, value):
                files[name] = str(folder / _file_name(name, taken))
                with replacing(files[name]) as file:
                    np.save(file, a, allow_pickle=False)
    except (OSError, ValueError) as e:
        raise AnyshapeError(f"{folder} cannot be written: {getattr(e, 'strerror', None) or e}") from None
    return files


def _arrays(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Lists the arrays of an output: itself, or the members of a list."""
    if isinstance(value, list):
        for k, member in enumerate(value):
            yield from _arrays(f"{name}.{k}", member)
    elif value is not None:
        yield name, value


def _file_name(name: str, taken: set[str]) -> str:
    """Makes a name of a file that no other output has, whatever a file system takes for equal."""
    stem = re.sub(r"[^A-Za-z0-9._-]|^\.", "_", name)[:100] or "_"
    unique, k = stem, 1
    while unique.lower() in taken:
        unique, k = f"{stem}_{k}", k + 1
    taken.add(unique.lower())
    return f"{unique}.npy"


def _timed(exe: Executable, feed: Mapping[str, NDArray[Any]]) -> tuple[float, list[NDArray[Any]]]:
    start = time.perf_counter()
    results = exe.run(feed)
    return time.perf_counter() - start, results


def _seconds(s: float) -> str:
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.2f} ms" if s >= 1e-3 else f"{s * 1e6:.0f} µs"


def spell_array(a: Any) -> str:
    """Spells dtype and shape of an array, and of the members of a list."""
    if a is None or isinstance(a, list):
        return (
            "nothing"
            if a is None
            else f"list of {len(a)}: {'; '.join(map(spell_array, a[:4]))}{' …' if len(a) > 4 else ''}"
        )
    return f"{a.dtype}[{', '.join(map(str, a.shape))}]"


def _values(a: Any) -> str:
    if a is None or isinstance(a, list):
        return "\n".join(map(_values, a or ()))
    text = np.array2string(a, threshold=24, edgeitems=3, precision=5, suppress_small=True)
    return "\n".join(f"  {line}" for line in text.splitlines())
