"""Heap of lists and their elements in the interpreter: counted objects by handle. The native loop has its own (`native/heap.py`).

In: instructions on lists. Out: handles: a block's is its address, a list's a number. A program releases all objects that it made; one that
does not is wrong, and the interpreter says so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError, VerifyError
from anyshape.vm.program.address import address_of
from anyshape.vm.run import available
from anyshape.vm.run.memory_budget import MemoryBudget

Object = list[int] | NDArray[np.int64]


class Heap:
    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._budget = budget
        self._objects: dict[int, Object] = {}
        self._holders: dict[int, int] = {}
        self._last = 0
        self._unasked = 0

    def new_list(self) -> int:
        self._last -= 1
        return self._add(self._last, [])

    def block(self, size: int) -> int:
        if self._budget is not None:
            self._budget.take((size + 7) // 8 * 8)
        self._unasked -= size
        if self._unasked < 0:
            self._unasked = available.spendable(size) - size
            if self._unasked < 0:
                raise AnyshapeError(no_memory_text(size))
        try:
            memory = np.empty((size + 7) // 8, np.int64)
        except (MemoryError, ValueError):
            raise AnyshapeError(no_memory_text(size)) from None
        return self._add(address_of(memory), memory)

    def _add(self, handle: int, added: Object) -> int:
        self._objects[handle], self._holders[handle] = added, 1
        return handle

    def elements(self, handle: int) -> list[int]:
        elements = self._objects[handle]
        assert isinstance(elements, list)
        return elements

    def retain(self, handle: int) -> None:
        self._holders[handle] += 1

    def release(self, handle: int) -> None:
        self._holders[handle] -= 1
        if self._holders[handle] == 0:
            del self._holders[handle]
            gone = self._objects.pop(handle)
            if self._budget is not None and not isinstance(gone, list):
                self._budget.give_back(gone.nbytes)
            for element in gone if isinstance(gone, list) else ():
                self.release(element)

    def own(self, handle: int) -> int:
        if self._holders[handle] == 1:
            return handle
        copy = self.new_list()
        self.elements(copy).extend(self.elements(handle))
        for element in self.elements(handle):
            self.retain(element)
        self._holders[handle] -= 1
        return copy

    def finish(self, name: str) -> None:
        """Ends a program. Raises VerifyError if an object is still held."""
        if self._objects:
            raise VerifyError(f"{name}: {len(self._objects)} objects of lists are still held at the end of the program")


def no_memory_text(size: int) -> str:
    return f"cannot allocate {size} bytes for an element of a list"
