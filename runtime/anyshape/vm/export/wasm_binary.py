"""WebAssembly's binary format, as far as object files and modules of exported models need it: numbers, names, sections.

In: bytes. Out: their parts; or parts, as bytes.
Source: WebAssembly core specification 2.0, "Binary Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

MAGIC = b"\0asm\1\0\0\0"


class Section(IntEnum):
    CUSTOM = 0
    TYPE = 1
    IMPORT = 2
    FUNCTION = 3
    TABLE = 4
    MEMORY = 5
    GLOBAL = 6
    EXPORT = 7
    ELEMENT = 9
    CODE = 10
    DATA = 11
    DATA_COUNT = 12


class WasmKind(IntEnum):
    """What an import or an export is."""

    FUNCTION = 0
    TABLE = 1
    MEMORY = 2
    GLOBAL = 3


class BinaryReader:
    """Bytes that are read one after the other."""

    def __init__(self, code: bytes, at: int = 0) -> None:
        self.code, self.at = code, at

    @property
    def ended(self) -> bool:
        return self.at >= len(self.code)

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

    def signed(self) -> int:
        """A number in LEB128 whose highest bit of data is the sign."""
        start, number = self.at, self.number()
        bits = 7 * (self.at - start)
        return number - (number >> bits - 1 << bits)

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.code[self.at - count : self.at]

    def name(self) -> str:
        return self.bytes(self.number()).decode()


@dataclass(frozen=True, slots=True)
class WasmImport:
    """`type`: the bytes that describe it, the limits of a table or a memory among them."""

    module: str
    name: str
    kind: WasmKind
    type: bytes


def sections(code: bytes) -> Iterator[tuple[int, str, bytes]]:
    """The number, the name (of custom sections only) and the content of each section."""
    stream = BinaryReader(code, len(MAGIC))
    while not stream.ended:
        number, length = stream.byte(), stream.number()
        content = BinaryReader(stream.bytes(length))
        name = content.name() if number == Section.CUSTOM else ""
        yield number, name, content.code[content.at :]


def imports(content: bytes) -> Iterator[WasmImport]:
    """The imports of a section of such."""
    stream = BinaryReader(content)
    for _ in range(stream.number()):
        module, name, kind = stream.name(), stream.name(), WasmKind(stream.byte())
        start = stream.at
        _skip_type(stream, kind)
        yield WasmImport(module, name, kind, content[start : stream.at])


def _skip_type(stream: BinaryReader, kind: WasmKind) -> None:
    if kind is WasmKind.TABLE:
        stream.byte()
    if kind in (WasmKind.TABLE, WasmKind.MEMORY):
        limits = stream.number()
        stream.number()
        if limits & 1:
            stream.number()
    elif kind is WasmKind.FUNCTION:
        stream.number()
    else:
        stream.bytes(2)


def unsigned(number: int) -> bytes:
    """LEB128 of a number without a sign."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def signed(number: int) -> bytes:
    """LEB128 of a number with a sign."""
    written = bytearray()
    while not -64 <= number < 64:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number & 127])


def text(name: str) -> bytes:
    return unsigned(len(name.encode())) + name.encode()


def vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def section(number: Section, content: bytes) -> bytes:
    return bytes([number]) + unsigned(len(content)) + content
