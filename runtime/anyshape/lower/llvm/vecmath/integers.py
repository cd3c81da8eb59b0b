"""Integer division that cannot trap: x / 0 is 0 with remainder 0, and the lowest number divided by -1 wraps to itself.

In: integer values of one type. Out: the same type. Up to 32 bits the quotient is made by an f64 division, which is
exact for them and, unlike integer division, exists for vectors.
"""

from __future__ import annotations

from ..builder import FunctionBuilder
from ..types import F64, I32, Operand, Val, const


def _safe(f: FunctionBuilder, a: Val, b: Val, unsigned: bool) -> Val:
    """The divisor with the two cases that trap replaced by 1."""
    unsafe = f.compare("eq", b, 0)
    if not unsigned:
        lowest = const(a.type, -(1 << (a.type.bits - 1)))
        unsafe = f.or_(unsafe, f.and_(f.compare("eq", a, lowest), f.compare("eq", b, -1)))
    return f.select(unsafe, const(b.type, 1), b)


def _quotient(f: FunctionBuilder, a: Val, b: Val, unsigned: bool) -> Val:
    """a / b toward zero, b safe."""
    bits = a.type.bits
    if bits == 64 or not a.type.lanes:
        return f.binary("udiv" if unsigned else "sdiv", a, b)
    to_float, to_int = ("uitofp", "fptoui") if unsigned else ("sitofp", "fptosi")
    if bits < 32:
        widen = "zext" if unsigned else "sext"
        a32, b32 = f.convert(widen, a, I32), f.convert(widen, b, I32)
        return f.convert("trunc", _quotient(f, a32, b32, False), a.type)
    ratio = f.fdiv(f.convert(to_float, a, F64), f.convert(to_float, b, F64))
    return f.convert(to_int, ratio, I32)


def trunc_div(f: FunctionBuilder, a: Operand, b: Operand, unsigned: bool = False) -> Val:
    """a / b toward zero (C)."""
    x, y = f.pair(a, b)
    quotient = _quotient(f, x, _safe(f, x, y, unsigned), unsigned)
    return f.select(f.compare("eq", y, 0), const(x.type, 0), quotient)


def trunc_mod(f: FunctionBuilder, a: Operand, b: Operand, unsigned: bool = False) -> Val:
    """The remainder with the sign of a (C)."""
    x, y = f.pair(a, b)
    safe = _safe(f, x, y, unsigned)
    return f.sub(x, f.mul(_quotient(f, x, safe, unsigned), safe))


def floor_div(f: FunctionBuilder, a: Operand, b: Operand, unsigned: bool = False) -> Val:
    """a / b downwards (Python)."""
    x, y = f.pair(a, b)
    quotient = trunc_div(f, x, y, unsigned)
    if unsigned:
        return quotient
    return f.sub(quotient, f.convert("zext", _needs_step(f, trunc_mod(f, x, y), y), x.type))


def floor_mod(f: FunctionBuilder, a: Operand, b: Operand, unsigned: bool = False) -> Val:
    """The remainder with the sign of b (Python)."""
    x, y = f.pair(a, b)
    rest = trunc_mod(f, x, y, unsigned)
    if unsigned:
        return rest
    return f.select(_needs_step(f, rest, y), f.add(rest, y), rest)


def _needs_step(f: FunctionBuilder, rest: Val, b: Val) -> Val:
    """The remainder is not zero and its sign is not that of b."""
    return f.and_(f.compare("ne", rest, 0), f.compare("lt", f.xor(rest, b), 0))
