"""Maps ONNX's numbers of element types to dtypes and back."""

from __future__ import annotations

from anyshape.dims import Size
from anyshape.dtypes import CHAR, DType, parse_dtype
from anyshape.types import TensorType

_OURS = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 8: "char", 9: "bool", 10: "f16", 11: "f64",
         12: "u32", 13: "u64", 16: "bf16", 17: "f8e4m3fn", 18: "f8e4m3fnuz", 19: "f8e5m2", 20: "f8e5m2fnuz", 21: "u4", 22: "i4",
         23: "f4e2m1", 24: "f8e8m0", 25: "u2", 26: "i2"}  # fmt: skip
BY_NUMBER: dict[int, DType] = {number: parse_dtype(name) for number, name in _OURS.items()}
NUMBER_OF: dict[DType, int] = {t: number for number, t in BY_NUMBER.items()}
STRING = 8
"""The element type of strings; a tensor of strings is imported as one of characters, with one dim more."""


def declared_dims(t: TensorType) -> tuple[Size, ...] | None:
    """Returns the dims without that of characters, as ONNX counts them; None if the rank is not known."""
    return t.shape[:-1] if t.shape is not None and t.dtype is CHAR else t.shape


_UNSUPPORTED = {14: "complex64", 15: "complex128"}


def is_known(number: int) -> bool:
    """Whether ONNX has an element type of this number, supported or not; any other number means a damaged file."""
    return number in BY_NUMBER or number in _UNSUPPORTED


def number_of_name(name: str) -> int:
    """Returns the number of an element type by its name in old opsets (`FLOAT`); 0 for an unknown name."""
    import onnx

    known = dict(onnx.TensorProto.DataType.items())
    return int(known.get(name.upper(), 0))


def spell(number: int) -> str:
    """Spells an element type, supported or not, for messages."""
    if number == STRING:
        return "string"
    return str(BY_NUMBER[number]) if number in BY_NUMBER else _UNSUPPORTED.get(number, f"element type {number}")
