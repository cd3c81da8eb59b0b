"""Equations whose elements come one after the other, as code: compaction is plain loops, sorting `sort`, updating `updates`.

In: an `Ordered`. Out: instructions. Positions are carried through the loops; where nothing of a filter varies with a variable of
the target, one pass serves all its values. Only the rows of a sort are independent, and are shared out to the parts.
"""

from __future__ import annotations

from anyshape.equations import Compaction, Demand, Sorting, Update
from anyshape.lower.emit.loops.demand import emit_demand
from anyshape.lower.emit.loops.empty_loops import Spans
from anyshape.lower.emit.loops.nest import Accumulators, LoopRanges, nest, nest_carrying, vector_loop
from anyshape.lower.emit.sequences.sort import emit_sort
from anyshape.lower.emit.sequences.updates import emit_update
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import Load, LoopVar
from anyshape.lower.ir.stores import Ordered, Store, below
from anyshape.lower.llvm.types import I64, const


def emit_ordered(ctx: KernelContext, o: Ordered) -> None:
    match o.form:
        case Sorting():
            emit_sort(ctx, o, o.form.descending)
        case Compaction():
            _compaction(ctx, o)
        case Update(op=op):
            emit_update(ctx, o, op)
        case Demand():
            emit_demand(ctx, o)


def _is_contiguous(store: Store, along: LoopVar) -> bool:
    """Whether what is stored lies side by side along a variable, and what is read for it does or is the same for all of them."""
    accesses = [n.access for n in below([store]) if isinstance(n, Load)]
    read = all(
        a.is_plain and a.address.coefficient(along) in (0, 1) and not any(along in n.domain for n, _ in a.address.lets)
        for a in accesses
    )
    return read and along in store.value.domain and bool(store.access.address.coefficient(along) == 1)


def _compaction(ctx: KernelContext, o: Ordered) -> None:
    """Emits a filter; the position stops at the end of the target, whatever the filter says, so that nothing is written outside."""
    f, position = ctx.f, o.position
    assert position is not None
    domain = frozenset() if o.where is None else o.where.domain
    outer = [v for v in o.store.variables if v in domain]
    inner = [v for v in o.store.variables if v not in domain]
    along = inner[-1] if inner and _is_contiguous(o.store, inner[-1]) else None

    def vector() -> None:
        nest_carrying(ctx, o.over, [[const(I64, 0)]], element, ranges=LoopRanges(spans=Spans(ctx, o.over)))

    def element(sums: Accumulators) -> Accumulators:
        ((at,),) = sums
        keep = f.compare("lt", at, ctx.sizes.of(position.extent))
        if o.where is not None:
            keep = f.and_(keep, ctx.values.of(o.where))
        with ctx.levels.when(keep, [at]) as iteration:
            ctx.levels.bind(position, at)
            nest(ctx, inner, store, vector=vector_loop(along, (4, 1)))
            iteration.next([f.add(at, 1)])
        return [list(iteration.results)]

    def store() -> None:
        values = ctx.values
        stored = [values.of(o.store.value, copy) for copy in values.copies]
        for copy, value in zip(values.copies, stored, strict=True):
            values.store(o.store.access, value, copy)

    nest(ctx, outer, vector)
