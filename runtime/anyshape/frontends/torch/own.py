"""Operators of torch that are ops (`anyshape.torch`), in programs that are imported: each is the op that it was made of.

In: the name of an operator, `anyshape::softmax`, or with the namespace of another package of ops. Out: its mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyshape.frontends.torch.node import AtenNode
from anyshape.frontends.torch.node import Mapping as NodeMapping
from anyshape.graph.call import call, call_alias
from anyshape.graph.opdef import OpDef
from anyshape.graph.registry import namespaces
from anyshape.graph.value import Value


def own_mapping(name: str) -> NodeMapping | None:
    """The mapping of an operator that is an op; None for any other."""
    namespace, separator, plain = name.partition("::")
    if not separator or namespace not in namespaces():
        return None
    ops: Mapping[str, OpDef] = namespaces()[namespace].OPS
    op, dyn = ops.get(plain, ops.get(f"static.{plain}")), ops.get(f"dyn.{plain}")
    if op is None:
        return None

    def mapping(n: AtenNode) -> Sequence[Value]:
        inputs = _inputs(op, n.inputs())
        params = {p.name: n.attr_dtype(p.name) if p.kind == "dtype" else n.attr(p.name) for p in op.params}
        return call_alias(op, dyn, inputs, params, n.source) if dyn is not None else call(op, inputs, params, n.source)

    return mapping


def _inputs(op: OpDef, tensors: Sequence[Any]) -> list[Any]:
    """The flattened tensors of a call, by the inputs of the op, of which one may be variadic."""
    remaining = iter(tensors)
    count = len(tensors) - (len(op.inputs) - 1)
    return [[next(remaining) for _ in range(count)] if i.variadic else next(remaining) for i in op.inputs]
