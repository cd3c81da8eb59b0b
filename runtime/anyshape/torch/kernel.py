"""Kernels of operators of torch, on the memory of tensors: those of a library that was compiled before, else executables.

In: what states a call as a graph, and the arguments of calls. Out: tensors. A kernel serves all sizes of its tensors; there is one for
each choice of dtypes, ranks, attributes and tensors that are present. In executables integers that may be sizes are compiled in as the
numbers that they are, until a call comes with a fifth choice of them: from then on they are operands of one executable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from anyshape.dims import symbol
from anyshape.errors import UnsupportedError
from anyshape.frontends.torch.dtypes import array_of, dtype_of_torch, tensor_of
from anyshape.graph.building import function, input
from anyshape.graph.value import Node, Value
from anyshape.torch.compiled import CompiledCall
from anyshape.torch.graph import fixed_sizes, flat, has_ranks, size_operand
from anyshape.torch.kinds import Kind, Kinds, TensorKind, described, value_kind
from anyshape.torch.schema import Argument
from anyshape.types import TensorType
from anyshape.vm.executable.entry import compile
from anyshape.vm.executable.executable import Executable

MOST_NUMBERS = 4
"""The choices of integers for which there is an executable each"""
MOST_LISTED = 6
"""The most compiled kernels that a message lists"""


@dataclass
class Family:
    """The executables for one choice of dtypes, ranks, attributes and tensors that are present."""

    fixed: frozenset[str]
    """names of sizes that are numbers in each executable"""
    takes_operands: bool
    """whether integers that may be sizes can be operands: not where ranks depend on them"""
    executables: dict[Hashable, Executable] = field(default_factory=dict)
    """executables by the fixed sizes, and by integers that may be sizes, or None where these are operands"""


class TorchKernel:
    """The kernels of one operator. `state` makes the values of the results of values in place of the arguments; `node` is the call of
    the op in it. `compiled` are kernels that were compiled before, by the kinds of their calls."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[Argument],
        state: Callable[[Sequence[Any]], Sequence[Value]],
        node: Callable[[Sequence[Any]], Node],
        compiled: Mapping[Kinds, CompiledCall] = MappingProxyType({}),
    ) -> None:
        self.name, self.arguments, self.state, self.node, self.compiled = name, arguments, state, node, compiled
        self.families: dict[Kinds, Family] = {}

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """The results of a call with all arguments, flat. Raises AnyshapeError for a call that the op refuses, and UnsupportedError for one
        that has no compiled kernel where none can be compiled."""
        plain, kinds = self._plain(args)
        if kinds in self.compiled:
            return self.compiled[kinds](self.name, self._passed(plain))
        try:
            return self._executed(plain, kinds)
        except ImportError as e:
            raise UnsupportedError(self._lacking(kinds, e)) from e

    def is_compiled(self, args: Sequence[Any]) -> bool:
        """Whether there is a compiled kernel for such a call."""
        return bool(self.compiled) and self._plain(args)[1] in self.compiled

    def _plain(self, args: Sequence[Any]) -> tuple[list[Any], Kinds]:
        plain = [attribute(a, v) for a, v in zip(self.arguments, args, strict=True)]
        return plain, tuple(_kind(a, v) for a, v in zip(self.arguments, plain))

    def _passed(self, plain: Sequence[Any]) -> list[Any]:
        """The tensors of a call; integers that may be sizes among them."""
        passed: list[Any] = []
        for a, v in zip(self.arguments, plain):
            if a.is_tensor or a.is_tensors:
                passed += flat([v])
            elif a.is_size and v is not None:
                passed.append(torch.tensor(v, dtype=torch.int64))
        return passed

    def _lacking(self, kinds: Kinds, e: ImportError) -> str:
        listed = [described(self.arguments, k) for k in self.compiled]
        more = f", and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
        return (
            f"{self.name}: there is no compiled kernel for {described(self.arguments, kinds)}, and none can be compiled here ({e}): "
            f"install llvmlite, or build the package with --dtypes, --ranks or --param for such calls; compiled are those for "
            f"{'; '.join(listed[:MOST_LISTED]) or 'no calls'}{more}"
        )

    def _executed(self, plain: Sequence[Any], kinds: Kinds) -> list[Any]:
        """The results of a call by an executable."""
        family = self.families.get(kinds)
        if family is None:
            family = self.families[kinds] = self._family(plain)
        fixed = tuple(n for name, n in self._sizes(plain).items() if name in family.fixed) if family.fixed else ()
        numbers = tuple(v for a, v in zip(self.arguments, plain) if a.is_size)
        known = family.executables
        as_operands = family.takes_operands and (fixed, numbers) not in known and len(known) >= MOST_NUMBERS
        key = fixed, None if as_operands else numbers
        if key not in known:
            values = self._values(plain, family.fixed, as_operands)
            params = [v for v in flat(values) if isinstance(v, Value)]
            known[key] = compile(function(params, self.state(values), self.name))
        return self._run(known[key], plain, as_operands)

    def _family(self, args: Sequence[Any]) -> Family:
        def suffice(fixed: frozenset[str], as_operands: bool = False) -> bool:
            return has_ranks(self.node(self._values(args, fixed, as_operands)))

        fixed = fixed_sizes(list(self._sizes(args)), suffice)
        return Family(fixed, any(a.is_size for a in self.arguments) and suffice(fixed, True))

    def _tensors(self, args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """The tensors among the arguments, with names for each."""
        for a, v in zip(self.arguments, args):
            if a.is_tensors:
                yield from ((f"{a.name}{k}", t) for k, t in enumerate(v))
            elif a.is_tensor and v is not None:
                yield a.name, v

    def _sizes(self, args: Sequence[Any]) -> dict[str, int]:
        """The sizes of all tensors, by the names of their dims."""
        return {f"{name}_{k}": n for name, t in self._tensors(args) for k, n in enumerate(t.shape)}

    def _values(self, args: Sequence[Any], fixed: frozenset[str], as_operands: bool) -> list[Any]:
        """Values in place of the tensors and, `as_operands`, of integers that may be sizes."""
        tensors = (_open(name, t, fixed) for name, t in self._tensors(args))
        return [self._value(a, v, tensors, as_operands) for a, v in zip(self.arguments, args)]

    def _value(self, a: Argument, v: Any, tensors: Iterator[Value], as_operands: bool) -> Any:
        if v is None:
            return None
        if a.is_tensors:
            return [next(tensors) for _ in v]
        if a.is_tensor:
            return next(tensors)
        if not as_operands or not a.is_size:
            return v
        several = isinstance(v, tuple)
        dims = [symbol(f"{a.name}_{k}", None) for k in range(len(v) if several else 1)]
        return size_operand(a.name, dims if several else dims[0])

    def _run(self, executable: Executable, args: Sequence[Any], as_operands: bool) -> list[Any]:
        arrays: list[Any] = []
        for a, v in zip(self.arguments, args):
            if a.is_tensor or a.is_tensors:
                arrays += [array_of(t, f"{self.name}: {a.name}") for t in flat([v])]
            elif a.is_size and as_operands and v is not None:
                arrays.append(np.asarray(v, np.int64))
        results = executable.run(dict(zip(executable.input_names, arrays, strict=True)))
        return [tensor_of(_own(r, arrays)) for r in results]


def attribute(a: Argument, v: Any) -> Any:
    """An argument of torch as ops take it: a list as a tuple, a dtype as one of ours, None as the spec's default; tensors as they are."""
    if v is None:
        return a.preset
    if isinstance(v, torch.dtype):
        return dtype_of_torch(v)
    return tuple(v) if isinstance(v, (list, tuple)) and not a.is_tensors else v


def _kind(a: Argument, v: Any) -> Kind:
    """What a kernel is compiled for."""
    if a.is_tensors:
        return tuple(_tensor_kind(t) for t in v)
    return _tensor_kind(v) if a.is_tensor and v is not None else value_kind(a, v)


def _tensor_kind(tensor: Any) -> TensorKind:
    return TensorKind(dtype_of_torch(tensor.dtype).name, tensor.ndim)


def _open(name: str, tensor: Any, fixed: frozenset[str]) -> Value:
    """A parameter for tensors of this dtype and rank, of any sizes but the fixed ones."""
    dims = [(n, f"{name}_{k}") for k, n in enumerate(tensor.shape)]
    shape = tuple(n if dim in fixed else symbol(dim) for n, dim in dims)
    value: Value = input(name, TensorType(dtype_of_torch(tensor.dtype), shape))
    return value


def _own(result: Any, arrays: Sequence[Any]) -> Any:
    """A result in memory of its own, dense, as torch demands it of operators."""
    if any(np.may_share_memory(result, a) for a in arrays):
        return result.copy()
    return np.ascontiguousarray(result).reshape(result.shape)
