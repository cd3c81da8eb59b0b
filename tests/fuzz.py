"""Everything that comes from outside, drawn at random for as long as one likes: `make fuzz MINUTES=5`.

    python -m tests.fuzz [--minutes 5] [--only importer,calls] [--again importer:123]

Targets take turns. Each goes on at the seed where the last run ended, which is kept in `build/fuzz.json`; what is found is printed
with the words that repeat it, and kept there until it is mended. Seeds of finds that were mended are in `KEPT`, and are tests
(`tests/robust/test_fuzz_command.py`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATE = Path(__file__).parents[1] / "build" / "fuzz.json"


@dataclass(frozen=True)
class Target:
    """`module` has `run(seeds)`, which gives each seed with what went wrong, if anything; `base` is where its seeds begin."""

    about: str
    module: str
    base: int = 0
    batch: int = 50

    def run(self, seeds: Sequence[int]) -> Iterator[tuple[int, str]]:
        outcomes: Iterator[tuple[int, str]] = importlib.import_module(self.module).run(seeds)
        return outcomes


TARGETS = {
    "importer": Target("files of whole models: any field of any message", "tests.frontends.hostile_files"),
    "contributed": Target(
        "the same of contributed ops, scans, lists, strings", "tests.frontends.hostile_files", 1 << 24
    ),
    "sparse": Target("the same of sparse tensors and first versions", "tests.frontends.hostile_files", 1 << 25),
    "attributes": Target("one node of each operator and opset", "tests.frontends.hostile_attributes"),
    "values": Target("cases of ONNX's suite: attributes, dims, arguments", "tests.frontends.hostile_cases"),
    "kept": Target("saved models, and entries of the cache", "tests.frontends.hostile_kept", batch=200),
    "calls": Target("arguments of the API, and command lines", "tests.robust.hostile_calls", batch=200),
}
FIRST = 1 << 20
"""Below, `make test` and `make test-long` have their seeds."""
KEPT: dict[str, tuple[int, ...]] = {"calls": (0, 1, 1061200, 1076604, 1081211, 1248597, 1352994), "values": (1369830,)}
"""Seeds that once ended in something else than a result or an AnyshapeError."""


def state() -> dict[str, Any]:
    """Reads the next seed and the finds of each target."""
    try:
        read: dict[str, Any] = json.loads(STATE.read_text())
    except (OSError, ValueError):
        read = {}
    return {name: read.get(name, {"next": t.base + FIRST, "finds": {}}) for name, t in TARGETS.items()}


def fuzz(names: Sequence[str], seconds: float) -> int:
    """How many seeds ended in something else."""
    known, end, tried = state(), time.monotonic() + seconds, dict.fromkeys(names, 0)
    wrong, shares = 0, dict.fromkeys(names, 0.0)
    while time.monotonic() < end:
        name = min(names, key=lambda n: shares[n])  # who has had least time
        target, own, start = TARGETS[name], known[name], time.monotonic()
        for seed, why in target.run(range(own["next"], own["next"] + target.batch)):
            own["next"], tried[name] = seed + 1, tried[name] + 1
            if why:
                wrong += 1
                own["finds"][str(seed)] = " ".join(why.split())[:300]
                print(f"FOUND {own['finds'][str(seed)]}\n  python -m tests.fuzz --again {name}:{seed}", flush=True)
            if time.monotonic() > end:
                break
        shares[name] += time.monotonic() - start
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_text(json.dumps(known, indent=1))
        left = max(0.0, end - time.monotonic())
        print(
            f"{name:<12}{tried[name]:>7} seeds {shares[name]:7.0f} s; {wrong} found, {left / 60:.1f} min left",
            flush=True,
        )
    spent = sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    print(f"{spent / 60:.1f} min of processor time")
    for name in names:
        print(f"{name:<12}{tried[name]:>7} seeds, {len(known[name]['finds'])} finds kept: {TARGETS[name].about}")
    return wrong


def again(word: str) -> int:
    """One seed, as TARGET:SEED; one that does right now is no find any more."""
    name, _, seed = word.partition(":")
    ((_, why),) = TARGETS[name].run([int(seed)])
    print(why or "nothing is wrong with it")
    known = state()
    if not why and known[name]["finds"].pop(seed, None) is not None:
        STATE.write_text(json.dumps(known, indent=1))
    return 1 if why else 0


def main() -> int:
    parser = argparse.ArgumentParser("fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--only", default="", help=f"these targets, separated by commas: {', '.join(TARGETS)}")
    parser.add_argument("--again", default="", metavar="TARGET:SEED", help="one seed that was found")
    args = parser.parse_args()
    if args.again:
        return again(args.again)
    names = args.only.split(",") if args.only else list(TARGETS)
    if unknown := sorted({*names} - {*TARGETS}):
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    return 1 if fuzz(names, args.minutes * 60) else 0


if __name__ == "__main__":
    raise SystemExit(main())
