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


@contextmanager
def collecting(findings: Findings) -> Iterator[None]:
    """Turns NotExecuted into a finding, so that the next op is still looked at."""
    try:
        yield
    except NotExecuted as e:
        findings.add(e.span, f"{e.what} is not in the language")
