"""Random groups: maps, movement, reductions and products composed at random, native against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyshape import dims
from anyshape.dtypes import BOOL, F32, F64, I32, I64, DType
from anyshape.equations import Equations, Expr, Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import (
    abs_,
    and_,
    checked,
    exp,
    fit,
    floor,
    ge,
    lt,
    maximum,
    minimum,
    pad,
    reduce_,
    sqrt,
    tanh,
    where,
    wrap,
)  # fmt: skip
from anyshape.lower import Group
from tests.lower.native import check

SYMBOLS = [dims.symbol(name) for name in ("p", "q", "r")]
EXTENTS = st.sampled_from([0, 1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 77, 130])


class Composer:
    """Grows a group op by op; `draw` decides."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.eqs = Equations("fuzz", {}, {})
        self.inputs: list[Tensor] = []
        self.values: list[Tensor] = []
        self.used: set[Tensor] = set()
        self.updated: list[Tensor] = []

    def choice(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def input(self, shape: Any = None, dtype: DType | None = None) -> Tensor:
        if shape is None:
            sizes = [*SYMBOLS, 1, 4]
            shape = [self.choice(sizes) for _ in range(self.draw(st.integers(1, 3)))]
        dtype = dtype or self.choice([F32, F32, F32, F64, I32, I64, BOOL])
        t = Tensor(f"x{len(self.inputs)}", dtype, tuple(shape))
        self.inputs.append(t)
        self.values.append(t)
        return t

    def pick(self) -> Tensor:
        t: Tensor = self.choice(self.values)
        self.used.add(t)
        return t

    def new(self, shape: Any, dtype: DType) -> Tensor:
        t = Tensor(f"t{len(self.values)}", dtype, tuple(shape))
        self.values.append(t)
        return t

    def numeric(self, t: Tensor) -> Tensor:
        return self.unary(t, lambda v: cast(v, F32), F32) if t.dtype is BOOL else t

    def unary(self, t: Tensor, f: Any, dtype: DType | None = None) -> Tensor:
        y = self.new(t.shape, dtype or t.dtype)
        i = self.eqs.indices("i", t.shape)
        self.eqs.define(y[i], f(t[i]))
        return y

    def step(self) -> None:
        ops = [self.map, self.broadcast, self.transpose, self.reduce, self.reduce, self.slice, self.compare, self.cast,
               self.softmax, self.concat, self.pad, self.product, self.gather, self.mask, self.update]  # fmt: skip
        self.choice(ops)()

    def map(self) -> None:
        t = self.numeric(self.pick())
        if t.dtype.is_float:
            f = self.choice([lambda v: tanh(v), lambda v: exp(minimum(v, 2.0)), abs_, lambda v: v * 0.5 + 1.0, floor,
                             lambda v: sqrt(abs_(v)), lambda v: v / (abs_(v) + 1.0)])  # fmt: skip
        else:
            f = self.choice([lambda v: v // 3, lambda v: v % 4, lambda v: v * v, lambda v: maximum(v, 1), lambda v: -v])
        self.unary(t, f)

    def broadcast(self) -> None:
        a = self.numeric(self.pick())
        partial = a.shape[self.draw(st.integers(0, len(a.shape))) :]
        shape = [1 if self.draw(st.booleans()) else n for n in partial]
        b = self.input(shape, a.dtype)
        self.used.add(b)
        y = self.new(a.shape, a.dtype)
        i = self.eqs.indices("i", a.shape)
        f = self.choice([lambda p, q: p + q, lambda p, q: p * q, maximum, lambda p, q: q - p])
        self.eqs.define(y[i], f(a[i], b[fit(i, b.shape)]))

    def transpose(self) -> None:
        a = self.pick()
        order = self.draw(st.permutations(range(len(a.shape))))
        y = self.new([a.shape[k] for k in order], a.dtype)
        i = self.eqs.indices("i", y.shape)
        self.eqs.define(y[i], a[tuple(i[list(order).index(k)] for k in range(len(order)))])

    def reduce(self) -> None:
        a = self.pick()
        if not a.shape:
            return
        axes = self.draw(st.sets(st.integers(0, len(a.shape) - 1), min_size=1))
        kinds = ["any", "all", "count"] if a.dtype is BOOL else ["sum", "max", "min"]
        kind = self.choice(kinds)
        keep = [n for k, n in enumerate(a.shape) if k not in axes]
        dtype = {"count": I64}.get(kind, a.dtype)
        y = self.new(keep, dtype)
        i = self.eqs.indices("i", keep)

        def body(*r: Expr) -> Expr:
            inner, outer = iter(r), iter(i)
            return a[tuple(next(inner) if k in axes else next(outer) for k in range(len(a.shape)))]

        def from_the_third(*r: Expr) -> Expr:
            return ge(r[0], 2)

        where_ = from_the_third if self.draw(st.booleans()) and kind in ("sum", "max") else None
        self.eqs.define(y[i], reduce_(kind, [a.shape[k] for k in sorted(axes)], body, where_))

    def slice(self) -> None:
        a = self.pick()
        if not a.shape:
            return
        y = self.new(a.shape, a.dtype)
        i = self.eqs.indices("i", a.shape)
        at = [n - 1 - v if self.draw(st.booleans()) else v for v, n in zip(i, a.shape)]
        self.eqs.define(y[i], a[tuple(at)])

    def compare(self) -> None:
        a = self.numeric(self.pick())
        self.unary(a, lambda v: lt(v, 1), BOOL)

    def cast(self) -> None:
        a = self.pick()
        to = self.choice([F32, F64, I32, I64, BOOL])
        self.unary(a, lambda v: cast(v, to), to)

    def softmax(self) -> None:
        a = self.pick()
        if not a.dtype.is_float or not a.shape:
            return
        axis = self.draw(st.integers(0, len(a.shape) - 1))
        n, rest = a.shape[axis], [s for k, s in enumerate(a.shape) if k != axis]
        peak, total, y = self.new(rest, a.dtype), self.new(rest, a.dtype), self.new(a.shape, a.dtype)
        i = self.eqs.indices("i", rest)
        k = self.eqs.index("k", n)
        self.eqs.define(peak[i], reduce_("max", [n], lambda r: a[(*i[:axis], r, *i[axis:])]))
        self.eqs.define(total[i], reduce_("sum", [n], lambda r: exp(a[(*i[:axis], r, *i[axis:])] - peak[i])))
        at = (*i[:axis], k, *i[axis:])
        self.eqs.define(y[at], exp(a[at] - peak[i]) / (total[i] + 1e-6))

    def concat(self) -> None:
        a = self.pick()
        if not a.shape:
            return
        b = self.input([*a.shape[:-1], 5], a.dtype)
        self.used.add(b)
        y = self.new([*a.shape[:-1], a.shape[-1] + 5], a.dtype)
        i = self.eqs.indices("i", a.shape)
        self.eqs.define(y[i], a[i])
        j = self.eqs.indices("j", b.shape)
        self.eqs.define(y[(*j[:-1], j[-1] + a.shape[-1])], b[j])

    def pad(self) -> None:
        a = self.pick()
        if not a.shape or a.dtype is BOOL:
            return
        y = self.new([n + 3 for n in a.shape], a.dtype)
        i = self.eqs.indices("i", y.shape)
        self.eqs.define(y[i], pad(a, 1)[tuple(v - 1 for v in i)])

    def mask(self) -> None:
        a = self.numeric(self.pick())
        if not a.shape:
            return
        y = self.new(a.shape, a.dtype)
        i = self.eqs.indices("i", a.shape)
        self.eqs.define(y[i], where(lt(i[-1], 2), 0, a[(*i[:-1], i[-1] - 2)]))

    def gather(self) -> None:
        a = self.pick()
        if not a.shape:
            return
        table = self.input([7, *a.shape[1:]], F32)
        index = self.input([a.shape[0]], I64)
        self.used |= {table, index}
        y = self.new([a.shape[0], *a.shape[1:]], F32)
        i = self.eqs.indices("i", y.shape)
        safe = minimum(maximum(index[i[0]], -7), 6)
        self.eqs.define(y[i], table[(wrap(safe, 7), *i[1:])])

    def update(self) -> None:
        """Elements of a tensor at places from data, some of them out of range and left out, or rows of it, put into a copy of a table."""
        a = self.numeric(self.pick())
        if not a.shape:
            return
        rows = self.draw(st.booleans())
        index = self.input([a.shape[0]] if rows else list(a.shape), I64)
        table = self.input([5, *a.shape[1:]] if rows else [5], a.dtype)
        self.used |= {table, index}
        y = Tensor(f"u{len(self.updated)}", a.dtype, table.shape)
        self.updated.append(y)  # what a kernel updates, it reads nowhere
        k = self.eqs.indices("k", y.shape)
        self.eqs.define(y[k], table[k])
        i = self.eqs.indices("i", a.shape)
        place = index[i[0]] if rows else index[i]
        guard = and_(ge(place, 0), lt(place, 5))
        if self.draw(st.booleans()):
            guard = and_(guard, lt(a[i], 1))
        op = self.choice(["set", "add", "sub", "max", "min"])
        self.eqs.update(checked(y)[(place, *i[1:]) if rows else place], op, a[i], over=i, where=guard)

    def product(self) -> None:
        a = self.numeric(self.pick())
        if len(a.shape) < 2:
            return
        b = self.input([a.shape[-1], self.choice([*SYMBOLS, 3])], a.dtype)
        self.used.add(b)
        y = self.new([*a.shape[:-1], b.shape[1]], a.dtype)
        *i, j = self.eqs.indices("i", y.shape)
        self.eqs.define(y[(*i, j)], reduce_("sum", [b.shape[0]], lambda r: a[(*i, r)] * b[r, j]))

    def group(self) -> Group:
        defined = {q.target for q in self.eqs.equations}
        read = {t for q in self.eqs.equations for t in _read(q.value)}
        outputs = [t for t in self.values if t in defined and (t not in read or self.draw(st.integers(0, 4)) == 0)]
        return Group("fuzz", tuple(self.eqs.equations), tuple(self.inputs), outputs=(*outputs, *self.updated))


def _read(e: Expr) -> set[Tensor]:
    from anyshape.equations import Read
    from anyshape.equations.traversal import walk

    return {n.tensor for n in walk(e) if isinstance(n, Read)}


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_groups(data: Any) -> None:
    composer = Composer(data.draw)
    composer.input()
    for _ in range(data.draw(st.integers(1, 9))):
        composer.step()
    group = composer.group()
    if not group.outputs:
        return
    sizes = [{s: data.draw(EXTENTS) for s in SYMBOLS} for _ in range(2)]
    small = [s for s in sizes if np.prod([max(1, n) for n in s.values()]) < 40_000]
    check(group, small, tolerance=2e-3, special=data.draw(st.booleans()), parts=(1, 3))
