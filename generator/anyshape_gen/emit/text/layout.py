"""Breaks long lines of Python as a formatter does, so that generated files are formatted.

In: a statement as one line. Out: lines of at most WIDTH columns. Breaks only inside brackets, at commas first, then at
`for`, `if`, `else`, operators and between adjacent strings.
"""

from __future__ import annotations

import re
from functools import lru_cache

WIDTH = 120
_OPEN, _CLOSE = "([{", ")]}"
_STRING = r"""(?<![^\W_])[fr]{0,2}(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_TOKEN = re.compile(rf"{_STRING}|[][(){{}} ,:l]")
"""Strings, and the characters that decide where a line can be broken; `l` is the first character of `lambda`."""
_WEAK_BREAKS = (" for ", " if ", " else ", " + ", " * ", '" f"', '" "')


def layout(text: str, indent: int = 0) -> list[str]:
    """Lays out a statement, indented by `indent` columns, on one or more lines."""
    pad = " " * indent
    if indent + len(text) <= WIDTH:
        return [pad + text]
    pair = _widest_brackets(text)
    if pair is None or pair[1] - pair[0] < 20:
        wrapped = _parenthesised(text)
        return layout(wrapped, indent) if wrapped else [pad + text]
    start, end = pair
    head, body, tail = text[: start + 1], text[start + 1 : end], text[end:]
    inner = indent + 4
    items = _split(body, ",")
    if len(items) == 1 or (inner + len(body) <= WIDTH and head[-1] != "{"):
        lines = _inside(body.strip(), inner)
    else:
        lines = []
        for item in items:
            lines += _inside(item.strip() + ",", inner)
    if indent + len(tail) > WIDTH and len(tail) > 1:  # the text after the brackets, which may be a call's arguments
        rest = layout(tail[1:], indent)
        return [pad + head, *lines, pad + tail[0] + rest[0].removeprefix(pad), *rest[1:]]
    return [pad + head, *lines, pad + tail]


def _inside(text: str, indent: int) -> list[str]:
    """Lays out one item within brackets, where a line may end anywhere."""
    if indent + len(text) <= WIDTH:
        return [" " * indent + text]
    for mark in _WEAK_BREAKS:
        at = [k for k in _positions(text, mark) if k > 0]
        if at:
            lines, start = [], 0
            for k in [*at, len(text)]:
                skip = 1 if mark != '" f"' and mark != '" "' else 2
                piece = text[start : k + skip - 1] if k < len(text) else text[start:]
                lines += _bracketed(piece.strip(), indent)
                start = k + skip - 1
            return lines
    return _bracketed(text, indent)


def _bracketed(text: str, indent: int) -> list[str]:
    return layout(text, indent) if _widest_brackets(text) else [" " * indent + text]


def _parenthesised(text: str) -> str | None:
    for mark in ("return ", ""):
        if mark and text.startswith(mark):
            return f"{mark}({text[len(mark) :]})"
    # Outside strings only: a summary can have "a = b".
    at = next((k for k, c, depth in _tokens(text) if c == " " and depth == 0 and text.startswith(" = ", k)), -1)
    value = text[at + 3 :]
    if at < 0 or value.startswith("("):
        return None
    return f"{text[: at + 3]}({value})"


@lru_cache(maxsize=64)
def _tokens(text: str) -> tuple[tuple[int, str, int], ...]:
    """Returns (position, character, depth) of each token, a string as "s"; the depth of a bracket is that of the text around it."""
    tokens = []
    depth = 0
    for match in _TOKEN.finditer(text):
        c = match.group()
        depth -= c in _CLOSE
        tokens.append((match.start(), c if len(c) == 1 else "s", depth))
        depth += c in _OPEN
    return tuple(tokens)


def _widest_brackets(text: str) -> tuple[int, int] | None:
    """Returns the outermost pair of brackets with the longest text in it."""
    pairs: list[tuple[int, int]] = []
    start = -1
    for k, c, depth in _tokens(text):
        if depth == 0 and c in _OPEN:
            start = k
        elif depth == 0 and c in _CLOSE and k - start > 1:
            pairs.append((start, k))
    return max(pairs, key=lambda p: (p[1] - p[0], p), default=None)


def _split(text: str, separator: str) -> list[str]:
    """Splits a text at separators outside brackets and strings; parameters of a lambda are not split, nor is a generator,
    which without brackets of its own is the only argument of a call."""
    if any(c == " " and depth == 0 and text.startswith(" for ", k) for k, c, depth in _tokens(text)):
        return [text]
    cuts = []
    parameters = False  # of a lambda, whose commas are no separators
    for k, c, depth in _tokens(text):
        if depth == 0:
            parameters = (parameters or (c == "l" and text.startswith("lambda ", k))) and c != ":"
            if c == separator and not parameters:
                cuts.append(k)
    parts = [text[a:b] for a, b in zip([0, *(c + 1 for c in cuts)], [*cuts, len(text)])]
    return [p for p in parts if p.strip()]


def _positions(text: str, mark: str) -> list[int]:
    """Returns the positions at which a line can be broken before `mark` (or between two strings), outside brackets and strings."""
    if mark in ('" f"', '" "'):
        starts = [k for k, c, depth in _tokens(text) if c == "s" and depth == 0]
        return [k - 1 for k in starts[1:] if text[k - 2 : k] == '" ']
    blanks = [k for k, c, depth in _tokens(text) if c == " " and depth == 0 and text.startswith(mark, k)]
    return [k + 1 for k in blanks]
