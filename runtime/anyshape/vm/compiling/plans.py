"""Plans: from a function to something that runs, and the variants of a program.

In: a function. Out: a `Plan`. A function whose ranks are all known becomes a `ProgramPlan`: a *main* program that assumes entry
dims to be at least 1, but for those that are 0 in usual calls (`graph.retype`), and a *general* one for calls with another empty dim,
compiled when first needed. Any other is continued at run time (`continuation`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.callee import Callee, callees_of
from anyshape.graph.function import Function
from anyshape.logs import COMPILE
from anyshape.passes.factors import bytes_of_factors
from anyshape.passes.steps import Schedule
from anyshape.types import ListType, TensorType
from anyshape.vm.compiling.executors import make_executor
from anyshape.vm.compiling.generate import generate, generate_function
from anyshape.vm.compiling.kernels import KernelMaker, NativeKernels, kernel_maker, target_called
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.refusals import refuse_dynamic, refuse_functions, undetermined, unlike_or_open
from anyshape.vm.compiling.scheduling import Scheduling
from anyshape.vm.native import usable_threads
from anyshape.vm.program.blocks import array_type, pack, result_dtypes, unpack
from anyshape.vm.program.disassemble import disassemble
from anyshape.vm.program.table import Program
from anyshape.vm.report.summary import Report
from anyshape.vm.run.arena import ContextPool

if TYPE_CHECKING:
    from anyshape.lower.gemm.background_packing import BackgroundPacking
    from anyshape.lower.target import Target
    from anyshape.passes.folding import Compute

Array = NDArray[Any]
Direct = Callable[..., "list[Array] | None"]


class Plan(Protocol):
    """Something that runs, from any number of threads at once."""

    def run(self, arrays: Sequence[Array], places: Sequence[Array | None] = ()) -> list[Array]:
        """Runs the plan on arguments of `Signature.bind`. A result may be computed in its destination (`places`), or not."""
        ...

    def __hash__(self) -> int: ...

    def by(self, options: Options) -> Plan:
        """A plan of the same programs, run with other options; nothing is compiled again."""
        ...

    def cancel(self) -> None:
        """Makes calls that are under way stop soon."""
        ...

    def release(self) -> None:
        """Lets go of the memory that idle contexts keep."""
        ...

    @property
    def direct(self) -> Direct | None:
        """The direct entry, which takes arguments and destinations as the caller passes them; None where `run` has to be called."""
        ...

    @property
    def programs(self) -> tuple[Program, ...]:
        """Programs compiled so far."""
        ...

    @property
    def overwrites(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a result and of the argument in whose memory it may be computed (`Program.overwrites`)."""
        ...

    @property
    def bytes(self) -> int:
        """Memory for intermediate values that idle contexts keep."""
        ...


@dataclass(frozen=True, slots=True)
class Described:
    """What a compile makes of a function. `function`: as it is optimised; `parts`: its schedule and program, and those of the functions
    that it calls; empty where a rank is known at run time only, since the rest is compiled then."""

    function: Function
    parts: tuple[tuple[Schedule, Program], ...] = ()


@dataclass(frozen=True)
class Compiler:
    """State that all parts of one compile share."""

    options: Options
    report: Report
    lock: threading.RLock
    packing: BackgroundPacking | None = None
    """Background packing of large constants; once it is over, each plan has one of its own."""
    compute: Compute | None = None
    """Folding by kernels, for calls on constants that would take the interpreter long."""
    _: KW_ONLY
    target: Target | None = None
    """The processor of programs that are exported, whose kernels stay text; None for the one that the options name."""

    def plan(self, f: Function, low: int = 1) -> Plan:
        """Compiles a function. Entry symbols are assumed to be at least `low`; a function that is right for empty dims alone assumes
        nothing."""
        refuse_functions(f)
        with self.lock, self._packing() as packing:
            expect(packing, bytes_of_factors(f), self.options)
            optimised, assumed = self._scheduling.typed(f, low)
            if not self.report.nodes:
                self.report.count_variants(f, optimised)
            if self.options.executor == "graph":
                refuse_dynamic(optimised)
            if undetermined(optimised):
                from anyshape.vm.compiling.continuation import Continued

                if assumed:
                    optimised = self._scheduling.optimised(f)
                return Continued(self, optimised)
            self.options.show("graph", f.name, optimised)
            program = self._program(optimised, assumed)
            general = (lambda: self.plan(f, 0)) if assumed else None
            types = ([p.type for p in optimised.params], [v.type for v in optimised.results])
            return ProgramPlan(program, general, self.options, types=types, lock=self.lock, ready=packing.wait)

    def program(self, f: Function, low: int = 1) -> tuple[Program, bool]:
        """Compiles a function whose ranks are known; its program, and whether that assumes anything, so that calls with an empty dim may
        need the one for `low=0`. Raises UnsupportedError where a rank is known at run time only."""
        refuse_functions(f)
        with self.lock, self._packing():
            optimised, assumed = self._scheduling.typed(f, low)
            if self.options.executor == "graph":
                refuse_dynamic(optimised)
            if undetermined(optimised):
                ranks = unlike_or_open(optimised.nodes) or ", ".join(
                    f"input {p.name}" for p in optimised.params if p.type.shape is None
                )
                raise UnsupportedError(f"{f.name}: the rank of a value is known at run time only, by {ranks}")
            return self._program(optimised, assumed), bool(assumed)

    def described(self, f: Function) -> Described:
        """Schedules a function and generates its programs, for people: nothing of a compile is changed."""
        with self.lock, self._packing():
            optimised, assumed = self._scheduling.typed(f, 1)
            if undetermined(optimised):
                return Described(optimised)
            return Described(optimised, tuple(self._generated(optimised, assumed, noted=True)))

    @property
    def _scheduling(self) -> Scheduling:
        return Scheduling(self.options, self.report, self.compute, target=self.target)

    @contextmanager
    def _packing(self) -> Iterator[BackgroundPacking]:
        if self.packing is not None and not self.packing.is_over:
            yield self.packing
            return
        with packed_beside(self.report) as own:
            yield own

    def _program(self, f: Function, assumed: frozenset[Any]) -> Program:
        """Generates the program of a function; its constants have their elements once the packing is over."""
        (_, program), *called = self._generated(f, assumed)
        if called:
            program = replace(program, functions=tuple(p for _, p in called))
        if "program" in self.options.dump:
            self.options.show("program", f.name, "\n".join(map(disassemble, (program, *program.functions))))
        return program

    def _generated(self, f: Function, assumed: frozenset[Any], noted: bool = False) -> list[tuple[Schedule, Program]]:
        """The schedule and the program of an optimised function, and those of the functions that it calls; `noted`: with notes on each
        kernel, which a recorder and an export have in any case."""
        report, options = self.report, self.options
        if options.verify:
            from anyshape.graph.verify import verify

            verify(f)
        functions = callees_of([f])
        maker = (
            kernel_maker(options, report) if self.target is None else NativeKernels(report, self.target, loads=False)
        )
        schedule = self._scheduling.schedule(f)
        noted = noted or options.recorder is not None or self.target is not None
        with report.phase("generate"):
            program = generate(schedule, maker, assumed, functions, noted)
        generated = [(schedule, program), *(self._function(c, functions, maker, noted) for c in functions)]
        report.compiled(maker.count)
        return generated

    def _function(
        self, callee: Callee, functions: Mapping[Callee, int], maker: KernelMaker, noted: bool
    ) -> tuple[Schedule, Program]:
        """Generates the program of a function that is called; it assumes nothing of its dims, since a call has no other variant."""
        f = callee.defined()
        if undetermined(f):
            from anyshape.passes.unlike_ranks import in_called

            f = self._scheduling.optimised(in_called(f))
        if undetermined(f):
            raise UnsupportedError(
                f"{callee.name}: {unlike_or_open(f.nodes)} depends on values known only at run time; make them constant, such as the axes "
                "of a squeeze"
            )
        schedule = self._scheduling.schedule(f)
        with self.report.phase("generate"):
            return schedule, generate_function(schedule, maker, functions, callee.name, noted)


@contextmanager
def packed_beside(report: Report) -> Iterator[BackgroundPacking]:
    """Packs large constants for the kernels made inside: by threads until `wait` returns, or at once where no processor is left."""
    from anyshape.lower.gemm import collected

    with collected(usable_threads()) as later:
        yield later
        with report.phase("pack"):
            later.close()


def expect(packing: BackgroundPacking, size: int, options: Options) -> None:
    """Prepares the packing for so many bytes of constants."""
    from anyshape.lower.gemm import toucher

    if options.kernels != "interpret":
        packing.expect(size, lambda: toucher(target_called(options.target)))


class ProgramPlan:
    """Plan of one program, and of another plan for the calls that it declines."""

    def __init__(
        self,
        program: Program,
        general: Callable[[], Plan] | None,
        options: Options,
        *,
        types: tuple[Sequence[TensorType], Sequence[TensorType]],
        lock: threading.RLock,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`types` of arguments and of results. `ready` returns once the program's constants have their elements."""
        self._program, self._ready = program, ready
        self._make_general, self._general, self._lock = general, None, lock
        self._types = types
        executor = make_executor(program, options, [array_type(t) for t in types[0]])

        def context() -> Any:  # no call is without one, and the first call makes the first
            ready()
            return executor.context()

        self._pool = ContextPool(context)
        self._run = executor.run
        self._lists = any(isinstance(t, ListType) for side in types for t in side)
        self.direct: Direct | None = None if self._lists else executor.direct(self._pool)

    _general: Plan | None

    def run(self, arrays: Sequence[Any], places: Sequence[Array | None] = ()) -> list[Any]:
        return self._with_lists(arrays, places) if self._lists else self._run_arrays(arrays, places)

    def _with_lists(self, arrays: Sequence[Any], places: Sequence[Array | None]) -> list[Any]:
        """Runs a program of which arguments or results are lists, which are arrays of words to it."""
        packed = [pack(a, t) for a, t in zip(arrays, self._types[0], strict=True)]
        spread = [p for p, t in zip(places, self._types[1]) for p in (p, None)[: len(result_dtypes(t))]]
        results = self._run_once(packed, spread)
        if results is None:
            return self.general().run(arrays, places)
        arrays_left = iter(results)
        return [unpack(arrays_left, t) for t in self._types[1]]

    def _run_arrays(self, arrays: Sequence[Array], places: Sequence[Array | None]) -> list[Array]:
        results = self._run_once(arrays, places)
        if results is not None:
            return results
        return self.general().run(arrays, () if self.overwrites else places)  # it may read what would be overwritten

    def _run_once(self, arrays: Sequence[Array], places: Sequence[Array | None]) -> list[Array] | None:
        """Runs the program once; None where a guard declines."""
        pool = self._pool
        context = pool.take()
        try:
            return self._run(arrays, context, places)
        except AnyshapeError:
            raise  # ArgumentError is a ValueError
        except (MemoryError, ValueError) as e:
            raise AnyshapeError(f"{self._program.name}: a result cannot be allocated: {e}") from e
        finally:
            pool.give_back(context)

    def general(self) -> Plan:
        """The plan without the assumption, compiled once."""
        if self._general is None:
            with self._lock:
                if self._general is None:
                    if self._make_general is None:
                        raise AnyshapeError(
                            f"{self._program.name}: a guard declined a call, and there is no other variant"
                        )
                    COMPILE.info("%s: a call outside of its assumptions runs the general program", self._program.name)
                    self._general = self._make_general()
        return self._general

    def cancel(self) -> None:
        self._pool.cancel()
        if self._general is not None:
            self._general.cancel()

    def release(self) -> None:
        self._pool.release()
        if self._general is not None:
            self._general.release()

    def by(self, options: Options) -> ProgramPlan:
        general = (lambda: self.general().by(options)) if self.is_guarded else None
        return ProgramPlan(self._program, general, options, types=self._types, lock=self._lock, ready=self._ready)

    @property
    def program(self) -> Program:
        """The program, with its constants laid out."""
        self._ready()
        return self._program

    @property
    def compiled_general(self) -> Plan | None:
        """The plan for any shape, if a call has needed it."""
        return self._general

    @property
    def is_guarded(self) -> bool:
        """Tells whether there is another plan, or could be."""
        return self._make_general is not None

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self.program, *(self._general.programs if self._general is not None else ()))

    @property
    def overwrites(self) -> tuple[tuple[int, int], ...]:
        return self._program.overwrites

    @property
    def bytes(self) -> int:
        return self._pool.bytes + (self._general.bytes if self._general is not None else 0)
