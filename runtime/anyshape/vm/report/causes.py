"""Causes of what is not known before a program runs: from an operand or a dim, the shortest way back to what decides it, in words.

In: an optimised function. Out: text. A symbol is decided by an input's dim, by an input's values, or by a node, whose data decides
a size; what has no symbol at all is followed to the nearest input or node of which nothing is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from anyshape.dims import Dim, bounds, free_symbols
from anyshape.graph.function import Function
from anyshape.graph.joining import unlike_ranks
from anyshape.graph.value import Node, Value
from anyshape.passes.unlike_ranks import first_run


class Causes:
    """Causes in one function; those in its regions are named by the nodes there."""

    def __init__(self, f: Function) -> None:
        self.entry = set(f.symbols())
        self.unbacked: dict[Dim, Value] = {}
        self.shapes: dict[Dim, list[str]] = {}
        """places in shapes whose dim is this symbol alone"""
        for p in f.params:
            for k, d in enumerate(p.type.shape or ()):
                if isinstance(d, Dim) and d.is_symbol:
                    self.shapes.setdefault(d, []).append(f"{p.name}[{k}]")
            self._add(p)
        self.nodes = tuple(f.all_nodes())
        self.around: dict[Value, Node] = {}
        """whose region a parameter of a region belongs to"""
        for node in self.nodes:
            for region in node.regions:
                for p in region.params:
                    self.around[p] = node
                    self._add(p)
            for v in node.outputs:
                self._add(v)

    def _add(self, v: Value) -> None:
        for s in sorted(symbols_of(v), key=attrgetter("name")):
            if s not in self.entry:
                self.unbacked.setdefault(s, v)

    def of_node(self, node: Node) -> str:
        """Says why a dyn node stays dyn, or why a node's result has an unknown size."""
        name = named(node)
        for operand, v in node.operand_inputs().items():
            if v is not None and v.constant is None and not self.is_known(v):
                return f"{name} stays dyn: {operand} comes from {self.of_value(v)}"
        for operand, v in node.operand_inputs().items():
            if v is not None and v.constant is None:
                return f"{name} stays dyn: {operand} comes from {self._dims(v)}"
        for v in node.inputs:
            if v is not None and not self._sized(v):
                return f"{name} stays dyn: a dim of its input comes from {self.of_value(v)}"
        return f"{name} stays dyn: its shape is decided by its data"

    def of_value(self, v: Value) -> str:
        """Names the nearest thing that decides the elements of a value (or its dims, where elements do not matter), and nodes between."""
        way = self._way(v)
        end, between = way[-1], [named(u.node) for u in way[:-1] if u.node is not None]
        text = self._source(end)
        return f"{text}, through {', '.join(reversed(between))}" if between else text

    def of_type(self, v: Value) -> str:
        """Says what decides the dims of a value that is not static."""
        if v.type.shape is None:
            why = self._unsized(v.node) if v.node is not None else None
            return "its rank is not known" + (f", because of {self.of_value(why)}" if why is not None else "")
        return "its dims come from " + ", ".join(self._places(v.type.symbols()))

    def unknown_dims(self) -> list[str]:
        """Says what decides the sizes that are no expressions of the inputs' dims, and which values are of unknown rank, and why."""
        used: dict[str, None] = {}
        for node in self.nodes:
            for v in node.outputs:
                used.update(
                    (self.of_dim(s), None) for s in sorted(v.type.symbols() - self.entry, key=attrgetter("name"))
                )
        for node in self.nodes:
            if any(v.type.shape is None for v in node.outputs):
                why = self._unsized(node)
                used[f"the rank of {named(node)}" + (f", from {self.of_value(why)}" if why is not None else "")] = None
        return list(used)

    def _unsized(self, node: Node) -> Value | None:
        """The operand that leaves a node without a rank: a parameter whose values are not known, or data of unknown rank."""
        for v in node.operand_inputs().values():
            if v is not None and v.constant is None and not self.is_known(v):
                return v
        return next((v for v in node.inputs if v is not None and v.type.shape is None), None)

    def of_dim(self, s: Dim) -> str:
        """Says what decides a size that is no dim of an input."""
        v = self.unbacked.get(s)
        low, high = bounds(s)
        limits = f"; {low} to {high}" if low is not None and high is not None else ""
        if v is None:
            return f"a size that is decided while the program runs{limits}"
        if v.contents is not None and s in v.contents:
            k = v.contents.index(s)
            if v.node is None:
                return f"element {k} of {self._param(v)}{limits}"
            return f"element {k} of {named(v.node)}, which is computed from data{limits}"
        if v.node is None:
            return f"a size of {self._param(v)}{limits}"
        by = self._unsized(v.node) if v.node.bound is None else None
        return f"a size of {named(v.node)}, which {'its data' if by is None else self.of_value(by)} decides{limits}"

    def _param(self, v: Value) -> str:
        """Names an input, or a parameter of a region, which has another value in each iteration."""
        around = self.around.get(v)
        return (
            f"the input {v.name}" if around is None else f"{v.name} within {named(around)}, which its iterations decide"
        )

    def _places(self, symbols: set[Dim]) -> list[str]:
        places: dict[str, None] = {}
        for s in sorted(symbols, key=attrgetter("name")):
            known = self.shapes.get(s, [str(s)]) if s in self.entry else [self.of_dim(s).partition(";")[0]]
            places.update((place, None) for place in known)
        return list(places)

    def _dims(self, v: Value) -> str:
        """Dims of inputs that a known operand is made of."""
        places = self._places({s for e in v.contents or () for s in free_symbols(e)})
        return f"the size{'s' if len(places) > 1 else ''} {', '.join(places) or 'of its input'}"

    def _source(self, v: Value) -> str:
        if v.node is None:
            return f"the input {v.name}"
        if any(self.unbacked.get(s) is v for s in v.type.symbols()):
            return f"{named(v.node)}, whose size its data decides"
        return f"{named(v.node)}, which is computed from data"

    def _way(self, v: Value) -> list[Value]:
        """The way from the value to the nearest one that decides it, through the fewest nodes."""
        deciding = {self.unbacked[s] for s in self._unknown(v) if s in self.unbacked}
        before: dict[Value, Value | None] = {v: None}
        waiting = deque([v])
        last = v
        while waiting:
            last = waiting.popleft()
            if last in deciding or last.node is None:
                break
            for u in self._blamed(last.node):
                if u not in before:
                    before[u] = last
                    waiting.append(u)
        way = [last]
        while (nearer := before[way[-1]]) is not None:
            way.append(nearer)
        return way[::-1]

    def _unknown(self, v: Value) -> set[Dim]:
        symbols = {s for e in v.contents for s in free_symbols(e)} if v.contents is not None else v.type.symbols()
        return symbols - self.entry

    def _blamed(self, node: Node) -> Iterator[Value]:
        open_inputs = [v for v in node.inputs if v is not None and v.constant is None]
        return iter([v for v in open_inputs if not self.is_known(v)] or open_inputs)

    def is_known(self, v: Value) -> bool:
        """Tests whether the elements follow from the inputs' dims."""
        return v.contents is not None and all(free_symbols(e) <= self.entry for e in v.contents)

    def _sized(self, v: Value) -> bool:
        return v.type.shape is not None and v.type.symbols() <= self.entry


def symbols_of(v: Value) -> set[Dim]:
    """Symbols of a value's dims and elements."""
    symbols: set[Any] = set(v.type.symbols())
    for e in v.contents or ():
        symbols |= free_symbols(e)
    return symbols


def named(node: Node) -> str:
    """dyn.reshape (Reshape 'encoder/Reshape_3')"""
    return f"{node.op.full_name} ({node.source})" if node.source else node.op.full_name


def undecided(node: Node) -> str:
    """Says what inside of a node leaves it open, and what would not: branches of unlike ranks with their types, else the nodes."""
    unlike = unlike_ranks(n for r in first_run(node) for n in r.nodes)
    if unlike:
        return f"{unlike}: code is compiled for one rank; make the ranks equal, as by a reshape in each branch"
    return (
        f"{', '.join(map(named, open_inside(node)))} depends on values that may differ between iterations, and code is compiled for one "
        "case; make them constant, such as the axes of a squeeze"
    )


def open_inside(node: Node) -> Iterator[Node]:
    """The nodes inside of a node that leave it open."""
    for n in (n for r in node.regions for n in r.nodes if n.is_open):
        inner = list(open_inside(n))
        yield from inner or [n]
