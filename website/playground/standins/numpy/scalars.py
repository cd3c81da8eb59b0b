"""Scalars: arrays of rank 0 with a class for each dtype."""

from __future__ import annotations

from typing import Any

from .arrays import SCALARS, ndarray
from .dtypes import dtype, generic


class _Scalar(ndarray, generic):
    """A scalar; `int64(3)` makes one."""

    __slots__ = ()
    name = ""

    def __init__(self, value: Any = 0) -> None:
        of = dtype(type(self).name)
        number = value.data[0] if isinstance(value, ndarray) else value
        super().__init__(of.elements([number]), (), of)


class integer(_Scalar):
    __slots__ = ()


class floating(_Scalar):
    __slots__ = ()


def _scalar(name: str, base: type, called: str | None = None) -> Any:
    scalar = type(called or name, (base,), {"__slots__": (), "name": name})
    SCALARS[name] = scalar
    dtype.known[scalar] = dtype(name)
    dtype(name).type = scalar
    return scalar


bool_ = _scalar("bool", _Scalar, "bool_")
int8, int16, int32, int64 = (_scalar(f"int{8 * n}", integer) for n in (1, 2, 4, 8))
uint8, uint16, uint32, uint64 = (_scalar(f"uint{8 * n}", integer) for n in (1, 2, 4, 8))
float16, float32, float64 = (_scalar(f"float{8 * n}", floating) for n in (2, 4, 8))


class object_(_Scalar):
    """The class of no scalar: elements of dtype object are themselves."""

    __slots__ = ()
    name = "object"


class str_(str, generic):
    """A string as an element of an array."""


SCALARS["U"] = str_
