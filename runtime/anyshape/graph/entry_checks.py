"""Conditions on dims and elements of parameters, learned from what nodes demand and hoisted to the entry of the function.

`matmul(x: [a, n], y: [m, b])` demands n == m, and a slice of 512 positions that is added to `length` rows demands length <= 512.
Such a check, if it is about entry symbols only, is made once at entry, and every later node may rely on it. Elements of parameters are
entry symbols as dims are, so that of all checks which arguments decide the first that fails is the first in the order of the nodes, and
none is told in words that hold only behind one before it. Of a condition on these and on what only the run tells (`bias` broadcasts to
`[b, total]`) those parts are made there that are about entry symbols: else what a node behind it says of the same dims would come first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import replace

from anyshape.dims import Cond, Dim, Facts, free_symbols
from anyshape.graph.function import Function
from anyshape.graph.value import SIZES, Node, Value, as_known
from anyshape.rules import Check


def _symbols(v: Value) -> set[Dim]:
    """The symbols in a value's shape and elements."""
    return v.type.symbols().union(*(free_symbols(e) for e in v.contents or ()))


class EntryFacts:
    """Facts of a function's entry: `facts` hold for every node after those learned from; `checks` is what the entry must check for that."""

    def __init__(self, f: Function, around: Facts | None = None, required: Collection[Node | None] = ()) -> None:
        """`around`: what holds wherever f, a region, runs; `required`: nodes whose checks all nodes behind them may rely on."""
        self.required = required
        self.demanded: list[Cond] = []
        self.facts = Facts() if around is None else around.under(True)
        self.checks: list[Check] = []
        self.params = [p for p in f.params if p.type.dtype in SIZES and p.type.is_static]
        self.sizes = set(f.symbols())
        self.seen: set[Cond] = set()
        for check in f.checks:
            self._assume(check)

    @property
    def entry(self) -> set[Dim]:
        """The symbols that an entry has values for: sizes, and elements of parameters, which get symbols when a rule asks for them."""
        return self.sizes.union(*(free_symbols(e) for p in self.params for e in p.contents or ()))

    def rely_on(self, node: Node, old: Node) -> None:
        """Notes the checks of a node, made anew for `old`, if they are required. What an entry decides of them is learned already."""
        if old in self.required:
            entry = self.entry
            self.demanded += [c.cond for c in node.checks if not free_symbols(c.cond) <= entry]

    def facts_for(self, values: Iterable[Value | None]) -> Facts:
        """Returns the facts that hold wherever a node of these operands runs: what is required of data-dependent sizes is checked when all
        sizes in it have values, and so before such a node only if its operands have them."""
        if not self.demanded:
            return self.facts
        known = self.entry.union(*(_symbols(v) for v in values if v is not None))
        facts = self.facts.under(True)
        for cond in self.demanded:
            if free_symbols(cond) <= known:
                facts.learn(cond)
        return facts

    def learn(self, node: Node) -> bool:
        """Whether the node's types can be refined: its checks taught something, or follow from what was known."""
        entry = self.entry
        about_entry = [part for c in node.checks for part in _about(c, entry)]
        for check in about_entry:
            if check.cond not in self.seen:
                self.seen.add(check.cond)
                left = self.facts.decide(check.cond)
                if left is not True:  # in the words in which a node that is inferred here has it
                    self._assume(replace(check, cond=left) if isinstance(left, Cond) else check)
        return bool(about_entry)

    def _assume(self, check: Check) -> None:
        self.checks.append(check)
        self.seen.add(check.cond)
        self.facts.learn(check.cond)


def _about(check: Check, entry: Set[Dim]) -> Iterator[Check]:
    """The parts of a check's condition that entry symbols decide, in the check's words."""
    if free_symbols(check.cond) <= entry:
        yield check
    elif check.cond.kind == "and":
        words = tuple(p if isinstance(p, str) or free_symbols(p) <= entry else as_known(p) for p in check.parts)
        for cond in check.cond.args:
            if free_symbols(cond) <= entry:
                yield replace(check, cond=cond, parts=words)
