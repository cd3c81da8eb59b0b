"""Bounds of accesses as code: masks of lanes, and checks that end the kernel.

In: the bounds of an access and a copy of the vector. Out: a truth for every lane, or one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from anyshape import dims
from anyshape.dims import Size
from anyshape.lower.emit.values.failure_report import first_lane, loads_below, refuse_index
from anyshape.lower.ir.dag import Access, Affine, Constant, DagNode, IndexBound, LoopVar, Operation, SizeValue
from anyshape.lower.llvm.overflow import with_overflow
from anyshape.lower.llvm.types import I1, I32, I64, Val, const, const_vector

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values
    from anyshape.lower.llvm.builder import FunctionBuilder


def lanes_inside(values: Values, bounds: Sequence[IndexBound], copy: int) -> Val | None:
    """Tests 0 <= index < extent for all bounds; None if there are none.

    Lanes along which every index goes up by one lie between two positions, which are computed once for a row.
    """
    vector = values.vector
    steps = (
        [values.sizes.coefficient(b.index.coefficient(vector.variable)) for b in bounds] if vector is not None else []
    )
    if vector is None or 1 not in steps or set(steps) > {0, 1} or any(b.index.lets for b in bounds):
        return _each_inside(values, bounds, copy)
    f = values.f
    key = ("between", tuple(bounds), vector.variable, vector.lanes)
    ends = [values.levels.find((*key, which)) for which in range(2)]
    if None in ends:
        index, room = values.levels.indices[vector.variable], vector.copies * vector.lanes
        ends_of_row = between(values, bounds, vector.variable)
        with values.levels.at(_depth(values, bounds, frozenset(v for b in bounds for v, _ in b.index.terms))):
            for which, place in enumerate(ends_of_row):
                near = f.smax(f.smin(f.sub(place, index), room), 0)
                ends[which] = values.levels.remember(
                    (*key, which), f.splat(f.convert("trunc", near, I32), vector.lanes)
                )
    places = const_vector(I32, list(range(copy * vector.lanes, (copy + 1) * vector.lanes)))
    low, high = ends
    assert low is not None
    assert high is not None
    return f.and_(f.compare("ge", places, low), f.compare("lt", places, high))


def between(values: Values, bounds: Sequence[IndexBound], along: LoopVar) -> tuple[Val, Val]:
    """The first position of a variable at which all bounds hold, and the one after the last; the indices have coefficients of 1 or 0."""
    f = values.f
    fixed = frozenset(v for b in bounds for v, _ in b.index.terms if v is not along)
    key = ("range", tuple(bounds), along)
    ends = [values.levels.find((*key, which)) for which in range(2)]
    if ends[0] is not None and ends[1] is not None:
        return ends[0], ends[1]
    with values.levels.at(_depth(values, bounds, fixed)):
        low = high = ok = None
        for b in bounds:
            parts = [(values.levels.indices[v], c) for v, c in b.index.terms if v is not along]
            rest, extent = values.sizes.offset(parts, b.index.offset), values.sizes.of(b.extent)
            if values.sizes.coefficient(b.index.coefficient(along)) == 0:
                ok = values.conjunction(ok, f.compare("lt", rest, extent, unsigned=True))
                continue
            first, last = f.neg(rest), f.sub(extent, rest)
            low, high = (first, last) if low is None or high is None else (f.smax(low, first), f.smin(high, last))
        assert low is not None
        assert high is not None
        high = high if ok is None else f.select(ok, high, low)
        return values.levels.remember((*key, 0), low), values.levels.remember((*key, 1), high)


def _depth(values: Values, bounds: Sequence[IndexBound], variables: frozenset[LoopVar]) -> int:
    """The outermost level at which the variables and all sizes have values."""
    sizes = [n for b in bounds for n in (b.extent, b.index.offset, *(c for _, c in b.index.terms))]
    return max(values.levels.depth_of_variables(variables), values.levels.step_depth(sizes))


def _each_inside(values: Values, bounds: Sequence[IndexBound], copy: int) -> Val | None:
    """Tests each bound by one unsigned comparison."""
    total: Val | None = None
    for b in bounds:
        ok = values.f.compare("lt", values.index_value(b.index, copy), values.sizes.of(b.extent), unsigned=True)
        total = values.conjunction(total, ok)
    return total


def check_access(values: Values, access: Access, copy: int) -> None:
    """Ends the kernel with the error's number where a computed index is out of range.

    The test is emitted as far out as the index is known: once for a row, not for every block of its elements. Where every element has an
    index of its own, each vector has its test right before it is used: tests of a whole block would need the loads of all of its vectors
    first.
    """
    waiting: dict[tuple[int, bool], list[IndexBound]] = {}
    for b in access.checks:
        if b.guard is None and not b.index.lets:
            _check_ends(values, b)
            continue
        domain = b.index.domain if b.guard is None else b.index.domain | b.guard.domain
        varies = values.vector is not None and values.vector.variable in domain
        depth = _check_depth(values, b)
        if not _holds(values, b, depth, copy if varies else -1):
            of_depth = waiting.setdefault((depth, varies), [])
            if all(replace(other, error=b.error) != b for other in of_depth):
                of_depth.append(b)
    for (depth, varies), bounds in waiting.items():
        loops = values.levels.loops_inside(depth)
        with values.levels.at(depth):
            _test(values, bounds, copy, loops)
            for b in bounds:
                remember_checked(values, b, copy if varies else -1, _perhaps_empty_sizes(values, depth))


def remember_checked(values: Values, b: IndexBound, copy: int = -1, unless_empty: tuple[Size, ...] = ()) -> None:
    """Notes that a bound holds from here on, whatever reads there, unless one of these sizes is 0."""
    values.levels.remember(("checked", replace(b, error=0), copy, unless_empty), const(I1, 1))


def _holds(values: Values, b: IndexBound, depth: int, copy: int) -> bool:
    """Whether an equal condition was checked, and surely so where this access is."""
    key = ("checked", replace(b, error=0), copy)
    return any(values.levels.find((*key, sizes)) is not None for sizes in ((), _perhaps_empty_sizes(values, depth)))


def _perhaps_empty_sizes(values: Values, depth: int) -> tuple[Size, ...]:
    return tuple(dict.fromkeys(v.extent for v in values.levels.loops_inside(depth) if dims.ge(v.extent, 1) is not True))


def _check_ends(values: Values, b: IndexBound) -> None:
    """Checks an index that is an affine form of positions ahead of the loops: it is in range everywhere if it is at both ends."""
    f, index = values.f, b.index
    if values.levels.find(("checked", b, -1)) is not None:
        return
    depth = values.levels.outermost(values.levels.step_depth((index.offset, b.extent, *(c for _, c in index.terms))))
    depth = max(depth, values.levels.step_depth(v.extent for v in values.levels.loops_inside(depth)))
    loops = values.levels.loops_inside(depth)
    with values.levels.at(depth):
        low = high = values.sizes.offset(
            [(values.levels.indices[v], c) for v, c in index.terms if v not in loops], index.offset
        )
        for v, c in index.terms:
            if v in loops:
                below, above = _reach(values, v, c)
                low, high = f.add(low, below), f.add(high, above)
        tested = (high,) if low.number is not None and low.number >= 0 else dict.fromkeys((low, high))
        n = values.sizes.of(b.extent)
        ends = {at: f.compare("lt", at, n, unsigned=True) for at in tested}
        good, first = reduce(f.and_, ends.values()), next(iter(ends))
        failed = _CheckedBound(b, good, ((0, _is(good)),), lambda: f.select(ends[first], high, first))
        _refuse(values, [failed], _perhaps_empty(values, loops))
        values.levels.remember(("checked", b, -1), const(I1, 1))


def _reach(values: Values, v: LoopVar, c: Size) -> tuple[Val, Val]:
    """The least and the greatest value of c times the variable, where its loop has an iteration."""
    f, none = values.f, const(I64, 0)
    last = f.mul(f.sub(values.sizes.of(v.extent), 1), values.sizes.of(c))
    if v.extent in values.populated and dims.ge(c, 0) is True:
        return none, last
    return f.smin(last, none), f.smax(last, none)


def _perhaps_empty(values: Values, loops: Sequence[LoopVar]) -> list[Val]:
    """Extents that may be 0, as far as is known where code is emitted."""
    extents = dict.fromkeys(v.extent for v in loops)
    return [values.sizes.of(n) for n in extents if dims.ge(n, 1) is not True and n not in values.populated]


def _check_depth(values: Values, b: IndexBound) -> int:
    """The outermost level at which all that the check reads is known, and from which nothing but loops leads to the access."""
    nodes = [n for n, _ in b.index.lets] + ([] if b.guard is None else [b.guard])
    known = max((values.levels.depth(n) for n in nodes), default=0)
    known = max(known, values.levels.depth_of_variables(frozenset(v for v, _ in b.index.terms)))
    known = max(known, values.levels.step_depth((b.index.offset, b.extent, *(c for _, c in b.index.lets))))
    depth = values.levels.outermost(known)
    return max(depth, values.levels.step_depth(v.extent for v in values.levels.loops_inside(depth)))


def check_block(values: Values, bounds: Sequence[IndexBound], copies: Sequence[int]) -> None:
    """Checks whole vectors of indices at the current place, before any of them is used: one branch for all of them.

    What a failure report contains is loaded again: a load that the test alone uses becomes a memory operand of the instruction.
    """
    checked = [_all_good(values, b, copies) for b in bounds]
    values.levels.forget()
    _refuse(values, checked, (), anew=True)


def _all_good(values: Values, b: IndexBound, copies: Sequence[int]) -> _CheckedBound:
    """A truth whose lanes all hold if all copies are in range. `-n <= i < n` is tested as `i + n < 2 * n` without sign, whatever `wrap`
    makes of i."""
    f, wrapped, n = values.f, _wrapped(b), values.sizes.of(b.extent)
    if wrapped is None:
        numbers = [values.index_value(b.index, copy) for copy in copies]
    else:
        numbers, n = [f.add(values.of(wrapped, copy), n) for copy in copies], f.mul(n, 2)
    each = [partial(f.compare, "lt", i, n, unsigned=True) for i in numbers]
    return _CheckedBound(b, _below(f, numbers, n), tuple(zip(copies, each, strict=True)))


def _test(values: Values, bounds: Sequence[IndexBound], copy: int, loops: Sequence[LoopVar]) -> None:
    """Tests bounds at the current place. `loops` are those between here and the access; where one has no iteration, nothing is accessed.

    Vectors share one branch for all bounds; of scalars each has its own, which the processor fuses with its comparison.
    """
    extents = _perhaps_empty(values, loops)
    if not extents:
        for b in bounds:
            _count_from_end(values, b, copy)
    lanes = [_good(values, b, copy) for b in bounds]
    if any(ok.type.lanes for ok in lanes):
        _refuse(values, _first_lane_that_fails(values, bounds, lanes, copy), extents)
        return
    for b, ok in zip(bounds, lanes, strict=True):
        _refuse(values, [_CheckedBound(b, ok, ((copy, _is(ok)),))], extents)


def _first_lane_that_fails(
    values: Values, bounds: Sequence[IndexBound], lanes: Sequence[Val], copy: int
) -> list[_CheckedBound]:
    """Checks of which the one that fails at the first lane is reported, whatever the order of the bounds."""
    f = values.f
    width = max(ok.type.lanes for ok in lanes)

    def there(ok: Val) -> Val:
        first = first_lane(f, reduce(f.and_, (f.splat(each, width) for each in lanes)))
        return f.or_(f.splat(ok, width), f.compare("ne", const_vector(I32, list(range(width))), f.splat(first, width)))

    several = len(bounds) > 1
    return [
        _CheckedBound(b, _in_fewer_lanes(values, b, ok, copy), ((copy, partial(there, ok) if several else _is(ok)),))
        for b, ok in zip(bounds, lanes, strict=True)
    ]


def _in_fewer_lanes(values: Values, b: IndexBound, ok: Val, copy: int) -> Val:
    """A truth whose lanes all hold if all of `ok` do, if that takes fewer comparisons."""
    f, unconditional = values.f, b.guard is None and values.mask(copy) is None
    if not (ok.type.lanes and b.index.lets and unconditional and f.target.extremes_u64):
        return ok
    return _below(f, [values.index_value(b.index, copy)], values.sizes.of(b.extent))


def _below(f: FunctionBuilder, numbers: Sequence[Val], n: Val) -> Val:
    """A truth of as many lanes as a register has: whether the numbers there are below n in all registers, without sign."""
    registers = [r for a in numbers for r in _registers(f, a)]
    if f.target.extremes_u64:
        return f.compare("lt", reduce(f.umax, registers), n, unsigned=True)
    return reduce(f.and_, (f.compare("lt", r, n, unsigned=True) for r in registers))


def _registers(f: FunctionBuilder, a: Val) -> list[Val]:
    lanes = f.target.lanes(a.type.scalar.bytes)
    if a.type.lanes <= lanes:
        return [a]
    return [f.shuffle(a, a, list(range(at, at + lanes))) for at in range(0, a.type.lanes, lanes)]


@dataclass(frozen=True, slots=True)
class _CheckedBound:
    """A bound, a truth of which all lanes hold if it holds, and for each copy of the vector in which lanes it does. `index` is what fails,
    if it is not simply the bound's."""

    bound: IndexBound
    good: Val
    lanes: tuple[tuple[int, Callable[[], Val]], ...]
    index: Callable[[], Val] | None = None


def _is(value: Val) -> Callable[[], Val]:
    return lambda: value


def _whole(f: FunctionBuilder, ok: Val) -> Val:
    return f.reduce("and", ok) if ok.type.lanes else ok


def _all_hold(f: FunctionBuilder, truths: Iterable[Val]) -> Val:
    """Combines truths of equally many lanes, then reduces each of the combinations."""
    by_lanes: dict[int, Val] = {}
    for ok in truths:
        lanes = ok.type.lanes
        by_lanes[lanes] = f.and_(by_lanes[lanes], ok) if lanes in by_lanes else ok
    return reduce(f.and_, (_whole(f, ok) for ok in by_lanes.values()))


def _refuse(values: Values, checked: Sequence[_CheckedBound], extents: Sequence[Val], anew: bool = False) -> None:
    """Ends the kernel where a check fails; which one it is, and whether an extent is 0 so that none counts, is tested in the block that is
    laid out of the way. `anew`: the index is computed once more."""
    f = values.f
    stop, go = f.new_block(), f.new_block()
    f.expect(_all_hold(f, (a.good for a in checked)), go, stop)
    f.start(stop)
    for n in extents:
        further = f.new_block()
        f.branch(f.compare("gt", n, 0), further, go)
        f.start(further)
    each = [(a, copy, lanes) for a in checked for copy, lanes in a.lanes]
    for k, (a, copy, lanes) in enumerate(each, 1):
        ok, following = lanes(), go
        if k < len(each):
            fails, following = f.new_block(), f.new_block()
            f.branch(_whole(f, ok), following, fails)
            f.start(fails)
        index = a.index() if a.index is not None else _wrapped(a.bound) or a.bound.index
        loads = loads_below([n for n, _ in a.bound.index.lets])
        if anew:
            for let, _ in a.bound.index.lets:
                values.of(let, copy)
        refuse_index(values, a.bound.error, index, loads, copy, ok)
        if anew:
            values.levels.forget()
        f.start(following)


def _wrapped(b: IndexBound) -> DagNode | None:
    """The i of an index that is `wrap(i, n)`, n being the extent."""
    if b.guard is not None or len(b.index.lets) != 1:
        return None
    node, _ = b.index.lets[0]
    if b.index == Affine((), 0, ((node, 1),)):
        match node:
            case Operation("wrap", (i, SizeValue(n) | Constant(n))) if n == b.extent and dims.ge(b.extent, 0) is True:
                return i
    return None


def _count_from_end(values: Values, b: IndexBound, copy: int) -> None:
    """Emits `wrap(i, n)` as i + n where that sum goes past the largest number without sign, else as i: an instruction less than a choice by
    the sign. Of vectors it is the lesser of both.

    It is the same for every index in range, and none for any other; so only where the test that follows ends the kernel for those.
    """
    wrapped = _wrapped(b)
    if wrapped is None:
        return
    f, node, varies = values.f, b.index.lets[0][0], values.varies(wrapped)
    key = (node, copy if varies else -1)
    if values.levels.find(key) is not None:
        return
    i, n = values.of(wrapped, copy), values.sizes.of(b.extent)
    if not i.type.lanes:
        total, past = with_overflow(f, "uadd", i, n)
        values.levels.remember(key, f.select(past, total, i))
    elif f.target.extremes_u64:
        values.levels.remember(key, f.umin(i, f.add(i, n)))


def _good(values: Values, b: IndexBound, copy: int) -> Val:
    """Lanes whose index is in range, or is not used."""
    ok = lanes_inside(values, [b], copy)
    assert ok is not None
    if b.guard is not None:
        ok = _either(values, ok, values.f.not_(values.of(b.guard, copy)))
    mask = values.mask(copy)
    if ok.type.lanes and mask is not None:
        ok = _either(values, ok, values.f.not_(mask))
    return ok


def _either(values: Values, a: Val, b: Val) -> Val:
    lanes = max(a.type.lanes, b.type.lanes)
    return values.f.or_(*(values.f.splat(x, lanes) if lanes else x for x in (a, b)))
