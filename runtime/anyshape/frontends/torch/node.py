"""The protocol `AtenNode`, by which generated mappings (`anyshape_ops.aten`) read a node, and functions that they call.

The tensors among the arguments of a call are its inputs, in the order of the operator's schema, lists of them flattened; all other
arguments are attributes, by the names in the schema. An attribute that is a size of torch (a SymInt) is a Value, a scalar of i64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, overload

import numpy as np

from anyshape.dtypes import DType
from anyshape.graph.value import Value, constant


class AtenNode(Protocol):
    """A call of an FX graph whose operands have been imported."""

    @property
    def source(self) -> str:
        """The place of the node, for messages."""

    @property
    def output_count(self) -> int:
        """How many outputs the operator has; of a list of outputs, how many tensors are in it."""

    @property
    def output_dtype(self) -> DType:
        """The dtype that torch gives the first output."""

    def input(self, k: int) -> Any:
        """The tensor at a position of the flattened ones; None where it is absent."""

    def inputs(self, start: int = 0) -> list[Any]:
        """All tensors from a position on, None for those that are absent."""

    def attr(self, name: str, default: Any = None) -> Any:
        """An argument that is no tensor: a number, a text, a list, or a Value for a size; an absent one is what the schema says, or else
        the default."""

    @overload
    def attr_dtype(self, name: str) -> DType | None: ...
    @overload
    def attr_dtype(self, name: str, default: DType) -> DType: ...
    def attr_dtype(self, name: str, default: DType | None = None) -> DType | None:
        """An argument that is a dtype."""

    def is_number(self, v: Value) -> bool:
        """Whether a value stands for a number of Python, which does not promote tensors of its kind."""

    def refuse(self, reason: str) -> NoReturn:
        """Raises UnsupportedError naming the node."""


Mapping = Callable[[AtenNode], Sequence[Value]]
"""What a call means: the values of its outputs, in order."""


def scalar(value: Any) -> Value:
    """A number of Python as a constant of rank 0, i64, f64 or bool; a Value as it is."""
    if isinstance(value, Value):
        return value
    return constant(np.asarray(value))


def vector(value: Any) -> Value:
    """A list of numbers as a constant of rank 1, i64 of integers and f32 of floats."""
    whole = all(isinstance(v, int) for v in value)
    return constant(np.asarray(value, np.int64 if whole else np.float32).reshape(-1))
