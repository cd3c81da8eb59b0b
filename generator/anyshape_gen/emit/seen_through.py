"""Expressions of a rule with what its names stand for: an assert of `room` is one of what `room` is computed from.

In: assignments, functions of `define:`. Out: expressions of what a call gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from anyshape_gen.nodes import (
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
from anyshape_gen.traverse import bound_by, rebuild, walk

LONGEST = 150
"""Nodes of an expression that is looked into"""


def taken_apart(names: Sequence[str], value: Expr) -> Iterator[tuple[str, Expr]]:
    """What each of the names is, that are assigned at once."""
    match value:
        case _ if len(names) == 1:
            yield names[0], value
        case VecLit(items) if len(items) == len(names):
            yield from ((n, v) for n, v in zip(names, items) if not isinstance(v, (Star, Slice)))
        case IfExp(cond, then, other):
            both = dict(taken_apart(names, then)), dict(taken_apart(names, other))
            yield from ((n, IfExp(cond, both[0][n], both[1][n])) for n in names if all(n in b for b in both))


def seen_through(e: Expr, assigned: Mapping[str, Expr], functions: Mapping[str, Function]) -> Expr:
    """With what names stand for, and what functions give, in so far as it is short."""

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
    """What the function gives for these arguments."""
    local = {name: a for name, a in zip(f.args, call.args) if is_expression(a)}
    for s in f.body:
        local.update(taken_apart(s.names, seen_through(s.value, local, functions)))
    return seen_through(f.result, local, functions)


def assigned_in(s: If) -> Iterator[str]:
    for inner in (*s.then, *s.other):
        if isinstance(inner, Assign):
            yield from inner.names
        elif isinstance(inner, If):
            yield from assigned_in(inner)


def is_expression(item: Item) -> TypeGuard[Expr]:
    return not isinstance(item, (Star, Slice))
