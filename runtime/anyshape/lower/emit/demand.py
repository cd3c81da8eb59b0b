"""Asserts on data as code: whether they hold is one test, and only where one does not the first element that is to blame is looked for.

In: an `Ordered` whose form is a demand. Out: instructions.
"""

from __future__ import annotations

from anyshape.lower.emit.failure_report import loads_below, refuse, told_of, word_of
from anyshape.lower.emit.nest import Sums
from anyshape.lower.emit.rows import Rows
from anyshape.lower.ir.stores import Asked, Ordered


def emit_demand(rows: Rows, o: Ordered) -> None:
    assert o.demanded is not None
    f = rows.f
    for part in o.demanded.parts:
        with rows.section():
            holds = rows.value(part.whole)
            stop, go = f.new_block(), f.new_block()
            f.expect(holds, go, stop)
            f.start(stop)
            rows.enter()
            _look_for(rows, o.demanded.error, part)
            rows.leave()
            f.start(go)
    with rows.section():
        rows.store(o.store.access, rows.value(o.store.value), 0)


def _look_for(rows: Rows, error: int, part: Asked) -> None:
    """Ends the kernel, at the first element of which it does not hold."""
    f = rows.f

    def blame() -> None:
        loads = told_of(rows, error, loads_below([part.each]))
        refuse(
            rows, error, [(rows.index_value(n.access.address, 0), word_of(rows, rows.value(n), n.dtype)) for n in loads]
        )

    def look(sums: Sums) -> Sums:
        holds = rows.value(part.each)
        fails, following = f.new_block(), f.new_block()
        f.branch(holds, following, fails)
        f.start(fails)
        rows.enter()
        blame()
        rows.leave()
        f.start(following)
        return sums

    if not part.variables:
        blame()
        return
    rows.nest(part.variables, None, (), [], look)
    refuse(rows, error, [])


__all__ = ["emit_demand"]
