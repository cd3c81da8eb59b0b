"""Makes operands of arrays: values of their types, of symbols for dims, or looked up by name; arrays by the names of their operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, symbol
from anyshape.dtypes import CHAR, from_numpy
from anyshape.graph.value import Value
from anyshape.types import TensorType
from anyshape_testing.calls.call import Call, variants

Array = NDArray[Any]


def typed(array: Array, name: str) -> Value:
    """Makes an operand of this array's type, with unknown contents."""
    return Value(TensorType(from_numpy(array.dtype), array.shape), name)


@dataclass
class Symbols:
    """Operands whose dims are symbols, and the numbers they stand for."""

    numbers: dict[Dim, int]
    prefix: str = "n"

    def __call__(self, array: Array, name: str) -> Value:
        dims = []
        for k, n in enumerate(array.shape):
            s = symbol(f"{self.prefix}_{name}_{k}")
            self.numbers[s] = n
            dims.append(s)
        return Value(TensorType(from_numpy(array.dtype), tuple(dims)), name)


def operand_arrays(c: Call) -> dict[str, Array]:
    """Makes arrays of the parameters that the dyn variant takes as operands."""
    dyn = variants(c.property.op)[1]
    arrays = {}
    for p in dyn.operands:
        value = c.params.get(p.name)
        if value is not None:
            kind = np.bool_ if p.kind == "bool" else np.float32 if p.kind in ("float", "floats") else np.int64
            arrays[p.name] = np.asarray(value, kind)
    return arrays


def flat_values(values: list[Any]) -> list[Value]:
    return [v for x in values if x is not None for v in (x if isinstance(x, list) else [x])]


class ByName:
    """A factory of operands that returns the same Value for the same name."""

    def __init__(self, params: list[Value]) -> None:
        self.params = {p.name: p for p in params}

    def __call__(self, array: Any, name: str) -> Value:
        return self.params[name]


def code_points(a: Array) -> Array:
    """Views characters as code points; returns other arrays unchanged."""
    return a.view(CHAR.computed) if a.dtype == CHAR.numpy else a


def input_arrays(c: Call) -> dict[str, Array]:
    """Returns arrays by the names that `Call.values` gives their operands; code points for characters."""
    arrays: dict[str, Array] = {}

    def take(a: Array, name: str) -> Array:
        arrays[name] = code_points(a)
        return a

    c.values(take)
    return arrays
