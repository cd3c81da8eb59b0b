"""The arithmetic of reductions: one more value, two partial results, all lanes into one.

In: the kind, the dtype and values. Out: values. Maximum and minimum keep NaN: once an accumulator is NaN it stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from anyshape.dtypes import DType
from anyshape.lower.emit.values import elementwise
from anyshape.lower.llvm import half
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import Val, const

_OPERATION = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "max", "all": "min"}
_WHOLE = {"sum": "add", "prod": "mul", "max": "smax", "min": "smin", "any": "or", "all": "and"}


def accumulate(f: FunctionBuilder, kind: str, dtype: DType, accumulator: Val, value: Val) -> Val:
    """Adds a value to an accumulator. The value goes first: of max(x, a), NaN in either comes through with the fewest instructions."""
    return elementwise.apply(f, _OPERATION[kind], dtype, [value, accumulator], [dtype, dtype])


def extreme(f: FunctionBuilder, kind: str, dtype: DType, accumulator: Val, value: Val) -> Val:
    """The larger (smaller) of two floats where no NaN matters: one instruction."""
    first, second = elementwise.comparable(f, value), elementwise.comparable(f, accumulator)
    better = f.compare("gt" if kind == "max" else "lt", first, second)
    return f.select(better, value, accumulator)


def finish(f: FunctionBuilder, kind: str, dtype: DType, parts: Sequence[Val], seen_nan: Val | None) -> Val:
    """Reduces all accumulators and all lanes to a scalar; `seen_nan`, if there is one, says which lanes had the NaN that the accumulators
    ignored."""
    if seen_nan is None:
        return _across_lanes(f, kind, dtype, _combine(f, kind, dtype, parts, accumulate))
    total = _combine(f, kind, dtype, parts, extreme)
    value = f.reduce(f"f{kind}", elementwise.comparable(f, total), flags="nnan nsz")
    lanes = seen_nan if seen_nan.type.bits == 1 else f.compare("lt", seen_nan, 0)
    whole = f.select(f.reduce("or", lanes), const(value.type, math.nan), value)
    return half.shorten(f, whole, total.type.scalar) if total.type.is_half else whole


def _combine(f: FunctionBuilder, kind: str, dtype: DType, parts: Sequence[Val], step: Callable[..., Val]) -> Val:
    """Combines partial results pairwise, so that the order never depends on the number of iterations."""
    values = list(parts)
    while len(values) > 1:
        values = [
            step(f, kind, dtype, values[i], values[i + 1]) if i + 1 < len(values) else values[i]
            for i in range(0, len(values), 2)
        ]
    return values[0]


def _across_lanes(f: FunctionBuilder, kind: str, dtype: DType, v: Val) -> Val:
    """Reduces all lanes to a scalar."""
    if not v.type.lanes:
        return v
    if dtype.is_float and kind in ("max", "min", "sum", "prod"):
        return _halving(f, kind, dtype, v)
    name = _WHOLE[kind]
    if dtype.kind == "bool":
        name = "or" if kind in ("any", "max", "sum") else "and"
    if dtype.kind == "uint" and kind in ("max", "min"):
        name = "u" + name[1:]
    return f.reduce(name, v)


def _halving(f: FunctionBuilder, kind: str, dtype: DType, v: Val) -> Val:
    while v.type.lanes > 2:
        half = v.type.lanes // 2
        low = f.shuffle(v, None, list(range(half)))
        high = f.shuffle(v, None, list(range(half, 2 * half)))
        v = accumulate(f, kind, dtype, low, high)
    return accumulate(f, kind, dtype, f.extract(v, 0), f.extract(v, 1)) if v.type.lanes == 2 else f.extract(v, 0)
