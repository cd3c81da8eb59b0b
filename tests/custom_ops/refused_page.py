"""The list in docs/onnxruntime.md of ops that cannot be custom ops of onnxruntime, whatever their calls are.

python -m tests.custom_ops.refused_page
"""

from __future__ import annotations

from pathlib import Path

from anyshape.custom_ops.refusals import refused, taken

PAGE = Path(__file__).parents[2] / "docs/onnxruntime.md"
BEGIN, END = "<!-- refused ops: `python -m tests.custom_ops.refused_page` -->\n", "<!-- end of the refused ops -->"


def plain(name: str) -> str:
    """Both variants of an op count as one."""
    return name.removeprefix("dyn.")


def written(page: str) -> str:
    """The page with the ops that there are now."""
    before, rest = page.split(BEGIN)
    reasons = {plain(n): why for n, why in refused().items()}
    count = len({plain(n) for n in taken()})
    lines = [
        f"Of {count + len(reasons)} ops, {len(reasons)} are refused.",
        "",
        "| refused | because |",
        "|---|---|",
        *(f"| [{n}](ops/{n}.md) | {why} |" for n, why in reasons.items()),
        "",
    ]
    return before + BEGIN + "\n".join(lines) + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
