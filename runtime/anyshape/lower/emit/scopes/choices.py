"""Maps that choose once a row, or copy it: branches around the row's loop, in place of both values for every element.

In: a scope that stores one value, either a bare copy or a choice whose condition does not vary along the vector (old entries of a cache
or new ones, a row of pads or of the operand). Out: a loop for each alternative, of which a row runs one. An alternative that would
copy a row onto itself, since operand and result are the same memory, does nothing; where that holds for all rows, there are loops over the
others alone, as far as the condition tells their range. What is copied in long rows is copied by the C
library, in pieces: where the processor has an instruction for it, memory that is overwritten whole is not read first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.empty_iterations import conditions_of
from anyshape.lower.emit.loops.empty_loops import Spans
from anyshape.lower.emit.loops.inner_loop import emit_loop
from anyshape.lower.emit.loops.nest import LoopRanges, nest, vector_range, vector_share
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import DagNode, Load, LoopVar, Operation, affine, walk
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import F32, I1, I32, I64, Type, Val, const
from anyshape.lower.schedule.tree import Loop, Scope
from anyshape.lower.schedule.work import points

MOST = 6
"""Loops that one row may become."""
SHORT = 4
"""Vectors of rows that are copied without a loop of their own."""


def chosen_store(ctx: KernelContext, scope: Scope) -> Store | None:
    """The one store of a scope that only chooses or copies."""
    loop = scope.steps[0] if len(scope.steps) == 1 else None
    if ctx.values.vector is not None or scope.vector is None or scope.fills or not isinstance(loop, Loop):
        return None
    if (
        loop.variables
        or loop.reductions
        or loop.keep
        or len(loop.stores) != 1
        or scope.variables[-1] is not scope.vector
    ):
        return None
    store = loop.stores[0]
    count = _alternatives(store.value, scope.vector)
    if count == 1 and not _is_copy(ctx, store, scope.vector):
        return None
    return store if count <= MOST and not store.access.address.lets else None


def emit_choices(ctx: KernelContext, scope: Scope, store: Store, tiers: Sequence[int], split: bool) -> None:
    """Emits a loop for each alternative. `split`: the outermost variable is shared out to the parts."""
    along, outer = scope.variables[-1], scope.variables[:-1]

    def body() -> None:
        _choose(ctx, store.value, store, along, tiers, split and not outer)

    def short_rows() -> None:
        _short_rows(ctx, store, outer[-2:], along, split and len(outer) <= 2)

    def by_rows() -> None:
        short = _are_short(ctx, store, along) if outer else const(I1, 0)
        if short.number != 0:
            with ctx.levels.when(short, certain=True):
                nest(ctx, outer[:-2], short_rows, split=split)
        if short.number != 1:
            with ctx.levels.when(ctx.f.not_(short), certain=True):
                by_choice()

    def by_choice() -> None:
        stays = _stays_elsewhere(ctx, store, along, outer)
        if stays is None:
            nest(ctx, outer, body, split=split)
            return
        conditions, holds = stays
        with ctx.levels.when(holds, certain=True):
            for condition in conditions:
                nest(ctx, outer, body, split=split, ranges=LoopRanges(spans=Spans(ctx, outer, where=condition)))
        with ctx.levels.when(ctx.f.not_(holds), certain=True):
            nest(ctx, outer, body, split=split)

    joined = _joined(ctx, store, along, outer)
    if not joined:
        by_rows()
        return
    rest = const(I1, 1)
    for variables, long, count in reversed(joined):
        with ctx.levels.when(ctx.f.and_(rest, long), certain=True):
            _copy_joined(ctx, store, outer[: -len(variables)], count, split)
        rest = ctx.f.and_(rest, ctx.f.not_(long))
    with ctx.levels.when(rest, certain=True):
        by_rows()


def _stays_elsewhere(
    ctx: KernelContext, store: Store, along: LoopVar, outer: Sequence[LoopVar]
) -> tuple[Sequence[DagNode], Val] | None:
    """Conditions, and whether rows that none of them holds for are copied onto themselves: operand and result are the same memory, with
    the same steps. None where such rows are no copies of elements at the same place, where a condition tells no range, or where a row for
    which two of them hold, which is then stored twice, is computed of what it overwrites."""
    f = ctx.f
    chosen, conditions, other = _chosen(store.value, along)
    padded = padded_load(other)
    load = other if padded is None else padded.load
    if not isinstance(load, Load) or not conditions or load.dtype != store.access.tensor.dtype:
        return None
    if not all(map(conditions_of, conditions)) or (
        len(chosen) > 1 and load.access.tensor in _tensors([*chosen, *conditions])
    ):
        return None
    source, to = load.access, store.access
    by_variable = {affine([(v, 1)], 0): v for v in (*outer, along)}
    within = [(b.extent, by_variable.get(b.index)) for b in source.bounds]
    if source.checks or source.address.lets or any(v is None for _, v in within):
        return None
    if dims.eq(source.address.offset, to.address.offset) is not True:
        return None
    pairs = [(source.address.coefficient(v), to.address.coefficient(v)) for v in (*outer, along)]
    same = [f.compare("eq", ctx.sizes.of(a), ctx.sizes.of(b)) for a, b in pairs if dims.eq(a, b) is not True]
    whole = [f.compare("ge", ctx.sizes.of(n), ctx.sizes.of(v.extent)) for n, v in within if v is not None]
    bases = f.compare("eq", ctx.memory.base(source.tensor), ctx.memory.base(to.tensor))
    return conditions, functools.reduce(f.and_, (*same, *whole), bases)


def _chosen(n: DagNode, along: LoopVar) -> tuple[list[DagNode], list[DagNode], DagNode]:
    """What is chosen, one by one, the conditions for it, and the value where none of them holds."""
    chosen, conditions, choice = [], [], _choice(n, along)
    while choice is not None and padded_load(n) is None:
        condition, yes, n = choice
        chosen.append(yes)
        conditions.append(condition)
        choice = _choice(n, along)
    return chosen, conditions, n


def _tensors(values: Iterable[DagNode]) -> set[Tensor]:
    return {n.access.tensor for n in walk(values) if isinstance(n, Load)}


def _joined(
    ctx: KernelContext, store: Store, along: LoopVar, outer: Sequence[LoopVar]
) -> list[tuple[Sequence[LoopVar], Val, Val]]:
    """Finds the inner variables of a bare copy that may turn out to be contiguous with the vector's, such as rows whose size is a minimum
    of two: the variables, whether they are and the copy is long, and how many elements it has."""
    if not _is_copy(ctx, store, along):
        return []
    f, joined, held, count = ctx.f, list[tuple[Sequence[LoopVar], Val, Val]](), const(I1, 1), ctx.sizes.of(along.extent)
    known: Size = along.extent
    for i in range(len(outer) - 1, -1, -1):
        v = outer[i]
        steps = [ctx.sizes.coefficient(a.address.coefficient(v)) for a in (store.source, store.access)]
        if any(dims.eq(step, known) is False for step in steps):
            break
        for step in steps:
            held = f.and_(held, f.compare("eq", ctx.sizes.of(step), count))
        count, known = f.mul(count, ctx.sizes.of(v.extent)), known * v.extent
        joined.append((outer[i:], f.and_(held, f.compare("ge", count, _piece(ctx, store) // 2)), count))
    return joined


def _copy_joined(ctx: KernelContext, store: Store, outer: Sequence[LoopVar], count: Val, split: bool) -> None:
    """Copies so many elements for each iteration of the loops over `outer`."""
    element = elementwise.memory_type(store.value.dtype)

    def body() -> None:
        first, last = (
            ctx.parts.share(count, ctx.f.target.line_bytes // element.bytes)
            if split and not outer
            else (const(I64, 0), count)
        )
        source, to = (ctx.values.pointer(a.tensor, a.address) for a in (store.source, store.access))
        with ctx.levels.when(ctx.f.compare("ne", source, to)):
            _copy_long(ctx, store, (source, to), first, last)

    nest(ctx, outer, body, split=split)


def _are_short(ctx: KernelContext, store: Store, along: LoopVar) -> Val:
    """Whether rows are bare copies of some vectors; less than a vector only where it can be masked."""
    f, lanes = ctx.f, ctx.lanes
    if not _is_copy(ctx, store, along):
        return const(I1, 0)
    least, most = 0 if _maskable(ctx, store) else lanes, SHORT * lanes
    if isinstance(along.extent, int):
        return const(I1, int(least <= along.extent <= most))
    count = ctx.sizes.of(along.extent)
    return f.and_(f.compare("ge", count, least), f.compare("le", count, most))


def _maskable(ctx: KernelContext, store: Store) -> bool:
    return ctx.f.target.masks and elementwise.memory_type(store.access.tensor.dtype).bytes >= F32.bytes


def _short_rows(ctx: KernelContext, store: Store, variables: Sequence[LoopVar], along: LoopVar, split: bool) -> None:
    """Copies all rows of one or two variables, the outer one of which is shared out. Overhead per row keeps the processor from reading
    further rows ahead: there are loops over rows for each number of vectors, in which nothing but addresses change."""
    f, accesses = ctx.f, (store.source, store.access)
    lanes, count = ctx.lanes, ctx.sizes.of(along.extent)
    for v in variables:
        ctx.levels.bind(v, const(I64, 0))
    places = [ctx.values.pointer(a.tensor, a.address) for a in accesses]
    extents = [ctx.sizes.of(v.extent) for v in variables]
    steps = [[ctx.sizes.of(a.address.coefficient(v)) for a in accesses] for v in variables]
    differ = [f.compare("ne", a, b) for a, b in (places, *steps)]
    moves = functools.reduce(f.or_, differ)
    if len(variables) == 2:
        exchanged = _walks_the_operand(ctx, store, variables, along)
        extents = [f.select(exchanged, other, own) for own, other in zip(extents, extents[::-1], strict=True)]
        both = zip(steps, steps[::-1], strict=True)
        steps = [[f.select(exchanged, b, a) for a, b in zip(own, other, strict=True)] for own, other in both]
    ranges = [(const(I64, 0), n) for n in extents]
    ranges[0] = ctx.parts.share(extents[0]) if split else ranges[0]
    vectors, element = f.ceil_div(count, lanes), elementwise.memory_type(store.value.dtype)
    mask = f.tail_mask(f.convert("trunc", count, I32), lanes) if _maskable(ctx, store) else None

    def emit(k: int, depth: int, starts: Sequence[Val]) -> None:
        """Emits the loop over one of the variables, whose rows have k vectors."""
        if depth == len(variables):
            _copy_row(f, element.vector(lanes), starts, count, k, mask)
            return
        first, last = ranges[depth]
        starts = [f.gep(p, f.mul(first, step), element) for p, step in zip(starts, steps[depth], strict=True)]
        with ctx.levels.loop(first, last, 1, starts) as iteration:
            emit(k, depth + 1, iteration.carried)
            iteration.next([f.gep(p, step, element) for p, step in zip(iteration.carried, steps[depth], strict=True)])

    for k in range(1, SHORT + 1):
        with ctx.levels.when(f.and_(moves, f.compare("eq", vectors, k))):
            emit(k, 0, places)


def _walks_the_operand(ctx: KernelContext, store: Store, variables: Sequence[LoopVar], along: LoopVar) -> Val:
    """Whether the loops are exchanged. Where the second cache does not hold the operand, a few rows that are adjacent in it are read at
    once and written to as many places, each in order; otherwise each read would be far from the one before."""
    f, bytes_ = ctx.f, elementwise.memory_type(store.value.dtype).bytes
    few, many = (ctx.sizes.of(v.extent) for v in variables)
    near, far = (ctx.sizes.of(store.source.address.coefficient(v)) for v in variables)
    held = f.mul(f.mul(few, ctx.sizes.of(along.extent)), 2 * bytes_)
    large = f.compare("gt", ctx.sizes.of(2 * bytes_ * points(store.variables)), f.target.l2_bytes)
    fewer = f.and_(f.compare("lt", few, many), f.compare("le", held, f.target.l1_bytes))
    return f.and_(f.and_(large, fewer), f.compare("lt", near, far))


def _copy_row(f: FunctionBuilder, vector: Type, places: Sequence[Val], count: Val, k: int, mask: Val | None) -> None:
    """Copies a row of k vectors; the last one ends where the row does and overlaps the one before."""
    source, to = places
    if k == 1 and mask is not None:
        f.masked_store(f.masked_load(source, vector, mask), to, mask)
        return
    starts = [*(const(I64, i * vector.lanes) for i in range(k - 1)), f.sub(count, vector.lanes)]
    row = [f.load(f.gep(source, start, vector), vector) for start in starts]
    for start, each in zip(starts, row, strict=True):
        f.store(each, f.gep(to, start, vector))


def _choice(n: DagNode, along: LoopVar) -> tuple[DagNode, DagNode, DagNode] | None:
    """The condition, which is the same for a whole row, and the two values, of which some vary along it."""
    match n:
        case Operation("select", (condition, yes, no)):
            return None if along in condition.domain or along not in yes.domain | no.domain else (condition, yes, no)
    return None


def _alternatives(n: DagNode, along: LoopVar) -> int:
    choice = _choice(n, along)
    return 1 if choice is None else sum(_alternatives(a, along) for a in choice[1:])


def _choose(ctx: KernelContext, n: DagNode, store: Store, along: LoopVar, tiers: Sequence[int], split: bool) -> None:
    choice, f = _choice(n, along), ctx.f
    if choice is None:
        _row(ctx, n, store, along, tiers, split)
        return
    condition, yes, no = choice
    padded = padded_load(n)
    if padded is not None:
        holds = ctx.values.inside(padded.load.access.bounds, 0)
        assert holds is not None
    else:
        holds = ctx.values.of(condition)
    bounds = set() if padded is None else set(padded.load.access.bounds)
    with ctx.levels.when(holds), ctx.values.held(bounds - ctx.values.holding):
        _choose(ctx, yes, store, along, tiers, split)
    with ctx.levels.when(f.not_(holds)):
        _choose(ctx, no, store, along, tiers, split)


def _row(ctx: KernelContext, n: DagNode, store: Store, along: LoopVar, tiers: Sequence[int], split: bool) -> None:
    own = Store(store.access, n, store.variables)
    step = Loop((), None, (), (own,))

    def body() -> None:
        emit_loop(ctx, step)

    if not _is_copy(ctx, own, along):
        vector_range(ctx, along, tiers, vector_share(ctx, along, tiers, split), body)
        return
    f = ctx.f
    places = [ctx.values.pointer(a.tensor, a.address) for a in (own.source, own.access)]
    source, to = (f.convert("ptrtoint", p, I64) for p in places)
    with ctx.levels.when(f.compare("ne", source, to)):
        first, last = range_ = vector_share(ctx, along, tiers, split)
        piece = _piece(ctx, store)
        if isinstance(along.extent, int) and along.extent < piece // 2:
            vector_range(ctx, along, tiers, range_, body)
            return
        long = f.compare("ge", f.sub(last, first), piece // 2)
        with ctx.levels.when(f.not_(long)):
            vector_range(ctx, along, tiers, range_, body)
        with ctx.levels.when(long):
            _copy_long(ctx, store, places, first, last)


def _copy_long(ctx: KernelContext, store: Store, places: Sequence[Val], first: Val, last: Val) -> None:
    """Copies elements first .. last - 1 behind `places`, source and target, by the C library."""
    f, piece, element = ctx.f, _piece(ctx, store), elementwise.memory_type(store.access.tensor.dtype)
    with ctx.levels.loop(first, last, piece) as iteration:
        source, to = (f.gep(p, iteration.index, element) for p in places)
        f.memmove(to, source, f.mul(f.smin(f.sub(last, iteration.index), piece), element.bytes))


def _piece(ctx: KernelContext, store: Store) -> int:
    """Elements that are copied at once; rows of less than half of it are copied by vectors."""
    return ctx.f.target.piece_bytes // elementwise.memory_type(store.access.tensor.dtype).bytes


def _is_copy(ctx: KernelContext, store: Store, along: LoopVar) -> bool:
    to = store.access
    match store.value:
        case Load(source) if not (source.address.lets or source.checks or to.bounds or to.checks):
            same = source.tensor.dtype == to.tensor.dtype and to.tensor.dtype.kind != "bool"
            steps = [ctx.sizes.coefficient(a.address.coefficient(along)) for a in (source, to)]
            return same and steps == [1, 1] and set(source.bounds) <= ctx.values.holding
    return False
