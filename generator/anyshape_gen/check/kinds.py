"""Checks dims against runs, members of enumerations, and conditions that must be static.

In: an `OpSpec` and the kinds of the names in scope. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.nodes import Call, Compare, Expr, If, Name, Node, Statement, Str
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, DimExpr, Operand, OpSpec, Piece, Product, Run, RunExpr
from anyshape_gen.model.traverse import deciding, walk_all
from anyshape_gen.resolve.kinds import kind_of

K = ValueKind
SINGLE = (K.INT, K.FLOAT, K.BOOL)


def check_kinds(spec: OpSpec, kinds: Mapping[str, ValueKind], findings: Findings) -> None:
    """Checks the kinds of one op."""
    _one_or_many(spec, findings)
    for operand in spec.outputs:
        for piece in operand.signature.pieces:
            _output_piece(operand, piece, kinds, findings)
    _members(spec, findings)
    _truths(spec, kinds, findings)
    for condition in _static_conditions(spec):
        _must_be_static(spec, condition, findings)


def _one_or_many(spec: OpSpec, findings: Findings) -> None:
    """Checks that a name is one dim, or a run of dims, in all inputs alike."""
    first: dict[str, tuple[str, str]] = {}
    for operand in spec.inputs:
        for piece in operand.signature.pieces:
            for inner in _named(piece):
                many = isinstance(inner, Run) or inner.optional
                words = "a run" if many else "one dim"
                before = first.setdefault(inner.name, (words, operand.name))
                if before[0] != words:
                    text = f"'{inner.name}' is {words} here and {before[0]} in '{before[1]}'"
                    findings.add(inner.span, text)


def _named(piece: Piece) -> Iterator[Dim | Run]:
    match piece:
        case Dim() | Run():
            yield piece
        case AtAxis(dim=inner) | AtAxes(run=inner):
            yield from _named(inner)
        case Product(factors=factors):
            for factor in factors:
                yield from _named(factor)


def _output_piece(operand: Operand, piece: Piece, kinds: Mapping[str, ValueKind], findings: Findings) -> None:
    """Checks that an output has `*s` where s is a run, and `s` where it is one dim."""
    variadic = operand.signature.variadic
    scope = {**kinds, variadic.var: K.INT} if variadic else kinds
    match piece:
        case Dim(name=name, optional=False) if scope.get(name) == K.VECTOR:
            findings.add(piece.span, f"'{name}' is a run of dims: write *{name}")
        case Dim(name=name, optional=True) if scope.get(name) in SINGLE:
            findings.add(piece.span, f"'{name}' is one dim that is always present: write {name}")
        case Run(name=name, element=None) if scope.get(name) == K.VECTORS:
            text = f"'{name}' differs from tensor to tensor: select one, *{name}[0], or make it equal for all, *{name} in the input"
            findings.add(piece.span, text)
        case DimExpr(expr=expr) if kind_of(expr, scope) == K.VECTOR:
            findings.add(piece.span, "this is a vector of dims: write a star before it")
        case Run(name=name) if scope.get(name) in SINGLE:
            findings.add(piece.span, f"'{name}' is one dim: write {name}, without the star")
        case RunExpr(expr=expr) if kind_of(expr, scope) in SINGLE:
            findings.add(piece.span, "this is one dim: write it without the star")
        case Product(factors=factors):
            for factor in factors:
                _output_piece(operand, factor, kinds, findings)


def _members(spec: OpSpec, findings: Findings) -> None:
    """Checks that an enumeration is compared with its own members only."""
    members = {param.name: param.kind.members for param in spec.params if param.kind.base == "enum"}
    bodies: list[Node] = [*spec.shape, *spec.defines]
    bodies += [body for body in (spec.kernel, spec.procedure, spec.compose) if body is not None]
    for node in walk_all(bodies):
        if not isinstance(node, Compare):
            continue
        sides = [node.first, *(side for _, side in node.rest)]
        known = [members[side.id] for side in sides if isinstance(side, Name) and side.id in members]
        for side in sides:
            if isinstance(side, Str) and known and side.value not in known[0]:
                findings.unknown(side.span, "member", side.value, known[0])


def _truths(spec: OpSpec, kinds: Mapping[str, ValueKind], findings: Findings) -> None:
    """Checks that the argument of `int(e)` is a truth value."""
    words = {K.INT: "an integer", K.FLOAT: "a float", K.STR: "a string", K.DTYPE: "a dtype"}
    bodies: list[Node] = [*spec.shape, *spec.defines, *([spec.kernel] if spec.kernel is not None else [])]
    for node in walk_all(bodies):
        match node:
            case Call("int", (argument,), ()) if (what := words.get(kind_of(argument, kinds))) is not None:
                text = f"int() converts a truth value, but this is {what}; use floor(), i64() or the like for numbers"
                findings.add(argument.span, text)


def _static_conditions(spec: OpSpec) -> Iterator[Expr]:
    yield from _conditions(spec.shape)
    for equation in spec.kernel.equations if spec.kernel is not None else ():
        yield from equation.conditions


def _conditions(statements: tuple[Statement, ...]) -> Iterator[Expr]:
    for statement in statements:
        if isinstance(statement, If):
            yield statement.cond
            yield from _conditions(statement.then)
            yield from _conditions(statement.other)


def _must_be_static(spec: OpSpec, condition: Expr, findings: Findings) -> None:
    dims = {inner.name for operand in spec.inputs for piece in operand.signature.pieces for inner in _named(piece)}
    operands = {param.name for param in spec.dyn_params}
    tensors = {operand.name for operand in (*spec.inputs, *spec.outputs)}
    for name in deciding(condition):
        what = "a tensor" if name.id in tensors else "an operand" if name.id in operands else "a dim"
        if name.id in dims | operands | tensors:
            text = f"an `if` must depend on attributes, ranks and dtypes only, but '{name.id}' is {what}; use `a if c else b`"
            findings.add(name.span, text)
