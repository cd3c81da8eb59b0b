"""Puts what the rule computes in place of its names in dims of inputs: `w: "F[half + 1]"` beside `half = n // 2` is `F[n // 2 + 1]`.

In: an op as loaded. Out: the op with such dims as expressions, which are equalities that each call has to meet, as all expressions in
inputs are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from anyshape_gen.model.nodes import Assign, Expr, Name, Statement
from anyshape_gen.model.spec import Dim, DimExpr, Operand, OpSpec, Piece, Product
from anyshape_gen.model.traverse import free_names, walk_all
from anyshape_gen.resolve.float_defaults import substituted


def with_rule_names(spec: OpSpec) -> OpSpec:
    """Rewrites the inputs' dims. Names that the rule computes under a condition, or of themselves, are left as they are."""
    values = _values(spec)
    inputs = tuple(_operand(o, values) for o in spec.inputs)
    if inputs == spec.inputs:
        return spec
    spec = replace(spec, inputs=inputs)
    return replace(spec, shape=tuple(s for s in spec.shape if not _is_for_inputs_alone(s, values, spec)))


def _values(spec: OpSpec) -> dict[str, Expr]:
    """The names that the rule computes, each with its value in terms of dims and parameters."""
    values: dict[str, Expr] = {}
    assigned = Counter(n for s in walk_all(spec.shape) if isinstance(s, Assign) for n in s.names)
    for s in spec.shape:
        if isinstance(s, Assign) and len(s.names) == 1 == assigned[s.names[0]]:
            value = substituted(s.value, values)
            if s.names[0] not in free_names(value):
                values[s.names[0]] = value
    return values


def _operand(o: Operand, values: Mapping[str, Expr]) -> Operand:
    pieces = tuple(_piece(p, values) for p in o.signature.pieces)
    return o if pieces == o.signature.pieces else replace(o, signature=replace(o.signature, pieces=pieces))


def _piece(piece: Piece, values: Mapping[str, Expr]) -> Piece:
    match piece:
        case Dim(name=name, optional=False, element=None) if name in values:
            return DimExpr(values[name], span=piece.span)
        case DimExpr(expr=expr) if free_names(expr) & set(values):
            return replace(piece, expr=substituted(expr, values))
        case Product(factors=factors):
            parts = tuple(p for f in factors if isinstance(p := _piece(f, values), (Dim, DimExpr)))
            return piece if parts == factors else replace(piece, factors=parts)
    return piece


def _is_for_inputs_alone(statement: Statement, values: Mapping[str, Expr], spec: OpSpec) -> bool:
    """Whether a statement computes what nothing but inputs' dims read."""
    if not isinstance(statement, Assign) or not set(statement.names) <= set(values):
        return False
    bodies = (*spec.defines, *(b for b in (spec.kernel, spec.procedure, spec.compose) if b is not None))
    readers = (*spec.params, *spec.outputs, *(s for s in spec.shape if s is not statement), *bodies)
    read = {n.id if isinstance(n, Name) else n.name for n in walk_all(readers) if isinstance(n, (Name, Dim))}
    return not set(statement.names) & read
