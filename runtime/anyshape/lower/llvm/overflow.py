"""Sums, differences and products of 64 bits, and whether these hold the exact result.

In: two integers. Out: the low 64 bits, and an i1.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I1, I64, Type, Val, ValLike, const

_VALUE_AND_OVERFLOW = Type("{ i64, i1 }")


def with_overflow(f: FunctionBuilder, op: str, a: ValLike, b: ValLike) -> tuple[Val, Val]:
    """sadd uadd ssub usub smul umul of 64 bits, and whether the exact result needs more of them."""
    x, y = f.pair(a, b)
    if op in ("smul", "umul") and not f.target.multiplies_128:
        return _product_by_division(f, op == "smul", x, y)
    pair = f.call_intrinsic(f"llvm.{op}.with.overflow", _VALUE_AND_OVERFLOW, [x, y], "i64")
    return f.emit(I64, f"extractvalue {pair}, 0"), f.emit(I1, f"extractvalue {pair}, 1")


def _product_by_division(f: FunctionBuilder, signed: bool, x: Val, y: Val) -> tuple[Val, Val]:
    """A product, and whether dividing it by a factor does not give the other: for targets on which LLVM would call a function of its
    library for the upper half."""
    product = f.mul(x, y)
    special = f.compare("eq", x, 0)
    if signed:
        special = f.or_(special, f.compare("eq", x, -1))
    quotient = f.binary("sdiv" if signed else "udiv", product, f.select(special, const(I64, 1), x))
    beyond = f.and_(f.not_(special), f.compare("ne", quotient, y))
    if signed:
        negated = f.and_(f.compare("eq", x, -1), f.compare("eq", y, -(1 << 63)))
        beyond = f.or_(beyond, negated)
    return product, beyond
