"""Defines how close results have to be, by dtype and by what an op computes.

An op that only moves, compares or selects is exact; integers and bools always are (but see `cuts`). One rounding operation per element is
allowed some ulps of the value; several may cancel, and are allowed as many ulps of the inputs' magnitude at that element; a sum of n terms
is allowed ulps of n times the largest product of inputs, and no more than its own terms explain (`enlarging`). docs/testing.md lists what
each of these excuses, and the test of what it must not excuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from math import prod
from operator import or_
from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, from_numpy
from anyshape.equations.builder import Equation, RecurrenceStep, Run, Update
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor
from anyshape.equations.program import Put, every
from anyshape.equations.traversal import children, walk
from anyshape.strings import as_strings

Array = NDArray[Any]
ARITHMETIC = frozenset(
    ("add", "sub", "mul", "div", "exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sin", "cos", "pow")
)
UPDATES = frozenset(("add", "sub", "mul"))
"""Updates that round: the order of several updates of one element is not defined for an oracle"""
ULPS_ELEMENTWISE = 32
ULPS_REDUCTION = 64
TELLING = 8
"""An element counts as compared where an error of 1/TELLING of its value would be refused"""


@dataclass(frozen=True)
class Allowance:
    """An allowed error: `ulps` of the value, and of `scale`, the magnitude of terms that may cancel."""

    ulps: int
    scale: Any
    leaves_range: bool = False
    """Whether a product overflows or underflows in one order of its factors and not in another: elements that are not finite, or not
    normal, are not compared"""
    spread: Any = 0.0
    """A further error that is allowed for each element; infinity where rounding decides whether it is a number, and which"""
    undetermined: Any = False
    """Elements that are not compared"""
    inputs: Sequence[Array] = ()
    """Operands of a computation of several rounding operations"""
    sums: bool = False
    """Whether `scale` is that of sums, for which readings of the equations give a smaller bound"""
    overflows: bool = False
    """Whether a recurrence on finite numbers may overflow in intermediate values, so that its order decides whether two infinities meet"""
    degree: int = 1
    """The most factors of a term of a sum that are elements of one operand"""
    factors: int = 1
    """The most factors of a term of a sum"""
    signed_zeros: bool = False
    """Whether zeros have to have the same sign: they are moved, not computed"""


def allowance(stated: Sequence[Equation], inputs: Sequence[Array], shape: tuple[int, ...]) -> Allowance:
    """Derives the allowed error from the equations: nothing rounds, one operation per element does, several do, or a sum does."""
    nodes = [e for q in stated for value in _values(q) for e in walk(value)]
    kinds = {e.kind for e in nodes if isinstance(e, Reduce) and e.dtype is not None and e.dtype.is_float}
    updates = {q.form.op for q in stated if isinstance(q.form, Update) and q.target.dtype.is_float} & UPDATES
    if kinds & {"sum", "prod"} or updates:
        multiplies = "prod" in kinds or "mul" in updates
        sums = not multiplies and not any(isinstance(q.form, Run) for q in stated)
        overflows = any(isinstance(q.form, RecurrenceStep) for q in stated) and all(map(_is_finite, inputs))
        leaves = multiplies and _leaves_range(inputs)
        degree, factors = _factors(nodes)
        own = Allowance(ULPS_REDUCTION, _total(inputs), leaves, inputs=inputs, sums=sums, overflows=overflows)
        return replace(own, degree=degree, factors=factors)
    rounding = [e for e in nodes if isinstance(e, Apply) and e.op in ARITHMETIC and e.dtype is not None]
    steps = sum(e.dtype is not None and e.dtype.is_float for e in rounding)
    steps += _steps_that_update(stated)
    if steps and any(isinstance(q.form, Run) for q in stated):  # a loop may add up rounding errors of its iterations
        return Allowance(ULPS_REDUCTION, _total(inputs), inputs=inputs)
    if steps <= 1:
        return Allowance(ULPS_ELEMENTWISE if steps else 0, 0.0)
    return Allowance(ULPS_ELEMENTWISE, _elementwise(inputs, shape), inputs=inputs)


def _factors(nodes: Iterable[Expr]) -> tuple[int, int]:
    """Counts the factors of the terms of sums: the most that are elements of one tensor, and the most of one term."""
    known: dict[Expr, Counter[Tensor]] = {}
    sums = [_powers(e.body, known) for e in nodes if isinstance(e, Reduce) and e.kind == "sum"]
    return max((n for powers in sums for n in powers.values()), default=1), max((p.total() for p in sums), default=1)


def _powers(e: Expr, known: dict[Expr, Counter[Tensor]]) -> Counter[Tensor]:
    """Returns the power of each tensor in an expression: in a product the sum of those of both sides, else the largest."""
    if e not in known:
        below = [_powers(c, known) for c in children(e)]
        own = Counter({e.tensor: 1}) if isinstance(e, Read) else Counter()
        if isinstance(e, Apply) and e.op == "mul":
            known[e] = below[0] + below[1]
        else:
            known[e] = reduce(or_, below, own)
    return known[e]


def _values(q: Equation) -> Sequence[Expr]:
    """Lists the expressions that an equation computes; those of its steps for a procedure."""
    return q.form.program.expressions if isinstance(q.form, Run) else (q.value,)


def _steps_that_update(stated: Sequence[Equation]) -> int:
    """Counts the steps of procedures that add to an element of floats, subtract from it or multiply it."""
    programs = [q.form.program for q in stated if isinstance(q.form, Run)]
    puts = [a for p in programs for a in every(p.actions) if isinstance(a, Put)]
    return sum(a.op in UPDATES and a.target.dtype.is_float for a in puts)


def is_float(a: Array) -> bool:
    """Whether elements are floats, with bf16, which is no kind of float to NumPy."""
    return from_numpy(a.dtype).is_float


def are_finite(arrays: Iterable[Array]) -> bool:
    """Whether no element is an infinity or NaN."""
    return all(map(_is_finite, arrays))


def _is_finite(a: Array) -> bool:
    return not is_float(a) or bool(np.isfinite(a.astype(np.float64)).all())


def _magnitudes(a: Array) -> Array:
    """Returns absolute values of floats; 0 for elements that are not finite, and for other dtypes."""
    if not is_float(a):
        return np.zeros(a.shape)
    return np.where(np.isfinite(a), np.abs(a.astype(np.float64)), 0.0)


def _leaves_range(inputs: Sequence[Array]) -> bool:
    """Whether the factors above 1, or those below 1, multiply to something that the dtype does not hold."""
    for a in inputs:
        m = _magnitudes(a)
        if is_float(a):
            logs = np.log(m[m > 0])
            most = np.log(float(finfo(a.dtype).max))
            if logs[logs > 0].sum() > most or -logs[logs < 0].sum() > most:
                return True
    return False


def product_leaves_range(inputs: Sequence[Array]) -> bool:
    """Whether a product of one element of each operand overflows or underflows in some order of the factors."""
    above = below = 0.0
    ranges = [finfo(a.dtype) for a in inputs if is_float(a)]
    for a in inputs:
        m = _magnitudes(a)
        logs = np.log(m[m > 0])
        above += max(0.0, float(logs.max(initial=0.0))) + float(np.log(max(m.size, 1)))
        below += max(0.0, -float(logs.min(initial=0.0)))
    return any(above > np.log(float(r.max)) or below > -np.log(float(r.tiny)) for r in ranges)


def is_normal(a: Array) -> Array:
    """Says of each element whether it is finite, and not below the smallest normal number."""
    with np.errstate(all="ignore"):
        wide = np.abs(a.astype(np.float64))
    return np.isfinite(wide) & (wide >= float(finfo(a.dtype).tiny))


def _total(inputs: Sequence[Array], degree: int = 1) -> float:
    """Bounds a sum of products of `degree` elements of each operand."""
    with np.errstate(over="ignore"):
        return float(prod(_largest(a) ** degree for a in inputs) * max(1, max((a.size for a in inputs), default=1)))


def _largest(a: Array) -> np.float64:
    """Returns the largest magnitude of the finite elements, at least 1."""
    return np.float64(max(1.0, _magnitudes(a).max(initial=0.0)))


def underflow(inputs: Sequence[Array]) -> float:
    """Bounds the error of a sum of products of one element of each operand where the product of two of them is below the smallest normal
    number: for each term one unit of the last place there, times the other factors."""
    floats = [a for a in inputs if is_float(a)]
    unit = max((float(finfo(a.dtype).smallest_subnormal) for a in floats), default=0.0)
    pairs = combinations(range(len(floats)), 2)
    rest = (float(prod(_largest(a) for k, a in enumerate(floats) if k not in pair)) for pair in pairs)
    return unit * max((a.size for a in inputs), default=1) * max(rest, default=1.0)


def _elementwise(inputs: Sequence[Array], shape: tuple[int, ...]) -> Any:
    """Returns the largest magnitude of the inputs at each element of the result, where they broadcast to it."""
    try:
        parts = [np.broadcast_to(_magnitudes(a), shape) for a in inputs]
    except ValueError:
        return _total(inputs)
    return np.maximum.reduce([np.zeros(shape), *parts])


def assert_close(got: Array, want: Array, allowed: Allowance, what: str) -> bool:
    """Raises AssertionError unless shapes and dtypes are equal, and elements as close as is allowed.

    Floats must be within `allowed` ulps of the value or of `scale`, and NaN where NaN is expected. Where the largest inputs multiply beyond
    the range of the dtype, an infinity may stand for NaN: the order of the terms decides whether two infinities meet. Strings are compared
    with the strings of the expected characters. Returns whether an element was compared closely enough that a small relative error would
    have been refused.
    """
    if want.dtype == CHAR.numpy and got.ndim == want.ndim - 1:
        np.testing.assert_array_equal(got, as_strings(want), err_msg=what)
        return got.size > 0
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, wanted {want.dtype}"
    if not is_float(got) or not allowed.ulps:
        exact = (got.astype(np.float64), want.astype(np.float64)) if is_float(got) else (got, want)
        np.testing.assert_array_equal(exact[0], exact[1], err_msg=what)
        if is_float(got) and allowed.signed_zeros:
            signs = [np.signbit(np.where(np.isnan(a), 0, a)) for a in exact]
            np.testing.assert_array_equal(signs[0], signs[1], err_msg=f"{what}, signs of zeros")
        return got.size > 0
    eps = float(finfo(got.dtype).eps)
    with np.errstate(all="ignore"):
        g, w = got.astype(np.float64), want.astype(np.float64)
        largest = float(
            finfo(got.dtype).max
        )  # stands for an infinity, which is but rounding away from it, and from nothing else
        near, expected = (np.clip(a, -largest, largest) for a in (g, w))
        margin = allowed.ulps * eps * (np.abs(expected) + allowed.scale) + allowed.spread + _flushed(got)
        good = (np.abs(near - expected) <= margin) | (g == w) | (np.isnan(g) & np.isnan(w))
        telling = ~np.isfinite(w) | (margin <= np.abs(w) / TELLING)
    if not good.all():  # where terms leave the range of the dtype, their order says whether two infinities meet
        leaves = _total(allowed.inputs, allowed.degree) > largest
        good |= ~np.isfinite(g) & ~np.isfinite(w) & (leaves | allowed.overflows | np.isposinf(allowed.scale))
    undetermined = allowed.undetermined | np.isposinf(allowed.spread)
    if allowed.leaves_range:
        undetermined = undetermined | ~is_normal(got) | ~is_normal(want)
    good, telling = good | undetermined, telling & ~np.asarray(undetermined)
    if not good.all():
        at = tuple(int(k) for k in np.argwhere(~good)[0])
        raise AssertionError(
            f"{what}: {np.count_nonzero(~good)} of {good.size} elements differ, first at {at}: {got[at]!r} against "
            f"{want[at]!r}; allowed {np.broadcast_to(margin, good.shape)[at]:.3g}"
        )
    return bool(telling.any())


def _flushed(a: Array) -> float:
    """Returns the allowed error of a result near zero: machine code may flush numbers below the smallest normal one to zero. Floats of 16
    bits and less are rounded from f32, in which their subnormals are exact."""
    info = finfo(a.dtype)
    return float(info.tiny if a.dtype.itemsize >= 4 else 2 * info.smallest_subnormal)
