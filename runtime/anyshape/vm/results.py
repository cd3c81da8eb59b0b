"""Memory of large results: given back when the last array over it is gone, and lent again.

In: shape and dtype. Out: an array without contents. Fresh memory costs a page fault every 4 KiB, which takes longer than most kernels
take to fill it; a step of a decoder, whose results are the cache of the next one, would spend most of its time there. Whoever keeps a
result keeps its memory: nothing is shared by two arrays that are alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError
from anyshape.vm.address import address_of
from anyshape.vm.arena import ALIGNMENT

LARGE = 1 << 20
"""Results of at least so many bytes are lent here; smaller ones by the direct entry (`native/lending.py`), as far as there is room, since
this takes longer than the allocator of the process, which has memory for them that is not fresh."""
HEAP = 1 << 23
"""A block of so many bytes is taken and given back once: glibc's allocator, which maps blocks from 128 KiB on and gives the end of its heap
to the system from 128 KiB on, takes the size of a mapped block that is freed for its new bound, and twice that for the end of the heap
(mallopt(3)). Else results below `LARGE` that are freed together, as a decoder's cache is, would be faulted in again at every call."""
KEPT = 1 << 28
"""At most so many bytes wait to be lent again; what comes back beyond that is given to the system."""


np.empty(HEAP, np.uint8)


class _Block:
    """Memory with the aligned address at which it is lent, and how much there is from there on."""

    __slots__ = ("memory", "size", "start")

    def __init__(self, size: int) -> None:
        self.memory: NDArray[np.uint8] = np.empty(size + ALIGNMENT, np.uint8)
        start = address_of(self.memory)
        self.size, self.start = size, start + -start % ALIGNMENT


_idle: list[_Block] = []
"""Appended to, and removed from, by single operations of a list: memory comes back at any time, on any thread."""


class _Loan:
    """What an array over lent memory has for its base."""

    __slots__ = ("__array_interface__", "block")

    def __init__(self, block: _Block, shape: tuple[int, ...], letters: str) -> None:
        self.block = block
        self.__array_interface__ = {"data": (block.start, False), "shape": shape, "typestr": letters, "version": 3}

    def __del__(self, idle: list[_Block] = _idle, kept: int = KEPT) -> None:
        if sum([b.size for b in tuple(idle)]) + self.block.size <= kept:
            idle.append(self.block)


def new_result(shape: Sequence[int], dtype: np.dtype[Any], name: str = "") -> NDArray[Any]:
    """An array of any contents, for the result of this name. Raises AnyshapeError where there is no memory, or no such array."""
    try:
        return _new(shape, dtype)
    except (MemoryError, ValueError) as e:
        raise AnyshapeError(
            f"the result {name}, of shape {list(shape)} and dtype {dtype}, cannot be made: {e}"
        ) from None


def _new(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    size = prod(shape) * dtype.itemsize
    if size < LARGE or min(shape) < 0:
        return np.empty(shape, dtype)
    block = _block(size)
    if dtype.isbuiltin == 1:
        return np.asarray(_Loan(block, tuple(shape), dtype.str))
    flat: NDArray[Any] = np.asarray(_Loan(block, (size,), "|u1"))
    return flat.view(dtype).reshape(shape)


def _block(size: int) -> _Block:
    """One that waits, at most twice as large, or a new one."""
    for k, block in enumerate(tuple(_idle)):
        if size <= block.size <= 2 * size:
            found = _taken(k, block)
            if found is not None:
                return found
    return _Block(size)


def _taken(k: int, block: _Block) -> _Block | None:
    """The block at this place, unless another thread was faster."""
    try:
        found = _idle.pop(k)
    except IndexError:
        return None
    if found is not block:
        _idle.append(found)
        return None
    return found


def _from_native(dtype: int, rank: int, dims: int) -> int:
    try:
        shape = tuple((ctypes.c_int64 * rank).from_address(dims))
        made = _new(shape, ctypes.cast(dtype, ctypes.py_object).value)
    except (MemoryError, ValueError):
        return 0
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return id(made)


NATIVE: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(_from_native)
"""For the direct entry: (dtype, rank, dims) to a new reference, or null where there is no memory."""


__all__ = ["KEPT", "LARGE", "NATIVE", "new_result"]
