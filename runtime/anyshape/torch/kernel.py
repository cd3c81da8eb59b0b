"""Kernels of operators of torch: executables on the memory of tensors.

In: what states a call as a graph, and the arguments of calls. Out: tensors. An executable serves all sizes of its tensors; there is one for
each choice of dtypes, ranks, attributes and tensors that are present. Integers that may be sizes are compiled in as the numbers that they are,
until a call comes with a fifth choice of them: from then on they are operands of one executable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch

from anyshape.dims import symbol
from anyshape.frontends.torch.dtypes import array_of, dtype_of_torch, tensor_of
from anyshape.graph.building import function, input
from anyshape.graph.value import Value
from anyshape.torch.graph import flat, size_operand
from anyshape.torch.schema import Argument, completed
from anyshape.types import TensorType
from anyshape.vm.executable.executable import Executable, compile

MOST_NUMBERS = 4
"""The choices of integers for which there is an executable each"""


class Kernel:
    """The executables of one operator. `state` makes the values of the results of values in place of the arguments."""

    def __init__(self, name: str, arguments: Sequence[Argument], state: Callable[[Sequence[Any]], Sequence[Value]]) -> None:
        self.name, self.arguments, self.state = name, arguments, state
        self.executables: dict[Hashable, dict[Hashable, Executable]] = {}
        """by dtypes, ranks and attributes, then by integers that may be sizes; None: these are operands"""

    def __call__(self, *args: Any) -> list[Any]:
        """The results, flat. Raises AnyshapeError for a call that the op refuses."""
        plain = [attribute(a, v) for a, v in zip(self.arguments, completed(self.arguments, args))]
        kinds = tuple(_kind(a, v) for a, v in zip(self.arguments, plain))
        numbers = tuple(v for a, v in zip(self.arguments, plain) if a.is_size)
        known = self.executables.setdefault(kinds, {})
        as_operands = None in known or (numbers not in known and len(known) >= MOST_NUMBERS)
        key = None if as_operands and numbers not in known else numbers
        if key not in known:
            known[key] = self._compiled(plain, key is None)
        return self._run(known[key], plain, key is None)

    def _compiled(self, args: Sequence[Any], as_operands: bool) -> Executable:
        values = [self._value(a, v, as_operands) for a, v in zip(self.arguments, args)]
        params = [v for v in flat(values) if isinstance(v, Value)]
        return compile(function(params, self.state(values), self.name))

    def _value(self, a: Argument, v: Any, as_operands: bool) -> Any:
        if v is None:
            return None
        if a.is_tensor:
            return _open(a.name, v)
        if a.is_tensors:
            return [_open(f"{a.name}{k}", t) for k, t in enumerate(v)]
        if not as_operands or not a.is_size:
            return v
        several = isinstance(v, tuple)
        dims = [symbol(f"{a.name}_{k}", None) for k in range(len(v) if several else 1)]
        return size_operand(a.name, dims if several else dims[0])

    def _run(self, executable: Executable, args: Sequence[Any], as_operands: bool) -> list[Any]:
        arrays: list[Any] = []
        for a, v in zip(self.arguments, args):
            if v is None:
                continue
            if a.is_tensor:
                arrays.append(array_of(v, f"{self.name}: {a.name}"))
            elif a.is_tensors:
                arrays += [array_of(t, f"{self.name}: {a.name}") for t in v]
            elif a.is_size and as_operands:
                arrays.append(np.asarray(v, np.int64))
        results = executable.run(dict(zip(executable.input_names, arrays, strict=True)))
        return [tensor_of(_own(r, arrays)) for r in results]


def attribute(a: Argument, v: Any) -> Any:
    """An argument of torch as ops take it: a list as a tuple, a dtype as one of ours; tensors as they are."""
    if isinstance(v, torch.dtype):
        return dtype_of_torch(v)
    return tuple(v) if isinstance(v, (list, tuple)) and not a.is_tensors else v


def _kind(a: Argument, v: Any) -> Hashable:
    """What an executable is compiled for."""
    if isinstance(v, torch.Tensor):
        return v.dtype, v.ndim
    if a.is_tensors:
        return tuple((t.dtype, t.ndim) for t in v)
    if a.is_size and v is not None:
        return len(v) if isinstance(v, tuple) else -1
    return v, type(v)


def _open(name: str, tensor: Any) -> Value:
    """A parameter for tensors of this dtype and rank."""
    shape = tuple(symbol(f"{name}_{k}") for k in range(tensor.ndim))
    return input(name, TensorType(dtype_of_torch(tensor.dtype), shape))  # type: ignore[no-any-return]


def _own(result: Any, arrays: Sequence[Any]) -> Any:
    """A result in memory of its own, dense, as torch demands it of operators."""
    if any(np.may_share_memory(result, a) for a in arrays):
        return result.copy()
    return np.ascontiguousarray(result).reshape(result.shape)
