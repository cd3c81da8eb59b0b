"""Infers the kinds of all names of an op's rule, with which expressions over them are checked and resolved.

In: an `OpSpec`, the steps that solve its signature, the statements of its rule. Out: {name: `ValueKind`}.
"""

from __future__ import annotations

from anyshape_gen.model.analysis import BindParam, Define, ForEach, IfPresent, SolveStep, ValueKind
from anyshape_gen.model.nodes import Assign, If, Statement, Unbacked
from anyshape_gen.model.spec import OpSpec, Run
from anyshape_gen.resolve.kinds import PARAM_KINDS, Kinds, kind_of


def name_kinds(spec: OpSpec, steps: tuple[SolveStep, ...], rule: tuple[Statement, ...]) -> dict[str, ValueKind]:
    """Infers the kinds of all names of a rule: dims, runs, params, then locals in order."""
    params = {param.name: PARAM_KINDS[param.kind.base] for param in spec.params}
    kinds = Kinds(params, {function.name: function for function in spec.defines})
    _step_kinds(spec, steps, kinds)
    _rule_kinds(rule, kinds)
    return kinds


def _step_kinds(spec: OpSpec, steps: tuple[SolveStep, ...], kinds: dict[str, ValueKind]) -> None:
    pieces = [piece for operand in spec.inputs for piece in operand.signature.pieces]
    lists = {piece.name for piece in pieces if isinstance(piece, Run) and piece.element is not None}
    for step in steps:
        match step:
            case Define(name=name, value=value):
                kinds.setdefault(name, ValueKind.VECTORS if name in lists else kind_of(value, kinds))
            case BindParam(defines_length=str() as name):
                kinds[name] = ValueKind.INT
            case ForEach(steps=inner) | IfPresent(steps=inner):
                _step_kinds(spec, inner, kinds)


def _rule_kinds(rule: tuple[Statement, ...], kinds: dict[str, ValueKind]) -> None:
    for statement in rule:
        match statement:
            case Assign(names=(name,), value=value):
                kinds[name] = kind_of(value, kinds)
            case Assign(names=names, value=value):
                texts = kind_of(value, kinds) is ValueKind.TEXTS
                kinds.update(dict.fromkeys(names, ValueKind.STR if texts else ValueKind.INT))
            case Unbacked(name=name):
                kinds[name] = ValueKind.INT
            case If(then=then, other=other):
                _rule_kinds(then, kinds)
                _rule_kinds(other, kinds)
