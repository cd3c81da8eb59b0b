"""FunctionType, the type of a value that is a function: what it takes and what it gives.

To code that asks a type for a dtype and a shape, a function is a scalar of a dtype that no op of tensors takes: a number of 64 bits. A
symbol in the types of parameters is bound by each call; one that is only in the types of results is a new size in each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyshape.dims import Dim, Size
from anyshape.dtypes import FUNCTION
from anyshape.types.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class FunctionType(TensorType):
    """The type of a function, made by `function_type`. Prints as `function[f32[n, 4], i64[] -> f32[n]]`."""

    params: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    def symbols(self) -> set[Dim]:
        """The symbols of the surroundings that the type mentions: none."""
        return set()

    def substitute(self, values: Mapping[Dim, Size]) -> FunctionType:
        return self

    def __str__(self) -> str:
        params, results = (", ".join(map(str, side)) for side in (self.params, self.results))
        return f"function[{params} -> {results}]"


def function_type(params: Sequence[TensorType], results: Sequence[TensorType]) -> FunctionType:
    return FunctionType(FUNCTION, (), tuple(params), tuple(results))
