"""Lines of the answer of `doctor`: what was checked, how it is, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"
    """something optional is not there, or needs attention"""
    ERROR = "error"


@dataclass(frozen=True)
class Line:
    """The result of one check."""

    subject: str
    level: Level
    text: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.level:<8} {self.subject}: {self.text}" + (f"\n{'':8} fix: {self.fix}" if self.fix else "")


def ok(subject: str, text: str) -> Line:
    return Line(subject, Level.OK, text)


def warning(subject: str, text: str, fix: str) -> Line:
    return Line(subject, Level.WARNING, text, fix)


def error(subject: str, text: str, fix: str) -> Line:
    return Line(subject, Level.ERROR, text, fix)


def checked(subject: str, check: Callable[[], Line | Iterable[Line]]) -> Iterator[Line]:
    """The lines of a check. Whatever it raises, of packages that are damaged too, is a line of the answer."""
    try:
        lines = check()
        yield from [lines] if isinstance(lines, Line) else lines
    except Exception as e:
        yield error(subject, f"{type(e).__name__}: {e}", "install what the message names again")
