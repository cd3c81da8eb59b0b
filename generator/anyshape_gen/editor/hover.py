"""What the name at the cursor is: its declaration, what is inferred of it, and where it is declared; documentation of keys and functions.

In: a file of a folder of specs and a place in it. Out: a text in Markdown, or the place of the declaration. Every text has an answer,
which may be none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyshape_gen.editor.cursor import Cursor, cursor
from anyshape_gen.editor.entry import Declared, What, declared, of_file
from anyshape_gen.editor.function_docs import FUNCTION_DOCS
from anyshape_gen.editor.inference import analysed, facts
from anyshape_gen.editor.vocabulary import code_at, keys_at
from anyshape_gen.model.analysis import OpAnalysis

OF_FILES = (What.FUNCTION, What.ORACLE)


@dataclass(frozen=True)
class Hover:
    """A text about the word from `start` on."""

    text: str
    start: int
    end: int


def declaration(path: str, line: int, column: int, contents: Mapping[str, str]) -> tuple[str, Declared] | None:
    """Finds the file and the place in which the name at the cursor is declared."""
    lines = contents.get(path, "").split("\n")
    at = cursor(lines, line, column)
    return None if at.in_comment or not at.word else _declaration(at, path, lines, contents)


def _declaration(
    at: Cursor, path: str, lines: Sequence[str], contents: Mapping[str, str]
) -> tuple[str, Declared] | None:
    if not at.at_key and code_at(at.path) is None:
        return None
    if at.op is not None:
        for name in declared(lines, at.path[0], at.op):
            if name.name == at.word:
                return path, name
    for file in (path, *(other for other, text in contents.items() if "library" in text and other != path)):
        for name in of_file(contents.get(file, "").split("\n")):
            if name.name == at.word and name.what in OF_FILES:
                return file, name
    return None


def hover(
    path: str, line: int, column: int, contents: Mapping[str, str], last: OpAnalysis | None = None
) -> Hover | None:
    """The text about the word at the cursor. `last`: the last analysis of the op, for a text that has errors now."""
    text = contents.get(path, "")
    lines = text.split("\n")
    at = cursor(lines, line, column)
    if at.in_comment or not at.word:
        return None
    shown = _shown(at, path, text, contents, last)
    return None if shown is None else Hover(shown, at.start, at.start + len(at.word))


def _shown(at: Cursor, path: str, text: str, contents: Mapping[str, str], last: OpAnalysis | None) -> str | None:
    if at.at_key:
        doc = next((key.doc for key in keys_at(at.path) if key.name == at.word), None)
        if doc is not None:
            return f"**{at.word}**: {doc}"
    place = _declaration(at, path, text.split("\n"), contents)
    if place is not None:
        file, name = place
        known = last
        if at.op is not None:
            known = analysed(path, text, at.op, contents) or last
        inferred = facts(known, at.word) if known is not None and name.what not in OF_FILES else []
        listed = "".join(f"\n- {fact}" for fact in inferred)
        return f"**{name.name}**: {name.what}\n\n    {name.text}\n{listed}\n\ndeclared at {file}:{name.line + 1}:{name.column + 1}"
    function = FUNCTION_DOCS.get(at.word)
    if function is not None and not at.at_key and code_at(at.path) is not None:
        return f"`{function.call}`\n\n{function.text}"
    return None
