"""Files of the format GGUF: metadata, and tensors as bytes. The numbers are those of its specification, version 3.

In: a file, or metadata and tensors. Out: the same the other way round. Tensors are mapped, not read.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_UINT32, _FLOAT32, _STRING, _ARRAY = 4, 6, 8, 9


@dataclass(frozen=True)
class Format:
    """How elements of a tensor lie in memory: blocks of so many of them, in so many bytes."""

    name: str
    elements: int
    nbytes: int


FORMATS = {
    0: Format("F32", 1, 4),
    1: Format("F16", 1, 2),
    2: Format("Q4_0", 32, 18),
    3: Format("Q4_1", 32, 20),
    8: Format("Q8_0", 32, 34),
}


class GgufError(Exception):
    """A file that is none of GGUF, or has something in it that is not read here."""


@dataclass(frozen=True)
class GgufTensor:
    """A tensor: its format, its shape with the fastest axis last, and its bytes [..., of a row]."""

    format: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


@dataclass(frozen=True)
class GgufFile:
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """Raises GgufError for another kind of file, one that ends too soon, and a tensor of a format that is not in `FORMATS`."""
    with path.open("rb") as f:
        if f.read(4) != MAGIC or _scalar(f, "I") not in (2, VERSION):
            raise GgufError(f"{path} is no file of GGUF 2 or 3")
        count, pairs = _scalar(f, "Q"), _scalar(f, "Q")
        metadata = {_string(f): _value(f, _scalar(f, "I")) for _ in range(pairs)}
        described = [_described(f) for _ in range(count)]
        alignment = metadata.get("general.alignment", ALIGNMENT)
        start = -(-f.tell() // alignment) * alignment
        memory = np.frombuffer(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    tensors = {}
    for name, shape, kind, offset in described:
        if kind not in FORMATS:
            raise GgufError(
                f"{path}: {name} has elements of the format {kind}, and not one of {[t.name for t in FORMATS.values()]}"
            )
        form = FORMATS[kind]
        rows = (*shape[:-1], shape[-1] // form.elements * form.nbytes)
        first = start + offset
        if first + math.prod(rows) > len(memory):
            raise GgufError(f"{path} ends before its tensor {name} does")
        tensors[name] = GgufTensor(form.name, shape, memory[first : first + math.prod(rows)].reshape(rows))
    return GgufFile(metadata, tensors)


def write_gguf(
    path: Path, metadata: Mapping[str, str | int | float], tensors: Iterable[tuple[str, str, NDArray[Any]]]
) -> None:
    """Writes metadata, and tensors as names, formats and arrays: of F32 elements, of other formats the bytes of rows."""
    kinds = {form.name: (kind, form) for kind, form in FORMATS.items()}
    listed = list(tensors)
    with path.open("wb") as f:
        f.write(MAGIC + struct.pack("<IQQ", VERSION, len(listed), len(metadata)))
        for key, value in metadata.items():
            f.write(_packed(key) + _packed_value(value))
        offset = 0
        for name, form, array in listed:
            kind, block = kinds[form]
            row = array.shape[-1] if form == "F32" else array.shape[-1] // block.nbytes * block.elements
            shape = (*array.shape[:-1], row)
            f.write(_packed(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        for _, _, array in listed:
            f.write(bytes(-f.tell() % ALIGNMENT))
            f.write(np.ascontiguousarray(array).tobytes())


def _scalar(f: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", f.read(struct.calcsize(code)))[0]


def _string(f: BinaryIO) -> str:
    return f.read(_scalar(f, "Q")).decode()


def _value(f: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(f)
    if kind == _ARRAY:
        of, count = _scalar(f, "I"), _scalar(f, "Q")
        return [_value(f, of) for _ in range(count)]
    return _scalar(f, _SCALARS[kind])


def _described(f: BinaryIO) -> tuple[str, tuple[int, ...], int, int]:
    """The name, the shape, the format and the place of a tensor."""
    name, axes = _string(f), _scalar(f, "I")
    shape = tuple(_scalar(f, "Q") for _ in range(axes))
    return name, shape[::-1], _scalar(f, "I"), _scalar(f, "Q")


def _packed(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _packed_value(value: str | int | float) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _packed(value)
    return struct.pack("<If", _FLOAT32, value) if isinstance(value, float) else struct.pack("<II", _UINT32, value)
