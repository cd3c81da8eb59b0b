"""A law that fails prints the call, its seed, the spec's line and at most five lines that fail alike when run alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.packaging.broken_laws import BREAKS

ROOT = Path(__file__).parents[2]


def test_what_a_failing_law_prints_repeats_it(tmp_path: Path) -> None:
    path = ":".join(str(ROOT / part) for part in ("runtime", "generator", "generated", "testing", "."))
    run = subprocess.run(
        [sys.executable, "-m", "tests.packaging.broken_laws", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    outcomes = json.loads(run.stdout)
    assert [f["law"] for f in outcomes] == list(BREAKS)
    for f in outcomes:
        said = f["failed"]
        assert re.search(rf"^law {f['law']} .* of (widen|turn|row), specs/mine.yaml:\d+: \S", said, re.MULTILINE), said
        assert "shapes" in said and "seed" in said and "dtypes" in said, said
        assert 3 <= len(f["script"].splitlines()) <= 5, said
        assert error(f["alone"]) == error(said) != "", f
        assert "Traceback" not in f["fixed"], f


def error(said: str) -> str:
    """The kind of error and the words that do not depend on the order of compiling."""
    errors = re.findall(r"^(\w+(?:\.\w+)*(?:Error|Exception)): (.*)$", said, re.MULTILINE)
    return " ".join((errors[-1][0], *re.findall(r"[a-z_]{3,}", errors[-1][1])[:4])) if errors else ""
