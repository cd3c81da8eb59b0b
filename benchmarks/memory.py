"""Memory of whole models: a thousand different shapes through one executable, and peaks beside onnxruntime's.

    PYTHONPATH=runtime:generated python -m benchmarks.memory [bert_mini ...] [--shapes 1000] [--brief] [--json out.json]

Every figure of a peak is that of a process of its own: the model is loaded and called at its smallest shape, so that weights are
where they belong, then the maximum of the resident set is reset, and the call at the shape is made three times. Printed is the maximum
above what was resident before, without pages of files that were read for the first time (`file`): weights that are mapped from the
model and that no call needed before, such as rows of a table of words, which the system can drop again. Linux only, since the maximum
is reset through /proc.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.models import MODELS, Arrays, Model, load

MB = 1e6


def resident(field: str) -> int:
    """Bytes: VmRSS now, RssFile of them that are a file's, or VmHWM at most since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def reset_maximum() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def caller(engine: str, path: Path) -> tuple[Callable[[Arrays], Any], Callable[[], int]]:
    """(one call, bytes its engine says it keeps for intermediate values)."""
    if engine == "anyshape":
        import anyshape

        executable = anyshape.compile(path, threads=1)
        executable.wait()
        return executable.run, lambda: executable.memory
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs), lambda: 0


# what runs in a process of its own


def peak(engine: str, model: Model, path: Path, shape: tuple[int, int]) -> dict[str, int]:
    call, kept = caller(engine, path)
    call(model.inputs(*model.SHAPES[0]))
    inputs = model.inputs(*shape, seed=1)
    gc.collect()
    before, files = resident("VmRSS"), resident("RssFile")
    reset_maximum()
    for _ in range(3):
        call(inputs)
    read = resident("RssFile") - files  # nothing drops them meanwhile
    return {"peak": resident("VmHWM") - before - read, "file": read, "kept": kept()}


def many(engine: str, model: Model, path: Path, count: int, largest: tuple[int, int]) -> dict[str, Any]:
    """`count` different shapes in random order; the resident set and what is kept, at each tenth of them."""
    every = [(b, n) for b in range(1, largest[0] + 1) for n in range(1, largest[1] + 1)]
    random.Random(0).shuffle(every)
    shapes = [s for s in every if s != largest][: count - 1]
    shapes.insert(len(shapes) // 2, largest)
    call, kept = caller(engine, path)
    call(model.inputs(*model.SHAPES[0]))
    gc.collect()
    before = resident("VmRSS")
    reset_maximum()
    seen = []
    for k, shape in enumerate(shapes, 1):
        call(model.inputs(*shape, seed=k))
        if k % max(1, count // 10) == 0:
            seen.append({"calls": k, "resident": resident("VmRSS") - before, "kept": kept()})
    return {"seen": seen, "peak": resident("VmHWM") - before, "kept": kept()}


def child(arguments: list[str]) -> None:
    what, engine, name, path, *numbers = arguments
    a, b, *count = map(int, numbers)
    model = load(name)
    peaks = (
        peak(engine, model, Path(path), (a, b)) if what == "peak" else many(engine, model, Path(path), count[0], (a, b))
    )
    print(json.dumps(peaks))


def ask(*arguments: object) -> Any:
    """What a child finds, in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", "--child", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# the report


def largest(model: Model) -> list[tuple[int, int]]:
    """The shape with the most elements: one peak says what a model takes at most."""
    return [max(model.SHAPES, key=lambda s: s[0] * s[1])]


def peaks(name: str, path: Path, shapes: list[tuple[int, int]]) -> list[dict[str, Any]]:
    print(
        f"\n{name}: maximum resident set above that of the loaded model\n"
        f"  {'shape':>8} {'anyshape':>12} {'arena':>11} {'file':>11} {'onnxruntime':>13} {'file':>11} {'ratio':>6}"
    )
    rows = []
    for shape in shapes:
        ours, theirs = ask("peak", "anyshape", name, path, *shape), ask("peak", "onnxruntime", name, path, *shape)
        ratio = ours["peak"] / max(1, theirs["peak"])
        rows.append({
            "shape": shape, "anyshape": ours["peak"], "arena": ours["kept"], "onnxruntime": theirs["peak"],
            "files": {"anyshape": ours["file"], "onnxruntime": theirs["file"]},
        })  # fmt: skip
        text = f"{shape[0]}x{shape[1]}"
        print(
            f"  {text:>8} {ours['peak'] / MB:9.2f} MB {ours['kept'] / MB:8.2f} MB {ours['file'] / MB:8.2f} MB "
            f"{theirs['peak'] / MB:10.2f} MB {theirs['file'] / MB:8.2f} MB {ratio:6.2f}",
            flush=True,
        )
    return rows


def thousand(name: str, path: Path, count: int, largest: tuple[int, int]) -> dict[str, Any]:
    print(
        f"\n{name}: {count} different shapes in random order, up to {largest[0]}x{largest[1]}\n"
        f"  {'calls':>6} {'resident':>12} {'arena':>11}"
    )
    peak = ask("many", "anyshape", name, path, *largest, count)
    for row in peak["seen"]:
        print(f"  {row['calls']:6} {row['resident'] / MB:9.2f} MB {row['kept'] / MB:8.2f} MB")
    alone = ask("peak", "anyshape", name, path, *largest)
    print(
        f"  peak {peak['peak'] / MB:.2f} MB, arena {peak['kept'] / MB:.2f} MB; "
        f"the largest shape alone: {alone['peak'] / MB:.2f} MB, {alone['kept'] / MB:.2f} MB"
    )
    theirs = ask("many", "onnxruntime", name, path, *largest, count)
    print(
        f"  onnxruntime: peak {theirs['peak'] / MB:.2f} MB, at the end {theirs['seen'][-1]['resident'] / MB:.2f} MB resident"
    )
    return {"anyshape": peak, "alone": alone, "onnxruntime": theirs}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["bert_mini"], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--brief", action="store_true", help="only the peak at each model's largest shape")
    parser.add_argument("--shapes", type=int, default=1000, help="how many different ones go through one executable")
    parser.add_argument("--largest", type=int, nargs=2, default=(16, 128), metavar=("BATCH", "LENGTH"))
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            model, path = load(name), load(name).build(Path(folder) / "model.onnx")
            report = {"model": name, "peaks": peaks(name, path, largest(model) if options.brief else model.SHAPES)}
            if not options.brief:
                report["many"] = thousand(name, path, options.shapes, tuple(options.largest))
            results.append(report)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
