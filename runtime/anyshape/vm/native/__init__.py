"""The native run time: the table of a program walked by machine code that was compiled once for all programs.

In: programs whose kernels are machine code. Out: executors, the threads that kernels are shared with, and memory for results. Other rooms
import the names of this file and nothing behind it (`tests/test_native_interface.py`); docs/native-runtime.md says what each part behind it
is for.

    new_executor(program, types, threads) -> NativeExecutor a program ready for calls
    expect_results(types)                                   memory for results of these types is touched before a call needs it
    wait_for_memory()                                       until no memory is being touched any more
    loop_objects() -> {key: object code}                    the machine code of this room, for saved models
    scalar_code() -> {instruction: handler}                 code of scalar instructions, for functions that are no loop
    usable_threads(), MOST_THREADS                          threads that kernels can be shared with
    pin_workers(processors)                                 the processors that these threads run on
    import_parts()                                          the modules of the room, which each function would import when it is called
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from anyshape.errors import UnsupportedError
from anyshape.vm.native.pool_layout import MOST_THREADS

if TYPE_CHECKING:
    from anyshape.types import TensorType
    from anyshape.vm.native.executor import NativeExecutor
    from anyshape.vm.native.scalars import Handler
    from anyshape.vm.program.table import Instruction, Program


def demand_platform(platform: str) -> None:
    """Raises UnsupportedError for a platform (`sys.platform`) without the calls of POSIX that the run time makes."""
    if platform == "win32":
        raise UnsupportedError(
            "anyshape runs on Linux and macOS; on Windows run it in WSL, which is Linux (docs/platforms.md)"
        )


demand_platform(sys.platform)


def new_executor(program: Program, types: Sequence[TensorType] | None = None, threads: int = 1) -> NativeExecutor:
    """Verifies the program and loads the loop. Raises VerifyError for a program whose table refers to what is not there.

    `types` of the arguments make the direct entry possible; `threads` is how many may work on one kernel."""
    from anyshape.vm.native.executor import NativeExecutor

    return NativeExecutor(program, types, threads)


def expect_results(types: Sequence[TensorType]) -> None:
    """Has a thread touch as much memory as results of these types typically need, if they are large."""
    from anyshape.vm.native.executor import expect_results

    expect_results(types)


def wait_for_memory() -> None:
    """Returns once no memory is being touched any more."""
    from anyshape.vm.native.ahead import wait

    wait()


def loop_objects() -> dict[str, bytes]:
    """Object code of the loop and of the direct entry, by the keys of the object cache."""
    from anyshape.vm.native.executor import loop_objects

    return loop_objects()


def scalar_code() -> Mapping[Instruction, Handler]:
    """The functions that emit scalar arithmetic, comparisons and choice, by instruction; they write to any frame of registers."""
    from anyshape.vm.native import scalars
    from anyshape.vm.program.table import Op, handlers

    return handlers([op for op in Op if Op.ADD <= op <= Op.SELECT], vars(scalars))


def usable_threads() -> int:
    """Threads that can run at once, and that a pool can have."""
    from anyshape.vm.native.pool import usable_threads

    return usable_threads()


def pin_workers(processors: Collection[int]) -> None:
    """Has the threads that kernels are shared with run on these processors alone; on all if there are none. Raises OSError where the system
    does not do that."""
    from anyshape.vm.native.executor import pin_workers

    pin_workers(processors)


def import_parts() -> None:
    """Imports the modules that an executor needs, so that the time of the first one is work and not imports."""
    import anyshape.vm.native.executor  # noqa: F401, to load it


__all__ = [
    "MOST_THREADS",
    "expect_results",
    "import_parts",
    "loop_objects",
    "new_executor",
    "pin_workers",
    "scalar_code",
    "usable_threads",
    "wait_for_memory",
]
