"""Calls of a session that an allocator of the environment limits.

In: a call. Out: the executable that runs it, and `LimitedCall.admitted` around that. Where dims decide how much memory a call needs, that
is computed before it runs; where elements do, Python runs the program, and counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from anyshape.errors import AnyshapeError
from anyshape.onnxruntime.allocators import EnvironmentAllocator
from anyshape.onnxruntime.arguments import misfits
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import Fail, error
from anyshape.vm import Executable
from anyshape.vm.export.call_bytes import CallBytes, call_bytes
from anyshape.vm.run.memory_budget import MemoryBudget, within


class LimitedCalls:
    """The executables of one session, with their formulas."""

    def __init__(self, allocator: EnvironmentAllocator) -> None:
        self._allocator = allocator
        self._bytes: WeakKeyDictionary[Executable, CallBytes | None] = WeakKeyDictionary()
        self._counted: WeakKeyDictionary[Executable, Executable] = WeakKeyDictionary()

    def prepared(
        self, executable: Executable, arguments: Mapping[str, Any], places: Mapping[str, Any]
    ) -> tuple[Executable, LimitedCall]:
        """What runs a call, and the call with the bytes that it needs. Raises what the executable does for arguments that do not fit."""
        if executable not in self._bytes:
            self._bytes[executable] = call_bytes(executable.function, executable.plan, executable.options.threads)
        formulas = self._bytes[executable]
        if misfits(arguments, dict(zip(executable.input_names, executable.input_types))):
            return executable, LimitedCall(self._allocator)  # the run says what does not fit
        if formulas is not None:
            sizes = formulas.sizes(executable.signature.bind((), arguments))
            placed = [k for k, name in enumerate(executable.output_names) if name in places]
            needed = formulas.needed(sizes, placed)
            if needed is not None:
                return executable, LimitedCall(self._allocator, formulas, sizes, needed)
        if executable not in self._counted:
            self._counted[executable] = executable.by(loop="python", threads=executable.options.threads)
        return self._counted[executable], LimitedCall(self._allocator)


class LimitedCall:
    """The bytes that one call takes of an allocator: `needed` by formulas, or what its budget counts."""

    def __init__(
        self,
        allocator: EnvironmentAllocator,
        formulas: CallBytes | None = None,
        sizes: Mapping[str, int] | None = None,
        needed: int = 0,
    ) -> None:
        self._allocator, self._formulas, self._sizes, self._needed = allocator, formulas, sizes or {}, needed
        self._taken, self._refusal = 0, ""

    @contextmanager
    def admitted(self, executable: Executable) -> Iterator[None]:
        """Takes the bytes while the call runs. Raises Fail where there are too few."""
        try:
            if self._formulas is not None:
                self._take(self._needed, executable)
                yield
            else:
                with within(MemoryBudget(lambda size: self._take(size, executable))):
                    yield
        except AnyshapeError as e:
            if self._refusal:
                raise error(Fail, self._refusal) from e
            raise
        finally:
            self._allocator.reserve(-self._taken, executable)

    def _take(self, size: int, executable: Executable) -> None:
        used = self._allocator.reserve(size, executable)
        if used is not None:
            self._refusal = self._refused(size, used - self._taken)
            raise AnyshapeError(self._refusal)
        self._taken += size

    def _refused(self, size: int, by_others: int) -> str:
        """Says how many bytes are needed, what the limit is, and which sizes fit it."""
        limit = self._allocator.limit
        at = ", ".join(f"{name} = {n}" for name, n in self._sizes.items())
        needs = f"{self._taken + size} bytes for intermediate values and results"
        needs = f"needs {needs}" if self._formulas is not None else f"needs at least {needs}"
        said = [
            f"a call{' with ' if at else ''}{at} {needs}, and the limit of the environment's allocator is {limit} (max_mem)"
        ]
        said += [f"other calls use {by_others} of these"] if by_others else []
        said += self._formulas.fitting(limit) if self._formulas is not None else []
        return "; ".join(said)
