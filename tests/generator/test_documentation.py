"""docs/spec-language.md: every example is an op that generates and runs, and together they use all that the parser knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from anyshape_gen.model.functions import FUNCTIONS
from anyshape_gen.parse.keys import OP_KEYS
from anyshape_gen.parse.signature import KINDS
from anyshape_testing.process.profile import LONG
from tests.generator.constructs import everything, used

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/spec-language.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_every_construct_is_in_an_example_that_runs() -> None:
    said: set[str] = set().union(*map(used, BLOCKS))
    missing = everything() - said
    assert not missing, f"in no example of docs/spec-language.md: {sorted(missing)}"


def test_every_example_runs(tmp_path: Path) -> None:
    """The examples of each op of the page, and its laws with a few calls each (all of them in the long run)."""
    (tmp_path / "specs").mkdir()
    for k, block in enumerate(BLOCKS):
        (tmp_path / "specs" / f"page_{k:02d}.yaml").write_text(block)
    path = ":".join(str(ROOT / part) for part in ("runtime", "generator", "generated", "testing", "."))
    run = subprocess.run(
        [sys.executable, "-m", "tests.generator.page_ops", str(tmp_path), "100" if LONG else "3"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(re.findall(r"^  \w+:$", "\n".join(BLOCKS), re.MULTILINE)) > 30


def test_everything_is_mentioned() -> None:
    words = set(re.findall(r"\w+", PAGE))
    missing = (set(FUNCTIONS) | set(KINDS) | {key.name for key in OP_KEYS}) - words
    assert not missing


def test_the_cost_of_cumsum_is_what_the_table_counts() -> None:
    cost, table = (ROOT / "docs/cost.md").read_text(), (ROOT / "docs/ops/index.md").read_text()
    (row,) = re.findall(r"^\| \[cumsum\].*$", table, re.MULTILINE)
    lines = row.split(" | ")[6]
    shared = (ROOT / "specs/scan.yaml").read_text().split("  running:\n")[1].split("\nops:")[0].strip("\n").count(
        "\n"
    ) + 2
    assert f"| {lines}, and {shared} shared with `cumprod` |" in cost
