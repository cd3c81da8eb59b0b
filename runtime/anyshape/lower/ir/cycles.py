"""Equations of one recurrence while they are inlined: which positions each read refers to, and which tensors need memory.

In: equations with the form `RecurrenceStep`. Out: which of them are values in others, which are kept for the current position only, which
for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import dims
from anyshape.dims import Dim
from anyshape.equations import Apply, Const, Equation, Expr, Read, RecurrenceStep, Reduce, Scalar, Tensor, Var
from anyshape.equations.traversal import walk
from anyshape.lower.ir.dag import Affine, Load


class Cycle:
    """A recurrence that is inlined. `position` stands for the current position; `stored` are the equations that write to memory."""

    def __init__(self, unit: Sequence[Equation], position: Dim, outputs: Sequence[Tensor]) -> None:
        self.position = position
        self.targets = {q.target: q for q in unit}
        self.late: set[Load] = set()
        """Loads of what is written at the position itself."""
        self.backward = isinstance(unit[0].form, RecurrenceStep) and unit[0].form.backward
        self.extent = _along(unit[0]).extent
        history = {t for q in unit for t in self._read_elsewhere(q)} | set(outputs)
        last = {
            q.target for q in unit if all(_along(q) not in i.free for i in q.index)
        }  # each position overwrites the one before
        history |= last | {t for t in self.targets if sum(q.target is t for q in unit) > 1}
        self.inlined: dict[Tensor, Equation] = {}
        self.momentary: dict[Tensor, Tensor] = {}
        for t, q in self.targets.items():
            once = sum(other.target is t for other in unit) == 1
            if t in last:
                continue
            if once and not self._recomputes(unit, t) and self._is_simple(q):
                self.inlined[t] = q
            elif t not in history:
                shape = tuple(n for k, n in enumerate(t.shape) if k != self.place(t))
                self.momentary[t] = Tensor(t.name, t.dtype, shape)
        self.stored = [q for q in unit if q.target in history or q.target in self.momentary]

    def place(self, t: Tensor) -> int:
        """The dim of the tensor that the recurrence goes along."""
        q = self.targets[t]
        return next(k for k, i in enumerate(q.index) if _along(q) in i.free)

    def back(self, t: Tensor, index: Sequence[Affine]) -> int | None:
        """How many positions before its own a read is, 0 for its own; None if that is not known."""
        at = index[self.place(t)]
        q = self.targets[t]
        written = _shift(q.index[self.place(t)], _along(q))
        if at.terms or at.lets or written is None:
            return None
        distance = self.position + written - at.offset
        if not isinstance(distance, int):
            return None
        distance = -distance if self.backward else distance
        return distance if distance >= 0 else None

    def _read_elsewhere(self, q: Equation) -> set[Tensor]:
        """Tensors of the cycle that an equation reads at other positions than its own."""
        return {e.tensor for e in self._reads(q) if not self._is_here(q, e)}

    def _reads(self, q: Equation) -> list[Read]:
        return [e for part in q.expressions for e in walk(part) if isinstance(e, Read) and e.tensor in self.targets]

    def _is_here(self, q: Equation, e: Read) -> bool:
        own = self.targets[e.tensor]
        place = self.place(e.tensor)
        shift = _shift(e.index[place], _along(q))
        return shift is not None and shift == _shift(own.index[place], _along(own))

    def _recomputes(self, unit: Sequence[Equation], t: Tensor) -> bool:
        """Whether a reduction would be computed several times, for different reads of it."""
        if not any(isinstance(e, Reduce) for e in walk(self.targets[t].value)):
            return False
        forms: set[tuple[object, ...]] = set()
        for q in unit:
            for e in self._reads(q):
                if e.tensor is t and self._is_here(q, e):
                    rest = [i for k, i in enumerate(e.index) if k != self.place(t)]
                    plain = all(isinstance(i, Var) for i in rest) and len(set(rest)) == len(rest)
                    forms.add(("plain",) if plain else tuple(rest))
        return len(forms) > 1

    def _is_simple(self, q: Equation) -> bool:
        """Whether the index, except for the position, is distinct variables that cover the tensor."""
        seen: set[Expr] = set()
        for k, (i, n) in enumerate(zip(q.index, q.target.shape, strict=True)):
            if k == self.place(q.target):
                continue
            if isinstance(i, Var) and i.extent == n and i not in seen:
                seen.add(i)
            elif not (isinstance(i, Const) and i.value == 0 and n == 1):
                return False
        return True


def _along(q: Equation) -> Var:
    assert isinstance(q.form, RecurrenceStep)
    return q.form.along


def _shift(i: Expr, along: Var) -> dims.Size | None:
    """The number added to the variable of the recurrence; None if the index is something else."""
    if i is along:
        return 0
    if isinstance(i, Apply) and i.op in ("add", "sub"):
        first, second = i.args
        if first is along and isinstance(second, (Const, Scalar)):
            size = second.value if isinstance(second, Const) else second.size
            if isinstance(size, (int, Dim)):
                return size if i.op == "add" else -size
    return None
