"""Fake kernels: the types of an operator's results, by the op's own rule on sizes of torch.

In: tensors without memory, with ints and SymInts for sizes. Out: such tensors. What the rule demands becomes `torch._check`, a size that
data decide an unbacked SymInt within the rule's bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyshape.dims import Dim
from anyshape.errors import UnsupportedError
from anyshape.frontends.torch.dtypes import dtype_of_torch, torch_of_dtype
from anyshape.graph.building import input
from anyshape.graph.value import Node, Value
from anyshape.torch.graph import fixed_sizes, flat, has_ranks, node_of, size_operand
from anyshape.torch.kernel import attribute
from anyshape.torch.schema import Argument, Variants
from anyshape.torch.sizes import FakeSizes
from anyshape.types import TensorType


def results_of(op: Variants, args: Sequence[Any]) -> list[Any]:
    """The results of a call, flat. Raises ShapeError or DtypeError for a call that the op refuses, whatever its sizes."""
    sizes, node = _node(op, args)
    _count(node, sizes)
    for check in node.checks:
        if sizes.knows(check.cond):
            torch._check(sizes.truth(check.cond), lambda text=str(check): text)
    tensors = flat(args[: len(op.static.inputs)])
    device = tensors[0].device if tensors else "cpu"
    return [_fake(op, v, sizes, device) for v in node.outputs]


def _node(op: Variants, args: Sequence[Any]) -> tuple[FakeSizes, Node]:
    """The call on dims. A size on which ranks depend becomes a number, with a guard of torch."""
    sizes = FakeSizes()
    node = node_of(op, typed_arguments(op, args, sizes))
    if has_ranks(node) or not sizes.dims:
        return sizes, node
    open_sizes = sizes.known()

    def suffice(fixed: frozenset[Any]) -> bool:
        numbers = {expr: open_sizes[expr].node.hint for expr in fixed}
        return has_ranks(node_of(op, typed_arguments(op, args, FakeSizes(numbers))))

    sizes = FakeSizes({expr: int(open_sizes[expr]) for expr in fixed_sizes(list(open_sizes), suffice)})
    return sizes, node_of(op, typed_arguments(op, args, sizes))


def typed_arguments(op: Variants, args: Sequence[Any], sizes: FakeSizes) -> list[Any]:
    """The arguments as values of a graph; integers that are sizes of torch as operands that have dims for elements."""
    return [_typed(a, attribute(a, v), sizes) for a, v in zip(op.arguments, args, strict=True)]


def _typed(a: Argument, v: Any, sizes: FakeSizes) -> Any:
    if v is None:
        return None
    if a.is_tensor or a.is_tensors:
        return [_value(a.name, t, sizes) for t in v] if a.is_tensors else _value(a.name, v, sizes)
    if not a.is_size:
        return v
    dims = [sizes.dim(n) for n in v] if isinstance(v, tuple) else sizes.dim(v)
    return size_operand(a.name, dims) if any(isinstance(n, Dim) for n in flat([dims])) else dims


def _value(name: str, tensor: Any, sizes: FakeSizes) -> Value:
    shape = tuple(sizes.dim(n) for n in tensor.shape)
    value: Value = input(name, TensorType(dtype_of_torch(tensor.dtype), shape))
    return value


def _count(node: Node, sizes: FakeSizes) -> None:
    """Makes sizes of the symbols of results that data decide."""
    sizes.count([n for v in node.outputs for n in v.type.shape or ()])
    for d, most in node.bound.upper_bounds.items() if node.bound is not None else ():
        if d in sizes.values and sizes.knows(most):
            torch._check(sizes.values[d] <= sizes.size(most))


def _fake(op: Variants, v: Value, sizes: FakeSizes, device: Any) -> Any:
    if v.type.shape is None:
        raise UnsupportedError(
            f"{op.static.name}: how many dims its result has depends on values that torch does not know while it traces "
            f"({op.static.source})"
        )
    return torch.empty([sizes.size(n) for n in v.type.shape], dtype=torch_of_dtype(v.type.dtype), device=device)
