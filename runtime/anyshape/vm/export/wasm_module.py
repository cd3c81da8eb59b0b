"""WebAssembly module of an exported model, which a browser instantiates: the object file, linked by itself.

In: an object file of wasm32, in which all that it refers to is defined, but functions of the library of mathematics; the functions that
callers see. Out: a module with its own memory, of which it exports these functions, `memory`, `__stack_pointer` and `__heap_base`, the
first address that is free. In memory lie the stack, which ends the call where it is too long instead of writing into data, and the data.
Source: "WebAssembly Object File Linking" (github.com/WebAssembly/tool-conventions, Linking.md). Numbers in an object are those of a module
whose data lies at 0; that of position-independent code adds the base itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.lower.llvm.jit import CodegenError
from anyshape.vm.export.wasm_binary import (
    MAGIC,
    BinaryReader,
    Section,
    WasmImport,
    WasmKind,
    imports,
    section,
    sections,
    signed,
    text,
    unsigned,
    vector,
)

STACK = 1 << 20
"""Bytes of the stack, and the address of the data"""
PAGE = 1 << 16
_FIRST_ENTRY = 1
"""The first entry of the table of functions that an object uses"""
_SYMBOL_TABLE = 8
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
_I32, _FUNCTION_REFERENCE = 0x7F, 0x70
_ADDRESS = 5
"""The relocation of an address in data"""
_WITH_ADDEND = frozenset({3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23})
_AS_WRITTEN = frozenset({0, 1, 2, 6, 7, 11, 12, 20})
"""Relocations whose numbers are right as they are: those of functions, types, globals, tables and their entries, and of addresses beside
the base"""


def module_of(code: bytes, functions: Sequence[str]) -> bytes:
    """Links an object file. Raises CodegenError for what no object of an exported model has."""
    contents = {number: content for number, _, content in sections(code) if number != Section.CUSTOM}
    named = {name: content for number, name, content in sections(code) if number == Section.CUSTOM}
    data, end = _data(contents.get(Section.DATA, b"\0"), named.get("reloc.DATA", b""))
    _demand_written(named.get("reloc.CODE", b""))
    imported = list(imports(contents[Section.IMPORT]))
    globals_ = {"__stack_pointer": STACK, "__memory_base": STACK, "__table_base": _FIRST_ENTRY}
    defined, exported = _globals(imported, globals_, end)
    tables = [_table(i.type) for i in imported if i.kind is WasmKind.TABLE]
    numbers = _functions(named["linking"])
    exported += [(name, WasmKind.FUNCTION, numbers[name]) for name in functions]
    pages = unsigned(-(-end // PAGE))
    outer = [text(i.module) + text(i.name) + bytes([i.kind]) + i.type for i in imported if i.kind is WasmKind.FUNCTION]
    linked = {
        **contents,
        Section.IMPORT: vector(outer),
        Section.TABLE: vector(tables),
        Section.MEMORY: vector([b"\0" + pages]),
        Section.GLOBAL: vector(defined),
        Section.EXPORT: vector(
            [text(name) + bytes([kind]) + unsigned(k) for name, kind, k in [("memory", WasmKind.MEMORY, 0), *exported]]
        ),
        Section.DATA: data,
    }
    order: list[Section] = [
        *(s for s in Section if s not in (Section.CUSTOM, Section.CODE, Section.DATA, Section.DATA_COUNT))
    ]
    order += [Section.DATA_COUNT, Section.CODE, Section.DATA]
    return MAGIC + b"".join(section(s, linked[s]) for s in order if s in linked)


def _globals(
    imported: Sequence[WasmImport], values: Mapping[str, int], end: int
) -> tuple[list[bytes], list[tuple[str, WasmKind, int]]]:
    """Definitions of the globals that an object imports, in its order, and of `__heap_base` behind them; what is exported of them."""
    names = [i.name for i in imported if i.kind is WasmKind.GLOBAL]
    if strange := {*names} - values.keys():
        raise CodegenError(f"the object imports {', '.join(sorted(strange))}, which linking does not define")
    types = [i.type for i in imported if i.kind is WasmKind.GLOBAL]
    defined = [t + _constant(values[name]) for name, t in zip(names, types, strict=True)]
    exported = (
        [("__stack_pointer", WasmKind.GLOBAL, names.index("__stack_pointer"))] if "__stack_pointer" in names else []
    )
    return [*defined, bytes([_I32, 0]) + _constant(end)], [*exported, ("__heap_base", WasmKind.GLOBAL, len(names))]


def _constant(number: int) -> bytes:
    return b"\x41" + signed(number) + b"\x0b"


def _table(limits: bytes) -> bytes:
    stream = BinaryReader(limits, 2)
    return bytes([_FUNCTION_REFERENCE, 0]) + unsigned(stream.number() + _FIRST_ENTRY)


def _data(content: bytes, relocations: bytes) -> tuple[bytes, int]:
    """The segments at their addresses, and the first free address behind them, at a multiple of 64."""
    moved, stream = bytearray(content), BinaryReader(content)
    for kind, at in _relocations(relocations):
        if kind == _ADDRESS:
            address = int.from_bytes(moved[at : at + 4], "little") + STACK
            moved[at : at + 4] = address.to_bytes(4, "little")
        elif kind not in _AS_WRITTEN:
            raise CodegenError(f"the object's data has a relocation of kind {kind}, which linking does not know")
    segments, end = [], STACK
    for _ in range(stream.number()):
        if stream.bytes(2) != b"\0\x41":
            raise CodegenError("the object's data has a segment without an address")
        address = stream.signed() + STACK
        stream.byte()
        length = stream.number()
        start = stream.at
        stream.at += length
        segments.append(b"\0" + _constant(address) + unsigned(length) + bytes(moved[start : stream.at]))
        end = max(end, address + length)
    return vector(segments), -(-end // 64) * 64


def _relocations(content: bytes) -> list[tuple[int, int]]:
    """The kind and the place of each relocation of a section."""
    stream, listed = BinaryReader(content), []
    if content:
        stream.number()  # the section
        for _ in range(stream.number()):
            kind, at, _ = stream.byte(), stream.number(), stream.number()
            if kind in _WITH_ADDEND:
                stream.signed()
            listed.append((kind, at))
    return listed


def _demand_written(relocations: bytes) -> None:
    if strange := {kind for kind, _ in _relocations(relocations)} - _AS_WRITTEN:
        raise CodegenError(f"the object's code has relocations of kinds {sorted(strange)}, which linking does not know")


def _functions(linking: bytes) -> dict[str, int]:
    """The numbers of the functions that an object defines, by their names."""
    stream, numbers = BinaryReader(linking), dict[str, int]()
    stream.number()  # the version
    while not stream.ended:
        kind, length = stream.byte(), stream.number()
        if kind == _SYMBOL_TABLE:
            numbers.update(_symbols(BinaryReader(stream.bytes(length))))
        else:
            stream.at += length
    return numbers


def _symbols(stream: BinaryReader) -> dict[str, int]:
    data, of_section = 1, 3
    numbers = {}
    for _ in range(stream.number()):
        kind, flags = stream.byte(), stream.number()
        if kind == data:
            stream.name()
            if not flags & _UNDEFINED:
                stream.number(), stream.number(), stream.number()
        elif kind == of_section:
            stream.number()
        else:
            number = stream.number()
            name = stream.name() if not flags & _UNDEFINED or flags & _EXPLICIT_NAME else ""
            if kind == WasmKind.FUNCTION and not flags & _UNDEFINED:
                numbers[name] = number
    return numbers
