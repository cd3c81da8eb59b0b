"""The bytes of the arena as expressions of the caller's dims: the instructions that compute them, run on symbols.

In: what is known of programs. Out: expressions, equal to what `NAME_arena_bytes` returns where that fits 63 bits. The header, budgets and
`anyshape explain --memory` have them from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from anyshape.dims import Size, maximum
from anyshape.vm.compiling.emission import aligned
from anyshape.vm.export.entry_knowledge import EntryKnowledge
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.register_values import Content, entry_values, number_of
from anyshape.vm.export.size_limits import SizeLimits

_TITLES = ("arena", "arena, where a dim is 0")
_NOTHING: Size = 0


@dataclass(frozen=True)
class ArenaFormulas:
    """`sizes`: the bytes for dims of at least 1, and for calls with another dim where another program runs these. `grows`: whether a run
    may need more, by what elements decide; `most`: the most that it may need, for each of `sizes`, None where that has no limit."""

    interface: Interface
    sizes: tuple[Size, ...]
    grows: bool
    most: tuple[Size | None, ...]

    @property
    def is_limited(self) -> bool:
        """Whether runs may need more than the formula, and a limit is known of calls whose dims are all at least 1."""
        return self.grows and self.most[0] is not None

    def lines(self) -> list[str]:
        lines = [f"{title} = {size}" for title, size in zip(_TITLES, self.sizes)]
        if self.is_limited:
            lines += [f"{title}, at most = {size}" for title, size in zip(_TITLES, self.most) if size is not None]
        return lines


def widest(formulas: Sequence[ArenaFormulas]) -> ArenaFormulas:
    """The most that programs for any of several levels need; where a level has one program for all sizes, it counts for each."""
    first = formulas[0]
    most = max(len(f.sizes) for f in formulas)
    sizes = tuple(maximum(*(f.sizes[min(k, len(f.sizes) - 1)] for f in formulas)) for k in range(most))
    limits = [[f.most[min(k, len(f.most) - 1)] for f in formulas] for k in range(most)]
    limited = tuple(None if None in row else maximum(*(n for n in row if n is not None)) for row in limits)
    return ArenaFormulas(first.interface, sizes, any(f.grows for f in formulas), limited)


def arena_formulas(knowledge: Sequence[EntryKnowledge], m: Interface) -> ArenaFormulas:
    values = [entry_values(k, m) for k in knowledge]
    sizes = tuple(map(arena_size, knowledge, values))
    return ArenaFormulas(m, sizes, any(k.varying() for k in knowledge), tuple(map(most_bytes, knowledge, values)))


def most_bytes(known: EntryKnowledge, values: Mapping[int, Content]) -> Size | None:
    """The most bytes that all regions may come to need; None where that has no limit."""
    if not known.varying():
        return arena_size(known, values)
    limits = SizeLimits(known, values)
    regions = limits.regions()
    if regions is None:
        return None
    return reduce(lambda total, n: total + aligned(limits.of_caller(n)), regions.values(), _NOTHING)


def arena_size(known: EntryKnowledge, values: Mapping[int, Content]) -> Size:
    """The bytes of all regions, by the values of registers that dims alone decide."""
    total: Size = 0
    for sizes in known.regions().values():
        total = total + aligned(maximum(0, *(number_of(values[k]) for k in sizes)))
    return total
