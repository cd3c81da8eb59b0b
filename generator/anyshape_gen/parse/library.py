"""Collects the library: functions of `library:` blocks, which the ops of all spec files may call.

In: the spec texts of a folder. Out: the functions by name, and findings of those that cannot be read or are defined twice. A folder
without a file `library.yaml` has the functions of anyshape's own besides its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cache, partial
from pathlib import Path, PurePosixPath

from anyshape_gen.memo import Memo
from anyshape_gen.model.nodes import Function
from anyshape_gen.model.source import Findings
from anyshape_gen.model.traverse import reachable, walk
from anyshape_gen.parse.load import load_library

FILE = "library.yaml"
SHOWN = f"anyshape/specs/{FILE}"
"""The path of anyshape's own library in messages about other folders"""


@cache
def own_library() -> str:
    """Reads anyshape's own library, which is beside the generator in a wheel, and beside its folder in a checkout."""
    here = Path(__file__).resolve().parents[1]
    return next(p for p in (here / "specs" / FILE, here.parents[1] / "specs" / FILE) if p.is_file()).read_text("utf-8")


def read_library(contents: Mapping[str, str], findings: Findings, memo: Memo) -> dict[str, Function]:
    """Returns the functions of all libraries. Raises SpecError where one cannot be read: its functions could not be found."""
    texts = dict(contents)
    if not any(PurePosixPath(path).name == FILE for path in texts):
        texts[SHOWN] = own_library()
    functions: dict[str, Function] = {}
    for path, text in texts.items():
        if "library" not in text:  # most files have none, and YAML takes long to parse
            continue
        of_file, noted = memo.get(path, ("library", text), (), partial(_loaded, path, text))
        findings.take(noted)
        for f in of_file:
            other = functions.setdefault(f.name, f)
            if other is not f:
                findings.add(f.span, f"the function '{f.name}' of the library is also defined at {other.span}")
    if findings.unreadable:
        findings.raise_if_any()
    return functions


def _loaded(path: str, text: str) -> tuple[tuple[Function, ...], Findings]:
    findings = Findings()
    return load_library(path, text, findings), findings


def dependence(text: str, library: Mapping[str, Function]) -> Hashable:
    """Returns what a loaded spec file depends on: the names of all functions, and those that its text may call, with their places."""
    named = {f.name: f for f in library.values() if f.name in text}
    named |= {f.name: f for f in reachable(named.values(), library)}
    return frozenset(library), tuple((f, *(node.span for node in walk(f))) for f in named.values())
