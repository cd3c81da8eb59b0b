"""Text that knows where each of its characters stands in a file.

In: strings with positions, made by `yaml_source`. Out: pieces of them, still with positions, so that a parser of any
small language inside a YAML scalar can point at the right column whatever the quoting and indentation.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape_gen.source import Span


@dataclass(frozen=True)
class Text:
    """A string and the (line, col) of every character, and of its end."""

    value: str
    file: str
    places: tuple[tuple[int, int], ...]

    @classmethod
    def plain(cls, value: str, file: str = "<text>", line: int = 1, col: int = 1) -> Text:
        """Text that stands in a file just as it is."""
        places = []
        for char in value:
            places.append((line, col))
            line, col = (line + 1, 1) if char == "\n" else (line, col + 1)
        return cls(value, file, (*places, (line, col)))

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The place of value[start:end], cut to its first line."""
        end = len(self.value) if end is None else end
        line, col = self.places[min(start, len(self.value))]
        last = start
        while last < end and last < len(self.value) and self.places[last][0] == line and self.value[last] != "\n":
            last += 1
        stop = self.places[last - 1][1] + 1 if last > start else col
        return Span(self.file, line, col, max(stop, col + 1))

    def cut(self, start: int, end: int | None = None) -> Text:
        """value[start:end] without white space around it."""
        end = len(self.value) if end is None else end
        while start < end and self.value[start].isspace():
            start += 1
        while end > start and self.value[end - 1].isspace():
            end -= 1
        return Text(self.value[start:end], self.file, self.places[start : end + 1])

    def followed_by(self, other: Text) -> Text:
        """The lines of this text, then those of another."""
        first = self.cut(0)
        return Text(f"{first.value}\n{other.value}", self.file, (*first.places, *other.places))

    def masked(self, start: int, end: int) -> Text:
        """The same text with blanks at value[start:end]."""
        return self.replaced(start, end, " " * (end - start))

    def replaced(self, start: int, end: int, new: str) -> Text:
        """The same text with as many other characters at value[start:end]."""
        assert len(new) == end - start
        return Text(self.value[:start] + new + self.value[end:], self.file, self.places)

    def offset(self, line: int, byte_col: int) -> int:
        """The index of a position of Python's `ast`: lines from 1, columns in bytes."""
        lines = self.value.split("\n")
        start = sum(len(text) + 1 for text in lines[: line - 1])
        here = lines[line - 1] if line <= len(lines) else ""
        return start + len(here.encode()[:byte_col].decode(errors="ignore"))


def split_top(text: Text, separator: str) -> list[Text]:
    """Parts between separators outside brackets and quotes; empty parts are kept."""
    parts, start = [], 0
    for at in top_level(text.value, separator):
        parts.append(text.cut(start, at))
        start = at + len(separator)
    return [*parts, text.cut(start)]


def top_level(value: str, mark: str) -> list[int]:
    """Where `wanted` begins outside brackets and quotes."""
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
