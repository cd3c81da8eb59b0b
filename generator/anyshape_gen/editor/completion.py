"""What may be written at the cursor: keys of the language, words of a value, and in code the names in scope and functions.

In: the lines of a spec and a place, and the texts of the folder. Out: suggestions, of which the editor shows those that begin as the
word at the cursor does. Every text has an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from anyshape_gen.editor.cursor import Cursor, cursor
from anyshape_gen.editor.entry import WITHIN, Declared, What, declared, entries, of_file
from anyshape_gen.editor.function_docs import FUNCTION_DOCS
from anyshape_gen.editor.vocabulary import KERNEL, KEYWORDS, MAPPING, PYTHON, RULE, code_at, keys_at, words_at
from anyshape_gen.model.functions import ALLOWED, CONSTANTS, FUNCTIONS, LIST_FUNCTIONS


class Sort(StrEnum):
    """What a suggestion is, which an editor shows as a picture."""

    KEY = "key"
    WORD = "word"
    NAME = "name"
    FUNCTION = "function"
    OP = "op"
    MODULE = "module"


@dataclass(frozen=True)
class Suggestion:
    """Something that may be written at the cursor."""

    label: str
    sort: Sort
    detail: str = ""
    doc: str = ""


def suggestions(lines: Sequence[str], line: int, column: int, contents: Mapping[str, str]) -> list[Suggestion]:
    """The suggestions for a place. `contents`: the texts of the folder, for functions of libraries and names of ops."""
    at = cursor(lines, line, column)
    if at.in_comment:
        return []
    own = declared(lines, at.path[0], at.op) if at.op is not None else []
    known: dict[str, Suggestion] = {}
    for one in _keys(at, own) if at.at_key else _values(at, own, lines, contents):
        known.setdefault(one.label, one)
    return [*known.values()]


def _keys(at: Cursor, own: Sequence[Declared]) -> Iterator[Suggestion]:
    for key in keys_at(at.path):
        yield Suggestion(key.name, Sort.KEY, "key", key.doc)
    tensors = [n for n in own if n.what in (What.INPUT, What.OUTPUT)]
    match at.path:
        case (_, _, "examples", "[]"):
            yield from map(_name, [*tensors, *(n for n in own if n.what is What.PARAM)])
        case (_, _, "view"):
            yield from map(_name, (n for n in tensors if n.what is What.OUTPUT))
        case (_, _, "layout"):
            yield from map(_name, tensors)
        case (_, _, "dtypes"):
            yield from map(_name, (n for n in own if n.what is What.DTYPE))


def _name(name: Declared) -> Suggestion:
    return Suggestion(
        name.name, Sort.FUNCTION if name.what in (What.FUNCTION, What.ORACLE) else Sort.NAME, name.what, name.text
    )


def _values(
    at: Cursor, own: Sequence[Declared], lines: Sequence[str], contents: Mapping[str, str]
) -> Iterator[Suggestion]:
    yield from (Suggestion(word, Sort.WORD) for word in words_at(at.path))
    match at.path:
        case ("ops" | "families", _, "family"):
            yield from (Suggestion(family, Sort.NAME, "family") for family in entries(lines, "families"))
        case ("ops" | "families", _, "view", _):
            yield from map(_name, (n for n in own if n.what is What.INPUT))
    code = code_at(at.path)
    if code is None:
        return
    yield from map(_name, _in_scope(at, own, code))
    here = of_file(lines)
    if code == PYTHON:
        yield from map(_name, (n for n in here if n.what is What.ORACLE))
        yield from (Suggestion(module, Sort.MODULE) for module in ("np", "scipy"))
        return
    yield from map(_name, (n for n in here if n.what is What.FUNCTION))
    yield from map(_name, _library(contents))
    yield from (Suggestion(word, Sort.WORD) for word in (*KEYWORDS, *CONSTANTS))
    if code == MAPPING:
        yield from (Suggestion(name, Sort.FUNCTION, "function of lists") for name in LIST_FUNCTIONS)
        yield from (
            Suggestion(op, Sort.OP, "op") for text in contents.values() for op in entries(text.split("\n"), "ops")
        )
    for name, function in FUNCTIONS.items():
        if code == MAPPING or function.where in ALLOWED[KERNEL if code == KERNEL else RULE]:
            doc = FUNCTION_DOCS[name]
            yield Suggestion(name, Sort.FUNCTION, doc.call, doc.text)


def _in_scope(at: Cursor, own: Sequence[Declared], code: str) -> Iterator[Declared]:
    """The names that code at the cursor may read."""
    if code == PYTHON:
        yield from (n for n in own if n.what in (What.INPUT, What.PARAM))
    elif code == RULE and at.key != "shape":
        yield from (n for n in own if n.what not in WITHIN)
    else:
        yield from (n for n in own if code != RULE or n.what is not What.TENSOR)


def _library(contents: Mapping[str, str]) -> Iterator[Declared]:
    for text in contents.values():
        if "library" in text:
            yield from (n for n in of_file(text.split("\n")) if n.what is What.FUNCTION)
