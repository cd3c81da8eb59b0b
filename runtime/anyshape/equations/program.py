"""Steps of a procedure as data, and walks over them.

`procedure` states them; the interpreter runs them, the lowering turns them into code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anyshape.dims import Dim
from anyshape.equations.expr import Expr, Tensor, Var


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """From here to the end of the block the symbol is this size."""

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
    """One block or the other."""

    condition: Expr
    then: tuple[Action, ...]
    other: tuple[Action, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Leave:
    """Ends the loop over this variable, which is around it."""

    loop: Var


Action = Let | Put | Order | Each | When | Leave


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """`makes` is what other equations read, all zero at first; `arrays` are its own."""

    actions: tuple[Action, ...]
    makes: tuple[Tensor, ...]
    arrays: tuple[Tensor, ...]

    def line(self, made: Tensor) -> str:
        """What an equation for one of the tensors reads like: the first of them shows the steps."""
        from anyshape.equations.text import steps_text

        if made is not self.makes[0]:
            return f"{made} by the same steps"
        arrays = "".join(f"    {t}\n" for t in self.arrays)
        return f"{made} by steps\n{arrays}{steps_text(self.actions, '    ')}"

    @property
    def own(self) -> frozenset[Tensor]:
        return frozenset((*self.makes, *self.arrays))

    @property
    def symbols(self) -> frozenset[Dim]:
        """Those that have a value only inside."""
        return frozenset(a.symbol for a in every(self.actions) if isinstance(a, Let))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return tuple(e for a in every(self.actions) for e in expressions_of(a))


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
    """What an action evaluates itself, its variables among it."""
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
