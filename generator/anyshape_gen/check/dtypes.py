"""Checks dtype variables: every valid call decides each variable that a kernel, a rule or an output reads.

In: an `OpSpec`. Out: findings. A required input, a parameter that has a value, or a rule over such variables decides a variable; an
optional input decides it only where `present(input)` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anyshape.dtypes import is_dtype_name
from anyshape_gen.model.body_nodes import Branch, Equation
from anyshape_gen.model.nodes import BoolOp, Call, Expr, Function, If, IfExp, Name, Node, NoneLit, Unary
from anyshape_gen.model.source import Findings, Span
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import children


def check_dtypes(spec: OpSpec, findings: Findings) -> None:
    """Checks every use of a dtype variable in signatures of outputs, in the rule, in the body, and in functions that they call."""
    known = Known(spec)
    variables = {rule.var for rule in spec.dtypes}
    for operand in spec.outputs:
        var = operand.signature.dtype
        if var in variables and not known.holds(var, frozenset()):
            findings.add(
                operand.span, f"the dtype variable '{var}' of '{operand.name}' is not decided{known.unless(var)}"
            )
    uses = Uses(variables, {function.name: function for function in spec.defines})
    bodies = [body for body in (spec.kernel, spec.procedure, spec.compose) if body is not None]
    for node in (*spec.shape, *bodies):
        for var, span, present in uses.of(node, frozenset()):
            if var not in variables:
                findings.unknown(span, "dtype", var, variables)
            elif not known.holds(var, present):
                ask = f"; test `present({known.perhaps[var][0]})` first" if known.perhaps.get(var) else ""
                findings.add(span, f"the dtype variable '{var}' is not decided{known.unless(var)}{ask}")


class Known:
    """The inputs, parameters and rules that decide the dtype variables of one op."""

    def __init__(self, spec: OpSpec) -> None:
        inputs = [(o.signature, o.name) for o in spec.inputs]
        self.certain = {s.dtype for s, _ in inputs if s.default is None and not s.optional}
        self.certain |= {
            rule.var for rule in spec.dtypes if not rule.choices and rule.expr is None
        }  # unknown, as is said elsewhere
        self.certain |= {"T" for p in spec.params if p.kind.base == "number" and p.default is None}
        self.open = {p.name for p in spec.params if p.kind.base == "dtype" and isinstance(p.default, NoneLit)}
        self.perhaps: dict[str, list[str]] = {}
        for s, name in inputs:
            self.perhaps.setdefault(s.dtype, []).append(name)
        self.rules: Mapping[str, Expr | None] = {rule.var: rule.expr for rule in spec.dtypes}

    def holds(self, name: str, present: frozenset[str]) -> bool:
        """Whether the variable, dtype or parameter has a value where some optional inputs are present; an unknown name has."""
        if name in self.certain or not present.isdisjoint(self.perhaps.get(name, ())):
            return True
        match self.rules.get(name):
            case Name(id=param):
                return param not in self.open
            case Call(args=args):
                return all(self.holds(arg.id, present) for arg in args if isinstance(arg, Name))
        return name not in self.rules and name not in self.open

    def unless(self, name: str) -> str:
        """Words which inputs are absent where the variable is not decided."""
        inputs = self.perhaps.get(name, ())
        return f" where {' and '.join(map(repr, inputs))} {'are' if len(inputs) > 1 else 'is'} absent" if inputs else ""


class Uses:
    """Uses of dtype variables, each with the inputs that are known to be present there."""

    def __init__(self, variables: set[str], functions: Mapping[str, Function]) -> None:
        self.variables, self.functions = variables, functions
        self.inside: set[tuple[str, frozenset[str]]] = set()

    def of(self, node: Node, present: frozenset[str]) -> Iterator[tuple[str, Span, frozenset[str]]]:
        match node:
            case Name(id=name) if name in self.variables:
                yield name, node.span, present
            case Call(func="present"):
                pass
            case Call(func=func) if func in self.variables:
                yield func, node.span, present
                yield from self._parts(node, present)
            case Call(func=func) if func in self.functions and (func, present) not in self.inside:
                yield from self._parts(node, present)
                self.inside.add((func, present))
                function = self.functions[func]
                for part in (*function.body, function.result):
                    yield from self.of(part, present)
            case IfExp(cond=cond) | If(cond=cond) | Branch(cond=cond):
                yield from self.of(cond, present)
                for holds, branch in ((True, node.then), (False, node.other)):
                    for inner in branch if isinstance(branch, tuple) else (branch,):
                        yield from self.of(inner, present | inputs_present(cond, holds))
            case Equation(conditions=conditions, annotation=annotation):
                for condition in conditions:
                    yield from self.of(condition, present)
                    present |= inputs_present(condition, True)
                if annotation is not None and not is_dtype_name(annotation.dtype):
                    yield annotation.dtype, annotation.span, present
                yield from self._parts(node, present)
            case _:
                yield from self._parts(node, present)

    def _parts(self, node: Node, present: frozenset[str]) -> Iterator[tuple[str, Span, frozenset[str]]]:
        for part in children(node):
            yield from self.of(part, present)


def inputs_present(cond: Expr, holds: bool) -> frozenset[str]:
    """Returns the inputs that are present where a condition holds, or where it does not."""
    match cond:
        case Call(func="present", args=(Name(id=name),)) if holds:
            return frozenset({name})
        case Unary(op="not", operand=operand):
            return inputs_present(operand, not holds)
        case BoolOp(op=op, items=items) if op == ("and" if holds else "or"):
            return frozenset().union(*(inputs_present(item, holds) for item in items))
    return frozenset()
