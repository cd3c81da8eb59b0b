"""Calls of operators of torch from the examples of the specs, with tensors in place of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from anyshape.dtypes import parse_dtype
from anyshape.errors import UnsupportedError
from anyshape.frontends.torch.dtypes import dtype_of_torch, tensor_of, torch_of_dtype
from anyshape.properties import Example
from anyshape.torch import ops
from anyshape.torch.schema import Argument, as_passed
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.packages import register

PROPERTIES = register("anyshape_ops")


def calls(name: str) -> Iterator[tuple[Example, list[Any]]]:
    """The examples of an op, each with the arguments of the operator; without those of dtypes that torch has not."""
    for e in PROPERTIES[name].examples:
        call = call_of(name, e)
        try:
            tensors = call.values(lambda array, _: tensor(array))
            params = [param(a, call.params[a.name]) for a in ops.VARIANTS[name].arguments[len(tensors) :]]
        except UnsupportedError:
            continue
        yield e, [*tensors, *params]


def run(name: str, args: Sequence[Any]) -> Any:
    """The results of an operator."""
    positional, named = as_passed(ops.VARIANTS[name].arguments, args)
    return ops.OPERATORS[name](*positional, **named)


def tensor(array: Any) -> Any:
    """An array as a tensor. Raises UnsupportedError for a dtype that torch has not."""
    try:
        tensor = tensor_of(array.copy())
    except TypeError as e:
        raise UnsupportedError(str(e)) from None
    dtype_of_torch(tensor.dtype)
    return tensor


def param(a: Argument, value: Any) -> Any:
    """A parameter of an example as torch takes it."""
    if value is None:
        return a.default
    if a.type == "ScalarType":
        try:
            return torch_of_dtype(parse_dtype(value))
        except StopIteration:
            raise UnsupportedError(f"torch has no {value}") from None
    return list(value) if a.type.endswith("[]") else value


SCALES: tuple[Callable[[Any], Any], ...] = (
    lambda t: t,
    lambda t: t.nan_to_num(0.5, 1, -1),
    lambda t: t.nan_to_num(0.5, 1, -1).abs() / (1 + t.nan_to_num(0.5, 1, -1).abs()),
    lambda t: 1 + t.nan_to_num(0.5, 1, -1).abs(),
)
"""What is done to floats until the results and gradients of a call are finite: a function may have no value for most numbers"""


def wide(args: Sequence[Any]) -> list[Any]:
    """The arguments with random floats in f64 in place of floats."""
    generator = torch.Generator().manual_seed(0)
    return on_floats(args, lambda t: torch.randn(t.shape, generator=generator, dtype=torch.float64))


def finite(name: str, args: Sequence[Any], gradients: bool) -> list[Any]:
    """The arguments, with floats for which results are finite and, if asked for, gradients: then the floats require gradients."""
    for scale in SCALES:
        scaled = on_floats(args, lambda t: scale(t).requires_grad_(gradients))  # noqa: B023, called at once
        results = floats_of([run(name, scaled)])
        if all(t.isfinite().all() for t in [*results, *(slopes(results, scaled) if gradients else ())]):
            return scaled
    return scaled


def slopes(results: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The gradients of the sum of some results by the floats of a call."""
    of = [t for t in results if t.requires_grad]
    by = floats_of(args)
    ones = [torch.ones_like(t) for t in of]
    return [g for g in torch.autograd.grad(of, by, ones, allow_unused=True) if g is not None] if of else []


def on_floats(args: Sequence[Any], change: Callable[[Any], Any]) -> list[Any]:
    """The arguments with other tensors in place of those of floats."""

    def changed(v: Any) -> Any:
        if isinstance(v, list):
            return [changed(t) for t in v]
        return change(v.detach()) if isinstance(v, torch.Tensor) and v.is_floating_point() else v

    return [changed(v) for v in args]


def floats_of(values: Sequence[Any]) -> list[Any]:
    """The tensors of floats among values, and in lists and tuples among them."""
    return [t for t in flat(values) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def flat(values: Sequence[Any]) -> list[Any]:
    """The values, and those in lists and tuples among them, in one list."""
    return [t for v in values for t in (flat(v) if isinstance(v, (list, tuple)) else [v])]
