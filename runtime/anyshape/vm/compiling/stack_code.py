"""Code of stacks, in which a loop collects values.

Iterations append to a region that grows by half; where the number of iterations and the size of what each collects are known before the
first, the region is made for all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dims import Dim, fresh
from anyshape.graph.value import Node, Value
from anyshape.rules.checks import located
from anyshape.types import TensorType
from anyshape.vm.compiling.emission import Emission, byte_count
from anyshape.vm.compiling.liveness import first_sizes
from anyshape.vm.program.table import CheckRecord, Op

MOST_ITERATIONS = 1 << 47
"""Number of iterations that can each collect a value: a process has no more addresses."""


class Stack:
    """Stack of one result: its region, the bytes in it so far, and the registers of dims that must be the same in every iteration."""

    def __init__(self, g: Emission, node: Node, k: int, region: int) -> None:
        self.g, self.code, self.node, self.type, self.region = g, g.code, node, node.outputs[k].type, region
        own = {axis - 1: s for s, (result, axis) in node.bound.unbacked.items() if result == k and axis > 0}
        self.filled, self.dims = self.code.zeroed(), {axis: self.code.zeroed() for axis in own}
        firsts = first_sizes(node)
        self.firsts = {self.dims[axis]: firsts[s] for axis, s in own.items() if s in firsts}
        """sizes of collected axes where there is no iteration, by the registers of their dims"""
        self.called = f"collected value {k - (node.op.control.captures_from(node) if node.op.control else 0)}"
        self.what = named(g, node, self.called)

    def of_one_iteration(self) -> TensorType | None:
        """The type of what one iteration collects, if it is known before the first."""
        firsts = first_sizes(self.node)
        sizes = tuple(firsts.get(n, n) if isinstance(n, Dim) else n for n in (self.type.shape or ())[1:])
        return TensorType(self.type.dtype, sizes) if all(map(self.code.is_defined, sizes)) else None

    def append(self, v: Value, address: int, iteration: int) -> None:
        code = self.code
        for axis, expected in self.dims.items():
            self._same_size(v, axis, expected, iteration)
        size = code.register(byte_count(v.type))
        total = code.new(Op.ADD, self.filled, size)
        to = code.new(Op.VIEW, code.new(Op.STACK, self.region, total, self.what), self.filled)
        code.emit(Op.COPY, to, address, size)
        code.move(self.filled, total)

    def _same_size(self, v: Value, axis: int, expected: int, iteration: int) -> None:
        """Emits the check that a stacked value has the shape of the first one."""
        code = self.code
        got = code.register((v.type.shape or ())[axis])
        first = code.new(Op.EQ, iteration, code.register(0))
        fits = code.new(Op.OR, first, code.new(Op.EQ, got, expected))
        now, before, number = fresh("now"), fresh("before"), fresh("iteration")
        parts = (
            f"dim {axis} of what iteration ", number, " collects is ", now, ", and was ", before,
            f" before (shape[{axis}] == ", before, f" does not hold: shape[{axis}] = ", now, ")",
        )  # fmt: skip
        symbols, registers, equation = (
            (number, now, before),
            (iteration, got, expected),
            "all iterations collect values of one shape",
        )
        self.g.checks.append(CheckRecord(parts, symbols, registers, equation, op="loop", source=self.node.source))
        code.emit(Op.CHECK, fits, len(self.g.checks) - 1)
        code.move(expected, got)


def reserve(stacks: Sequence[Stack], trip: int) -> None:
    """Emits memory for all iterations at once, if the type of what they collect is known: what does not fit is refused before the first.
    `trip`: the register of their number, which nothing else decides."""
    known = [(s, t) for s in stacks if (t := s.of_one_iteration()) is not None]
    if not known:
        return
    g, node, code = stacks[0].g, stacks[0].node, stacks[0].code
    few = code.new(Op.LE, trip, code.register(MOST_ITERATIONS))
    iterations, equation = fresh("iterations"), f"iterations <= {MOST_ITERATIONS}"
    parts = (
        f"more than {MOST_ITERATIONS} iterations are not stacked ({equation} does not hold: iterations = ",
        iterations,
        ")",
    )
    g.checks.append(CheckRecord(parts, (iterations,), (trip,), equation, op="loop", source=node.source))
    code.emit(Op.CHECK, few, len(g.checks) - 1)
    none = code.unless(code.new(Op.LT, code.register(0), trip))
    with code.scope():
        for s, t in known:
            total = code.new(Op.MUL, trip, code.register(byte_count(t)))
            code.new(Op.STACK, s.region, total, s.what)
    code.land(none)


def sizes_of_no_iterations(stacks: Sequence[Stack], iteration: int) -> None:
    """Emits the dims of stacks for the case that there was no iteration."""
    firsts = [pair for s in stacks for pair in s.firsts.items()]
    if not firsts:
        return
    code = stacks[0].code
    some = code.unless(code.new(Op.EQ, iteration, code.register(0)))
    with code.scope():
        for to, n in firsts:
            code.move(to, code.register(n))
    code.land(some)


def named(g: Emission, node: Node, what: str) -> int:
    """Adds a check record that names what grows and is never checked; its number."""
    g.checks.append(CheckRecord((located("loop", node.source, what),), (), (), what))
    return len(g.checks) - 1
