"""Infers which operand parameters of an op decide only shapes: results are the same for all values that give the same sizes. And finds
the attributes of which sizes are computed.

In: an op's analysis. Out: their names. The body of the op (kernel, procedure, composition; a view has none) reads neither such a
parameter nor a name that the rule computes from it; it reads only sizes of tensors. An axis also selects dims, so it is no such parameter
where there is a body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anyshape_gen.model.analysis import Analysis, Dependence, OpAnalysis
from anyshape_gen.model.body_nodes import Branch, For, Set, While
from anyshape_gen.model.nodes import Assign, Call, Comprehension, Expr, If, Name, Node, Reduction, Statement
from anyshape_gen.model.spec import Kind, OpSpec, ParamSpec
from anyshape_gen.model.traverse import walk_all
from anyshape_gen.resolve.shape_dependence import definitions, followed


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


# --- attributes that might be operands


def sizing_attributes(analysis: Analysis) -> dict[str, Kind]:
    """Finds the parameters, as `op.param`, that sizes of results or bounds of loops and sums are computed from, and that no variant of
    their op has as an operand."""
    specs = {a.spec.name: a.spec for a in analysis.ops}
    return {f"{a.spec.name}.{p.name}": p.kind for a in analysis.ops for p in _sizing(a, specs) if not p.dyn}


def _sizing(a: OpAnalysis, specs: Mapping[str, OpSpec]) -> list[ParamSpec]:
    bounds: list[Node] = [e for o in a.outputs for e in (o.shape, o.count) if e is not None]
    sources = definitions(a.steps, a.rule)
    if a.kernel is not None:
        bounds += [v.extent for e in a.kernel.equations for v in e.vars] + [t.shape for t in a.kernel.scratch]
        bounds += _domains(a.kernel.equations)
    for body in (a.spec.procedure, a.spec.compose):
        if body is not None:
            _follow_steps(body.steps, (), sources)
            bounds += _domains(body.steps)
            bounds += [e for call in walk_all(body.steps) if isinstance(call, Call) for e in _sizes_passed(call, specs)]
    levels = followed(bounds, sources)
    return [p for p in a.spec.params if levels.get(p.name, Dependence.NOTHING) > Dependence.NOTHING]


def _domains(nodes: Iterable[Node]) -> list[Node]:
    """Collects what loops, sums and comprehensions run over, how often others may run, and the sizes of arrays."""
    domains: list[Node] = []
    for node in walk_all(nodes):
        match node:
            case Comprehension(generators=generators) | Reduction(generators=generators):
                domains += [g.domain for g in generators]
            case For(domain=domain):
                domains.append(domain)
            case While(limit=limit):
                domains.append(limit)
            case Call(func="array", args=(shape, *_)):
                domains.append(shape)
    return domains


def _sizes_passed(call: Call, specs: Mapping[str, OpSpec]) -> list[Node]:
    """Collects the arguments of a call of another op that are its operands of the dyn variant."""
    spec = specs.get(call.func)
    if spec is None:
        return []
    names = [*(o.name for o in spec.inputs), *(p.name for p in spec.params)]
    operands = {p.name for p in spec.dyn_params}
    return [e for name, e in (*zip(names, call.args), *call.keywords) if name in operands]


def _follow_steps(steps: Iterable[Node], conditions: tuple[Expr, ...], sources: dict[str, list[Expr]]) -> None:
    """Adds what steps compute variables and elements of tensors from."""
    for step in steps:
        match step:
            case Set(targets=targets, value=value):
                for target in targets:
                    sources.setdefault(target.tensor, []).extend((value, *conditions))
            case For(body=body):
                _follow_steps(body, conditions, sources)
            case While(cond=cond, body=body):
                _follow_steps(body, (*conditions, cond), sources)
            case Branch(cond=cond, then=then, other=other):
                _follow_steps((*then, *other), (*conditions, cond), sources)
