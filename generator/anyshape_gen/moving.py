"""Which dtypes an op only moves: it reads their elements, chooses among them and puts them somewhere, and computes nothing with them.

In: an op's analysis. Out: dtype variables. Of such an op the runtime knows what it does with elements of any size, strings among them.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape_gen.analysis_model import OpAnalysis, ResolvedEquation
from anyshape_gen.nodes import Comprehension, Expr, IfExp, Node, TensorRead
from anyshape_gen.parse_values import CLASSES
from anyshape_gen.traverse import children, walk_all


def moved_dtypes(a: OpAnalysis) -> tuple[str, ...]:
    """The variables that stand for any dtype and whose elements the equations, or the view, only move."""
    if a.procedure is not None or a.spec.compose is not None:
        return ()
    open_ = [d.var for d in a.spec.dtypes if set(CLASSES["any"]) <= set(d.choices or ())]
    read = {o.signature.dtype for o in a.spec.inputs}
    return tuple(v for v in open_ if v in read and _only_moves(a, v))


def _only_moves(a: OpAnalysis, var: str) -> bool:
    if a.kernel is None:
        return True
    moving = {o.name for o in a.spec.inputs if o.signature.dtype == var}
    made = {o.name for o in a.spec.outputs if o.signature.dtype == var}
    for equation in a.kernel.equations:
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
    """Whether the value is an element that is read, or a choice of some."""
    match e:
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
