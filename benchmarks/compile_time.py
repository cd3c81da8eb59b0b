"""Seconds of compiling, saving and loading, per phase, in fresh processes: with an empty object cache, with a full one, from a file.

    PYTHONPATH=runtime:generated python -m benchmarks.compile_time [bert_mini bert_base ...] [--repeat 3] [--json out.json]

Imports of Python modules and reading the model are left out of the sums (phases `modules` and `import`). Large constants go on being
packed when a compile returns; what the first call would still wait for is told apart. Of several runs, the quickest
counts. Loading from a file has no object cache at all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.models import MODELS, load

PROGRAM = """
import json, sys, time
clock = time.perf_counter
start = clock(); import anyshape; own = clock() - start
what, source, target = sys.argv[1:]
start = clock(); anyshape.load; imports = clock() - start
start = clock()
exe = anyshape.load(source, threads=1) if what == "load" else anyshape.compile(source, threads=1)
seconds = clock() - start
phases = exe.report.phases
start = clock(); exe.wait(); ready = clock() - start
if target:
    start = clock(); exe.save(target); phases["(save)"] = clock() - start
print(json.dumps({"import anyshape": own, "imports": imports, "seconds": seconds, "ready": ready, "phases": phases}))
"""


def measure(what: str, source: Path, cache: Path, target: Path | None = None) -> dict[str, Any]:
    """Measures one compile or load in a fresh process."""
    environment = {**os.environ, "ANYSHAPE_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, what, str(source), str(target or "")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    report["own"] = report["seconds"] - sum(report["phases"].get(name, 0.0) for name in ("modules", "import"))
    return report


def rows(name: str, folder: Path, repeat: int) -> dict[str, dict[str, Any]]:
    model, saved, full = load(name).build(folder / f"{name}.onnx"), folder / f"{name}.anyshape", folder / "full"
    empties = [folder / f"{name}.empty{k}" for k in range(repeat)]
    times = {"empty cache": [measure("compile", model, c) for c in empties]}
    measure("compile", model, full, saved)
    times["full cache"] = [measure("compile", model, full, folder / "again") for _ in range(repeat)]
    times["saved file"] = [measure("load", saved, folder / "none") for _ in range(repeat)]
    print(f"\n{name}: model {model.stat().st_size / 1e6:.1f} MB, saved {saved.stat().st_size / 1e6:.1f} MB")
    return {kind: min(runs, key=lambda r: r["own"]) for kind, runs in times.items()}


def show(times: dict[str, dict[str, Any]]) -> None:
    for kind, run in times.items():
        phases = "  ".join(f"{name} {s * 1e3:.0f}" for name, s in run["phases"].items())
        print(
            f"  {kind:<12} {run['own'] * 1e3:7.1f} ms, a call at once would wait {run['ready'] * 1e3:.0f} more   [{phases}]"
        )
    least = {name: min(r[name] for r in times.values()) * 1e3 for name in ("import anyshape", "imports")}
    print(f"  import anyshape {least['import anyshape']:.1f} ms, anyshape.load {least['imports']:.0f} ms more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["bert_mini"], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results = {}
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = rows(name, Path(folder), options.repeat)
        show(results[name])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
