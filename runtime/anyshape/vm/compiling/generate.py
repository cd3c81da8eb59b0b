"""Generation of programs from schedules: of a whole function, and of one that is called.

In: a schedule and the maker of kernels. Out: a `Program`. Results of a called function lie in its own regions, which its next call uses
again, so the caller copies them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from anyshape.dims import Dim
from anyshape.graph.callee import Callee
from anyshape.graph.value import Value
from anyshape.passes.steps import Schedule
from anyshape.vm.compiling.call_code import words_of
from anyshape.vm.compiling.codegen import Codegen
from anyshape.vm.compiling.emission import aligned, byte_count
from anyshape.vm.compiling.entry_code import emit_entry
from anyshape.vm.compiling.kernels import KernelMaker
from anyshape.vm.compiling.list_code import is_list
from anyshape.vm.compiling.region_code import STEP_CODE
from anyshape.vm.program.invocation import Invocation
from anyshape.vm.program.table import Op, Program


def generate(
    schedule: Schedule,
    kernels: KernelMaker,
    assumed: Collection[Dim] = (),
    functions: Mapping[Callee, int] | None = None,
    noted: bool = False,
) -> Program:
    """Generates a program. `functions`: numbers of the functions that it may call. `noted`: with notes on each kernel, for profiles.

    Raises UnsupportedError where nothing defines a symbol, and what lowering raises."""
    notes: dict[int, Invocation] | None = {} if noted else None
    return Codegen(schedule, kernels, assumed, functions=functions or {}, notes=notes, step_code=STEP_CODE).run()


def generate_function(
    schedule: Schedule, kernels: KernelMaker, functions: Mapping[Callee, int], name: str, noted: bool = False
) -> Program:
    """Generates the program of a function that is called. Raises what `generate` raises."""
    notes: dict[int, Invocation] | None = {} if noted else None
    code = FunctionCode(schedule, kernels, (), functions=functions, notes=notes, step_code=STEP_CODE)
    return replace(code.run(), name=name)


@dataclass(eq=False)
class FunctionCode(Codegen):
    """Code of a function that is called."""

    def run(self) -> Program:
        self.begin()
        emit_entry(self, self.list_argument)
        self.body(None, len(self.f.results))
        self.results()
        self.code.emit(Op.RETURN)
        types = [v.type for v in self.f.results]
        passes = tuple(-1 if is_list(p) else p.type.rank or 0 for p in self.f.params)
        return replace(self.program(()), passes=passes, returns=sum(map(words_of, types)))

    def spoken_of(self, p: Value) -> str:
        return f"{self.f.name}: argument {p.name}"

    def list_argument(self, k: int, p: Value) -> int:
        """The register of a list's handle, which comes with a hold on it."""
        return self.code.pure(Op.ARGUMENT, k)

    def output(self, k: int, v: Value) -> int:
        self.check_sizes(v)
        return self.code.new(Op.EXTEND, k, self.code.register(aligned(byte_count(v.type))))

    def make_results(self) -> None:
        """Emits nothing: results of a function lie in regions, which need no lock."""

    def results(self) -> None:
        starts = accumulate((words_of(v.type) for v in self.f.results), initial=0)
        for k, (v, start) in enumerate(zip(self.f.results, starts)):
            self.code.emit(
                Op.GIVE, start, (self.result_address(k, v), *(self.code.register(n) for n in v.type.shape or ()))
            )
        self.holds.after(len(self.schedule.steps))
        self.refuse_pending()

    def result_address(self, k: int, v: Value) -> int:
        """The register of a result's address in a region of this function, or of a list's handle."""
        if is_list(v):
            return self.holds.take(v, len(self.schedule.steps))
        storage = self.storages.get(self.liveness.origin(v))
        if storage is not None and storage.result == k:
            return self.address(v)
        to = self.output(k, v)
        self.code.emit(Op.COPY, to, self.address(v), self.code.register(byte_count(v.type)))
        return to
