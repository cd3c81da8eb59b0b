"""Element types: what a dtype is called, how wide it is, which classes it belongs to and what NumPy calls it.

A `DType` is a `str` ("f32") with facts attached, one object per dtype: names and objects compare and hash alike, so
text from a spec or a model needs no conversion before a look-up, and `parse_dtype` gives the object with its
attributes.

Classes of the spec language: `bool`, `int` (signed), `uint`, `float`, `number` (int, uint and float), `any`; and `narrow`, dtypes of
8 bits and less that are stored, moved and converted, one to a byte, but not computed with. `char` is a character of a string, in no class
but its own: a tensor of strings is one of characters, with a dim more (see `anyshape.strings`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyshape.errors import DtypeError


class DType(str):
    """One element type. `kind` is one of bool, int, uint, float; `bits` is its width in memory."""

    kind: str
    bits: int
    itemsize: int
    width: int
    """The bits that carry the value: fewer than `bits` for 4- and 2-bit integers"""

    def __new__(cls, name: str, kind: str, bits: int, width: int = 0) -> DType:
        self = super().__new__(cls, name)
        self.kind, self.bits, self.itemsize, self.width = kind, bits, bits // 8, width or bits
        return self

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DType:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_dtype, (str.__str__(self),)

    @property
    def name(self) -> str:
        return str.__str__(self)

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_index(self) -> bool:
        """Integers that positions, sizes and counts may have: of whole bytes, and no characters."""
        return self.is_integer and self.width == self.bits and self is not CHAR

    @property
    def is_narrow(self) -> bool:
        """Stored, moved and converted only."""
        return self in NARROW_FLOATS or self.width < self.bits

    @property
    def is_narrow_float(self) -> bool:
        return self in NARROW_FLOATS

    @property
    def code_bits(self) -> int:
        """How many bits an element has by its format: 4 of the byte that holds an f4e2m1."""
        f = NARROW_FLOATS.get(self)
        return self.width if f is None else min(8, 1 + f.exponent + f.mantissa)

    @property
    def numpy(self) -> np.dtype[Any]:
        return to_numpy(self)

    @property
    def computed(self) -> np.dtype[Any]:
        """The NumPy dtype that computes with the elements as they lie in memory: of characters, that of their code points."""
        return to_numpy(U32 if self is CHAR else self)


BOOL = DType("bool", "bool", 8)
I8, I16, I32, I64 = (DType(f"i{bits}", "int", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{bits}", "uint", bits) for bits in (8, 16, 32, 64))
F16, F32, F64 = (DType(f"f{bits}", "float", bits) for bits in (16, 32, 64))
BF16 = DType("bf16", "float", 16)
I4, I2 = (DType(f"i{width}", "int", 8, width) for width in (4, 2))
U4, U2 = (DType(f"u{width}", "uint", 8, width) for width in (4, 2))


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A float of at most 8 bits: sign (but for e8m0), exponent, mantissa. `largest` and `nan` are codes of non-negative numbers; beyond
    the largest comes `over`: infinity, NaN or the largest itself. `unsigned_zero`: the code of -0 is NaN's.

    After "FP8 Formats for Deep Learning" (2022), "8-bit Numerical Formats for Deep Neural Networks" (2022, the fnuz kinds) and the OCP
    Microscaling Formats specification 1.0 (e2m1, e8m0)."""

    exponent: int
    mantissa: int
    bias: int
    largest: int
    over: int
    nan: int
    unsigned_zero: bool = False
    ml_dtype: str = ""


NARROW_FLOATS: dict[str, FloatFormat] = {
    "f8e4m3fn": FloatFormat(
        exponent=4, mantissa=3, bias=7, largest=0x7E, over=0x7F, nan=0x7F, ml_dtype="float8_e4m3fn"
    ),
    "f8e4m3fnuz": FloatFormat(
        exponent=4,
        mantissa=3,
        bias=8,
        largest=0x7F,
        over=0x80,
        nan=0x80,
        unsigned_zero=True,
        ml_dtype="float8_e4m3fnuz",
    ),
    "f8e5m2": FloatFormat(exponent=5, mantissa=2, bias=15, largest=0x7B, over=0x7C, nan=0x7E, ml_dtype="float8_e5m2"),
    "f8e5m2fnuz": FloatFormat(
        exponent=5,
        mantissa=2,
        bias=16,
        largest=0x7F,
        over=0x80,
        nan=0x80,
        unsigned_zero=True,
        ml_dtype="float8_e5m2fnuz",
    ),
    "f4e2m1": FloatFormat(exponent=2, mantissa=1, bias=1, largest=0x7, over=0x7, nan=0x8, ml_dtype="float4_e2m1fn"),
    "f8e8m0": FloatFormat(
        exponent=8, mantissa=0, bias=127, largest=0xFE, over=0xFF, nan=0xFF, ml_dtype="float8_e8m0fnu"
    ),
}
NARROW: tuple[DType, ...] = (*(DType(name, "float", 8) for name in NARROW_FLOATS), I4, U4, I2, U2)
CHAR = DType("char", "uint", 32)
"""A Unicode code point, or 0 behind the end of a string: an element of NumPy's fixed-width strings."""
LIST = DType("list", "handle", 64)
"""The dtype of a value that is a list: no op of tensors takes it, and no text spells it."""
FUNCTION = DType("function", "handle", 64)
"""The dtype of a value that is a function, whose representation is the function's number."""

ALL: tuple[DType, ...] = (F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)
_BY_NAME: dict[str, DType] = {str(t): t for t in (*ALL, *NARROW, CHAR)}
_ML_NAME = {"bf16": "bfloat16", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
            **{name: f.ml_dtype for name, f in NARROW_FLOATS.items()}}  # fmt: skip
_FROM_ML_NAME = {known: name for name, known in _ML_NAME.items()}
_NUMPY_NAME: dict[str, str] = {
    "bool": "bool",
    **{f"{k}{b}": f"{n}{b}" for k, n in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)},
    **{f"f{b}": f"float{b}" for b in (16, 32, 64)},
    "char": "<U1",
}
_TO_NUMPY: dict[str, np.dtype[Any]] = {name: np.dtype(known) for name, known in _NUMPY_NAME.items()}
_FROM_NUMPY: dict[np.dtype[Any], DType] = {known: _BY_NAME[name] for name, known in _TO_NUMPY.items()}


def parse_dtype(text: str) -> DType:
    """The dtype called `text`; raises DtypeError with the known names otherwise."""
    dtype = _BY_NAME.get(text)
    if dtype is None:
        raise DtypeError(f"unknown dtype {text!r}; known are {', '.join(_BY_NAME)}")
    return dtype


def is_dtype_name(text: str) -> bool:
    return text in _BY_NAME


def to_numpy(t: str) -> np.dtype[Any]:
    """The NumPy dtype; BF16 and the narrow ones come from ml_dtypes, loaded when first asked for."""
    known = _TO_NUMPY.get(t)
    if known is None:
        narrow = parse_dtype(t)
        if narrow.name not in _ML_NAME:
            raise DtypeError(f"{t} has no NumPy dtype")
        import ml_dtypes

        known = _TO_NUMPY[narrow.name] = np.dtype(getattr(ml_dtypes, _ML_NAME[narrow.name]))
        _FROM_NUMPY[known] = narrow
    return known


def from_numpy(dtype: Any) -> DType:
    """The DType of a NumPy dtype (or of anything np.dtype() understands)."""
    known = np.dtype(dtype).newbyteorder("=")
    known_dtype = _FROM_NUMPY.get(known)
    if known_dtype is None and known.name in _FROM_ML_NAME:
        to_numpy(_FROM_ML_NAME[known.name])
        known_dtype = _FROM_NUMPY.get(known)
    if known_dtype is None:
        raise DtypeError(f"NumPy dtype {known} has no counterpart; known are {', '.join(_BY_NAME)}")
    return known_dtype


def accum(t: str) -> DType:
    """The dtype that values of `t` are computed and summed in: F32 for floats of at most 16 bits, `t` itself for all else."""
    known = parse_dtype(t)
    return F32 if known.is_float and known.bits < F32.bits else known


def bitcast(t: str, u: str) -> DType:
    """The dtype u, as which the bits of elements of t are read. Raises DtypeError where they are of different widths, and of strings."""
    a, b = parse_dtype(t), parse_dtype(u)
    if a.code_bits != b.code_bits or CHAR in (a, b):
        raise DtypeError(
            f"bits of {a} cannot be read as {b}: "
            + ("strings have none" if CHAR in (a, b) else f"{a.code_bits} against {b.code_bits}")
        )
    return b


def promote(t: str, u: str) -> DType:
    """The smallest dtype that holds both, as NumPy promotes; two 16-bit floats of different layout meet in f32."""
    a, b = parse_dtype(t), parse_dtype(u)
    if a is b:
        return a
    if BF16 in (a, b):
        other = b if a is BF16 else a
        if other is BOOL or other in (I8, U8):
            return BF16
        return F64 if other in (F64, I32, I64, U32, U64) else F32
    return from_numpy(np.promote_types(to_numpy(a), to_numpy(b)))


def literal_key(value: int | float | bool) -> tuple[type, int | str | bytes]:
    """A key of a literal. Python's equality does not do: 0.0 equals -0.0, True equals 1, and NaN nothing; here all NaNs are one."""
    if isinstance(value, float):
        return type(value), value.hex()
    return type(value), value.tobytes() if isinstance(value, np.generic) else value


def lowest(t: str) -> int | float | bool:
    """The least value: -inf for floats that compute, as a maximum over nothing of that dtype would be; of narrow ones a number."""
    return _extreme(parse_dtype(t), low=True)


def highest(t: str) -> int | float | bool:
    return _extreme(parse_dtype(t), low=False)


def _extreme(t: DType, low: bool) -> int | float | bool:
    if t.is_narrow_float:
        f = NARROW_FLOATS[t]
        most = math.ldexp(
            1 + (f.largest & (1 << f.mantissa) - 1) / (1 << f.mantissa), (f.largest >> f.mantissa) - f.bias
        )
        return (math.ldexp(1, -f.bias) if f.mantissa == 0 else -most) if low else most
    if t.kind == "float":
        return -math.inf if low else math.inf
    if t.kind == "bool":
        return not low
    if t.kind == "uint":
        return 0 if low else (1 << t.width) - 1
    half = 1 << (t.width - 1)
    return -half if low else half - 1
