"""Everything that is sampled in `make test`, whole: part by part, each with its progress, its end and how long it took.

    python -m tests.long_run [--jobs 2] [--chunk K] [--only laws,onnx]

A part is some commands, run beside each other; one that fails does not keep the next part from running. `--chunk` says which random
draws: of another chunk all laws, programs and faults are others, and another tenth of the ops has a thousand calls for each law. The
same chunk is the same run, on any day and with any number of processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CALLS, MANY = 200, 1000
"""Calls for each law of an op; and for those of the ops of a chunk"""
COUNTS, LAW_PAGE = Path("docs/law-counts.json"), "anyshape_testing.law_page"
"""How often each law was tried on each op, and what writes that into docs/laws.md"""
CHUNKS = 10
SEEDS = 5000
"""Programs, cases and files with faults: of each so many"""
BASES = (0, 1 << 24, 1 << 25)
"""First seeds of each kind of files with faults: see `tests/frontends/hostile_files.py`"""


@dataclass(frozen=True)
class Part:
    """`beside`: commands that run at once; `behind`: those that follow, whether they held or not."""

    name: str
    about: str
    beside: Sequence[Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    behind: Sequence[Sequence[str]] = ()


def parts(jobs: int, chunk: int) -> list[Part]:
    def tests(*more: str) -> list[str]:
        return ["-m", "pytest", "-n", str(jobs), "--dist", "worksteal", *more]

    def long(calls: int) -> dict[str, str]:
        return {"ANYSHAPE_LONG": "1", "ANYSHAPE_EXAMPLES": str(calls), "ANYSHAPE_CHUNK": str(chunk)}

    def faults(program: str, first: int, count: int) -> list[str]:
        seeds = ("--first", str(first + chunk * count), "--count", str(count))
        return ["-m", f"tests.frontends.{program}", *seeds]

    of_files = [faults("hostile_files", base, SEEDS // len(BASES)) for base in BASES]
    wrong = [
        faults("hostile_cases", 0, SEEDS),
        faults("hostile_attributes", 0, 2 * SEEDS),
        faults("hostile_kept", 0, 2 * SEEDS),
    ]
    proved = ["-m", "anyshape_gen", "--check", "--prove"]
    judged = ["-m", "anyshape_testing.proofs"]
    halves = [["-m", "tests.frontends.differential_run", "--part", f"{k}/2"] for k in range(2)]
    forms = (("given", "constants"), ("operands", "rankless"))
    onnx = [["-m", "tests.frontends.onnx_suite", *(w for f in two for w in ("--form", f))] for two in forms]
    programs = ["-m", "anyshape_testing.programs", "--count", str(SEEDS), "--start", str(chunk * 10_000_000)]
    matrix = ["-m", "anyshape_testing.matrix"]
    chosen = chosen_ops(chunk)
    counted = {**long(CALLS), "LAW_COUNTS": str(COUNTS)}
    return [
        Part("check", "generated/ is what specs/ say, all proofs anew, and judged by z3; types", [proved, judged, ["-m", "mypy"]]),
        Part("rooms", "all tests but the laws, nothing sampled", [tests("tests", "--ignore=tests/laws")], long(CALLS)),
        Part("laws", f"{CALLS} calls a law, in every dtype", [tests("tests/laws")], counted, [["-m", LAW_PAGE]]),
        Part("matrix", "laws notice wrong ops of every kind in every dtype", [[*matrix, "--jobs", str(jobs)]]),
        Part("deep", f"{MANY} calls a law: {len(chosen)} ops", [tests("tests/laws", f"--op={','.join(chosen)}")], long(MANY)),
        Part("onnx", "ONNX's suite in four forms, against the ratchet", onnx),
        Part("differential", "each operator, opset, dtype and attribute beside onnxruntime and the reference", halves),
        Part("programs", f"{SEEDS} random programs", [[*programs, "--jobs", str(jobs)]]),
        Part("faults", "models, attributes, files and arguments made wrong", [*wrong, *of_files]),
    ]  # fmt: skip


def chosen_ops(chunk: int) -> list[str]:
    """A tenth of the ops: of ten chunks in a row each has others, and together they are all."""
    from anyshape_testing.calls.packages import register

    return [op for op in sorted(register("anyshape_ops")) if zlib.crc32(op.encode()) % CHUNKS == chunk % CHUNKS]


def run(part: Part) -> tuple[bool, float]:
    """Whether all commands of a part ended well, and in how many seconds."""
    start, environment = time.monotonic(), {**os.environ, **part.environment}
    running = [subprocess.Popen([sys.executable, *words], env=environment) for words in part.beside]
    ended = [p.wait() for p in running]
    ended += [subprocess.run([sys.executable, *words], env=environment).returncode for words in part.behind]
    return not any(ended), time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser("long_run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--chunk", type=int, default=0, help="which random draws")
    parser.add_argument("--only", default="", help="these parts, separated by commas")
    args = parser.parse_args()
    all_parts = parts(args.jobs, args.chunk)
    names = args.only.split(",") if args.only else [p.name for p in all_parts]
    unknown = sorted({*names} - {p.name for p in all_parts})
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(p.name for p in all_parts)}")
    chosen = [p for p in all_parts if p.name in names]
    outcomes = []
    for k, part in enumerate(chosen):
        print(f"\n== {k + 1} of {len(chosen)}, {part.name}: {part.about}", flush=True)
        held, seconds = run(part)
        outcomes.append((held, f"{part.name:<13}{'holds' if held else 'FAILS'} {seconds / 60:8.1f} min"))
        print(f"== {outcomes[-1][1]}", flush=True)
    print("\n" + "\n".join(text for _, text in outcomes), flush=True)
    return 0 if all(held for held, _ in outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
