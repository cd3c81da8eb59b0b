"""Infers how much of each operand the sizes of outputs depend on: nothing, its rank, its shape, or its values.

In: solve steps, the rule, shapes of outputs. Out: a `Dependence` for each input and dyn parameter, inferred from free
variables, so that a shape is never computed from more data than it depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anyshape_gen.model.analysis import BindParam, Define, Dependence, ForEach, IfPresent, OutputShape, SolveStep
from anyshape_gen.model.nodes import Assign, Call, Expr, If, Name, Node, Statement, Unbacked
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import children


def shape_dependence(
    spec: OpSpec, steps: tuple[SolveStep, ...], rule: tuple[Statement, ...], outputs: tuple[OutputShape, ...]
) -> dict[str, Dependence]:
    """Infers the strongest need of each operand, following definitions back from the output shapes."""
    shapes = [expr for output in outputs for expr in (output.shape, output.count) if expr is not None]
    levels = followed(shapes, definitions(steps, rule))
    of_inputs = {
        operand.name: min(levels.get(operand.name, Dependence.NOTHING), Dependence.SHAPE) for operand in spec.inputs
    }
    return of_inputs | {param.name: levels.get(param.name, Dependence.NOTHING) for param in spec.dyn_params}


def definitions(steps: tuple[SolveStep, ...], rule: tuple[Statement, ...]) -> dict[str, list[Expr]]:
    """Collects, by name, the expressions that signature and rule compute it from."""
    sources: dict[str, list[Expr]] = {}
    _definitions(steps, sources)
    _assignments(rule, (), sources)
    return sources


def followed(exprs: Iterable[Node], sources: Mapping[str, Iterable[Expr]]) -> dict[str, Dependence]:
    """Infers, by name, how much of it expressions depend on, themselves or by what `sources` compute their names from."""
    levels: dict[str, Dependence] = {}
    for expr in exprs:
        _follow(expr, sources, levels)
    return levels


def _definitions(steps: tuple[SolveStep, ...], sources: dict[str, list[Expr]]) -> None:
    for step in steps:
        match step:
            case Define(name=name, value=value):
                sources.setdefault(name, []).append(value)
            case BindParam(param=param, default=default, of=of, defines_length=opens):
                sources.setdefault(param.name, []).extend(e for e in (default, of) if e is not None)
                if opens is not None:
                    sources.setdefault(opens, []).append(Call("len", (Name(param.name),)))
            case ForEach(steps=inner) | IfPresent(steps=inner):
                _definitions(inner, sources)


def _assignments(rule: tuple[Statement, ...], conditions: tuple[Expr, ...], sources: dict[str, list[Expr]]) -> None:
    for statement in rule:
        match statement:
            case Assign(names=names, value=value):
                for name in names:
                    sources.setdefault(name, []).extend((value, *conditions))
            case Unbacked(name=name, low=low, high=high):
                sources.setdefault(name, []).extend((low, high))
            case If(cond=cond, then=then, other=other):
                _assignments(then, (*conditions, cond), sources)
                _assignments(other, (*conditions, cond), sources)


def _follow(expr: Node, sources: Mapping[str, Iterable[Expr]], levels: dict[str, Dependence]) -> None:
    """Raises the levels of all names from which an expression is computed; iteratively, since a rule may be long."""
    left: list[tuple[Node, Dependence]] = [(expr, Dependence.VALUES)]
    while left:
        node, level = left.pop()
        match node:
            case Name(id=name):
                if levels.get(name, Dependence.NOTHING) < level:
                    levels[name] = level
                    left += [(source, level) for source in sources.get(name, [])]
            case Call(func="shape", args=(tensor,)):
                left.append((tensor, min(level, Dependence.SHAPE)))
            case Call(func="len" | "rank", args=(inner,)):  # a length depends on the rank only
                left.append((inner, Dependence.RANK))
            case _:
                left += [(child, level) for child in children(node)]
