"""Functions that an object file calls and does not define, read from the file itself.

In: an object file, in ELF of 64 bits, little-endian, or WebAssembly. Out: names.
Sources: the System V ABI (gABI 4.1, "Symbol Table"); WebAssembly core specification 2.0, "Binary Format: Modules".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_IMPORTS, _FUNCTION, _TABLE, _MEMORY = 2, 0, 1, 2


def undefined(code: bytes) -> set[str]:
    """The undefined functions of an object file."""
    return set(_of_wasm(code) if code.startswith(b"\0asm") else _of_elf(code))


def _of_elf(code: bytes) -> Iterator[str]:
    at, size, count = struct.unpack_from("<Q", code, 0x28)[0], *struct.unpack_from("<HH", code, 0x3A)
    sections = [_SECTION.unpack_from(code, at + k * size) for k in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind == _SYMBOL_TABLE:
            names = sections[link][4]
            for symbol in range(offset, offset + length, _SYMBOL.size):
                name, _, _, section, _, _ = _SYMBOL.unpack_from(code, symbol)
                if name and not section:
                    start = names + name
                    yield code[start : code.index(b"\0", start)].decode()


class _Bytes:
    """Bytes that are read one after the other."""

    def __init__(self, code: bytes, at: int) -> None:
        self.code, self.at = code, at

    def byte(self) -> int:
        self.at += 1
        return self.code[self.at - 1]

    def number(self) -> int:
        """A number in LEB128, without a sign."""
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def name(self) -> str:
        length = self.number()
        self.at += length
        return self.code[self.at - length : self.at].decode()


def _of_wasm(code: bytes) -> Iterator[str]:
    stream = _Bytes(code, 8)
    while stream.at < len(code):
        section, length = stream.byte(), stream.number()
        end = stream.at + length
        if section == _IMPORTS:
            for _ in range(stream.number()):
                stream.name()
                name, kind = stream.name(), stream.byte()
                if kind == _FUNCTION:
                    yield name
                _skip_type(stream, kind)
        stream.at = end


def _skip_type(stream: _Bytes, kind: int) -> None:
    if kind == _TABLE:
        stream.byte()
    if kind in (_TABLE, _MEMORY):
        limits = stream.number()
        stream.number()
        if limits & 1:
            stream.number()
    elif kind == _FUNCTION:
        stream.number()
    else:
        stream.byte()
        stream.byte()
