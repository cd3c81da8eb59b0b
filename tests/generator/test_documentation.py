"""docs/spec-language.md: every example is an op that generates and runs, and together they use all that the parser knows.

What has no code yet is on the list below with its reason, and proves that it still has none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_package
from anyshape_gen.functions import FUNCTIONS
from anyshape_gen.keys import OP_KEYS
from anyshape_gen.parse_signature import KINDS
from anyshape_gen.source import Findings
from tests.generator.constructs import INTERNAL, everything, used

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/spec-language.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
LONG = os.environ.get("ANYSHAPE_LONG", "0") not in ("", "0")


def elementwise(kernel: str = "x[i]", more: str = "", given: str = "f32[n]") -> str:
    """An entry with this value of an element."""
    return f"{more}inputs: {{x: '{given}'}}, outputs: {{y: '{given}'}}, reference: x, kernel: \"y[i] = {kernel}\""


CONTAINER = "Containers"
NOT_YET: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("container opt", "Signature with container"), (CONTAINER, elementwise(given="opt f32[n]"))),
    "container seq": (
        CONTAINER, "inputs: {x: 'seq f32[n] for v in c'}, outputs: {y: 'f32[n]'}, reference: x, kernel: 'y[i] = x[0][i]'",
    ),
}  # fmt: skip
"""By construct: why it has no code, and an entry that the generator therefore refuses"""


def probe(entry: str) -> str:
    return f"ops:\n  tried: {{summary: Tried., {entry}}}\n"


def refused(entry: str) -> bool:
    """Whether there is no code for it; that it is in the language is checked too."""
    findings = Findings()
    try:
        emit_package(analyse({"probe.yaml": probe(entry)}, complete=False), "probe", findings)
    except SpecError as e:
        raise AssertionError(f"not in the language: {entry}: {e}") from e
    return any("no code is generated for it yet" in f.text for f in findings.found)


def test_every_construct_is_in_an_example_that_runs() -> None:
    said: set[str] = set().union(*map(used, BLOCKS))
    missing = everything() - said - set(NOT_YET)
    assert not missing, f"in no example of docs/spec-language.md: {sorted(missing)}"
    assert not set(NOT_YET) - everything(), "not in the language any more"
    assert not set(NOT_YET) & said, "in an example that runs, so off the list"


@pytest.mark.parametrize("construct", list(NOT_YET))
def test_what_is_said_to_have_no_code_has_none(construct: str) -> None:
    reason, entry = NOT_YET[construct]
    assert construct in used(probe(entry)), f"the entry does not use {construct}"
    assert refused(entry), f"{construct} has code now: show it in docs/spec-language.md"
    assert reason in PAGE.split("## Not executed yet")[1], f"the page does not tell why {construct} has no code"


def test_every_example_runs(tmp_path: Path) -> None:
    """The examples of each op of the page, and its laws with a few calls each (all of them in the long run)."""
    (tmp_path / "specs").mkdir()
    for k, block in enumerate(BLOCKS):
        (tmp_path / "specs" / f"page_{k:02d}.yaml").write_text(block)
    path = ":".join(str(ROOT / part) for part in ("runtime", "generator", "generated", "."))
    run = subprocess.run(
        [sys.executable, "-m", "tests.generator.page_ops", str(tmp_path), "100" if LONG else "3"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(re.findall(r"^  \w+:$", "\n".join(BLOCKS), re.MULTILINE)) > 30


def test_everything_is_mentioned() -> None:
    words = set(re.findall(r"\w+", PAGE))
    missing = (set(FUNCTIONS) - INTERNAL | set(KINDS) | {key.name for key in OP_KEYS}) - words
    assert not missing


def test_the_cost_of_cumsum_is_what_the_table_counts() -> None:
    cost, table = (ROOT / "docs/cost.md").read_text(), (ROOT / "docs/ops/index.md").read_text()
    (row,) = re.findall(r"^\| \[cumsum\].*$", table, re.MULTILINE)
    lines = row.split(" | ")[6]
    shared = (ROOT / "specs/scan.yaml").read_text().split("  running:\n")[1].split("\nops:")[0].strip("\n").count(
        "\n"
    ) + 2
    assert f"| {lines}, and {shared} shared with `cumprod` |" in cost
