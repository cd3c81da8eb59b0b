"""How close results have to be, by dtype and by what an op does; the one place that says so.

An op that only moves, compares or selects is exact; integers and bools always are (but see `cuts`). One rounding operation per element is
allowed some ulps of the value; several may cancel, and are allowed as many ulps of the inputs' magnitude at that element; a
sum of n terms those of n times the largest product of inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, DType, from_numpy
from anyshape.equations.builder import Equation, Run, Update
from anyshape.equations.expr import Apply, Expr, Reduce
from anyshape.equations.program import Put, every
from anyshape.equations.traversal import walk
from anyshape.strings import as_strings

Array = NDArray[Any]
ARITHMETIC = frozenset(("add", "sub", "mul", "div", "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "pow"))
UPDATES = {"add": "sum", "sub": "sum", "mul": "prod"}
ULPS_ELEMENTWISE = 32
ULPS_REDUCTION = 64


@dataclass(frozen=True)
class Allowance:
    """`ulps` of the value, and of `scale`: what terms that cancel may be off by."""

    ulps: int
    scale: Any
    order_matters: bool = False
    """A product that overflows or underflows in one order of its factors and not in another: nothing can be said."""
    spread: Any = 0.0
    """Besides: by how much elements may be off, as numbers."""
    inputs: Sequence[Array] = ()
    """What several steps were computed of."""


def allowance(stated: Sequence[Equation], inputs: Sequence[Array], shape: tuple[int, ...]) -> Allowance:
    """By what the equations do: nothing rounds, one operation per element rounds, several do, or a sum does."""
    nodes = [e for q in stated for value in _values(q) for e in walk(value)]
    kinds = {e.kind for e in nodes if isinstance(e, Reduce)}
    kinds |= _updates(stated)
    if kinds & {"sum", "prod"}:
        return Allowance(ULPS_REDUCTION, _total(inputs), "prod" in kinds and _leaves_range(inputs), inputs=inputs)
    rounding = [e for e in nodes if isinstance(e, Apply) and e.op in ARITHMETIC and e.dtype is not None]
    steps = sum(e.dtype is not None and e.dtype.is_float for e in rounding)
    steps += _steps_that_update(stated)
    if steps and any(isinstance(q.form, Run) for q in stated):  # a loop may add up what its turns round
        return Allowance(ULPS_REDUCTION, _total(inputs), inputs=inputs)
    if steps <= 1:
        return Allowance(ULPS_ELEMENTWISE if steps else 0, 0.0)
    return Allowance(ULPS_ELEMENTWISE, _elementwise(inputs, shape), inputs=inputs)


def _values(q: Equation) -> Sequence[Expr]:
    """All that the equation computes, of a procedure the values of its steps."""
    return q.form.program.expressions if isinstance(q.form, Run) else (q.value,)


def _updates(stated: Sequence[Equation]) -> set[str]:
    """As which reductions updates count: an element of 16 bits is rounded after each, and an oracle computes in f32 and rounds once."""
    halves = [q.form for q in stated if _is_half(q.target.dtype)]
    return {UPDATES[form.op] for form in halves if isinstance(form, Update) and form.op in UPDATES}


def _steps_that_update(stated: Sequence[Equation]) -> int:
    """Of procedures, those that round to a float what they add to an element or multiply it with."""
    programs = [q.form.program for q in stated if isinstance(q.form, Run)]
    puts = [a for p in programs for a in every(p.actions) if isinstance(a, Put)]
    return sum(a.op in UPDATES and a.target.dtype.is_float for a in puts)


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def is_float(a: Array) -> bool:
    """bf16 among them, which is no kind of float to NumPy."""
    return from_numpy(a.dtype).is_float


def _magnitudes(a: Array) -> Array:
    """Of floats; 0 for what is not finite."""
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


def _total(inputs: Sequence[Array]) -> float:
    worst = 1.0
    for a in inputs:
        worst *= max(1.0, float(_magnitudes(a).max(initial=0.0)))
    return worst * max(1, max((a.size for a in inputs), default=1))


def _elementwise(inputs: Sequence[Array], shape: tuple[int, ...]) -> Any:
    """The largest input at each element of the result, where inputs broadcast to it."""
    try:
        parts = [np.broadcast_to(_magnitudes(a), shape) for a in inputs]
    except ValueError:
        return _total(inputs)
    return np.maximum.reduce([np.zeros(shape), *parts])


def assert_close(got: Array, want: Array, allowed: Allowance, what: str) -> None:
    """Equal shapes and dtypes; floats within `allowed` ulps of the value or of `scale`, NaN where NaN is. Where the largest inputs multiply
    beyond the range of the dtype, an infinity may stand for NaN: the order of the terms says whether two infinities meet. What programs
    give as strings is compared with the strings of the characters wanted."""
    if want.dtype == CHAR.numpy and got.ndim == want.ndim - 1:
        np.testing.assert_array_equal(got, as_strings(want), err_msg=what)
        return
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, wanted {want.dtype}"
    if is_float(got) and allowed.order_matters:
        return
    if not is_float(got) or not allowed.ulps:
        exact = (got.astype(np.float64), want.astype(np.float64)) if is_float(got) else (got, want)
        np.testing.assert_array_equal(exact[0], exact[1], err_msg=what)
        return
    eps = float(finfo(got.dtype).eps)
    tiny = float(finfo(got.dtype).tiny)
    with np.errstate(all="ignore"):
        g, w = got.astype(np.float64), want.astype(np.float64)
        margin = allowed.ulps * eps * (np.abs(w) + allowed.scale) + allowed.spread + tiny
        good = (np.abs(g - w) <= margin) | (g == w) | (np.isnan(g) & np.isnan(w))
    if not good.all() and _total(allowed.inputs) > float(finfo(got.dtype).max):
        good |= ~np.isfinite(g) & ~np.isfinite(w)
    if not good.all():
        at = tuple(int(k) for k in np.argwhere(~good)[0])
        raise AssertionError(
            f"{what}: {np.count_nonzero(~good)} of {good.size} elements differ, first at {at}: {got[at]!r} against "
            f"{want[at]!r}; allowed {np.broadcast_to(margin, good.shape)[at]:.3g}"
        )
