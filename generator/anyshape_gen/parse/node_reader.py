"""Reads the shapes of YAML: mappings, lists and texts, each with a finding where another is found.

In: nodes. Out: entries, items and texts; none where the node is missing or is something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from anyshape_gen.model.source import Findings
from anyshape_gen.parse.keys import Key, names
from anyshape_gen.parse.text import Text
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar, YSeq

T = TypeVar("T")


@dataclass(frozen=True)
class NodeReader:
    """Reads nodes of one file, and adds to its findings."""

    findings: Findings

    def known_keys(self, node: YMap, keys: tuple[Key, ...], where: str) -> None:
        for key, _ in node.entries:
            if key.text.value not in names(keys):
                self.findings.unknown(key.span, "key", key.text.value, names(keys), f" in {where}")

    def entries(self, node: YNode | None) -> tuple[tuple[YScalar, YNode], ...]:
        """Returns the entries of a mapping; none where the node is missing."""
        if isinstance(node, YMap):
            return node.entries
        if node is not None and not (isinstance(node, YScalar) and not node.text.value):
            self.findings.add(node.span, "a mapping is expected here")
        return ()

    def items(self, node: YNode | None) -> tuple[YNode, ...]:
        if isinstance(node, YSeq):
            return node.items
        if node is not None:
            self.findings.add(node.span, "a list is expected here")
        return ()

    def text(self, node: YNode | None) -> Text | None:
        if isinstance(node, YScalar):
            return node.text
        if node is not None:
            self.findings.add(node.span, "a text is expected here")
        return None

    def parsed(self, node: YNode | None, parse: Callable[[Text, Findings], T]) -> T | None:
        text = self.text(node)
        return None if text is None else parse(text, self.findings)
