"""Elementwise functions, as the field has them: infinities and NaN where Python raises an error."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .arrays import OPERATORS, asarray, boxed, broadcast_arrays, ndarray
from .dtypes import BOOL, F64, OBJECT, dtype, result_type

Number = Any


class ufunc:
    """A function of the elements of one array or two. `result`: the dtype of what it returns, of the dtype of the operands."""

    def __init__(
        self, name: str, of: Callable[..., Number], result: Callable[[dtype], dtype], plain: Any = None
    ) -> None:
        self.__name__, self.of, self.result, self.plain = name, of, result, plain or of

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __call__(self, *operands: Any, dtype: Any = None, out: Any = None, where: Any = True, **options: Any) -> Any:
        for o in operands:
            answer = getattr(type(o), "__array_ufunc__", None)
            if answer is not None and not isinstance(o, ndarray):
                replied = answer(o, self, "__call__", *operands, **options)
                if replied is not NotImplemented:
                    return replied
        met = result_type(
            *(o if isinstance(o, ndarray) or type(o) in (bool, int, float) else asarray(o) for o in operands)
        )
        arrays = broadcast_arrays(*(_as(o, met) for o in operands))
        f = self.plain if met is OBJECT else self.of
        kind = OBJECT if met is OBJECT else self.result(met)
        if dtype is not None:
            kind = _dtype(dtype)
        if len(arrays) == 1:
            data = [f(v) for v in arrays[0].data]
        else:
            data = [*map(f, arrays[0].data, arrays[1].data)]
        if kind is OBJECT and self.result(F64) is BOOL and all(isinstance(v, bool) for v in data):
            kind = BOOL
        if out is not None:
            target = out[0] if isinstance(out, tuple) else out
            target[...] = ndarray(kind.elements(data), arrays[0].shape, kind)
            return target
        array = ndarray(kind.elements(data), arrays[0].shape, kind)
        return (
            array if array.shape or any(isinstance(o, ndarray) and type(o) is ndarray for o in operands) else array[()]
        )

    def at(self, target: ndarray, index: Any, values: Any) -> None:
        """target[index] op= values, of equal indices every one."""
        positions = broadcast_arrays(*index) if isinstance(index, tuple) else [asarray(index)]
        amounts = broadcast_arrays(asarray(values), positions[0])[0]
        for k, v in enumerate(amounts.data):
            place = tuple(p.data[k] for p in positions)
            target[place] = self(target[place], boxed(v, amounts.dtype))

    def reduce(self, a: Any, axis: int = 0, initial: Any = None) -> Any:
        from .functions import folded

        return folded(a, (axis,), False, self.of, initial)


def _dtype(of: Any) -> dtype:
    return dtype(of)


def _as(o: Any, met: dtype) -> ndarray:
    if type(o) in (bool, int, float) and met.kind in "iu" and type(o) is int:
        low = -(1 << 8 * met.itemsize - 1) if met.kind == "i" else 0
        if not low <= o < low + (1 << 8 * met.itemsize):
            raise OverflowError(f"Python integer {o} out of bounds for {met}")
    return asarray(o, met)


def _total(f: Callable[..., float], bad: Callable[..., float]) -> Callable[..., float]:
    """A function of floats that gives the value of `bad` where Python raises an error."""

    def total(*args: float) -> float:
        try:
            return f(*args)
        except (ValueError, OverflowError, ZeroDivisionError):
            return bad(*args)

    return total


def _nan(*_: float) -> float:
    return math.nan


def _quotient(a: float, b: float) -> float:
    if a != a or b != b or a == 0:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _keeping(f: Callable[[float], float]) -> Callable[[Number], Number]:
    """A rounding, which keeps infinities, NaN and the sign of a zero."""
    return lambda v: (math.copysign(f(v), v) if math.isfinite(v) else v) if isinstance(v, float) else v


def _floordiv(a: Number, b: Number) -> Number:
    if b == 0:
        return 0 if isinstance(a, int) else _quotient(a, b)
    return a // b if math.isfinite(a) else math.nan


def _mod(a: Number, b: Number) -> Number:
    if b == 0:
        return 0 if isinstance(a, int) else math.nan
    return a % b if math.isfinite(a) else math.nan


def _fmod(a: Number, b: Number) -> Number:
    if isinstance(a, int):
        return abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0
    return math.fmod(a, b) if b and math.isfinite(a) and b == b else math.nan


def _power(a: Number, b: Number) -> Number:
    if isinstance(a, int):
        return pow(a, b, 1 << 64) if b >= 0 else 0
    return math.pow(a, b)


def _greatest(a: Number, b: Number) -> Number:
    return a if a != a or a >= b else b


def _least(a: Number, b: Number) -> Number:
    return a if a != a or a <= b else b


def _same(d: dtype) -> dtype:
    return d


def _real(d: dtype) -> dtype:
    """Functions of reals make floats of integers."""
    return d if d.kind in "fO" else F64


def _truth(_: dtype) -> dtype:
    return BOOL


def _log(v: float) -> float:
    return -math.inf if v == 0 else math.nan


_power_total = _total(_power, lambda a, b: _pow_limit(a, b))


def _pow_limit(a: float, b: float) -> float:
    """Raises to a power as NumPy does: NaN for a negative base and an exponent that is no integer; infinity for 0 and a negative exponent,
    and beyond the largest float."""
    odd = float(b).is_integer() and b % 2 == 1
    if a < 0 and not float(b).is_integer():
        return math.nan
    return -math.inf if odd and math.copysign(1.0, a) < 0 else math.inf


def _added(a: Number, b: Number) -> Number:
    return a or b if isinstance(a, bool) else a + b


def _multiplied(a: Number, b: Number) -> Number:
    return a and b if isinstance(a, bool) else a * b


_SPECS: tuple[tuple[str, Callable[..., Number], Callable[[dtype], dtype], Any], ...] = (
    ("add", _added, _same, operator.add), ("subtract", operator.sub, _same, None),
    ("multiply", _multiplied, _same, operator.mul),
    ("true_divide", _total(operator.truediv, _quotient), _real, operator.truediv),
    ("floor_divide", _floordiv, _same, operator.floordiv), ("remainder", _mod, _same, operator.mod),
    ("fmod", _fmod, _same, None), ("power", _power_total, _same, operator.pow),
    ("maximum", _greatest, _same, None), ("minimum", _least, _same, None),
    ("bitwise_and", operator.and_, _same, None), ("bitwise_or", operator.or_, _same, None),
    ("bitwise_xor", operator.xor, _same, None), ("left_shift", operator.lshift, _same, None),
    ("right_shift", operator.rshift, _same, None),
    ("less", operator.lt, _truth, None), ("less_equal", operator.le, _truth, None),
    ("greater", operator.gt, _truth, None), ("greater_equal", operator.ge, _truth, None),
    ("equal", operator.eq, _truth, None), ("not_equal", operator.ne, _truth, None),
    ("logical_and", lambda a, b: bool(a) and bool(b), _truth, None),
    ("logical_or", lambda a, b: bool(a) or bool(b), _truth, None),
    ("logical_not", operator.not_, _truth, None),
    ("negative", operator.neg, _same, None), ("positive", operator.pos, _same, None),
    ("absolute", abs, _same, None), ("isfinite", math.isfinite, _truth, None), ("isnan", lambda v: v != v, _truth, None),
    ("invert", lambda v: not v if isinstance(v, bool) else ~v, _same, operator.invert),
    ("exp", _total(math.exp, lambda v: math.inf), _real, None), ("expm1", _total(math.expm1, lambda v: math.inf), _real, None),
    ("log", _total(math.log, _log), _real, None),
    ("log1p", _total(math.log1p, lambda v: _log(v + 1)), _real, None), ("sqrt", _total(math.sqrt, _nan), _real, None),
    ("tanh", math.tanh, _real, None), ("sin", _total(math.sin, _nan), _real, None), ("cos", _total(math.cos, _nan), _real, None),
    ("floor", _keeping(math.floor), _same, None), ("ceil", _keeping(math.ceil), _same, None),
    ("trunc", _keeping(math.trunc), _same, None), ("rint", _keeping(round), _same, None),
    ("ldexp", lambda v, k: math.ldexp(v, int(k)), _same, None),
)  # fmt: skip
ALL: dict[str, ufunc] = {name: ufunc(name, of, result, plain) for name, of, result, plain in _SPECS}
ALL |= {"divide": ALL["true_divide"], "mod": ALL["remainder"], "abs": ALL["absolute"]}
OPERATORS.update(
    {name: ALL[of] for name, of in {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "left_shift", "rshift": "right_shift", "lt": "less", "le": "less_equal", "gt": "greater",
        "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "neg": "negative", "abs": "absolute",
        "invert": "invert", "pos": "positive",
    }.items()}
)  # fmt: skip
