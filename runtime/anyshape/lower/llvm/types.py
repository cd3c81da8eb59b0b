"""The types and values of LLVM text: what the builder's operands are made of.

In: an LLVM element type and a lane count. Out: `Type` (prints as LLVM text) and `Val` (an SSA name or a literal with
its type). They are apart from the builder so that tables of constants need no function to be open.
"""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np

_BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
    "ptr": 64,
}
_SHORT = {"float": "f32", "double": "f64", "ptr": "p0"}
_CARRIED = {"half": "i16", "bfloat": "i16"}
"""Types that represent floats of 16 bits in LLVM, except where they become another float: without instructions for them it would convert
every value that a branch, a choice or a shuffle passes on, by functions of the compiler's library, which nobody links."""
_TYPES: dict[tuple[str, int], Type] = {}


class Type:
    """An LLVM scalar type (`lanes == 0`) or a vector of `lanes` elements. Equal types are one object: a kernel mentions thousands.

    `text` is as LLVM has it, `as_float` with LLVM's own name of a float of 16 bits, `bits` those of one element.
    """

    __slots__ = ("as_float", "bits", "element", "is_float", "is_half", "lanes", "text")
    element: str
    lanes: int
    text: str
    as_float: str
    bits: int
    is_float: bool
    is_half: bool
    """Whether it is a float of 16 bits, of which nothing is computed but other floats"""

    def __new__(cls, element: str, lanes: int = 0) -> Type:
        known = _TYPES.get((element, lanes))
        return known or _TYPES.setdefault((element, lanes), cls._create(element, lanes))

    @classmethod
    def _create(cls, element: str, lanes: int) -> Type:
        self = super().__new__(cls)
        self.element, self.lanes = element, lanes
        self.text, self.as_float = (
            f"<{lanes} x {name}>" if lanes else name for name in (_CARRIED.get(element, element), element)
        )
        self.bits = _BITS.get(element, 0)
        self.is_float = element in ("half", "bfloat", "float", "double")
        self.is_half = element in _CARRIED
        return self

    def __reduce__(self) -> tuple[type[Type], tuple[str, int]]:
        return Type, (self.element, self.lanes)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Type({self.text})"

    def vector(self, lanes: int) -> Type:
        """The vector of `lanes` of this element; 0 gives the scalar."""
        return Type(self.element, lanes)

    @property
    def scalar(self) -> Type:
        return Type(self.element)

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory (i1 takes one)."""
        return max(1, self.bits // 8)

    @property
    def suffix(self) -> str:
        """The type as it is spelled in the name of an intrinsic: `v16f32`, `i64`."""
        carried = _CARRIED.get(self.element, self.element)
        short = _SHORT.get(carried, carried)
        return f"v{self.lanes}{short}" if self.lanes else short

    def as_int(self) -> Type:
        """The integer type of the same width and lanes."""
        return Type(f"i{self.bits}", self.lanes)

    def as_mask(self) -> Type:
        """The i1 type of the same lanes: what a comparison gives."""
        return Type("i1", self.lanes)


VOID = Type("void")
PTR = Type("ptr")
I1, I8, I16, I32, I64 = (Type(name) for name in ("i1", "i8", "i16", "i32", "i64"))
F16, BF16, F32, F64 = (Type(name) for name in ("half", "bfloat", "float", "double"))


@dataclass(frozen=True, slots=True)
class Val:
    """An SSA value: its name (`%7`) or the text of a literal, its type, and the number itself if that is known."""

    name: str
    type: Type
    number: int | float | None = None

    @property
    def is_literal(self) -> bool:
        return not self.name.startswith("%")

    def __str__(self) -> str:
        return f"{self.type.text} {self.name}"


ValLike = Val | int | float


def _float_text(value: float, element: str) -> str:
    if element == "double":
        return "0x" + struct.pack(">d", value).hex().upper()
    if element == "float":
        return "0x" + struct.pack(">d", ctypes.c_float(value).value).hex().upper()
    return str(half_bits(Type(element), value))


def half_bits(type_: Type, value: float) -> int:
    """The bits of a number that is rounded to a float of 16 bits, as an integer with a sign."""
    if type_.element == "half":
        with np.errstate(over="ignore"):
            return int(np.float16(value).view(np.int16))
    return int(np.asarray(value).astype(ml_dtypes.bfloat16).view(np.int16))


def const(type_: Type, value: int | float) -> Val:
    """A literal; for a vector type the same number in every lane. Integers are taken modulo 2**bits."""
    if type_.is_float:
        return _splat(type_, _float_text(float(value), type_.element), float(value))
    if type_.bits == 1:
        return _integer(type_, int(bool(value)))
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise ValueError(f"{value} is not a literal of type {type_}")
    return _integer(type_, int(value))


@lru_cache(maxsize=1 << 12)
def _integer(type_: Type, value: int) -> Val:
    if type_.bits == 1:
        return _splat(type_, "true" if value else "false", value)
    span = 1 << type_.bits
    number = (value + span // 2) % span - span // 2
    return _splat(type_, str(number), number)


def _splat(type_: Type, text: str, number: int | float) -> Val:
    return Val(f"splat ({type_.scalar} {text})" if type_.lanes else text, type_, number)


def const_vector(element: Type, values: list[int] | list[float]) -> Val:
    """A vector literal with a number per lane."""
    body = ", ".join(str(const(element.scalar, value)) for value in values)
    return Val(f"<{body}>", element.vector(len(values)))


def null() -> Val:
    return Val("null", PTR)


def undefined(type_: Type) -> Val:
    """An undefined value, for lanes that nobody reads."""
    return Val("poison", type_)
