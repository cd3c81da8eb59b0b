"""The slow, obvious reading of equations: NumPy arrays, one axis per loop variable; the oracle of every kernel.

In: equations and an array per input tensor. Out: an array per defined tensor. Dims must be integers by then (`sizes`
puts numbers in for symbols), except in the symbolic reading, where arrays have dtype object and hold `int | Dim` elements
(`contents_of`, used by type inference). A read outside a tensor raises, unless no condition asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.dtypes import CHAR
from anyshape.equations.array_sizes import depth_of
from anyshape.equations.builder import Compaction, Demand, Equation, RecurrenceStep, Run, Sorting, Update
from anyshape.equations.dependencies import units
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Tensor, Var
from anyshape.equations.refusing import Refused, out_of_range, reads_below, unwrapped
from anyshape.equations.symbolic import DECIDING, apply_symbolic, decided, fold_symbolic, select_symbolic
from anyshape.equations.unknown import NOTHING, UnknownElement
from anyshape.errors import OverflowedError
from anyshape.failure_report import element_text

Array = NDArray[Any]


MOST_TERMS = 1 << 10
"""The most terms that symbolic evaluation folds into one element, as models may name any size."""


class Arithmetic:
    """The arithmetic of elements, that of `numeric` and `ordered`; others override what they change."""

    def apply(self, e: Apply, args: list[Array]) -> Array:
        from anyshape.equations.numeric import apply_numeric

        return apply_numeric(e, args)

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
        from anyshape.equations.numeric import reduce_numeric

        return reduce_numeric(e, body, keep, axes)

    def update(self, op: str, target: Array, at: Sequence[Array], value: Array, t: Tensor) -> None:
        """Changes `target` in place: target[at] op= value."""
        from anyshape.equations import ordered

        ordered.update(op, target, at, value, t)


_PLAIN = Arithmetic()


def interpret(
    equations: Sequence[Equation],
    arrays: Mapping[Tensor, Array],
    sizes: Mapping[Dim, int] | None = None,
    symbolic: bool = False,
    arithmetic: Arithmetic | None = None,
) -> dict[Tensor, Array]:
    """Runs the equations in the order their reads demand. Raises ShapeError for a read out of bounds."""
    known: dict[Tensor, Array] = {t: _computed(a) for t, a in arrays.items()}
    numbers = dict(sizes or {})
    for unit in units(equations):
        try:
            _unit(unit, known, numbers, symbolic, arithmetic)
        except Refused as e:
            raise e.of(unit[0]) from None
    return {t: a.view(t.dtype.numpy) if t.dtype is CHAR and not symbolic else a for t, a in known.items()}


def _unit(
    unit: Sequence[Equation],
    known: dict[Tensor, Array],
    numbers: dict[Dim, int],
    symbolic: bool,
    arithmetic: Arithmetic | None,
) -> None:
    q = unit[0]
    start = Evaluation(known, numbers, symbolic, arithmetic=arithmetic)
    if isinstance(q.form, RecurrenceStep):
        _recurrence(unit, q.form, start)
        return
    if isinstance(q.form, Run):
        if symbolic:
            raise UnknownElement(f"what the steps of {q.target.name} give")
        from anyshape.equations.running import run_program

        run_program(q.form.program, known, numbers, arithmetic)
        numbers |= {o.unbacked: int(known[o.target][()]) for o in unit if o.unbacked is not None}
        return
    start.run(q)
    if isinstance(q.form, Demand):
        _demand(q.form, q.value, known[q.target][()], start)
    if q.unbacked is not None:
        size = known[q.target][()]
        if not isinstance(size, (int, np.integer)):
            raise UnknownElement(q.target.name)
        numbers[q.unbacked] = int(size)


def _computed(a: Array) -> Array:
    """The array as computed with: characters as their code points."""
    return a.view(CHAR.computed) if a.dtype == CHAR.numpy else a


def _demand(form: Demand, asked: Expr, holds: Any, start: Evaluation) -> None:
    if isinstance(holds, Cond) or holds is NOTHING:
        raise UnknownElement(f"whether it holds that {form.message}")
    if not holds:
        sizes = start.sizes
        words = "".join(str(dims.evaluate(p, sizes)) if isinstance(p, Dim) else str(p) for p in form.message)
        raise Refused((words,), read=_blamed(start, asked))


def _blamed(start: Evaluation, asked: Expr) -> list[tuple[Tensor, str]]:
    """The elements of which an assert does not hold; none where some are symbols."""
    try:
        return start.blamed(asked)
    except (UnknownElement, TypeError):
        if not start.symbolic:
            raise
        return []


def _recurrence(unit: Sequence[Equation], first: RecurrenceStep, start: Evaluation) -> None:
    """Evaluates a recurrence: position by position, and at each one equation after the other."""
    for q in unit:
        start.make(q.target)
    positions = range(start.size(first.along.extent))
    for at in reversed(positions) if first.backward else positions:
        for q in unit:
            assert isinstance(q.form, RecurrenceStep)
            try:
                Evaluation(start.known, start.sizes, start.symbolic, {q.form.along: at}, start.arithmetic).run(q)
            except Refused as e:
                raise e.of(q) from None


class Evaluation:
    """The evaluation of one equation. Every array has one axis per bound variable (size 1 where it does not depend on it)."""

    def __init__(
        self,
        known: dict[Tensor, Array],
        sizes: Mapping[Dim, int],
        symbolic: bool,
        fixed: Mapping[Var, int] | None = None,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        self.known, self.sizes, self.symbolic, self.arithmetic = known, sizes, symbolic, arithmetic or _PLAIN
        self.axis: dict[Var, int] = {}
        self.done: dict[tuple[int, int, int], tuple[Array, Array]] = {}
        self.masks: dict[tuple[tuple[int, ...], bytes], Array] = {}
        self.fixed = dict(fixed or {})
        self.rank = 0

    def make(self, t: Tensor) -> Array:
        """The array of a tensor, which is zero at first."""
        if t not in self.known:
            shape = tuple(self.size(n) for n in t.shape)
            try:
                self.known[t] = np.zeros(shape, object if self.symbolic else t.dtype.computed)
            except (ValueError, MemoryError):
                what = f"{t.name} of shape {list(shape)} is more than an array can hold"
                raise UnknownElement(what) if self.symbolic else OverflowedError(what) from None
        return self.known[t]

    def run(self, q: Equation) -> None:
        variables = tuple(v for v in q.variables if v not in self.fixed)
        extents = tuple(self.size(v.extent) for v in variables)
        self.rank = len(variables) + len(q.over) + max(map(depth_of, q.expressions))
        self.axis = {v: k for k, v in enumerate(variables)}
        target = self.make(q.target)
        if 0 in extents:
            return
        if q.form is not None and not isinstance(q.form, (RecurrenceStep, Demand)):
            with np.errstate(all="ignore"):
                self.ordered(q, target, extents)
            return
        with np.errstate(all="ignore"):
            value = self.eval(q.value, np.ones((1,) * self.rank, bool), len(variables))
            index = [self.eval(i, np.ones((1,) * self.rank, bool), len(variables)) for i in q.index]
        value = value if isinstance(value, np.ndarray) else _boxed(value)  # NumPy unpacks objects of rank 0
        full = (*extents, *([1] * (self.rank - len(extents))))
        if index:
            at = tuple(np.broadcast_to(i, full).astype(np.int64) for i in index)
            for axis, (i, n) in enumerate(zip(at, target.shape)):
                self.demand_inside((i >= 0) & (i < n), axis, q, n, len(variables))
            target[at] = np.broadcast_to(value, full) if full else value[()]
        else:
            target[()] = value.reshape(-1)[0]

    def ordered(self, q: Equation, target: Array, extents: tuple[int, ...]) -> None:
        """An equation with a form: everything it evaluates first, then the elements one after the other."""
        from anyshape.equations import ordered

        over = tuple(self.size(v.extent) for v in q.over)
        if 0 in over:
            return
        full = (*extents, *over)
        self.axis |= {v: len(extents) + k for k, v in enumerate(q.over)}
        depth = len(full)
        keep, active = self.filtered(q, full)
        value = self.whole(q.value, active, depth, full)
        along = q.form.along if isinstance(q.form, (Compaction, Sorting)) else None
        index = [self.whole(i, active, depth, full) for i in q.index if i is not along]
        if isinstance(q.form, Update):
            index = [np.where(keep, i, 0) for i in index]
        if self.symbolic:
            _demand_known(q, index, value, over)
        first: tuple[Any, ...] = (*(slice(None) for _ in extents), *(0 for _ in over))
        at = [i.astype(np.int64)[first] for i in index]
        if isinstance(q.form, Update):
            for k, (i, n) in enumerate(zip(at, target.shape, strict=True)):
                self.demand_inside((i >= 0) & (i < n) | ~keep, k, q, n, depth)
            self.arithmetic.update(q.form.op, target, [i[keep] for i in at], value[keep], q.target)
        elif isinstance(q.form, (Compaction, Sorting)):
            ordered.put_vectors(q.form, target, at, q.index.index(q.form.along), value, keep, q.target)

    def filtered(self, q: Equation, full: tuple[int, ...]) -> tuple[Array, Array]:
        """The points that a filter keeps, at which everything else is evaluated."""
        everywhere = np.ones((1,) * self.rank, bool)
        if q.where is None:
            return np.ones(full, bool), everywhere
        keep = self.whole(q.where, everywhere, len(full), full)
        if self.symbolic and not all(isinstance(k, (bool, np.bool_)) for k in keep.flat):
            raise UnknownElement(f"a filter of {q}")
        keep = keep.astype(bool)
        return keep, keep.reshape((*full, *([1] * (self.rank - len(full)))))

    def demand_inside(self, good: Array, axis: int, e: Read | Equation, n: Any, depth: int) -> None:
        """Refuses the first point of the array at which an index, of what is read or written, is out of range."""
        if good.all():
            return
        point = first_false(good)
        index = unwrapped(e.index[axis])
        at = self.at(index, point, depth)
        elements = [] if self.symbolic else self.elements(reads_below([index]), point, depth)
        tensor = e.tensor if isinstance(e, Read) else e.target
        raise Refused(out_of_range(at, axis, tensor, n), (tensor, e.index), elements)

    def at(self, e: Expr, point: Sequence[int], depth: int) -> Any:
        """The value at one point."""
        value = self.eval(e, np.ones((1,) * self.rank, bool), depth)
        if not isinstance(value, np.ndarray):
            return value
        return value[tuple(min(p, n - 1) for p, n in zip_longest(point, value.shape, fillvalue=0))]

    def elements(self, reads: Iterable[Read], point: Sequence[int], depth: int) -> list[tuple[Tensor, str]]:
        """Elements as text, with their values; not those that are themselves out of range."""
        texts = []
        for e in reads:
            with suppress(Refused):
                index = [self.at(i, point, depth) for i in e.index]
                where = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
                texts.append((e.tensor, f"{where} = {element_text(self.at(e, point, depth), e.tensor.dtype)}"))
        return texts

    def blamed(self, asked: Expr) -> list[tuple[Tensor, str]]:
        """The elements of which an assert does not hold: the first point of a reduction over all."""
        parts = [asked]
        while any(isinstance(p, Apply) and p.op == "and" for p in parts):
            parts = [a for p in parts for a in (p.args if isinstance(p, Apply) and p.op == "and" else (p,))]
        for part in parts:
            variables = part.vars if isinstance(part, Reduce) and part.kind == "all" else ()
            self.rank, self.axis = len(variables) + depth_of(part), {v: k for k, v in enumerate(variables)}
            self.done.clear()
            extents = tuple(self.size(v.extent) for v in variables)
            active = np.ones((1,) * self.rank, bool)
            keep, each = np.ones(extents, bool), part
            if isinstance(part, Reduce) and variables:
                each = part.body
                keep = (
                    keep if part.where is None else self.whole(part.where, active, len(variables), extents).astype(bool)
                )
            with np.errstate(all="ignore"):
                good = self.whole(each, active, len(variables), extents).astype(bool) | ~keep
                if not good.all():
                    return self.elements(reads_below([each]), first_false(good), len(variables))
        return []

    def whole(self, e: Expr, active: Array, depth: int, extents: tuple[int, ...]) -> Array:
        """The value with an axis of full size for each bound variable, and no others."""
        value = self.eval(e, active, depth)
        value = value if isinstance(value, np.ndarray) else _boxed(value)
        full = np.broadcast_to(value, (*extents, *([1] * (self.rank - depth)))) if self.rank else value
        return full.reshape(extents)

    def size(self, n: Size) -> int:
        if isinstance(n, int):
            return n
        if self.symbolic:
            raise UnknownElement(f"an extent of {n}")
        return int(dims.evaluate(n, self.sizes))

    def eval(self, e: Expr, active: Array, depth: int) -> Array:
        """The value of e. An expression that occurs twice under the same condition is computed once: equal ones are one object."""
        if not isinstance(e, Apply):
            return self.compute(e, active, depth)
        key = (e.serial, id(active), depth)
        if key not in self.done:
            self.done[key] = (active, self.compute(e, active, depth))
        return self.done[key][1]

    def compute(self, e: Expr, active: Array, depth: int) -> Array:
        if isinstance(e, Const):
            return self.full(e.value, e)
        if isinstance(e, Scalar):
            if self.symbolic:
                return self.full(e.size, e)
            value = dims.evaluate(e.size, self.sizes) if isinstance(e.size, (Dim, Cond)) else e.size
            return self.full(value, e)
        if isinstance(e, Var) and e in self.fixed:
            return self.full(self.fixed[e], e)
        if isinstance(e, Var):
            n = self.size(e.extent)
            shape = [1] * self.rank
            shape[self.axis[e]] = n
            return np.arange(n, dtype=object if self.symbolic else np.int64).reshape(shape)
        if isinstance(e, Read):
            return self.read(e, active, depth)
        if isinstance(e, Reduce):
            return self.reduce(e, active, depth)
        assert isinstance(e, Apply)
        if e.op == "select":
            c = self.eval(e.args[0], active, depth)
            if self.symbolic:
                chosen, open_ = decided(c)
                is_open, (then, otherwise) = bool(open_.any()), e.args[1:]
                return select_symbolic(
                    c,
                    self.branch(then, active & (chosen | open_), depth, is_open),
                    self.branch(otherwise, active & (~chosen | open_), depth, is_open),
                )
            c = c.astype(bool)
            chosen, other = self.one_object(active & c), self.one_object(active & ~c)
            return np.where(c, self.eval(e.args[1], chosen, depth), self.eval(e.args[2], other, depth))
        if self.symbolic:
            known_apart = e.op in DECIDING
            return apply_symbolic(
                e,
                [
                    (self.branch(a, active, depth, False) if known_apart else self.eval(a, active, depth))
                    for a in e.args
                ],
            )
        args = [self.eval(a, active, depth) for a in e.args]
        return self.arithmetic.apply(e, args)

    def one_object(self, active: Array) -> Array:
        """The array that stands for all that are equal to this one: what is computed at the same points is computed once, whichever choices
        lead there."""
        return self.masks.setdefault((active.shape, active.tobytes()), active)

    def branch(self, e: Expr, active: Array, depth: int, is_open: bool) -> Array:
        """Evaluates one side of a choice between symbols. `is_open`: it may be the one that is not chosen, and what it would refuse is no
        error."""
        try:
            return self.eval(e, active, depth)
        except UnknownElement:
            return np.full((1,) * self.rank, NOTHING, object)
        except Refused:
            if not is_open:
                raise
            return np.full((1,) * self.rank, NOTHING, object)

    def full(self, value: Any, e: Expr) -> Array:
        out = np.empty(
            (1,) * self.rank, object if self.symbolic else (e.dtype.computed if e.dtype is not None else None)
        )
        # a dim may be more than a narrow integer holds
        out[...] = value if self.symbolic else np.asarray(value).astype(out.dtype)
        return out

    def read(self, e: Read, active: Array, depth: int) -> Array:
        if e.tensor not in self.known:
            raise UnknownElement(e.tensor.name)
        array = self.known[e.tensor]
        if not e.index:
            return np.asarray(array[()]).reshape((1,) * self.rank) if not self.symbolic else self.full(array[()], e)
        columns = [self.eval(i, active, depth) for i in e.index]
        if self.symbolic and any(v is NOTHING or isinstance(v, (Dim, Cond)) for c in columns for v in c.flat):
            raise UnknownElement(f"an index of {e}")
        index = np.broadcast_arrays(*(c.astype(np.int64) for c in columns))
        inside = np.ones(index[0].shape, bool)
        for k, (i, n) in enumerate(zip(index, array.shape, strict=True)):
            good = (i >= 0) & (i < n)
            inside &= good
            if e.outside is None:
                self.demand_inside(good | ~active, k, e, n, depth)
        if array.size == 0:
            values = np.zeros(index[0].shape, array.dtype)
        else:
            values = array[tuple(np.where(inside, i, 0) for i in index)]
            if not isinstance(values, np.ndarray):  # rank 0, and an element that is no NumPy scalar
                values = self.full(values, e)
        if e.outside is None:
            return values
        return np.where(inside, values, self.eval(e.outside, active, depth))

    def reduce(self, e: Reduce, active: Array, depth: int) -> Array:
        axes = tuple(range(depth, depth + len(e.vars)))
        for v, a in zip(e.vars, axes, strict=True):
            self.axis[v] = a
        shape = [1] * self.rank
        for v, a in zip(e.vars, axes, strict=True):
            shape[a] = self.size(v.extent)
        if self.symbolic and math.prod(shape) > MOST_TERMS:
            raise UnknownElement(f"a {e.kind} of {math.prod(shape)} elements")
        inner = depth + len(e.vars)
        keep = np.ones(shape, bool)
        if e.where is not None:
            where = self.eval(e.where, active, inner)
            if self.symbolic and not all(isinstance(k, (bool, np.bool_)) for k in where.flat):
                raise UnknownElement(f"a {e.kind} of what holds for symbols")
            keep = keep & where.astype(bool)
        body = self.eval(e.body, active & keep, inner)
        body, keep = np.broadcast_arrays(body, keep)
        if self.symbolic:
            return fold_symbolic(e, body, keep, axes)
        return self.arithmetic.reduce(e, body, keep, axes)


def _demand_known(q: Equation, index: Sequence[Array], value: Array, over: tuple[int, ...]) -> None:
    """Raises UnknownElement where what is put in order, or its place, is a symbol."""
    if any(v is NOTHING or isinstance(v, (Dim, Cond)) for i in index for v in i.flat):
        raise UnknownElement(f"an index of {q}")
    if isinstance(q.form, Update) and q.form.op != "set":
        raise UnknownElement(f"what {q} adds up to")
    if isinstance(q.form, Sorting) and 0 not in over and not all(isinstance(v, int) for v in value.flat):
        raise UnknownElement(f"the order of {q}")


def first_false(good: Array) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(np.argmin(good)), good.shape)))


def _boxed(element: Any) -> Array:
    box = np.empty((), object)
    box[()] = element
    return box
