"""Conversions to integers in which what does not fit becomes the nearest end of the range.

In: a float or a vector of floats, or of wider integers. Out: integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.shifted_mantissas import integers_of_64, shifts_mantissas
from anyshape.lower.llvm.types import I8, I16, I32, I64, Type, Val, const


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
    if to.bits == 64 and shifts_mantissas(f, a.type.lanes):
        return _saturate_to_64(f, a, unsigned)
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


def _saturate_to_64(f: FunctionBuilder, a: Val, unsigned: bool) -> Val:
    """Integers of 64 bits, of mantissas that are shifted; integers of 32 that are widened, where all lanes have such."""
    if unsigned or a.type.bits != 32 or not _truncates(f, a.type.lanes):
        return integers_of_64(f, a, unsigned)
    short = _truncated(f, a)
    lowest = f.compare("eq", short, const(short.type, -1 << 31))
    with f.if_else(f.reduce("or", lowest)) as branch:
        with branch.then():
            branch.give(integers_of_64(f, a, unsigned))
        with branch.otherwise():
            branch.give(f.convert("sext", short, I64))
    return branch.results[0]


def _truncates(f: FunctionBuilder, lanes: int) -> bool:
    """Whether there is an instruction that converts so many f32 toward zero, and what is not in range to the lowest integer."""
    return f.target.triple.startswith("x86_64") and lanes * 4 in (16, f.target.vector_bytes)


def _truncated(f: FunctionBuilder, a: Val) -> Val:
    result = I32.vector(a.type.lanes)
    name = {4: "sse2.cvttps2dq", 8: "avx.cvtt.ps2dq.256", 16: "avx512.mask.cvttps2dq.512"}[a.type.lanes]
    arguments = [a] if a.type.lanes < 16 else [a, const(result, 0), const(I16, -1), const(I32, 4)]
    return f.call_intrinsic(f"llvm.x86.{name}", result, arguments)


def converts_to_nearest(f: FunctionBuilder, lanes: int) -> bool:
    """Whether there is an instruction that converts so many f32 to the nearest integers, halves to even ones, and what is not in range to
    the lowest; and one that packs integers with saturation."""
    return f.target.triple.startswith("x86_64") and lanes * 4 == f.target.vector_bytes


def nearest_integers(f: FunctionBuilder, a: Val) -> Val:
    """Integers of 32 bits."""
    result = I32.vector(a.type.lanes)
    name = {4: "sse2.cvtps2dq", 8: "avx.cvt.ps2dq.256", 16: "avx512.mask.cvtps2dq.512"}[a.type.lanes]
    arguments = [a] if a.type.lanes < 16 else [a, const(result, 0), const(I16, -1), const(I32, 4)]
    return f.call_intrinsic(f"llvm.x86.{name}", result, arguments)


def to_bytes(f: FunctionBuilder, a: Val, point: Val | None, unsigned: bool, are_cut: bool = False) -> Val:
    """Bytes of a vector of integers of 32 bits and a point of at most 8 that is added to each; `are_cut`: those sums are in range."""
    if not are_cut:
        a = cut_to_bytes(f, a, point, unsigned)
    return f.convert("trunc", a if point is None else f.add(a, f.splat(point, a.type.lanes)), I8)


def cut_to_bytes(f: FunctionBuilder, a: Val, point: Val | None, unsigned: bool) -> Val:
    """Integers of 32 bits to which a point is added yet, so that the sums are in the range of bytes."""
    ends = [const(I32, end) for end in ends_of_bytes(unsigned)]
    least, most = (f.splat(end if point is None else f.sub(end, point), a.type.lanes) for end in ends)
    return f.smin(f.smax(a, least), most)


def ends_of_bytes(unsigned: bool) -> tuple[int, int]:
    return (0, 255) if unsigned else (-128, 127)


def saturated_bytes(f: FunctionBuilder, vectors: Sequence[Val], point: Val | None, unsigned: bool) -> Val:
    """Bytes of two or four vectors of integers of 32 bits, the widest that there are, and a point of at most 8 that is added to each: in
    halves of 16 bits, with saturation, they are no further from the ends of a byte's range than it has to be cut."""
    lanes, count = vectors[0].type.lanes, len(vectors)
    prefix = {4: "sse2", 8: "avx2", 16: "avx512"}[lanes]
    words = {4: ".128", 8: "", 16: ".512"}[lanes]
    halves = I16.vector(2 * lanes)
    packed = [
        f.call_intrinsic(f"llvm.x86.{prefix}.packssdw{words}", halves, vectors[k : k + 2]) for k in range(0, count, 2)
    ]
    if point is not None:
        moved = f.splat(f.convert("trunc", point, I16), 2 * lanes)
        packed = [f.call_intrinsic("llvm.sadd.sat", halves, [half, moved]) for half in packed]
    name = "packuswb" if unsigned else "packsswb"
    raw = f.call_intrinsic(f"llvm.x86.{prefix}.{name}{words}", I8.vector(4 * lanes), [packed[0], packed[-1]])
    if lanes == 4 and count == 4:
        return raw
    words_of = f.bitcast(raw, I32.vector(lanes))
    parts = lanes // 4
    placed = f.shuffle(words_of, None, [4 * (k % parts) + k // parts for k in range(count * parts)])
    return f.bitcast(placed, I8.vector(count * lanes))
