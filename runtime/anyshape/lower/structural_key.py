"""The form of a group: what a kernel for it depends on, without the names of anything.

In: a group. Out: words that are equal for groups of one form, and what the numbers in them stand for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Atom, Cond, Dim, Size
from anyshape.dtypes import literal_key
from anyshape.equations import Compaction, Demand, Equation, RecurrenceStep, Run, Sorting, Tensor, Update
from anyshape.equations.builder import Form as EquationForm
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var
from anyshape.equations.program import Action, Leave, Let, Order, Put, blocks_of, expressions_of
from anyshape.kernel_model.contractions import is_of_scales, is_of_zeros
from anyshape.lower.kernel import LITERAL_BYTES, Group, Origin, is_finite, magnitude_bound

Form = tuple[Any, ...]


def _constant(a: NDArray[Any]) -> Form:
    if a.nbytes <= LITERAL_BYTES:
        return a.shape, a.dtype.name, a.tobytes()
    if a.dtype.kind in "fV" and a.ndim > 2:
        return a.shape, a.dtype.name, is_of_scales(a), is_finite(a)
    return a.shape, a.dtype.name, is_of_zeros(a), is_of_scales(a), magnitude_bound(a)


class StructuralKeyWriter:
    """Writes every expression once, after its parts, as a word of `words`; its number is the place of its word."""

    def __init__(self) -> None:
        self.words: list[Any] = []
        self.tensors: dict[Tensor, int] = {}
        self.numbers: dict[Expr, int] = {}
        self.symbols: dict[Atom, int] = {}
        self._sizes: dict[Dim | Cond, Form] = {}

    def group(self, group: Group) -> Form:
        border = [self.tensor(t) for t in (*group.inputs, *group.outputs)]
        for q in group.equations:
            self.equation(q)
        constants = tuple((self.tensor(t), *_constant(a)) for t, a in group.constants.items())
        return (tuple(border), len(group.inputs), constants, tuple(self.words), self.order_of_symbols())

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(a.dim for a in self.symbols)

    def size(self, n: Size | Cond | bool) -> Any:
        """A size with its symbols by number, its terms in their order."""
        if not isinstance(n, Dim | Cond):
            return n
        known = self._sizes.get(n)
        if known is None:
            known = self._sizes[n] = self._polynomial(n) if isinstance(n, Dim) else (n.kind, *map(self.size, n.args))
        return known

    def _polynomial(self, n: Dim) -> Form:
        return tuple((*map(self._atom, monomial), factor) for monomial, factor in n.terms)

    def _atom(self, a: Atom) -> Form:
        if a.kind != "symbol":
            return (a.kind, *map(self.size, a.args))
        return (self.symbols.setdefault(a, len(self.symbols)), a.low, a.high)

    def order_of_symbols(self) -> Form:
        """The order of the symbols' names, in which the terms of sums and products are: another order may give another text."""
        return tuple(sorted(range(len(self.symbols)), key=[a.order for a in self.symbols].__getitem__))

    def messages(self, group: Group) -> Form:
        """Parts of the messages about the equations; where a source is no equation, all names that may be spelled in its place."""
        origins = ((q.source, group.origins.get(q, Origin(group.name))) for q in group.equations)
        own = tuple(
            (source, o.op, o.source, *((self.tensors.get(t), n) for t, n in o.names.items())) for source, o in origins
        )
        return own if all("[" in q.source for q in group.equations) else (*own, *self._names())

    def _names(self) -> Form:
        variables = (e.name for e in self.numbers if isinstance(e, Var))
        return (*(t.name for t in self.tensors), *(a.name for a in self.symbols), *variables)

    def word(self, *parts: Any) -> int:
        self.words.append(parts)
        return len(self.words) - 1

    def tensor(self, t: Tensor) -> int:
        if t not in self.tensors:
            self.tensors[t] = len(self.tensors)
            self.word("tensor", t.dtype, *map(self.size, t.shape))
        return self.tensors[t]

    def equation(self, q: Equation) -> None:
        left = (self.tensor(q.target), *self.all(q.index))
        self.word("=", *left, *self.all(q.variables), self.expression(q.value), *self.form(q.form))

    def form(self, form: EquationForm | None) -> Form:
        match form:
            case Compaction(along, over, where):
                kept = () if where is None else (self.expression(where),)
                return ("compaction", self.expression(along), self.all(over), kept)
            case Sorting(along, over, descending):
                return ("sorting", self.expression(along), self.expression(over), descending)
            case RecurrenceStep(along, backward, cycle):
                return ("step", self.expression(along), backward, cycle)
            case Update(op, where):
                return ("update", op, () if where is None else (self.expression(where),))
            case Demand():
                return ("demand",)
            case Run(program):
                makes, arrays = (tuple(map(self.tensor, ts)) for ts in (program.makes, program.arrays))
                return ("run", makes, arrays, self.block(program.actions))
        return ()

    def block(self, actions: Iterable[Action]) -> Form:
        return tuple(map(self.action, actions))

    def action(self, a: Action) -> Form:
        own = (type(a).__name__, *self.all(expressions_of(a)), *map(self.block, blocks_of(a)))
        match a:
            case Let(symbol=symbol):
                return (*own, self.size(symbol))
            case Put(op=op, target=target):
                return (*own, op, self.tensor(target))
            case Order(target=target, descending=descending):
                return (*own, self.tensor(target), descending)
            case Leave(loop=loop):
                return (*own, self.expression(loop))
        return own

    def all(self, expressions: Iterable[Expr]) -> tuple[int, ...]:
        return tuple(map(self.expression, expressions))

    def expression(self, e: Expr) -> int:
        """Writes an expression depth first, without recursion: chains of maps may be long."""
        stack = [e]
        while stack:
            top = stack[-1]
            missing = [p for p in _parts(top) if p not in self.numbers]
            if missing and top not in self.numbers:
                stack += reversed(missing)
                continue
            stack.pop()
            if top not in self.numbers:
                self.numbers[top] = self.word(*self._spelled(top))
        return self.numbers[e]

    def _spelled(self, e: Expr) -> Form:
        parts = tuple(self.numbers[p] for p in _parts(e))
        if isinstance(e, Const):
            return ("const", literal_key(e.value), e.dtype)
        if isinstance(e, Scalar):
            return ("scalar", self.size(e.size), e.dtype)
        if isinstance(e, Var):
            return ("var", self.size(e.extent))
        if isinstance(e, Read):
            return ("read", self.tensor(e.tensor), e.outside is None, parts)
        if isinstance(e, Apply):
            return (e.op, e.dtype, parts)
        assert isinstance(e, Reduce)
        return ("reduce", e.kind, e.dtype, len(e.vars), e.where is None, parts)


def _parts(e: Expr) -> tuple[Expr, ...]:
    """The parts of an expression, in order."""
    if isinstance(e, Read):
        return e.index if e.outside is None else (*e.index, e.outside)
    if isinstance(e, Apply):
        return e.args
    if isinstance(e, Reduce):
        return (*e.vars, e.body) if e.where is None else (*e.vars, e.body, e.where)
    return ()
