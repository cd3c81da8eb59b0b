"""Operations on floats of 16 bits that their bits alone decide: they take and give the floats as memory has them, and not as f32.

In: an operation and its arguments, as equations state them, in which floats of 16 bits are widened ahead of each operation and rounded
after it. Out: the same of the floats themselves, where widening and rounding change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anyshape.dtypes import DType
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Operation

_SIGNS = frozenset(("abs", "neg"))
"""Operations that change nothing but the sign."""


def of_bits(dag: Dag, name: str, dtype: DType, args: Sequence[DagNode]) -> DagNode | None:
    """The node of an operation without f32: a change of sign that is rounded, or whether an element equals a number or itself."""
    match name, args:
        case "cast", (Operation(name=sign, args=(wide,)),) if sign in _SIGNS:
            narrow = _widened(wide)
            return dag.op(sign, dtype, narrow) if narrow is not None and narrow.dtype == dtype else None
        case (("eq" | "ne"), (a, b)):
            widened = (_widened(a), _widened(b))
            dtypes = [n.dtype for n in widened if n is not None]
            if not dtypes:
                return None
            first, second = (_exact(dag, n, dtypes[0]) if w is None else w for n, w in zip(args, widened, strict=True))
            if first is None or second is None or first.dtype != second.dtype:
                return None
            return dag.op(name, dtype, first, second) if first is second or _is_number(first, second) else None
    return None


def _is_number(*nodes: DagNode) -> bool:
    """Whether one of two nodes is a number that is known; NaN is none."""
    return any(isinstance(n, Constant) and not math.isnan(n.value) for n in nodes)


def _widened(n: DagNode) -> DagNode | None:
    """The float of 16 bits that a node is as a wider one."""
    match n:
        case Operation(name="cast", args=(narrow,)) if (
            n.dtype.is_float and _is_half(narrow.dtype) and n.dtype.bits > 16
        ):
            return narrow
    return None


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _exact(dag: Dag, n: DagNode, dtype: DType) -> Constant | None:
    """A number that a dtype holds as it is, as a constant of that."""
    if not isinstance(n, Constant):
        return None
    with np.errstate(over="ignore"):
        held = float(np.array(n.value, dtype.numpy))
    return dag.const(held, dtype) if held == n.value else None
