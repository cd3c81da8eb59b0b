"""Equations whose elements come one after the other, as code: compaction is plain loops, sorting `emit/sort`, updating `emit_updates`.

In: an `Ordered`. Out: instructions. Positions are carried through the loops; where nothing of a filter varies with a variable of
the target, one pass serves all its values. Only the rows of a sort are independent, and are shared out to the parts.
"""

from __future__ import annotations

from anyshape.equations import Compaction, Demand, Sorting, Update
from anyshape.lower.emit.demand import emit_demand
from anyshape.lower.emit.empty_loops import Spans
from anyshape.lower.emit.nest import Sums
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.sort import emit_sort
from anyshape.lower.emit.updates import emit_update
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.llvm.types import I64, const


def emit_ordered(rows: Rows, o: Ordered) -> None:
    match o.form:
        case Sorting():
            emit_sort(rows, o, o.form.descending)
        case Compaction():
            _compaction(rows, o)
        case Update(op):
            emit_update(rows, o, op)
        case Demand():
            emit_demand(rows, o)


def _compaction(rows: Rows, o: Ordered) -> None:
    """The position stops at the end of the target, whatever the filter says, so that nothing is written outside."""
    f, position = rows.f, o.position
    assert position is not None
    domain = frozenset() if o.where is None else o.where.domain
    outer = [v for v in o.store.variables if v in domain]
    inner = [v for v in o.store.variables if v not in domain]

    def vector(sums: Sums) -> Sums:
        rows.nest(o.over, None, (), [[const(I64, 0)]], element, spans=Spans(rows, o.over))
        return sums

    def element(sums: Sums) -> Sums:
        ((at,),) = sums
        keep = f.compare("lt", at, rows.size(position.extent))
        if o.where is not None:
            keep = f.and_(keep, rows.value(o.where))
        with rows.when(keep, [at]) as iteration:
            rows.bind(position)
            rows.indices[position] = at
            rows.nest(inner, None, (), [], store)
            iteration.next([f.add(at, 1)])
        return [list(iteration.results)]

    def store(sums: Sums) -> Sums:
        rows.store(o.store.access, rows.value(o.store.value), 0)
        return sums

    rows.nest(outer, None, (), [], vector)
