"""Infers which dtypes an op only moves: it reads elements of them, selects among them and stores them, and computes nothing with them.

In: an op's analysis. Out: dtype variables, and where that depends on a mode, the modes. The runtime can run such an op on elements of any
dtype, strings among them, whatever dtypes its spec lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from anyshape_gen.analysis_model import OpAnalysis, ResolvedEquation
from anyshape_gen.model import ParamSpec
from anyshape_gen.nodes import BoolOp, Compare, Comprehension, Expr, IfExp, Int, Name, Node, Str, TensorRead, Unary
from anyshape_gen.traverse import children, walk_all


@dataclass(frozen=True)
class Moved:
    """Dtype variables whose elements are only moved. `where`: {enumeration: its members for which that holds}, empty if it always holds."""

    dtypes: tuple[str, ...] = ()
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def moved_dtypes(a: OpAnalysis) -> Moved:
    """Infers the variables whose elements the equations, or the view, only move: always, or for some members of one or two enumerations."""
    if a.procedure is not None or a.spec.compose is not None:
        return Moved()
    read = {o.signature.dtype for o in a.spec.inputs}
    listed = [d.var for d in a.spec.dtypes if d.choices and d.var in read]
    equations = a.kernel.equations if a.kernel is not None else ()
    always = tuple(v for v in listed if _only_moves(a, v, equations))
    if always:
        return Moved(always)
    deciding = [p for p in a.spec.params if p.kind.members and _decides(p, equations)]
    for chosen in (c for count in (1, 2) for c in combinations(deciding, count)):
        moved = {ms: _moved_in(a, listed, chosen, ms) for ms in product(*(p.kind.members for p in chosen))}
        first = next((ms for ms, variables in moved.items() if variables), None)
        if first is not None:
            held = {ms for ms, variables in moved.items() if variables == moved[first]}
            last = [m for m in chosen[-1].kind.members if (*first[:-1], m) in held]
            others = (
                [m for m in chosen[0].kind.members if all((m, n) in held for n in last)] if len(chosen) == 2 else last
            )
            return Moved(moved[first], {chosen[0].name: tuple(others), chosen[-1].name: tuple(last)})
    return Moved()


def _moved_in(
    a: OpAnalysis, listed: Sequence[str], chosen: Sequence[ParamSpec], members: Sequence[str]
) -> tuple[str, ...]:
    """Lists the variables that are only moved where enumerations have these values."""
    assert a.kernel is not None
    values = {p.name: m for p, m in zip(chosen, members)}
    stated = [q for q in a.kernel.equations if all(_holds(c, values) is not False for c in q.conditions)]
    return tuple(v for v in listed if _only_moves(a, v, stated))


def _decides(p: ParamSpec, equations: Sequence[ResolvedEquation]) -> bool:
    return any(isinstance(n, Name) and n.id == p.name for q in equations for c in q.conditions for n in walk_all([c]))


def _holds(cond: Expr, values: Mapping[str, str]) -> bool | None:
    """Whether a condition holds where enumerations have these values; None if they do not decide it."""
    match cond:
        case Compare(Name(id), (("==" | "!=" as sign, Str(value)),)) if id in values:
            return (value == values[id]) == (sign == "==")
        case Unary("not", operand):
            held = _holds(operand, values)
            return None if held is None else not held
        case BoolOp(op, items):
            each = [_holds(c, values) for c in items]
            ends = op == "or"  # the value of one item that decides all
            return ends if ends in each else None if None in each else not ends
    return None


def _only_moves(a: OpAnalysis, var: str, equations: Sequence[ResolvedEquation]) -> bool:
    if a.kernel is None:
        return True
    moving = {o.name for o in (*a.spec.inputs, *a.spec.outputs) if o.signature.dtype == var}
    for equation in equations:
        name = equation.target.tensor
        if _reads([equation.value], moving):
            moving.add(name)  # a scratch tensor, defined before it is read
        if name in moving and (equation.op not in ("=", "set") or not _is_moved(equation.value, moving)):
            return False
        if _reads(_beside(equation), moving):
            return False
    return not _reads([*(b.value for b in a.kernel.born), *(s.cond for s in a.kernel.asserts)], moving)


def _beside(equation: ResolvedEquation) -> Iterable[Node]:
    return (*equation.parts, *equation.conditions, *equation.filters)


def _is_moved(e: Expr, moving: set[str]) -> bool:
    """Whether the value is an element that is read, or 0, or a selection among such values."""
    match e:
        case Int(0):
            return True
        case TensorRead(tensor=name, outside=outside) if name in moving:
            indices = [c for c in children(e) if c is not outside and c is not e.absent]
            return not _reads(indices, moving) and (outside is None or _is_moved(outside, moving))
        case IfExp(cond, then, other):
            return not _reads([cond], moving) and _is_moved(then, moving) and _is_moved(other, moving)
        case Comprehension(element, _, conditions):
            return not _reads(conditions, moving) and _is_moved(element, moving)
    return False


def _reads(nodes: Iterable[Node], moving: set[str]) -> bool:
    return any(isinstance(n, TensorRead) and n.tensor in moving for n in walk_all(nodes))
