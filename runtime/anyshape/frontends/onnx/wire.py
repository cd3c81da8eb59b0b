"""Strips long weights from the bytes of an ONNX file, so that they stay where they are in the mapped file.

Protobuf would copy every weight twice. The wire format is walked no further than graph → initializer → raw_data; long raw data is taken
out, and the rest is left to protobuf. Anything unexpected makes the result None: protobuf then reads, and judges, the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Field numbers in ModelProto, GraphProto and TensorProto"""
BYTES = 2
"""The wire type of everything with a length"""
LONG = 4096
"""Bytes of raw data from which on it is taken out"""


@dataclass(frozen=True)
class Stripped:
    """`data` parses to the model whose initializers lack the raw data that `taken` has, by their position."""

    data: bytes
    taken: dict[int, memoryview]


class _Unexpected(Exception):
    """Bytes that are not those of a plain ONNX file."""


def strip_weights(data: memoryview) -> Stripped | None:
    """Takes long weights out of the bytes of a model; None if there are none, or anything is unexpected."""
    taken: dict[int, memoryview] = {}
    pieces: list[bytes | memoryview] = []
    seen = False
    try:
        for number, kind, start, inside, end in _fields(data):
            if number == GRAPH and kind == BYTES:
                if seen:
                    return None
                seen = True
                _append(pieces, GRAPH, _graph(data[inside:end], taken))
            else:
                pieces.append(data[start:end])
    except _Unexpected:
        return None
    return Stripped(b"".join(pieces), taken) if taken else None


def _graph(data: memoryview, taken: dict[int, memoryview]) -> bytes:
    pieces: list[bytes | memoryview] = []
    position = 0
    for number, kind, start, inside, end in _fields(data):
        if number != INITIALIZER or kind != BYTES:
            pieces.append(data[start:end])
            continue
        if end - inside < LONG:
            pieces.append(data[start:end])
        else:
            _append(pieces, INITIALIZER, _tensor(data[inside:end], position, taken))
        position += 1
    return b"".join(pieces)


def _tensor(data: memoryview, position: int, taken: dict[int, memoryview]) -> bytes:
    pieces: list[bytes | memoryview] = []
    seen = False
    for number, kind, start, inside, end in _fields(data):
        raw = number == RAW_DATA
        if raw and (seen or kind != BYTES):
            raise _Unexpected
        seen = seen or raw
        if raw and end - inside >= LONG:
            taken[position] = data[inside:end]
        else:
            pieces.append(data[start:end])
    return b"".join(pieces)


def _append(pieces: list[bytes | memoryview], number: int, content: bytes) -> None:
    pieces += [_varint(number << 3 | BYTES), _varint(len(content)), content]


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields (number, wire type, start of the tag, start of the content, end) of each field."""
    at, size = 0, len(data)
    while at < size:
        start = at
        tag, at = _read(data, at)
        number, kind, inside = tag >> 3, tag & 7, at
        if kind == BYTES:
            length, inside = _read(data, at)
            at = inside + length
        elif kind == 0:
            _, at = _read(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise _Unexpected
        if at > size or number == 0:
            raise _Unexpected
        yield number, kind, start, inside, at


def _read(data: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise _Unexpected
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
