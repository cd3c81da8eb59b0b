"""The result of fusion: the steps of a program, in execution order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class KernelStep:
    """One fused group of nodes, to be lowered to one kernel; or one of several steps of a node (`parts.py`).

    `results` is all that it computes, `outputs` what of that others read; `tensors` maps inputs and results to the
    equations' tensors; an equation's `maker` is the node that it is of, if there are several. `joined_by` names the rules of fusion
    (`fusion_rules.py`) by which the nodes came together; `apart_from` says of inputs why what computes them is another kernel.
    """

    nodes: tuple[Node, ...]
    equations: tuple[Equation, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    tensors: Mapping[Value, Tensor]
    results: tuple[Value, ...]
    joined_by: tuple[str, ...] = ()
    apart_from: Mapping[Value, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class ViewStep:
    """`output` is `input`'s buffer under another shape."""

    node: Node
    input: Value
    output: Value


@dataclass(frozen=True, eq=False, slots=True)
class RegionStep:
    """A node with regions, and their schedules."""

    node: Node
    bodies: tuple[Schedule, ...]


@dataclass(frozen=True, eq=False, slots=True)
class TableStep:
    """A node that is instructions of the program: an op on lists, a call. `kernel` is what one that goes through a list runs for each
    element; `carried` are inputs of that which stand for results as they were before the element."""

    node: Node
    kernel: KernelStep | None = None
    carried: Mapping[Value, Value] = field(default_factory=dict)


ScheduleStep = KernelStep | ViewStep | RegionStep | TableStep


def stands_alone(node: Node) -> bool:
    """Whether a node is no kernel, or more than one, so that it cannot share one."""
    return bool(node.op.view or node.regions or node.op.structure is not None or node.sequence is not None)


@dataclass(frozen=True, eq=False, slots=True)
class Schedule:
    """The steps of a function. Checks of a node run before the step that holds it."""

    function: Function
    steps: tuple[ScheduleStep, ...]


def step_name(step: KernelStep) -> str:
    """The ops of a step, as in `matmul+add+gelu`."""
    names = list(dict.fromkeys(n.op.name for n in step.nodes))
    return "+".join(names[:4]) + ("+…" if len(names) > 4 else "")
