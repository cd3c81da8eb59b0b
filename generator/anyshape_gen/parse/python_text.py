"""Parses what specs write in Python's syntax, rules and references, with limits against hostile input.

In: source. Out: its syntax tree, or a SyntaxError with its place.
"""

from __future__ import annotations

import ast
import warnings
from typing import Literal, overload

DEEPEST = 80
"""The greatest depth of an expression; each term of a sum adds one. Expressions of specs have less than half of it."""
MOST_BITS = 64
"""The most bits of a power of literals, which Python would compute at any length."""
MOST_EXPONENT = 1024


@overload
def parse_python(source: str, mode: Literal["exec"]) -> ast.Module: ...
@overload
def parse_python(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse_python(source: str, mode: str) -> ast.AST:
    """Parses Python. Raises SyntaxError for wrong syntax, for warnings of the parser (`1if x`), and for trees deeper than DEEPEST."""
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
    """Computes an expression of literals, if it is a whole number. Raises SyntaxError for a power of more than 64 bits."""
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
        raise SyntaxError(f"{ast.unparse(node)} does not fit in {MOST_BITS} bits", _place(node))


def _place(node: ast.expr) -> tuple[str, int, int, str]:
    return "", node.lineno, node.col_offset + 1, ""
