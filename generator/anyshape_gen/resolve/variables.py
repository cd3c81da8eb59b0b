"""Variables of equations while their extents are found.

In: what each of them indexes, from `slots.Matcher`. Out: extents.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anyshape_gen.model.nodes import Expr, Item, Name, Star


@dataclass
class Vars:
    """Variables of one equation: their extents, where known, and which of them are runs. A `Matcher` tells them what they index."""

    extents: dict[str, Expr | None] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    elements: set[str] = field(default_factory=set)
    vectors: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    """Variables of an update that its own generators bind"""
    read: dict[str, list[Expr]] = field(default_factory=dict)
    """Dims of the tensors that each variable alone indexes"""
    broadcast: dict[str, Expr] = field(default_factory=dict)
    """A dim of a run of fixed length that each variable indexes: the extent of one over a range that is read, if it has no other"""

    def bind(self, entry: Item, extent: Expr) -> None:
        """Learns the extent of the slot of an item that is a bare variable; any other item says nothing."""
        inner = entry.value if isinstance(entry, Star) else entry
        if isinstance(inner, Name):
            self.read.setdefault(inner.id, []).append(extent)
            if self.extents.get(inner.id, extent) is None:
                self.extents[inner.id] = extent

    def bind_broadcast(self, entry: Item, extent: Expr) -> None:
        """Learns a dim of a run of fixed length that an item broadcasts to."""
        if isinstance(entry, Name):
            self.broadcast.setdefault(entry.id, extent)
