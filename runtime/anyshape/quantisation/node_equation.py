"""What a node of a model computes, as one equation: a mapping may make several ops of it, whose equations are put into each other.

In: the result of a node, built on parameters and constants. Out: the equation over these, or None where an op between has none (a
procedure), or states several of one tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.equations.builder import Equation
from anyshape.equations.expr import Expr, Read, Tensor, Var
from anyshape.equations.traversal import replace_node, substitute, walk
from anyshape.graph.function import topological
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import permutes
from anyshape.types import ListType

MOST_NODES = 32
"""The most ops of one node that are put together"""


@dataclass(frozen=True, slots=True)
class NodeEquation:
    """result[index] = value. `values` has the parameter or constant of each tensor that the value reads."""

    index: tuple[Expr, ...]
    value: Expr
    values: Mapping[Tensor, Value]


def node_equation(result: Value) -> NodeEquation | None:
    """Returns the equation of a result over the parameters and constants that it is computed from."""
    nodes = topological([result])
    if not nodes or len(nodes) > MOST_NODES or not all(map(_has_equations, nodes)):
        return None
    tensors: dict[Value, Tensor] = {}
    stated: defaultdict[Tensor, list[Equation]] = defaultdict(list)
    for node in nodes:
        for q in equations_of(node, *tensors_of(node, tensors)).equations:
            stated[q.target].append(q)
    if not all(len(several) == 1 and several[0].form is None for several in stated.values()):
        return None
    equations = {target: q for target, (q,) in stated.items()}
    own = equations[tensors[result]]
    plain = {target: q for target, q in equations.items() if all(isinstance(i, Var) for i in q.index)}
    return NodeEquation(own.index, _expanded(own.value, plain), {t: v for v, t in tensors.items() if v.node is None})


def is_permutation(q: NodeEquation) -> bool:
    """Whether the equation only puts the axes of one tensor in an order."""
    read = q.value
    return isinstance(read, Read) and permutes(Equation(read.tensor, q.index, read), read.tensor)


def _has_equations(node: Node) -> bool:
    used = [v for v in (*node.inputs, *node.outputs) if v is not None]
    known = not any(isinstance(v.type, ListType) or v.type.shape is None for v in used)
    return known and node.op.kernel is not None and node.bound is not None and node.sequence is None


def _expanded(e: Expr, equations: Mapping[Tensor, Equation]) -> Expr:
    """Puts the equations of tensors in place of what is read of them."""
    values: dict[Expr, Expr] = {}
    for r in walk(e):
        if isinstance(r, Read) and r.outside is None and r.tensor in equations:
            q = equations[r.tensor]
            places = {v: i for v, i in zip(q.index, r.index, strict=True) if isinstance(v, Var)}
            values[r] = _expanded(substitute(q.value, places), equations)
    return replace_node(e, values) if values else e
