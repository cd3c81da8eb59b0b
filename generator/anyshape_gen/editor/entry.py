"""Finds the names that an op declares, and the functions of files: by patterns, so that an unfinished text has names too.

In: the lines of a spec. Out: a `Declared` for each name, with its declaration and its place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from anyshape_gen.editor.cursor import KEY
from anyshape_gen.model.functions import FUNCTIONS

_QUOTED = re.compile(r"""(\w+)\s*:\s*(?:"([^"\n]*)|'([^'\n]*)|([^\s"'{}\[][^\n}]*))""")
_PARAM = re.compile(r"(\w+)\s*:\s*(\{[^}]*\}?|\[[^\]]*\]?|[^\s,{}\[]+)")
_FUNCTION = re.compile(r"\bdef\s+(\w+)\s*\(([^)\n]*)\)?")
_ASSIGNED = re.compile(
    r"^[ \t]*(?:if[^:\n]*:|else[^:\n]*:)?[ \t]*(\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*(?:[-+*]|//)?=(?!=)", re.MULTILINE
)
_DEFINED = re.compile(
    r"^[ \t]*(?:if[^\n]*?:|else[^:\n]*:)?[ \t]*(\w+)((?:\[[^\]\n]*\])+)[ \t]*(?::[^=\n]*)?(?:[-+*]|//)?=(?!=)",
    re.MULTILINE,
)
_ITERATED = re.compile(
    r"\bfor\s+(\*?\w+(?:\s*,\s*\*?\w+)*)\s+in\s+((?:range\([^)\n]*\)|[\w.]+(?:\([^)\n]*\))?)(?:\s*[-+]\s*\w+)?)"
)


class What(StrEnum):
    """What a name stands for."""

    INPUT = "input"
    OUTPUT = "output"
    PARAM = "parameter"
    DIM = "dim"
    RUN = "run of dims"
    DTYPE = "dtype variable"
    LOCAL = "name of the rule"
    TENSOR = "intermediate tensor"
    VARIABLE = "variable"
    FUNCTION = "function"
    ORACLE = "oracle"


WITHIN = (What.LOCAL, What.TENSOR, What.VARIABLE)
"""What is known within a rule or a body alone"""


@dataclass(frozen=True)
class Declared:
    """A name that a spec declares."""

    name: str
    what: What
    text: str
    """the declaration"""
    line: int
    column: int
    """counted from 0, like the line"""


@dataclass(frozen=True)
class _Section:
    """The value of a key, with the places of its characters."""

    text: str
    line: int
    starts: tuple[int, ...]
    """the beginning of each line in `text`"""

    @staticmethod
    def of(lines: Sequence[str], first: int, last: int, column: int) -> _Section:
        pieces = [" " * column + lines[first][column:], *lines[first + 1 : last]]
        starts = [0]
        for piece in pieces[:-1]:
            starts.append(starts[-1] + len(piece) + 1)
        return _Section("\n".join(pieces), first, tuple(starts))

    def declared(self, name: str, what: What, text: str, offset: int) -> Declared:
        row = bisect_right(self.starts, offset) - 1
        return Declared(name, what, " ".join(text.split()), self.line + row, offset - self.starts[row])


def entries(lines: Sequence[str], section: str) -> dict[str, tuple[int, int]]:
    """The entries of a section of the file, `ops` or `families`: the range of the lines of each."""
    ranges: dict[str, tuple[int, int]] = {}
    for name, first, last, _ in _children(lines, 0, len(lines), -1):
        if name == section:
            ranges |= {entry: (a, b) for entry, a, b, _ in _children(lines, first + 1, last, _indent(lines[first]))}
    return ranges


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _children(lines: Sequence[str], first: int, last: int, above: int) -> Iterator[tuple[str, int, int, int]]:
    """The keys one level below: name, first line, the line after the last, the column behind the colon."""
    indent: int | None = None
    current: tuple[str, int, int] | None = None
    for k in range(first, last):
        text = lines[k]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        depth = _indent(text)
        if depth <= above:
            break
        match = KEY.match(text)
        if indent is None and match is not None and match["dash"] is None:
            indent = depth
        if depth == indent and match is not None and match["dash"] is None:
            if current is not None:
                yield current[0], current[1], k, current[2]
            current = match["key"].strip("\"'"), k, match.end()
    else:
        k = last
    if current is not None:
        yield current[0], current[1], k, current[2]


def declared(lines: Sequence[str], section: str, op: str) -> list[Declared]:
    """The names that an op or a family declares, and those of the families that it is of."""
    levels: list[Mapping[str, _Section]] = []
    seen = set()
    while op not in seen and (place := entries(lines, section).get(op)) is not None:
        seen.add(op)
        first, last = place
        keys = _children(lines, first + 1, last, _indent(lines[first]))
        levels.append({key: _Section.of(lines, a, b, column) for key, a, b, column in keys})
        family = levels[-1].get("family")
        section, op = "families", family.text.split("#")[0].strip() if family is not None else ""
    kept: dict[str, Declared] = {}
    for key, read in _READERS.items():
        for sections in levels:
            for name in read(sections[key]) if key in sections else ():
                kept.setdefault(name.name, name)
    return [*kept.values()]


def _tensors(section: _Section, what: What) -> Iterator[Declared]:
    pieces: list[Declared] = []
    for match in _QUOTED.finditer(section.text):
        text = match[2] or match[3] or match[4] or ""
        at = max(match.start(k) for k in (2, 3, 4))
        yield section.declared(match[1], what, f"{match[1]}: {text}", match.start(1))
        pieces += _pieces(section, match[1], text, at)
    yield from pieces


def _pieces(section: _Section, tensor: str, text: str, at: int) -> Iterator[Declared]:
    """The names in a signature: its dtype, its dims, its variables."""
    head = re.match(r"\s*(?:seq\s+)?(\w+)\s*\[", text)
    if head is None:
        return
    if not re.fullmatch(r"[a-z]+\d*\w*", head[1]):
        yield section.declared(head[1], What.DTYPE, f"the dtype of {tensor}: {text}", at + head.start(1))
    body, _, rest = text[head.end() :].partition("] for ")
    for match in re.finditer(r"(?<![\w.@:])(\*?)\s*([A-Za-z_]\w*)(?!\w|\s*\()", body.split("]=")[0]):
        before = body[: match.start()].rstrip()
        if not before.endswith(("@", ":")) and match[2] not in FUNCTIONS:
            what = What.RUN if match[1] and not before.endswith(tuple("0123456789)")) else What.DIM
            yield section.declared(match[2], what, f"{tensor}: {text}", at + head.end() + match.start(2))
    variable = re.match(r"(\w+)\s+in\s+(\w+)?", rest)
    if variable is not None:
        begin = at + head.end() + len(body) + len("] for ")
        yield section.declared(variable[1], What.VARIABLE, f"the number of a tensor of {tensor}: {text}", begin)
        if variable[2] and not variable[2].isdigit():
            yield section.declared(
                variable[2], What.DIM, f"how many tensors {tensor} has: {text}", begin + variable.start(2)
            )


def _params(section: _Section) -> Iterator[Declared]:
    if section.text.lstrip().startswith("{"):
        for match in _PARAM.finditer(section.text):
            yield section.declared(match[1], What.PARAM, f"{match[1]}: {match[2]}", match.start(1))
        return
    lines = section.text.split("\n")
    for name, first, last, column in _children(lines, 1, len(lines), 0):
        value = "\n".join([lines[first][column:], *lines[first + 1 : last]])
        offset = section.starts[first] + lines[first].index(name)
        yield section.declared(name, What.PARAM, f"{name}: {value}", offset)


def functions(section: _Section, what: What = What.FUNCTION) -> Iterator[Declared]:
    """The functions that a block of code defines."""
    for match in _FUNCTION.finditer(section.text):
        yield section.declared(match[1], what, f"{match[1]}({match[2]})", match.start(1))


def _line_at(section: _Section, offset: int) -> str:
    end = section.text.find("\n", offset)
    return section.text[section.text.rfind("\n", 0, offset) + 1 : len(section.text) if end < 0 else end]


def _locals(section: _Section) -> Iterator[Declared]:
    for match in _ASSIGNED.finditer(_unquoted(section.text)):
        for name in re.finditer(r"\w+", match[1]):
            offset = match.start(1) + name.start()
            if not name[0].isdigit():
                yield section.declared(name[0], What.LOCAL, _line_at(section, offset), offset)


def _tensors_of_kernel(section: _Section) -> Iterator[Declared]:
    for match in _DEFINED.finditer(_unquoted(section.text)):
        line = _line_at(section, match.start(1))
        yield section.declared(match[1], What.TENSOR, line, match.start(1))
        for name in re.finditer(r"(?<![\w.])[A-Za-z_]\w*(?!\w|\s*[(\[])", match[2]):
            if name[0] not in FUNCTIONS:
                yield section.declared(name[0], What.VARIABLE, line, match.start(2) + name.start())


def _unquoted(text: str) -> str:
    """Replaces the quote with which a value of one line begins by a blank."""
    return re.sub(r"""^(\s*)["']""", r"\1 ", text)


def _variables(section: _Section) -> Iterator[Declared]:
    for match in _ITERATED.finditer(section.text):
        for name in re.finditer(r"[A-Za-z_]\w*", match[1]):
            yield section.declared(
                name[0], What.VARIABLE, f"for {match[1]} in {match[2]}", match.start(1) + name.start()
            )


def of_file(lines: Sequence[str]) -> list[Declared]:
    """The functions and oracles of a file."""
    blocks = {"define": What.FUNCTION, "library": What.FUNCTION, "terms": What.FUNCTION, "oracles": What.ORACLE}
    known: list[Declared] = []
    for key, first, last, column in _children(lines, 0, len(lines), -1):
        if key in blocks:
            known += functions(_Section.of(lines, first, last, column), blocks[key])
    return known


def _body(section: _Section) -> Iterator[Declared]:
    yield from _tensors_of_kernel(section)
    yield from _locals(section)
    yield from _variables(section)


def _rule(section: _Section) -> Iterator[Declared]:
    yield from _locals(section)
    yield from _variables(section)


_READERS: Mapping[str, Callable[[_Section], Iterator[Declared]]] = {
    "params": _params,
    "inputs": partial(_tensors, what=What.INPUT),
    "outputs": partial(_tensors, what=What.OUTPUT),
    "define": functions,
    "shape": _rule,
    "kernel": _body,
    "procedure": _body,
    "compose": _body,
}
"""What reads the names in the value of each key; of two declarations of a name the first is the one that defines it"""
