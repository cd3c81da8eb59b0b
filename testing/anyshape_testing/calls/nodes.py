"""Builds a call as a graph node, static or dyn, and states its equations."""

from __future__ import annotations

from typing import Any

from anyshape.dtypes import DType
from anyshape.equations.builder import Equation
from anyshape.expansion.composition import body
from anyshape.graph.call import call_node
from anyshape.graph.function import topological
from anyshape.graph.infer import equations_of, flat, tensors_of
from anyshape.graph.value import Node, constant
from anyshape.rules import Vec
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.operands import operand_arrays, typed


def static_node(c: Call) -> Node:
    """Builds the call of the static variant on operands of known shapes. Raises what inference raises."""
    return call_node(c.op, c.values(typed), c.params)


def dyn_node(c: Call, make: Any = typed, operand: Any = None) -> Node:
    """Builds the call of the dyn variant; its operands are constants unless `operand(array, name)` makes them."""
    dyn = variants(c.property.op)[1]
    operands = {
        name: operand(a, name) if operand is not None else constant(a, name) for name, a in operand_arrays(c).items()
    }
    return call_node(dyn, c.values(make), {**c.params, **operands})


def equations(node: Node) -> tuple[Any, list[Any], list[Any]]:
    """States the node's equations over fresh tensors; returns them, and the input and output tensors, flattened."""
    ins, outs = tensors_of(node)
    return equations_of(node, ins, outs), flat(ins), flat(outs)


def equations_below(node: Node) -> list[Equation]:
    """Collects the equations of a call, with those in bodies of composed ops and of loops."""
    collected: list[Equation] = []
    waiting = [node]
    while waiting:
        n = waiting.pop()
        if n.op.composition is not None and n.bound is not None:
            waiting += topological(body(n))
        elif n.op.kernel is not None and n.bound is not None:
            collected += equations(n)[0].equations
        waiting += [inner for region in n.regions for inner in region.nodes]
    return collected


def resolved(node: Node) -> dict[str, Any]:
    """Converts params as the rule resolved them to what a reference takes."""
    values = {}
    for d in node.op.params:
        v = getattr(node.bound, d.name)
        values[d.name] = v.numpy if isinstance(v, DType) else tuple(v) if isinstance(v, Vec) else v
    return values
