"""Equalities between entry dims, learned from what nodes demand and hoisted to the entry of the function.

`add(x: [n], y: [m])` where both are full dims says nothing for sure (either may be 1), but `matmul(x: [a, n], y: [m, b])` demands
n == m. Such a check, if it is about entry symbols only, is made once at entry, and every later node may rely on it.
"""

from __future__ import annotations

from anyshape.dims import Cond, Facts, free_symbols
from anyshape.graph.function import Function
from anyshape.graph.value import Node
from anyshape.rules import Check


class EntryFacts:
    """`facts` holds for every node after those learned from; `checks` is what the entry must check for that."""

    def __init__(self, f: Function) -> None:
        self.facts = Facts()
        self.checks: list[Check] = list(f.checks)
        self.entry = set(f.symbols())
        self.seen: set[Cond] = set()
        for check in f.checks:
            self._assume(check)

    def learn(self, node: Node) -> None:
        for check in node.checks:
            if check.cond not in self.seen and free_symbols(check.cond) <= self.entry and self._assume(check):
                self.checks.append(check)

    def _assume(self, check: Check) -> bool:
        if not isinstance(check.cond, Cond) or check.cond.kind != "eq":
            return False
        self.seen.add(check.cond)
        self.facts.learn(check.cond)
        return True
