"""Registers an op as an operator of torch: `register(op, namespace)` makes `namespace::name` and the operator of its gradient.

In: the variants of an op. Out: an operator of `torch.library`, with a kernel, a fake kernel, a gradient and a batching rule.

- The gradient is an operator too, `namespace::name__gradient`: it takes the seeds of the float results, which of the tensors are needed,
  and the arguments of the call. It has no gradient of its own.
- Under `vmap` an operator runs once for each item of the batch, and its results are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from anyshape.errors import UnsupportedError
from anyshape.torch.compiled import CompiledLibrary
from anyshape.torch.fake import results_of
from anyshape.torch.graph import flat, gradients_of, node_of
from anyshape.torch.kernel import TorchKernel
from anyshape.torch.schema import (
    NEEDED,
    SEEDS,
    Variants,
    as_passed,
    completed,
    gradient_name,
    results_text,
    schema_text,
)


def register(op: Variants, namespace: str, library: CompiledLibrary | None = None) -> Any:
    """Makes the operator of an op that is not refused. `library` has kernels that were compiled before."""
    arguments = op.arguments
    kernel = TorchKernel(
        op.static.name,
        arguments,
        lambda values: node_of(op, values).outputs,
        partial(node_of, op),
        library.calls(op.static.name, arguments) if library is not None else {},
    )
    tags = [torch.Tag.nondeterministic_seeded] if op.static.is_random else []
    operator = torch.library.custom_op(
        f"{namespace}::{op.static.name}",
        lambda *args, **named: formed(op, kernel(completed(arguments, args, named))),
        mutates_args=(),
        schema=schema_text(arguments, results_text(op.static)),
        tags=tags,
    )
    operator.register_fake(lambda *args, **named: formed(op, results_of(op, completed(arguments, args, named))))
    operator.register_vmap(batching(operator))
    setup, backward = autograd(op, _register_gradient(op, namespace, library))
    operator.register_autograd(backward, setup_context=setup)
    return operator


def formed(op: Variants, results: Sequence[Any]) -> Any:
    """Flat results as the schema has them."""
    outputs = op.static.outputs
    extra = len(results) - len(outputs)
    values: list[Any] = []
    remaining = iter(results)
    for o in outputs:
        values.append([next(remaining) for _ in range(extra + 1)] if o.variadic else next(remaining))
    return values[0] if len(values) == 1 else tuple(values)


def _register_gradient(op: Variants, namespace: str, library: CompiledLibrary | None) -> Any:
    """Makes the operator of an op's gradient."""
    name = gradient_name(op)

    def state(values: Sequence[Any]) -> Any:
        seeds, needed, *arguments = values
        return gradients_of(op, seeds, needed, arguments)

    arguments = (SEEDS, NEEDED, *op.arguments)
    compiled = library.calls(name, arguments) if library is not None else {}
    kernel = TorchKernel(name, arguments, state, lambda values: node_of(op, values[2:]), compiled)
    schema = schema_text(arguments, "Tensor[]")
    count = len(op.static.inputs)

    def computed(args: Sequence[Any]) -> list[Any]:
        """The gradients that are asked for, by a kernel for them alone, or by the compiled one for all of them."""
        seeds, needed, *passed = args
        floats = [t.is_floating_point() for t in flat(passed[:count])]
        if kernel.is_compiled(args) or not kernel.is_compiled([seeds, floats, *passed]):
            return kernel(args)
        of_all = zip((n for n, is_float in zip(needed, floats) if is_float), kernel([seeds, floats, *passed]))
        return [g for is_needed, g in of_all if is_needed]

    operator = torch.library.custom_op(
        f"{namespace}::{name}",
        lambda *args, **named: computed(completed(arguments, args, named)),
        mutates_args=(),
        schema=schema,
    )

    def fake(seeds: Any, needed: Any, *args: Any, **named: Any) -> Any:
        return [t.new_empty(t.shape) for t, is_needed in zip(flat(args[:count]), needed, strict=True) if is_needed]

    def backward(ctx: Any, *grads: Any) -> Any:
        raise UnsupportedError(
            f"the gradient of {op.static.name} has no gradient as an operator of torch ({op.static.source}); anyshape.gradients makes "
            "gradients of gradients"
        )

    operator.register_fake(fake)
    operator.register_vmap(batching(operator))
    operator.register_autograd(backward)
    return operator


def autograd(op: Variants, gradient: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What a forward call keeps, and what a backward call does with it."""
    count = len(op.static.inputs)
    arguments = op.arguments

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        inputs = completed(arguments, inputs, keyword_only_inputs or {})
        ctx.save_for_backward(*flat(inputs[:count]))
        ctx.numbers = [None if v is None else len(v) if isinstance(v, (list, tuple)) else -1 for v in inputs[:count]]
        ctx.params = inputs[count:]
        ctx.floats = [t.is_floating_point() for t in flat(output if isinstance(output, tuple) else (output,))]

    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = ctx.saved_tensors
        asked = flat([n for n, k in zip(ctx.needs_input_grad, ctx.numbers) if k is not None])
        needed = [bool(n) and t.is_floating_point() for n, t in zip(asked, tensors, strict=True)]
        seeds = [g for g, is_float in zip(flat(grads), ctx.floats, strict=True) if is_float]
        args, named = as_passed(arguments, [*_nested(iter(tensors), ctx.numbers), *ctx.params])
        computed = iter(gradient(seeds, needed, *args, **named) if any(needed) else ())
        of_inputs = _nested((next(computed) if w else None for w in needed), ctx.numbers)
        # An empty list of numbers is one of tensors to torch, and has a list for a gradient.
        of_params: list[Any] = [[] if n == [] else None for n in ctx.needs_input_grad[count:]]
        return (*of_inputs[: len(ctx.needs_input_grad)], *of_params)

    return setup, backward


def _nested(flat_values: Any, numbers: Sequence[int | None]) -> list[Any]:
    """Flat values in the structure of the inputs."""
    return [
        None if k is None else next(flat_values) if k < 0 else [next(flat_values) for _ in range(k)] for k in numbers
    ]


def batching(operator: Any) -> Callable[..., Any]:
    """The batching rule of an operator: a call for each item. Raises UnsupportedError where the results of items differ in size."""

    def rule(info: Any, in_dims: Any, *args: Any, **named: Any) -> Any:
        if info.batch_size == 0:
            raise UnsupportedError(f"{operator._qualname}: vmap over nothing; nothing says what its results are")
        calls = [operator(*(_item(a, d, k) for a, d in zip(args, in_dims)), **named) for k in range(info.batch_size)]
        return _stacked(operator, calls)

    return rule


def _item(argument: Any, axis: Any, k: int) -> Any:
    if isinstance(axis, (list, tuple)):
        return [_item(a, d, k) for a, d in zip(argument, axis)]
    return argument if axis is None else argument.select(axis, k)


def _stacked(operator: Any, calls: Sequence[Any]) -> tuple[Any, Any]:
    first = calls[0]
    if isinstance(first, (list, tuple)):
        pairs = [_stacked(operator, items) for items in zip(*calls, strict=True)]
        return type(first)(p[0] for p in pairs), type(first)(p[1] for p in pairs)
    if any(t.shape != first.shape for t in calls):
        raise UnsupportedError(
            f"{operator._qualname}: vmap over items whose results have different sizes, which their data decide: call it for each item"
        )
    return torch.stack(list(calls)), 0
