"""What becomes of each operator of core ATen, and of each op in torch: `python -m tests.pytorch.core_aten FILE` writes both tables of
docs/torch.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from anyshape.frontends.torch.importer import operator_name
from anyshape.frontends.torch.program import core_operators


def status() -> Iterator[tuple[str, str, str]]:
    """Yields for each operator its name, `mapped`, `decomposed`, `refused` or `unknown`, and the reason of a refusal."""
    import torch

    from anyshape_ops.aten import ATEN, REFUSED

    for op in core_operators():
        name = operator_name(op)
        if name in ATEN:
            yield name, "mapped", ""
        elif name in REFUSED:
            yield name, "refused", REFUSED[name]
        else:
            yield name, "decomposed" if op in torch._decomp.decomposition_table else "unknown", ""


def table() -> str:
    """The table of the page."""
    import torch

    from anyshape_ops.aten import ATEN

    rows = list(status())
    core = {name for name, _, _ in rows}
    by_kind = {kind: [name for name, k, _ in rows if k == kind] for kind in ("mapped", "decomposed", "refused")}
    further = sorted(name for name in ATEN if name not in core)
    lines = [
        f"Of the {len(rows)} operators of core ATen in torch {torch.__version__.split('+')[0]}, {len(by_kind['mapped'])} are mapped, torch "
        f"decomposes {len(by_kind['decomposed'])} into others, and {len(by_kind['refused'])} are refused. {len(further)} more operators "
        "and functions of sizes are mapped.",
        "",
        f"Mapped: {_listed(by_kind['mapped'])}.",
        "",
        f"Decomposed: {_listed(by_kind['decomposed']) or 'none'}.",
        "",
        f"Mapped, and not in core ATen: {_listed(further)}.",
        "",
        "| refused | because |",
        "|---|---|",
        *(f"| `{name}` | {reason} |" for name, kind, reason in rows if kind == "refused"),
        "",
    ]
    return "\n".join(lines)


def op_table() -> str:
    """The table of ops that torch cannot have; without the numbers of lines, which change with every edit of a spec."""
    from anyshape.torch import ops

    refused = {name: re.sub(r"(specs/\w+\.yaml):\d+", r"\1", why) for name, why in ops.refused().items()}
    lines = [
        f"Of {len(ops.VARIANTS)} ops, {len(ops.OPERATORS)} are operators of torch, and {len(refused)} are refused.",
        "",
        "| refused | because |",
        "|---|---|",
        *(f"| [{name}](ops/{name}.md) | {why} |" for name, why in refused.items()),
        "",
    ]
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES = {"core ATen": table, "ops": op_table}
"""The tables of the page, by the names in their marks"""


def between(name: str, text: str) -> str:
    """A table between its marks."""
    return f"<!-- {name}: begin -->\n{text}<!-- {name}: end -->\n"


def write(path: Path) -> None:
    """Writes the tables into a page, between their marks."""
    text = path.read_text()
    for name, of in TABLES.items():
        pattern = re.compile(between(re.escape(name), ".*?"), re.S)
        text = pattern.sub(lambda _, name=name, of=of: between(name, of()), text)
    path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
