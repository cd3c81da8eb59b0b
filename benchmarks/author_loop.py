"""How long an author of ops waits: generating, testing one op, and from a save to the results of `make watch`.

`python -m benchmarks.author_loop [OP …]` prints it; the best of a few tries, in a scratch copy of the specs. Beside it stands what a
fixed piece of Python takes, best and worst, since nothing here is worth more than the machine was quiet.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.generator.watching import ROOT, WAYS, environment, scratch, watched, words

TRIES = 3
FIRST = "matmul"
"""The op that is tested where nothing is cached: the code of all products is compiled for it, and all files are generated to be checked."""


def timed(run: Callable[[], object], tries: int = TRIES) -> float:
    """Seconds of the best try."""
    return min(one(run) for _ in range(tries))


def one(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def piece_of_python() -> int:
    return sum(k * k for k in range(1_000_000))


def generating(folder: Path) -> None:
    known_nothing = environment(folder, ANYSHAPE_CACHE=str(folder / "cache"))
    run = partial(subprocess.run, words(folder), cwd=folder, env=known_nothing, check=True, capture_output=True)
    print(f"make gen from scratch            {one(run):6.2f} s  (wanted: below 30)")

    def edited() -> None:
        edit(folder / "specs/rows.yaml", WAYS["write beside, rename"])
        run()

    print(f"make gen after one edit          {timed(edited):6.2f} s  (wanted: below 2)")


def edit(path: Path, save: Callable[[Path, str], None]) -> None:
    """Changes what every op of the file says of itself, and the constant of a kernel nowhere: the laws keep holding."""
    text = path.read_text()
    stamp = f"summary: {time.monotonic_ns()} "
    save(path, re.sub(r"summary: (\d+ )?", stamp, text))


def testing(ops: Sequence[str]) -> None:
    """`make test OP=op` with this Python's environment, which is taken to be set up; and with caches that know the generated files and the
    machine, and no kernel of the op."""

    def run(tested: str, caches: str | None = None) -> None:
        command = ["make", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.anyshape-ready", "test", f"OP={tested}"]
        known = {**os.environ, "ANYSHAPE_CACHE": caches} if caches else None
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=known)

    with tempfile.TemporaryDirectory() as place:
        known = Path(place) / "known"
        print(f"make test OP={FIRST}, nothing is cached {one(partial(run, FIRST, str(known))):7.2f} s")
        for op in ops:
            cold = shutil.copytree(known, Path(place) / op)
            new = one(partial(run, op, str(cold)))
            print(
                f"make test OP={op:<26} {timed(partial(run, op)):6.2f} s, its kernels compiled {new:6.2f} s  (wanted: below 5)"
            )


def watching(folder: Path, op: str, file: str) -> None:
    with watched(folder, op) as w:
        w.until("waiting for a change", seconds=120)
        for name, save in WAYS.items():
            timings = []
            for _ in range(TRIES):
                start = time.perf_counter()
                edit(folder / "specs" / file, save)
                w.until("changed: ")
                times = []
                for line in ("  holds  ", "5 calls each", "100 calls each"):
                    w.until(line, "FAILS", seconds=120)
                    times.append(time.perf_counter() - start)
                timings.append(times)
                w.until("waiting for a change")
            first, few, every = map(min, zip(*timings))
            print(f"watch {op:<12} {name:<22} {first:10.2f} s {few:14.2f} s {every:14.2f} s")


def main(ops: list[str]) -> None:
    before = [one(piece_of_python) for _ in range(20)]
    files = {
        op: next(p.name for p in sorted((ROOT / "specs").glob("*.yaml")) if f"\n  {op}:\n" in p.read_text())
        for op in ops
    }
    with tempfile.TemporaryDirectory() as place:
        folder = scratch(Path(place) / "scratch")
        generating(folder)
        testing(ops)
        print(f"\n{'from the save to':<43}first result   5 calls a law  100 calls a law   (wanted: first below 2)")
        for op, file in files.items():
            watching(folder, op, file)
    after = [one(piece_of_python) for _ in range(20)]
    print(
        f"\na million squares: {min(before + after) * 1e3:.0f} ms at best, {max(before + after) * 1e3:.0f} at worst; "
        f"{os.getloadavg()[0]:.1f} processes wanted one of {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main(sys.argv[1:] or ["softmax", "add", "reshape"])
