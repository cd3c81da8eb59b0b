"""Resolves the operators of a model to mappings or to bodies to inline; a scan finds what is missing before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyshape.errors import ModelError
from anyshape.frontends.onnx import functions
from anyshape.frontends.onnx.control import subgraphs
from anyshape.frontends.onnx.functions import FunctionBody
from anyshape.frontends.onnx.mappings import (
    Table,
    find_mapping,
    find_schema,
    is_from_the_future,
    known_domains,
    normal_domain,
    why_missing,
)
from anyshape.frontends.onnx.node import Mapping as NodeMapping
from anyshape.frontends.onnx.order import spell_node
from anyshape.frontends.onnx.refusals import ImportRefusal, Refusals, repairable, within

DEEPEST = 64
"""The most functions within one another"""

ASSUMED = 1
"""The version of a known domain that a model uses and does not import"""

MOST_INLINED = 100_000
"""The most nodes that bodies of functions may add to a model"""


class Resolver:
    """Resolves the operators of one model. A function of the model takes precedence over a mapping, a mapping over ONNX's own body."""

    def __init__(self, table: Table, local: Mapping[tuple[str, str, str], FunctionBody], where: str) -> None:
        self.table, self.local, self.where = table, local, where
        self.known = known_domains(table)
        self.assumed: dict[str, str] = {}
        """Words for each domain that is known and not imported, about the version that is assumed"""
        self._plain: dict[tuple[str, str, int], FunctionBody | None] = {}
        self._lacks: dict[tuple[str, str, str, int], str] = {}
        self._added: dict[tuple[str, str, str, int], int] = {}
        """The number of nodes a call adds, with those of calls in its body"""

    def opset(self, node: Any, opsets: Mapping[str, int]) -> int:
        domain = normal_domain(node.domain)
        if domain in opsets:
            return opsets[domain]
        if (domain, node.op_type, node.overload) in self.local:
            return 1
        if domain not in self.known:
            raise ModelError(
                f"{self.where}: {spell_node(node)} is of domain {domain or 'ai.onnx'!r}, which the model does not import; "
                "add it to opset_import" + (repairable("takes the newest") if not domain else "")
            )
        self.assumed[domain] = f"no opset of {domain} is imported: version {ASSUMED} is taken"
        return ASSUMED

    def find(self, node: Any, opset: int, opsets: Mapping[str, int]) -> NodeMapping | FunctionBody | None:
        """Finds the mapping or the body of a node; None if there is none, or none without types (`typed_body`)."""
        domain = normal_domain(node.domain)
        local = self.local.get((domain, node.op_type, node.overload))
        if local is not None:
            return local
        return find_mapping(self.table, domain, node.op_type, opset) or self._plain_body(
            domain, node.op_type, opset, opsets
        )

    def _plain_body(self, domain: str, op: str, opset: int, opsets: Mapping[str, int]) -> FunctionBody | None:
        key = (domain, op, opset)
        if key not in self._plain:
            schema = find_schema(domain, op, opset)
            usable = functions.has_body(schema) and not schema.deprecated
            self._plain[key] = functions.plain_body(schema, opset, opsets, self.where) if usable else None
        return self._plain[key]

    def scan(self, nodes: Sequence[Any], opsets: Mapping[str, int], refusals: Refusals) -> None:
        """Adds a refusal for every node that cannot be resolved."""
        for node in nodes:
            lacks = self.lacks(node, opsets, ())
            if lacks:
                refusals.add(
                    node.op_type, normal_domain(node.domain), self.opset(node, opsets), lacks, spell_node(node)
                )
            for graph in subgraphs(node):
                self.scan(graph.node, opsets, refusals)

    def lacks_anywhere(self, node: Any, opsets: Mapping[str, int]) -> bool:
        """Whether the node, or one in the graphs within it, cannot be imported."""
        inner = (n for graph in subgraphs(node) for n in graph.node)
        return bool(self.lacks(node, opsets, ())) or any(self.lacks_anywhere(n, opsets) for n in inner)

    def lacks(self, node: Any, opsets: Mapping[str, int], above: tuple[str, ...]) -> str:
        """Says why the node cannot be imported, as far as that is known without types; empty if no reason is known."""
        key = self._key(node, opsets)
        if key not in self._lacks:
            self._lacks[key] = self._why(node, self.opset(node, opsets), opsets, above)
        return self._lacks[key]

    def added(self, node: Any, opsets: Mapping[str, int]) -> int:
        """Returns the number of nodes that the bodies of a call add, as counted by `scan`; 0 for a call that it did not see."""
        return self._added.get(self._key(node, opsets), 0)

    def _key(self, node: Any, opsets: Mapping[str, int]) -> tuple[str, str, str, int]:
        return (normal_domain(node.domain), node.op_type, node.overload, self.opset(node, opsets))

    def _why(self, node: Any, opset: int, opsets: Mapping[str, int], above: tuple[str, ...]) -> str:
        domain, op = normal_domain(node.domain), node.op_type
        target = self.find(node, opset, opsets)
        if not isinstance(target, FunctionBody) and is_from_the_future(self.table, domain, opset):
            return why_missing(self.table, domain, op, opset)
        if target is None:
            schema = find_schema(domain, op, opset)
            typed = schema is not None and not schema.deprecated and schema.has_context_dependent_function
            return "" if typed else why_missing(self.table, domain, op, opset)
        if not isinstance(target, FunctionBody):
            return ""
        name = f"{domain}:{op}:{node.overload}"
        if name in above:
            raise ModelError(f"{self.where}: function {op} calls itself")
        if len(above) >= DEEPEST:
            return f"functions are nested more than {DEEPEST} deep"
        for inner in target.nodes:
            lacks = self.lacks(inner, target.opsets, (*above, name))
            if lacks:
                return str(within(inner.op_type, ImportRefusal(lacks)))
        keys = [self._key(inner, target.opsets) for inner in target.nodes]
        added = len(keys) + sum(self._added.get(key, 0) for key in keys)
        self._added[self._key(node, opsets)] = added
        return f"functions add more than {MOST_INLINED} nodes" if added > MOST_INLINED else ""
