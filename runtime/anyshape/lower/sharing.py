"""Groups of one form are lowered once: the layers of a model differ in their tensors, not in their equations.

In: groups, one after another. Out: their kernels. The form of a group is its equations with tensors and loop variables by number: dims are
part of it as they are, and so are the contents of small constants, which may become literals; names and large constants are not. A kernel
for a form serves every group of that form, with the group's own tensors, and its own constants laid out anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from anyshape.equations import Compaction, Demand, Equation, Run, Sorting, Step, Tensor, Update
from anyshape.equations.builder import Form as EquationForm
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var
from anyshape.equations.program import Action, Leave, Let, Order, Put, blocks_of, expressions_of
from anyshape.lower.kernel import Group, Kernel, Packed
from anyshape.lower.lowering import lower_group
from anyshape.lower.target import Target

Form = tuple[Any, ...]

LITERAL_BYTES = 256
"""Lowering may write the elements of constants of so many bytes into the code, and never those of larger ones."""


class Lowering:
    """Lowers for one target, and remembers."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._known: dict[Form, tuple[tuple[Tensor, ...], Kernel]] = {}

    def lower(self, group: Group) -> Kernel:
        form, tensors = form_of(group)
        known = self._known.get(form)
        if known is not None:
            return _with_tensors(known[1], dict(zip(known[0], tensors, strict=True)), group)
        kernel = lower_group(group, self.target)
        if not kernel.errors:  # messages of errors have names in them
            self._known[form] = (tensors, kernel)
        return kernel


def _with_tensors(kernel: Kernel, own: dict[Tensor, Tensor], group: Group) -> Kernel:
    def operand(i: Tensor | Packed) -> Tensor | Packed:
        if isinstance(i, Tensor):
            return own[i]
        t = own[i.tensor]
        return replace(i, tensor=t, array=i.pack(group.constants[t]))

    return replace(kernel, inputs=tuple(map(operand, kernel.inputs)), outputs=tuple(own[t] for t in kernel.outputs))


def form_of(group: Group) -> tuple[Form, tuple[Tensor, ...]]:
    """The form, and the tensors by the numbers they have in it."""
    writer = _FormWriter()
    border = [writer.tensor(t) for t in (*group.inputs, *group.outputs)]
    for q in group.equations:
        writer.equation(q)
    constants = tuple((writer.tensor(t), *_constant(a)) for t, a in group.constants.items())
    form = (tuple(border), len(group.inputs), constants, tuple(writer.words))
    return form, tuple(writer.tensors)


def _constant(a: NDArray[Any]) -> Form:
    return a.shape, a.dtype.str, a.tobytes() if a.nbytes <= LITERAL_BYTES else None


class _FormWriter:
    """Writes every expression once, after what it is made of, as a word of `words`; it is called by the place of its word."""

    def __init__(self) -> None:
        self.words: list[Any] = []
        self.tensors: dict[Tensor, int] = {}
        self.numbers: dict[Expr, int] = {}

    def word(self, *parts: Any) -> int:
        self.words.append(parts)
        return len(self.words) - 1

    def tensor(self, t: Tensor) -> int:
        if t not in self.tensors:
            self.tensors[t] = len(self.tensors)
            self.word("tensor", t.dtype, t.shape)
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
            case Step(along, backward, cycle):
                return ("step", self.expression(along), backward, cycle)
            case Update(op):
                return ("update", op)
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
                return (*own, symbol)
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
        """Depth first, without recursion: chains of maps may be long."""
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
            return ("const", repr(e.value), e.dtype)
        if isinstance(e, Scalar):
            return ("scalar", e.size, e.dtype)
        if isinstance(e, Var):
            return ("var", e.extent)
        if isinstance(e, Read):
            return ("read", self.tensor(e.tensor), e.outside is None, parts)
        if isinstance(e, Apply):
            return (e.op, e.dtype, parts)
        assert isinstance(e, Reduce)
        return ("reduce", e.kind, e.dtype, len(e.vars), e.where is None, parts)


def _parts(e: Expr) -> tuple[Expr, ...]:
    """What e is made of, in order."""
    if isinstance(e, Read):
        return e.index if e.outside is None else (*e.index, e.outside)
    if isinstance(e, Apply):
        return e.args
    if isinstance(e, Reduce):
        return (*e.vars, e.body) if e.where is None else (*e.vars, e.body, e.where)
    return ()
