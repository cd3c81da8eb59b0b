"""Groups of nodes while fusion makes them grow, and what a node waits for."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from anyshape.dims import Dim, Size, free_symbols
from anyshape.equations.builder import Equation
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.passes.classify import Kind

Shape = tuple[Size, ...]


@dataclass(eq=False)
class Group:
    """Nodes that will be one kernel. `needs` is the bit set of the groups it depends on, directly or not."""

    id: int
    kind: Kind
    nodes: list[Node]
    shape: Shape
    needs: int = 0
    equations: list[Equation] = field(default_factory=list)
    apart: bool = False
    """A single node that takes several kernels."""
    chained: bool = False
    """More than one contraction, run by blocks of rows."""
    beside: int = 1
    """How many groups stand side by side in it."""


def sizes_of(f: Function) -> frozenset[Dim]:
    """The symbols that the parameters bind."""
    return frozenset(n for p in f.params for n in p.type.shape or () if isinstance(n, Dim) and n.is_symbol)


def waits_for(node: Node, sizes: Set[Dim]) -> list[Value]:
    """Its inputs but for operands of which every element follows from these sizes: nobody reads those."""
    told = set(node.operand_inputs().values())
    return [v for v in node.inputs if v is not None and not (v in told and _is_told(v, sizes))]


def _is_told(v: Value, sizes: Set[Dim]) -> bool:
    return v.contents is not None and all(free_symbols(e) <= sizes for e in v.contents)


__all__ = ["Group", "Shape", "sizes_of", "waits_for"]
