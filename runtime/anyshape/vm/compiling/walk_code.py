"""Code of a call that goes through a list: sizes first, then the call's own kernel for each element.

In: the code generator at a step of such a call. Out: two loops in the table. The first reads the dims of each element, checks them and
adds sizes up; then the results have sizes and memory. The second runs the kernel on each element in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape.dims import Dim
from anyshape.graph.sequences import Walk
from anyshape.graph.value import Value
from anyshape.passes.steps import TableStep
from anyshape.vm.compiling.codegen import Codegen
from anyshape.vm.compiling.emission import byte_count
from anyshape.vm.compiling.lifetimes import Storage
from anyshape.vm.compiling.list_code import I64, counted
from anyshape.vm.program.blocks import DIMS, head_bytes
from anyshape.vm.program.table import Op


def emit_walk(g: Codegen, at: int, step: TableStep) -> None:
    """Emits the code of the step."""
    _Walking(g, at, step).emit()


class _Walking:
    def __init__(self, g: Codegen, at: int, step: TableStep) -> None:
        assert step.kernel is not None and step.node.sequence is not None
        self.g, self.code, self.at, self.step, self.kernel = g, g.code, at, step, step.kernel
        self.walk: Walk = step.node.bound.walk
        self.handle = g.address(step.node.sequence)
        self.count = self.code.new(Op.LENGTH, self.handle)

    def emit(self) -> None:
        g, code = self.g, self.code
        code.define(self.walk.elements.count, self.count)
        g.flush()  # a list without elements has no first one
        first = code.new(Op.ELEMENT, self.handle, code.register(0))
        self.define(first, self.walk.first)
        self.sizes()
        g.flush()
        outputs = g.liveness.outputs[self.at]
        if not outputs:
            return
        for v in outputs:
            g.check_sizes(v)
            g.allocate(v)
        if self.at in g.memory.scratch:
            g.arena.address(g.memory.scratch[self.at])
        element = g.storages[self.walk.value] = Storage(self.walk.value, self.at, self.at, elsewhere=True)
        start = code.register(head_bytes(len(self.walk.elements.any)))
        copies = [c for v, result in self.step.carried.items() if result in outputs and (c := self.before(v, result))]
        with self.each() as block:
            element.address = code.new(Op.VIEW, block, start)
            for copy in copies:
                code.emit(Op.COPY, *copy)
            g.invoke(self.at, self.kernel)

    def before(self, v: Value, result: Value) -> tuple[int, int, int] | None:
        """Sets the address at which the kernel reads a result as it was before the element: the result itself, or a copy. Returns the
        operands of the instruction that makes the copy."""
        g, code = self.g, self.code
        offset = g.liveness.apart[self.at].get(v)
        mine = g.storages[v] = Storage(v, self.at, self.at, address=g.address(result), elsewhere=True)
        if offset is None:
            return None
        mine.address = code.new(Op.VIEW, g.arena.address(g.memory.scratch[self.at]), code.register(offset))
        return mine.address, g.address(result), code.register(byte_count(v.type))

    def sizes(self) -> None:
        """Emits the checks of every element, and the sums of sizes over all of them."""
        code, sums, room = self.code, self.walk.elements.sums, self.g.liveness.rooms.get(self.at)
        if not (self.walk.checks or sums or room):
            return
        totals = [self.code.zeroed() for _ in sums]
        most = self.code.zeroed() if room else 0
        with self.each():
            for c in self.walk.checks:
                self.g.check(c.cond, (*c.parts, *self.g.explanation(c.cond)), c.op, c.where)
            for register, e in zip(totals, sums, strict=True):
                code.emit(Op.ADD, register, register, code.register(e.item))
            if room:
                code.emit(Op.MAX, most, most, code.register(room[1]))
        for register, e in zip(totals, sums, strict=True):
            assert isinstance(e.total, Dim)
            code.define(e.total, register)
        if room:
            code.define(room[0], most)

    @contextmanager
    def each(self) -> Iterator[int]:
        """Emits a loop over the elements, in which the symbols of one are defined; yields the register of its block."""
        code, sums = self.code, self.walk.elements.sums
        before = [self.code.zeroed() for _ in sums]
        with counted(code, self.count) as iteration:
            block = code.new(Op.ELEMENT, self.handle, iteration)
            code.define(self.walk.elements.index, iteration)
            self.define(block, self.walk.each)
            for register, e in zip(before, sums, strict=True):
                assert isinstance(e.before, Dim)
                code.define(e.before, register)
            yield block
            for register, e in zip(before, sums, strict=True):
                code.emit(Op.ADD, register, register, code.register(e.item))

    def define(self, block: int, places: tuple[tuple[Dim, int], ...]) -> None:
        for s, axis in places:
            self.code.define(s, self.code.new(Op.LOAD, block, DIMS + axis, I64))
