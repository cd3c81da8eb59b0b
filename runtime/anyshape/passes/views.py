"""Views inside a kernel: a dim that is split or merged becomes loop variables that are, so that what a view is between can be one kernel.

In: equations, and pairs of a view and what it views. Out: equations in which both are one tensor, over the common refinement of their
shapes: [4*b, n] beside [b, 4, n] and [b, 4*n] is [b, 4, n] three times over. A variable i of a dim that is refined becomes q*k + r with
0 <= q < n and 0 <= r < k, where it is an index of that dim just q, r; so every index is in bounds as it was, and there is no division.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from anyshape.dims import Size, exact_div
from anyshape.dtypes import I64
from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Const, Expr, Read, Var, const, read
from anyshape.equations.traversal import replace_node, walk

ViewShape = tuple[Size, ...]
Views = Sequence[tuple[Tensor, Tensor]]


def merged_targets(equations: Sequence[Equation]) -> list[Tensor]:
    """The tensors that an equation writes with several of its variables as one dim, `y[i, u*c + j]`, and another one reads: read through a
    variable for each, they are elements of the loops in which they are written."""
    written = [q.target for q in equations if any(_merged(q, k) for k in range(len(q.index)))]
    return [
        t
        for t in dict.fromkeys(written)
        if any(e.tensor is t for q in equations if q.target is not t for e in _reads(q))
    ]


def _merged(q: Equation, axis: int) -> tuple[Var, ...]:
    """The variables whose position is the index of the target along an axis; none where they are not two and more, or not all of it."""
    i = q.index[axis]
    if isinstance(i, Var | Const):
        return ()
    own = tuple(v for v in q.variables if isinstance(v, Var) and v in i.free)
    whole = math.prod((v.extent for v in own), start=cast(Size, 1))
    return own if len(own) > 1 and i is _position(own) and whole == q.target.shape[axis] else ()


@dataclass(frozen=True, slots=True)
class Joined:
    """Equations without views; `tensors` are those that stand for others now, of as many elements in the same order."""

    equations: tuple[Equation, ...]
    tensors: dict[Tensor, Tensor]

    def tensor(self, t: Tensor) -> Tensor:
        return self.tensors.get(t, t)


def joined(equations: Sequence[Equation], views: Views) -> Joined | None:
    """The equations over refined shapes; None where a shape is not refined, or a refined dim is not indexed by a variable of the target."""
    splitting = _Splitting(equations, views)
    return Joined(*splitting.rewritten()) if splitting.settle() else None


def common(a: Sequence[Size], b: Sequence[Size]) -> ViewShape | None:
    """The coarsest sizes whose products of neighbours give either list; without ones."""
    left, right = ([n for n in sizes if n != 1] for sizes in (a, b))
    factors: list[Size] = []
    while left and right:
        x, y = left.pop(), right.pop()
        if x == y:
            factors.append(x)
        elif (q := _quotient(x, y)) is not None:
            factors.append(y)
            left.append(q)
        elif (q := _quotient(y, x)) is not None:
            factors.append(x)
            right.append(q)
        else:
            return None
    return None if left or right else tuple(reversed(factors))


def _quotient(a: Size, b: Size) -> Size | None:
    """The factor by which b has to be multiplied to be a, for all values of the symbols."""
    if a == 0 or b == 0:
        return None
    q = exact_div(a, b, known_nonzero=True)
    return q if q != 1 and q * b == a else None


def _shared_out(sizes: Sequence[Size], refined: Sequence[Size]) -> list[ViewShape] | None:
    """Divides `refined` into runs, one for each size, which is the product of its run."""
    left, groups = list(refined), list[ViewShape]()
    for n in reversed(sizes):
        own: list[Size] = []
        while n != 1:
            if not left:
                return None
            own.append(left.pop())
            q = 1 if n == own[-1] else _quotient(n, own[-1])
            if q is None:
                return None
            n = q
        groups.append(tuple(reversed(own)))
    return None if left else groups[::-1]


class _Splitting:
    """`parts`: of each dim of a tensor what it is split into, nothing for 1. `of_vars`: the same of variables, by their extents."""

    def __init__(self, equations: Sequence[Equation], views: Views) -> None:
        self.equations = equations
        self.groups = _groups(views)
        self.parts: dict[Tensor, list[ViewShape]] = {t: [(n,) for n in t.shape] for g in self.groups for t in g}
        self.of_vars: dict[Var, ViewShape] = {}
        self.merged: dict[Expr, tuple[Var, ...]] = {}
        """Indices of targets that are positions of several variables, which stay these variables"""
        for q in equations:
            for k, vs in ((k, _merged(q, k)) for k in range(len(q.index)) if q.target in self.parts):
                if vs:
                    self.parts[q.target][k] = tuple(v.extent for v in vs)
                    self.merged[q.index[k]] = vs
        self.accesses = {q: [(q.target, q.index), *((e.tensor, e.index) for e in _reads(q))] for q in equations}

    def settle(self) -> bool:
        """Refines until nothing changes; whether all equations can be said so."""
        if any(q.form is not None for q in self.equations):
            return False
        while True:
            before = (dict(self.of_vars), {t: list(p) for t, p in self.parts.items()})
            if not all(map(self._refine, self.groups)) or not all(map(self._split, self.equations)):
                return False
            if before == (self.of_vars, self.parts):
                return not any(map(self._is_dragged_along, self.equations))

    def _is_dragged_along(self, q: Equation) -> bool:
        """Whether an equation is split only since another piece of its target is read through a view: it may have a layout of its own."""
        viewed = {t for g in self.groups for t in g}
        pieces = [p for p in self.equations if p.target is q.target and p.target not in viewed]
        through = [any(e.tensor in viewed for e in _reads(p)) for p in pieces]
        return q in pieces and any(through) and not all(through) and any(v in self.of_vars for v in q.variables)

    def _refine(self, group: Sequence[Tensor]) -> bool:
        refined: ViewShape | None = tuple(n for p in self.parts[group[0]] for n in p if n != 1)
        for t in group[1:]:
            refined = None if refined is None else common(refined, [n for p in self.parts[t] for n in p])
        if refined is None:
            return False
        for t in group:
            parts = _shared_out(t.shape, refined)
            if parts is None:
                return False
            self.parts[t] = parts
        return True

    def _split(self, q: Equation) -> bool:
        """Splits variables as the dims that they index are split, then the target's dims as its variables are."""
        own = set(q.variables)
        for t, index in self.accesses[q]:
            for i, parts in zip(index, self.parts.get(t, ()), strict=t in self.parts):
                if len(parts) == 1:
                    continue
                if not parts and isinstance(i, Const) and i.value == 0:
                    continue
                if i in self.merged and t is q.target:
                    if parts != tuple(v.extent for v in self.merged[i]):
                        return False
                    continue
                if not isinstance(i, Var) or i not in own:
                    return False
                sizes = common(self.of_vars.get(i, (i.extent,)), parts) if parts else ()
                if sizes is None or (not parts and i.extent != 1):
                    return False
                self.of_vars[i] = sizes
        if any(isinstance(i, Var) and len(self.of_vars.get(i, (0,))) > 1 for i in q.index):
            target = self.parts.setdefault(q.target, [(n,) for n in q.target.shape])
            for k, i in enumerate(q.index):
                if isinstance(i, Var) and i.extent == q.target.shape[k] and len(self.of_vars.get(i, (0,))) > 1:
                    target[k] = self.of_vars[i]
        return True

    # --- what it all becomes ---

    def rewritten(self) -> tuple[tuple[Equation, ...], dict[Tensor, Tensor]]:
        tensors: dict[Tensor, Tensor] = {}
        for group in self.groups:
            first = group[0]
            tensor = Tensor(first.name, first.dtype, tuple(n for p in self.parts[first] for n in p))
            tensors.update(dict.fromkeys(group, tensor))
        for t, parts in self.parts.items():
            if t not in tensors:
                tensors[t] = Tensor(t.name, t.dtype, tuple(n for p in parts for n in p))
        return tuple(self._equation(q, tensors) for q in self.equations), tensors

    def _equation(self, q: Equation, tensors: dict[Tensor, Tensor]) -> Equation:
        own = ((v, self.of_vars[v]) for v in q.variables if v in self.of_vars)
        variables = {v: _variables(v, sizes) for v, sizes in own if sizes != (v.extent,)}
        done: dict[Expr, Expr] = {v: _position(vs) for v, vs in variables.items()}
        if not variables and q.target not in tensors and not any(t in tensors for t, _ in self.accesses[q]):
            return q
        touched = [e for e in _reads(q) if e.tensor in tensors]
        for e in sorted(touched, key=lambda e: e.serial):  # inner ones are older
            index = self._index(e.tensor, e.index, variables, done)
            outside = None if e.outside is None else replace_node(e.outside, done)
            done[e] = read(tensors[e.tensor], index, outside)
        target = tensors.get(q.target, q.target)
        return replace(
            q, target=target, index=self._index(q.target, q.index, variables, done), value=replace_node(q.value, done)
        )

    def _index(
        self, t: Tensor, index: Sequence[Expr], variables: dict[Var, tuple[Var, ...]], done: dict[Expr, Expr]
    ) -> tuple[Expr, ...]:
        positions: list[Expr] = []
        for i, parts in zip(index, self.parts.get(t, [(n,) for n in t.shape]), strict=True):
            if len(parts) == 1:
                positions.append(replace_node(i, done))
            elif parts and i in self.merged:
                positions += self.merged[i]
            elif parts:
                assert isinstance(i, Var)
                positions += _regrouped(variables[i], parts)
        return tuple(positions)


def _groups(views: Views) -> list[list[Tensor]]:
    """Tensors that are each other's views."""
    groups: list[list[Tensor]] = []
    for pair in views:
        touched = [g for g in groups if any(t in g for t in pair)]
        groups = [g for g in groups if g not in touched]
        groups.append(list(dict.fromkeys([*(t for g in touched for t in g), *pair])))
    return groups


def _reads(q: Equation) -> list[Read]:
    return list(dict.fromkeys(e for part in q.expressions for e in walk(part) if isinstance(e, Read)))


def _variables(v: Var, sizes: ViewShape) -> tuple[Var, ...]:
    return tuple(Var(f"{v.name}_{k}", n) for k, n in enumerate(sizes))


def _position(variables: Sequence[Var]) -> Expr:
    """The position of a point in row-major order."""
    total: Expr = const(0, I64)
    for k, v in enumerate(variables):
        total = v if k == 0 else total * v.extent + v
    return total


def _regrouped(variables: Sequence[Var], sizes: Sequence[Size]) -> list[Expr]:
    """The positions of variables in dims of these sizes, each the product of neighbouring extents."""
    owned = _shared_out(sizes, [v.extent for v in variables])
    assert owned is not None
    positions, at = [], 0
    for own in owned:
        positions.append(_position(variables[at : at + len(own)]))
        at += len(own)
    return positions
