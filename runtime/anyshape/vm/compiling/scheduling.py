"""The pipeline from a function to the schedule of its kernels: optimised, with algorithms, fused, narrowed.

In: a function. Out: a `Schedule`. Which passes there are, says `anyshape.passes`; which of them run, and what they are told of the
processor, the options.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from anyshape.dims import Dim
from anyshape.dtypes import F32
from anyshape.errors import ShapeError
from anyshape.graph.callee import callees_of
from anyshape.graph.function import Function
from anyshape.graph.retype import retype
from anyshape.graph.value import Node
from anyshape.passes.steps import Schedule
from anyshape.precision import Narrow
from anyshape.vm.compiling.executors import expect_results
from anyshape.vm.compiling.kernels import target_called
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.refusals import undetermined
from anyshape.vm.compiling.unfused import one_step_per_node
from anyshape.vm.report.narrowed_nodes import NodeNames, sums_of
from anyshape.vm.report.schedule_text import spell_schedule
from anyshape.vm.report.summary import Report

if TYPE_CHECKING:
    from anyshape.lower.target import Target
    from anyshape.passes.folding import Compute


@dataclass(frozen=True)
class Scheduling:
    """The passes of one compile. `compute`, `target`: those of the `Compiler`."""

    options: Options
    report: Report
    compute: Compute | None
    _: KW_ONLY
    target: Target | None

    def typed(self, f: Function, low: int) -> tuple[Function, frozenset[Dim]]:
        """Optimises a function for entry symbols of at least `low`; the symbols of which that is assumed. A function that is right for
        empty dims alone assumes nothing."""
        try:
            with self.report.phase("optimise"):
                typed, assumed = retype(f, low)
                if self.target is None:
                    expect_results([v.type for v in typed.results], self.options)  # beside what follows
                return self.optimised(typed), assumed
        except ShapeError:
            if low == 0:
                raise
            return self.typed(f, 0)

    def optimised(self, f: Function) -> Function:
        """Optimises a function, with branches for what called functions decide anew in each call."""
        from anyshape.passes import optimise
        from anyshape.passes.branch_specialisation import in_branches

        optimised = self._with_algorithms(optimise(f, self.compute))
        if any(undetermined(c.defined()) for c in callees_of([optimised])):
            optimised = optimise(in_branches(optimised), self.compute)
        return optimised

    def _with_algorithms(self, f: Function) -> Function:
        """An optimised function with algorithms in place of ops that have some."""
        if self.options.kernels != "native" or not any(n.op.algorithms for n in f.nodes):
            return f
        from anyshape.lower.llvm.target_probe import multiply_adds
        from anyshape.lower.multiply_adds import products_of_lane
        from anyshape.passes import optimise
        from anyshape.passes.algorithms import Vectors, by_size

        target = self._processor()
        products = products_of_lane(self.options.narrow, target)
        if not products:
            return f
        lanes, each_cycle = target.lanes(F32.itemsize), multiply_adds(target) * products
        vectors = Vectors(lanes, each_cycle, target.l2_bytes, target.last_cache_holds)
        return by_size(f, lambda g, chosen: optimise(g, self.compute, chosen), vectors, self.options.growth)

    def schedule(self, f: Function) -> Schedule:
        """The kernels of an optimised function."""
        options = self.options
        with self.report.phase("fuse"):
            schedule = fused(f) if options.fuse else one_step_per_node(f)
            if options.narrow is not None:
                schedule = self._narrowed(schedule, options.narrow)
            if options.fuse and options.kernels == "native" and self._processor().reads_narrow_constants:
                schedule = with_narrow(schedule)
        if "schedule" in options.dump:
            options.show("schedule", f.name, spell_schedule(schedule))
        self.report.steps += len(schedule.steps)
        return schedule

    def _narrowed(self, schedule: Schedule, precision: Narrow) -> Schedule:
        """The schedule of which contractions multiply rounded factors; the report names the nodes of the first program that have one."""
        from anyshape.passes.narrowing import narrowed

        names = NodeNames()
        kept: list[str] = []

        def is_kept(node: Node) -> bool:
            if names.of(node) not in self.options.exact_nodes:
                return False
            kept.append(names.of(node))
            return True

        schedule, nodes = narrowed(schedule, precision, is_kept)
        if not self.report.programs:
            self.report.sums = sums_of(precision, self._processor() if self.options.kernels == "native" else None)
            self.report.narrowed += map(names.of, nodes)
            self.report.kept_exact += kept
        return schedule

    def _processor(self) -> Target:
        return self.target or target_called(self.options.target)


def fused(f: Function) -> Schedule:
    from anyshape.passes.fuse import fuse

    return fuse(f)


def with_narrow(schedule: Schedule) -> Schedule:
    from anyshape.passes.narrow_factors import with_narrow_factors

    return with_narrow_factors(schedule)
