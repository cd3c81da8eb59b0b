"""The shared code of the matrix product: micro-kernels and packers, compiled once per machine and element type.

In: a target and the symbols that an emitted kernel imports. Out: their addresses. The object code comes from the cache on disk after the
first time, under a key that the code of `lower` decides, so that a lookup need not write its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from anyshape.code_version import code_version
from anyshape.equations import entropy

from ..llvm import polling
from ..llvm.builder import Module
from ..llvm.emulated_tiles import emulation_module
from ..llvm.jit import CodegenError, Loaded, load_object, object_by_key, object_key
from ..llvm.matrix_tiles import EMULATIONS, WORDS
from ..llvm.types import BF16, F16, F32, F64, I8, I16, I32, I64, Type
from ..target import Target
from . import pairs
from .codes import (
    SIDES,
    Side,
    code_kernels,
    emit_pack_code_rows,
    emit_pack_codes,
    narrow_code_kernels,
    narrow_table_of,
    pack_codes_name,
    table_of,
    tiled,
)
from .matrix_tiles import emit_strip_transposition, emit_tap_kernels, emit_tile_kernels
from .microkernels import (
    WordKernels,
    adding_name,
    emit_adding,
    emit_keeping,
    emit_kernels,
    keeping_name,
    table_name,
    tile_columns,
)
from .packing import emit_pack, emit_pack_all, emit_touch, pack_all_name, pack_name, touch_name
from .pairs import Pairs, accumulation, dot_operands, emit_pack_pairs, emit_pack_rows, strip_operands
from .reload_probe import reloads_factors
from .thin import emit_thin, join_name, part_name
from .tiles import Tiles, tiles_for
from .transposition import emit_transpose, transpose_name

ELEMENTS = (F32, F64, I32, I64)
"""Element types that have kernels. Narrower ones are computed in one of these."""
STORED = (F16, BF16, I8)
"""Types that operands of f32 products may have in memory: kernels of their own widen B as they read it, packers A as they pack it."""
CODES = (I8.vector(4),)
"""Types whose products are those of words: bytes in sums of i32, which are moved by this library too."""
NARROW_CODES = (I8.vector(2),)
"""Types whose products are those of words that constants have in fewer bits, where words are two bytes."""
PAIRED = (BF16.vector(2), F16.vector(2))
"""Types whose products are those of words, from operands of f32: pairs of bf16 or of f16."""
TILED = (BF16.vector(WORDS), I8.vector(WORDS))
"""Types whose products are those of words by matrix tiles: the first of pairs of bf16, the second of fours of bytes."""
MOVED = (I16,)
"""Types that are transposed, and not computed with."""
ALL = (*ELEMENTS, *STORED, *CODES, *NARROW_CODES, *PAIRED, *TILED, *MOVED)


def library_module(target: Target, element: Type) -> Module:
    """The module of one element type, as text to compile."""
    module = Module(target)
    if element in STORED:
        tiles = tiles_for(target, F32)
        emit_kernels(module, tiles, element)
        emit_keeping(module, tiles, element)
        emit_adding(module, tiles, element)
        emit_pack(module, tiles, element)
        emit_pack(module, tiles, element, element)
        emit_pack_all(module, element)
        return module
    if element in CODES:
        tiles = tiles_for(target, I32)
        for a_unsigned in (False, True):
            emit_kernels(module, tiles, words=code_kernels(a_unsigned))
        for side in SIDES:
            emit_pack_codes(module, tiles, side)
        emit_transpose(module, element.scalar)
        emit_thin(module, element.scalar)
        return module
    if element in NARROW_CODES:
        tiles = tiles_for(target, I32)
        for a_unsigned in (False, True):
            emit_kernels(module, tiles, I16, narrow_code_kernels(a_unsigned))
        return module
    if element in PAIRED:
        tiles, of = tiles_for(target, F32), Pairs(element.scalar)
        dot, strip = dot_operands(target, of, tiles.lanes), strip_operands(target, of)
        emit_kernels(module, tiles, words=WordKernels(of.table, accumulation(target, of), dot, strip))
        emit_pack_pairs(module, tiles, of)
        return module
    if element in TILED:
        _emit_tiled(module, element)
        return module
    if element in MOVED:
        emit_transpose(module, element)
        emit_thin(module, element)
        return module
    tiles = tiles_for(target, element)
    emit_kernels(module, tiles)
    if element.is_float:
        emit_adding(module, tiles)
    emit_pack(module, tiles)
    emit_pack_all(module, element)
    emit_touch(module, element)
    emit_transpose(module, element)
    emit_thin(module, element)
    return module


def _emit_tiled(module: Module, element: Type) -> None:
    """Emits what multiplies words by matrix tiles."""
    tiles = tiles_for(module.target, F32)
    columns = tile_columns(tiles)
    if element == TILED[0]:
        emit_tile_kernels(module, pairs.TILED, columns)
        emit_tap_kernels(module, pairs.TILED)
        emit_pack_rows(module, tiles)
        emit_strip_transposition(module, pairs.TILED.transpose)
        return
    for a_unsigned in (False, True):
        emit_tile_kernels(module, tiled(Side(a_unsigned)), columns)
        emit_tap_kernels(module, tiled(Side(a_unsigned)))
        emit_pack_code_rows(module, Side(True, flips=a_unsigned))
    emit_strip_transposition(module, tiled(SIDES[0]).transpose)


def _tiled_symbols(element: Type) -> tuple[str, ...]:
    names = (pairs.TILED,) if element == TILED[0] else tuple(map(tiled, SIDES))
    return tuple(dict.fromkeys(s for n in names for s in (n.table, n.pack_rows, n.transpose, n.taps)))


def library_key(target: Target, element: Type) -> str:
    """The key of the library's object in caches."""
    reloads = element in STORED and reloads_factors(target)
    return object_key(f"products of {element.as_float} by {code_version('anyshape.lower')}, {reloads}", target)


def library_object(target: Target, element: Type) -> bytes:
    return object_by_key(library_key(target, element), lambda: library_module(target, element).text(), target)


@cache
def load_library(target: Target, element: Type) -> Loaded:
    imports = {} if element not in TILED else _emulations(target, EMULATIONS)
    return load_object(library_object(target, element), symbols_of(element), imports)


def _emulations(target: Target, symbols: Iterable[str]) -> dict[str, int]:
    """The addresses of functions for instructions of matrix tiles; none where the processor has these."""
    if target.matrix_tiles is None or not target.matrix_tiles.emulated:
        return {}
    loaded = _load_emulation(target)
    return {symbol: loaded.address(symbol) for symbol in symbols}


@cache
def _load_emulation(target: Target) -> Loaded:
    key = object_key(f"emulated tiles by {code_version('anyshape.lower')}", target)
    return load_object(object_by_key(key, lambda: emulation_module(target).text(), target), EMULATIONS)


def symbols_of(element: Type) -> tuple[str, ...]:
    """The symbols that the library of an element type defines for drivers."""
    if element in STORED:
        tables = table_name(F32, element), keeping_name(F32, element), adding_name(F32, element)
        return (*tables, pack_name(element, F32), pack_name(element), pack_all_name(element))
    if element in CODES:
        return (*map(table_of, (False, True)), *map(pack_codes_name, SIDES), *_moving(element.scalar))
    if element in NARROW_CODES:
        return tuple(map(narrow_table_of, (False, True)))
    if element in PAIRED:
        return Pairs(element.scalar).table, Pairs(element.scalar).packers[0]
    if element in TILED:
        return _tiled_symbols(element)
    if element in MOVED:
        return _moving(element)
    names = (table_name, *((adding_name,) if element.is_float else ()), pack_name, pack_all_name, touch_name)
    return (*(name(element) for name in names), *_moving(element))


def _moving(element: Type) -> tuple[str, ...]:
    return transpose_name(element), join_name(element), part_name(element)


_BY_DTYPE = {"float32": F32, "float64": F64, "int32": I32, "int64": I64, "float16": F16, "bfloat16": BF16, "int8": I8}


def packer_of(dtype: np.dtype[Any], tiles: Tiles, target: Target) -> int | None:
    """The address of the `pack_all` of operands of a dtype, for products of these tiles; None if they have none of their own, or
    none that runs here."""
    element = _BY_DTYPE.get(dtype.name)
    if target.foreign or element is None or tiles.element != (F32 if element in STORED else element):
        return None
    return load_library(target, element).address(pack_all_name(element))


def toucher(target: Target) -> int:
    """The address of the code that touches pages of memory."""
    return load_library(target, F32).address(touch_name(F32))


def elements_of(symbols: Iterable[str]) -> list[Type]:
    """Element types whose libraries a module with these `imports` needs."""
    needed = set(symbols)
    return [e for e in ALL if needed & set(symbols_of(e))]


_WORDS = {entropy.SYMBOL: entropy.ADDRESS, polling.SYMBOL: polling.ADDRESS}


def resolve(symbols: Iterable[str], target: Target) -> dict[str, int]:
    """Looks up the addresses of a module's `imports`: symbols of the library, and words of the process."""
    addresses: dict[str, int] = {}
    for symbol in symbols:
        if symbol in _WORDS:
            addresses[symbol] = _WORDS[symbol]
            continue
        if symbol in EMULATIONS:
            addresses |= _emulations(target, [symbol])
            continue
        element = next((e for e in ALL if symbol in symbols_of(e)), None)
        if element is None:
            raise CodegenError(f"{symbol!r} is no symbol of the matrix-product library")
        addresses[symbol] = load_library(target, element).address(symbol)
    return addresses
