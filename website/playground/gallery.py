"""Cuts the specs of the gallery's ops out of spec files, each to a file that stands alone.

In: `gallery.yaml`, the folder of specs. Out: for each op its text, without what tests, importers and rewrites read, and its call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from anyshape_gen.memo import Memo
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.parse.library import read_library
from anyshape_gen.parse.load import load_file

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "specs"
KEPT = (
    "family",
    "summary",
    "inputs",
    "params",
    "outputs",
    "layout",
    "dtypes",
    "traits",
    "define",
    "shape",
    "kernel",
    "view",
    "procedure",
)
"""The keys of an op that its definition follows from"""


def gallery() -> list[dict[str, Any]]:
    """The entries of the gallery, each with the text of its spec."""
    entries = yaml.safe_load((HERE / "gallery.yaml").read_text())
    files = {path.name: path.read_text() for path in SPECS.glob("*.yaml")}
    return [{"params": {}, **entry, "spec": _text(entry, files)} for entry in entries]


def _text(entry: Mapping[str, Any], files: Mapping[str, str]) -> str:
    if "spec" in entry:
        return (HERE / entry["spec"]).read_text()
    name = next(name for name, text in files.items() if entry["op"] in _section(text, "ops"))
    findings, memo = Findings(), Memo()
    memo.begin_round(files)
    ops = load_file(name, files[name], findings, read_library(files, findings, memo)).ops
    findings.raise_if_any()
    return cut(next(op for op in ops if op.name == entry["op"]), files[name])


def cut(spec: OpSpec, text: str) -> str:
    """The op's entry, the families that it is of and the file's functions that it calls."""
    families, ops, functions = (_section(text, name) for name in ("families", "ops", "define"))
    called = [f"def {f.name}" for f in spec.defines]
    shared = [line for name, lines in functions.items() if name.split("(")[0] in called for line in lines]
    own = [*_kept(ops[spec.name])]
    above: list[str] = []
    while (family := _family(above or own)) is not None:
        above = [*_kept(families[family]), *above]
    return "\n".join(
        [
            *(["define: |", *shared] if shared else []),
            *(["families:", *above] if above else []),
            "ops:",
            *own,
            "",
        ]
    )


def _section(text: str, name: str) -> dict[str, list[str]]:
    """The entries of a key of the file, by name."""
    return dict(_blocks(dict(_blocks(text.split("\n"), 0)).get(name, ()), 2))


def _family(lines: Sequence[str]) -> str | None:
    """The family that the first entry of the lines is of."""
    entry = [lines[0], *takewhile(lambda s: s.startswith("    "), lines[1:])]
    return next((s.split(":", 1)[1].strip() for s in entry if s.startswith("    family:")), None)


def _kept(lines: Sequence[str]) -> Iterator[str]:
    """An entry without the keys that its definition does not follow from."""
    yield lines[0]
    for name, block in _blocks(lines[1:], 4):
        if name in KEPT:
            yield from block


def _blocks(lines: Sequence[str], indent: int) -> Iterator[tuple[str, list[str]]]:
    """Splits lines by the keys, or definitions, that begin at the indent; comments and blank lines between them are left out."""
    block: list[str] = []
    for line in (line for line in lines if line.strip()):
        begins = len(line) - len(line.lstrip()) == indent
        if begins and line.lstrip().startswith("#"):
            continue
        if begins and line.strip()[0] not in ")]}":
            if block:
                yield _name(block), block
            block = []
        if begins or block:
            block.append(line)
    if block:
        yield _name(block), block


def _name(block: Sequence[str]) -> str:
    return block[0].strip().split(":")[0]
