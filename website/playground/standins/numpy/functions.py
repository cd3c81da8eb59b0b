"""Functions of whole arrays: reductions, choices, orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cmp_to_key, reduce
from typing import Any

from .arrays import (
    REDUCTIONS,
    Shape,
    asarray,
    boxed,
    broadcast_arrays,
    empty,
    full,
    ndarray,
    ndindex,
    offsets,
    strides_of,
)
from .dtypes import BOOL, F64, I64, OBJECT, dtype, generic, result_type
from .ufuncs import ALL

_dtype = dtype


def errstate(**_: Any) -> AbstractContextManager[None]:
    return nullcontext()


def zeros(shape: Any, of: Any = float, *, dtype: Any = None) -> ndarray:
    return full(shape, 0, of if dtype is None else dtype)


def ones(shape: Any, of: Any = float, *, dtype: Any = None) -> ndarray:
    return full(shape, 1, of if dtype is None else dtype)


def zeros_like(a: Any) -> ndarray:
    return full(asarray(a).shape, 0, asarray(a).dtype)


def ones_like(a: Any) -> ndarray:
    return full(asarray(a).shape, 1, asarray(a).dtype)


def arange(*bounds: Any, dtype: Any = None) -> ndarray:
    values = [*range(*map(int, bounds))]
    return ndarray(_dtype(dtype or int).elements(values), (len(values),), _dtype(dtype or int))


def where(condition: Any, then: Any, otherwise: Any) -> ndarray:
    c = asarray(condition, bool)
    sides = [o if isinstance(o, ndarray) or type(o) in (bool, int, float) else asarray(o) for o in (then, otherwise)]
    d = result_type(*sides)
    c, a, b = broadcast_arrays(c, asarray(sides[0], d), asarray(sides[1], d))
    return ndarray([x if k else y for k, x, y in zip(c.data, a.data, b.data)], c.shape, d)


def folded(a: Any, axis: Any, keepdims: bool, f: Callable[[Any, Any], Any], initial: Any, of: Any = None) -> Any:
    """Folds an array over axes."""
    a = asarray(a)
    axes = _axes(axis, a.ndim)
    kept = [k for k in range(a.ndim) if k not in axes]
    steps = strides_of(a.shape)
    inner = offsets([a.shape[k] for k in axes], [steps[k] for k in axes])
    outer = offsets([a.shape[k] for k in kept], [steps[k] for k in kept])
    start = initial.data[0] if isinstance(initial, ndarray) else initial
    d = a.dtype if of is None else _dtype(of)
    data = []
    for p in outer:
        values = (a.data[p + q] for q in inner)
        data.append(reduce(f, values) if start is None else reduce(f, values, start))
    shape = tuple(1 if k in axes else n for k, n in enumerate(a.shape)) if keepdims else tuple(a.shape[k] for k in kept)
    result = ndarray(d.elements(data), shape, d)
    return result if shape or keepdims else boxed(result.data[0], d)


def _axes(axis: Any, rank: int) -> Shape:
    if axis is None:
        return tuple(range(rank))
    return tuple(k % rank if rank else k for k in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def _fold(f: Callable[[Any, Any], Any], start: Any, of: Any = None) -> Callable[..., Any]:
    def fold(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, dtype: Any = None) -> Any:
        first = start if initial is None else initial
        return folded(a, axis, keepdims, f, first, of if of is not None else dtype)

    return fold


def _sum_dtype(f: Callable[..., Any]) -> Callable[..., Any]:
    """Sums and products of bools and narrow integers are those of 64 bits, unless a dtype is asked for."""

    def total(a: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None, initial: Any = None) -> Any:
        d = asarray(a).dtype
        wide = I64 if d.kind in "bi" else _dtype("uint64") if d.kind == "u" else d
        return f(a, axis, keepdims, initial, wide if dtype is None else dtype)

    return total


_greatest, _least = ALL["maximum"].of, ALL["minimum"].of
any_ = _fold(lambda a, b: bool(a) or bool(b), False, BOOL)
all_ = _fold(lambda a, b: bool(a) and bool(b), True, BOOL)
sum_ = _sum_dtype(_fold(lambda a, b: a + b, 0))
prod = _sum_dtype(_fold(lambda a, b: a * b, 1))
max_, min_ = _fold(_greatest, None), _fold(_least, None)


def argmin(a: Any) -> int:
    data = asarray(a).data
    return min(range(len(data)), key=data.__getitem__)


def cumsum(a: Any, axis: int = 0) -> ndarray:
    """Running sums along an axis."""
    out = asarray(a).copy()
    step = strides_of(out.shape)[axis]
    for p in offsets(out.shape, strides_of(out.shape)):
        if p // step % out.shape[axis]:
            out.data[p] += out.data[p - step]
    return out


def mean(a: Any) -> float:
    """The mean of all elements."""
    return float(sum_(a)) / asarray(a).size


REDUCTIONS.update(
    {
        "cumsum": cumsum,
        "mean": mean,
        "any": any_,
        "all": all_,
        "sum": sum_,
        "prod": prod,
        "max": max_,
        "min": min_,
        "argmin": argmin,
    }
)


def unravel_index(k: int, shape: Shape) -> tuple[int, ...]:
    return tuple(k // s % n for s, n in zip(strides_of(shape), shape))


def clip(a: Any, low: Any, high: Any) -> Any:
    return ALL["minimum"](ALL["maximum"](a, low), high)


def nan_to_num(a: Any, nan: float = 0.0, posinf: float = math.inf, neginf: float = -math.inf) -> ndarray:
    a = asarray(a)
    instead = {math.inf: posinf, -math.inf: neginf}
    return ndarray(a.dtype.elements([nan if v != v else instead.get(v, v) for v in a.data]), a.shape, a.dtype)


def fromiter(values: Iterable[Any], of: Any, count: int = -1) -> ndarray:
    return asarray([*values], of)


def frombuffer(data: bytes, of: Any) -> ndarray:
    return ndarray([*data], (len(data),), dtype("uint8")).view(of)


def _compare(a: Any, b: Any) -> int:
    """NaN is the greatest."""
    if a != a or b != b:
        return int(a != a) - int(b != b)
    return int(a > b) - int(a < b)


_ORDER = cmp_to_key(_compare)


def argsort(a: Any, kind: str = "stable") -> ndarray:
    a = asarray(a)
    if a.ndim > 1:
        raise AttributeError("the page has a stand-in for NumPy, which sorts vectors")
    order = sorted(range(a.size), key=lambda k: _ORDER(a.data[k]))
    return ndarray(order, (a.size,), I64)


def unique(a: Any, return_inverse: bool = False) -> Any:
    a = asarray(a)
    kept: list[Any] = []
    for v in sorted(a.data, key=_ORDER):
        if not kept or _compare(kept[-1], v):
            kept.append(v)
    values = ndarray(kept, (len(kept),), a.dtype)
    if not return_inverse:
        return values
    ranks = [next(k for k, w in enumerate(kept) if not _compare(v, w)) for v in a.data]
    return values, ndarray(ranks, a.shape, I64)


def array_equal(a: Any, b: Any) -> bool:
    a, b = asarray(a), asarray(b)
    return a.shape == b.shape and a.data == b.data


def concatenate(arrays: Any, axis: int = 0) -> ndarray:
    several = [asarray(a) for a in arrays]
    if axis != 0:
        raise AttributeError("the page has a stand-in for NumPy, which joins along the first axis")
    d = result_type(*several)
    data = [v for a in several for v in d.elements(a.data)]
    return ndarray(data, (sum(a.shape[0] for a in several), *several[0].shape[1:]), d)


def tile(a: Any, times: int) -> ndarray:
    a = asarray(a).reshape(-1)
    return ndarray(a.data * int(times), (a.size * int(times),), a.dtype)


def copyto(target: ndarray, source: Any) -> None:
    target[...] = source


def flatnonzero(a: Any) -> ndarray:
    places = [k for k, v in enumerate(asarray(a).data) if v]
    return ndarray(places, (len(places),), I64)


class iinfo:
    """The least and the greatest of an integer dtype."""

    def __init__(self, of: Any) -> None:
        d = dtype(of)
        bits = 8 * d.itemsize
        self.min = 0 if d.kind == "u" else -(1 << bits - 1)
        self.max = (1 << bits) - 1 + self.min


__all__ = ["F64", "OBJECT", "empty", "generic", "ndindex"]
