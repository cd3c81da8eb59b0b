"""Elementwise operations of equations as instructions: one table from operation names to vector code.

In: an open function and values of any lane count, with their dtypes. Out: the value. A bool is i1 in a register; f16 and
bf16 compute in f32 and round after each operation, so that the result does not depend on what was fused, but for what bits alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.dtypes import F32 as SINGLE
from anyshape.dtypes import F64 as DOUBLE
from anyshape.dtypes import I8 as BYTE
from anyshape.dtypes import I32 as WORD
from anyshape.dtypes import NARROW, NARROW_FLOATS, U8, DType
from anyshape.equations import entropy
from anyshape.kernel_model.contractions import ROUNDINGS
from anyshape.lower.gemm import add_dot
from anyshape.lower.llvm import half, narrow
from anyshape.lower.llvm import vecmath as vm
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.philox import philox
from anyshape.lower.llvm.saturation import saturate_to_int
from anyshape.lower.llvm.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Type, Val, const

_REGISTER: dict[str, Type] = {
    "f16": F16, "bf16": BF16, "f32": F32, "f64": F64, "bool": I1, "i8": I8, "i16": I16, "i32": I32, "i64": I64,
    "u8": I8, "u16": I16, "u32": I32, "u64": I64, "char": I32, **dict.fromkeys(NARROW, I8),
}  # fmt: skip

_FLOAT: dict[str, Callable[..., Val]] = {
    "add": lambda f, a, b: f.add(a, b), "sub": lambda f, a, b: f.sub(a, b), "mul": lambda f, a, b: f.mul(a, b),
    "div": lambda f, a, b: f.fdiv(a, b), "trunc_div": lambda f, a, b: vm.trunc(f, f.fdiv(a, b)),
    "floordiv": lambda f, a, b: vm.floor(f, f.fdiv(a, b)), "mod": lambda f, a, b: vm.fmod(f, a, b, floored=True),
    "fmod": vm.fmod, "min": vm.minimum, "max": vm.maximum, "pow": vm.pow_, "neg": lambda f, a: f.neg(a),
    "abs": vm.abs_, "exp": vm.exp, "expm1": vm.expm1, "log": vm.log, "log1p": vm.log1p, "sqrt": vm.sqrt,
    "tanh": vm.tanh, "sigmoid": vm.sigmoid, "erf": vm.erf, "sin": vm.sin, "cos": vm.cos, "floor": vm.floor,
    "ceil": vm.ceil, "round_even": vm.round_even, "trunc": vm.trunc,
    "fma": lambda f, a, b, c: f.fma(a, b, c),
}  # fmt: skip

_OF_BITS: dict[str, Callable[..., Val]] = {"abs": half.magnitude, "neg": half.negated}
"""Operations on floats of 16 bits that need not be computed in f32."""

_INT: dict[str, Callable[..., Val]] = {
    "add": lambda f, u, a, b: f.add(a, b), "sub": lambda f, u, a, b: f.sub(a, b), "mul": lambda f, u, a, b: f.mul(a, b),
    "div": lambda f, u, a, b: vm.trunc_div(f, a, b, unsigned=u),
    "trunc_div": lambda f, u, a, b: vm.trunc_div(f, a, b, unsigned=u),
    "floordiv": lambda f, u, a, b: vm.floor_div(f, a, b, unsigned=u),
    "mod": lambda f, u, a, b: vm.floor_mod(f, a, b, unsigned=u),
    "fmod": lambda f, u, a, b: vm.trunc_mod(f, a, b, unsigned=u),
    "min": lambda f, u, a, b: vm.minimum(f, a, b, unsigned=u), "max": lambda f, u, a, b: vm.maximum(f, a, b, unsigned=u),
    "neg": lambda f, u, a: f.neg(a), "abs": lambda f, u, a: a if u else vm.abs_(f, a),
    "bit_and": lambda f, u, a, b: f.and_(a, b), "bit_or": lambda f, u, a, b: f.or_(a, b),
    "bit_xor": lambda f, u, a, b: f.xor(a, b), "shift_left": lambda f, u, a, b: _shift(f, "shl", a, b),
    "shift_right": lambda f, u, a, b: _shift(f, "lshr" if u else "ashr", a, b),
    "wrap": lambda f, u, a, n: f.select(f.compare("lt", a, 0), f.add(a, n), a),
    "within": lambda f, u, a, n: a,
}  # fmt: skip

_BOOL: dict[str, Callable[..., Val]] = {
    "add": lambda f, a, b: f.or_(a, b), "mul": lambda f, a, b: f.and_(a, b), "max": lambda f, a, b: f.or_(a, b),
    "min": lambda f, a, b: f.and_(a, b), "eq": lambda f, a, b: f.not_(f.xor(a, b)), "ne": lambda f, a, b: f.xor(a, b),
    "lt": lambda f, a, b: f.and_(f.not_(a), b), "gt": lambda f, a, b: f.and_(a, f.not_(b)),
    "le": lambda f, a, b: f.or_(f.not_(a), b), "ge": lambda f, a, b: f.or_(a, f.not_(b)), "abs": lambda f, a: a,
}  # fmt: skip

_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_DIVISIONS = frozenset(("div", "trunc_div", "floordiv", "mod", "fmod"))
"""Operations that take of integers a divisor that is the same in all lanes as it is: what is computed of it is then computed once."""
_IDENTITY_ON_INTEGERS = frozenset(("floor", "ceil", "round_even", "trunc"))


def register_type(dtype: DType) -> Type:
    return _REGISTER[dtype]


def memory_type(dtype: DType) -> Type:
    """The type of an element in memory, where a bool is a byte."""
    return I8 if dtype.kind == "bool" else _REGISTER[dtype]


def apply(f: FunctionBuilder, op: str, dtype: DType, args: Sequence[Val], kinds: Sequence[DType]) -> Val:
    """Applies `op` to values of dtypes `kinds`; the result is of `dtype`."""
    if op == "philox":
        return philox(f, args[0], args[1], dtype, register_type(dtype))
    if op == "entropy":
        return f.atomic_update("add", f.module.declare_word(entropy.SYMBOL), const(I64, 1))
    if op not in _DIVISIONS or kinds[0].kind not in ("int", "uint"):
        args = _level(f, args)
    if op == "dot":
        without_sign, with_sign = args
        return add_dot(f, const(without_sign.type, 0), without_sign, with_sign)
    if op == "cast":
        return convert(f, args[0], kinds[0], dtype)
    if op in ROUNDINGS:
        return convert(f, convert(f, args[0], kinds[0], ROUNDINGS[op]), ROUNDINGS[op], dtype)
    if op == "bitcast":
        return _bits_as(f, args[0], kinds[0], dtype)
    if op == "select":
        return f.select(_truth(f, args[0], kinds[0]), args[1], args[2])
    if op in ("and", "or", "not"):
        truths = [_truth(f, a, k) for a, k in zip(args, kinds, strict=True)]
        return f.not_(truths[0]) if op == "not" else f.binary(op, truths[0], truths[1])
    kind = kinds[0]
    if kind.kind == "bool":
        if op in _BOOL:
            return _BOOL[op](f, *args)
        raise TypeError(f"{op} has no meaning on bool")
    if op in _COMPARISONS:
        if op in ("eq", "ne") and args[0].type.is_half:
            equal = half.equality(f, *args)
            if equal is not None:
                return f.not_(equal) if op == "ne" else equal
        first, second = (comparable(f, a) for a in args)
        return f.compare(op, first, second, unsigned=kind.kind == "uint")
    if kind.is_float:
        return _float(f, op, kind, args)
    if op in _IDENTITY_ON_INTEGERS:
        return args[0]
    if op in _INT:
        return _INT[op](f, kind.kind == "uint", *args)
    if op == "pow":
        return _uint_pow(f, *args) if kind.kind == "uint" else _int_pow(f, args[0], args[1])
    wide = [convert(f, a, k, DOUBLE) for a, k in zip(args, kinds, strict=True)]
    return convert(f, _FLOAT[op](f, *wide), DOUBLE, dtype)


def _level(f: FunctionBuilder, args: Sequence[Val]) -> list[Val]:
    """Spreads scalars over the lanes of the others."""
    lanes = max(a.type.lanes for a in args)
    return [f.splat(a, lanes) if lanes and not a.type.lanes else a for a in args]


def _float(f: FunctionBuilder, op: str, kind: DType, args: Sequence[Val]) -> Val:
    if kind.bits == 16 and op in _OF_BITS:
        return _OF_BITS[op](f, *args)
    if kind.bits == 16:
        wide = [half.widen(f, a) for a in args]
        return half.shorten(f, _FLOAT[op](f, *wide), register_type(kind))
    return _FLOAT[op](f, *args)


def _truth(f: FunctionBuilder, a: Val, kind: DType) -> Val:
    if kind.kind == "bool":
        return a
    if a.type.is_half:
        return half.is_not_zero(f, a)
    return f.fcmp("une", a, 0.0) if kind.is_float else f.compare("ne", a, 0)


def comparable(f: FunctionBuilder, a: Val) -> Val:
    """A value that comparisons take: a float of 16 bits as f32."""
    return half.widen(f, a) if a.type.is_half else a


def _to_odd(f: FunctionBuilder, a: Val) -> Val:
    """Converts f64 to f32, inexact results to the odd neighbour, so that rounding once more equals one rounding. (No processor here narrows
    f64 to 16 bits, and LLVM would call a function that nobody links.)"""
    near = f.convert("fptrunc", a, F32)
    back = f.convert("fpext", near, F64)
    bits = f.bitcast(near, near.type.as_int())
    too_far = f.fcmp("ogt", f.unary("fabs", back), f.unary("fabs", a))
    bits = f.sub(bits, f.convert("zext", too_far, I32))
    bits = f.or_(bits, f.convert("zext", f.fcmp("one", back, a), I32))
    return f.bitcast(bits, near.type)


def convert(f: FunctionBuilder, a: Val, source: DType, to: DType) -> Val:
    """Casts: float to int truncates and saturates (NaN gives 0), to bool is `!= 0`, integers wrap."""
    if source == to:
        return a
    if source.is_narrow:
        return convert(f, *_widened(f, a, source), to)
    if to.is_narrow:
        return _narrowed(f, a, source, to)
    goal = register_type(to)
    if to.kind == "bool":
        return _truth(f, a, source)
    if source.kind == "bool" and not to.is_float:
        return f.convert("zext", a, goal)
    if source.is_float and to.is_float:
        a = half.widen(f, a) if source.bits == 16 else _to_odd(f, a) if source.bits == 64 and to.bits == 16 else a
        if to.bits == 16:
            return half.shorten(f, a, goal)
        return f.convert("fpext" if goal.bits > a.type.bits else "fptrunc", a, goal)
    if source.is_float:
        a = half.widen(f, a) if source.bits == 16 else a
        return saturate_to_int(f, a, goal, unsigned=to.kind == "uint")
    if to.is_float:
        a = f.convert("sitofp" if source.kind == "int" else "uitofp", a, F32 if to.bits == 16 else goal)
        return half.shorten(f, a, goal) if to.bits == 16 else a
    if goal.bits == a.type.bits:
        return a
    widen = "zext" if source.kind == "uint" else "sext"
    return f.convert("trunc" if goal.bits < a.type.bits else widen, a, goal)


def _bits_as(f: FunctionBuilder, a: Val, source: DType, to: DType) -> Val:
    """Moves the bits of a value to a register of another dtype; of a dtype narrower than its byte, only the bits of its codes."""
    if source.kind == "bool":
        a = f.convert("zext", a, I8)
    if to.kind == "bool":
        return f.compare("ne", f.bitcast(a, I8.vector(a.type.lanes)), 0)
    if to.code_bits < to.bits:
        return f.and_(a, (1 << to.code_bits) - 1)
    return f.bitcast(a, register_type(to).vector(a.type.lanes))


def _widened(f: FunctionBuilder, a: Val, source: DType) -> tuple[Val, DType]:
    """A narrow value as f32, or as an integer of 8 bits."""
    if source.is_float:
        return narrow.decode(f, a, NARROW_FLOATS[source]), SINGLE
    rest = source.bits - source.width
    return f.binary(
        "ashr" if source.kind == "int" else "lshr", f.shl(a, rest), rest
    ), BYTE if source.kind == "int" else U8


def _narrowed(f: FunctionBuilder, a: Val, source: DType, to: DType) -> Val:
    """The byte of a narrow dtype for a value of one that is computed with."""
    if to.is_float:
        a = _to_odd(f, a) if source.bits == 64 and source.is_float else a
        wide = a if a.type.element == "float" else convert(f, a, source, SINGLE)
        return narrow.encode(f, wide, NARROW_FLOATS[to])
    bits = f.and_(convert(f, a, source, WORD if source.is_float else BYTE), (1 << to.width) - 1)
    return f.convert("trunc", bits, I8) if source.is_float else bits


def _shift(f: FunctionBuilder, how: str, a: Val, b: Val) -> Val:
    """Shifts; by a count that is not below the width of a (which LLVM leaves undefined) the result is zero, or the sign where it is
    kept."""
    bits = a.type.bits
    inside = f.compare("lt", b, bits, unsigned=True)
    left = f.binary(how, a, const(a.type, bits - 1)) if how == "ashr" else const(a.type, 0)
    return f.select(inside, f.binary(how, a, f.and_(b, bits - 1)), left)


def _int_pow(f: FunctionBuilder, a: Val, b: Val) -> Val:
    """Raises to a power by squaring, wrapping around like products do; a negative exponent gives 0, 1 or -1."""
    zero, one = const(a.type, 0), const(a.type, 1)
    result = _squared(f, a, f.select(f.compare("lt", b, 0), zero, b), one, a.type.bits - 1)
    return f.select(f.compare("lt", b, 0), _power_of_unit(f, a, b, zero), result)


def _uint_pow(f: FunctionBuilder, a: Val, b: Val) -> Val:
    return _squared(f, a, b, const(a.type, 1), a.type.bits)


def _squared(f: FunctionBuilder, base: Val, left: Val, result: Val, bits: int) -> Val:
    """Multiplies result by base ** left, for an exponent of so many bits."""
    for _ in range(bits):
        result = f.select(f.compare("ne", f.and_(left, 1), 0), f.mul(result, base), result)
        base = f.mul(base, base)
        left = f.lshr(left, 1)
    return result


def _power_of_unit(f: FunctionBuilder, a: Val, b: Val, otherwise: Val) -> Val:
    """Raises 1 and -1 to any power; `otherwise` for all other bases (their high powers of two wrap to 0 or are fractions)."""
    even = f.compare("eq", f.and_(b, 1), 0)
    one, minus = const(a.type, 1), const(a.type, -1)
    signed = f.select(even, one, minus)
    return f.select(f.compare("eq", a, 1), one, f.select(f.compare("eq", a, -1), signed, otherwise))


def load_value(f: FunctionBuilder, dtype: DType, raw: Val) -> Val:
    """Converts from memory to register form."""
    return f.compare("ne", raw, 0) if dtype.kind == "bool" else raw


def store_value(f: FunctionBuilder, dtype: DType, value: Val) -> Val:
    return f.convert("zext", value, I8) if dtype.kind == "bool" else value


def literal(dtype: DType, value: int | float | bool) -> Val:
    return const(register_type(dtype), value)
