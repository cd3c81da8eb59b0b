"""Execution of programs by the native loop, and what only Python can do while the loop stands still.

In: a program with machine-code kernels. Out: `NativeExecutor.run`, equal to `interpreter.run` in results and in every message. The loop
returns where a region must grow or a result must be made, and goes on after that; a call that needs neither is one run of the loop.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from numpy.typing import NDArray

from anyshape.code_version import code_version
from anyshape.errors import AnyshapeError, Cancelled, DeadlineExceeded, OverflowedError, UnsupportedError, VerifyError
from anyshape.logs import CALLS
from anyshape.lower.llvm import polling
from anyshape.types import TensorType
from anyshape.vm.native.ahead import Ahead, typical_bytes
from anyshape.vm.native.allocator import new_allocator, results_near, store_of
from anyshape.vm.native.allocator_code import ALLOCATED, TOUCH, TOUCHED
from anyshape.vm.native.context import CalledByKernels, NativeContext, tables_of
from anyshape.vm.native.growth import entry_imports, grow, instruction, known
from anyshape.vm.native.heap import heap_imports
from anyshape.vm.native.layout import End, Stop, Word
from anyshape.vm.native.objects import Methods, functions
from anyshape.vm.native.pool import Pool, keep_in_order
from anyshape.vm.native.stop_code import PYTHON
from anyshape.vm.native.ticker import Ticker
from anyshape.vm.native.verify import verify_program
from anyshape.vm.program.table import Op, Program
from anyshape.vm.run.arena import ContextPool
from anyshape.vm.run.destinations import unfit_destination
from anyshape.vm.run.heap import no_memory_text
from anyshape.vm.run.interpreter import failed_check, failed_kernel, overflow_text, too_deep_text, unfit_text
from anyshape.vm.run.limits import cancelled_text, late_text, thread_limits
from anyshape.vm.run.policies import Policy, in_use, policies_left_out
from anyshape.vm.run.results import new_result

if TYPE_CHECKING:
    from anyshape.lower.llvm.builder import Module
    from anyshape.lower.llvm.jit import Loaded
    from anyshape.lower.target import Target

Array = NDArray[Any]
RunLoop = Callable[[int], int]
Single = TypeVar("Single")
_FIRST = threading.RLock()


def once(make: Callable[[], Single]) -> Callable[[], Single]:
    """A function that makes what the process has one of, in whichever thread is first. Of two loops that two threads make at once, the one
    that is not kept would be unloaded, and threads of the pool may live in it."""
    single: list[Single] = []

    @wraps(make)
    def first() -> Single:
        if not single:
            with _FIRST:
                if not single:
                    single.append(make())
        return single[0]

    return first


def _object(make: Callable[[Target], Module], symbol: str) -> tuple[str, bytes]:
    """Compiles a module of this room; its key in caches, and its object code. The text is made only where no cache has this version."""
    from anyshape.lower.llvm.jit import object_by_key, object_key
    from anyshape.lower.target import host_target

    target = host_target()
    without = "".join(f" without {policy}" for policy in sorted(policies_left_out()))
    key = object_key(f"{symbol} by {code_version('anyshape.vm')} {code_version('anyshape.lower')}{without}", target)
    return key, object_by_key(key, lambda: make(target).text(), target)


def _load(make: Callable[[Target], Module], symbols: Sequence[str], imports: Mapping[str, int]) -> Loaded:
    from anyshape.lower.llvm.jit import load_object

    return load_object(_object(make, symbols[0])[1], list(symbols), imports)


def loop_objects() -> dict[str, bytes]:
    """Object code of this room by its keys: a saved model takes it along, so that loading compiles nothing."""
    from anyshape.vm.native.entry import entry_module
    from anyshape.vm.native.loop import loop_module

    entry = [_object(entry_module, "anyshape_call")] if functions() is not None else []
    return dict([_object(loop_module, "anyshape_run"), *entry])


@once
def _loop() -> tuple[RunLoop, Loaded]:
    """Loads the loop of this machine, from the object cache after the first time; its entry, and the object that keeps it loaded."""
    from anyshape.vm.native.loop import loop_module

    symbols = (
        "anyshape_run", "anyshape_forget", "anyshape_work", "anyshape_dismiss", "anyshape_look", "anyshape_share", "anyshape_tick",
        "anyshape_wake"
    )  # fmt: skip
    python = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in PYTHON}
    loaded = _load(loop_module, symbols, {**heap_imports(), **python, polling.SYMBOL: polling.ADDRESS})
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loaded.address("anyshape_run")), loaded


@once
def _pool() -> Pool:
    """The threads that kernels are shared with, which live in the code of the loop."""
    _, loaded = _loop()
    life = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    pool = Pool(life(loaded.address("anyshape_work")), end(loaded.address("anyshape_dismiss")))
    keep_in_order(pool)
    return pool


def pin_workers(processors: Collection[int]) -> None:
    """Has the pool's workers run on these processors alone; on all if there are none."""
    _pool().pin(processors)


@once
def _ticker() -> Ticker:
    """The clock that makes calls look whether they are to stop."""
    _, loaded = _loop()
    life, wake = (ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address(f"anyshape_{n}")) for n in ("tick", "wake"))
    return Ticker(life, wake)


@once
def _forget() -> Callable[[int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_loop()[1].address("anyshape_forget"))


@once
def _entry() -> Loaded | None:
    """Loads the direct entry; None where Python's objects are not laid out as it expects."""
    from anyshape.vm.native.entry import entry_module

    imports = functions()
    if imports is None:
        return None
    loop = {name: _loop()[1].address(name) for name in ("anyshape_run", "anyshape_wake")}
    ours = {**loop, **entry_imports()}
    return _load(entry_module, ("anyshape_call", TOUCH, TOUCHED, *ALLOCATED), {**imports, **ours})


@once
def _methods() -> Methods | None:
    """The direct entry of this machine, if there is one, and what allocates memory to its results."""
    loaded = _entry()
    if loaded is None or not in_use(Policy.ENTRY):
        CALLS.info("there is no direct entry in this process: Python binds the arguments of each call")
        return None
    return Methods(loaded.address("anyshape_call"), new_allocator(loaded.address), (loaded, _loop()))


@once
def _ahead() -> Ahead | None:
    """Makes the object that touches memory for results of the direct entry."""
    loaded, methods = _entry(), _methods()
    if loaded is None or methods is None:
        return None
    return Ahead(store_of(methods.allocator), loaded.address(TOUCH), loaded.address(TOUCHED))


def expect_results(types: Sequence[TensorType]) -> None:
    """Has memory for results of these types touched, which are needed soon."""
    if in_use(Policy.AHEAD) and (size := typical_bytes(types)) and (ahead := _ahead()) is not None:
        ahead.expect(size)


class NativeExecutor:
    """Executor of one program. `context()` makes the memory of a call; `run` is safe from any number of threads, each with a context.

    `types` of the arguments make the direct entry possible. `threads`: how many may work on one kernel."""

    def __init__(self, program: Program, types: Sequence[TensorType] | None = None, threads: int = 1) -> None:
        verify_program(program, len(program.functions))
        self.program = program
        for function in program.functions:
            verify_program(function, len(program.functions))
        self._tables = tables_of(program, types)
        self._run_loop, self._loaded = _loop()
        self._ticker = _ticker()
        shares = any(op is Op.SHARE for p in (program, *program.functions) for _, op, _ in p.instructions())
        self._pool = _pool() if shares and threads > 1 else None
        self._threads = threads
        self._methods = _methods() if types is not None else None

    def direct(self, pool: ContextPool) -> Callable[..., list[Array] | None] | None:
        """Makes the direct entry with contexts from the pool; None if this process has no such entry."""
        if self._methods is None:
            return None
        take, give_back = pool.take, pool.give_back

        def call(arguments: Sequence[Any], places: Sequence[Any] = ()) -> list[Array] | None:
            context = take()
            if places:
                context.give(places)
            results: list[Array] | None = context.call(*arguments)
            if places:
                context.take_back(len(places))
            try:
                if results is None:
                    self._left(context)
            finally:
                give_back(context)
            return results

        return call

    def _left(self, context: NativeContext) -> None:
        """Raises the error of a call that was stopped in the direct entry; reports any other that Python is to go on with."""
        end = int(context.words[Word.ENDED])
        if end == End.STOPPED:
            self._stop(context)
        if CALLS.isEnabledFor(logging.DEBUG):
            CALLS.debug("%s: the direct entry leaves a call to Python (%s)", self.program.name, End(end).name)

    def context(self) -> NativeContext:
        called = CalledByKernels(self._loaded.address("anyshape_look"), self._loaded.address("anyshape_share"))
        context = known(NativeContext(self._tables, self._methods, called))
        if self._methods is not None:
            results_near(self._methods.allocator)
        if self._pool is not None:
            context.words[Word.POOL], context.words[Word.THREADS] = self._pool.address, self._threads
        return context

    def run(
        self, arguments: Sequence[Array], context: NativeContext, places: Sequence[Array | None] = ()
    ) -> list[Array] | None:
        """Runs the program; the results, or None where a guard declined. Raises what `interpreter.run` raises. Results are computed in the
        `places` that fit."""
        until, cancellation = thread_limits()
        context.begin(until)
        try:
            if places:
                context.give(places)
            if cancellation is None:
                return self._run(arguments, context, places)
            with cancellation.stopping(context.stop):
                return self._run(arguments, context, places)
        finally:
            context.end()
            if places:
                context.take_back(len(places))

    def _run(
        self, arguments: Sequence[Array], context: NativeContext, places: Sequence[Array | None]
    ) -> list[Array] | None:
        if context.call is not None:
            results: list[Array] | None = context.call(*arguments)
            if results is not None:
                return results
            self._forget(context)
            end = int(context.words[Word.ENDED])
            if end == End.DECLINED:
                return None
            if end not in (End.REGION, End.OUTPUT, End.ARGUMENTS, End.CALL):
                context.look_anew()
                if end == End.STOPPED:
                    self._stop(context)
                raise self.error(end, context.innermost)
        try:
            return self._resume(arguments, context, places)
        finally:
            self._forget(context)

    def _stop(self, context: NativeContext) -> NoReturn:
        """Raises the error of a call that was stopped."""
        why = int(context.words[Word.STOP])
        self._forget(context)
        if why == Stop.RAISED:
            context.raised()
        if why == Stop.DEADLINE:
            raise DeadlineExceeded(late_text(self.program.name))
        raise Cancelled(cancelled_text(self.program.name))

    @staticmethod
    def _forget(context: NativeContext) -> None:
        """Frees the lists of a call that ended early."""
        if context.held:
            _forget()(context.state)

    def _resume(
        self, arguments: Sequence[Array], context: NativeContext, places: Sequence[Array | None]
    ) -> list[Array] | None:
        """Runs a call with arguments bound by Python, and does between runs of the loop what it returned for. For calls without the direct
        entry, and for those that it gave up."""
        context.bind(arguments)
        self._ticker.ensure()
        if self._pool is not None:
            self._pool.ensure(self._threads)
            context.words[Word.THREADS] = min(self._threads, self._pool.workers + 1)
        results: list[Array | None] = [None] * len(self.program.results)
        while True:
            end = self._run_loop(context.state)
            if end == End.DONE:
                return [a for a in results if a is not None]
            if end == End.DECLINED:
                return None
            inner = context.innermost
            if end == End.REGION:
                grow(inner)
            elif end == End.CALL:
                inner.add_callee(inner.register(instruction(inner)[1]["function"]))
            elif end == End.OUTPUT:
                self._make_result(context, results, places)
            elif end == End.STOPPED:
                self._stop(context)
            else:
                raise self.error(end, inner)

    def _make_result(self, context: NativeContext, results: list[Array | None], places: Sequence[Array | None]) -> None:
        o = instruction(context)[1]
        number, dims = o["result"], tuple(map(context.register, o["dims"]))
        array = places[number] if places else None
        if array is None:
            array = new_result(dims, self.program.results[number].dtype.numpy, self.program.results[number].name)
        elif array.shape != dims:
            raise unfit_destination(self.program.results[number], dims, array)
        results[number] = array
        context.put_result(number, array)

    def error(self, end: int, context: NativeContext) -> AnyshapeError:
        """Makes the error that the interpreter raises at this instruction with these registers."""
        program, (_, o) = context.tables.program, instruction(context)
        if end == End.DEPTH:
            return UnsupportedError(too_deep_text(self.program.functions[context.register(o["function"])]))
        if end == End.OVERFLOW:
            return OverflowedError(overflow_text(program, o))
        if end == End.CHECK:
            return failed_check(program, o["check"], [*map(context.register, program.checks[o["check"]].registers)])
        if end == End.STORE:
            return OverflowedError(unfit_text(context.register(o["value"]), o["of"]))
        if end == End.KERNEL:
            scalars, status = [*map(context.register, o["scalars"])], int(context.words[Word.KERNEL_STATUS])
            return failed_kernel(program, o["kernel"], status, scalars, context.failure())
        if end == End.MEMORY:
            return AnyshapeError(no_memory_text(context.register(o["size"]) if "size" in o else 0))
        return VerifyError(f"{program.name}: the native loop ended with {end} at word {context.at}")
