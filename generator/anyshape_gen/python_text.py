"""Python's parser for what specs say in Python's syntax: rules and references; with bounds for what is written to do harm.

In: source. Out: its syntax tree, or a SyntaxError with its place.
"""

from __future__ import annotations

import ast
import warnings
from typing import Literal, overload

DEEPEST = 80
"""Nodes of an expression within each other; a sum is one deeper with each term. What specs have is less than half of it."""
MOST_BITS = 64
"""Of a power of literals: Python would compute it in numbers without end."""
MOST_EXPONENT = 1024


@overload
def parse_python(source: str, mode: Literal["exec"]) -> ast.Module: ...
@overload
def parse_python(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse_python(source: str, mode: str) -> ast.AST:
    """Python's parser, with its warnings (`1if x`) as errors, too; a SyntaxError for what is nested too deep for those who walk it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            tree = ast.parse(source, mode=mode)
        except (RecursionError, MemoryError):
            raise SyntaxError(f"nested more than {DEEPEST} deep", ("", 1, 1, "")) from None
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        line, col = next(((n.lineno, n.col_offset + 1) for n in level if isinstance(n, ast.expr)), (1, 1))
        raise SyntaxError(f"nested more than {DEEPEST} deep", ("", line, col, ""))
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
            whole_number(node)
            exponent = whole_number(node.right)
            if exponent is not None and exponent > MOST_EXPONENT:
                raise SyntaxError(f"an exponent is {MOST_EXPONENT} at most", _place(node.right))
    return tree


def whole_number(node: ast.expr) -> int | None:
    """What an expression of literals computes, if that is a whole number; a SyntaxError for a power that takes more than 64 bits."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = whole_number(operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            a, b = whole_number(left), whole_number(right)
            if a is None or b is None:
                return None
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Pow() if b >= 0:
                    _bounded(node, b * max(a.bit_length() - 1, 0))
                    return int(a**b)
                case ast.LShift() if b >= 0:
                    _bounded(node, b + a.bit_length())
                    return a << b
    return None


def _bounded(node: ast.expr, bits: int) -> None:
    if bits > MOST_BITS:
        raise SyntaxError(f"{ast.unparse(node)} is more than {MOST_BITS} bits hold", _place(node))


def _place(node: ast.expr) -> tuple[str, int, int, str]:
    return "", node.lineno, node.col_offset + 1, ""
