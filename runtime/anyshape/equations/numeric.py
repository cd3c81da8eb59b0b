"""Elementwise operations and reductions on NumPy arrays, with the semantics that the spec language fixes in writing.

`//` and `%` floor, `trunc_div` truncates, a division of integers by zero gives 0 (the op's check reports it), min and max
propagate NaN, argmax takes the first, the sum of nothing is 0 and the max of nothing is the lowest value of its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import BF16, F16, I32, I64, DType, from_numpy, highest, lowest
from anyshape.equations import entropy, philox
from anyshape.equations.expr import Apply, Reduce

Array = NDArray[Any]


def _integers(*xs: Array) -> bool:
    return all(x.dtype.kind in "iub" for x in xs)


def _safe(b: Array) -> Array:
    return np.where(b == 0, np.ones_like(b), b)


def _trunc_div(a: Array, b: Array) -> Array:
    if not _integers(a, b):
        return np.trunc(a / b)
    down = a // _safe(b)
    q = down + ((a < 0) != (b < 0)) * (down * b != a).astype(a.dtype)
    return np.asarray(np.where(b == 0, np.zeros_like(q), q))


def _div(a: Array, b: Array) -> Array:
    return _trunc_div(a, b) if _integers(a, b) else a / b


def _floordiv(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros_like(a), a // _safe(b)) if _integers(a, b) else np.floor(a / b)


def _mod(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros_like(a), a % _safe(b)) if _integers(a, b) else np.mod(a, b)


def _fmod(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros_like(a), np.fmod(a, _safe(b))) if _integers(a, b) else np.fmod(a, b)


def _pow(a: Array, b: Array) -> Array:
    if not _integers(a, b):
        return np.power(a, b)
    powered = np.power(a, np.maximum(b, 0))
    if b.dtype.kind != "i":
        return np.asarray(powered)
    return np.where(b < 0, np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0)), powered).astype(
        a.dtype
    )


def _erf(a: Array) -> Array:
    values = np.fromiter((math.erf(float(v)) for v in a.flat), np.float64, a.size)
    return values.reshape(a.shape).astype(a.dtype)


def _shift(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A shift that is total: by at least as many bits as there are, or by a negative number, only the sign of a right shift is left."""

    def shift(a: Array, b: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        left = -(a < 0).astype(a.dtype) if f is np.right_shift else 0
        return np.where((b >= 0) & (b < bits), f(a, np.clip(b, 0, bits - 1).astype(b.dtype)), left).astype(a.dtype)

    return shift


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _div, "trunc_div": _trunc_div, "floordiv": _floordiv,
    "mod": _mod, "fmod": _fmod, "min": np.minimum, "max": np.maximum, "pow": _pow,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shift_left": _shift(np.left_shift), "shift_right": _shift(np.right_shift),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "wrap": lambda i, n: np.where(i < 0, i + n, i),
    "within": lambda i, n: i,
}  # fmt: skip
_UNARY: dict[str, Callable[[Array], Array]] = {
    "not": np.logical_not, "neg": np.negative, "abs": np.abs, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "sqrt": np.sqrt, "tanh": np.tanh,
    "erf": _erf, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "round_even": np.rint, "trunc": np.trunc,
    "round_bf16": lambda a: _cast(_cast(a, BF16), from_numpy(a.dtype)),
    "round_f16": lambda a: _cast(_cast(a, F16), from_numpy(a.dtype)),
}  # fmt: skip


def apply_numeric(e: Apply, args: list[Array]) -> Array:
    return compute(e.op, e.dtype, args)


def compute(op: str, dtype: DType | None, args: list[Array]) -> Array:
    """The operation of a name; `dtype`: of the result, None where it is that of the operands."""
    if op == "cast":
        assert dtype is not None
        return _cast(args[0], dtype)
    if op == "bitcast":
        assert dtype is not None
        return bits_as(args[0], dtype)
    if op == "philox":
        assert dtype is not None
        return philox.numbers(args[0], args[1], dtype)
    if op == "entropy":
        return np.array(entropy.draw())
    if len(args) == 2:
        return np.asarray(_BINARY[op](args[0], args[1]))
    out = np.asarray(_UNARY[op](args[0]))
    return out if op == "not" or dtype is None else out.astype(dtype.computed, copy=False)


def _cast(a: Array, dtype: DType) -> Array:
    """Float to int truncates and saturates, NaN gives 0: defined where C leaves it open, the same on every machine. Integers of fewer
    bits take the lowest ones. Narrow floats round to even; what is beyond the largest becomes infinity or NaN where the dtype has one."""
    source = from_numpy(a.dtype)
    if source.is_narrow and source != dtype:
        a = a.astype(np.float32 if source.is_float else np.int8)
    if dtype.width < dtype.bits:
        low = int(lowest(dtype))
        whole = _cast(a, I32) if source.is_float else a
        return ((whole.astype(np.int64) - low & (1 << dtype.width) - 1) + low).astype(dtype.computed)
    if dtype.is_integer and source.is_float:
        least, most = float(lowest(dtype)), float(highest(dtype))
        out = np.clip(
            np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf), least, most
        )
        small = np.where(out >= most, 0, out).astype(dtype.computed)
        return np.where(out >= most, np.array(highest(dtype)).astype(dtype.computed), small)
    return (_to_odd(a) if dtype.is_narrow_float else a).astype(dtype.computed)


def bits_as(a: Array, dtype: DType) -> Array:
    """The bits of an array as elements of a dtype; for dtypes narrower than a byte, the low bits."""
    codes = a.view(f"u{a.dtype.itemsize}")
    if dtype.is_bool:
        return np.asarray(codes != 0)
    return np.asarray(codes & ((1 << dtype.code_bits) - 1) if dtype.code_bits < dtype.bits else codes).view(
        dtype.computed
    )


def _to_odd(a: Array) -> Array:
    """The values as f32, rounded to odd: rounding the result once more equals rounding the values once."""
    exact = a.astype(np.float64)
    near = a.astype(np.float32)
    with np.errstate(invalid="ignore"):
        bits = near.view(np.int32) - (np.abs(near.astype(np.float64)) > np.abs(exact))
        odd = (bits | (near.astype(np.float64) != exact)).astype(np.int32).view(np.float32)
    return np.where(np.isfinite(exact), odd, near)


_FOLDS: dict[str, Callable[..., Any]] = {
    "any": np.any, "all": np.all, "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "argmax": np.max, "argmin": np.min,
}  # fmt: skip


def _position(values: Array, extreme: Array, keep: Array, axes: tuple[int, ...]) -> Array:
    """argmax or argmin in row-major order: the first place that is kept and holds the extreme, or NaN."""
    sizes = [n if k in axes else 1 for k, n in enumerate(values.shape)]
    hit = keep & ((values == extreme) | (values != values))
    positions = np.where(hit, np.arange(math.prod(sizes)).reshape(sizes), highest(I64))
    return np.asarray(np.min(positions, axis=axes, keepdims=True, initial=highest(I64)))


def reduce_numeric(e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
    """`body` folded over axes where `keep` holds; the axes stay, with size 1."""
    f = _FOLDS[e.kind]
    if e.kind in ("any", "all"):
        truth = body.astype(bool) & keep if e.kind == "any" else body.astype(bool) | ~keep
        return np.asarray(f(truth, axis=axes, keepdims=True))
    if e.kind in ("sum", "prod"):
        neutral = np.asarray(0 if e.kind == "sum" else 1, body.dtype)
        return np.asarray(f(np.where(keep, body, neutral), axis=axes, keepdims=True, dtype=body.dtype))
    assert e.body.dtype is not None
    least = np.asarray(lowest(e.body.dtype) if e.kind.endswith("max") else highest(e.body.dtype), body.dtype)
    masked = np.where(keep, body, least)
    extreme = np.asarray(f(masked, axis=axes, keepdims=True, initial=least))
    return _position(masked, extreme, keep, axes) if e.kind in ("argmax", "argmin") else extreme
