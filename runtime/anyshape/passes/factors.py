"""How much of a function's constants products will read: what is worth beginning with before the function is even optimised."""

from __future__ import annotations

from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import KernelKind, classify


def bytes_of_factors(f: Function) -> int:
    """Bytes of the constants of at least two dims whose first reader is a contraction, an op being what its first node of this kind is."""
    contractions: dict[str, bool] = {}
    sizes: dict[Value, int] = {}
    for node in f.nodes:
        for v in node.inputs:
            a = v.constant if v is not None else None
            if v is not None and a is not None and a.ndim >= 2 and a.dtype.kind != "U" and v not in sizes:
                name = node.op.full_name
                if name not in contractions:
                    contractions[name] = _is_contraction(node)
                sizes[v] = a.nbytes if contractions[name] else 0
    return sum(sizes.values())


def _is_contraction(node: Node) -> bool:
    typed = all(v is None or v.type.shape is not None for v in (*node.inputs, *node.outputs))
    if node.op.kernel is None or node.bound is None or not typed:
        return False
    return classify(equations_of(node, *tensors_of(node)).equations) is KernelKind.CONTRACTION
