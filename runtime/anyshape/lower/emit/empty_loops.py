"""Loops cut to the turns that do something.

In: the loop of some reductions, and where code is written. Out: for a variable the least range outside of which no turn of any of them
adds anything, as far as affine conditions on positions tell. No turn of a loop does anything if one further in has none: a tensor of
2^40 rows of no elements takes no memory, and must take no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.empty_iterations import Forms, empty_loop_guards, is_long
from anyshape.lower.emit.context import KernelContext, Range
from anyshape.lower.ir.dag import Affine, LoopVar, Reduction
from anyshape.lower.llvm.types import I32, I64, Val, const
from anyshape.lower.llvm.vecmath import floor_div
from anyshape.lower.schedule.tree import Loop, Scope


class Spans:
    """The ranges of the variables of loops in each other, which hold nothing but the reductions if any are given."""

    def __init__(self, ctx: KernelContext, variables: Sequence[LoopVar], reductions: Iterable[Reduction] = ()) -> None:
        self.ctx, self.variables = ctx, variables
        self.forms = [empty_loop_guards(r) for r in reductions] if is_long(variables) else []

    def of(self, v: LoopVar) -> Range:
        """The whole extent where nothing is known of one of the reductions."""
        ctx, f = self.ctx, self.ctx.f
        extent = ctx.sizes.of(v.extent)
        parts = [self._usable(forms, v) for forms in self.forms]
        if not parts or not all(parts):
            return const(I64, 0), self._unless_empty(v, extent)
        with ctx.levels.at(self._depth(v, parts)):
            ranges = [self._range(forms, v, extent) for forms in parts]
            first = reduce(f.smin, (low for low, _ in ranges))
            last = reduce(f.smax, (high for _, high in ranges))
            return first, f.smax(first, last)

    def _unless_empty(self, v: LoopVar, extent: Val) -> Val:
        """No turns where loops further in have none."""
        inner = may_be_empty(w.extent for w in self.variables[self.variables.index(v) + 1 :])
        key = ("turns", v, inner)
        count = self.ctx.levels.find(key) if inner else extent
        if count is None:
            with self.ctx.levels.at(self.ctx.levels.step_depth([v.extent, *inner])):
                turns = self.ctx.f.select(not_empty(self.ctx, inner), extent, const(I64, 0))
                count = self.ctx.levels.remember(key, turns)
        return count

    def _usable(self, forms: Forms, v: LoopVar) -> list[Affine]:
        """Those that go one way along the variable, the others of theirs having values."""
        usable = []
        for form in forms:
            c = form.coefficient(v)
            others = all(w is v or w in self.ctx.levels.level_of for w, _ in form.terms)
            if others and (dims.ge(c, 1) is True or dims.le(c, -1) is True):
                usable.append(form)
        return sorted(usable, key=str)

    def _depth(self, v: LoopVar, parts: Sequence[Sequence[Affine]]) -> int:
        forms = [form for part in parts for form in part]
        sizes = [n for form in forms for n in (form.offset, *(c for _, c in form.terms))]
        others = frozenset(w for form in forms for w, _ in form.terms if w is not v)
        return max(self.ctx.levels.depth_of_variables(others), self.ctx.levels.step_depth([v.extent, *sizes]))

    def _range(self, forms: Sequence[Affine], v: LoopVar, extent: Val) -> Range:
        f = self.ctx.f
        low, high = const(I64, 0), extent
        for form in forms:
            c, most = form.coefficient(v), self._most(form, v)
            rises = dims.ge(c, 1) is True
            size = self.ctx.sizes.of(c if rises else -c)
            turns = most if size.number == 1 else floor_div(f, most, size)
            if rises:
                low = f.smax(low, f.neg(turns))
            else:
                high = f.smin(high, f.add(turns, 1))
        return low, high

    def _most(self, form: Affine, v: LoopVar) -> Val:
        """The largest value that the other terms have, of all lanes."""
        ctx, f, vector = self.ctx, self.ctx.f, self.ctx.values.vector
        parts = [(ctx.levels.indices[w], c) for w, c in form.terms if w is not v]
        most = ctx.sizes.offset(parts, form.offset)
        step = form.coefficient(vector.variable) if vector is not None else 0
        if vector is None or step == 0:
            return most
        across = f.mul(ctx.sizes.of(step), vector.lanes * vector.copies - 1)
        return f.add(most, f.smax(across, 0))


def spans_of(ctx: KernelContext, step: Loop) -> Spans:
    return Spans(ctx, step.variables, () if step.stores or step.keep else step.reductions)


def may_be_empty(extents: Iterable[Size]) -> tuple[Size, ...]:
    return tuple(n for n in extents if dims.ge(n, 1) is not True)


def not_empty(ctx: KernelContext, extents: Iterable[Size]) -> Val:
    """None of them is 0."""
    return reduce(ctx.f.and_, (ctx.f.compare("gt", ctx.sizes.of(n), 0) for n in extents))


@contextmanager
def unless_empty(ctx: KernelContext, scope: Scope) -> Iterator[None]:
    """Around the loops of a scope of which every result may lack elements although the outermost loop has turns."""
    asked = [may_be_empty(v.extent for v in s.variables) for s in scope.stores]
    if not scope.variables or not all(set(inner) - {scope.variables[0].extent} for inner in asked):
        yield
        return
    some = reduce(ctx.f.or_, (not_empty(ctx, inner) for inner in dict.fromkeys(asked)))
    with ctx.levels.when(some), ctx.values.populating(set(asked[0]).intersection(*asked[1:])):
        yield


def end_if_empty(ctx: KernelContext, outputs: Sequence[Tensor]) -> None:
    """Ends a kernel that can refuse nothing, where none of its outputs has elements: what it would hold on the way is needed by none."""
    asked = [may_be_empty(t.shape) for t in outputs]
    if not all(asked):
        return
    f = ctx.f
    go, stop = f.new_block(), f.new_block()
    f.branch(reduce(f.or_, (not_empty(ctx, inner) for inner in dict.fromkeys(asked))), go, stop)
    f.start(stop)
    f.ret(const(I32, 0))
    f.start(go)
