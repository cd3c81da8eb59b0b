"""Infers which operand parameters of an op decide only shapes: results are the same for all values that give the same sizes.

In: an op's analysis. Out: their names. The body of the op (kernel, procedure, composition; a view has none) reads neither such a
parameter nor a name that the rule computes from it; it reads only sizes of tensors. An axis also selects dims, so it is no such parameter
where there is a body.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape_gen.analysis_model import OpAnalysis
from anyshape_gen.nodes import Assign, Expr, If, Name, Node, Statement
from anyshape_gen.traverse import walk_all


def shaping_params(a: OpAnalysis) -> tuple[str, ...]:
    spec = a.spec
    bodies: list[Node] = [b for b in (spec.kernel, spec.procedure, spec.compose) if b is not None]
    if not bodies:
        return tuple(p.name for p in spec.dyn_params)
    read = _names([*bodies, *spec.defines])
    sizes = [p.name for p in spec.dyn_params if p.kind.base not in ("axis", "axes")]
    return tuple(name for name in sizes if not read & _made_of(name, a.rule))


def _names(nodes: Iterable[Node]) -> set[str]:
    return {n.id for n in walk_all(nodes) if isinstance(n, Name)}


def _made_of(name: str, rule: tuple[Statement, ...]) -> set[str]:
    """Collects the name, and those that the rule computes from it, in any order of statements."""
    names = {name}
    while True:
        before = len(names)
        _follow(rule, (), names)
        if len(names) == before:
            return names


def _follow(rule: tuple[Statement, ...], conditions: tuple[Expr, ...], made_of: set[str]) -> None:
    for statement in rule:
        match statement:
            case Assign(names=names, value=value):
                if made_of & _names([value, *conditions]):
                    made_of.update(names)
            case If(cond=cond, then=then, other=other):
                _follow(then, (*conditions, cond), made_of)
                _follow(other, (*conditions, cond), made_of)
