"""What is written over a generated module is what Python imports next, however soon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from anyshape_gen.write import SECOND, synchronise


def imported(folder: Path) -> str:
    """Imports the module in a process that keeps bytecode, as Python does unless it is told not to."""
    keeping = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")}
    command = [sys.executable, "-S", "-c", "import made; print(made.A)"]
    return subprocess.run(command, cwd=folder, env=keeping, check=True, capture_output=True, text=True).stdout.strip()


def test_bytecode_of_an_older_text_is_not_taken(tmp_path: Path) -> None:
    """Texts of one length, written within a second; with times that stay where they are the second would be taken for the first."""
    path = tmp_path / "made.py"
    seconds = []
    for number in range(4):
        synchronise({path: f"A = {number}\n"}, [])
        seconds.append(path.stat().st_mtime_ns // SECOND)
        assert imported(tmp_path) == str(number)
    assert seconds == sorted(set(seconds))
    assert list(tmp_path.glob("__pycache__/*.pyc")), "no bytecode was kept, and nothing tried"


def test_what_does_not_change_keeps_its_time(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    synchronise({path: "A = 1\n"}, [])
    before = path.stat().st_mtime_ns
    assert synchronise({path: "A = 1\n"}, []) == []
    assert path.stat().st_mtime_ns == before
