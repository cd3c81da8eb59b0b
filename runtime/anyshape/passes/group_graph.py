"""The graph of groups while fusion makes them grow: which group a node is in, what depends on what, and which groups may become one.

In: a function. Out: groups in an order in which each follows those that it needs. Groups may become one if no path leads from one of them
through a third group to one of them: the graph stays without cycles. Every group has a level above the levels of all that it depends on, so
that a search for such a path looks only between the levels of what it starts from and ends at, from both ends at once; it gives up after
`MOST_LOOKED_AT` edges, and the groups stay apart. So the work for each node is bounded, whatever the graph is like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from anyshape.dims import Dim, Size, definitions, free_symbols
from anyshape.equations.builder import Equation
from anyshape.errors import VerifyError
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import KernelKind
from anyshape.passes.steps import stands_alone

MOST_LOOKED_AT = 256
"""Edges of the graph of groups that a search goes along from either end: in models, paths around two groups are of a few."""
_ORDER = (KernelKind.MOVE, KernelKind.MAP, KernelKind.ROW, KernelKind.CONTRACTION)

Shape = tuple[Size, ...]


@dataclass(eq=False, kw_only=True)
class FusionGroup:
    """Nodes that will be one kernel, or one node that is no kernel or more than one."""

    nodes: list[Node]
    kind: KernelKind = KernelKind.MOVE
    shape: Shape = ()
    equations: list[Equation] = field(default_factory=list)
    apart: bool = False
    """A single node that takes several kernels."""
    contractions: int = 0
    """How many of the nodes are contractions."""
    level: int = 0
    operands: dict[FusionGroup, None] = field(default_factory=dict)
    """The groups next to this one that it depends on."""
    readers: dict[FusionGroup, None] = field(default_factory=dict)
    """The groups next to this one that depend on it."""
    joined_by: tuple[str, ...] = ()
    """The names of the rules by which the group grew."""

    @property
    def is_alone(self) -> bool:
        """Whether the group is a node that shares no kernel."""
        return self.apart or (len(self.nodes) == 1 and stands_alone(self.nodes[0]))


class GroupGraph:
    """`group_of` nodes, and the `groups` in the order in which they began; one that became part of another has no nodes."""

    def __init__(self, f: Function) -> None:
        self.results = set(f.results)
        self.sizes = sizes_of(f)
        self.group_of: dict[Node, FusionGroup] = {}
        self.groups: list[FusionGroup] = []
        self.readers: dict[Value, list[Node]] = {}
        self.obstacles: dict[tuple[Value, Node], str] = {}
        """The rule by which a node would have joined what computes a value that it reads, and why it did not, by value and node."""
        self._outputs_read: dict[Node, int] = {}
        for node in f.nodes:
            for v in node.inputs:
                if v is not None:
                    self.readers.setdefault(v, []).append(node)

    # --- nodes and values ---

    def is_read_outside(self, v: Value, inside: Set[Node]) -> bool:
        """Whether anything but these nodes reads the value."""
        return v in self.results or any(r not in inside for r in self.readers.get(v, ()))

    def is_read_by(self, v: Value, *groups: FusionGroup) -> bool:
        """Whether only these groups read the value."""
        return v not in self.results and all(self.group_of.get(r) in groups for r in self.readers[v])

    def outputs_read(self, node: Node) -> int:
        """How many outputs of the node anything reads."""
        count = self._outputs_read.get(node)
        if count is None:
            count = self._outputs_read[node] = sum(v in self.results or v in self.readers for v in node.outputs)
        return count

    # --- groups ---

    def begin(self, node: Node, group: FusionGroup) -> None:
        """Adds the group of a node, all of whose operands have groups."""
        group.operands = dict.fromkeys(self.group_of[v.node] for v in waits_for(node, self.sizes) if v.node is not None)
        for g in group.operands:
            g.readers[group] = None
        group.level = _above(group.operands)
        self.groups.append(group)
        self.group_of[node] = group

    def may_become_one(self, groups: Sequence[FusionGroup]) -> bool:
        """Whether the groups stay without cycles if these are one, as far as a bounded search tells."""
        inside = set(groups)
        if all(r in inside for g in groups[:-1] for r in g.readers) and not groups[-1].readers:
            return True  # nothing leads out of them
        top, bottom = max(g.level for g in groups), min(g.level for g in groups)
        ahead = _search(inside, lambda g: g.readers, lambda g: g.level < top)
        behind = _search(inside, lambda g: g.operands, lambda g: g.level > bottom)
        return _both_ends(ahead, behind) is False and self._levels_of_one(groups) is not None

    def are_apart(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Whether neither group reads the other, so that, if they may become one, neither depends on the other at all."""
        return a not in b.operands and b not in a.operands

    def merge(self, groups: Sequence[FusionGroup], rule: str) -> None:
        """Moves the nodes of all groups into the last of them."""
        levels = self._levels_of_one(groups)
        assert levels is not None
        into = groups[-1]
        into.kind = max((g.kind for g in groups), key=_ORDER.index)
        into.nodes = [n for g in groups for n in g.nodes]
        into.equations = [q for g in groups for q in g.equations]
        into.contractions = sum(g.contractions for g in groups)
        into.joined_by = (*(name for g in groups for name in g.joined_by), rule)
        for group in groups[:-1]:
            for n in group.nodes:
                self.group_of[n] = into
            _take_edges(group, into)
            group.nodes = []
        for g, level in levels.items():
            g.level = level

    def _levels_of_one(self, groups: Sequence[FusionGroup]) -> dict[FusionGroup, int] | None:
        """The levels that change if the groups are one, by the last of them; None where they are too many, or there is a cycle."""
        inside, into = set(groups), groups[-1]
        levels = {into: _above(g for group in groups for g in group.operands if g not in inside)}
        raised = deque([into])
        looked_at = 0
        while raised:
            g = raised.popleft()
            level = levels[g] + 1
            for r in (r for one in (groups if g is into else (g,)) for r in one.readers):
                looked_at += 1
                if looked_at > MOST_LOOKED_AT:
                    return None
                if r not in inside and levels.get(r, r.level) < level:
                    levels[r] = level
                    raised.append(r)
        return levels

    # --- the order ---

    def in_order(self) -> Iterator[FusionGroup]:
        """The groups, each after those that it needs; depth first, as a group that a later node was merged into may need groups that
        began after it. Raises VerifyError if there is a cycle."""
        placed = set[FusionGroup]()
        for group in self.groups:
            stack, begun = [group], set[FusionGroup]()
            while stack:
                top = stack[-1]
                if top in placed or not top.nodes:
                    stack.pop()
                    continue
                missing = [g for g in self._operands_in_order(top) if g not in placed]
                if missing:
                    if top in begun:
                        raise VerifyError("fusion made groups that need each other")
                    begun.add(top)
                    stack += missing
                    continue
                stack.pop()
                placed.add(top)
                yield top

    def _operands_in_order(self, group: FusionGroup) -> Iterable[FusionGroup]:
        waited = (v.node for n in group.nodes for v in waits_for(n, self.sizes) if v.node is not None)
        return dict.fromkeys(g for n in waited if (g := self.group_of[n]) is not group)


def _above(operands: Iterable[FusionGroup]) -> int:
    return 1 + max((g.level for g in operands), default=-1)


def _take_edges(group: FusionGroup, into: FusionGroup) -> None:
    for g in group.operands:
        del g.readers[group]
        if g is not into:
            into.operands[g] = g.readers[into] = None
    for g in group.readers:
        del g.operands[group]
        if g is not into:
            into.readers[g] = g.operands[into] = None
    group.operands, group.readers = {}, {}


Neighbours = Callable[[FusionGroup], Iterable[FusionGroup]]


def _search(inside: Set[FusionGroup], neighbours: Neighbours, admits: Callable[[FusionGroup], bool]) -> Iterator[bool]:
    """Yields, for each edge that leads away from the groups inside, whether it comes back to one of them, by way of a group outside."""
    seen = set(inside)
    left = deque(inside)
    while left:
        g = left.popleft()
        for n in neighbours(g):
            if n in inside:
                yield g not in inside
                continue
            if n not in seen and admits(n):
                seen.add(n)
                left.append(n)
            yield False


def _both_ends(*searches: Iterator[bool]) -> bool | None:
    """What searches from both ends find in turns: a path, that there is none as soon as one comes to its end, or nothing, None."""
    for _ in range(MOST_LOOKED_AT):
        for search in searches:
            arrived = next(search, None)
            if arrived is None:
                return False
            if arrived:
                return True
    return None


def sizes_of(f: Function) -> frozenset[Dim]:
    """The symbols that the parameters bind."""
    return frozenset(definitions((p, n) for p in f.params for n in p.type.shape or ()))


def waits_for(node: Node, sizes: Set[Dim]) -> list[Value]:
    """The inputs that a node reads: all but operands whose every element follows from these sizes."""
    shape_operands = set(node.operand_inputs().values())
    return [v for v in node.inputs if v is not None and not (v in shape_operands and _is_decided(v, sizes))]


def _is_decided(v: Value, sizes: Set[Dim]) -> bool:
    return v.contents is not None and all(free_symbols(e) <= sizes for e in v.contents)
