"""Functions that an object file calls and does not define, read from the file itself.

In: an object file, in ELF of 64 bits, little-endian, or WebAssembly. Out: names.
Source of ELF: the System V ABI (gABI 4.1, "Symbol Table").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from anyshape.vm.export.wasm_binary import Section, WasmKind, imports, sections

_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2


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


def _of_wasm(code: bytes) -> Iterator[str]:
    for number, _, content in sections(code):
        if number == Section.IMPORT:
            yield from (i.name for i in imports(content) if i.kind is WasmKind.FUNCTION)
