"""Conversion of floats to integers in which what does not fit becomes the nearest end of the range.

In: a float or a vector of floats. Out: integers.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I16, I32, Type, Val, const


def saturate_to_int(f: FunctionBuilder, a: Val, to: Type, unsigned: bool = False) -> Val:
    """Float to integer toward zero; what does not fit becomes the nearest end, NaN 0."""
    if a.type.lanes:
        return _saturate_lanes(f, a, to, unsigned)
    name = "llvm.fptoui.sat" if unsigned else "llvm.fptosi.sat"
    return f.call_intrinsic(name, to, [a], overload=f"{to.suffix}.{a.type.suffix}")


def _saturate_lanes(f: FunctionBuilder, a: Val, to: Type, unsigned: bool) -> Val:
    """Converts the lanes of a float vector to integers of the nearest value. LLVM would convert them one by one: here they are limited
    to the range as floats. A comparison with NaN is false, so that NaN becomes the lower end. An upper end that floats of this type do
    not hold is put in afterwards, where the conversion has no result."""
    low, high = (0, (1 << to.bits) - 1) if unsigned else (-1 << (to.bits - 1), (1 << (to.bits - 1)) - 1)
    if low and to.bits < 32 and a.type.bits == 32 and _truncates(f, a.type.lanes):
        # what is no number stays so: the instruction makes the lowest integer of 32 bits of it, of which the lowest bits are 0
        cut = f.select(f.compare("lt", a, low), low, a)
        cut = f.select(f.compare("gt", cut, high), high, cut)
        return f.convert("trunc", _truncated(f, cut), to)
    exact = high.bit_length() <= {32: 24, 64: 53}[a.type.bits]
    cut = f.select(f.compare("gt", a, low), a, low)
    if exact:
        cut = f.select(f.compare("lt", cut, high), cut, high)
    narrow = to.bits < 32
    number = f.convert("fptoui" if unsigned and not narrow else "fptosi", cut, I32 if narrow else to)
    if not exact:
        number = f.select(f.compare("ge", a, high + 1), const(number.type, high), number)
    if low:
        number = f.select(f.fcmp("uno", a, a), 0, number)
    return f.convert("trunc", number, to)


def _truncates(f: FunctionBuilder, lanes: int) -> bool:
    """Whether there is an instruction that converts so many f32 toward zero, and what is not in range to the lowest integer."""
    return f.target.triple.startswith("x86_64") and lanes * 4 in (16, f.target.vector_bytes)


def _truncated(f: FunctionBuilder, a: Val) -> Val:
    result = I32.vector(a.type.lanes)
    name = {4: "sse2.cvttps2dq", 8: "avx.cvtt.ps2dq.256", 16: "avx512.mask.cvttps2dq.512"}[a.type.lanes]
    arguments = [a] if a.type.lanes < 16 else [a, const(result, 0), const(I16, -1), const(I32, 4)]
    return f.call_intrinsic(f"llvm.x86.{name}", result, arguments)
