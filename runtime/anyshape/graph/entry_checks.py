"""Conditions on entry dims, learned from what nodes demand and hoisted to the entry of the function.

`matmul(x: [a, n], y: [m, b])` demands n == m, and a slice of 512 positions that is added to `length` rows demands length <= 512.
Such a check, if it is about entry symbols only, is made once at entry, and every later node may rely on it. Of a condition on dims and on
what only the run tells (`bias` broadcasts to `[b, total]`) those parts are made there that are about dims: else what a node behind it says
of the same dims would come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from anyshape.dims import Cond, Dim, Facts, free_symbols
from anyshape.graph.function import Function
from anyshape.graph.value import Node, as_known
from anyshape.rules import Check


class EntryFacts:
    """`facts` holds for every node after those learned from; `checks` is what the entry must check for that."""

    def __init__(self, f: Function, around: Facts | None = None) -> None:
        """`around`: what holds wherever f, a region, runs."""
        self.facts = Facts() if around is None else around.under(True)
        self.checks: list[Check] = []
        self.entry = set(f.symbols())
        self.seen: set[Cond] = set()
        for check in f.checks:
            self._assume(check)

    def learn(self, node: Node) -> bool:
        """Whether the node's types can be refined: its checks taught something, or follow from what was known."""
        about_entry = [part for c in node.checks for part in self._about_entry(c)]
        for check in about_entry:
            if check.cond not in self.seen:
                self.seen.add(check.cond)
                left = self.facts.decide(check.cond)
                if left is not True:  # in the words in which a node that is inferred here has it
                    self._assume(replace(check, cond=left) if isinstance(left, Cond) else check)
        return bool(about_entry)

    def _about_entry(self, check: Check) -> Iterator[Check]:
        """The parts of a check's condition that entry dims decide, in the check's words."""
        if free_symbols(check.cond) <= self.entry:
            yield check
        elif check.cond.kind == "and":
            words = tuple(map(self._as_known, check.parts))
            for cond in check.cond.args:
                if free_symbols(cond) <= self.entry:
                    yield replace(check, cond=cond, parts=words)

    def _as_known(self, part: str | Dim | Cond) -> str | Dim | Cond:
        return part if isinstance(part, str) or free_symbols(part) <= self.entry else as_known(str(part))

    def _assume(self, check: Check) -> None:
        self.checks.append(check)
        self.seen.add(check.cond)
        self.facts.learn(check.cond)
