"""Steps of a procedure as data, and walks over them.

`procedure` states them; the interpreter runs them, the lowering turns them into code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from anyshape.dims import Dim
from anyshape.dtypes import DType
from anyshape.equations.expr import Apply, Expr, Read, Tensor, Var, cast
from anyshape.equations.traversal import reading, walk


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """An action that gives a symbol its size, from here to the end of the block."""

    symbol: Dim
    value: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Put:
    """`target[index] op= value`, for all values of `over`; only `set` of a single element has reductions."""

    op: str
    target: Tensor
    index: tuple[Expr, ...]
    value: Expr
    over: tuple[Var, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """The positions of `over` in the stable order of the key, into the first places of the target; NaN is the greatest."""

    target: Tensor
    over: Var
    key: Expr
    descending: bool


@dataclass(frozen=True, eq=False, slots=True)
class Each:
    """The body for each value of the variable."""

    var: Var
    body: tuple[Action, ...]


@dataclass(frozen=True, eq=False, slots=True)
class When:
    """A conditional: one block or the other."""

    condition: Expr
    then: tuple[Action, ...]
    other: tuple[Action, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Leave:
    """Ends the loop over this variable, which is around it."""

    loop: Var


Action = Let | Put | Order | Each | When | Leave


@dataclass(frozen=True, eq=False, slots=True)
class StepProgram:
    """`makes` is what other equations read, all zero at first; `arrays` are its own."""

    actions: tuple[Action, ...]
    makes: tuple[Tensor, ...]
    arrays: tuple[Tensor, ...]

    def line(self, tensor: Tensor) -> str:
        """The text of the equation for one of the tensors: that of the first shows the steps."""
        from anyshape.equations.text import steps_text

        if tensor is not self.makes[0]:
            return f"{tensor} by the same steps"
        arrays = "".join(f"    {t}\n" for t in self.arrays)
        return f"{tensor} by steps\n{arrays}{steps_text(self.actions, '    ')}"

    @property
    def own(self) -> frozenset[Tensor]:
        return frozenset((*self.makes, *self.arrays))

    @property
    def symbols(self) -> frozenset[Dim]:
        """The symbols that have a value only inside the program."""
        return frozenset(a.symbol for a in every(self.actions) if isinstance(a, Let))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return tuple(e for a in every(self.actions) for e in expressions_of(a))


def with_tensors(program: StepProgram, tensors: Mapping[Tensor, Tensor]) -> StepProgram:
    """The program that makes, sets and reads other tensors in place of some, each value in the dtype of where it goes."""
    outputs, arrays = (tuple(tensors.get(t, t) for t in own) for own in (program.makes, program.arrays))
    return StepProgram(tuple(_with_tensors(a, tensors) for a in program.actions), outputs, arrays)


def _with_tensors(a: Action, tensors: Mapping[Tensor, Tensor]) -> Action:
    match a:
        case Let(symbol, value):
            return Let(symbol, reading(value, tensors))
        case Put(op, target, index, value, over):
            at = tuple(reading(i, tensors) for i in index)
            to = tensors.get(target, target)
            return Put(op, to, at, rounded_once(reading(value, tensors), to.dtype), over)
        case Order(target, over, key, descending):
            return Order(tensors.get(target, target), over, reading(key, tensors), descending)
        case Each(var, body):
            return Each(var, tuple(_with_tensors(b, tensors) for b in body))
        case When(condition, then, other):
            blocks = (tuple(_with_tensors(b, tensors) for b in block) for block in (then, other))
            return When(reading(condition, tensors), *blocks)
        case Leave():
            return a


def without_results(program: StepProgram, sizes: Collection[Tensor]) -> StepProgram:
    """The program that finds the sizes, and makes no other result: what the steps read again is memory of its own."""
    read = {e.tensor for x in program.expressions for e in walk(x) if isinstance(e, Read)}
    results = [t for t in program.makes if t not in sizes]
    unread = {t for t in results if t not in read}
    own = {t: _renewed(t) for t in (*program.arrays, *results) if t not in unread}
    kept = StepProgram(
        _without(program.actions, unread), tuple(sizes), (*program.arrays, *(t for t in results if t in read))
    )
    return with_tensors(kept, own)


def without_sizes(program: StepProgram, sizes: Collection[Tensor]) -> StepProgram:
    """The program that makes the other results, for which the sizes are variables."""
    own = {t: _renewed(t) for t in sizes}
    makes = tuple(t for t in program.makes if t not in sizes)
    return with_tensors(StepProgram(program.actions, makes, (*program.arrays, *sizes)), own)


def _renewed(t: Tensor) -> Tensor:
    return Tensor(t.name, t.dtype, t.shape)


def _without(actions: Iterable[Action], unread: Collection[Tensor]) -> tuple[Action, ...]:
    """The actions but those that set elements of these tensors."""
    kept: list[Action] = []
    for a in actions:
        match a:
            case Put(target=target) if target in unread:
                continue
            case Each(var=var, body=body):
                kept.append(Each(var, _without(body, unread)))
            case When(condition=condition, then=then, other=other):
                kept.append(When(condition, _without(then, unread), _without(other, unread)))
            case _:
                kept.append(a)
    return tuple(kept)


def rounded_once(value: Expr, dtype: DType) -> Expr:
    """The value in the dtype, not rounded to a narrower one before."""
    inner = value.args[0] if isinstance(value, Apply) and value.op == "cast" else value
    return inner if inner.dtype is dtype else cast(value, dtype)


def every(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions and those in their blocks."""
    for a in actions:
        yield a
        for block in blocks_of(a):
            yield from every(block)


def blocks_of(a: Action) -> tuple[tuple[Action, ...], ...]:
    """The blocks of an action, in order."""
    match a:
        case Each(body=body):
            return (body,)
        case When(then=then, other=other):
            return (then, other)
    return ()


def expressions_of(a: Action) -> tuple[Expr, ...]:
    """The expressions that an action evaluates itself, its variables included."""
    match a:
        case Let(value=value):
            return (value,)
        case Put(index=index, value=value, over=over):
            return (value, *index, *over)
        case Order(over=var, key=key):
            return (key, var)
        case Each(var=var):
            return (var,)
        case When(condition=condition):
            return (condition,)
        case Leave():
            return ()
