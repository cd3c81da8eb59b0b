"""Exponentials that cannot overflow, since what they are of is not above 0, and the logistic function made of one.

In: an operation and its arguments, as equations state them: by a choice between a value and its negative, which is smooth at 0. Out: the
same by the value's magnitude, of which the compiler knows the sign.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dtypes import DType
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Operation


def of_magnitude(dag: Dag, name: str, dtype: DType, args: Sequence[DagNode]) -> DagNode | None:
    """The node of an exponential of the lesser of v and -v, or of the logistic function of v by such a one."""
    if not dtype.is_float or dtype.bits < 32:
        return None
    match name, args:
        case "exp", (exponent,):
            v = _of_lesser(exponent)
            return None if v is None else dag.op("exp", dtype, dag.op("neg", dtype, dag.op("abs", dtype, v)))
        case "div", (part, whole):
            v = _of_logistic(part, whole)
            return None if v is None else dag.op("sigmoid", dtype, v)
    return None


def _of_lesser(n: DagNode) -> DagNode | None:
    """The v of which a node is the lesser of v and -v: -v where v is above 0."""
    match n:
        case Operation("select", (Operation(("ge" | "gt"), (v, Constant(0))), yes, no)):
            return v if no is v and _is_negative(yes, v) else None
        case Operation("select", (Operation(("le" | "lt"), (v, Constant(0))), yes, no)):
            return v if yes is v and _is_negative(no, v) else None
    return None


def _of_logistic(part: DagNode, whole: DagNode) -> DagNode | None:
    """The v of which part / whole is the logistic function: part is 1 or, for v below 0, e**-|v|; whole is their sum."""
    match part, whole:
        case (
            Operation("select", (Operation("ge", (v, Constant(0))), Constant(1), e)),
            Operation("add", (Constant(1), power) | (power, Constant(1))),
        ) if power is e:
            match e:
                case Operation("exp", (Operation("neg", (Operation("abs", (size,)),)),)) if size is v:
                    return v
    return None


def _is_negative(n: DagNode, v: DagNode) -> bool:
    return isinstance(n, Operation) and n.name == "neg" and n.args[0] is v
