"""`python -m anyshape_gen watch` as an author runs it: a process beside specs in a scratch folder, saves as editors save, its output.

Used by the tests, and by `python -m benchmarks.author_loop`, which prints how long it takes.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.resident import HANGS

ROOT = Path(__file__).parents[2]


def scratch(folder: Path, specs: list[Path] | None = None) -> Path:
    """A folder with copies of the specs (all, or these), in which everything is generated."""
    (folder / "specs").mkdir(parents=True)
    for path in specs if specs is not None else sorted((ROOT / "specs").glob("*.yaml")):
        shutil.copy(path, folder / "specs")
    return folder


def words(folder: Path, *command: str) -> list[str]:
    """The generator on a scratch folder."""
    places = ("--specs", folder / "specs", "--out", folder / "generated", "--docs", folder / "docs")
    return [sys.executable, "-m", "anyshape_gen", *command, *map(str, places)]


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = (folder / "generated", ROOT / "runtime", ROOT / "generator", ROOT / "testing", ROOT)
    return {**os.environ, "PYTHONPATH": ":".join(map(str, path)), **more}


def by_rename(path: Path, text: str) -> None:
    """Writes to a file beside it, which then takes its place: vim, Emacs and most others do."""
    beside = path.with_name(f".{path.name}.swp")
    beside.write_text(text)
    beside.replace(path)


def by_truncation(path: Path, text: str) -> None:
    """Emptied first and written in two pieces: what a slow disk makes of a plain write."""
    with path.open("w") as file:
        time.sleep(0.02)
        file.write(text[: len(text) // 2])
        file.flush()
        time.sleep(0.02)
        file.write(text[len(text) // 2 :])


def in_a_burst(path: Path, text: str) -> None:
    """Broken twice, then as wanted: somebody whose editor saves while they type."""
    for now in (text[: len(text) // 3], text.replace("ops:", "ops:\n  {"), text):
        by_rename(path, now)
        time.sleep(0.03)


WAYS: dict[str, Callable[[Path, str], None]] = {
    "write beside, rename": by_rename,
    "truncate, write": by_truncation,
    "burst of saves": in_a_burst,
}


class Watched:
    """The process and what it says."""

    def __init__(self, folder: Path, op: str, **more: str) -> None:
        self.process = subprocess.Popen(
            words(folder, "watch", op), cwd=folder, env=environment(folder, PYTHONUNBUFFERED="1", **more),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        self.heard: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put("<end>")

    def until(self, *texts: str, seconds: float = HANGS) -> str:
        """The next line with one of these texts in it. Raises AssertionError where none comes."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                line = "<end>"
            self.heard.append(line)
            if any(w in line for w in texts):
                return line
            if line == "<end>":
                raise AssertionError(f"no {texts} in:\n" + "\n".join(self.heard[-60:]))

    def interrupt(self) -> int:
        """Interrupts the process as Ctrl-C does; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(HANGS)


@contextmanager
def watched(folder: Path, op: str, **more: str) -> Iterator[Watched]:
    """Ended at the end, whatever happens."""
    w = Watched(folder, op, **more)
    try:
        yield w
    finally:
        w.process.kill()
        w.process.wait()
