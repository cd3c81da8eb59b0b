"""Recurrences as code: a loop over positions, inside the loops over rows or around products and rows.

In: a `Recurrence`. Out: instructions. The position is a symbol like those of dims, with a value only inside its loop
(`Values.stepping`). Rows of steps carry what they have just computed in registers; they are shared out to the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import cost
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.nest import Sums
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.scope import Iteration
from anyshape.lower.ir.dag import Load
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.contraction import Step
from anyshape.lower.schedule.recurrence import Positions, Recurrence, RowForm

Emit = Callable[[Step], None]


def emit_recurrence(rows: Rows, r: Recurrence, written: frozenset[Tensor], emit: Emit, split: bool) -> None:
    """`emit` writes a step; `split`: rows, or what is around the positions, may be shared out to the parts."""
    if isinstance(r.form, RowForm):
        _rows(rows, r.positions, r.form, split)
        return

    def positions(sums: Sums) -> Sums:
        with rows.alone(), _positions(rows, r.positions, ()):
            for step in r.steps:
                with rows.phase(written):
                    emit(step)
        return sums

    rows.nest(r.around, None, (), [], positions, split)


@contextmanager
def _positions(rows: Rows, along: Positions, carried: tuple[Val, ...]) -> Iterator[Iteration]:
    """The loop over the positions, in which the symbol has a value."""
    extent = rows.size(along.extent)
    with rows.loop(const(I64, 0), extent, 1, carried) as iteration:
        at = rows.f.sub(rows.f.sub(extent, 1), iteration.index) if along.backward else iteration.index
        with rows.step_to(along.symbol, at):
            yield iteration


def _rows(rows: Rows, along: Positions, form: RowForm, split: bool) -> None:
    inner = frozenset(form.variables)
    heavy = sum(cost(s.value, inner) for s in form.stores)
    tiers = () if form.vector is None else (1,) if heavy >= 20 else (4, 1)

    def row(sums: Sums) -> Sums:
        copies = range(rows.vector.copies if rows.vector is not None else 1)
        pairs = [(load, store, c) for load, store in form.carried for c in (copies if rows.varies(load) else range(1))]
        first = tuple(_first(rows, along, [(load, c) for load, _, c in pairs]))
        with _positions(rows, along, first) as iteration:
            for (load, _, copy), value in zip(pairs, iteration.carried, strict=True):
                rows.remember((load, copy if rows.varies(load) else -1), value)
            rows.forget_depths()
            for s in form.stores:
                values = [rows.value(s.value, copy) for copy in copies]
                for copy in copies if s.access.tensor not in form.dropped else ():
                    rows.store(s.access, values[copy], copy)
            iteration.next([rows.value(store.value, copy) for _, store, copy in pairs])
        return sums

    if not form.variables and split:
        with rows.when(rows.f.compare("eq", rows.part, 0)):
            row([])
        return
    rows.nest(form.variables, form.vector, tiers, [], row, split)


def _first(rows: Rows, along: Positions, loads: list[tuple[Load, int]]) -> list[Val]:
    """What the first position finds before it: the start of the recurrence, or anything where a condition keeps it from being used."""
    extent = rows.size(along.extent)
    found: list[Val] = []
    with rows.section(), rows.step_to(along.symbol, rows.f.sub(extent, 1) if along.backward else const(I64, 0)):
        for load, copy in loads:
            found.append(rows.value(load, copy) if rows.has_memory(load.access.tensor) else _nothing(rows, load))
    return found


def _nothing(rows: Rows, load: Load) -> Val:
    """A tensor without memory has no start: a condition keeps the first position from reading it."""
    lanes = rows.lanes_of(rows.varies(load))
    return rows.f.splat(elementwise.literal(load.dtype, 0), lanes)


__all__ = ["emit_recurrence"]
