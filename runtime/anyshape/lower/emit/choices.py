"""Maps that choose once a row, or copy it: branches around the row's loop, in place of both values for every element.

In: a scope that stores one value, either a bare copy or a choice whose condition does not vary along the vector (old entries of a cache
or new ones, a row of pads or of the operand). Out: a loop for each alternative, of which a row runs one. An alternative that would
copy a row onto itself, since operand and result are the same memory, does nothing. What is copied in long rows is copied by the C
library, in pieces: where the processor has an instruction for it, memory that is overwritten whole is not read first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyshape import dims
from anyshape.dims import Size
from anyshape.lower.emit import elementwise
from anyshape.lower.ir.dag import DagNode, Load, LoopVar, Operation
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import F32, I1, I32, I64, Type, Val, const
from anyshape.lower.schedule.tree import Loop, Scope
from anyshape.lower.schedule.work import points

if TYPE_CHECKING:
    from anyshape.lower.emit.nest import Sums
    from anyshape.lower.emit.rows import Rows

MOST = 6
"""Loops that one row may become."""
SHORT = 4
"""Vectors of rows that are copied without a loop of their own."""


def chosen_store(rows: Rows, scope: Scope) -> Store | None:
    """The one store of such a scope."""
    loop = scope.steps[0] if len(scope.steps) == 1 else None
    if rows.vector is not None or scope.vector is None or scope.fills or not isinstance(loop, Loop):
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
    if count == 1 and not _is_copy(rows, store, scope.vector):
        return None
    return store if count <= MOST and not store.access.address.lets else None


def emit_choices(rows: Rows, scope: Scope, store: Store, tiers: Sequence[int], split: bool) -> None:
    """`split`: the outermost variable is shared out to the parts."""
    along, outer = scope.variables[-1], scope.variables[:-1]

    def body(sums: Sums) -> Sums:
        _choose(rows, store.value, store, along, tiers, split and not outer)
        return sums

    def short_rows(sums: Sums) -> Sums:
        _short_rows(rows, store, outer[-2:], along, split and len(outer) <= 2)
        return sums

    def by_rows() -> None:
        short = _are_short(rows, store, along) if outer else const(I1, 0)
        if short.number != 0:
            with rows.when(short):
                rows.nest(outer[:-2], None, (), [], short_rows, split)
        if short.number != 1:
            with rows.when(rows.f.not_(short)):
                rows.nest(outer, None, (), [], body, split)

    joined = _joined(rows, store, along, outer)
    if not joined:
        by_rows()
        return
    rest = const(I1, 1)
    for variables, long, count in reversed(joined):
        with rows.when(rows.f.and_(rest, long)):
            _copy_joined(rows, store, outer[: -len(variables)], count, split)
        rest = rows.f.and_(rest, rows.f.not_(long))
    with rows.when(rest):
        by_rows()


def _joined(
    rows: Rows, store: Store, along: LoopVar, outer: Sequence[LoopVar]
) -> list[tuple[Sequence[LoopVar], Val, Val]]:
    """Of a bare copy the inner variables that may turn out to walk memory as one with the vector's, such as rows whose size is the lesser
    of what there is and what is wanted: the variables, whether they do and are worth a long copy, and how many elements that are."""
    if not _is_copy(rows, store, along):
        return []
    f, found, held, count = rows.f, list[tuple[Sequence[LoopVar], Val, Val]](), const(I1, 1), rows.size(along.extent)
    known: Size = along.extent
    for i in range(len(outer) - 1, -1, -1):
        v = outer[i]
        steps = [rows.coefficient(a.address.coefficient(v)) for a in (store.source, store.access)]
        if any(dims.eq(step, known) is False for step in steps):
            break
        for step in steps:
            held = f.and_(held, f.compare("eq", rows.size(step), count))
        count, known = f.mul(count, rows.size(v.extent)), known * v.extent
        found.append((outer[i:], f.and_(held, f.compare("ge", count, _piece(rows, store) // 2)), count))
    return found


def _copy_joined(rows: Rows, store: Store, outer: Sequence[LoopVar], count: Val, split: bool) -> None:
    """So many elements for each turn of the loops over `outer`."""
    element = elementwise.memory_type(store.value.dtype)

    def body(sums: Sums) -> Sums:
        first, last = (
            rows.part_of(count, rows.f.target.line_bytes // element.bytes)
            if split and not outer
            else (const(I64, 0), count)
        )
        source, to = (rows.pointer(a.tensor, a.address) for a in (store.source, store.access))
        with rows.when(rows.f.compare("ne", source, to)):
            _copy_long(rows, store, (source, to), first, last)
        return sums

    rows.nest(outer, None, (), [], body, split)


def _are_short(rows: Rows, store: Store, along: LoopVar) -> Val:
    """Whether rows are bare copies of some vectors; less than a vector only where it can be masked."""
    f, lanes = rows.f, rows.f.target.lanes(rows.element_bytes)
    if not _is_copy(rows, store, along):
        return const(I1, 0)
    least, most = 0 if _maskable(rows, store) else lanes, SHORT * lanes
    if isinstance(along.extent, int):
        return const(I1, int(least <= along.extent <= most))
    count = rows.size(along.extent)
    return f.and_(f.compare("ge", count, least), f.compare("le", count, most))


def _maskable(rows: Rows, store: Store) -> bool:
    return rows.f.target.masks and elementwise.memory_type(store.access.tensor.dtype).bytes >= F32.bytes


def _short_rows(rows: Rows, store: Store, variables: Sequence[LoopVar], along: LoopVar, split: bool) -> None:
    """All rows of one or two variables, the outer one of which is shared out. What a row costs beside its vectors keeps the processor from
    reading further rows ahead: there are loops over rows for each number of vectors, in which nothing but addresses change."""
    f, accesses = rows.f, (store.source, store.access)
    lanes, count = f.target.lanes(rows.element_bytes), rows.size(along.extent)
    for v in variables:
        rows.bind(v)
        rows.indices[v] = const(I64, 0)
    places = [rows.pointer(a.tensor, a.address) for a in accesses]
    extents = [rows.size(v.extent) for v in variables]
    steps = [[rows.size(a.address.coefficient(v)) for a in accesses] for v in variables]
    differ = [f.compare("ne", a, b) for a, b in (places, *steps)]
    moves = functools.reduce(f.or_, differ)
    if len(variables) == 2:
        transposed = _walks_the_operand(rows, store, variables, along)
        extents = [f.select(transposed, other, own) for own, other in zip(extents, extents[::-1], strict=True)]
        both = zip(steps, steps[::-1], strict=True)
        steps = [[f.select(transposed, b, a) for a, b in zip(own, other, strict=True)] for own, other in both]
    ranges = [(const(I64, 0), n) for n in extents]
    ranges[0] = rows.part_of(extents[0], 1) if split else ranges[0]
    vectors, element = f.ceil_div(count, lanes), elementwise.memory_type(store.value.dtype)
    mask = f.tail_mask(f.convert("trunc", count, I32), lanes) if _maskable(rows, store) else None

    def emit(k: int, depth: int, starts: Sequence[Val]) -> None:
        """The loop over one of the variables, its rows so many vectors."""
        if depth == len(variables):
            _copy_row(f, element.vector(lanes), starts, count, k, mask)
            return
        first, last = ranges[depth]
        starts = [f.gep(p, f.mul(first, step), element) for p, step in zip(starts, steps[depth], strict=True)]
        with rows.loop(first, last, 1, starts) as iteration:
            emit(k, depth + 1, iteration.carried)
            iteration.next([f.gep(p, step, element) for p, step in zip(iteration.carried, steps[depth], strict=True)])

    for k in range(1, SHORT + 1):
        with rows.when(f.and_(moves, f.compare("eq", vectors, k))):
            emit(k, 0, places)


def _walks_the_operand(rows: Rows, store: Store, variables: Sequence[LoopVar], along: LoopVar) -> Val:
    """Whether the loops are exchanged: of what the second cache does not hold a few rows that follow each other in the operand are read at
    once, and go to as many places that are each walked in order; otherwise each read would be far from the one before."""
    f, bytes_ = rows.f, elementwise.memory_type(store.value.dtype).bytes
    few, many = (rows.size(v.extent) for v in variables)
    near, far = (rows.size(store.source.address.coefficient(v)) for v in variables)
    held = f.mul(f.mul(few, rows.size(along.extent)), 2 * bytes_)
    large = f.compare("gt", rows.size(2 * bytes_ * points(store.variables)), f.target.l2_bytes)
    fewer = f.and_(f.compare("lt", few, many), f.compare("le", held, f.target.l1_bytes))
    return f.and_(f.and_(large, fewer), f.compare("lt", near, far))


def _copy_row(f: FunctionBuilder, vector: Type, places: Sequence[Val], count: Val, k: int, mask: Val | None) -> None:
    """Of k vectors; the last one ends where the row does, over the end of the one before."""
    source, to = places
    if k == 1 and mask is not None:
        f.masked_store(f.masked_load(source, vector, mask), to, mask)
        return
    starts = [*(const(I64, i * vector.lanes) for i in range(k - 1)), f.sub(count, vector.lanes)]
    row = [f.load(f.gep(source, start, vector), vector) for start in starts]
    for start, each in zip(starts, row, strict=True):
        f.store(each, f.gep(to, start, vector))


def _choice(n: DagNode, along: LoopVar) -> tuple[DagNode, DagNode, DagNode] | None:
    """The condition, which rows make as a whole, and the two values, of which some vary along them."""
    match n:
        case Operation("select", (condition, yes, no)):
            return None if along in condition.domain or along not in yes.domain | no.domain else (condition, yes, no)
    return None


def _alternatives(n: DagNode, along: LoopVar) -> int:
    choice = _choice(n, along)
    return 1 if choice is None else sum(_alternatives(a, along) for a in choice[1:])


def _choose(rows: Rows, n: DagNode, store: Store, along: LoopVar, tiers: Sequence[int], split: bool) -> None:
    choice, f = _choice(n, along), rows.f
    if choice is None:
        _row(rows, n, store, along, tiers, split)
        return
    condition, yes, no = choice
    padded = padded_load(n)
    if padded is not None:
        holds = rows.inside(padded.load.access.bounds, 0)
        assert holds is not None
    else:
        holds = rows.value(condition)
    bounds = set() if padded is None else set(padded.load.access.bounds)
    with rows.when(holds), rows.held(bounds - rows.holding):
        _choose(rows, yes, store, along, tiers, split)
    with rows.when(f.not_(holds)):
        _choose(rows, no, store, along, tiers, split)


def _row(rows: Rows, n: DagNode, store: Store, along: LoopVar, tiers: Sequence[int], split: bool) -> None:
    own = Store(store.access, n, store.variables)
    step = Loop((), None, (), (own,))

    def body(sums: Sums) -> Sums:
        rows.loop_step(step)
        return sums

    if not _is_copy(rows, own, along):
        rows.vector_loop(along, tiers, [], body, split)
        return
    f = rows.f
    places = [rows.pointer(a.tensor, a.address) for a in (own.source, own.access)]
    source, to = (f.convert("ptrtoint", p, I64) for p in places)
    with rows.when(f.compare("ne", source, to)):
        first, last = range_ = rows.vector_share(along, tiers, split)
        piece = _piece(rows, store)
        if isinstance(along.extent, int) and along.extent < piece // 2:
            rows.vector_range(along, tiers, range_, [], body)
            return
        long = f.compare("ge", f.sub(last, first), piece // 2)
        with rows.when(f.not_(long)):
            rows.vector_range(along, tiers, range_, [], body)
        with rows.when(long):
            _copy_long(rows, store, places, first, last)


def _copy_long(rows: Rows, store: Store, places: Sequence[Val], first: Val, last: Val) -> None:
    """Elements first .. last - 1 behind `places`, source and target, by the C library."""
    f, piece, element = rows.f, _piece(rows, store), elementwise.memory_type(store.access.tensor.dtype)
    with rows.loop(first, last, piece) as iteration:
        source, to = (f.gep(p, iteration.index, element) for p in places)
        f.memmove(to, source, f.mul(f.smin(f.sub(last, iteration.index), piece), element.bytes))


def _piece(rows: Rows, store: Store) -> int:
    """Elements that are copied at once; rows of less than half of it are copied by vectors."""
    return rows.f.target.piece_bytes // elementwise.memory_type(store.access.tensor.dtype).bytes


def _is_copy(rows: Rows, store: Store, along: LoopVar) -> bool:
    to = store.access
    match store.value:
        case Load(source) if not (source.address.lets or source.checks or to.bounds or to.checks):
            same = source.tensor.dtype == to.tensor.dtype and to.tensor.dtype.kind != "bool"
            steps = [rows.coefficient(a.address.coefficient(along)) for a in (source, to)]
            return same and steps == [1, 1] and set(source.bounds) <= rows.holding
    return False
