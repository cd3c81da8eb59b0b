"""What emission of one function of a kernel works on, and which share of the work the function does.

In: an open function. Out: a `KernelContext`, whose members have one job each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from anyshape.dims import Dim, Size
from anyshape.equations import Tensor
from anyshape.lower.emit.values.failure_report import ReportedElements
from anyshape.lower.emit.values.levels import Levels
from anyshape.lower.emit.values.memory import Memory
from anyshape.lower.emit.values.sizes import SizeTable
from anyshape.lower.emit.values.value import Values
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.polling import Polls
from anyshape.lower.llvm.types import I64, Val, const

Range = tuple[Val, Val]


class Parts:
    """The share of the work: the code is run as number `part` of `nparts`."""

    def __init__(self, f: FunctionBuilder) -> None:
        self._f = f
        self.part, self.nparts = f.args[3], f.args[4]
        self.shares = False
        """Whether the code, run in one part, shares steps over the pool."""

    @contextmanager
    def undivided(self) -> Iterator[None]:
        """Code that is not shared out: every part that reaches it does all of it."""
        outer = self.part, self.nparts
        self.part, self.nparts = const(I64, 0), const(I64, 1)
        yield
        self.part, self.nparts = outer

    def is_first(self) -> Val:
        return self._f.compare("eq", self.part, 0)

    def share(self, extent: Val, block: int = 1) -> Range:
        """The share of a loop that this part runs, in whole blocks."""
        f = self._f
        if self.nparts.number == 1:
            return const(I64, 0), extent
        blocks = f.ceil_div(extent, block)
        first = f.binary("udiv", f.mul(blocks, self.part), self.nparts)
        last = f.binary("udiv", f.mul(blocks, f.add(self.part, 1)), self.nparts)
        return f.mul(first, block), f.smin(f.mul(last, block), extent)

    def share_either(self, outer: Val, inner: Val, block: int = 1) -> tuple[Range, Range]:
        """The share of two loops, one inside of the other, that this part runs: some of the outer one's iterations, or, where it has fewer
        than there are parts, as a batch of one image has, some of the inner one's, in whole blocks."""
        f, zero = self._f, const(I64, 0)
        of_outer = self.share(outer)
        if self.nparts.number == 1:
            return of_outer, (zero, inner)
        few = f.compare("lt", outer, self.nparts)
        of_inner = self.share(inner, block)
        return (
            (f.select(few, zero, of_outer[0]), f.select(few, outer, of_outer[1])),
            (f.select(few, of_inner[0], zero), f.select(few, of_inner[1], inner)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelContext:
    """What the emission of a function uses. `lanes` is how many elements a vector has."""

    f: FunctionBuilder
    levels: Levels
    sizes: SizeTable
    memory: Memory
    values: Values
    parts: Parts
    lanes: int

    @classmethod
    def of_kernel(
        cls,
        f: FunctionBuilder,
        operands: Mapping[Tensor, int],
        *,
        lanes: int,
        reported: ReportedElements,
        polls: Polls | None,
        most_literal: int | None,
        magnitudes: Mapping[Tensor, float],
    ) -> KernelContext:
        levels = Levels(f, polls)
        sizes = SizeTable(levels, most_literal=most_literal)
        memory = Memory(levels, sizes, operands)
        values = Values(levels, sizes, memory, reported, magnitudes)
        return cls(f=f, levels=levels, sizes=sizes, memory=memory, values=values, parts=Parts(f), lanes=lanes)

    def of_step(self, f: FunctionBuilder, shared: Val, start: int, bounds: Mapping[Dim, Size]) -> KernelContext:
        """The context of a function that computes a part of a step of the kernel. Scratch of the kernel is at `shared`; that of the part
        itself is free from byte `start` on. `bounds`: the most that symbols are in it."""
        levels = Levels(f)
        sizes = SizeTable(levels, self.sizes.table, self.sizes.most_literal)
        memory = self.memory.of_step(levels, sizes, shared, start, bounds)
        values = Values(levels, sizes, memory, self.values.reported, self.values.magnitudes)
        return replace(self, f=f, levels=levels, sizes=sizes, memory=memory, values=values, parts=Parts(f))

    def of_callee(self, f: FunctionBuilder) -> KernelContext:
        """The context of a function with the kernel's parameters, which the kernel calls: it has the same table of sizes."""
        levels = Levels(f)
        sizes = SizeTable(levels, self.sizes.table, self.sizes.most_literal)
        memory = self.memory.of_callee(levels, sizes)
        values = Values(levels, sizes, memory, self.values.reported, self.values.magnitudes)
        parts = Parts(f)
        return replace(self, f=f, levels=levels, sizes=sizes, memory=memory, values=values, parts=parts)
