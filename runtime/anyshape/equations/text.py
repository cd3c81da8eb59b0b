"""Expressions as text that reads like the spec; for messages, dumps and golden tests."""

from __future__ import annotations

from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
}  # fmt: skip


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
    if e.op in _INFIX:
        return f"({spell(e.args[0])} {_INFIX[e.op]} {spell(e.args[1])})"
    if e.op == "select":
        return f"({spell(e.args[1])} if {spell(e.args[0])} else {spell(e.args[2])})"
    if e.op == "cast":
        return f"{e.dtype}({spell(e.args[0])})"
    return f"{e.op}({', '.join(map(spell, e.args))})"
