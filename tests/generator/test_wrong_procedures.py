"""Procedures, and the default of a float, that are wrong on purpose: the laws find each of them.

Right ones are examples of docs/spec-language.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.mutants import mutants

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/spec-language.md").read_text()
WRONG = {
    "starts_late": ("common_divisor", "for i in n:", "for i in range(1, n):"),
    "too_few_turns": ("common_divisor", "limit 50", "limit 1"),
    "one_after_the_other": ("common_divisor", "m, r = [r, m % r]", "m = r\n              r = m % r"),
    "smallest_first": ("bins_of", ", descending=True", ""),
    "no_break": ("bins_of", "\n                  break", ""),
    "never_counts": ("distinct", "k += 1", "k += 0"),
    "always_new": ("distinct", "known = True", "known = False"),
    "another_default": ("scaled_by_length", '"sqrt(n)"', '"sqrt(n + 1)"'),
}


def block(op: str) -> str:
    return next(
        b for b in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if re.search(rf"^  {op}:", b, re.MULTILINE)
    )


def entry(op: str) -> str:
    match = re.search(rf"^  {op}:\n(?:    .*\n|\n)+", block(op), re.MULTILINE)
    assert match is not None
    return match[0]


def test_laws_find_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    for name, (op, right, wrong) in WRONG.items():
        assert right in entry(op)
        head = block(op).split("ops:\n")[0]
        head = head if any(f"{f}(" in entry(op) for f in re.findall(r"def (\w+)", head)) else ""
        changed = entry(op).replace(right, wrong).replace(f"  {op}:", f"  {name}:", 1)
        (tmp_path / "specs" / f"{name}.yaml").write_text(f"{head}ops:\n{changed}")
    path = ":".join(str(ROOT / part) for part in ("runtime", "generator", "generated", "testing", "."))
    run = subprocess.run(
        [sys.executable, "-m", "tests.generator.page_ops", str(tmp_path), "5"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 1, run.stdout + run.stderr
    assert not run.stderr, run.stderr
    assert {name for name in WRONG if f"{name}: " in run.stdout} == set(WRONG), run.stdout


@pytest.mark.parametrize("op", ["common_divisor", "bins_of", "distinct"])
def test_mutants_of_steps(op: str) -> None:
    """Mutation testing reaches into the steps of a procedure."""
    spec = analyse({"page.yaml": block(op)}).op(op).spec
    labels = [m.label for m in mutants(spec) if m.label.startswith("procedure: ")]
    assert len(labels) > 5 and all(len(label) > len("procedure: ") for label in labels)
