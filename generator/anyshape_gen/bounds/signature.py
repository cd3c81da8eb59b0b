"""Evaluates a signature and a rule to values and facts that are valid for all shapes.

In: an analysed op, and perhaps a call of it. Out: `OpNames`, with the op's names, dims, parameters and asserts. Names of
signatures are evaluated when they are first read, statements of the rule in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.bounds import axes as at_axes
from anyshape_gen.bounds.context import Context
from anyshape_gen.bounds.evaluate import integer, term, truth, vector
from anyshape_gen.bounds.learn import learn
from anyshape_gen.bounds.state import State
from anyshape_gen.bounds.terms import Member, Run, Truth, choose, concat
from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.nodes import Assert, Assign, Expr, If, Index, Name, Statement, Unbacked, VecLit
from anyshape_gen.model.spec import (
    AtAxes,
    AtAxis,
    Dim,
    DimExpr,
    Operand,
    OpSpec,
    ParamSpec,
    Piece,
    Product,
    Ragged,
    RunExpr,
)
from anyshape_gen.model.spec import Run as RunPiece

CONSTANTS = ("inf", "pi")


class OpNames:
    """The values of one op's names, and in its context the facts of its signature and rule. For a call, names that it binds are
    numbers, and the rule is decided."""

    def __init__(self, analysis: OpAnalysis, call: Mapping[str, Any] | None = None) -> None:
        self.analysis, self.spec, self.call = analysis, analysis.spec, call
        self.values: dict[str, Any] = {}
        self.open: set[str] = set()
        self.shapes: dict[str, Run] = {}
        self.pieces = pieces_by_name(self.spec)
        self.context = context = Context(self.spec.name)
        functions = {f.name: f for f in (*analysis.shape_functions, *analysis.kernel_functions)}
        self.state = State(
            context, functions, self, lambda node, env: context.opaque_value("read", node, *env.values())
        )
        with self.state.evaluated(True):
            self._statements(analysis.rule if call is None else (), ())
            for param in self.spec.params:
                self.name(param.name)
        self.state.busy = False

    # --- names

    def name(self, name: str) -> Any:
        """Returns the value of a name of the signature or the rule."""
        if name in self.values:
            return self.values[name]
        if self.call is not None and name in self.call:
            self.values[name] = self._number(name, self.call[name])
            return self.values[name]
        if name in CONSTANTS:
            return self.context.opaque_value("constant", name)
        if name in self.open:
            return self.context.unknown("circular", name)
        self.open.add(name)
        param = self.spec.param(name)
        try:
            with self.state.evaluated(True):
                if param is not None:
                    value = self._param(param)
                elif name in self.pieces:
                    value = self._piece_name(name, *self.pieces[name])
                else:
                    value = self._other(name)
        finally:
            self.open.discard(name)
        return self.values.setdefault(name, value)

    def _number(self, name: str, v: Any) -> Any:
        """Converts the value that a call binds to a name."""
        param = self.spec.param(name)
        if isinstance(v, str) and param is not None and param.kind.base == "enum":
            return Member(param.kind.members.index(v), param.kind.members)
        return _numbers(v) if isinstance(v, (tuple, list)) else v

    def _other(self, name: str) -> Any:
        """Returns the value of a count, of a length that a parameter solves, of a data-dependent size, or of a name of the analysis."""
        kind = self.analysis.kinds.get(name)
        if kind in (ValueKind.VECTOR, ValueKind.TEXTS):
            return self.context.run(name, self.context.fresh(f"len({name})", 0))
        if kind is ValueKind.INT or kind is None:
            size = self.context.fresh(name, 0)
            unbacked = self.analysis.kernel.unbacked if self.analysis.kernel is not None else ()
            for b in unbacked:
                if b.name == name:
                    self.context.fact(dims.le(size, integer(self.state, b.high, {})))
            return size
        return self.context.opaque_value("name", name)

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
            self.values[param.name] = axis
            context.fact(dims.lt(axis, self._rank_of(param)))
            return axis
        if param.kind.is_vector:
            return self._vector_param(param)
        return context.opaque_value("param", param.name)

    def _vector_param(self, param: ParamSpec) -> Any:
        context, kind = self.context, param.kind
        length: Size = integer(self.state, kind.length, {}) if kind.length is not None else context.fresh("len", 0)
        if kind.base == "floats":
            return Run(length, lambda p: context.opaque_value("float", param.name, p))
        run = context.run(param.name, length, axes=kind.base == "axes", low=0 if kind.base == "axes" else None)
        self.values[param.name] = run
        if kind.base == "axes":
            rank = self._rank_of(param)
            context.everywhere(length, lambda p: dims.lt(run.at(p), rank))
            context.fact(dims.le(length, rank))
        return run

    def _rank_of(self, param: ParamSpec) -> Size:
        if param.of is not None:
            return integer(self.state, param.of, {})
        if not self.spec.inputs:
            return self.context.fresh("rank", 0)
        first = self.spec.inputs[0]
        return self.shape_of(first.name, 0 if first.signature.variadic else None).length

    def present(self, name: str) -> Truth:
        if self.call is not None:
            return self.call.get(name) is not None
        operand = self.spec.input(name)
        if operand is not None and not operand.signature.optional and operand.signature.default is None:
            return True
        return self.context.undecided("present", name)

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
        """Returns a list of runs, one for each tensor."""
        context = self.context
        known: dict[Size, Run] = {}

        def of(v: Size) -> Run:
            if v not in known:
                known[v] = context.run(f"{name}[{v}]", context.unknown("len", name, v, low=0), low=0)
            return known[v]

        return Run(self._count(operand), of)

    def _count(self, operand: Operand) -> Size:
        variadic = operand.signature.variadic
        return integer(self.state, variadic.count, {}) if variadic is not None else 1

    def _run_length(self, run: RunPiece, piece: Piece, pieces: Sequence[Piece], k: int) -> Size:
        if isinstance(piece, AtAxes):
            return self.axes(piece.axes).length
        if run.length is not None:
            return integer(self.state, run.length, {})
        following = pieces[k + 1] if k + 1 < len(pieces) else None
        if isinstance(following, AtAxis) and k == 0:
            return integer(self.state, following.axis, {})
        return self.context.fresh(f"len({run.name})", 0)

    def _factor(self, name: str, factors: tuple[Dim | DimExpr, ...]) -> Size:
        """Solves a product dim for its last unknown factor; that is the quotient, which is negative where the known factors are."""
        parameter = any(isinstance(f, Dim) and self.spec.param(f.name) for f in factors)
        plain = not parameter and all(isinstance(f, Dim) for f in factors)
        factor = self.context.fresh(name, 0 if plain else None)
        self.values[name] = factor
        product: Size = 1
        for f in factors:
            product = product * integer(self.state, Name(f.name) if isinstance(f, Dim) else f.expr, {})
        self.context.fact(dims.ge(product, 0))
        return factor

    def axes(self, e: Expr) -> Run:
        v = term(self.state, e, {})
        return v if isinstance(v, Run) else concat([v])

    # --- shapes

    def shape_of(self, name: str, element: Any) -> Run:
        """Returns the shape of an input or output as one vector."""
        key = name if element is None else f"{name}[{element}]"
        if key not in self.shapes:
            operand = next((o for o in (*self.spec.inputs, *self.spec.outputs) if o.name == name), None)
            if operand is None:
                return vector(self.state, Name(name), {})
            self.shapes[key] = self._shape_from(operand.signature.pieces, element)
        return self.shapes[key]

    def _shape_from(self, pieces: Sequence[Piece], element: Any) -> Run:
        plain = concat([self._piece_dims(p, element) for p in pieces if not isinstance(p, AtAxes)])
        for p in pieces:
            if isinstance(p, AtAxes):
                inner = Name(p.run.name) if isinstance(p.run, RunPiece) else p.run.expr
                axes = self.axes(p.axes)
                picked = term(self.state, inner, {})
                plain = at_axes.place(self.context, plain, picked, axes)
        return plain

    def _piece_dims(self, piece: Piece, element: Any) -> Any:
        """Returns the dims of a piece: a vector, or one size."""
        if isinstance(piece, AtAxis):
            piece = piece.dim
        match piece:
            case Dim(name=name, element=None):
                return term(self.state, Name(name), {})
            case Dim(name=name) | RunPiece(name=name, element=str()):
                return term(self.state, Index(Name(name), (Name("<v>"),)), {"<v>": 0 if element is None else element})
            case RunPiece(name=name):
                return term(self.state, Name(name), {})
            case DimExpr(expr=expr) | RunExpr(expr=expr):
                return term(self.state, expr, {})
            case Product(factors=factors):
                product: Size = 1
                for f in factors:
                    product = product * integer(self.state, Name(f.name) if isinstance(f, Dim) else f.expr, {})
                return product
            case Ragged(size=size):
                return self.context.unknown("sum", term(self.state, Name(size.name), {}), low=0)
        return self.context.fresh("piece", 0)

    # --- the rule

    def _statements(self, statements: tuple[Statement, ...], hypotheses: tuple[Truth, ...]) -> None:
        for s in statements:
            match s:
                case Assign(names=(name,), value=value):
                    self._assign(name, term(self.state, value, {}), hypotheses)
                case Assign(names=names, value=VecLit(items=items)) if len(items) == len(names):
                    values = [term(self.state, i, {}) for i in items]
                    for name, v in zip(names, values):
                        self._assign(name, v, hypotheses)
                case Assign(names=names, value=value):
                    run = vector(self.state, value, {})
                    for k, name in enumerate(names):
                        self._assign(name, run.at(k), hypotheses)
                case Assert(cond=cond):
                    learn(self.state, cond, {}, hypotheses)
                case If(cond=cond, then=then, other=other):
                    c = truth(self.state, cond, {})
                    self._statements(then, (*hypotheses, c))
                    self._statements(other, (*hypotheses, dims.not_(c)))
                case Unbacked(name=name, low=low, high=high):
                    size = self.context.fresh(name)
                    self.values[name] = size
                    self.context.fact(dims.ge(size, integer(self.state, low, {})))
                    self.context.fact(dims.le(size, integer(self.state, high, {})))

    def _assign(self, name: str, value: Any, hypotheses: tuple[Truth, ...]) -> None:
        if hypotheses and name in self.values:
            value = choose(dims.and_(*hypotheses), value, self.values[name])
        self.values[name] = value


def pieces_by_name(spec: OpSpec) -> dict[str, tuple[Operand, int]]:
    """Maps each name that the inputs' signatures define to its operand and the number of its piece."""
    places: dict[str, tuple[Operand, int]] = {}
    for operand in spec.inputs:
        for k, piece in enumerate(operand.signature.pieces):
            for name in _names_in(piece):
                places.setdefault(name, (operand, k))
    return places


def _numbers(v: tuple[Any, ...] | list[Any]) -> Run:
    """Makes a vector of numbers, or of vectors of numbers."""
    items = [_numbers(x) if isinstance(x, (tuple, list)) else x for x in v]

    def item(p: Size) -> Any:
        if isinstance(p, int):
            return items[p] if 0 <= p < len(items) else 0
        number: Any = items[-1] if items else 0
        for k in range(len(items) - 2, -1, -1):
            number = choose(dims.eq(p, k), items[k], number)
        return number

    return Run(len(items), item, axes=True, nonnegative=all(isinstance(x, int) and x >= 0 for x in items))


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
