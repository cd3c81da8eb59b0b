"""Memory of a session's calls: the limit of the environment's allocator, and when arenas are released.

In: options of a session and of a run. Out: `SessionMemory.call`, the executable that a call has to run, admitted to the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anyshape.onnxruntime.allocators import EnvironmentAllocator, registered
from anyshape.onnxruntime.arenas import Arenas
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, error
from anyshape.onnxruntime.options import SHRINKAGE, USE_ENV_ALLOCATORS, RunOptions, SessionOptions
from anyshape.vm import Executable

if TYPE_CHECKING:
    from anyshape.onnxruntime.limited_calls import LimitedCalls


class SessionMemory:
    """How the calls of one session are admitted. `arenas`: those of its executables; `is_unlimited`: calls without options need not come
    here."""

    def __init__(self, settings: SessionOptions) -> None:
        allocator = registered() if settings._entries.get(USE_ENV_ALLOCATORS) == "1" else None
        self._keeps = settings.enable_cpu_mem_arena if allocator is None else allocator.is_arena
        self._limited = _limited_calls(allocator) if allocator is not None and allocator.limit else None
        self.arenas = Arenas()
        self.is_unlimited = self._limited is None and self._keeps

    @contextmanager
    def call(
        self,
        executable: Executable,
        arguments: Mapping[str, Any],
        places: Mapping[str, Any],
        options: RunOptions | None,
    ) -> Iterator[Executable]:
        """Admits one call, and yields what is to run it. Raises Fail where the call exceeds the limit, and InvalidArgument for a list of
        arenas to shrink that names another one than the CPU's."""
        keeps = self._keeps
        if options is not None and options._shrinks:
            keeps = False
            self._check_shrunk(options._entries[SHRINKAGE])
        call = None
        if self._limited is not None:
            executable, call = self._limited.prepared(executable, arguments, places)
            self.arenas.add(executable)
        if options is not None:
            executable = options._heed(executable, self.arenas)
        try:
            if call is None:
                yield executable
            else:
                with call.admitted(executable):
                    yield executable
        finally:
            if not keeps:
                self.arenas.release()

    def _check_shrunk(self, listed: str) -> None:
        """Raises InvalidArgument for a list of other arenas than that of the CPU, or where the session has none."""
        for item in listed.removesuffix(";").split(";"):
            name, _, rest = item.partition(":")
            number = rest.partition(":")[0] or "0"
            if name not in ("cpu", "gpu", ""):
                raise error(InvalidArgument, f"Unsupported device specified in the memory arena shrink list: {name}")
            if not number.removeprefix("-").isdecimal():
                raise error(InvalidArgument, f"Unsupported device id in the memory arena shrink list: {number}")
            if name != "cpu" or int(number) != 0 or not self._keeps:
                raise error(
                    InvalidArgument,
                    f"Did not find an arena based allocator registered for device-id combination in the memory arena shrink list: {item}",
                )


def _limited_calls(allocator: EnvironmentAllocator) -> LimitedCalls:
    """Limited calls, whose formulas are those of the export, which other sessions need not load."""
    from anyshape.onnxruntime.limited_calls import LimitedCalls

    return LimitedCalls(allocator)
