"""Floats that are computed of sizes, as exporters write `floor(n * 0.5)`: followed where it is proved that no rounding changes them.

In: an operation on floats, and its elements: numbers, dims, and such floats. Out: the element of the result, or NOTHING. A float of
precision p has every quotient N / 2**k of integers with |N| <= 2**p. Of any other quotient N / D, N >= 0, the float next to it is known, of
which only `floor` and `ceil` are asked: they are those of N / D itself where N + D < 2**p. For if N / D lies between the integers q and
q + 1, it is at least 1 / D away from both, and the float next to it is q or q + 1 only if that is at most half the distance of floats
there, 2**-p * (q + 1), so that 2**p <= D * (q + 1) <= N + D. Quotients that are exact are compared as sizes; one that may be rounded is
compared only where all integers that it may be near to are on one side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isfinite
from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.dtypes import F32, F64, DType
from anyshape.equations.expr import Apply
from anyshape.equations.unknown import NOTHING, UnknownElement

PRECISIONS = {F32: 24, F64: 53}
"""Bits of the significand, by dtype"""


@dataclass(frozen=True, slots=True)
class ExactFloat:
    """The float that is `of` divided by `by`, a power of two; of another positive `by` the float next to the quotient."""

    of: Dim
    by: int = 1

    @property
    def is_exact(self) -> bool:
        return self.by & (self.by - 1) == 0

    def _asked(self, *_: Any) -> Any:
        raise UnknownElement(f"{self} by an operation that is not followed")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = __abs__ = (
        _asked
    )
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __float__ = __index__ = _asked


def exact_element(e: Apply, items: Sequence[Any]) -> Any:
    """The element that an operation gives for these; NOTHING where it is not proved."""
    known = [_operand(item, a.dtype) for item, a in zip(items, e.args, strict=True)]
    if e.op not in _OPERATIONS or any(x is None for x in known) or e.dtype is None:
        return NOTHING
    return _OPERATIONS[e.op](e.dtype, *known)


@dataclass(frozen=True, slots=True)
class _Quotient:
    """An operand: `of` divided by `by`; `is_exact` tells whether it is that, or a float next to it."""

    of: Size
    by: int
    is_exact: bool = True


def _operand(item: Any, dtype: DType | None) -> _Quotient | None:
    if isinstance(item, ExactFloat):
        return _Quotient(item.of, item.by, item.is_exact)
    if isinstance(item, bool) or dtype is None or not isinstance(item, (int, float, Dim)):
        return None
    if dtype.is_integer:
        return None if isinstance(item, float) else _Quotient(item, 1)
    if isinstance(item, Dim) or dtype not in PRECISIONS or not isfinite(item):
        return None
    value = Fraction(float(dtype.numpy.type(item)))
    return _Quotient(value.numerator, value.denominator)


def _float(dtype: DType, of: Size, by: int) -> Any:
    """A quotient that the dtype has exactly."""
    precision = PRECISIONS.get(dtype)
    if precision is None:
        return NOTHING
    of, by = _reduced(of, by)
    low, high = dims.bounds(of)
    if by & (by - 1) or low is None or high is None or max(-low, high) > 1 << precision:
        return NOTHING
    return ExactFloat(of, by) if isinstance(of, Dim) else of / by


def _reduced(of: Size, by: int) -> tuple[Size, int]:
    """A quotient with its common factor left out, and a positive divisor."""
    if by < 0:
        of, by = -of, -by
    factor = gcd(by, *(c for _, c in of.terms)) if isinstance(of, Dim) else gcd(of, by)
    return dims.floordiv(of, factor), by // factor


def _rounded(dtype: DType, of: Size, by: int) -> Any:
    """The float next to a quotient."""
    of, by = _reduced(of, by)
    exact = _float(dtype, of, by)
    low, high = dims.bounds(of)
    if exact is not NOTHING or dtype not in PRECISIONS or low is None or high is None:
        return exact
    is_near = low >= 0 and high + by < 1 << PRECISIONS[dtype] and by & (by - 1) != 0
    return ExactFloat(of, by) if is_near and isinstance(of, Dim) else NOTHING


def _sum(dtype: DType, a: _Quotient, b: _Quotient, sign: int = 1) -> Any:
    if not (a.is_exact and b.is_exact):
        return NOTHING
    return _float(dtype, a.of * b.by + sign * b.of * a.by, a.by * b.by)


def _product(dtype: DType, a: _Quotient, b: _Quotient) -> Any:
    return _float(dtype, a.of * b.of, a.by * b.by) if a.is_exact and b.is_exact else NOTHING


def _division(dtype: DType, a: _Quotient, b: _Quotient) -> Any:
    if not (a.is_exact and b.is_exact) or not isinstance(b.of, int) or b.of == 0:
        return NOTHING
    return _rounded(dtype, a.of * b.by, a.by * b.of)


def _extreme(of_sizes: Callable[[Size, Size], Size]) -> Callable[..., Any]:
    """The larger or smaller one of two floats by that of sizes."""

    def choose(dtype: DType, a: _Quotient, b: _Quotient) -> Any:
        if not (a.is_exact and b.is_exact):
            return NOTHING
        return _float(dtype, of_sizes(a.of * b.by, b.of * a.by), a.by * b.by)

    return choose


def _floor(dtype: DType, a: _Quotient) -> Any:
    return _float(dtype, dims.floordiv(a.of, a.by), 1)


def _ceil(dtype: DType, a: _Quotient) -> Any:
    return _float(dtype, -dims.floordiv(-a.of, a.by), 1)


def _cast(dtype: DType, a: _Quotient) -> Any:
    if dtype.is_float:
        return _float(dtype, a.of, a.by) if a.is_exact else NOTHING
    low, high = dims.bounds(a.of)
    fits = dtype.is_integer and low is not None and high is not None and max(-low, high) < 1 << (dtype.bits - 1)
    if not fits or not a.is_exact or (a.by != 1 and low is not None and low < 0):
        return NOTHING
    return dims.floordiv(a.of, a.by)


def _order(of_sizes: Callable[[Size, Size], bool | Cond]) -> Callable[..., Any]:
    """A comparison of floats by that of sizes."""

    def compare(_: DType, a: _Quotient, b: _Quotient) -> Any:
        if a.is_exact and b.is_exact:
            return of_sizes(a.of * b.by, b.of * a.by)
        if dims.eq(a.of, b.of) is True and a.by == b.by:
            return of_sizes(0, 0)
        (low, high), (least, most) = _range(a), _range(b)
        if low is None or high is None or least is None or most is None or (high >= least and most >= low):
            return NOTHING
        return of_sizes(low, least)

    return compare


def _range(a: _Quotient) -> tuple[int | None, int | None]:
    """Integers that a float is between, also if it was rounded: rounding keeps what is below an integer below it, or makes it that one."""
    low, high = dims.bounds(a.of)
    return None if low is None else low // a.by, None if high is None else -(-high // a.by)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": _sum,
    "sub": lambda dtype, a, b: _sum(dtype, a, b, -1),
    "mul": _product,
    "div": _division,
    "max": _extreme(dims.maximum),
    "min": _extreme(dims.minimum),
    "neg": lambda dtype, a: _float(dtype, -a.of, a.by) if a.is_exact else NOTHING,
    "floor": _floor,
    "ceil": _ceil,
    "cast": _cast,
    **{name: _order(getattr(dims, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}
