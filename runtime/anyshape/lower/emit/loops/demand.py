"""Asserts on data as code: one test for all elements, and only where that fails a search for the first element that fails.

In: an `Ordered` whose form is a demand. Out: instructions.
"""

from __future__ import annotations

from anyshape.lower.emit.loops.nest import nest
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.failure_report import loads_below, refuse, word_of
from anyshape.lower.ir.stores import DemandedPart, Ordered


def emit_demand(ctx: KernelContext, o: Ordered) -> None:
    assert o.demanded is not None
    f = ctx.f
    for part in o.demanded.parts:
        with ctx.levels.section():
            holds = ctx.values.of(part.whole)
            stop, go = f.new_block(), f.new_block()
            f.expect(holds, go, stop)
            f.start(stop)
            with ctx.levels.inner():
                _refuse_first(ctx, o.demanded.error, part)
            f.start(go)
    with ctx.levels.section():
        ctx.values.store(o.store.access, ctx.values.of(o.store.value), 0)


def _refuse_first(ctx: KernelContext, error: int, part: DemandedPart) -> None:
    """Ends the kernel at the first element for which the demand does not hold."""
    f, values = ctx.f, ctx.values

    def refuse_element() -> None:
        loads = values.reported.loads(error, loads_below([part.each]))
        elements = [(values.index_value(n.access.address, 0), word_of(f, values.of(n), n.dtype)) for n in loads]
        refuse(f, error, elements)

    def test_element() -> None:
        holds = values.of(part.each)
        fails, following = f.new_block(), f.new_block()
        f.branch(holds, following, fails)
        f.start(fails)
        with ctx.levels.inner():
            refuse_element()
        f.start(following)

    if not part.variables:
        refuse_element()
        return
    nest(ctx, part.variables, test_element)
    refuse(f, error, [])
