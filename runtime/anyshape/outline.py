"""Text with indentation as HTML that opens and closes: what notebooks show of executables, reports, explanations and plans.

In: the text that `print` shows. Out: HTML with the same words. A line with deeper lines below it is the summary of these; a notebook
without HTML shows the text. Every character of a text is escaped, since names come from model files.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

MOST_LINES = 500
"""Lines of a text that become HTML, since a notebook stores it; the last one says how many there are beyond."""
_STYLE = "font-family: monospace; white-space: pre-wrap; margin-left: 1em"


class Outline(str):
    """A text by indentation, which a notebook shows as collapsible lines."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return outline(self)


def outline(text: str, *, opened: bool = True) -> str:
    """Makes HTML of a text. `opened`: whether the outermost lines show what is below them."""
    lines = [line for line in text.splitlines() if line.strip()]
    more = len(lines) - MOST_LINES
    if more > 0:
        lines[MOST_LINES:] = [f"… and {more} more lines, which print shows"]
    return "".join(_items([(_depth(line), line.strip()) for line in lines], opened))


def section(summary: str, body: str, *, opened: bool = False) -> str:
    """Makes a line that shows a body of HTML when it is opened."""
    attribute = " open" if opened else ""
    return f'<details style="{_STYLE}"{attribute}><summary>{escape(summary)}</summary>{body}</details>'


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _items(lines: Sequence[tuple[int, str]], opened: bool) -> list[str]:
    """Makes HTML of lines, of which one begins an item that the deeper ones after it are below."""
    items, at = [], 0
    while at < len(lines):
        depth, line = lines[at]
        end = at + 1
        while end < len(lines) and lines[end][0] > depth:
            end += 1
        if end == at + 1:
            items.append(f'<div style="{_STYLE}">{escape(line)}</div>')
        else:
            items.append(section(line, "".join(_items(lines[at + 1 : end], False)), opened=opened))
        at = end
    return items
