"""What generated rewrites call: who made a value, what a parameter was given as, and building the replacement.

In: a node that a rewrite looks at. Out: answers, None where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.graph.call import call, call_alias
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node, Value
from anyshape.rules import Vec


def producer(value: Value | None, op: str) -> Node | None:
    """The node that made a value, or was folded into it, if it is of that op (either variant), its types are inferred and it has one
    output."""
    node = None if value is None else value.node or value.folded
    return node if node is not None and node.op.name == op and node.bound is not None else None


def given(node: Node, param: str) -> Any:
    """A parameter as the call gave it: an attribute, a Value, or None for the default."""
    operands = node.operand_inputs()
    return operands[param] if param in operands else node.attrs.get(param)


def is_default(node: Node, param: str) -> bool:
    """Whether the call left a parameter at its default."""
    value = given(node, param)
    default = next(p.default for p in node.op.params if p.name == param)
    return value is None or (not isinstance(value, Value) and value == default)


def shape_of(value: Value | None) -> Vec | None:
    """The dims of a value, if there is one and its rank is known."""
    return None if value is None or value.type.shape is None else Vec(value.type.shape)


def element_of(value: Value | None) -> int | float | bool | None:
    """The only element of a value, if it is known."""
    if value is None or value.constant is None or value.constant.size != 1:
        return None
    element: int | float | bool = value.constant.reshape(-1).tolist()[0]
    return element


def is_finite(value: Value | None) -> bool:
    """Whether the elements of a value are known, and none is an infinity or NaN. Where there is no value, none is."""
    if value is None or value.constant is None:
        return value is None
    dtype = value.type.dtype
    return not (dtype.is_float or dtype.is_narrow_float) or bool(np.isfinite(value.constant).all())


def takes(op: str, inputs: Sequence[Value | None]) -> bool:
    """Whether an op's inputs may have the dtypes of these values; of one that is None nothing is asked."""
    ops = all_ops()
    declared_op = ops.get(op) or ops[f"static.{op}"]
    pairs = [(i.dtype, v.type.dtype.name) for i, v in zip(declared_op.inputs, inputs, strict=True) if v is not None]
    return all(name in declared_op.dtypes.get(declared, (declared,)) for declared, name in pairs)


def make(op: str, inputs: Sequence[Any], params: Mapping[str, Any], source: str) -> Value:
    """A call of an op by its plain name; static unless a promoted parameter is a Value."""
    ops = all_ops()
    if op in ops:
        return call(ops[op], inputs, params, source)[0]
    return call_alias(ops[f"static.{op}"], ops[f"dyn.{op}"], inputs, params, source)[0]
