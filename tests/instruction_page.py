"""The list of instructions in docs/vm.md, written from their rows.

python -m tests.instruction_page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from anyshape.vm.program.table import Instruction, Op

PAGE = Path(__file__).parents[1] / "docs/vm.md"
BEGIN, END = "<!-- instructions: `python -m tests.instruction_page` -->\n", "<!-- end of the instructions -->"


def written(page: str, rows: Iterable[Instruction]) -> str:
    """The page with these rows in its list."""
    before, rest = page.split(BEGIN)
    lines = [f"| {int(r)} | `{f'{r.name.lower()} {r.operands}'.rstrip()}` | `{r.text}` | {r.effect} |" for r in rows]
    table = "\n".join(["| | instruction | text | effect |", "|---|---|---|---|", *lines, ""])
    return before + BEGIN + table + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), Op))
