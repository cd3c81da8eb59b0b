"""How much code a kernel of some equations will be: what bounds a group of fused nodes.

In: equations. Out: about how many instructions one element takes, once everything is computed where it is read. A map that is read at
several places is computed at each of them, and so is what it reads there: a tensor that is the sum of two slices of one that is the sum of
two slices is code for four places. Places are counted by what they are, so that a value which many read at one place counts once, as it is
computed once. Counting ends where it is known that the size is beyond what was asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.equations.builder import Equation, Run
from anyshape.equations.expr import Apply, Const, Expr, Read, Scalar, Var
from anyshape.equations.traversal import walk
from anyshape.kernel_model.costs import LOAD, LOOKED_UP_INSTRUCTIONS, ROUNDING_INSTRUCTIONS, cost_of

MOST_INSTRUCTIONS = 2_000
"""The most instructions of one element in a group's kernel: beyond them, fusion leaves the next node to another kernel. Code generation
takes some 0.1 ms for each instruction, in a few copies, and more than in proportion for much larger kernels."""

IndexKey = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class _EquationCost:
    """The cost of one equation's element, what it reads and where it is stored, and whether it reads only at its own index."""

    instructions: int
    reads: tuple[Read, ...]
    stored: IndexKey
    values: Mapping[Var, Hashable]
    plain: bool


class KernelSizes:
    """Counts, and keeps what it found out about each equation."""

    def __init__(self) -> None:
        self._known: dict[Equation, _EquationCost] = {}

    def is_within(self, equations: Sequence[Equation], most: int = MOST_INSTRUCTIONS) -> bool:
        """Whether a kernel of the equations has no more instructions for each element."""
        return self.instructions(equations, most) <= most

    def instructions(self, equations: Sequence[Equation], most: int | None = None) -> int:
        """The number of instructions, about, or some number above `most`. Equations come after those that they read."""
        codes = {q: self._code(q) for q in equations}
        if all(code.plain for code in codes.values()):
            return sum(code.instructions for code in codes.values())
        inner = _computed_where_read(equations)
        positions = {q: {code.stored: code.values} for q, code in codes.items()}
        total = 0
        for q in reversed(equations):
            code = codes[q]
            total += code.instructions * len(positions[q])
            if most is not None and total > most:
                return total
            for e in code.reads:
                source = inner.get(e.tensor)
                if source is None or source is q:
                    continue
                for at in list(positions[q].values()):
                    place = tuple(_term(i, at) for i in e.index)
                    if place not in positions[source]:
                        positions[source][place] = _values(source, place)
        return total

    def _code(self, q: Equation) -> _EquationCost:
        code = self._known.get(q)
        if code is None:
            distinct = {e: None for part in q.expressions for e in walk(part)}
            reads = tuple(e for e in distinct if isinstance(e, Read))
            values = _own_values(q)
            stored = tuple(_term(i, values) for i in q.index)
            plain = all(e.index == q.index for e in reads)
            code = self._known[q] = _EquationCost(sum(map(_instructions, distinct)), reads, stored, values, plain)
        return code


def _computed_where_read(equations: Iterable[Equation]) -> dict[Tensor, Equation]:
    """The equation of each tensor that exactly one equation defines."""
    definitions: dict[Tensor, Equation | None] = {}
    for q in equations:
        definitions[q.target] = None if q.target in definitions or q.form is not None else q
    return {t: q for t, q in definitions.items() if q is not None}


def _own_values(q: Equation) -> Mapping[Var, Hashable]:
    """The value of each variable: its extent, as variables of one extent are one loop."""
    taken: dict[Hashable, int] = {}
    values: dict[Var, Hashable] = {}
    for v in q.variables if not isinstance(q.form, Run) else ():
        k = taken[v.extent] = taken.get(v.extent, -1) + 1
        values[v] = (v.extent, k)
    return values


def _values(q: Equation, place: IndexKey) -> Mapping[Var, Hashable]:
    """The values of an equation's variables at a position of its target."""
    return {i: at for i, at in zip(q.index, place, strict=True) if isinstance(i, Var)}


def _term(i: Expr, values: Mapping[Var, Hashable]) -> Hashable:
    """An index, where the variables have these values."""
    if isinstance(i, Var):
        return values.get(i, i)
    if isinstance(i, Const):
        return i.value
    return (i.serial, *(values.get(v, v) for v in sorted(i.free, key=lambda v: v.serial)))


def _instructions(e: Expr) -> int:
    if isinstance(e, Read):
        looked_up = any(isinstance(n, Read) for i in e.index for n in walk(i))
        return LOOKED_UP_INSTRUCTIONS if looked_up else LOAD.instructions
    if isinstance(e, Apply):
        return cost_of(e.op).instructions + (_rounding(e.dtype) if e.op != "select" else 0)
    return 0 if isinstance(e, Const | Scalar | Var) else 1


def _rounding(dtype: DType | None) -> int:
    return 0 if dtype is None else ROUNDING_INSTRUCTIONS.get(dtype, 0)
