"""Builds shapes of outputs, as vector expressions over names of the signature and of the rule.

In: an `OpSpec` and the kinds of its names. Out: one `OutputShape` per output.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.model.analysis import OutputShape, ValueKind
from anyshape_gen.model.build import call, multiply, vector
from anyshape_gen.model.nodes import Expr, Item, Name, Star
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, DimExpr, Operand, OpSpec, Piece, Product, Ragged, Run, RunExpr
from anyshape_gen.resolve.kinds import kind_of


def output_shape(spec: OpSpec, output: Operand, kinds: Mapping[str, ValueKind]) -> OutputShape:
    """Builds the shape of one output; `shape(x)` where an input has the same pieces in the same order."""
    signature = output.signature
    variadic = signature.variadic
    shape = _same_as_input(spec, output) or pieces_shape(signature.pieces, kinds)
    if variadic is None:
        return OutputShape(output.name, shape, span=signature.span)
    return OutputShape(output.name, shape, variadic.var, variadic.count, span=signature.span)


def _same_as_input(spec: OpSpec, output: Operand) -> Expr | None:
    pieces = tuple(_bare(piece) for piece in output.signature.pieces)
    if not pieces or output.signature.variadic or not all(isinstance(piece, (Dim, Run)) for piece in pieces):
        return None
    for operand in spec.inputs:
        signature = operand.signature
        plain = signature.variadic is None and signature.default is None and not signature.optional
        if plain and tuple(_bare(piece) for piece in signature.pieces) == pieces:
            return call("shape", Name(operand.name))
    return None


def _bare(piece: Piece) -> Piece:
    if isinstance(piece, AtAxis):
        return piece.dim
    return Run(piece.name) if isinstance(piece, Run) else piece


def pieces_shape(pieces: tuple[Piece, ...], kinds: Mapping[str, ValueKind]) -> Expr:
    """Builds the vector of the dims of these pieces."""
    rest = vector(tuple(_item(piece) for piece in pieces if not isinstance(piece, AtAxes)))
    for piece in pieces:
        if isinstance(piece, AtAxes):
            rest = call("place", rest, picked_dims(piece, kinds), piece.axes)
    return rest


def picked_dims(piece: AtAxes, kinds: Mapping[str, ValueKind]) -> Expr:
    """Builds the vector of the dims at the axes; a scalar (`*1@kept`) stands for one dim for each axis."""
    value: Expr = Name(piece.run.name) if isinstance(piece.run, Run) else piece.run.expr
    if kind_of(value, kinds) == ValueKind.INT:
        return call("fill", call("len", piece.axes), value)
    return value


def _item(piece: Piece) -> Item:
    match piece:
        case Dim(name=name, optional=True) | Run(name=name):
            return Star(Name(name))
        case Dim(name=name) | AtAxis(dim=Dim(name=name)):
            return Name(name)
        case DimExpr(expr=expr) | AtAxis(dim=DimExpr(expr=expr)):
            return expr
        case RunExpr(expr=expr):
            return Star(expr)
        case Product(factors=factors):
            return multiply(factor_exprs(factors))
        case Ragged(size=size):
            return call("sum", Name(size.name))
    raise TypeError(f"{type(piece).__name__} has no place in a shape")


def factor_exprs(factors: tuple[Dim | DimExpr, ...]) -> tuple[Expr, ...]:
    return tuple(Name(factor.name) if isinstance(factor, Dim) else factor.expr for factor in factors)
