"""Operations on operands that are known here: comparisons that are decided, powers that are cheaper operations.

In: the operands as nodes. Out: a truth, a node, or None where nothing is known of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anyshape import dims
from anyshape.dims import Cond, Size
from anyshape.dtypes import BOOL, I64
from anyshape.equations.numeric import compute
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Operation
from anyshape.lower.ir.index_forms import ends_of
from anyshape.lower.ir.padded import index_of

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_ORDERS: Mapping[str, Callable[[Size, Size], Cond | bool]] = {
    "lt": dims.lt,
    "le": dims.le,
    "gt": dims.gt,
    "ge": dims.ge,
}


def comparison(name: str, args: Sequence[DagNode]) -> bool | None:
    """What a comparison says of integers that are known here, or of positions wherever they are; None for anything else. So an element
    depends on what it is computed from, and not on what the elements of another axis are."""
    compare, order = _COMPARISONS.get(name), _ORDERS.get(name)
    numbers = [a.value for a in args if isinstance(a, Constant) and a.dtype.is_integer]
    if compare is not None and len(numbers) == len(args) == 2:
        return compare(*numbers)
    forms = [index_of(a) for a in args if a.dtype == I64] if order is not None else []
    if order is None or len(forms) != 2 or forms[0] is None or forms[1] is None:
        return None
    ends = ends_of(forms[0] + forms[1].scaled(-1))
    if ends is None:
        return None
    surely, never = ends if name in ("ge", "gt") else ends[::-1]
    return True if order(surely, 0) is True else False if order(never, 0) is False else None


def power(dag: Dag, base: DagNode, exponent: DagNode) -> DagNode | None:
    """A power whose exponent is known and takes an instruction or two; with the root's own rules for -0 and -inf replaced."""
    dtype = base.dtype
    match number_of(exponent):
        case 1.0:
            return base
        case 2.0:
            return dag.op("mul", dtype, base, base)
        case -1.0:
            return dag.op("div", dtype, dag.const(1.0, dtype), base)
        case 0.5 | 0.25 | 0.75 as number:
            half = dag.op("sqrt", dtype, dag.op("add", dtype, base, dag.const(0.0, dtype)))
            quarter = dag.op("sqrt", dtype, half)
            root = half if number == 0.5 else quarter if number == 0.25 else dag.op("mul", dtype, half, quarter)
            lowest = dag.op("eq", BOOL, base, dag.const(-math.inf, dtype))
            return dag.op("select", dtype, lowest, dag.const(math.inf, dtype), root)
    return None


def number_of(n: DagNode) -> float | None:
    """The value of a constant, of a quotient of constants, or of either in another dtype."""
    match n:
        case Constant(value):
            return float(value)
        case Operation("div" | "cast" as name, args):
            numbers = [number_of(a) for a in args]
            known = [np.array(v, a.dtype.computed) for v, a in zip(numbers, args, strict=True) if v is not None]
            return float(compute(name, n.dtype, known)) if len(known) == len(args) else None
    return None
