"""Loops of reductions cut to the turns that add something.

In: the reductions of a loop, and where code is written. Out: for a variable the least range outside of which no turn of any of them adds
anything, as far as affine conditions on positions tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from anyshape import dims
from anyshape.lower.dag import Affine, LoopVar
from anyshape.lower.idle import Forms, idle_forms, is_long
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.llvm.vecmath import floor_div
from anyshape.lower.schedule import Loop

if TYPE_CHECKING:
    from anyshape.lower.emit_rows import Range, Rows


class Spans:
    """The ranges of one loop's variables."""

    def __init__(self, rows: Rows, step: Loop) -> None:
        self.rows = rows
        alone = not step.stores and not step.keep and is_long(step.variables)
        self.forms = [idle_forms(r) for r in step.reductions] if alone else []

    def of(self, v: LoopVar) -> Range:
        """The whole extent where nothing is known of one of the reductions."""
        rows, f = self.rows, self.rows.f
        extent = rows.size(v.extent)
        parts = [self._usable(forms, v) for forms in self.forms]
        if not parts or not all(parts):
            return const(I64, 0), extent
        with rows.at(self._depth(v, parts)):
            ranges = [self._range(forms, v, extent) for forms in parts]
            first = reduce(f.smin, (low for low, _ in ranges))
            last = reduce(f.smax, (high for _, high in ranges))
            return first, f.smax(first, last)

    def _usable(self, forms: Forms, v: LoopVar) -> list[Affine]:
        """Those that go one way along the variable, the others of theirs having values."""
        found = []
        for form in forms:
            c = form.coefficient(v)
            others = all(w is v or w in self.rows.level_of for w, _ in form.terms)
            if others and (dims.ge(c, 1) is True or dims.le(c, -1) is True):
                found.append(form)
        return sorted(found, key=str)

    def _depth(self, v: LoopVar, parts: Sequence[Sequence[Affine]]) -> int:
        forms = [form for part in parts for form in part]
        sizes = [n for form in forms for n in (form.offset, *(c for _, c in form.terms))]
        others = frozenset(w for form in forms for w, _ in form.terms if w is not v)
        return max(self.rows.depth_of_variables(others), self.rows.step_depth([v.extent, *sizes]))

    def _range(self, forms: Sequence[Affine], v: LoopVar, extent: Val) -> Range:
        f = self.rows.f
        low, high = const(I64, 0), extent
        for form in forms:
            c, most = form.coefficient(v), self._most(form, v)
            rises = dims.ge(c, 1) is True
            size = self.rows.size(c if rises else -c)
            turns = most if size.number == 1 else floor_div(f, most, size)
            if rises:
                low = f.smax(low, f.neg(turns))
            else:
                high = f.smin(high, f.add(turns, 1))
        return low, high

    def _most(self, form: Affine, v: LoopVar) -> Val:
        """The largest value that the other terms have, of all lanes."""
        rows, f, vector = self.rows, self.rows.f, self.rows.vector
        parts = [(rows.indices[w], c) for w, c in form.terms if w is not v]
        most = rows.offset(parts, form.offset)
        step = form.coefficient(vector.variable) if vector is not None else 0
        if vector is None or step == 0:
            return most
        across = f.mul(rows.size(step), vector.lanes * vector.copies - 1)
        return f.add(most, f.smax(across, 0))
