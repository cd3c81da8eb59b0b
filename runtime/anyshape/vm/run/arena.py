"""Memory of one call in progress: regions that grow and are kept for the next call.

In: the number of regions. Out: 64-byte aligned addresses. A region keeps no contents when it grows, and never
holds more than the largest call needed, in whole huge pages if it is large, or if its size varies: memory that a call at a new shape is
the first to touch would cost it a page fault every 4 KiB, which takes longer than most kernels take to fill it. Mapped memory keeps its
pages when it grows: only those that are new are fresh.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError
from anyshape.vm.run.available import LOOKED_AT, available_memory
from anyshape.vm.run.limits import CallLimits
from anyshape.vm.run.policies import Policy, in_use

ALIGNMENT = 64
MAPPED = 1 << 21
"""Bytes of a huge page; a region of as many bytes or more is mapped."""
SMALL = 1 << 16
"""Bytes that a region of varying size has at least, touched at once; one that needs more is mapped."""
NEAR = 1 << 19
"""Bytes of new memory that are read: a call at a shape larger than those before would be the first to have them in its caches."""
ROOMY = 1 << 12
"""Bytes: a region that typically needs more is mapped at once, since a call at a shape that is not typical may need many times as much."""


class Region:
    """A growable piece of memory. `varies`: another call may need more; `roomy`: a typical one needs more than `ROOMY`."""

    __slots__ = ("_owner", "_varies", "address", "capacity", "roomy")

    def __init__(self, varies: bool = False, roomy: bool = False) -> None:
        self.address, self.capacity = 0, 0
        self._varies, self.roomy = varies and in_use(Policy.MAPPING), roomy
        self._owner: NDArray[np.uint8] | mmap.mmap | None = None

    def grow(self, size: int) -> None:
        """Grows to at least `size` bytes; the old ones become part of them or are freed first, so that both are never held together."""
        held = self.capacity
        if size >= LOOKED_AT and size > (available := available_memory() + held):
            self.release()
            raise AnyshapeError(f"cannot allocate {size} bytes for intermediate values: {available} are available")
        try:
            if size >= MAPPED or (self._varies and (self.roomy or size > SMALL)):
                self._map(_in_huge_pages(size))
            else:
                self.release()
                size = max(size, SMALL) if self._varies else size
                block = np.empty(size + ALIGNMENT, np.uint8)
                if self._varies:
                    block.fill(0)
                self._owner = block
                self.address = (block.ctypes.data + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
                self.capacity = size
        except (MemoryError, OSError, OverflowError, ValueError):
            self.release()
            raise AnyshapeError(f"cannot allocate {size} bytes for intermediate values") from None

    def extend(self, size: int) -> None:
        """Grows to at least `size` bytes, and by half at least; the old bytes stay in front."""
        if size <= self.capacity and self.address:
            return
        size = max(size, self.capacity + self.capacity // 2)
        if isinstance(self._owner, mmap.mmap) and self._stretch(self._owner, _in_huge_pages(size)):
            return
        larger = Region()
        larger.grow(size)
        ctypes.memmove(larger.address, self.address, self.capacity)
        self.release()
        self._owner, self.address, self.capacity = larger._owner, larger.address, larger.capacity

    def _map(self, size: int) -> None:
        if isinstance(self._owner, mmap.mmap) and self._stretch(self._owner, size):
            return
        self.release()
        m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system may be built without them
                m.madvise(mmap.MADV_HUGEPAGE)
        self._owner = m
        self._hold(m, 0, size)

    def _stretch(self, m: mmap.mmap, size: int) -> bool:
        """Grows a mapping by new pages, perhaps at another address; returns whether the system can do that."""
        try:
            m.resize(size)
        except (OSError, SystemError, ValueError):
            return False
        self._hold(m, self.capacity, size)
        return True

    def _hold(self, m: mmap.mmap, old: int, size: int) -> None:
        """Takes the mapping for this region's memory and touches each huge page behind the old bytes, so that no call waits for it."""
        for at in range(old, size, MAPPED):
            m[at] = 0
        self.capacity = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(m))
        if not old:
            bring_near(self.address, min(size, NEAR))

    def release(self) -> None:
        owner, self._owner, self.address, self.capacity = self._owner, None, 0, 0
        if isinstance(owner, mmap.mmap):
            owner.close()


def bring_near(address: int, size: int) -> None:
    """Reads memory, which brings it into the caches."""
    if in_use(Policy.READING):
        np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8).max()


def _in_huge_pages(size: int) -> int:
    return (max(size, 1) + MAPPED - 1) // MAPPED * MAPPED


class CallMemory:
    """Memory that one call owns while it runs; two calls never share it at once."""

    __slots__ = ("_callees", "bounds", "cancels", "regions")

    def __init__(self, regions: int) -> None:
        self.regions = [Region() for _ in range(regions)]
        self._callees: dict[int, CallMemory] = {}
        self.cancels: Sequence[int] = (0,)
        self.bounds: CallLimits | None = None
        """Bounds of the call that the program runs in."""

    def under(self, cancels: Any) -> None:
        """Takes the counter of cancellations: a call stops once the counter is another than when the call began."""
        self.cancels = cancels

    def region(self, number: int, size: int) -> int:
        """The address of a region of at least `size` bytes."""
        region = self.regions[number]
        if size > region.capacity or not region.address:
            region.grow(size)
        return region.address

    def extend(self, number: int, size: int) -> int:
        """The address of a region that has grown to at least `size` bytes, with its old contents."""
        self.regions[number].extend(size)
        return self.regions[number].address

    def callee(self, number: int, regions: int) -> CallMemory:
        """The context of a call of a function from here."""
        if number not in self._callees:
            self._callees[number] = CallMemory(regions)
        return self._callees[number]

    def swap(self, a: int, b: int) -> None:
        self.regions[a], self.regions[b] = self.regions[b], self.regions[a]

    @property
    def bytes(self) -> int:
        return sum(r.capacity for r in self.regions) + sum(c.bytes for c in self._callees.values())


class ContextPool:
    """Contexts of one executor that wait for a call. Taking and giving back are single operations of a list, which are atomic."""

    __slots__ = ("_cancels", "_idle", "_make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._idle: list[Any] = []
        self._cancels = (ctypes.c_int64 * 1)()

    def take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            context = self._make()
            context.under(self._cancels)
            return context

    def cancel(self) -> None:
        """Makes calls that are under way stop soon."""
        self._cancels[0] += 1

    def give_back(self, context: Any) -> None:
        self._idle.append(context)

    def release(self) -> None:
        """Lets go of idle contexts with their memory; later calls make new ones."""
        self._idle.clear()

    @property
    def bytes(self) -> int:
        """Memory that idle contexts hold."""
        return sum(c.bytes for c in tuple(self._idle))
