"""Integer division that cannot trap: x / 0 is 0 with remainder 0, and the lowest number divided by -1 wraps to itself.

In: integer values of one type. Out: the same type. The quotient of vectors is made by a division of floats, which unlike that of integers
exists for vectors: in f32 for 16 bits and where all lanes are short, in f64 for 32, and for 64 where all lanes are short. A divisor of 0 is
divided by like any other, since floats do not trap; what that gives is not chosen.
"""

from __future__ import annotations

from ..builder import FunctionBuilder
from ..types import F32, F64, I32, Val, ValLike, const
from .rounding import trunc

SHORT = {32: 24, 64: 50}
"""Bits of a magnitude by how many an integer has: of 32, those that an f32 holds, in which the quotient, rounded, is never the next whole
number; of 64, those that are converted to f64 and back by adding `_SHIFT`, as processors do that have no instruction for it."""
_ABOVE_ONE = 1 + 2.0**-50
"""The dividend of a reciprocal in f64 that gives the quotients of integers of 32 bits by a product. Such a product is never below the exact
quotient, since two roundings take less than 2**-50 of it, nor above by 1 over the divisor, as far as the next whole number is at least.
Code generation moves the reciprocal out of a loop that has one divisor, but not out of a branch."""
_SHIFT = 1.5 * 2.0**52
_SHIFT_BITS = 0x4338000000000000


def _safe(f: FunctionBuilder, a: Val, b: Val, unsigned: bool) -> Val:
    """The divisor with the two cases that trap replaced by 1."""
    unsafe = f.compare("eq", b, 0)
    if not unsigned:
        lowest = const(a.type, -(1 << (a.type.bits - 1)))
        unsafe = f.or_(unsafe, f.and_(f.compare("eq", a, lowest), f.compare("eq", b, -1)))
    return f.select(unsafe, const(b.type, 1), b)


def _positive_if_one(f: FunctionBuilder, b: Val) -> Val:
    """The divisors with 0 and -1 replaced by 1, by which remainders are 0 too; whatever is divided, so that a loop does it once."""
    return f.select(f.compare("lt", f.add(b, 1), 2, unsigned=True), const(b.type, 1), b)


def _quotient(f: FunctionBuilder, a: Val, b: Val, unsigned: bool, uniform: bool) -> Val:
    """a / b toward zero; of vectors of 64 bits and of scalars b has to be safe, of others what is not gives anything. `uniform`: b is the
    same in all lanes, so that a loop has one reciprocal of it."""
    bits = a.type.bits
    if not a.type.lanes:
        return f.binary("udiv" if unsigned else "sdiv", a, b)
    if bits == 64:
        return _long_quotient(f, a, b, unsigned)
    to_float, to_int = ("uitofp", "fptoui") if unsigned else ("sitofp", "fptosi")
    if bits < 32:
        widen = "zext" if unsigned else "sext"
        x, y = (f.convert("sitofp", f.convert(widen, v, I32), F32) for v in (a, b))
        return f.convert("trunc", f.convert("fptosi", f.fdiv(x, y), I32), a.type)

    def reciprocal() -> Val:
        return f.fdiv(_ABOVE_ONE, f.convert(to_float, b, F64))

    known = reciprocal() if uniform else None
    with f.if_else(_are_short(f, a, b, unsigned)) as branch:
        with branch.then():
            x, y = (f.convert("sitofp", v, F32) for v in (a, b))
            branch.give(f.convert("fptosi", f.fdiv(x, y), I32))
        with branch.otherwise():
            ratio = f.mul(f.convert(to_float, a, F64), known or reciprocal())
            branch.give(f.convert(to_int, ratio, I32))
    return branch.results[0]


def _are_short(f: FunctionBuilder, a: Val, b: Val, unsigned: bool) -> Val:
    """Whether the magnitudes of all lanes of both have at most so many bits as `SHORT` says."""
    bits = SHORT[a.type.bits]
    high = f.or_(*(x if unsigned else f.add(x, 1 << bits) for x in (a, b)))
    return f.reduce("and", f.compare("lt", high, 1 << (bits + (not unsigned)), unsigned=True))


def _long_quotient(f: FunctionBuilder, a: Val, b: Val, unsigned: bool) -> Val:
    """Divides vectors of 64 bits toward zero, b safe: by floats if all lanes are short, else lane by lane."""
    with f.if_else(_are_short(f, a, b, unsigned)) as branch:
        with branch.then():
            x, y = (f.sub(f.bitcast(f.add(v, _SHIFT_BITS), F64.vector(a.type.lanes)), _SHIFT) for v in (a, b))
            ratio = f.add(trunc(f, f.fdiv(x, y)), _SHIFT)
            branch.give(f.sub(f.bitcast(ratio, a.type), _SHIFT_BITS))
        with branch.otherwise():
            branch.give(f.binary("udiv" if unsigned else "sdiv", a, b))
    return branch.results[0]


def _is_scalar(b: ValLike) -> bool:
    return not isinstance(b, Val) or not b.type.lanes


def trunc_div(f: FunctionBuilder, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
    """a / b toward zero (C)."""
    x, y = f.pair(a, b)
    if not x.type.lanes or x.type.bits == 64:
        quotient = _quotient(f, x, _safe(f, x, y, unsigned), unsigned, False)
    else:
        quotient = _quotient(f, x, y, unsigned, _is_scalar(b))
        if not unsigned:  # the quotient of the lowest number does not fit
            quotient = f.select(f.compare("eq", y, -1), f.neg(x), quotient)
    return f.select(f.compare("eq", y, 0), const(x.type, 0), quotient)


def trunc_mod(f: FunctionBuilder, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
    """The remainder with the sign of a (C)."""
    x, y = f.pair(a, b)
    safe = _safe(f, x, y, unsigned) if unsigned or not x.type.lanes else _positive_if_one(f, y)
    return f.sub(x, f.mul(_quotient(f, x, safe, unsigned, _is_scalar(b)), safe))


def floor_div(f: FunctionBuilder, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
    """a / b downwards (Python)."""
    x, y = f.pair(a, b)
    power = _power_of_two(y)
    if power is not None:
        return f.binary("lshr" if unsigned else "ashr", x, power)
    quotient = trunc_div(f, x, b, unsigned)
    if unsigned:
        return quotient
    step = f.and_(f.compare("ne", y, 0), _needs_step(f, f.sub(x, f.mul(quotient, y)), y))
    return f.sub(quotient, f.convert("zext", step, x.type))


def floor_mod(f: FunctionBuilder, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
    """The remainder with the sign of b (Python)."""
    x, y = f.pair(a, b)
    power = _power_of_two(y)
    if power is not None:
        return f.and_(x, (1 << power) - 1)
    rest = trunc_mod(f, x, b, unsigned)
    if unsigned:
        return rest
    return f.select(_needs_step(f, rest, y), f.add(rest, y), rest)


def _power_of_two(b: Val) -> int | None:
    """The exponent of a divisor that is a known power of two: remainders are the lowest bits, quotients downwards the others."""
    number = b.number
    return number.bit_length() - 1 if isinstance(number, int) and number > 0 and number & (number - 1) == 0 else None


def _needs_step(f: FunctionBuilder, rest: Val, b: Val) -> Val:
    """The remainder is not zero and its sign is not that of b."""
    return f.and_(f.compare("ne", rest, 0), f.compare("lt", f.xor(rest, b), 0))
