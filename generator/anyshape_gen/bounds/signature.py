"""What a signature and a rule say, as facts at no particular shape.

In: an analysed op. Out: `OpContext`, an evaluator that knows the op's names, dims, parameters and asserts. Names of signatures are
defined where they are first asked for, statements of the rule in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.analysis_model import OpAnalysis, ValueKind
from anyshape_gen.bounds import axes as at_axes
from anyshape_gen.bounds.context import Context, implies, within
from anyshape_gen.bounds.learn import Learner
from anyshape_gen.bounds.prove import Truth
from anyshape_gen.bounds.terms import Member, Run, choose, concat, is_int
from anyshape_gen.model import (
    AtAxes,
    AtAxis,
    Dim,
    DimExpr,
    Operand,
    ParamSpec,
    Piece,
    Product,
    Ragged,
    RunExpr,
)
from anyshape_gen.model import Run as RunPiece
from anyshape_gen.nodes import Assert, Assign, Born, Expr, If, Index, Int, Name, NoneLit, Statement, VecLit

CONSTANTS = ("inf", "pi")


class OpContext(Learner):
    """One op: facts of its signature and rule, and the values of its names."""

    def __init__(self, analysis: OpAnalysis) -> None:
        self.analysis = analysis
        self.spec = analysis.spec
        self.names: dict[str, Any] = {}
        self.open: set[str] = set()
        self.shapes: dict[str, Run] = {}
        self.pieces: dict[str, tuple[Operand, int]] = {}
        functions = {f.name: f for f in (*analysis.shape_functions, *analysis.kernel_functions)}
        super().__init__(Context(self.spec.name), functions, self.name, self.shape_of)
        self._declare()
        self.eager = True
        self._statements(analysis.rule, ())
        for param in self.spec.params:
            self.name(param.name)
        self.eager = self.busy = False

    def _declare(self) -> None:
        for operand in self.spec.inputs:
            for k, piece in enumerate(operand.signature.pieces):
                for name in _names_in(piece):
                    self.pieces.setdefault(name, (operand, k))

    # --- names

    def name(self, name: str) -> Any:
        """The value of a name of the signature or the rule."""
        if name in self.names:
            return self.names[name]
        if name in CONSTANTS:
            return self.context.thing("constant", name)
        if name in self.open:
            return self.context.unknown("circular", name)
        self.open.add(name)
        eager, self.eager = self.eager, True
        try:
            param = self.spec.param(name)
            if param is not None:
                value = self._param(param)
            elif name in self.pieces:
                value = self._piece_name(name, *self.pieces[name])
            else:
                value = self._other(name)
        finally:
            self.open.discard(name)
            self.eager = eager
        self.names.setdefault(name, value)
        return self.names[name]

    def _other(self, name: str) -> Any:
        """A count, a length that a parameter solves, a size born in the kernel, or a name of the analysis."""
        kind = self.analysis.kinds.get(name)
        if kind in (ValueKind.VECTOR, ValueKind.TEXTS):
            return self.context.run(name, self.context.fresh(f"len({name})", 0))
        if kind is ValueKind.INT or kind is None:
            size = self.context.fresh(name, 0)
            born = self.analysis.kernel.born if self.analysis.kernel is not None else ()
            for b in born:
                if b.name == name:
                    self.context.fact(dims.le(size, self.integer(b.high, {})))
            return size
        return self.context.thing("name", name)

    def _param(self, param: ParamSpec) -> Any:
        base, context = param.kind.base, self.context
        if base == "enum":
            number = context.fresh(param.name, 0)
            context.fact(dims.lt(number, len(param.kind.members)))
            return Member(number, param.kind.members)
        if base == "bool":
            return dims.eq(context.fresh(param.name, 0), 1)
        if base == "int":
            return context.fresh(param.name)
        if base == "axis":
            axis = context.fresh(param.name, 0)
            self.names[param.name] = axis
            context.fact(dims.lt(axis, self._rank_of(param)))
            return axis
        if param.kind.is_vector:
            return self._vector_param(param)
        return context.thing("param", param.name)

    def _vector_param(self, param: ParamSpec) -> Any:
        context, kind = self.context, param.kind
        length: Size = self.integer(kind.length, {}) if kind.length is not None else context.fresh("len", 0)
        if kind.base == "floats":
            return Run(length, lambda p: context.thing("float", param.name, p))
        run = context.run(param.name, length, axes=kind.base == "axes", low=0 if kind.base == "axes" else None)
        self.names[param.name] = run
        if kind.base == "axes":
            rank = self._rank_of(param)
            context.everywhere(length, lambda p: dims.lt(run.at(p), rank))
            context.fact(dims.le(length, rank))
        return run

    def _rank_of(self, param: ParamSpec) -> Size:
        if param.of is not None:
            return self.integer(param.of, {})
        if not self.spec.inputs:
            return self.context.fresh("rank", 0)
        first = self.spec.inputs[0]
        return self.shape_of(first.name, 0 if first.signature.variadic else None).length

    def present(self, name: str) -> Truth:
        operand = self.spec.input(name)
        if operand is not None and not operand.signature.optional and operand.signature.default is None:
            return True
        return super().present(name)

    # --- pieces

    def _piece_name(self, name: str, operand: Operand, k: int) -> Any:
        piece = operand.signature.pieces[k]
        pieces = operand.signature.pieces
        inner = piece.dim if isinstance(piece, AtAxis) else piece.run if isinstance(piece, AtAxes) else piece
        context = self.context
        match inner:
            case Dim(optional=True):
                run = context.run(name, context.fresh(f"len({name})", 0), low=0)
                context.fact(dims.le(run.length, 1))
                return run
            case Dim(element=str()):
                return context.run(name, self._count(operand), low=0)
            case Dim():
                return context.fresh(name, 0)
            case RunPiece(element=str()):
                return self._runs(name, operand)
            case RunPiece():
                return context.run(name, self._run_length(inner, piece, pieces, k), low=0)
            case Product(factors=factors):
                return self._factor(name, factors)
        return context.fresh(name)

    def _runs(self, name: str, operand: Operand) -> Run:
        """A list of runs, one for each tensor."""
        context = self.context
        known: dict[Size, Run] = {}

        def of(v: Size) -> Run:
            if v not in known:
                known[v] = context.run(f"{name}[{v}]", context.unknown("len", name, v, low=0), low=0)
            return known[v]

        return Run(self._count(operand), of)

    def _count(self, operand: Operand) -> Size:
        variadic = operand.signature.variadic
        return self.integer(variadic.count, {}) if variadic is not None else 1

    def _run_length(self, run: RunPiece, piece: Piece, pieces: Sequence[Piece], k: int) -> Size:
        if isinstance(piece, AtAxes):
            return self._axes(piece.axes).length
        if run.length is not None:
            return self.integer(run.length, {})
        following = pieces[k + 1] if k + 1 < len(pieces) else None
        if isinstance(following, AtAxis) and k == 0:
            return self.integer(following.axis, {})
        return self.context.fresh(f"len({run.name})", 0)

    def _factor(self, name: str, factors: tuple[Dim | DimExpr, ...]) -> Size:
        """A factor of a product dim: the last one open is the quotient, which is negative where the others are."""
        parameter = any(isinstance(f, Dim) and self.spec.param(f.name) for f in factors)
        plain = not parameter and all(isinstance(f, Dim) for f in factors)
        factor = self.context.fresh(name, 0 if plain else None)
        self.names[name] = factor
        product: Size = 1
        for f in factors:
            product = product * (self.integer(Name(f.name), {}) if isinstance(f, Dim) else self.integer(f.expr, {}))
        self.context.fact(dims.ge(product, 0))
        return factor

    def _axes(self, e: Expr) -> Run:
        v = self.value(e, {})
        return v if isinstance(v, Run) else concat([v])

    # --- shapes

    def shape_of(self, name: str, element: Any) -> Run:
        """The shape of an input or output as one vector."""
        key = name if element is None else f"{name}[{element}]"
        if key not in self.shapes:
            found = next((o for o in (*self.spec.inputs, *self.spec.outputs) if o.name == name), None)
            if found is None:
                return self.vector(Name(name), {})
            self.shapes[key] = self.shape_from(found.signature.pieces, element)
        return self.shapes[key]

    def shape_from(self, pieces: Sequence[Piece], element: Any) -> Run:
        plain = concat([self.piece_dims(p, element) for p in pieces if not isinstance(p, AtAxes)])
        for p in pieces:
            if isinstance(p, AtAxes):
                inner = Name(p.run.name) if isinstance(p.run, RunPiece) else p.run.expr
                axes = self._axes(p.axes)
                picked = self.value(inner, {})
                plain = at_axes.place(self.context, plain, picked, axes)
        return plain

    def piece_dims(self, piece: Piece, element: Any) -> Any:
        """The dims of a piece: a vector, or one size."""
        if isinstance(piece, AtAxis):
            piece = piece.dim
        match piece:
            case Dim(name=name, element=None):
                return self.value(Name(name), {})
            case Dim(name=name) | RunPiece(name=name, element=str()):
                return self.value(Index(Name(name), (Name("<v>"),)), {"<v>": 0 if element is None else element})
            case RunPiece(name=name):
                return self.value(Name(name), {})
            case DimExpr(expr=expr) | RunExpr(expr=expr):
                return self.value(expr, {})
            case Product(factors=factors):
                product: Size = 1
                for f in factors:
                    product = product * self.integer(Name(f.name) if isinstance(f, Dim) else f.expr, {})
                return product
            case Ragged(size=size):
                return self.context.unknown("sum", self.value(Name(size.name), {}), low=0)
        return self.context.fresh("piece", 0)

    # --- the rule

    def _statements(self, statements: tuple[Statement, ...], given: tuple[Truth, ...]) -> None:
        for s in statements:
            match s:
                case Assign(names=(name,), value=value):
                    self._assign(name, self.value(value, {}), given)
                case Assign(names=names, value=VecLit(items=items)) if len(items) == len(names):
                    values = [self.value(i, {}) for i in items]
                    for name, v in zip(names, values):
                        self._assign(name, v, given)
                case Assign(names=names, value=value):
                    run = self.value(value, {})
                    for k, name in enumerate(names):
                        self._assign(name, run.at(k) if isinstance(run, Run) else self.value(Int(k), {}), given)
                case Assert(cond=cond):
                    self.learn(cond, {}, given)
                case If(cond=cond, then=then, other=other):
                    c = self.truth(cond, {})
                    self._statements(then, (*given, c))
                    self._statements(other, (*given, dims.not_(c)))
                case Born(name=name, low=low, high=high):
                    size = self.context.fresh(name)
                    self.names[name] = size
                    self.context.fact(dims.ge(size, self.integer(low, {})))
                    self.context.fact(dims.le(size, self.integer(high, {})))

    def _assign(self, name: str, value: Any, given: tuple[Truth, ...]) -> None:
        if given and name in self.names:
            value = choose(dims.and_(*given), value, self.names[name])
        self.names[name] = value

    def _quotient(self, x: Size, y: Size) -> Size:
        """exact_div in the rule is checked: the product gives the dividend back."""
        if not self.eager or Run.asked:
            return super()._quotient(x, y)
        found = self.context.unknown("exact_div", x, y)
        self.context.fact(dims.eq(found * y, x))
        return found


def _names_in(piece: Piece) -> list[str]:
    match piece:
        case Dim(name=name) | RunPiece(name=name):
            return [name]
        case AtAxis(dim=inner):
            return _names_in(inner)
        case AtAxes(run=inner):
            return _names_in(inner)
        case Product(factors=factors):
            return [f.name for f in factors if isinstance(f, Dim)]
    return []


__all__ = ["NoneLit", "OpContext", "implies", "is_int", "within"]
