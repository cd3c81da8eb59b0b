"""Kinds of calls: what a kernel of an operator of torch is compiled for, as far as tensors are not asked.

In: the arguments of an operator. Out: for each what a kernel depends on: the dtype and the rank of a tensor, how many integers there are
that may be sizes, and the value of any other parameter, as a text. Kinds are stored beside compiled kernels, and are read again here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from anyshape.errors import ModelError
from anyshape.torch.schema import Argument
from anyshape.types import TensorType

TABLE = ".kernels.json"
"""What the name of a file of stored kinds ends with"""
FORMAT = 1
"""The number of the form of such a file; other forms are not read"""
ONE = -1
"""The kind of an integer alone that may be a size; that of several is their number"""


class TensorKind(NamedTuple):
    """The kind of a tensor: the name of its dtype, and its rank."""

    dtype: str
    rank: int

    @property
    def described(self) -> str:
        return f"{self.dtype} of rank {self.rank}"


Kind = TensorKind | tuple[TensorKind, ...] | str | int | None
"""The kind of an argument; None for one that is absent"""
Kinds = tuple[Kind, ...]


def value_kind(a: Argument, value: Any) -> Kind:
    """The kind of a parameter's value. Zeros of different signs are different, and each NaN is the same."""
    if value is None:
        return None
    if a.is_size:
        return len(value) if isinstance(value, tuple) else ONE
    if a.type == "float":
        return repr(float(value))
    if a.type == "float[]":
        return repr(tuple(map(float, value)))
    if a.type == "ScalarType":
        return str(value)
    return repr(tuple(value) if isinstance(value, list) else value)


def tensor_kind(type_: TensorType) -> TensorKind:
    """The kind of a tensor of known rank."""
    assert type_.shape is not None
    return TensorKind(type_.dtype.name, len(type_.shape))


def described(arguments: Sequence[Argument], kinds: Kinds) -> str:
    """`x: f32 of rank 2, scale: 1.0`."""
    return ", ".join(f"{a.name}: {_described(k)}" for a, k in zip(arguments, kinds))


def _described(kind: Kind) -> str:
    if kind is None:
        return "absent"
    if isinstance(kind, TensorKind):
        return kind.described
    if isinstance(kind, str):
        return kind
    if isinstance(kind, int):
        return "an integer" if kind == ONE else f"{kind} integers"
    tensors: Sequence[TensorKind] = kind
    return f"({', '.join(k.described for k in tensors)})"


def read_kinds(arguments: Sequence[Argument], stored: Any) -> Kinds:
    """Kinds as JSON has them. Raises ModelError for those that are none of a call with these arguments."""
    if not isinstance(stored, list) or len(stored) != len(arguments):
        raise ModelError(f"kinds of {len(arguments)} arguments are stored as {stored!r}")
    return tuple(_read(a, k) for a, k in zip(arguments, stored))


def _read(a: Argument, stored: Any) -> Kind:
    if a.is_tensors and isinstance(stored, list):
        return tuple(_read_tensor(a, t) for t in stored)
    if a.is_tensor and stored is not None:
        return _read_tensor(a, stored)
    if stored is None or isinstance(stored, int if a.is_size else str):
        kind: Kind = stored
        return kind
    raise ModelError(f"no kind of {a.name}, which is {a.type}: {stored!r}")


def _read_tensor(a: Argument, stored: Any) -> TensorKind:
    if isinstance(stored, list) and [*map(type, stored)] == [str, int]:
        return TensorKind(*stored)
    raise ModelError(f"no kind of {a.name}, which is {a.type}: {stored!r}")
