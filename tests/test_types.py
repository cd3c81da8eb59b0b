"""What mypy reports of tests and benchmarks: calls that do not fit what is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
CALLS = """
def called(x: int) -> None: ...
called()
called("a value of another type")
"""


def test_calls_without_an_argument_are_found_in_tests(tmp_path: Path) -> None:
    """The types of arguments are left to those who run the tests."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--config-file", str(PROJECT), "--cache-dir", str(tmp_path), "-p", "tests"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "tests/calls.py:3: error: Missing positional argument" in said and said.count("error:") == 1, said
