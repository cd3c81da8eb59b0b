"""What NumPy's functions make of dims: `np.int64(3) + n`, `np.maximum(n, 1)`.

In: a ufunc and its operands, as `__array_ufunc__` has them. Out: the dim or the condition, where dims have that arithmetic; else an
ArgumentError, or NotImplemented where a value of a graph has to answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.dims.atoms import maximum, minimum
from anyshape.dims.expr import REBUILD, Dim, as_size, computes
from anyshape.errors import ArgumentError

ARITHMETIC: Mapping[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.power: operator.pow, np.negative: operator.neg, np.maximum: maximum, np.minimum: minimum,
    np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
}  # fmt: skip
SAMENESS: Mapping[np.ufunc, Callable[..., Any]] = {np.equal: operator.eq, np.not_equal: operator.ne}


def of_ufunc(ufunc: np.ufunc, how: str, operands: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of a ufunc of operands of which one is a dim. Raises ArgumentError for arithmetic that dims do not have."""
    if any(map(computes, operands)):
        return NotImplemented
    if how == "__call__" and not options and ufunc in SAMENESS:
        first, second = operands if isinstance(operands[0], Dim) else operands[::-1]
        return SAMENESS[ufunc](first, second)
    sizes = [as_size(v) for v in operands]
    if how != "__call__" or options or ufunc not in ARITHMETIC or NotImplemented in sizes:
        dim = next(v for v in operands if isinstance(v, Dim))
        named = ufunc.__name__ if how == "__call__" else f"{ufunc.__name__}.{how}"
        beside = "".join(f" and {type(v).__name__}" for v in operands if not isinstance(v, Dim))
        raise ArgumentError(
            f"np.{named} of the dim {dim}{beside}: dims have + - * // %, powers, comparisons, np.maximum and np.minimum with integers "
            "and dims; a value has more, such as ops.cast(dim, 'f32')"
        )
    return ARITHMETIC[ufunc](*sizes)


REBUILD["ufunc"] = of_ufunc
