"""What the language can say and the emitters do not turn into code; collected, so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape_gen.nodes import Node
from anyshape_gen.source import Findings, Span


class NotExecuted(Exception):
    """A construct that an emitter has no code for."""

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
        findings.add(e.span, f"{e.what} is in the language, but no code is generated for it yet")
