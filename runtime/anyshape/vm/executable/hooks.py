"""Hooks of an executable: functions that are called after each of its calls, with what the call was.

In: functions of a `CallRecord`. Out: a `CallPath` that times calls. An executable without hooks runs the path itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from anyshape.logs import CALLS
from anyshape.vm.executable.call_path import Array, CallPath, CallSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What a call was. `model`: the name of the function; `dims`: sizes of the inputs' symbols, none where arguments did not fit;
    `seconds`: without the conversion of arguments that need one; `arena_bytes`: memory for intermediate values that the executable holds
    after the call, for this and later calls; `error`: what the call raised, if it did."""

    model: str
    dims: Mapping[str, int]
    seconds: float
    arena_bytes: int
    error: BaseException | None = None


class CallHook:
    """A hook in place. As a context manager it is removed at the end."""

    def __init__(self, hooks: CallHooks, function: Callable[[CallRecord], object]) -> None:
        self._hooks, self.function = hooks, function

    def remove(self) -> None:
        """Takes the hook away; calls that are under way may still report to it. Nothing happens the second time."""
        self._hooks.remove(self)

    def __enter__(self) -> CallHook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class CallHooks:
    """The hooks of one executable. `changed` is called when the first one comes and when the last one leaves."""

    def __init__(self, model: str, sizes: CallSizes, memory: Callable[[], int], changed: Callable[[], None]) -> None:
        self._model, self._sizes, self._memory, self._changed = model, sizes, memory, changed
        self._hooks: tuple[CallHook, ...] = ()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, function: Callable[[CallRecord], object]) -> CallHook:
        hook = CallHook(self, function)
        with self._lock:
            self._hooks = (*self._hooks, hook)
            self._changed()
        return hook

    def remove(self, hook: CallHook) -> None:
        with self._lock:
            self._hooks = tuple(h for h in self._hooks if h is not hook)
            self._changed()

    def around(self, path: CallPath) -> CallPath:
        """The path with each call timed and reported."""

        def direct(arguments: Sequence[Any], places: Sequence[Any] = ()) -> list[Array] | None:
            assert path.direct is not None
            start = time.perf_counter()
            try:
                results = path.direct(arguments, places)
            except BaseException as e:
                self._report(start, arguments, e)
                raise
            if results is not None:
                self._report(start, arguments)
            return results

        def bind(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Array]:
            start = time.perf_counter()
            try:
                return path.bind(arguments, named)
            except BaseException as e:
                self._report(start, (), e)
                raise

        def run(arguments: Sequence[Array], places: Sequence[Any] = ()) -> list[Array]:
            start = time.perf_counter()
            try:
                results = path.run(arguments, places)
            except BaseException as e:
                self._report(start, arguments, e)
                raise
            self._report(start, arguments)
            return results

        return CallPath(direct if path.direct is not None else None, bind, run)

    def _report(self, start: float, arguments: Sequence[Any], error: BaseException | None = None) -> None:
        """Calls all hooks. What one raises is logged, and the call goes on."""
        seconds, key = time.perf_counter() - start, self._sizes.key(arguments)
        dims = {} if key is None else self._sizes.named(key)
        record = CallRecord(model=self._model, dims=dims, seconds=seconds, arena_bytes=self._memory(), error=error)
        for hook in self._hooks:
            try:
                hook.function(record)
            except Exception:
                CALLS.exception("%s: a hook raised an error", self._model)
