"""Groups of nodes while fusion makes them grow, what needs what between them, and what a node waits for.

Every group has a number of its own, as a bit; one that has taken in others has theirs too. What a group needs, directly or not, is a set of
such bits, so that whether two groups may become one is found from the groups next to them, however many others there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from anyshape.dims import Dim, Size, free_symbols
from anyshape.equations.builder import Equation
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import Kind

Shape = tuple[Size, ...]


@dataclass(eq=False)
class FusionGroup:
    """Nodes that will be one kernel."""

    id: int
    kind: Kind
    nodes: list[Node]
    shape: Shape
    bits: int = 0
    """The number of the group, and those of the groups merged into it."""
    needed: int = 0
    """The numbers of the groups that it depends on, directly or not."""
    operands: dict[FusionGroup, None] = field(default_factory=dict)
    """The groups next to it that it depends on."""
    readers: dict[FusionGroup, None] = field(default_factory=dict)
    """The groups next to it that depend on it."""
    equations: list[Equation] = field(default_factory=list)
    apart: bool = False
    """A single node that takes several kernels."""
    chained: bool = False
    """More than one contraction, run by blocks of rows."""
    beside: int = 1
    """How many groups stand side by side in it."""

    def depend_on(self, operands: Iterable[FusionGroup]) -> None:
        """Adds dependencies of a group that nothing depends on yet."""
        self.bits = 1 << self.id
        for g in operands:
            self.operands[g] = None
            g.readers[self] = None
            self.needed |= g.needed | g.bits

    def needs(self, other: FusionGroup) -> bool:
        """Whether it depends on the other, directly or not."""
        return bool(self.needed & other.bits)

    def is_apart_from(self, other: FusionGroup, between: Sequence[FusionGroup] = ()) -> bool:
        """Whether no path from the other leads here through a third group, but for those that are known to be `between` them."""
        inside = {other, self, *between}
        return not any(g.needs(other) for one in (self, *between) for g in one.operands if g not in inside)

    def take_in(self, other: FusionGroup) -> None:
        """Merges another group: what depends on either depends on both from now on."""
        self.bits |= other.bits
        self.needed = (self.needed | other.needed) & ~self.bits
        for g in other.operands:
            del g.readers[other]
            if g is not self:
                self.operands[g] = g.readers[self] = None
        for g in other.readers:
            del g.operands[other]
            if g is not self:
                self.readers[g] = g.operands[self] = None
        other.operands, other.readers = {}, {}
        behind = list(self.readers)
        while behind:
            g = behind.pop()
            needed = g.needed | self.needed | self.bits
            if needed != g.needed:
                g.needed = needed
                behind += g.readers


def sizes_of(f: Function) -> frozenset[Dim]:
    """The symbols that the parameters bind."""
    return frozenset(n for p in f.params for n in p.type.shape or () if isinstance(n, Dim) and n.is_symbol)


def waits_for(node: Node, sizes: Set[Dim]) -> list[Value]:
    """The inputs that a node reads: all but operands whose every element follows from these sizes."""
    shape_operands = set(node.operand_inputs().values())
    return [v for v in node.inputs if v is not None and not (v in shape_operands and _is_decided(v, sizes))]


def _is_decided(v: Value, sizes: Set[Dim]) -> bool:
    return v.contents is not None and all(free_symbols(e) <= sizes for e in v.contents)


__all__ = ["FusionGroup", "Shape", "sizes_of", "waits_for"]
