"""Tells from the form of a size whether it may be below zero, as `n - 1` may: a loop over it goes over `range(n - 1)`, which is empty then.

In: a size, the op with its rule. Out: whether dims, parameters and asserts that the rule makes of them leave that open.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Expr,
    IfExp,
    Int,
    Item,
    Name,
    Unary,
    VecLit,
)
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import walk_all


def may_be_negative(e: Expr, spec: OpSpec) -> bool:
    """Whether a size may be below zero; sizes of other forms than sums, products and choices are taken not to be."""
    return not _Sizes(spec).at_least_0(e, frozenset())


class _Sizes:
    def __init__(self, spec: OpSpec) -> None:
        self.parameters = {p.name for p in spec.params}
        self.asserted = {name for s in spec.shape if isinstance(s, Assert) for name in _at_least_0(s.cond)}
        self.values: dict[str, list[Expr]] = {}
        for s in walk_all(spec.shape):
            if isinstance(s, Assign):
                for name in s.names:
                    self.values.setdefault(name, []).append(s.value)

    def at_least_0(self, e: Item, known: frozenset[str]) -> bool:
        """Whether an expression is not negative; `known` are names that are not, or that are being looked at."""
        match e:
            case Int(value):
                return value >= 0
            case Name(id=name) if name in self.values and name not in known | self.asserted:
                return all(self.at_least_0(value, known | {name}) for value in self.values[name])
            case Name(id=name):
                return name not in self.parameters or name in known | self.asserted
            case BinOp("-", _, _) | Unary("-", _):
                return False
            case BinOp("+" | "*" | "//", left, right):
                return self.at_least_0(left, known) and self.at_least_0(right, known)
            case Call("min" | "ceil_div" | "exact_div", args, _):
                return all(self.at_least_0(x, known) for x in args)
            case Call("max", args, _):
                return any(self.at_least_0(x, known) for x in args)
            case IfExp(cond, then, other):
                return self.at_least_0(then, known | set(_at_least_0(cond))) and self.at_least_0(other, known)
            case VecLit(items):
                return all(self.at_least_0(x, known) for x in items)
        return True


def _at_least_0(cond: Expr) -> Iterator[str]:
    """The names that are not negative where a condition holds, as it says."""
    match cond:
        case BoolOp("and", items):
            for item in items:
                yield from _at_least_0(item)
        case Compare(first, rest):
            left = first
            for op, right in rest:
                match left, op, right:
                    case (Name(id=name), ">" | ">=" | "==", Int(value)) | (
                        Int(value),
                        "<" | "<=" | "==",
                        Name(id=name),
                    ) if value >= 0:
                        yield name
                left = right
