"""Traversal of expressions: what is below one, and copies with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from anyshape.equations.expr import (
    Apply,
    Expr,
    Read,
    Reduce,
    Tensor,
    Var,
    apply,
    bitcast,
    cast,
    drawn,
    read,
    reduce_node,
)


def children(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, Apply):
        return e.args
    if isinstance(e, Read):
        return e.index if e.outside is None else (*e.index, e.outside)
    if isinstance(e, Reduce):
        return (e.body,) if e.where is None else (e.body, e.where)
    return ()


def walk(e: Expr) -> Iterator[Expr]:
    """Every node below and including e, each once."""
    seen: set[int] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if node.serial not in seen:
            seen.add(node.serial)
            yield node
            stack.extend(children(node))


def substitute(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Variables replaced by expressions."""
    return replace_node(e, values)


def reading(e: Expr, tensors: Mapping[Tensor, Tensor]) -> Expr:
    """The expression that reads other tensors, of the same shape, in place of some."""
    return replace_node(e, {}, tensors)


def replace_node(e: Expr, values: Mapping[Any, Expr], tensors: Mapping[Tensor, Tensor] = MappingProxyType({})) -> Expr:
    """Nodes replaced, wherever they stand, and tensors that are read; variables that a reduction binds are never among them."""
    done: dict[Expr, Expr] = dict(values)

    def visit(n: Expr) -> Expr:
        replacement = done.get(n)
        if replacement is None:
            replacement = done[n] = _rebuilt(n, visit, tensors)
        return replacement

    return visit(e)


def _rebuilt(n: Expr, visit: Callable[[Expr], Expr], tensors: Mapping[Tensor, Tensor]) -> Expr:
    if isinstance(n, Read):
        source = tensors.get(n.tensor, n.tensor)
        return read(source, [visit(i) for i in n.index], None if n.outside is None else visit(n.outside))
    if isinstance(n, Reduce):
        where = None if n.where is None else visit(n.where)
        body = visit(n.body)
        dtype = body.dtype if n.dtype is n.body.dtype else n.dtype
        return reduce_node(n.kind, n.vars, body, where, dtype)
    if isinstance(n, Apply):
        args = [visit(a) for a in n.args]
        if n.op == "philox" and n.dtype is not None:  # of two integers, a number of any dtype
            return drawn(args[0], args[1], n.dtype)
        if not args:
            return n
        if n.op in ("cast", "bitcast") and n.dtype is not None:
            return (cast if n.op == "cast" else bitcast)(args[0], n.dtype)
        return apply(n.op, *args)
    return n
