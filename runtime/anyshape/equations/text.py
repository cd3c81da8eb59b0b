"""Expressions as text that reads like the spec; for messages, dumps and golden tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anyshape.dtypes import DType
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var
from anyshape.equations.program import Action, Each, Leave, Let, Order, Put, When

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
}  # fmt: skip


def steps_text(actions: Iterable[Action], indent: str = "") -> str:
    """A program, one line for each action."""
    return "\n".join(indent + line for a in actions for line in _lines(a))


def _lines(a: Action) -> Iterator[str]:
    match a:
        case Let(symbol, value):
            yield f"{symbol} = {spell(value)}"
        case Put(op, target, index, value, over):
            loops = "".join(f" for {v.name} in {v.extent}" for v in over)
            yield f"{target.name}[{', '.join(map(spell, index))}] {'' if op == 'set' else op}= {spell(value)}{loops}"
        case Order(target, over, key, descending):
            order = ", descending" if descending else ""
            yield f"{target.name}[:] = argsort([{spell(key)} for {over.name} in {over.extent}]{order})"
        case Each(var, body):
            yield f"for {var.name} in {var.extent}:"
            yield from (f"    {line}" for b in body for line in _lines(b))
        case When(condition, then, other):
            yield f"if {spell(condition)}:"
            yield from (f"    {line}" for b in then for line in _lines(b))
            if other:
                yield "else:"
                yield from (f"    {line}" for b in other for line in _lines(b))
        case Leave(loop):
            yield f"leave {loop.name}"


def spell(e: Expr) -> str:
    if isinstance(e, Const):
        return str(e.value)
    if isinstance(e, Scalar):
        return str(e.size)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Read):
        return f"{e.tensor.name}[{', '.join(map(spell, e.index))}]"
    if isinstance(e, Reduce):
        condition = f" if {spell(e.where)}" if e.where is not None else ""
        return f"{e.kind}({spell(e.body)} for {', '.join(f'{v.name} in {v.extent}' for v in e.vars)}{condition})"
    assert isinstance(e, Apply)
    return operation_text(e.op, e.dtype, [spell(a) for a in e.args])


def operation_text(op: str, dtype: DType | None, args: Sequence[str]) -> str:
    """An elementwise operation on what has been spelled."""
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    if op == "select":
        return f"({args[1]} if {args[0]} else {args[2]})"
    if op == "cast":
        return f"{dtype}({args[0]})"
    if op == "bitcast":
        return f"bitcast({args[0]}, {dtype})"
    return f"{op}({', '.join(args)})"
