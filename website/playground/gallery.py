"""Cuts the specs of the gallery's ops out of spec files, each to a file that stands alone.

In: `gallery.yaml`, the folder of specs. Out: for each op its text, without what tests, importers and rewrites read, and its call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from anyshape_gen.analysis import analyse
from anyshape_gen.model.spec import OpSpec

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "specs"
KEPT = ("family", "summary", "inputs", "params", "outputs", "layout", "dtypes", "traits", "define", "shape", "kernel", "view", "procedure")
"""The keys of an op that its definition follows from"""


def gallery() -> list[dict[str, Any]]:
    """The entries of the gallery, each with the text of its spec."""
    entries = yaml.safe_load((HERE / "gallery.yaml").read_text())
    files = {path.stem: path.read_text() for path in SPECS.glob("*.yaml")}
    specs = {a.spec.name: (a.spec, Path(a.file).stem) for a in analyse(_by_path(files), complete=False).ops}
    return [{"params": {}, **entry, "spec": _text(entry, specs, files)} for entry in entries]


def _by_path(files: Mapping[str, str]) -> dict[str, str]:
    return {f"{stem}.yaml": text for stem, text in files.items()}


def _text(entry: Mapping[str, Any], specs: Mapping[str, tuple[OpSpec, str]], files: Mapping[str, str]) -> str:
    if "spec" in entry:
        return (HERE / entry["spec"]).read_text()
    spec, stem = specs[entry["op"]]
    return cut(spec, files[stem])


def cut(spec: OpSpec, text: str) -> str:
    """The op's entry, the families that it is of and the file's functions that it calls."""
    sections = dict(_blocks(text.split("\n"), 0))
    families, ops = (dict(_blocks(sections.get(name, ()), 2)) for name in ("families", "ops"))
    functions = dict(_blocks(sections.get("define", ()), 2))
    called = [f"def {f.name}" for f in spec.defines]
    shared = [line for name, lines in functions.items() if name.split("(")[0] in called for line in lines]
    own = [*_kept(ops[spec.name])]
    above: list[str] = []
    while (family := _family(own if not above else above)) is not None:
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
