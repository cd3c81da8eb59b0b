"""How many kernels each op takes: of one call at most, and all that random calls of the op have between them.

    PYTHONPATH=runtime:generated:. python -m benchmarks.kernel_counts [softmax lstm ...] [--calls 10] [--json out.json]

Kernels of one equation, types and forms of access are one kernel, whatever the sizes are and however often a call runs it; so most ops have
one for each dtype and rank. Law 7 refuses an op of more than `MOST_KERNELS` (`anyshape_testing.laws.executors`).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import anyshape
from anyshape_testing.calls.packages import register
from anyshape_testing.draw.corpus import corpus
from anyshape_testing.execution.native import compiled
from anyshape_testing.process.profile import load_profile


def kernels(exe: anyshape.Executable) -> set[str]:
    """The symbols of an executable's kernels, which are hashes of their text."""
    return {k.code.symbol for p in exe.plan.programs for k in p.kernels if hasattr(k, "code")}


def count(name: str, calls: int) -> tuple[int, int, int]:
    """(kernels of one call at most, different ones of all calls, different programs)."""
    executables = {
        id(e): e
        for c in corpus(register("anyshape_ops")[name], calls).valid
        if isinstance(e := compiled(c), anyshape.Executable)
    }
    each = [kernels(e) for e in executables.values()]
    return max(map(len, each), default=0), len(set().union(*each)), len(each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--calls", type=int, default=10, help="random calls of each op")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load_profile(options.calls)
    counts = {name: count(name, options.calls) for name in options.ops or register("anyshape_ops")}
    for name, (most, different, programs) in sorted(counts.items(), key=lambda row: row[1], reverse=True):
        print(f"{name:28} {most:3} in one call, {different:4} in {programs} programs")
    tally = Counter(most for most, _, _ in counts.values())
    print("ops by kernels of one call: " + ", ".join(f"{tally[n]} with {n}" for n in sorted(tally)))
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1))


if __name__ == "__main__":
    main()
