"""Calls of operators of torch as graphs: operands are values, sizes are dims.

In: the arguments of a call, with values in place of tensors. Out: the node of the op, or the values of its gradients.

How many dims a result has may depend on a size, as that of gather_nd does on the last one of its indices. Such sizes are numbers in the
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anyshape.dtypes import I64
from anyshape.expansion.gradient import pulled_back
from anyshape.graph.call import call_node
from anyshape.graph.sizes import remember, remember_input
from anyshape.graph.value import Node, Value
from anyshape.torch.schema import Variants
from anyshape.types import TensorType

T = TypeVar("T")


def node_of(op: Variants, arguments: Sequence[Any]) -> Node:
    """The call of an op: of the dyn variant if a parameter is a Value. Raises what inference raises."""
    count = len(op.static.inputs)
    params = {p.name: v for p, v in zip(op.static.params, arguments[count:], strict=True)}
    variant = op.dyn if op.dyn is not None and any(isinstance(v, Value) for v in params.values()) else op.static
    return call_node(variant, arguments[:count], params)


def gradients_of(op: Variants, seeds: Sequence[Value], needed: Sequence[bool], arguments: Sequence[Any]) -> list[Value]:
    """The gradients by those tensors of a call that are needed, of the sum of all its float results, each times its seed. Raises
    UnsupportedError where there is none, with the line of the spec."""
    node = node_of(op, arguments)
    results = [v for v in node.outputs if v.type.dtype.is_float]
    by = [v for v, is_needed in zip(flat(arguments[: len(op.static.inputs)]), needed, strict=True) if is_needed]
    return pulled_back(results, seeds, by)


def has_ranks(node: Node) -> bool:
    """Whether it is known how many dims each result has."""
    return all(v.type.shape is not None for v in node.outputs)


def fixed_sizes(sizes: Sequence[T], suffice: Callable[[frozenset[T]], bool]) -> frozenset[T]:
    """The sizes that have to be numbers for all ranks to be known: none, one, or all; none if all do not suffice, as data decide then."""
    choices = [frozenset[T](), *(frozenset({s}) for s in sizes), frozenset(sizes)]
    return next(filter(suffice, choices), choices[0])


def flat(inputs: Sequence[Any]) -> list[Any]:
    """The tensors of a call in one list, without those that are absent."""
    return [t for v in inputs if v is not None for t in (v if isinstance(v, (list, tuple)) else [v])]


def size_operand(name: str, dims: Any) -> Value:
    """An operand of i64 whose elements are dims: of one a scalar, of a sequence a vector."""
    several = isinstance(dims, (list, tuple))
    shape, contents = ((len(dims),), tuple(dims)) if several else ((), (dims,))
    value = Value(TensorType(I64, shape), name, contents=contents)
    remember(value)
    remember_input(value)
    return value
