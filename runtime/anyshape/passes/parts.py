"""Nodes that take several kernels: those that find a size, sort, or put elements somewhere one after the other.

In: a node with its equations. Out: steps in order. What one kernel hands to the next is a value that no node has: a count is one
element, and a symbol of the shapes that follow stands for it, so that it is loaded like any other element that is a size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from anyshape.dims import Dim, free_symbols
from anyshape.equations import Demand, Equation, RecurrenceStep, Reduce, Run, Tensor
from anyshape.equations.dependencies import needed, reads, symbols, together
from anyshape.equations.traversal import walk
from anyshape.errors import VerifyError
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.position_blocks import block_products
from anyshape.passes.steps import KernelStep
from anyshape.types import TensorType


def takes_parts(equations: Sequence[Equation]) -> bool:
    """Whether a node with these equations is more than one kernel, or one whose elements come in an order."""
    return any(q.form is not None or q.unbacked is not None for q in equations)


def steps_of(
    node: Node, equations: Sequence[Equation], tensors: Mapping[Value, Tensor], live: Sequence[Value]
) -> list[KernelStep]:
    """A step for every tensor with such an equation, or for those of a recurrence or a program together, and one for the other outputs.

    `live`: the outputs that others read. Reductions that a recurrence reads are computed before it, but for products of which it reads a
    position in each step: it computes them itself, for a block of positions at a time.
    """
    data = [v for v in node.data_inputs if v is not None]
    values = {tensors[v]: v for v in (*data, *node.outputs)}
    sizes = {q.target: q.unbacked for q in equations if q.unbacked is not None}
    constants = {tensors[v] for v in data if v.constant is not None}
    units = _units(equations, values, block_products(equations, constants))
    apart = dict.fromkeys(t for one in units for t in one)
    for t in apart:
        if t not in values:
            size = sizes.get(t)
            values[t] = Value(TensorType(t.dtype, t.shape), t.name, contents=None if size is None else (size,))
    rest = [tensors[v] for v in node.outputs if tensors[v] not in apart]
    steps = [_step(node, equations, one, apart, values, live) for one in units]
    steps += [_step(node, equations, rest, apart, values, live)] if rest else []
    return _ordered(steps, sizes, values)


def _units(equations: Sequence[Equation], values: Mapping[Tensor, Value], in_blocks: Set[Tensor]) -> list[list[Tensor]]:
    by_key: dict[object, list[Tensor]] = {}
    for q in equations:
        if q.form is not None or q.unbacked is not None:
            key = together(q) if isinstance(q.form, (Run, RecurrenceStep)) else q.target
            if q.target not in by_key.setdefault(key, []):
                by_key[key].append(q.target)
    apart = {t for unit in by_key.values() for t in unit}
    waited = (
        {t for q in equations if isinstance(q.form, RecurrenceStep) for t in reads(q)} - apart - {*values, *in_blocks}
    )
    for q in equations:
        if q.target in waited and any(isinstance(e, Reduce) for e in walk(q.value)):
            by_key.setdefault(q.target, [q.target])
    asked = {q.target for q in equations if isinstance(q.form, Demand)}
    return sorted(by_key.values(), key=lambda unit: unit[0] not in asked)


def _step(
    node: Node,
    equations: Sequence[Equation],
    unit: list[Tensor],
    apart: Mapping[Tensor, None],
    values: Mapping[Tensor, Value],
    live: Sequence[Value],
) -> KernelStep:
    own = needed(equations, unit, apart)
    read = {t for q in own for t in reads(q)}.difference(unit)
    # In the order of the op, which is that of every process: the text of a kernel, by which it is cached, says which is the first.
    inputs = {v: t for t, v in values.items() if t in read}
    results = {values[t]: t for t in unit}
    elsewhere = {t for q in equations if q not in own for t in reads(q)}
    elsewhere |= {q.target for q in own if q.unbacked is not None}
    outputs = tuple(
        v for v, t in results.items() if v in live or (v not in node.outputs and (len(unit) == 1 or t in elsewhere))
    )
    results = {v: t for v, t in results.items() if v in outputs or v in node.outputs}
    return KernelStep(
        nodes=(node,), equations=tuple(own), inputs=tuple(inputs), outputs=outputs, tensors={**inputs, **results},
        results=tuple(results),
    )  # fmt: skip


def _ordered(steps: list[KernelStep], sizes: Mapping[Tensor, Dim], values: Mapping[Tensor, Value]) -> list[KernelStep]:
    """The steps in an order in which each follows those that compute what it reads or a size that it mentions."""
    maker = {v: step for step in steps for v in step.results}
    finder = {size: maker[values[t]] for t, size in sizes.items()}
    done: list[KernelStep] = []
    while len(done) < len(steps):
        ready = [s for s in steps if s not in done and _needs(s, maker, finder) <= {*done, s}]
        if not ready:
            raise VerifyError(f"the parts of {steps[0].nodes[0]} need each other")
        done += ready
    return done


def _needs(step: KernelStep, maker: Mapping[Value, KernelStep], finder: Mapping[Dim, KernelStep]) -> set[KernelStep]:
    required = {maker[v] for v in step.inputs if v in maker}
    mentioned = {s for q in step.equations for s in symbols(q)}
    mentioned |= {s for t in step.tensors.values() for n in t.shape for s in free_symbols(n)}
    return required | {finder[s] for s in mentioned if s in finder}
