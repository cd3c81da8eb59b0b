"""Cost of an instruction that runs a kernel, for profiles: operations and bytes as formulas of a call's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.dims import Dim, Size, evaluate, minimum
from anyshape.equations.builder import Equation
from anyshape.equations.operations import elements_read, operations
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import KernelStep
from anyshape.types import TensorType


@dataclass(frozen=True, eq=False, slots=True)
class Invocation:
    """Work of an instruction that runs a kernel. `moved`: bytes of its results, and of its operands what is read, each once."""

    step: KernelStep
    outputs: tuple[Value, ...]
    registers: Mapping[Dim, int]

    @property
    def operations(self) -> Size:
        return operations(self.step.equations)

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
