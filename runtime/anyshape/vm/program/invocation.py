"""Cost of an instruction that runs a kernel, for profiles: operations and bytes as formulas of a call's sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyshape.dims import Dim, Size, evaluate, free_symbols, minimum
from anyshape.equations.builder import Equation
from anyshape.equations.operations import elements_read, operations
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import KernelStep
from anyshape.types import TensorType

if TYPE_CHECKING:
    from anyshape.lower.multiply_adds import MultiplyAdd


@dataclass(frozen=True, eq=False, slots=True)
class MemoryInUse:
    """Values and scratch that have memory at a step, by their bytes. `registers` of the symbols in these; `around`: those of the
    surroundings of a body."""

    sizes: tuple[Size, ...]
    registers: Mapping[Dim, int]
    around: MemoryInUse | None = None

    def bytes(self, registers: Sequence[int | None]) -> int:
        """The bytes in use, for the contents of all registers."""
        numbers = {s: registers[k] or 0 for s, k in self.registers.items()}
        own = sum(evaluate(n, numbers) for n in self.sizes if free_symbols(n) <= numbers.keys())
        return own + (self.around.bytes(registers) if self.around is not None else 0)


@dataclass(frozen=True, eq=False, slots=True)
class Invocation:
    """Work of an instruction that runs a kernel. `moved`: bytes of its results, and of its operands what is read, each once."""

    step: KernelStep
    outputs: tuple[Value, ...]
    registers: Mapping[Dim, int]
    memory: MemoryInUse | None = None

    @property
    def operations(self) -> Size:
        return operations(self.step.equations)

    @property
    def multiply_add(self) -> MultiplyAdd:
        """What the kernel's multiply-adds multiply, found by scheduling it once more."""
        from anyshape.lower.kernel import Group
        from anyshape.lower.multiply_adds import multiply_add_of

        border = self.step.tensors
        inputs, outputs = (tuple(border[v] for v in values) for values in (self.step.inputs, self.step.outputs))
        constants = {border[v]: v.constant for v in self.step.inputs if v.constant is not None}
        return multiply_add_of(Group("profiled", self.step.equations, inputs, outputs=outputs, constants=constants))

    @property
    def moved(self) -> Size:
        total: Size = 0
        for v in (*self.step.inputs, *self.outputs):
            assert isinstance(v.type, TensorType)
            whole = v.type.count()
            read = elements_read(self.step.equations, self.step.tensors[v]) if v in self.step.inputs else None
            total = total + (whole if read is None else minimum(whole, read)) * v.type.dtype.itemsize
        return total

    @property
    def result(self) -> tuple[Size, ...]:
        """The shape of the result that has most dims."""
        shapes = [v.type.shape for v in self.outputs if v.type.shape is not None]
        return max(shapes, key=len, default=())

    def shares(self, sizes: Mapping[Dim, int]) -> dict[Node, float]:
        """Shares of the time, by node: in the ratio of the nodes' operations, or alike where there are none."""
        counts = {n: float(evaluate(operations(q), sizes)) for n, q in equations_by_node(self.step).items()}
        total = sum(counts.values())
        return {n: c / total if total else 1 / len(counts) for n, c in counts.items()}


def equations_by_node(step: KernelStep) -> dict[Node, list[Equation]]:
    """The equations of a kernel by the node that they are of. They stand in the order of the nodes, and a node's last one makes its last
    output."""
    ends = {step.tensors[v]: n for n in step.nodes for v in n.outputs if v in step.tensors}
    equations_of: dict[Node, list[Equation]] = {n: [] for n in step.nodes}
    waiting = []
    for q in step.equations:
        waiting.append(q)
        node = ends.get(q.target)
        if node is not None:
            equations_of[node] += waiting
            waiting = []
    return equations_of
