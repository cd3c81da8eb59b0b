"""What is below an expression, and expressions rebuilt with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anyshape.equations.expr import Apply, Expr, Read, Reduce, Var, apply, bitcast, cast, drawn, read, reduce_node


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


def replace_node(e: Expr, values: Mapping[Any, Expr]) -> Expr:
    """Nodes replaced, wherever they stand; variables that a reduction binds are never among them."""
    done: dict[Expr, Expr] = dict(values)

    def visit(n: Expr) -> Expr:
        made = done.get(n)
        if made is None:
            made = done[n] = _rebuilt(n, visit)
        return made

    return visit(e)


def _rebuilt(n: Expr, visit: Callable[[Expr], Expr]) -> Expr:
    if isinstance(n, Read):
        return read(n.tensor, [visit(i) for i in n.index], None if n.outside is None else visit(n.outside))
    if isinstance(n, Reduce):
        where = None if n.where is None else visit(n.where)
        return reduce_node(n.kind, n.vars, visit(n.body), where, n.dtype)
    if isinstance(n, Apply):
        args = [visit(a) for a in n.args]
        if n.op == "philox" and n.dtype is not None:  # of two integers, a number of any dtype
            return drawn(args[0], args[1], n.dtype)
        if not args:
            return n
        assert n.dtype is not None or not args
        if n.op in ("cast", "bitcast") and n.dtype is not None:
            return (cast if n.op == "cast" else bitcast)(args[0], n.dtype)
        return apply(n.op, *args)
    return n
