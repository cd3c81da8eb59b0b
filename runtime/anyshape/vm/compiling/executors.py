"""Executors of a program: the native loop, or the interpreter.

In: a program and the options. Out: an `Executor`. Both take the same table to the same results and the same messages; which one is
used is a matter of speed and of debugging. Kernels that are Python themselves are never called from native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from anyshape.types import TensorType
from anyshape.vm import native
from anyshape.vm.compiling.options import Options
from anyshape.vm.program.table import Program
from anyshape.vm.run import interpreter
from anyshape.vm.run.arena import CallMemory, ContextPool
from anyshape.vm.run.limits import CallLimits

Array = NDArray[Any]


class CallContext(Protocol):
    """Memory that one call owns while it runs."""

    @property
    def bytes(self) -> int:
        """Memory for intermediate values."""
        ...

    def under(self, cancels: Any) -> None:
        """Takes the counter of cancellations: a call stops once the counter is another than when the call began."""
        ...


class Executor(Protocol):
    """A program made ready. Immutable; every call brings its own context."""

    def context(self) -> CallContext: ...

    def run(self, arguments: Sequence[Array], context: Any, places: Sequence[Array | None]) -> list[Array] | None:
        """The results, or None where a guard declined. One that has a place may be computed in it, or not."""
        ...

    def direct(self, pool: ContextPool) -> Callable[..., list[Array] | None] | None:
        """The direct entry, if there is one: (arguments, places), both as the caller gave them, to results that are in the places; None
        where only `run` can tell."""
        ...


class PythonExecutor:
    """The interpreter, within the bounds of a call."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def run(
        self, arguments: Sequence[Array], context: CallMemory, places: Sequence[Array | None]
    ) -> list[Array] | None:
        context.bounds = bounds = CallLimits(self._program.name, context.cancels)
        try:
            results = interpreter.run(self._program, arguments, context)
            bounds.look()
        finally:
            context.bounds = None
        return results

    def direct(self, pool: ContextPool) -> None:
        return None

    def context(self) -> CallMemory:
        return CallMemory(self._program.regions)


def make_executor(program: Program, options: Options, types: Sequence[TensorType]) -> Executor:
    """Makes the executor of a program. `types` are those of its arguments."""
    if options.recorder is not None:
        from anyshape.vm.run.recorder import RecordedExecutor

        return RecordedExecutor(program, options.recorder)
    if not _is_native(options):
        return PythonExecutor(program)
    usable = native.usable_threads()  # more would only wait for each other on the same processors
    return native.new_executor(program, types, min(options.threads or usable, usable))


def expect_results(types: Sequence[TensorType], options: Options) -> None:
    """Has memory for results of these types touched while their program is being compiled, so that it is there for the first call."""
    if _is_native(options):
        native.expect_results(types)


def _is_native(options: Options) -> bool:
    return options.recorder is None and not (options.loop == "python" or options.kernels == "interpret")
