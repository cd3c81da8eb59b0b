"""The list in docs/export.md of ops whose first example is not exported, by reason, and of those that are exported for numbers alone.

python -m tests.export.refused_page        (some minutes: it exports every op and runs it)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from anyshape_testing.calls.packages import register
from anyshape_testing.laws.exported_ops import Outcome, first_example

PAGE = Path(__file__).parents[2] / "docs/export.md"
BEGIN, END = "<!-- refused ops: `python -m tests.export.refused_page` -->\n", "<!-- end of the refused ops -->"


def outcomes() -> list[Outcome]:
    """What becomes of the first example of every op that has one with a result."""
    ops = register("anyshape_ops")
    return [first_example(n) for n, p in ops.items() if any(e.error is None for e in p.examples)]


def written(page: str, rows: Iterable[Outcome]) -> str:
    """The page with these outcomes in its list."""
    before, rest = page.split(BEGIN)
    rows = list(rows)
    refused: dict[str, list[str]] = {}
    for o in rows:
        if o.refused:
            refused.setdefault(o.refused, []).append(o.op)
    numbers = [o.op for o in rows if not o.refused and not o.symbolic]
    lines = [
        f"Of {len(rows)} ops, {len(rows) - sum(map(len, refused.values()))} are exported, called and equal to their reference."
    ]
    lines += ["", "| refused | because |", "|---|---|"]
    lines += [f"| {', '.join(ops)} | {_in_a_cell(reason)} |" for reason, ops in refused.items()]
    lines += [
        "",
        f"Exported for numbers as dims alone, since their rank depends on a dim: {', '.join(numbers) or 'none'}.",
        "",
    ]
    return before + BEGIN + "\n".join(lines) + END + rest.split(END)[1]


def _in_a_cell(reason: str) -> str:
    return re.sub(r"\s+", " ", reason.replace("|", "\\|"))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), outcomes()))
