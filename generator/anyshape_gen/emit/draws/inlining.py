"""Inlines names and functions in expressions of a rule: an assert about `room` becomes one about the names `room` is computed from.

In: assignments, functions of `define:`. Out: expressions of the arguments of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from anyshape_gen.model.nodes import (
    Assign,
    Bool,
    Call,
    Comprehension,
    Expr,
    Function,
    If,
    IfExp,
    Item,
    Name,
    Reduction,
    Slice,
    Star,
    VecLit,
)
from anyshape_gen.model.traverse import bound_by, rebuild, walk

LONGEST = 150
"""The most nodes of an expression after inlining"""


def unpacked(names: Sequence[str], value: Expr) -> Iterator[tuple[str, Expr]]:
    """Yields the value of each name in an assignment to several."""
    match value:
        case _ if len(names) == 1:
            yield names[0], value
        case VecLit(items) if len(items) == len(names):
            yield from ((n, v) for n, v in zip(names, items) if not isinstance(v, (Star, Slice)))
        case IfExp(cond, then, other):
            both = dict(unpacked(names, then)), dict(unpacked(names, other))
            yield from ((n, IfExp(cond, both[0][n], both[1][n])) for n in names if all(n in b for b in both))


def inlined(e: Expr, assigned: Mapping[str, Expr], functions: Mapping[str, Function]) -> Expr:
    """Inlines values of names and results of functions in an expression, unless it becomes longer than LONGEST."""

    def change(node: Expr, hidden: frozenset[str] = frozenset()) -> Expr:
        if isinstance(node, Name):
            return assigned[node.id] if node.id in assigned and node.id not in hidden else node
        if isinstance(node, (Comprehension, Reduction)):
            hidden |= bound_by(node.generators)
        rebuilt = rebuild(node, lambda n: change(n, hidden))
        if isinstance(rebuilt, IfExp) and isinstance(rebuilt.cond, Bool):
            return rebuilt.then if rebuilt.cond.value else rebuilt.other
        return (
            _called(functions[rebuilt.func], rebuilt, functions)
            if isinstance(rebuilt, Call) and rebuilt.func in functions
            else rebuilt
        )

    expression = change(e)
    return expression if sum(1 for _ in walk(expression)) <= LONGEST else e


def _called(f: Function, call: Call, functions: Mapping[str, Function]) -> Expr:
    """Inlines a call of a function."""
    local = {name: a for name, a in zip(f.args, call.args) if is_expression(a)}
    for s in f.body:
        local.update(unpacked(s.names, inlined(s.value, local, functions)))
    return inlined(f.result, local, functions)


def assigned_in(s: If) -> Iterator[str]:
    for inner in (*s.then, *s.other):
        if isinstance(inner, Assign):
            yield from inner.names
        elif isinstance(inner, If):
            yield from assigned_in(inner)


def is_expression(item: Item) -> TypeGuard[Expr]:
    return not isinstance(item, (Star, Slice))
