"""The bytes of the arena as expressions of the caller's dims: the instructions that compute them, run on symbols.

In: what is known of programs. Out: expressions, equal to what `NAME_arena_bytes` returns where that fits 63 bits. The header, budgets and
`anyshape explain --memory` have them from here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import (
    Dim,
    Size,
    and_,
    eq,
    floordiv,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    mod,
    ne,
    not_,
    or_,
    select,
    substitute,
    symbol,
)
from anyshape.vm.compiling.emission import aligned
from anyshape.vm.export.entry_knowledge import EntryKnowledge
from anyshape.vm.export.interface import Interface
from anyshape.vm.program.table import Op

_MEANINGS: dict[Op, Callable[..., Any]] = {
    Op.ADD: operator.add, Op.SUB: operator.sub, Op.MUL: operator.mul, Op.FLOORDIV: floordiv, Op.MOD: mod, Op.MIN: minimum, Op.MAX: maximum,
    Op.EQ: eq, Op.NE: ne, Op.LT: lt, Op.LE: le, Op.GT: gt, Op.GE: ge, Op.AND: and_, Op.OR: or_, Op.NOT: not_, Op.SELECT: select,
    Op.CONST: int,
}  # fmt: skip
_DIVISIONS = frozenset({Op.FLOORDIV, Op.MOD})


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


def arena_formulas(knowledge: Sequence[EntryKnowledge], m: Interface) -> ArenaFormulas:
    return ArenaFormulas(m, tuple(arena_formula(k, m) for k in knowledge), any(k.varying() for k in knowledge))


def arena_formula(known: EntryKnowledge, m: Interface) -> Size:
    """The bytes of all regions, of which each has the most that it needs at any time."""
    values = _values(known, m)
    total: Size = 0
    for sizes in known.regions().values():
        total = total + aligned(maximum(0, *(values[k] for k in sizes)))
    return total


def _values(known: EntryKnowledge, m: Interface) -> dict[int, Any]:
    """Registers as expressions of dims under the names that the header has."""
    named = {d.symbol: symbol(d.c_name, 0) for d in m.dims}
    values: dict[int, Any] = {}
    for step in known.scalars():
        if step.op is Op.DIM:
            n = m.inputs[step["argument"]].shape[step["axis"]]
            values[step["d"]] = substitute(n, named) if isinstance(n, Dim) else n
        elif step.op is Op.THREADS:
            values[step["d"]] = 1
        elif step.op is Op.CONST:
            values[step["d"]] = step["n"]
        else:
            operands = [values[k] for k in step.registers()]
            by_zero = step.op in _DIVISIONS and operands[1] == 0
            values[step["d"]] = 0 if by_zero else _MEANINGS[step.op](*operands)
    return values
