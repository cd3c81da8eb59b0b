"""Ranges of loops without the iterations that do nothing.

In: the loop of some reductions, and the levels that are open. Out: for each variable the least range outside of which no iteration of any
of the reductions adds anything, as far as affine conditions on positions say, and comparisons of positions with what is read; of lanes with
ends of their own the least range that holds all of theirs. No iteration does anything if a loop further in has none: a
tensor of 2^40 rows of no elements takes no memory, and must take no time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import attrgetter

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.equations.expr import LARGE
from anyshape.lower.analyse.empty_iterations import Guards, conditions_of, empty_loop_guards, is_long
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.ir.dag import Affine, DagNode, Load, LoopVar, Reduction
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.llvm.types import I32, I64, Val, const
from anyshape.lower.llvm.vecmath import floor_div
from anyshape.lower.schedule.tree import Loop


class Spans:
    """The ranges of the variables of nested loops. If there are reductions, the loops compute nothing else; with a condition, they do
    nothing where it does not hold."""

    def __init__(
        self,
        ctx: KernelContext,
        variables: Sequence[LoopVar],
        reductions: Iterable[Reduction] = (),
        where: DagNode | None = None,
    ) -> None:
        self.ctx, self.variables = ctx, variables
        self.forms = [empty_loop_guards(r) for r in reductions] if is_long(variables) else []
        if where is not None and is_long(variables):
            self.forms.append(conditions_of(where))

    def of(self, v: LoopVar) -> Range:
        """The range of a variable: its whole extent if nothing is known of one of the reductions."""
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
        """The extent, or 0 where a loop further in has no iterations."""
        inner = may_be_empty(w.extent for w in self.variables[self.variables.index(v) + 1 :])
        key = ("iterations", v, inner)
        count = self.ctx.levels.find(key) if inner else extent
        if count is None:
            with self.ctx.levels.at(self.ctx.levels.step_depth([v.extent, *inner])):
                count = self.ctx.f.select(not_empty(self.ctx, inner), extent, const(I64, 0))
                count = self.ctx.levels.remember(key, count)
        return count

    def _usable(self, forms: Guards, v: LoopVar) -> list[Affine]:
        """The forms that are monotonic in the variable, and whose other variables have values."""
        usable = []
        for form in forms:
            c = form.coefficient(v)
            read = {w for n, _ in form.lets for w in n.domain}
            open_ = all(w is v or w in self.ctx.levels.level_of for w, _ in form.terms) and v not in read
            is_known = open_ and all(w in self.ctx.levels.level_of for w in read)
            if is_known and (dims.ge(c, 1) is True or dims.le(c, -1) is True):
                usable.append(form)
        return sorted(usable, key=attrgetter("order"))

    def _depth(self, v: LoopVar, parts: Sequence[Sequence[Affine]]) -> int:
        forms = [form for part in parts for form in part]
        sizes = [n for form in forms for n in (form.offset, *(c for _, c in form.terms))]
        fixed = frozenset(w for form in forms for w, _ in form.terms if w is not v)
        read = max((self.ctx.levels.depth(n) for form in forms for n, _ in form.lets), default=0)
        return max(self.ctx.levels.depth_of_variables(fixed), self.ctx.levels.step_depth([v.extent, *sizes]), read)

    def _range(self, forms: Sequence[Affine], v: LoopVar, extent: Val) -> Range:
        f = self.ctx.f
        low, high = const(I64, 0), extent
        for form in forms:
            c, most = form.coefficient(v), self._most(form, v)
            rises = dims.ge(c, 1) is True
            size = self.ctx.sizes.of(c if rises else -c)
            most_positions = most if size.number == 1 else floor_div(f, most, size)
            if rises:
                low = f.smax(low, f.neg(most_positions))
            else:
                high = f.smin(high, f.add(most_positions, 1))
        return low, high

    def _most(self, form: Affine, v: LoopVar) -> Val:
        """The greatest value of the other terms, over all lanes."""
        ctx, f, vector = self.ctx, self.ctx.f, self.ctx.values.vector
        parts = [(ctx.levels.indices[w], c) for w, c in form.terms if w is not v]
        parts += [(self._extreme(n, largest=dims.ge(c, 0) is True), c) for n, c in form.lets]
        most = ctx.sizes.offset(parts, form.offset)
        step = form.coefficient(vector.variable) if vector is not None else 0
        if vector is None or step == 0:
            return most
        across = f.mul(ctx.sizes.of(step), vector.lanes * vector.copies - 1)
        return f.add(most, f.smax(across, 0))

    def _extreme(self, n: DagNode, largest: bool) -> Val:
        """The largest or the smallest value of an integer that is read, over all lanes that exist; far beyond all positions it is cut, so
        that what is added to it does not wrap."""
        f, values = self.ctx.f, self.ctx.values
        each = []
        for copy in values.copies_of(n):
            value, mask = values.of(n, copy), values.mask(copy) if values.varies(n) else None
            if mask is not None:
                value = f.select(mask, value, f.splat(const(I64, -LARGE if largest else LARGE), value.type.lanes))
            each.append(f.reduce("smax" if largest else "smin", value) if value.type.lanes else value)
        value = reduce(f.smax if largest else f.smin, each)
        return f.smin(f.smax(value, const(I64, -LARGE)), const(I64, LARGE))


def spans_of(ctx: KernelContext, step: Loop) -> Spans:
    return Spans(ctx, step.variables, () if step.stores or step.keep else step.reductions)


def may_be_empty(extents: Iterable[Size]) -> tuple[Size, ...]:
    return tuple(n for n in extents if dims.ge(n, 1) is not True)


def not_empty(ctx: KernelContext, extents: Iterable[Size]) -> Val:
    """Whether none of the extents is 0."""
    return reduce(ctx.f.and_, (ctx.f.compare("gt", ctx.sizes.of(n), 0) for n in extents))


@contextmanager
def unless_empty(
    ctx: KernelContext, stores: Sequence[Store], tested: Collection[LoopVar], around: Collection[LoopVar] = ()
) -> Iterator[None]:
    """Code of stores that runs only if some result has elements. All may be empty although there are iterations of the loops over `tested`,
    for which the code has a test; and what is the same in all iterations, but for loops over `around` that are open already, is looked up
    ahead of these tests."""
    ahead = any(isinstance(n, Load) and n.access.checks and n.domain <= {*around} for n in below(stores))
    known = {v.extent for v in (around if ahead else tested)}
    extents = [may_be_empty(v.extent for v in s.variables) for s in stores]
    if not tested or not all(set(inner) - known for inner in extents):
        yield
        return
    some = reduce(ctx.f.or_, (not_empty(ctx, inner) for inner in dict.fromkeys(extents)))
    populated = set(extents[0]).intersection(*extents[1:])
    with ctx.levels.when(some), ctx.values.populating(populated):
        yield


def end_if_empty(ctx: KernelContext, outputs: Sequence[Tensor]) -> None:
    """Ends a kernel that has no checks if none of its outputs has elements: no intermediate result is needed then."""
    extents = [may_be_empty(t.shape) for t in outputs]
    if not all(extents):
        return
    f = ctx.f
    go, stop = f.new_block(), f.new_block()
    f.branch(reduce(f.or_, (not_empty(ctx, inner) for inner in dict.fromkeys(extents))), go, stop)
    f.start(stop)
    f.ret(const(I32, 0))
    f.start(go)
