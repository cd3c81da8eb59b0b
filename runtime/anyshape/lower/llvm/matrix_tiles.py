"""Instructions of matrix tiles (AMX): configure, clear, load, multiply, store, release.

In: an open function, numbers of tiles, addresses. Out: a call of LLVM's intrinsic, which has the number of a tile as a literal, so that
nothing allocates tiles. Where the target's tiles are emulated, it calls the function of that name in `emulated_tiles` instead: the rest of
the text is the same.

All tiles have one shape, 16 rows of 64 bytes. So the configuration is loaded once and released at the end: loading clears all tiles.
"""

from __future__ import annotations

from .builder import FunctionBuilder, Module
from .types import I8, I64, PTR, VOID, Val, const

TILES, ROWS, ROW_BYTES = 8, 16, 64
WORDS = ROW_BYTES // 4
"""Words of 32 bits in a row, and rows of words that are multiplied at once"""
CONFIGURATION_BYTES, BYTES_AT, ROWS_AT = 64, 16, 48
"""The size of a configuration, and the first of two bytes for each tile that say the bytes of its rows, and of one that says the rows. The
palette is the first byte of all."""
PALETTE = 1
PRODUCTS = ("tdpbf16ps", "tdpbusd", "tdpbsud", "tdpbssd", "tdpbuud")
"""Products of tiles: of pairs of bf16; of fours of bytes by signs, those of the first factor first"""
_INTRINSICS = {
    "ldtilecfg": (PTR,),
    "tilerelease": (),
    "tilezero": (I8,),
    "tileloadd64": (I8, PTR, I64),
    "tilestored64": (I8, PTR, I64),
    **dict.fromkeys(PRODUCTS, (I8, I8, I8)),
}
INSTRUCTIONS = tuple(_INTRINSICS)


def emulation_of(instruction: str) -> str:
    """The name of the function that emulates an instruction."""
    return f"anyshape_emulated_{instruction}"


EMULATIONS = tuple(map(emulation_of, INSTRUCTIONS))


def configuration(rows: int = ROWS, row_bytes: int = ROW_BYTES) -> bytes:
    """The configuration of tiles that all have one shape."""
    content = bytearray(CONFIGURATION_BYTES)
    content[0] = PALETTE
    content[BYTES_AT : BYTES_AT + 2 * TILES] = row_bytes.to_bytes(2, "little") * TILES
    content[ROWS_AT : ROWS_AT + TILES] = bytes([rows]) * TILES
    return bytes(content)


def define_configuration(module: Module, name: str = "anyshape_tile_configuration") -> Val:
    """Defines the configuration as bytes of a module."""
    return module.data(name, configuration(), CONFIGURATION_BYTES)


def configure(f: FunctionBuilder, at: Val) -> None:
    """Loads a configuration, and clears all tiles."""
    _call(f, "ldtilecfg", at)


def release(f: FunctionBuilder) -> None:
    """Forgets the configuration and the tiles: the operating system need not keep them any more."""
    _call(f, "tilerelease")


def clear(f: FunctionBuilder, tile: int) -> None:
    _call(f, "tilezero", const(I8, tile))


def load(f: FunctionBuilder, tile: int, at: Val, row_bytes: Val) -> None:
    """Loads the rows of a tile, which are so many bytes apart."""
    _call(f, "tileloadd64", const(I8, tile), at, row_bytes)


def store(f: FunctionBuilder, tile: int, at: Val, row_bytes: Val) -> None:
    _call(f, "tilestored64", const(I8, tile), at, row_bytes)


def multiply(f: FunctionBuilder, product: str, total: int, a: int, b: int) -> None:
    """Adds the product of two tiles to a third one."""
    _call(f, product, *(const(I8, tile) for tile in (total, a, b)))


def _call(f: FunctionBuilder, instruction: str, *args: Val) -> None:
    tiles = f.target.matrix_tiles
    if tiles is None:
        raise TypeError(f"{instruction} for a target without matrix tiles")
    if tiles.emulated:
        f.module.declare(emulation_of(instruction), VOID, _INTRINSICS[instruction])
        f.call(emulation_of(instruction), VOID, args)
    else:
        f.call_intrinsic(f"llvm.x86.{instruction}", VOID, args)
