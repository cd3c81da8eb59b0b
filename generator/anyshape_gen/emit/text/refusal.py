"""Exceptions for expressions that parse, but have no meaning in an equation, a rule or a mapping; collected, so that all are reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape_gen.model.nodes import Node
from anyshape_gen.model.source import Findings, Span


class NotExecuted(Exception):
    """Raised for an expression that parses, but has no meaning at its place."""

    def __init__(self, node: Node | Span, what: str) -> None:
        super().__init__(what)
        self.span = node if isinstance(node, Span) else node.span
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is not in the language"


class Misused(NotExecuted):
    """Raised for an expression whose misuse is detected only when code is emitted."""

    def __str__(self) -> str:
        return self.what


@contextmanager
def collecting(findings: Findings) -> Iterator[None]:
    """Turns NotExecuted into a finding, so that other ops are still checked."""
    try:
        yield
    except NotExecuted as e:
        findings.add(e.span, str(e))
