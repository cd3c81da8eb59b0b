"""Texts with the place of each character in a file.

In: strings with positions, from `yaml_source`. Out: pieces of them, also with positions, so that a parser of a language
inside a YAML scalar reports the right column, whatever the quoting and indentation.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape_gen.model.source import Span


@dataclass(frozen=True)
class Text:
    """A string and the (line, col) of every character, and of its end."""

    value: str
    file: str
    places: tuple[tuple[int, int], ...]

    @classmethod
    def plain(cls, value: str, file: str = "<text>", line: int = 1, col: int = 1) -> Text:
        """Makes a text of consecutive characters of one line of a file."""
        places = []
        for char in value:
            places.append((line, col))
            line, col = (line + 1, 1) if char == "\n" else (line, col + 1)
        return cls(value, file, (*places, (line, col)))

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """Returns the place of value[start:end], cut to its first line."""
        end = len(self.value) if end is None else end
        line, col = self.places[min(start, len(self.value))]
        last = start
        while last < end and last < len(self.value) and self.places[last][0] == line and self.value[last] != "\n":
            last += 1
        stop = self.places[last - 1][1] + 1 if last > start else col
        return Span(self.file, line, col, max(stop, col + 1))

    def cut(self, start: int, end: int | None = None) -> Text:
        """Cuts out value[start:end], without white space around it."""
        end = len(self.value) if end is None else end
        while start < end and self.value[start].isspace():
            start += 1
        while end > start and self.value[end - 1].isspace():
            end -= 1
        return Text(self.value[start:end], self.file, self.places[start : end + 1])

    def followed_by(self, other: Text) -> Text:
        """Joins the lines of this text and those of another."""
        first = self.cut(0)
        return Text(f"{first.value}\n{other.value}", self.file, (*first.places, *other.places))

    def masked(self, start: int, end: int) -> Text:
        """Replaces value[start:end] by blanks."""
        return self.replaced(start, end, " " * (end - start))

    def replaced(self, start: int, end: int, new: str) -> Text:
        """Replaces value[start:end] by as many other characters."""
        assert len(new) == end - start
        return Text(self.value[:start] + new + self.value[end:], self.file, self.places)

    def offset(self, line: int, byte_col: int) -> int:
        """Converts a position of Python's `ast`, with lines from 1 and columns in bytes, into an index."""
        lines = self.value.split("\n")
        start = sum(len(text) + 1 for text in lines[: line - 1])
        here = lines[line - 1] if line <= len(lines) else ""
        return start + len(here.encode()[:byte_col].decode(errors="ignore"))


def split_top(text: Text, separator: str) -> list[Text]:
    """Splits a text at separators outside brackets and quotes; empty parts are kept."""
    parts, start = [], 0
    for at in top_level(text.value, separator):
        parts.append(text.cut(start, at))
        start = at + len(separator)
    return [*parts, text.cut(start)]


def top_level(value: str, mark: str) -> list[int]:
    """Returns the positions of `mark` outside brackets and quotes."""
    positions: list[int] = []
    depth, quote, at = 0, "", 0
    while at < len(value):
        char = value[at]
        if quote:
            quote = "" if char == quote else quote
        elif depth == 0 and value.startswith(mark, at):
            positions.append(at)
            at += len(mark)
            continue
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        at += 1
    return positions
