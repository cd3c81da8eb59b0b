"""Arenas of several executables: how many bytes they keep for later calls, and their release."""

from __future__ import annotations

import threading
from weakref import WeakSet

from anyshape.vm import Executable


class Arenas:
    """Executables whose arenas are counted and released together, from any thread; they are not kept alive."""

    def __init__(self) -> None:
        self._executables: WeakSet[Executable] = WeakSet()
        self._lock = threading.Lock()

    def add(self, executable: Executable) -> None:
        with self._lock:
            self._executables.add(executable)

    def release(self) -> None:
        """Releases what is kept; calls that are under way go on."""
        for e in self._all():
            e.release()

    def bytes_beside(self, executable: Executable) -> int:
        """The bytes that all but one executable keep."""
        return sum(e.memory for e in self._all() if e is not executable)

    def _all(self) -> list[Executable]:
        with self._lock:
            return list(self._executables)
