"""Operators of torch that are ops (`anyshape.torch`), in programs that are imported: each is the op that it was made of.

In: the name of an operator, `anyshape::softmax`. Out: its mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.frontends.torch.node import AtenNode, Mapping
from anyshape.graph.call import call, call_alias
from anyshape.graph.opdef import OpDef
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Value

PREFIX = "anyshape::"


def own_mapping(name: str) -> Mapping | None:
    """The mapping of an operator that is an op; None for any other."""
    plain = name.removeprefix(PREFIX)
    ops = all_ops()
    op, dyn = ops.get(plain, ops.get(f"static.{plain}")), ops.get(f"dyn.{plain}")
    if not name.startswith(PREFIX) or op is None:
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
