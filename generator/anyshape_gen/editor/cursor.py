"""Finds where in a spec the cursor is: under which keys, at a key or in a value, on which word.

In: the lines of any text, whole or half-written, and a place in it. Out: a `Cursor`. Only indentation, brackets and quotes are read, so
that no error of the text matters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

KEY = re.compile(r"^(?P<indent>\s*)(?P<dash>-\s+)?(?P<key>[\w.:/-]+|\"[^\"]*\"|'[^']*')\s*:(?=\s|$)")
BLOCK = re.compile(r"^[|>][+-]?\d?\s*(#.*)?$")
WORD = re.compile(r"\w+")
MOST_CHARACTERS = 100_000
"""How far back from the cursor a value in brackets is read"""


@dataclass(frozen=True)
class Cursor:
    """A place in a spec."""

    path: tuple[str, ...]
    """the keys from the root to the value that the cursor is in; `[]` stands for an item of a list"""
    at_key: bool
    """whether a key of the mapping at `path` is written here"""
    in_comment: bool
    word: str
    """the word at the cursor; empty where there is none"""
    start: int
    """the column at which the word begins, from 0"""

    @property
    def op(self) -> str | None:
        """The op or family that the cursor is in."""
        return self.path[1] if len(self.path) > 1 and self.path[0] in ("ops", "families") else None

    @property
    def key(self) -> str | None:
        """The key of the op that the cursor is under."""
        return self.path[2] if self.op is not None and len(self.path) > 2 else None


@dataclass(frozen=True)
class _Open:
    """A key of block style whose value may reach to the cursor."""

    indent: int
    key: str
    line: int
    value: int
    """the column after its colon"""
    is_block: bool


def cursor(lines: Sequence[str], line: int, column: int) -> Cursor:
    """The cursor at a line and a column, both from 0; places outside of the text are moved into it."""
    lines = lines or [""]
    line = max(0, min(line, len(lines) - 1))
    text = lines[line]
    column = max(0, min(column, len(text)))
    word, start = _word(text, column)
    stack = _stack(lines, line)
    if not text.strip():  # whatever is written here is indented as the cursor is
        while stack and stack[-1].indent >= column:
            stack.pop()
    own = KEY.match(text)
    if own is not None and column < own.end() and stack and stack[-1].line == line:
        return Cursor(_keys(stack[:-1]), True, False, word, start)
    if stack and stack[-1].is_block:
        return Cursor(_keys(stack), False, _comment(text[:column]), word, start)
    begin = (stack[-1].line, stack[-1].value) if stack else (line, 0)
    if begin[0] < line and _is_empty(lines[begin[0]][begin[1] :]):
        items = [k for k in range(begin[0] + 1, line + 1) if lines[k].lstrip().startswith("-")]
        begin = (items[-1] if items else line, 0)
        if not items:
            indent = len(text) - len(text.lstrip()) if text.strip() else column
            stack = [entry for entry in stack if entry.indent < indent]
            return Cursor(_keys(stack), True, _comment(text[:column]), word, start)
    inner, at_key, in_comment = _inside(_text_between(lines, begin, (line, column)))
    return Cursor((*_keys(stack), *inner), at_key or not stack, in_comment, word, start)


def _keys(stack: Sequence[_Open]) -> tuple[str, ...]:
    return tuple(entry.key for entry in stack)


def _is_empty(value: str) -> bool:
    return not value.strip() or value.strip().startswith("#")


def _word(text: str, column: int) -> tuple[str, int]:
    for match in WORD.finditer(text):
        if match.start() <= column <= match.end():
            return match[0], match.start()
    return "", column


def _stack(lines: Sequence[str], last: int) -> list[_Open]:
    """The keys of block style around a line, its own among them."""
    stack: list[_Open] = []
    for number in range(last + 1):
        text = lines[number]
        indent = len(text) - len(text.lstrip())
        if not text.strip():
            continue
        if stack and stack[-1].is_block and indent > stack[-1].indent:
            continue
        while stack and (
            indent < stack[-1].indent or (indent == stack[-1].indent and not text.lstrip().startswith("#"))
        ):
            stack.pop()
        match = KEY.match(text)
        if match is None or text.lstrip().startswith("#"):
            continue
        if match["dash"] is not None:
            stack.append(_Open(indent, "[]", number, match.start("key"), False))
            indent = match.start("key")
        is_block = BLOCK.match(text[match.end() :].strip()) is not None
        stack.append(_Open(indent, match["key"].strip("\"'"), number, match.end(), is_block))
    return stack


def _text_between(lines: Sequence[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    if begin[0] == end[0]:
        return lines[end[0]][begin[1] : end[1]]
    pieces = [lines[begin[0]][begin[1] :], *lines[begin[0] + 1 : end[0]], lines[end[0]][: end[1]]]
    return "\n".join(pieces)[-MOST_CHARACTERS:]


def _inside(value: str) -> tuple[tuple[str, ...], bool, bool]:
    """The keys of the brackets that a value leaves open, whether a key is next, and whether its end is in a comment."""
    keys: list[str] = []
    waiting: list[bool] = []
    """whether a key comes next, of each open bracket"""
    word, quote, k = "", "", 0
    while k < len(value):
        char = value[k]
        if quote:
            quote = "" if char == quote else quote
            word += char
        elif char in "'\"" and not word.strip():
            quote, word = char, ""
        elif char == "#" and (k == 0 or value[k - 1].isspace()):
            end = value.find("\n", k)
            if end < 0:
                return _closed(keys, waiting, True)
            k = end
        elif char == "-" and not word.strip() and not waiting and value[k + 1 : k + 2].isspace():
            keys[:], waiting[:] = ["[]"], [False]  # an item of a list of block style
        elif char in "{[":
            keys.append("" if char == "{" else "[]")
            waiting.append(char == "{")
            word = ""
        elif char in "}]":
            if waiting:
                keys.pop(), waiting.pop()
            word = ""
        elif char == ":" and waiting and waiting[-1] and value[k + 1 : k + 2].isspace() | (k + 1 == len(value)):
            keys[-1], waiting[-1], word = word.strip().strip("\"'"), False, ""
        elif char == "," and waiting:
            if keys[-1] != "[]":
                keys[-1], waiting[-1] = "", True
            word = ""
        else:
            word += char
        k += 1
    return _closed(keys, waiting, False)


def _closed(keys: list[str], waiting: list[bool], in_comment: bool) -> tuple[tuple[str, ...], bool, bool]:
    at_key = bool(waiting) and waiting[-1]
    return tuple(key for key in keys if key), at_key, in_comment


def _comment(text: str) -> bool:
    """Whether the end of a line of code is in a comment."""
    quote = ""
    for k, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (k == 0 or text[k - 1].isspace()):
            return True
    return False
