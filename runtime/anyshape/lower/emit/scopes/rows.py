"""Scopes of the schedule tree as code: versions by run-time coefficients, loops around steps, what steps hand on in scratch.

In: a `Scope`. Out: instructions. A vector variable that is shared makes everything inside vertical (values are blocks of
vectors); otherwise each inner loop runs along its own vector variable. `inner_loop.py` has those, `nest.py` the loops around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from anyshape import dims
from anyshape.dims import Size
from anyshape.lower.analyse.classify import cost
from anyshape.lower.analyse.empty_iterations import with_ranges_of_their_own
from anyshape.lower.emit.loops.inner_loop import allocate, emit_loop
from anyshape.lower.emit.loops.nest import VectorLoop, nest, vector_loop
from anyshape.lower.emit.scopes.choices import chosen_store, emit_choices
from anyshape.lower.emit.scopes.interior import emit_interior, is_most_of_rows
from anyshape.lower.emit.scopes.lanes_first import emit_lanes_first
from anyshape.lower.emit.scopes.narrow_elements import width_factor
from anyshape.lower.emit.scopes.row_blocks import emit_in_blocks, runs_in_blocks
from anyshape.lower.emit.scopes.rows_together import emit_together, runs_together
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.emit.values.lookups import looked_up_byte
from anyshape.lower.ir.dag import DagNode, Load, LoopVar
from anyshape.lower.ir.stores import below
from anyshape.lower.llvm.types import I64, const
from anyshape.lower.schedule.reuse import matches
from anyshape.lower.schedule.tree import Interior, Loop, Scope, Tried, bodies_of, loops_of, run_time_coefficients

LIGHT = 8
"""Cycles per vector of a map that is little more than a copy: the rest of a row after whole blocks takes a notable share of its time."""
Fills = Mapping[DagNode, Buffer]
"""Scratch that the scopes around have reserved for values of nodes."""


def emit_versions(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope whose outermost loop is split over the parts; a run-time coefficient of a vector has a version each for 1 and 0, and
    usual extents have one."""
    usual, f = scope.usual, ctx.f
    if usual is not None:
        tests = [(n, "eq", count) for n, count in usual.extents] + [(n, "le", count) for n, count in usual.most]
        is_usual = reduce(f.and_, (f.compare(test, ctx.sizes.of(n), count) for n, test, count in tests))
        with ctx.levels.when(is_usual):
            emit_versions(ctx, usual.scope)
        with ctx.levels.when(f.not_(is_usual)):
            emit_versions(ctx, replace(scope, usual=None))
        return
    _emit_versions(ctx, scope, run_time_coefficients(scope)[:2])


def _emit_versions(ctx: KernelContext, scope: Scope, choices: list[Size]) -> None:
    if not choices:
        emit_scope(ctx, scope, split=True)
        return
    f, levels = ctx.f, ctx.levels
    c, rest = choices[0], choices[1:]
    is_one = f.compare("eq", ctx.sizes.of(c), 1)
    with levels.when(is_one, certain=True), ctx.sizes.assume(c, 1):
        _emit_versions(ctx, scope, rest)
    is_other = f.not_(is_one)
    if dims.bounds(c) == (0, 1):
        with levels.when(is_other, certain=True), ctx.sizes.assume(c, 0):
            _emit_versions(ctx, scope, rest)
        return
    is_zero = f.compare("eq", ctx.sizes.of(c), 0)
    with levels.when(is_zero, certain=True), ctx.sizes.assume(c, 0):
        _emit_versions(ctx, scope, rest)
    with levels.when(f.and_(is_other, f.not_(is_zero)), certain=True):
        _emit_versions(ctx, scope, rest)


def emit_scope(ctx: KernelContext, scope: Scope, split: bool = False, fills: Fills | None = None) -> None:
    levels, f = ctx.levels, ctx.f

    def steps() -> None:
        _emit_steps(ctx, scope, fills or {})

    if not scope.variables and split:
        with levels.when(ctx.parts.is_first(), certain=True):
            steps()
        return
    if runs_in_blocks(ctx, scope):
        emit_in_blocks(ctx, scope, split)
        return
    if runs_together(ctx, scope):
        emit_together(ctx, scope, split)
        return
    inside = _loops_inside(scope)
    if scope.interior is not None:
        _emit_with_interior(ctx, scope, scope.interior, split)
        return
    if inside is not None:
        emit_lanes_first(ctx, scope, inside, lambda: _emit_steps(ctx, inside, {}), split)
        return
    tiers = _vertical_tiers(ctx, scope) if scope.vector is not None else ()
    chosen = chosen_store(ctx, scope)
    if chosen is not None:
        emit_choices(ctx, scope, chosen, tiers, split)
        return
    single = _perhaps_single(ctx, scope)
    if single is None:
        overlaps, factor = may_compute_twice(scope), width_factor(ctx, scope)
        along = None if scope.vector is None else VectorLoop(scope.vector, tiers, overlaps, factor)
        nest(ctx, scope.variables, steps, vector=along, split=split)
        return
    one = f.compare("eq", ctx.sizes.of(single.extent), 1)
    with levels.when(one, certain=True), ctx.sizes.assume(single.extent, 1):
        levels.bind(single, const(I64, 0))
        nest(ctx, scope.variables[:-1], steps, vector=VectorLoop(scope.variables[-2], (1,)), split=split)
    with levels.when(f.not_(one), certain=True):
        nest(ctx, scope.variables, steps, vector=vector_loop(scope.vector, tiers), split=split)


def _emit_with_interior(ctx: KernelContext, scope: Scope, interior: Interior, split: bool) -> None:
    """Emits rows by their insides; where that is little as if there were none, with masks or the lanes first, but for places
    that would be gathered one by one."""
    loads = [n for n in below(scope.stores) if isinstance(n, Load)]
    gathers = any(scope.vector in let.domain for n in loads for let, _ in n.access.address.lets)
    if gathers and _loops_inside(scope) is None:
        emit_interior(ctx, interior, split)
        return
    worth = is_most_of_rows(ctx, interior)
    with ctx.levels.when(worth):
        emit_interior(ctx, interior, split)
    with ctx.levels.when(ctx.f.not_(worth)):
        emit_scope(ctx, replace(scope, interior=None), split)


def _loops_inside(scope: Scope) -> Scope | None:
    """The loops of rows inside of the loop of a vector."""
    inside = scope.steps[0] if len(scope.steps) == 1 and scope.vector is not None else None
    return inside if isinstance(inside, Scope) and inside.vector is None and not inside.fills else None


def may_compute_twice(scope: Scope) -> bool:
    """Whether rows are of a map that steps over elements of an operand, whose masked loads would gather them one by one, and no operand may
    be the memory of a result: then the end of a row is a whole vector that overlaps the one before it."""
    loop, vector = scope.steps[0] if len(scope.steps) == 1 else None, scope.vector
    if vector is None or not isinstance(loop, Loop) or loop.variables or loop.reductions or loop.keep or scope.fills:
        return False
    loads = [n.access for n in below(loop.stores) if isinstance(n, Load)]
    steps = [c for a in loads if isinstance(c := a.address.coefficient(vector), int) and abs(c) > 1]
    written = {s.access.tensor for s in loop.stores}
    return bool(steps) and not any(a.tensor in written or matches(a, s) for a in loads for s in loop.stores)


def _perhaps_single(ctx: KernelContext, scope: Scope) -> LoopVar | None:
    """The variable of rows that data picks, one by one, if it may turn out to have one element: lanes then run over the rows."""
    loop = scope.steps[0] if len(scope.steps) == 1 else None
    if not isinstance(loop, Loop) or loop.variables or loop.reductions or loop.keep or scope.fills:
        return None
    if ctx.values.vector is not None or len(scope.variables) < 2 or scope.variables[-1] is not scope.vector:
        return None
    along, down = scope.variables[-1], scope.variables[-2]
    lets = [n.access.address.lets for n in below(loop.stores) if isinstance(n, Load)]
    picks = [own for own in lets if any(down in let.domain for let, _ in own)]
    by_row = picks and not any(along in let.domain for own in picks for let, _ in own)
    return along if by_row and dims.bounds(along.extent)[1] != dims.bounds(along.extent)[0] else None


def _emit_steps(ctx: KernelContext, scope: Scope, fills: Fills) -> None:
    for step in scope.steps:
        _emit_step(ctx, step)
    for t in scope.fills:
        for copy in ctx.values.copies_of(t.node):
            ctx.values.to_buffer(fills[t.node], t.node, copy)


def _emit_step(ctx: KernelContext, step: Scope | Loop) -> None:
    match step:
        case Loop(tried=None):
            emit_loop(ctx, step)
        case Loop(tried=tried):
            assert tried is not None
            _emit_tried(ctx, step, tried)
        case Scope():
            buffers = {s.node: allocate(ctx, s.node, s.variables) for s in step.fills}
            emit_scope(ctx, step, fills=buffers)
            for node, buffer in buffers.items():
                ctx.levels.hold(node, buffer)


def _emit_tried(ctx: KernelContext, loop: Loop, tried: Tried) -> None:
    """Emits a sum in the order that is tried first, and where that gives an infinity or NaN as it is written."""
    f, values, (total,) = ctx.f, ctx.values, loop.reductions
    for step in tried.steps:
        _emit_step(ctx, step)
    copies = values.copies_of(total)
    sums = [values.of(tried.value, copy) for copy in copies]
    differences = (f.sub(s, s) for s in sums)  # 0, or NaN
    tests = [f.fcmp("uno", d, d) for d in differences]
    bad = reduce(f.or_, tests)
    with ctx.levels.when(f.reduce("or", bad) if bad.type.lanes else bad, sums) as plain:
        emit_loop(ctx, loop)
        plain.next([values.of(total, copy) for copy in copies])
    for copy, value in zip(copies, plain.results, strict=True):
        ctx.levels.define(total, copy if values.varies(total) else -1, value)


def _vertical_tiers(ctx: KernelContext, scope: Scope) -> tuple[int, ...]:
    """Vectors per block: as many as registers allow where the body is small, few where it is long."""
    loops = list(loops_of(scope))
    inner = frozenset(scope.variables).union(*(s.variables for s in loops))
    count = max((len(s.reductions) + sum(len(x.reductions) for x in s.inside) for s in loops), default=0)
    if count == 0:
        bodies = [n for s in loops for n in bodies_of(s)]
        if bodies and ctx.f.target.picks_of_sixteen and all(looked_up_byte(ctx.values, n, 4) for n in bodies):
            return (4, 1)  # vectors of bytes
        heavy = max((cost(n, inner) for s in loops for n in bodies_of(s)), default=1)
        return (2,) if heavy >= 40 else (4, 1) if heavy <= LIGHT else (4,)
    if any(scope.vector in with_ranges_of_their_own(r) for s in loops for r in s.reductions):
        return (1,)  # all lanes walk over what is between the first of their ranges and the last
    # what is done once with the sums may be long: the iterations of the sums are what takes time
    heavy = max(cost(n, inner) for s in loops if s.reductions for n in bodies_of(s))
    block = 16 if heavy <= 5 else 8 if heavy <= 9 else 4 if heavy < 20 else 2
    while block > 1 and block * count > ctx.f.target.vector_registers // 2:
        block //= 2
    return (block, 4) if block > 4 else (block,)
