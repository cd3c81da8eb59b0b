"""What an operator of a model stands for: a mapping, a body to inline, or nothing; and, before anything is built, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyshape.errors import ModelError
from anyshape.frontends.onnx import functions
from anyshape.frontends.onnx.control import subgraphs
from anyshape.frontends.onnx.functions import Body
from anyshape.frontends.onnx.mappings import (
    Table,
    find_mapping,
    find_schema,
    known_domains,
    normal_domain,
    why_missing,
)
from anyshape.frontends.onnx.node import Mapping as NodeMapping
from anyshape.frontends.onnx.order import spell_node
from anyshape.frontends.onnx.refusals import Refusal, Refusals, repairable, within

DEEPEST = 64
"""Functions within functions, at most"""

ASSUMED = 1
"""The version of a known domain that a model uses and does not import"""

MOST_INLINED = 100_000
"""Nodes that bodies of functions may add to a model"""


class Resolver:
    """One model's view of the operators. A function of the model goes before a mapping, a mapping before ONNX's own body."""

    def __init__(self, table: Table, local: Mapping[tuple[str, str, str], Body], where: str) -> None:
        self.table, self.local, self.where = table, local, where
        self.known = known_domains(table)
        self.assumed: dict[str, str] = {}
        """Domains that are known and not imported: what was taken for each, in words"""
        self._plain: dict[tuple[str, str, int], Body | None] = {}
        self._lacks: dict[tuple[str, str, str, int], str] = {}
        self._added: dict[tuple[str, str, str, int], int] = {}
        """How many nodes a call adds, those of calls in the body included"""

    def opset(self, node: Any, opsets: Mapping[str, int]) -> int:
        domain = normal_domain(node.domain)
        if domain in opsets:
            return opsets[domain]
        if (domain, node.op_type, node.overload) in self.local:
            return 1
        if domain not in self.known:
            raise ModelError(
                f"{self.where}: {spell_node(node)} is of domain {domain or 'ai.onnx'!r}, of which no opset is imported; "
                "add it to opset_import" + (repairable("takes the newest") if not domain else "")
            )
        self.assumed[domain] = f"no opset of {domain} is imported: version {ASSUMED} is taken"
        return ASSUMED

    def find(self, node: Any, opset: int, opsets: Mapping[str, int]) -> NodeMapping | Body | None:
        """None also where only `typed_body` can tell."""
        domain = normal_domain(node.domain)
        local = self.local.get((domain, node.op_type, node.overload))
        if local is not None:
            return local
        return find_mapping(self.table, domain, node.op_type, opset) or self._plain_body(
            domain, node.op_type, opset, opsets
        )

    def _plain_body(self, domain: str, op: str, opset: int, opsets: Mapping[str, int]) -> Body | None:
        key = (domain, op, opset)
        if key not in self._plain:
            schema = find_schema(domain, op, opset)
            usable = functions.has_body(schema) and not schema.deprecated
            self._plain[key] = functions.plain_body(schema, opset, opsets, self.where) if usable else None
        return self._plain[key]

    def scan(self, nodes: Sequence[Any], opsets: Mapping[str, int], refusals: Refusals) -> None:
        """Adds every node that nothing can be found for."""
        for node in nodes:
            lacks = self.lacks(node, opsets, ())
            if lacks:
                refusals.add(
                    node.op_type,
                    normal_domain(node.domain),
                    self.opset(node, opsets),
                    lacks,
                    spell_node(node),
                )
            for graph in subgraphs(node):
                self.scan(graph.node, opsets, refusals)

    def lacks_anywhere(self, node: Any, opsets: Mapping[str, int]) -> bool:
        """Whether the node, or one in the graphs within it, cannot be imported."""
        inner = (n for graph in subgraphs(node) for n in graph.node)
        return bool(self.lacks(node, opsets, ())) or any(self.lacks_anywhere(n, opsets) for n in inner)

    def lacks(self, node: Any, opsets: Mapping[str, int], above: tuple[str, ...]) -> str:
        """Why the node cannot be imported, as far as that is seen without types; empty if nothing speaks against it."""
        key = self._key(node, opsets)
        if key not in self._lacks:
            self._lacks[key] = self._why(node, self.opset(node, opsets), opsets, above)
        return self._lacks[key]

    def added(self, node: Any, opsets: Mapping[str, int]) -> int:
        """How many nodes the bodies of a call add, as far as `scan` has seen."""
        return self._added.get(self._key(node, opsets), 0)

    def _key(self, node: Any, opsets: Mapping[str, int]) -> tuple[str, str, str, int]:
        return (normal_domain(node.domain), node.op_type, node.overload, self.opset(node, opsets))

    def _why(self, node: Any, opset: int, opsets: Mapping[str, int], above: tuple[str, ...]) -> str:
        domain, op = normal_domain(node.domain), node.op_type
        found = self.find(node, opset, opsets)
        if found is None:
            schema = find_schema(domain, op, opset)
            typed = schema is not None and not schema.deprecated and schema.has_context_dependent_function
            return "" if typed else why_missing(self.table, domain, op, opset)
        if not isinstance(found, Body):
            return ""
        name = f"{domain}:{op}:{node.overload}"
        if name in above:
            raise ModelError(f"{self.where}: function {op} calls itself")
        if len(above) >= DEEPEST:
            return f"functions are nested more than {DEEPEST} deep"
        for inner in found.nodes:
            lacks = self.lacks(inner, found.opsets, (*above, name))
            if lacks:
                return str(within(inner.op_type, Refusal(lacks)))
        keys = [self._key(inner, found.opsets) for inner in found.nodes]
        added = len(keys) + sum(self._added.get(key, 0) for key in keys)
        self._added[self._key(node, opsets)] = added
        return f"functions add more than {MOST_INLINED} nodes" if added > MOST_INLINED else ""
