"""Infers the dtype of a scratch tensor from the value that defines it.

In: a right side. Out: a dtype or dtype variable of the op; None while it depends on a scratch that has none yet.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape_gen.functions import CASTS
from anyshape_gen.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    IfExp,
    Index,
    Int,
    Item,
    Name,
    Reduction,
    Slice,
    Star,
    Unary,
    VecLit,
)

LITERAL = ""
"""The dtype of dims and literals, which take the dtype of the other operand"""


def value_dtype(value: Expr, dtype_of: Callable[[str], str | None]) -> str | None:
    """Infers the dtype of a right side; i64 for integers alone."""
    dtype = _dtype(value, dtype_of)
    return "i64" if dtype == LITERAL else dtype


def _dtype(value: Expr, dtype_of: Callable[[str], str | None]) -> str | None:
    match value:
        case Int() | Float() | Name():
            return LITERAL
        case Compare() | BoolOp() | Unary(op="not"):
            return "bool"
        case Unary(operand=operand):
            return _dtype(operand, dtype_of)
        case BinOp(left=left, right=right):
            return _first((left, right), dtype_of)
        case IfExp(then=then, other=other):
            return _first((then, other), dtype_of)
        case Reduction(kind="count" | "argmax" | "argmin"):
            return "i64"
        case Reduction(kind="any" | "all"):
            return "bool"
        case Reduction(element=element) | Comprehension(element=element):
            return _dtype(element, dtype_of)
        case VecLit(items=items):
            return _first(plain_items(items), dtype_of)
        case Call(func="int"):
            return LITERAL
        case Call(func="argsort" | "ravel" | "len" | "prod"):
            return "i64"
        case Call(func=func, args=args):
            if (len(func) == 1 and func.isupper()) or func in CASTS:
                return func
            if func == "inside":
                return "bool"
            return _first(plain_items(args), dtype_of)
        case Index(base=Name(id=tensor)) | Index(base=Index(base=Name(id=tensor))):
            return dtype_of(tensor) or LITERAL
        case Index(base=Call(args=(Name(id=tensor), *_))):
            return dtype_of(tensor)
    return LITERAL


def plain_items(items: tuple[Item, ...]) -> tuple[Expr, ...]:
    """Selects the items that are expressions, not stars or slices."""
    return tuple(item for item in items if not isinstance(item, (Star, Slice)))


def _first(values: tuple[Expr, ...], dtype_of: Callable[[str], str | None]) -> str | None:
    """Returns the first dtype that is not LITERAL; None where one is not known."""
    dtypes = [_dtype(value, dtype_of) for value in values]
    if None in dtypes:
        return None
    return next((dtype for dtype in dtypes if dtype), LITERAL)
