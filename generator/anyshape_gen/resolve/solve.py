"""Solves a signature: orders the steps by which the dims, runs and parameters of a call become known.

In: an `OpSpec`. Out: `SolveStep`s that an emitter prints one by one, and findings about names that cannot be solved.
Pieces of an input are tasks; a task is solved as soon as the names that it reads are known, so inputs are matched in any order
that solves them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyshape_gen.model.analysis import AtLeastOne, BindParam, Define, Equal, ForEach, IfPresent, RankCheck, SolveStep
from anyshape_gen.model.build import add, call, multiply, subtract
from anyshape_gen.model.nodes import (
    BinOp,
    Comprehension,
    Expr,
    Generator,
    Index,
    Int,
    Name,
    NoneLit,
    Over,
    Target,
    VecLit,
)
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings
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
    Run,
    RunExpr,
)
from anyshape_gen.model.traverse import free_names, rebuild
from anyshape_gen.resolve.piece_layout import PieceLayout, PieceTask


@dataclass
class _State:
    known: set[str]
    steps: list[SolveStep] = field(default_factory=list)


def piece_names(operand: Operand) -> set[str]:
    """Collects the names of dims and runs that the pieces of an operand may define."""
    names_of_pieces: set[str] = set()
    for piece in operand.signature.pieces:
        match piece:
            case Dim(name=name) | Run(name=name) | AtAxis(dim=Dim(name=name)) | AtAxes(run=Run(name=name)):
                names_of_pieces.add(name)
            case Product(factors=factors):
                names_of_pieces |= {factor.name for factor in factors if isinstance(factor, Dim)}
    return names_of_pieces


def linear(e: Expr, name: str) -> tuple[Expr | None, Expr | None]:
    """The factor and the rest of e = factor * name + rest; None where it is not of that form."""
    if name not in free_names(e):
        return Int(0), e
    match e:
        case Name():
            return Int(1), Int(0)
        case BinOp(op="+" | "-" as op, left=left, right=right):
            (a, b), (c, d) = linear(left, name), linear(right, name)
            if a is None or b is None or c is None or d is None or (a != Int(0) and c != Int(0)):
                return None, None
            if c != Int(0):
                a = c if op == "+" else BinOp("-", Int(0), c)
            return a, add(b, d) if op == "+" else subtract(b, d)
        case BinOp(op="*", left=left, right=right):
            inside, factor = (left, right) if name in free_names(left) else (right, left)
            a, b = linear(inside, name)
            if a is None or b is None or name in free_names(factor):
                return None, None
            return multiply((a, factor)), Int(0) if b == Int(0) else multiply((b, factor))
    return None, None


T = TypeVar("T")


class Solver:
    """Solves one op's signature."""

    def __init__(self, spec: OpSpec, findings: Findings) -> None:
        self.spec = spec
        self.findings = findings
        self.tensors = {operand.name for operand in spec.inputs}
        self.state = _State(set(self.tensors))
        self.waiting_params = list(spec.params)
        required = [o for o in spec.inputs if not _optional(o)]
        self.waiting_operands = required
        self.optional = [o for o in spec.inputs if _optional(o)]
        self.tasks: list[PieceTask] = []
        from_inputs = {name for operand in spec.inputs for name in piece_names(operand)}
        counts = {name for o in spec.inputs if (name := _open_count(o))}
        self.definable = from_inputs | counts | {param.name for param in spec.params}

    def solve(self) -> tuple[SolveStep, ...]:
        """Returns all steps, in an order in which every name is known before it is used."""
        self._run()
        while self.optional:
            self._solve_optional(self.optional.pop(0))
            self._run()
        self._report()
        return tuple(self.state.steps)

    @property
    def known(self) -> set[str]:
        return self.state.known

    def _run(self) -> None:
        moved = True
        while moved:
            moved = any([*self._take(self.waiting_params, self._bind), *self._take(self.tasks, self._piece)])
            moved |= any(self._take(self.waiting_operands, self._locate))

    def _take(self, waiting: list[T], attempt: Callable[[T], bool]) -> list[bool]:
        done = []
        for task in list(waiting):
            if attempt(task):
                waiting.remove(task)
                done.append(True)
        return done

    # --- parameters
    # -------------------------------------------------------------------------------------------------------

    def _bind(self, param: ParamSpec) -> bool:
        default = None if isinstance(param.default, NoneLit) else param.default
        length, opens = param.kind.length, None
        if isinstance(length, Name) and length.id not in self.known and length.id not in self.definable:
            # An open length is solved by the first required parameter.
            if default is not None and length.id in free_names(default):
                return False
            opens, length = length.id, None
        parts = (default, param.of, param.empty, length)
        needed = set().union(*(free_names(e) for e in parts if e is not None)) - {param.name}
        if not self._knows(needed):
            return False
        of = param.of
        if of is None and param.kind.base in ("axis", "axes"):
            first = self.spec.inputs[0] if self.spec.inputs else None
            of = call("rank", _tensor(first, Int(0))) if first else None
        self.state.steps.append(BindParam(param, param.default, of, opens, length, span=param.span))
        self.known.update({param.name, *([opens] if opens else [])})
        return True

    def _knows(self, names: set[str]) -> bool:
        return names <= self.known | {"inf", "pi"}

    # --- operands
    # ---------------------------------------------------------------------------------------------------------

    def _solve_optional(self, operand: Operand) -> None:
        """Puts the steps of an optional operand under a condition; runs that only it defines are empty when it is absent."""
        outer, self.state = self.state, _State(set(self.known))
        self.waiting_operands.append(operand)
        self._run()
        inner, self.state = self.state, outer
        absent = []
        for name in sorted((inner.known - outer.known) & piece_names(operand)):
            absent.append(Define(name, VecLit(()), span=operand.span))
            if name not in _runs(operand):
                text = f"dim '{name}' is known only from the optional input '{operand.name}'"
                self.findings.add(operand.signature.span, text)
        self.state.steps.append(IfPresent(operand.name, tuple(inner.steps), tuple(absent), span=operand.span))
        self.known.update(inner.known)

    def _locate(self, operand: Operand) -> bool:
        """Locates every piece of an operand; False while a length is not known or two runs are open."""
        variadic = operand.signature.variadic
        element = Name(variadic.var) if variadic else Int(0)
        base = _base(operand, element)
        located = PieceLayout(operand, base, self.known).locate()
        if located is None:
            return False
        tasks, rank, most, extra = located
        check = RankCheck(operand.name, variadic.var if variadic else None, rank, most, span=operand.span)
        checks: list[SolveStep] = [check] if most is not None or rank != Int(0) else []
        if variadic is None:
            self.state.steps += [*checks, *extra]
            self.known.update(step.name for step in extra)
            self.tasks += tasks
            return True
        return self._variadic(operand, tasks, checks)

    def _variadic(self, operand: Operand, tasks: list[PieceTask], checks: list[SolveStep]) -> bool:
        variadic = operand.signature.variadic
        assert variadic is not None
        number = call("len", Name(operand.name))
        steps = self.state.steps
        if isinstance(variadic.count, Name) and variadic.count.id not in self.known:
            steps.append(Define(variadic.count.id, number, span=variadic.span))
            self.known.add(variadic.count.id)
        else:
            steps.append(Equal(variadic.count, number, f"the number of {operand.name}", span=variadic.span))
        steps.append(AtLeastOne(operand.name, span=operand.span))
        each: list[SolveStep] = list(checks)
        if checks:
            steps.append(ForEach(variadic.var, variadic.count, tuple(checks), span=operand.span))
        each = []
        for task in tasks:
            name = _named(task.piece)
            if name is None:
                self.findings.add(task.piece.span, "a dim of a variadic input must be a name")
            elif name.element is not None:
                loop = Generator((Target(variadic.var),), call("range", variadic.count), over=Over.RANGE)
                steps.append(Define(name.name, Comprehension(task.value, (loop,)), span=task.piece.span))
                self.known.add(name.name)
            else:
                if name.name not in self.known:
                    first = _substituted(task.value, variadic.var)
                    steps.append(Define(name.name, first, span=task.piece.span))
                    self.known.add(name.name)
                what = f"{name.name} of {operand.name}"
                each.append(Equal(Name(name.name), task.value, what, span=task.piece.span))
        if each:
            steps.append(ForEach(variadic.var, variadic.count, tuple(each), span=operand.span))
        return True

    # --- pieces
    # -----------------------------------------------------------------------------------------------------------

    def _piece(self, task: PieceTask) -> bool:
        piece = task.piece
        if isinstance(piece, (AtAxis, AtAxes)):
            piece = piece.dim if isinstance(piece, AtAxis) else piece.run
        match piece:
            case Dim(name=name) | Run(name=name):
                self._define_or_equal(Name(name, span=piece.span), task)
                return True
            case DimExpr(expr=expr) | RunExpr(expr=expr):
                unknown = free_names(expr) - self.known - {"inf", "pi"}
                if isinstance(piece, DimExpr) and len(unknown) == 1 and not unknown & self.definable:
                    (unsolved,) = unknown
                    return self._solved(unsolved, expr, task)
                if unknown:
                    return False
                self._equal(expr, task)
                return True
            case Product(factors=factors):
                return self._product(factors, task)
            case Ragged():
                self.findings.add(piece.span, "a ragged dim `(v, n[v])` can only be in an output")
                return True
        return False

    def _define_or_equal(self, name: Name, task: PieceTask) -> None:
        if name.id in self.known:
            self._equal(name, task)
        else:
            self.state.steps.append(Define(name.id, task.value, span=name.span))
            self.known.add(name.id)

    def _equal(self, left: Expr, task: PieceTask) -> None:
        what = f"{_words(task.piece)} of {task.operand.name}"
        self.state.steps.append(Equal(left, task.value, what, span=task.piece.span))

    def _solved(self, name: str, expr: Expr, task: PieceTask) -> bool:
        """Solves a dim for the one name in it that nothing else tells: n of `2 * n + k`, whose division must leave nothing."""
        if not self._knows(free_names(expr) - {name}):
            return False
        factor, rest = linear(expr, name)
        if factor is None or rest is None:
            return False
        value = subtract(task.value, rest)
        value = value if factor == Int(1) else call("exact_div", value, factor)
        self.state.steps.append(Define(name, value, span=task.piece.span))
        self.known.add(name)
        what = f"{to_text(expr)} of {task.operand.name}"
        self.state.steps.append(Equal(expr, task.value, what, span=task.piece.span))
        return True

    def _product(self, factors: tuple[Dim | DimExpr, ...], task: PieceTask) -> bool:
        unknown = [f for f in factors if isinstance(f, Dim) and f.name not in self.known]
        computed = [f.expr for f in factors if isinstance(f, DimExpr)]
        if len(unknown) > 1 or not all(self._knows(free_names(expr)) for expr in computed):
            return False
        values = tuple(_factor(f) for f in factors if f not in unknown)
        if unknown:
            quotient = call("exact_div", task.value, multiply(values))
            self.state.steps.append(Define(unknown[0].name, quotient, span=task.piece.span))
            self.known.add(unknown[0].name)
        else:
            self._equal(multiply(values), task)
        return True

    # --- names that are not solved
    # ----------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        for param in self.waiting_params:
            parts = [e for e in (param.default, param.of, param.empty, param.kind.length) if e is not None]
            missing = set().union(*(free_names(e) for e in parts)) - self.known - {param.name}
            if missing <= self.definable:
                text = f"parameter '{param.name}' cannot be solved: it depends on {_listed(missing)}"
                self.findings.add(param.span, text, self.known)
        for operand in self.waiting_operands:
            text = f"the dims of '{operand.name}' are ambiguous; give a run its length: `*o:len`"
            self.findings.add(operand.signature.span, text, self.known)
        for task in self.tasks:
            match task.piece:
                case Product(factors=factors):
                    open_ = [f.name for f in factors if isinstance(f, Dim) and f.name not in self.known]
                    missing = set().union(*(free_names(f) for f in factors)) - self.known - set(open_)
                    text = f"only one factor of a product can be unknown; here {_listed(open_)} are"
                    if missing:
                        text = f"nothing says what {_listed(missing)} {'is' if len(missing) == 1 else 'are'} in a factor of this product"
                    elif len(open_) < 2:
                        text = "this product cannot be solved: none of its factors is open, or what it is compared with is not known"
                    self.findings.add(task.piece.span, text, self.known)


def _optional(operand: Operand) -> bool:
    return operand.signature.optional or operand.signature.default is not None


def _open_count(operand: Operand) -> str:
    """Returns the name of a variadic's number of tensors; empty where that is no name."""
    variadic = operand.signature.variadic
    return variadic.count.id if variadic is not None and isinstance(variadic.count, Name) else ""


def _base(operand: Operand, element: Expr) -> Expr:
    """Builds `shape(x)`, or `shape(xs[v])` of a variadic."""
    return call("shape", _tensor(operand, element))


def _tensor(operand: Operand, element: Expr) -> Expr:
    name = Name(operand.name)
    return Index(name, (element,)) if operand.signature.variadic else name


def _runs(operand: Operand) -> set[str]:
    names = set()
    for piece in operand.signature.pieces:
        inner = piece.run if isinstance(piece, AtAxes) else piece
        if isinstance(inner, Run) or (isinstance(inner, Dim) and inner.optional):
            names.add(inner.name)
    return names


def _named(piece: Piece) -> Dim | Run | None:
    inner = piece.dim if isinstance(piece, AtAxis) else piece.run if isinstance(piece, AtAxes) else piece
    return inner if isinstance(inner, (Dim, Run)) else None


def _factor(factor: Dim | DimExpr) -> Expr:
    return Name(factor.name) if isinstance(factor, Dim) else factor.expr


def _substituted(value: Expr, var: str) -> Expr:
    """Substitutes element 0 of a variadic for its variable."""

    def change(node: Expr) -> Expr:
        return Int(0) if node == Name(var) else rebuild(node, change)

    return change(value)


def _words(piece: Piece) -> str:
    named = _named(piece)
    if named is not None:
        return named.name
    match piece:
        case DimExpr(expr=expr) | RunExpr(expr=expr):
            return to_text(expr)
        case Product(factors=factors):
            return " * ".join(to_text(_factor(f)) for f in factors)
    return "a dim"


def _listed(names: set[str] | list[str]) -> str:
    return " and ".join(f"'{name}'" for name in sorted(names))
