"""Which dtypes an op only moves: it reads their elements, chooses among them and puts them somewhere, and computes nothing with them.

In: an op's analysis. Out: dtype variables, and where that depends on a mode, the modes. Of such an op the runtime knows what it does with
elements of any dtype, strings among them, whatever list of dtypes the spec has for what it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anyshape_gen.analysis_model import OpAnalysis, ResolvedEquation
from anyshape_gen.model import ParamSpec
from anyshape_gen.nodes import BoolOp, Compare, Comprehension, Expr, IfExp, Int, Name, Node, Str, TensorRead, Unary
from anyshape_gen.traverse import children, walk_all


@dataclass(frozen=True)
class Moved:
    """`dtypes`: variables whose elements are only moved; `where`: {enumeration: its members for which that holds}, empty if it always
    does."""

    dtypes: tuple[str, ...] = ()
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def moved_dtypes(a: OpAnalysis) -> Moved:
    """The variables whose elements the equations, or the view, only move: in every mode, or in some of one enumeration."""
    if a.procedure is not None or a.spec.compose is not None:
        return Moved()
    read = {o.signature.dtype for o in a.spec.inputs}
    listed = [d.var for d in a.spec.dtypes if d.choices and d.var in read]
    equations = a.kernel.equations if a.kernel is not None else ()
    always = tuple(v for v in listed if _only_moves(a, v, equations))
    if always:
        return Moved(always)
    for p in a.spec.params:
        by_mode = {m: _moved_in(a, listed, p, m) for m in p.kind.members if _decides(p, equations)}
        modes = tuple(m for m, found in by_mode.items() if found)
        if modes:
            return Moved(by_mode[modes[0]], {p.name: tuple(m for m in modes if by_mode[m] == by_mode[modes[0]])})
    return Moved()


def _moved_in(a: OpAnalysis, listed: Sequence[str], p: ParamSpec, member: str) -> tuple[str, ...]:
    """The variables that are only moved where an enumeration has this value."""
    assert a.kernel is not None
    stated = [q for q in a.kernel.equations if all(_holds(c, p.name, member) is not False for c in q.conditions)]
    return tuple(v for v in listed if _only_moves(a, v, stated))


def _decides(p: ParamSpec, equations: Sequence[ResolvedEquation]) -> bool:
    return any(isinstance(n, Name) and n.id == p.name for q in equations for c in q.conditions for n in walk_all([c]))


def _holds(cond: Expr, name: str, member: str) -> bool | None:
    """Whether a condition holds where an enumeration has a value; None if that does not decide it."""
    match cond:
        case Compare(Name(id), (("==" | "!=" as sign, Str(value)),)) if id == name:
            return (value == member) == (sign == "==")
        case Unary("not", operand):
            held = _holds(operand, name, member)
            return None if held is None else not held
        case BoolOp(op, items):
            each = [_holds(c, name, member) for c in items]
            ends = op == "or"  # what one item decides
            return ends if ends in each else None if None in each else not ends
    return None


def _only_moves(a: OpAnalysis, var: str, equations: Sequence[ResolvedEquation]) -> bool:
    if a.kernel is None:
        return True
    moving = {o.name for o in a.spec.inputs if o.signature.dtype == var}
    made = {o.name for o in a.spec.outputs if o.signature.dtype == var}
    for equation in equations:
        name = equation.target.tensor
        if name not in made and name not in moving and _reads([equation.value], moving):
            moving.add(name)  # a tensor of its own, defined before it is read
        if (name in made or name in moving) and (
            equation.op not in ("=", "set") or not _is_moved(equation.value, moving)
        ):
            return False
        if _reads(_beside(equation), moving) or (
            name not in made and name not in moving and _reads([equation.value], moving)
        ):
            return False
    return not _reads([*(b.value for b in a.kernel.born), *(s.cond for s in a.kernel.asserts)], moving)


def _beside(equation: ResolvedEquation) -> Iterable[Node]:
    return (*equation.parts, *equation.conditions)


def _is_moved(e: Expr, moving: set[str]) -> bool:
    """Whether the value is an element that is read, or 0, or a choice of some."""
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
