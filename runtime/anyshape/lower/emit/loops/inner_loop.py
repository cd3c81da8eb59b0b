"""One inner loop of a scope as code: accumulators, stores, values kept in scratch.

In: a `Loop`. Out: instructions. Inside of a vector the loop is vertical (values are blocks of vectors); else it is horizontal: it runs
along its own vector variable and ends its reductions with one across the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from anyshape import dims
from anyshape.lower.analyse.classify import cost
from anyshape.lower.emit.loops import byte_sums, dot_sums, reduction
from anyshape.lower.emit.loops.empty_loops import not_empty, spans_of
from anyshape.lower.emit.loops.nest import Accumulators, LoopRanges, flat, nest_carrying, shaped, vector_loop
from anyshape.lower.emit.loops.streams_ahead import prefetch_streams
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.emit.values.quantisation import store_bytes
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, Operation, Reduction, affine, row_major, walk
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.llvm.interleaved_chains import interleave_chains
from anyshape.lower.llvm.types import I1, I32, I64, Type, Val, const
from anyshape.lower.schedule.tree import Loop, bodies_of

Keeps = Sequence[tuple[DagNode, Buffer]]
"""Nodes that a loop keeps, and where."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Memory that is prefetched: where an access is, or so many elements further on."""

    access: Access
    elements: Val | None
    to_write: bool


def emit_loop(ctx: KernelContext, step: Loop, keeps: Keeps | None = None, fetched: Iterable[Fetch] = ()) -> None:
    """Accumulates, stores and keeps, in scratch of its own unless `keeps` says where; prefetches `fetched` meanwhile."""
    values, levels = ctx.values, ctx.levels
    if keeps is None:
        keeps = [(n, allocate(ctx, n, step.variables)) for n in step.keep]
    if values.vector is not None or step.vector is None:
        sums = [_start(ctx, r, len(values.copies)) for r in step.reductions]
        with _unless_without_iterations(ctx, step, sums) as inside:
            inside.sums = nest_carrying(
                ctx,
                step.variables,
                inside.sums,
                lambda s: _iteration(ctx, step, s, keeps, fetched),
                ranges=LoopRanges(spans=spans_of(ctx, step)),
            )
        sums = inside.sums
        for r, accumulators in zip(step.reductions, sums, strict=True):
            for copy, value in enumerate(accumulators):
                levels.define(r, copy if values.varies(r) else -1, dot_sums.finished(values, r, value))
    else:
        _horizontal(ctx, step, keeps, fetched)
    for n, buffer in keeps:
        levels.hold(n, buffer)


@dataclass(slots=True)
class _CarriedSums:
    """What loops carry: before them, and after them."""

    sums: Accumulators


@contextmanager
def _unless_without_iterations(ctx: KernelContext, step: Loop, sums: Accumulators) -> Iterator[_CarriedSums]:
    """The loops of a step, in a branch if they look up what all iterations share: without an iteration nothing is looked up."""
    inside, populated = _CarriedSums(sums), ctx.values.populated
    open_ = {v for v in step.variables if v.extent not in populated and dims.ge(v.extent, 1) is not True}
    roots = [*bodies_of(step), *(s.value for s in step.stores), *step.keep]
    shared = any(isinstance(n, Load) and n.access.checks and open_ - n.domain for n in walk(roots)) if open_ else False
    if not shared:
        yield inside
        return
    extents = tuple(dict.fromkeys(v.extent for v in step.variables if v in open_))
    with ctx.levels.when(not_empty(ctx, extents), flat(sums)) as iteration:
        inside.sums = shaped(iteration.carried, sums)
        with ctx.values.populating(extents):
            yield inside
        iteration.next(flat(inside.sums))
    inside.sums = shaped(iteration.results, sums)


def allocate(ctx: KernelContext, node: DagNode, variables: tuple[LoopVar, ...]) -> Buffer:
    """Reserves row scratch for a node; inside of a vertical scope every element is a whole block of vectors."""
    vector = ctx.values.vector
    width = 1 if vector is None else vector.lanes * vector.copies
    own = [v for v in variables if vector is None or v is not vector.variable]
    terms, elements = row_major(own, width)
    return Buffer(ctx.memory.reserve(node.dtype, elements), affine(terms, 0), width)


def accumulate(ctx: KernelContext, r: Reduction, accumulator: Val, copy: int, ignores_nan: bool = False) -> Val:
    """Emits one step of a reduction; lanes that do not exist contribute nothing."""
    f, values, body, lanes = ctx.f, ctx.values, r.body, accumulator.type.lanes
    if values.vector is not None and values.vector.lanes == lanes * byte_sums.BYTES:
        return byte_sums.added(values, r, accumulator, copy)
    mask = values.mask(copy) if values.vector is not None and values.vector.variable in r.variables else None
    products = products_of(ctx, r, copy)
    if dot_sums.is_dot_sum(r):
        total = dot_sums.added(values, r, accumulator, copy)
    elif products:
        total = accumulator
        for negative, factors in products:
            x, y = (f.splat(values.of(a, copy), lanes) if lanes else values.of(a, copy) for a in factors)
            total = f.fma(f.neg(x) if negative else x, y, total)
    else:
        value = values.of(body, copy)
        if lanes:
            value = f.splat(value, lanes)
        step = reduction.extreme if ignores_nan else reduction.accumulate
        total = step(f, r.kind, r.dtype, accumulator, value)
    return total if mask is None else f.select(mask, total, accumulator)


def products_of(ctx: KernelContext, r: Reduction, copy: int) -> list[tuple[bool, Sequence[DagNode]]]:
    """The factors of each product that a sum of floats adds up, and whether it is subtracted; none if there are other values, or one that
    is known already."""
    adds_up = r.kind == "sum" and r.body.dtype.is_float and r.body.dtype.bits >= 32
    return _products(ctx, r.body, copy) if adds_up else []


def _products(
    ctx: KernelContext, n: DagNode, copy: int, negative: bool = False
) -> list[tuple[bool, Sequence[DagNode]]]:
    if not isinstance(n, Operation) or ctx.levels.find((n, copy)) is not None:
        return []
    match n.name, n.args:
        case "mul", factors:
            return [(negative, factors)]
        case (("add" | "sub"), (a, b)):
            first, second = _products(ctx, a, copy, negative), _products(ctx, b, copy, negative != (n.name == "sub"))
            return [*first, *second] if first and second else []
    return []


def _horizontal(ctx: KernelContext, step: Loop, keeps: Keeps, fetched: Iterable[Fetch]) -> None:
    lanes = ctx.lanes
    if byte_sums.are_all(step) and not keeps:
        ctx = replace(ctx, lanes=lanes * byte_sums.BYTES)
    heavy = sum(cost(n, frozenset(step.variables)) for n in bodies_of(step))
    unroll = 2 if heavy >= 40 else 4
    tiers = (unroll, 1) if step.reductions else (unroll,)
    watched = [r for r in step.reductions if r.kind in ("max", "min") and r.dtype.is_float]
    sums = [_start(ctx, r, unroll, lanes) for r in step.reductions]
    sums += [[const(_truths(ctx, r).vector(lanes), 0)] for r in watched]
    count = len(step.reductions)

    def body(carried: Accumulators) -> Accumulators:
        out = _iteration(ctx, step, carried[:count], keeps, fetched, watched)
        return out + [[_watch(ctx, r, seen)] for r, (seen,) in zip(watched, carried[count:], strict=True)]

    with _unless_without_iterations(ctx, step, sums) as inside:
        ranges = LoopRanges(spans=spans_of(ctx, step))
        along = vector_loop(step.vector, tiers)
        inside.sums = nest_carrying(ctx, step.variables, inside.sums, body, vector=along, ranges=ranges)
    sums = inside.sums
    seen_nan = {r: seen for r, (seen,) in zip(watched, sums[count:], strict=True)}
    for r, accumulators in zip(step.reductions, sums):
        total = reduction.finish(ctx.f, r.kind, r.dtype, accumulators, seen_nan.get(r))
        ctx.levels.define(r, -1, total)


def _truths(ctx: KernelContext, r: Reduction) -> Type:
    """What keeps a truth for each lane of a reduction's floats from one iteration to the next."""
    return I1 if ctx.f.target.has_mask_registers else I64 if r.dtype.bits == 64 else I32


def _watch(ctx: KernelContext, r: Reduction, seen: Val) -> Val:
    """Whether a lane has met NaN: kept beside the extremes, since two vectors are tested by one comparison."""
    f, copies = ctx.f, ctx.values.copies
    bodies = (elementwise.comparable(f, ctx.values.of(r.body, copy)) for copy in copies)
    each = [f.splat(value, seen.type.lanes) for value in bodies]
    for i in copies[::2]:
        nan = f.fcmp("uno", each[i], each[min(i + 1, copies[-1])])
        mask = ctx.values.mask(i)
        nan = nan if mask is None else f.and_(nan, mask)
        seen = f.or_(seen, nan if seen.type.bits == 1 else f.convert("sext", nan, seen.type))
    return seen


def _start(ctx: KernelContext, r: Reduction, copies: int, lanes: int = 0) -> list[Val]:
    varies = ctx.values.varies(r)
    lanes = lanes or ctx.values.lanes_of(varies)
    first = dot_sums.start(ctx.values, r, lanes)
    if first is None:
        first = elementwise.literal(r.dtype, neutral(r.kind, r.dtype))
        first = ctx.f.splat(first, lanes) if lanes else first
    return [first] * (copies if varies or lanes else 1)


def _iteration(
    ctx: KernelContext,
    step: Loop,
    sums: Accumulators,
    keeps: Keeps,
    fetched: Iterable[Fetch],
    watched: Sequence[Reduction] = (),
) -> Accumulators:
    """Emits the innermost body: all copies of every value, then keeps, stores and accumulators."""
    values = ctx.values
    out: Accumulators = []
    _fetch_ahead(ctx, fetched)
    prefetch_streams(ctx, step)
    for inner in step.inside:
        emit_loop(ctx, inner)
    _compute_interleaved(ctx, step, keeps)
    for n, buffer in keeps:
        for copy in values.copies_of(n):
            values.to_buffer(buffer, n, copy)
    for r, accumulators in zip(step.reductions, sums, strict=True):
        out.append([accumulate(ctx, r, a, copy, r in watched) for copy, a in enumerate(accumulators)])
    for s in step.stores:
        at_once = 1 if _tested_by_vector(ctx, s.value) else len(values.copies)
        if at_once > 1 and len(step.stores) == 1 and store_bytes(values, s.access, s.value, values.copies):
            continue
        for first in values.copies[::at_once]:
            stored = [values.of(s.value, copy) for copy in range(first, first + at_once)]
            for copy, value in enumerate(stored, first):
                values.store(s.access, value, copy)
    return out


def _compute_interleaved(ctx: KernelContext, step: Loop, keeps: Keeps) -> None:
    """Computes the copies of what is kept, added up and stored, interleaved. Values that are tested, or that become
    bytes, are left to their stores."""
    values = ctx.values
    if not ctx.f.target.interleaves_chains or len(values.copies) == 1:
        return
    roots = [n for n, _ in keeps]
    roots += [r.body for r in step.reductions if _is_added_as_it_is(ctx, r)]
    roots += [s.value for s in step.stores if s.value.dtype.is_float and s.value.dtype.bits >= 16]
    if not any(_tested_by_vector(ctx, n) for n in roots):
        for n in filter(values.varies, roots):
            interleave_chains(ctx.f, [partial(values.of, n, copy) for copy in values.copies])


def _is_added_as_it_is(ctx: KernelContext, r: Reduction) -> bool:
    """Whether a reduction takes the value of its body, rather than the factors of it."""
    body = r.body
    return isinstance(body, Operation) and body.name != "dot" and body.dtype.is_float and not products_of(ctx, r, 0)


def _tested_by_vector(ctx: KernelContext, n: DagNode) -> bool:
    """Whether every vector has a test of its own: values that wait for their stores until all vectors are tested would be computed after
    all tests."""
    bounds = [b for m in walk([n]) if isinstance(m, Load) for b in m.access.checks]
    nodes = [m for b in bounds for m in (*(let for let, _ in b.index.lets), b.guard) if m is not None]
    return any(ctx.values.varies(m) for m in nodes)


def _fetch_ahead(ctx: KernelContext, fetched: Iterable[Fetch]) -> None:
    """Prefetches memory that other loops will use, once for a whole block of vectors."""
    f, vector = ctx.f, ctx.values.vector
    if vector is None or vector.copies == 1:
        return
    for fetch in fetched:
        element = elementwise.memory_type(fetch.access.tensor.dtype)
        pointer = ctx.values.pointer(fetch.access.tensor, fetch.access.address)
        if fetch.elements is not None:
            pointer = f.gep(pointer, fetch.elements, element)
        for at in range(0, vector.copies * vector.lanes, f.target.line_bytes // element.bytes):
            f.prefetch(f.gep(pointer, at, element), fetch.to_write)
