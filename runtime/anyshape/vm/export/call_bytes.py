"""Bytes that a call of a compiled model needs beside its inputs: its arena and each of its results, as formulas of the caller's dims.

In: a function and its plan. Out: `CallBytes`, or None for a model of which elements decide how much memory a call needs. The formulas are
those of exported models, of the programs that run here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from anyshape.dims import Size, maximum
from anyshape.errors import UnsupportedError
from anyshape.graph.function import Function
from anyshape.vm.compiling.plans import Plan, ProgramPlan
from anyshape.vm.export.budget import bytes_at, fitting, largest_sizes
from anyshape.vm.export.entry_knowledge import EntryKnowledge, analyse
from anyshape.vm.export.formula import arena_size
from anyshape.vm.export.interface import Interface, interface
from anyshape.vm.export.register_values import entry_values, number_of
from anyshape.vm.export.run_code import untranslated
from anyshape.vm.native import usable_threads
from anyshape.vm.program.table import Op, Program


@dataclass(frozen=True)
class _ProgramBytes:
    """Formulas of one program."""

    arena: Size
    results: tuple[Size, ...]

    def total(self, placed: Collection[int]) -> Size:
        return reduce(lambda a, b: a + b, [n for k, n in enumerate(self.results) if k not in placed], self.arena)


class CallBytes:
    """Formulas of a plan. Where a dim of a call is 0 and another program may run it, the larger number of both counts."""

    def __init__(self, f: Function, plan: ProgramPlan, m: Interface, threads: int) -> None:
        """`places` has the argument and the axis of each of the caller's dims."""
        self.interface = m
        self._plan, self._threads = plan, threads
        self.places = {d.c_name: place for d in m.dims if (place := f.place_of(d.symbol)) is not None}
        self._main = self._bytes_of(plan.program)
        self._general: _ProgramBytes | None = None

    def _bytes_of(self, program: Program) -> _ProgramBytes:
        """Raises UnsupportedError where elements decide, or where a formula would be too deep."""
        known = analyse(program)
        if untranslated(program) or known.varying() or len(self.places) < len(self.interface.dims):
            raise UnsupportedError(f"{program.name}: elements decide how much memory a call needs")
        values = entry_values(known, self.interface, self._threads)
        return _ProgramBytes(arena_size(known, values), _result_sizes(known, values))

    def sizes(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The caller's dims in a call, by name."""
        return {name: arrays[k].shape[axis] for name, (k, axis) in self.places.items()}

    def needed(self, sizes: Mapping[str, int], placed: Collection[int] = ()) -> int | None:
        """The bytes of a call; results numbered in `placed` have memory of the caller. None where elements decide, once a dim is 0."""
        needed = bytes_at(self._main.total(placed), sizes)
        if self._plan.is_guarded and not all(sizes.values()):
            if self._general is None:
                general = self._plan.general()
                try:
                    self._general = self._bytes_of(general.program) if isinstance(general, ProgramPlan) else None
                except UnsupportedError:
                    return None
            if self._general is None:
                return None
            needed = max(needed, bytes_at(self._general.total(placed), sizes))
        return needed

    @property
    def formula(self) -> Size:
        """The bytes of a call whose dims are at least 1."""
        return self._main.total(())

    def admissible(self, sizes: Mapping[str, int], limit: int) -> list[str]:
        """Says which sizes fit a limit with the other sizes of a call that does not."""
        largest = largest_sizes(self.formula, self.interface, limit, sizes)
        near = {name: n for name, n in largest.items() if n is not None and n < sizes[name]}
        return [f"{name} may be at most {n} with the other sizes of this call" for name, n in near.items()] or (
            self.fitting(limit)
        )

    def fitting(self, limit: int) -> list[str]:
        """Says which sizes fit a limit."""
        return fitting(largest_sizes(self.formula, self.interface, limit))


def call_bytes(f: Function, plan: Plan, threads: int) -> CallBytes | None:
    """Finds the formulas of a plan whose kernels as many threads share as `Options.threads` says; None where elements decide, or ranks
    that only a call tells."""
    if not isinstance(plan, ProgramPlan):
        return None
    usable = usable_threads()
    try:
        return CallBytes(f, plan, interface(f, "model"), min(threads or usable, usable))
    except UnsupportedError:
        return None


def _result_sizes(known: EntryKnowledge, values: Mapping[int, Any]) -> tuple[Size, ...]:
    """The bytes of each result, the largest that any instruction makes for it. Raises UnsupportedError where elements decide one."""
    sizes: list[Size] = [0] * len(known.program.results)
    for step in known.steps:
        if step.op is Op.OUTPUT:
            if not known.is_known(step):
                raise UnsupportedError(f"{known.program.name}: elements decide the size of a result")
            result, dims = step["result"], [number_of(values[k]) for k in step.registers()]
            itemsize: Size = known.program.results[result].dtype.numpy.itemsize
            sizes[result] = maximum(sizes[result], reduce(lambda a, b: a * b, dims, itemsize))
    return tuple(sizes)
