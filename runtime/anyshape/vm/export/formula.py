"""The bytes of the arena as expressions of the caller's dims: the instructions that compute them, run on symbols.

In: what is known of programs. Out: expressions, equal to what `NAME_arena_bytes` returns where that fits 63 bits. The header, budgets and
`anyshape explain --memory` have them from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyshape.dims import Size, maximum
from anyshape.vm.compiling.emission import aligned
from anyshape.vm.export.entry_knowledge import EntryKnowledge
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.register_values import Content, entry_values, number_of

_TITLES = ("arena", "arena, where a dim is 0")


@dataclass(frozen=True)
class ArenaFormulas:
    """`sizes`: the bytes for dims of at least 1, and for calls with another dim where another program runs these. `grows`: whether a run
    may need more, by what elements decide."""

    interface: Interface
    sizes: tuple[Size, ...]
    grows: bool

    def lines(self) -> list[str]:
        return [f"{title} = {size}" for title, size in zip(_TITLES, self.sizes)]


def widest(formulas: Sequence[ArenaFormulas]) -> ArenaFormulas:
    """The most that programs for any of several levels need; where a level has one program for all sizes, it counts for each."""
    first = formulas[0]
    most = max(len(f.sizes) for f in formulas)
    sizes = tuple(maximum(*(f.sizes[min(k, len(f.sizes) - 1)] for f in formulas)) for k in range(most))
    return ArenaFormulas(first.interface, sizes, any(f.grows for f in formulas))


def arena_formulas(knowledge: Sequence[EntryKnowledge], m: Interface) -> ArenaFormulas:
    return ArenaFormulas(m, tuple(arena_formula(k, m) for k in knowledge), any(k.varying() for k in knowledge))


def arena_formula(known: EntryKnowledge, m: Interface) -> Size:
    """The bytes of all regions, of which each has the most that it needs at any time."""
    return arena_size(known, entry_values(known, m))


def arena_size(known: EntryKnowledge, values: Mapping[int, Content]) -> Size:
    """The bytes of all regions, by the values of registers that dims alone decide."""
    total: Size = 0
    for sizes in known.regions().values():
        total = total + aligned(maximum(0, *(number_of(values[k]) for k in sizes)))
    return total
