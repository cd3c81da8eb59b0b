"""Products of the bytes of two words, added up in lanes of 32 bits.

One operand has a sign, the other has none. Where the processor adds up products of four bytes, that is one instruction. Where it adds up
two products as 16 bits, with saturation, it is two, if no sum can be that large (codes of few bits, ones). Elsewhere bytes are widened.
Sums are those of i32, which wrap around.

In: words, and the largest product that two of their bytes may have. Out: code.
"""

from __future__ import annotations

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I8, I16, I32, Val, const
from ..target import Target

LARGEST_PRODUCT = 255 * 128
"""The largest product of two bytes, one without and one with a sign."""
_MOST_OF_HALVES = 2**15 - 1
_PAIRS = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
_BYTE_PAIRS = {
    128: "llvm.x86.ssse3.pmadd.ub.sw.128",
    256: "llvm.x86.avx2.pmadd.ub.sw",
    512: "llvm.x86.avx512.pmaddubs.w.512",
}


def multiply_add_words(f: FunctionBuilder, a: Val, b: Val, total: Val, a_unsigned: bool) -> Val:
    """Adds the products of the elements of two words to each lane."""
    bits = total.type.lanes * 32
    if f.target.dots:
        unsigned, signed = (a, b) if a_unsigned else (b, a)
        return f.call_intrinsic(f"llvm.x86.avx512.vpdpbusd.{bits}", total.type, [total, unsigned, signed])
    return _add_pairs(f, a, b, total)


def _add_pairs(f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
    """Adds the products of the two numbers of 16 bits of two words to each lane."""
    name = _PAIRS.get(total.type.lanes * 32) if f.target.triple.startswith("x86_64") else None
    if name is not None:
        halves = I16.vector(2 * total.type.lanes)
        return f.add(total, f.call_intrinsic(name, total.type, [f.bitcast(x, halves) for x in (a, b)]))
    low = f.mul(f.ashr(f.shl(a, 16), 16), f.ashr(f.shl(b, 16), 16))
    return f.add(f.add(total, low), f.mul(f.ashr(a, 16), f.ashr(b, 16)))


def add_dot(f: FunctionBuilder, total: Val, unsigned: Val, signed: Val, largest: int = LARGEST_PRODUCT) -> Val:
    """Adds the products of the four bytes of two words, those of one without and of the other with a sign, to each lane. No product is
    further from 0 than the largest."""
    lanes = total.type.lanes
    if lanes and f.target.dots:
        return multiply_add_words(f, unsigned, signed, total, a_unsigned=True)
    if not lanes:
        for at in range(0, 32, 8):
            byte = f.and_(f.lshr(unsigned, at), 0xFF)
            total = f.add(total, f.mul(byte, f.ashr(f.shl(signed, 24 - at), 24)))
        return total
    if pairs_held(f.target, lanes, largest):
        return f.add(total, sums_of_pairs(f, products_of_pairs(f, unsigned, signed)))
    halves = I16.vector(2 * lanes)
    without, both = f.bitcast(unsigned, halves), f.bitcast(signed, halves)
    even = f.and_(without, 0xFF), f.ashr(f.shl(both, 8), 8)
    odd = f.lshr(without, 8), f.ashr(both, 8)
    for a, b in (even, odd):
        total = _add_pairs(f, f.bitcast(a, total.type), f.bitcast(b, total.type), total)
    return total


def pairs_held(target: Target, lanes: int, largest: int) -> int:
    """How many sums of two products of bytes 16 bits hold, if instructions multiply and add so many lanes of such; else 0."""
    return _MOST_OF_HALVES // (2 * largest) if target.adds_pairs_of_bytes and lanes * 32 in _BYTE_PAIRS else 0


def products_of_pairs(f: FunctionBuilder, unsigned: Val, signed: Val) -> Val:
    """The sums of the products of two bytes that lie side by side, those of one operand without and of the other with a sign, as numbers of
    16 bits: exact where `pairs_held` says so."""
    lanes = unsigned.type.lanes
    halves, of_bytes = I16.vector(2 * lanes), I8.vector(4 * lanes)
    operands = [f.bitcast(x, of_bytes) for x in (unsigned, signed)]
    return f.call_intrinsic(_BYTE_PAIRS[lanes * 32], halves, operands)


def sums_of_pairs(f: FunctionBuilder, halves: Val) -> Val:
    """The sums of two numbers of 16 bits that lie side by side, as numbers of 32 bits."""
    total = I32.vector(halves.type.lanes // 2)
    return f.call_intrinsic(_PAIRS[total.lanes * 32], total, [halves, const(halves.type, 1)])
