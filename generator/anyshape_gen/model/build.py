"""Builds small expressions of the rule language, and folds constants in them."""

from __future__ import annotations

from anyshape_gen.model.nodes import BinOp, Call, Expr, Index, Int, Item, Name, Slice, Star, Unary, VecLit


def add(left: Expr, right: Expr) -> Expr:
    """Builds `left + right`."""
    if isinstance(left, Int) and isinstance(right, Int):
        return Int(left.value + right.value)
    if left == Int(0):
        return right
    if isinstance(right, Int):
        if right.value == 0:
            return left
        if isinstance(left, BinOp) and left.op == "+" and isinstance(left.right, Int):
            return add(left.left, Int(left.right.value + right.value))
    if isinstance(left, Int):
        return add(right, left)
    return BinOp("+", left, right)


def subtract(left: Expr, right: Expr) -> Expr:
    if isinstance(left, Int) and isinstance(right, Int):
        return Int(left.value - right.value)
    return left if right == Int(0) else BinOp("-", left, right)


def multiply(factors: tuple[Expr, ...]) -> Expr:
    """Builds the product of all factors; 1 for no factors."""
    product: Expr = Int(1)
    for factor in factors:
        product = factor if product == Int(1) else BinOp("*", product, factor)
    return product


def call(func: str, *args: Item) -> Call:
    return Call(func, args)


def item(base: Expr, at: Expr) -> Expr:
    return Index(base, (at,))


def item_from_end(base: Expr, back: Expr) -> Expr:
    """Builds the item of a vector that `back - 1` items follow."""
    if isinstance(back, Int):
        return Index(base, (Unary("-", back),))
    return Index(base, (subtract(call("len", base), back),))


def part(base: Expr, low: Expr, high: Expr | None) -> Expr:
    """Builds `base[low:high]`; `base` itself where both ends are the base's own."""
    if low == Int(0) and high is None:
        return base
    return Index(base, (Slice(None if low == Int(0) else low, high),))


def end_of(base: Expr, behind: Expr) -> Expr | None:
    """Builds the upper end of a slice that omits the last `behind` items."""
    if isinstance(behind, Int):
        return None if behind.value == 0 else Unary("-", behind)
    return subtract(call("len", base), behind)


def vector(items: tuple[Item, ...]) -> Expr:
    """Builds a vector of these items; the run itself for one starred run."""
    if len(items) == 1 and isinstance(items[0], Star) and items[0].axes is None:
        return items[0].value
    return VecLit(items)


def name(text: str) -> Name:
    return Name(text)
