"""Destinations: the caller's arrays for results, and which of them results can be computed in. There are none for lists.

In: the mapping `outputs` of `run`. Out: for every result the array to compute it in, or None: then it is computed elsewhere and copied. A
result is not computed where an argument or another result lies, unless it is the argument that the program may overwrite with this result,
nor in memory that is not dense.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.exceptions import TooHardError
from numpy.typing import NDArray

from anyshape.dtypes import LIST
from anyshape.errors import ArgumentError
from anyshape.vm.program.address import address_of
from anyshape.vm.program.table import ResultType

Array = NDArray[Any]
_ndarray = np.ndarray


class Destinations:
    """The results of an executable that can have destinations."""

    __slots__ = ("_numbers", "_results")

    def __init__(self, results: Sequence[ResultType]) -> None:
        self._results = tuple(results)
        self._numbers = {r.name: (k, r.dtype.numpy) for k, r in enumerate(results) if r.dtype is not LIST}

    def number(self, name: str) -> int:
        return self._numbers[name][0]

    def listed(self, outputs: Mapping[str, Any]) -> list[Any]:
        """Puts destinations in the order of the results. Raises KeyError for a name that no result has."""
        places: list[Any] = [None] * len(self._results)
        for name, place in outputs.items():
            places[self._numbers[name][0]] = place
        return places

    def plan(
        self, outputs: Mapping[str, Any], arguments: Sequence[Any], overwrites: Collection[tuple[int, int]] = ()
    ) -> list[Array | None]:
        """Chooses the destinations in which results can be computed. `overwrites`: pairs of a result and of the argument that it may be
        computed over. Raises ArgumentError for a name that no result has, and for a destination that is not a writable array of the
        result's dtype."""
        places: list[Array | None] = [None] * len(self._results)
        lying = [(j, address_of(a), a) for j, a in enumerate(arguments) if isinstance(a, np.ndarray)]
        taken = [(at, at + a.nbytes, j) for j, at, a in lying]
        for name, place in outputs.items():
            if name not in self._numbers:
                raise ArgumentError(f"there is no output {name}; the outputs are {', '.join(self._numbers)}")
            k, dtype = self._numbers[name]
            _demand_apart(name, place, outputs)
            if place.__class__ is not _ndarray or place.dtype is not dtype or not place.flags.carray:
                self._refuse(name, dtype, place)
                continue
            start = address_of(place)
            end = start + place.nbytes
            met = [j for s, e, j in taken if start < e and s < end]
            if not met or (len(met) == 1 and (k, met[0]) in overwrites and _is_same(place, arguments[met[0]])):
                places[k] = place
            taken.append((start, end, _RESULT))
        return places

    def _refuse(self, name: str, dtype: Any, place: Any) -> None:
        """Raises ArgumentError for a destination that no result can be copied to."""
        if not isinstance(place, np.ndarray) or place.dtype != dtype or not place.flags.writeable:
            raise ArgumentError(f"output {name} must be a writable array of dtype {dtype}, got {_described(place)}")

    def unfit(self, number: int, dims: tuple[int, ...], place: Array) -> ArgumentError:
        return unfit_destination(self._results[number], dims, place)


_RESULT = -1
"""The place of another result, which is no argument."""


def _is_same(a: Array, b: Array) -> bool:
    """Whether two arrays are the same elements of the same memory, densely."""
    return address_of(a) == address_of(b) and a.shape == b.shape and a.dtype == b.dtype and b.flags.c_contiguous


def _demand_apart(name: str, place: Any, outputs: Mapping[str, Any]) -> None:
    """Raises ArgumentError for a destination whose elements overlap one another, or those of another destination."""
    if not isinstance(place, np.ndarray):
        return
    if overlaps_itself(place):
        raise ArgumentError(f"output {name}: elements of the array overlap, by its strides {place.strides}")
    for other, theirs in outputs.items():
        if other != name and isinstance(theirs, np.ndarray) and _overlap(place, theirs):
            raise ArgumentError(f"output {name}: its array shares memory with that of output {other}")


_WORK: Any = 1 << 12
"""Most work of a test whether two arrays with strides share memory; where more would be needed, they are taken to share it."""
_FEW = 1 << 16
"""Most elements whose places are compared one by one."""


def _overlap(a: Array, b: Array) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=_WORK))
    except (TooHardError, OverflowError):
        return True


def overlaps_itself(a: Array) -> bool:
    """Tests whether two elements of an array share memory. Where dims are nested in one another, none do; for other strides, elements are
    compared one by one, and taken to overlap where there are many."""
    if a.flags.c_contiguous or a.size <= 1:
        return False
    dims = sorted((abs(s), n) for s, n in zip(a.strides, a.shape) if n > 1)
    reach, nested = a.itemsize, True
    for stride, n in dims:
        nested = nested and stride >= reach
        reach += stride * (n - 1)
    if nested:
        return False
    if a.size > _FEW:
        return True
    at = np.zeros(1, np.int64)
    for stride, n in dims:
        at = (at[:, None] + stride * np.arange(n)).reshape(-1)
    return bool((np.diff(np.sort(at)) < a.itemsize).any())


def unfit_destination(result: ResultType, dims: tuple[int, ...], place: Array) -> ArgumentError:
    demand = f"an array of shape {dims} and dtype {result.dtype.numpy}"
    return ArgumentError(f"output {result.name} must be {demand}, got {_described(place)}")


def _described(place: Any) -> str:
    if not isinstance(place, np.ndarray):
        return repr(place)
    return f"{place.shape} {place.dtype}" + ("" if place.flags.writeable else ", which is read-only")
