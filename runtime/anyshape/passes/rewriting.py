"""The engine of every optimising pass: one forward walk that rebuilds what changed and simplifies each node until it is stable.

Information flows from producers to consumers, so a node is examined when its operands are final, and again only when a rule replaced
it: a worklist over what changed, linear in the graph. A node of which nothing changed is kept as it is, types included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Protocol, runtime_checkable

from anyshape.dims import Facts, anonymous_names
from anyshape.errors import ShapeError, VerifyError
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import Function, topological
from anyshape.graph.infer import build, rebuild
from anyshape.graph.origins import reworded
from anyshape.graph.regions import failed
from anyshape.graph.required import required_nodes
from anyshape.graph.value import Node, Value, mark

LocalRule = Callable[[Node], Sequence[Value] | None]
"""Values in place of the node's outputs, or None where the rule does not apply."""


@runtime_checkable
class Remembering(Protocol):
    """A rule that keeps what it has seen; what it saw outside a region is not there inside."""

    def inside(self) -> LocalRule:
        """The rule for a region, or for a function that is called."""


def inner(rules: Sequence[LocalRule]) -> list[LocalRule]:
    """The rules for what is run again and again."""
    return [r.inside() if isinstance(r, Remembering) else r for r in rules]


LIMIT = 64
"""How many replacements a function may take per node before the rules are taken to run in circles."""
COMPOSED = 16
"""Nodes counted in addition to those that a function has: one composed op alone may need some hundred replacements."""


def rewrite(f: Function, rules: Sequence[LocalRule], rebuild_all: bool = False) -> Function:
    """f with every rule applied wherever it applies. `rebuild_all` infers all types anew."""
    return _Rewriter(f, rules, rebuild_all, None).run()


class _Rewriter:
    def __init__(self, f: Function, rules: Sequence[LocalRule], rebuild_all: bool, facts: Facts | None) -> None:
        self.f, self.rules, self.rebuild_all = f, rules, rebuild_all
        self.final: dict[Value, Value] = {}
        self.since = mark()
        self.done: set[Node] = set()
        """nodes made since then that are examined; those made before are when they are operands of any"""
        self.inner: set[tuple[Function, ...]] = set()
        """regions in which nothing is left to do"""
        self.entry = EntryFacts(f, facts, required_nodes(f.results))
        self.fuel = LIMIT * (len(f.nodes) + COMPOSED)

    def run(self) -> Function:
        for node in self.f.nodes:
            current = self.known(self.rebuilt(node, force=self.rebuild_all))
            self.entry.rely_on(current, node)
            for old, new in zip(node.outputs, self.settle(current), strict=True):
                if old is not new:
                    self.final[old] = new
        results = [self.final.get(v, v) for v in self.f.results]
        if not self.rebuild_all and self.entry.checks == list(self.f.checks) and all(map(is_, results, self.f.results)):
            return self.f
        return Function(
            self.f.params, results, self.f.name, self.f.result_names, checks=self.entry.checks, failure=self.f.failure
        )

    def rebuilt(self, node: Node, force: bool = False) -> Node:
        """The node on its operands' replacements; the node itself if none was replaced."""
        final = self.final
        if not force and not any(v in final for v in node.inputs):
            return node
        inputs = tuple([v if v is None else final.get(v, v) for v in node.inputs])
        return rebuild(node, inputs, self.entry.facts_for(inputs))

    def known(self, node: Node) -> Node:
        """The node, its types refined by what its own checks say about the entry."""
        if not node.checks or not self.entry.learn(node):
            return node
        return rebuild(node, node.inputs, self.entry.facts_for(node.inputs))

    def settle(self, node: Node) -> tuple[Value, ...]:
        """Applies rules to the node, and to the nodes they make, until none applies."""
        for rule in self.rules:
            replaced = rule(node)
            if replaced is None:
                continue
            self.fuel -= 1
            if self.fuel < 0:
                raise VerifyError(f"rewriting {node} does not come to an end; two rewrites undo each other")
            return tuple(self.settled(v) for v in replaced)
        if node.regions:
            changed = self.descended(node)
            if changed is not node:
                return tuple(self.settled(v) for v in changed.outputs)
        if node.serial > self.since:
            self.done.add(node)
        return node.outputs

    def descended(self, node: Node) -> Node:
        """The node with the rules applied in its regions, once; itself if that changed nothing."""
        control = node.op.control
        if control is None or node.regions in self.inner:
            return node
        regions = tuple(self.region(node, k, inner(self.rules)) for k in range(len(node.regions)))
        if all(_same(a, b) for a, b in zip(regions, node.regions)):
            self.inner.add(node.regions)
            return node
        rebuilt = build(node.op, node.inputs, node.attrs, node.source, self.entry.facts_for(node.inputs), regions)
        self.inner.add(rebuilt.regions)
        return rebuilt

    def region(self, node: Node, k: int, rules: Sequence[LocalRule]) -> Function:
        control, region = node.op.control, node.regions[k]
        assert control is not None
        if region.failure:
            return region
        facts = self.entry.facts_for(node.inputs).under(control.assumed(node, k))
        try:
            with anonymous_names() as printed:
                return _Rewriter(region, rules, self.rebuild_all, facts).run()
        except ShapeError as e:
            if not control.may_skip(node, k):
                raise
            return failed(region.name, region.params, reworded(str(e), node, printed))

    def settled(self, v: Value) -> Value:
        """The value once everything new that it needs has been simplified."""
        if v.node is not None and v.node.serial > self.since and v.node not in self.done:
            for node in topological([v], self.done, self.since):
                current = self.known(self.rebuilt(node))
                for old, new in zip(node.outputs, self.settle(current), strict=True):
                    if old is not new:
                        self.final[old] = new
        return self.final.get(v, v)


def _same(a: Function, b: Function) -> bool:
    return (
        len(a.results) == len(b.results)
        and all(x is y for x, y in zip(a.results, b.results))
        and a.failure == b.failure
    )
