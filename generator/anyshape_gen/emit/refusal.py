"""What has the form of an expression, and no meaning in an equation, a rule or a mapping; collected, so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape_gen.nodes import Node
from anyshape_gen.source import Findings, Span


class NotExecuted(Exception):
    """An expression that the parser takes and the language has no meaning for at its place."""

    def __init__(self, node: Node | Span, what: str) -> None:
        super().__init__(what)
        self.span = node if isinstance(node, Span) else node.span
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is not in the language"


class Misused(NotExecuted):
    """What the language cannot say, and shows only where code is written."""

    def __str__(self) -> str:
        return self.what


@contextmanager
def collecting(findings: Findings) -> Iterator[None]:
    """Turns NotExecuted into a finding, so that the next op is still looked at."""
    try:
        yield
    except NotExecuted as e:
        findings.add(e.span, str(e))
