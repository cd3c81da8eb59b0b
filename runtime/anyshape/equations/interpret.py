"""The slow, obvious reading of equations: NumPy arrays, one axis per loop variable; the oracle of every kernel.

In: equations and an array per input tensor. Out: an array per defined tensor. Dims must be integers by then (`sizes`
puts numbers in for symbols), except in the symbolic reading, where arrays have dtype object and hold `int | Dim` elements
(`contents_of`, used by type inference). A read outside a tensor raises, unless no condition asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.dtypes import CHAR
from anyshape.equations.builder import Compaction, Demand, Equation, Run, Sorting, Step, Update
from anyshape.equations.dependencies import units
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Tensor, Var
from anyshape.equations.symbolic import NOTHING, Unknown, apply_symbolic, fold_symbolic, select_symbolic
from anyshape.equations.traversal import children
from anyshape.errors import OverflowedError, ShapeError

Array = NDArray[Any]


MOST_TERMS = 1 << 16
"""What the symbolic reading folds into one element, at most: models may name any size"""


class Arithmetic(Protocol):
    """How elements are computed, where it is not as `numeric` does."""

    def apply(self, e: Apply, args: list[Array]) -> Array: ...

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array: ...


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
        q = unit[0]
        if isinstance(q.form, Step):
            _recurrence(unit, q.form, Evaluation(known, numbers, symbolic, arithmetic=arithmetic))
            continue
        if isinstance(q.form, Run):
            if symbolic:
                raise Unknown(f"what the steps of {q.target.name} give")
            from anyshape.equations.running import run_program

            run_program(q.form.program, known, numbers, arithmetic)
            numbers |= {o.born: int(known[o.target][()]) for o in unit if o.born is not None}
            continue
        Evaluation(known, numbers, symbolic, arithmetic=arithmetic).run(q)
        if isinstance(q.form, Demand):
            _demand(q.form, known[q.target][()], numbers)
        if q.born is not None:
            found = known[q.target][()]
            if not isinstance(found, (int, np.integer)):
                raise Unknown(q.target.name)
            numbers[q.born] = int(found)
    return {t: a.view(t.dtype.numpy) if t.dtype is CHAR and not symbolic else a for t, a in known.items()}


def _computed(a: Array) -> Array:
    """Characters as their code points."""
    return a.view(CHAR.computed) if a.dtype == CHAR.numpy else a


def _demand(form: Demand, holds: Any, sizes: Mapping[Dim, int]) -> None:
    if isinstance(holds, Cond):
        raise Unknown(f"whether it holds that {form.message}")
    if not holds:
        raise ShapeError("".join(str(dims.evaluate(p, sizes)) if isinstance(p, Dim) else str(p) for p in form.message))


def _recurrence(unit: Sequence[Equation], first: Step, start: Evaluation) -> None:
    """Position by position, and at each one equation after the other."""
    for q in unit:
        start.make(q.target)
    positions = range(start.size(first.along.extent))
    for at in reversed(positions) if first.backward else positions:
        for q in unit:
            assert isinstance(q.form, Step)
            Evaluation(start.known, start.sizes, start.symbolic, {q.form.along: at}, start.arithmetic).run(q)


class Evaluation:
    """One equation. Every array has one axis per bound variable (size 1 where it does not depend on it)."""

    def __init__(
        self,
        known: dict[Tensor, Array],
        sizes: Mapping[Dim, int],
        symbolic: bool,
        fixed: Mapping[Var, int] | None = None,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        self.known, self.sizes, self.symbolic, self.arithmetic = known, sizes, symbolic, arithmetic
        self.axis: dict[Var, int] = {}
        self.done: dict[tuple[int, int, int], tuple[Array, Array]] = {}
        self.fixed = dict(fixed or {})
        self.rank = 0

    def make(self, t: Tensor) -> Array:
        """The array of a tensor, which is zero at first."""
        if t not in self.known:
            shape = tuple(self.size(n) for n in t.shape)
            try:
                self.known[t] = np.zeros(shape, object if self.symbolic else t.dtype.computed)
            except (ValueError, MemoryError):
                raise OverflowedError(f"{t.name} of shape {list(shape)} is more than an array can hold") from None
        return self.known[t]

    def run(self, q: Equation) -> None:
        variables = tuple(v for v in q.variables if v not in self.fixed)
        extents = tuple(self.size(v.extent) for v in variables)
        self.rank = len(variables) + len(q.over) + max(map(depth_of, q.expressions))
        self.axis = {v: k for k, v in enumerate(variables)}
        target = self.make(q.target)
        if 0 in extents:
            return
        if q.form is not None and not isinstance(q.form, (Step, Demand)):
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
                outside = (i < 0) | (i >= n)
                if outside.any():
                    raise ShapeError(
                        f"index {i[outside].flat[0]} is out of range for axis {axis} of {q.target.name} with size {n}"
                    )
            target[at] = np.broadcast_to(value, full) if full else value[()]
        else:
            target[()] = value.reshape(-1)[0]

    def ordered(self, q: Equation, target: Array, extents: tuple[int, ...]) -> None:
        """An equation with a form: everything it evaluates first, then the elements one after the other."""
        from anyshape.equations import ordered

        over = tuple(self.size(v.extent) for v in q.over)
        self.axis |= {v: len(extents) + k for k, v in enumerate(q.over)}
        depth = len(extents) + len(over)
        active = np.ones((1,) * self.rank, bool)
        keep = np.ones((*extents, *over), bool)
        if isinstance(q.form, Compaction) and q.form.where is not None:
            keep = self.whole(q.form.where, active, depth, (*extents, *over)).copy()
            if self.symbolic and not all(isinstance(k, (bool, np.bool_)) for k in keep.flat):
                raise Unknown(f"a filter of {q}")
            keep = keep.astype(bool)
            active = keep.reshape((*extents, *over, *([1] * (self.rank - depth))))
        value = self.whole(q.value, active, depth, (*extents, *over))
        along = q.form.along if isinstance(q.form, (Compaction, Sorting)) else None
        axis = len(q.index) if along is None else q.index.index(along)
        index = [self.whole(i, active, depth, (*extents, *over)) for i in q.index if i is not along]
        if self.symbolic and any(v is NOTHING or isinstance(v, (Dim, Cond)) for i in index for v in i.flat):
            raise Unknown(f"an index of {q}")
        first: tuple[Any, ...] = (*(slice(None) for _ in extents), *(0 for _ in over))
        at = [i.astype(np.int64)[first] for i in index] if 0 not in over else []
        if isinstance(q.form, Update):
            if self.symbolic and q.form.op != "set":
                raise Unknown(f"what {q} adds up to")
            ordered.update(q.form.op, target, at, value, q.target.name)
        elif isinstance(q.form, (Compaction, Sorting)) and 0 not in over:
            if self.symbolic and isinstance(q.form, Sorting) and not all(isinstance(v, int) for v in value.flat):
                raise Unknown(f"the order of {q}")
            ordered.put_vectors(q.form, target, at, axis, value, keep, q.target.name)

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
            raise Unknown(f"an extent of {n}")
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
                return select_symbolic(c, *(self.branch(a, active, depth) for a in e.args[1:]))
            c = c.astype(bool)
            return np.where(c, self.eval(e.args[1], active & c, depth), self.eval(e.args[2], active & ~c, depth))
        args = [self.eval(a, active, depth) for a in e.args]
        if self.symbolic:
            return apply_symbolic(e, args)
        from anyshape.equations.numeric import apply_numeric

        return (apply_numeric if self.arithmetic is None else self.arithmetic.apply)(e, args)

    def branch(self, e: Expr, active: Array, depth: int) -> Array:
        """One side of a choice between symbols, which may be the side that is not chosen."""
        try:
            return self.eval(e, active, depth)
        except Unknown:
            return np.full((1,) * self.rank, NOTHING, object)

    def full(self, value: Any, e: Expr) -> Array:
        out = np.empty(
            (1,) * self.rank, object if self.symbolic else (e.dtype.computed if e.dtype is not None else None)
        )
        out[...] = value
        return out

    def read(self, e: Read, active: Array, depth: int) -> Array:
        if e.tensor not in self.known:
            raise Unknown(e.tensor.name)
        array = self.known[e.tensor]
        if not e.index:
            return np.asarray(array[()]).reshape((1,) * self.rank) if not self.symbolic else self.full(array[()], e)
        columns = [self.eval(i, active, depth) for i in e.index]
        if self.symbolic and any(v is NOTHING or isinstance(v, (Dim, Cond)) for c in columns for v in c.flat):
            raise Unknown(f"an index of {e}")
        index = np.broadcast_arrays(*(c.astype(np.int64) for c in columns))
        inside = np.ones(index[0].shape, bool)
        for k, (i, n) in enumerate(zip(index, array.shape, strict=True)):
            good = (i >= 0) & (i < n)
            inside &= good
            if (
                e.outside is None
                and (np.broadcast_to(active, np.broadcast_shapes(active.shape, good.shape)) & ~good).any()
            ):
                worst = i[np.broadcast_to(~good, i.shape)].flat[0]
                raise ShapeError(f"index {worst} is out of range for axis {k} of {e.tensor.name} with size {n}")
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
            raise Unknown(f"a {e.kind} of {math.prod(shape)} elements")
        inner = depth + len(e.vars)
        keep = np.ones(shape, bool)
        if e.where is not None:
            keep = keep & self.eval(e.where, active, inner).astype(bool)
        body = self.eval(e.body, active & keep, inner)
        body, keep = np.broadcast_arrays(body, keep)
        if self.symbolic:
            return fold_symbolic(e, body, keep, axes)
        from anyshape.equations.numeric import reduce_numeric

        return (reduce_numeric if self.arithmetic is None else self.arithmetic.reduce)(e, body, keep, axes)


def depth_of(e: Expr) -> int:
    """How many reduction variables can be bound at once below e."""
    known: dict[int, int] = {}

    def depth(node: Expr) -> int:
        if node.serial not in known:
            below = max(map(depth, children(node)), default=0)
            known[node.serial] = below + (len(node.vars) if isinstance(node, Reduce) else 0)
        return known[node.serial]

    return depth(e)


def turns_of(q: Equation) -> int:
    """How many elements an array has that the interpreter makes for this equation, as far as bounds of sizes tell."""
    known: dict[int, int] = {}

    def extents(variables: Iterable[Var]) -> int:
        return math.prod(most for v in variables if (most := dims.bounds(v.extent)[1]) is not None)

    def turns(node: Expr) -> int:
        if node.serial not in known:
            below = max(map(turns, children(node)), default=1)
            known[node.serial] = below * (extents(node.vars) if isinstance(node, Reduce) else 1)
        return known[node.serial]

    return extents((*q.variables, *q.over)) * max(map(turns, q.expressions), default=1)


def _boxed(element: Any) -> Array:
    box = np.empty((), object)
    box[()] = element
    return box
