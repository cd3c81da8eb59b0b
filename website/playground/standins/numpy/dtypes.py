"""Dtypes: kind and width, how a number becomes an element of one, and which dtype two meet in."""

from __future__ import annotations

import array as compact
import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

_RANKS = "bui"


class generic:
    """What every scalar is, beside an array of rank 0."""


class dtype:
    """One dtype, an object for each. `dtype(x)` takes names, classes and dtypes, as NumPy does."""

    known: ClassVar[dict[Any, dtype]] = {}
    name: str
    kind: str
    itemsize: int
    type: type
    byteorder = "="

    def __new__(cls, source: Any) -> dtype:
        if isinstance(source, dtype):
            return source
        match = cls.known.get(source)
        if match is None and isinstance(source, str) and source[:2] in ("<U", "=U") and source[2:].isdigit():
            match = _register(source, "U", 4 * int(source[2:]))
        if match is None:
            raise TypeError(f"data type {source!r} not understood")
        return match

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def newbyteorder(self, order: str = "=") -> dtype:
        return self

    def __eq__(self, other: object) -> bool:
        try:
            return self is dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"dtype('{self.name}')"

    def __str__(self) -> str:
        return self.name

    def elements(self, values: list[Any]) -> list[Any]:
        """Makes elements of Python's numbers: rounded, wrapped around, truncated."""
        return _ELEMENTS[self.kind](self, values)


def _register(name: str, kind: str, itemsize: int, *names: Any) -> dtype:
    d = object.__new__(dtype)
    d.name, d.kind, d.itemsize = name, kind, itemsize
    code = f"{kind}{itemsize}"
    for key in (name, code, f"<{code}", *names):
        dtype.known[key] = d
    return d


def _float_elements(d: dtype, values: list[Any]) -> list[Any]:
    if d.itemsize == 8:
        return [*map(float, values)]
    if d.itemsize == 4:
        return compact.array("f", map(float, values)).tolist()
    return [_half(float(v)) for v in values]


def _half(v: float) -> float:
    try:
        return float(struct.unpack("e", struct.pack("e", v))[0])
    except OverflowError:
        return math.copysign(math.inf, v)


def _int_elements(d: dtype, values: list[Any]) -> list[Any]:
    bits = 8 * d.itemsize
    if d.kind == "u":
        mask = (1 << bits) - 1
        return [_whole(v) & mask for v in values]
    half, mask = 1 << bits - 1, (1 << bits) - 1
    return [(_whole(v) + half & mask) - half for v in values]


def _whole(v: Any) -> int:
    """An integer, of NaN and infinities the least of 64 bits, as processors have it."""
    return -(1 << 63) if isinstance(v, float) and not math.isfinite(v) else int(v)


_ELEMENTS: dict[str, Callable[[dtype, list[Any]], list[Any]]] = {
    "f": _float_elements,
    "i": _int_elements,
    "u": _int_elements,
    "b": lambda d, values: [*map(bool, values)],
    "O": lambda d, values: values,
    "U": lambda d, values: [str(v)[: d.itemsize // 4] for v in values],
}

BOOL = _register("bool", "b", 1, bool, "?")
INTS = {n: _register(f"int{8 * n}", "i", n) for n in (1, 2, 4, 8)}
UINTS = {n: _register(f"uint{8 * n}", "u", n) for n in (1, 2, 4, 8)}
FLOATS = {n: _register(f"float{8 * n}", "f", n) for n in (2, 4, 8)}
OBJECT = _register("object", "O", 8, object, "O")
I64, F64 = INTS[8], FLOATS[8]
dtype.known |= {int: I64, float: F64, "int": I64, "float": F64, None: F64}


@cache
def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that holds both."""
    a, b = dtype(a), dtype(b)
    if a is b:
        return a
    for kind in "OU":
        if kind in (a.kind, b.kind):
            return a if a.kind == kind else b
    if "f" in (a.kind, b.kind):
        f, other = (a, b) if a.kind == "f" else (b, a)
        if other.kind == "f":
            return FLOATS[max(a.itemsize, b.itemsize)]
        least = 2 if other.kind == "b" else min(8, 2 * other.itemsize)
        return FLOATS[max(f.itemsize, least)]
    low, high = sorted((a, b), key=lambda d: (_RANKS.index(d.kind), d.itemsize))
    if low.kind in ("b", high.kind):
        return high
    if low.itemsize < high.itemsize:
        return high
    return F64 if low.itemsize == 8 else INTS[2 * low.itemsize]


def weak_type(d: dtype, number: Any) -> dtype:
    """The dtype in which an array of dtype d meets a number of Python's, which takes the array's unless it is of a higher kind."""
    own = dtype(type(number)) if type(number) in (bool, int, float) else OBJECT
    rank = {"b": 0, "i": 1, "u": 1, "f": 2, "U": 3, "O": 3}
    if own.kind == "b" or rank[own.kind] <= rank[d.kind]:
        return d
    return promote_types(d, own) if d.kind == "b" else F64


def result_type(*operands: Any) -> dtype:
    """The dtype that arrays, dtypes and numbers of Python meet in."""
    strong = [o.dtype if hasattr(o, "dtype") and not isinstance(o, dtype) else o for o in operands]
    typed = [d for d in strong if isinstance(d, dtype)]
    numbers = [o for o in strong if not isinstance(o, dtype)]
    if not typed:
        typed, numbers = [dtype(type(n)) if type(n) in (bool, int, float) else OBJECT for n in numbers], []
    result = typed[0]
    for d in typed[1:]:
        result = promote_types(result, d)
    for n in numbers:
        result = weak_type(result, n)
    return result
