"""Matrix tiles computed by functions, as the manual of the instructions describes them: for tests on machines without tiles.

In: a target. Out: a module of a function for each instruction. Each thread has tiles and a configuration of its own. Tiles have any shape
that a configuration may say; rows and bytes beyond it are 0 in every result. What ends a process with the instructions does so here, by a
trap: a configuration that is none, a tile that has no rows, tiles whose shapes do not fit.

Source: Intel SDM vol. 2, the pages of LDTILECFG, TILELOADD, TDPBF16PS and TDPB[SS,SU,US,UU]D. Products of bf16 take subnormal numbers for
0, as factors, sums and results; even and odd elements of k have sums of their own, by fused multiply-adds, which are added to one another
and then to the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..target import Target
from .builder import FunctionBuilder, Module
from .matrix_tiles import (
    BYTES_AT,
    CONFIGURATION_BYTES,
    INSTRUCTIONS,
    PALETTE,
    ROW_BYTES,
    ROWS,
    ROWS_AT,
    TILES,
    WORDS,
    emulation_of,
)
from .types import F32, I8, I16, I32, I64, PTR, VOID, Type, Val, const

_TILE_BYTES = ROWS * ROW_BYTES
_STATE_BYTES = CONFIGURATION_BYTES + TILES * _TILE_BYTES
_STATE = "anyshape_emulated_tiles"
_KEY = "anyshape_emulated_tiles_key"
_LEAST_NORMAL = 2.0**-126
_SIGN_BIT = -(1 << 31)


def emulation_module(target: Target) -> Module:
    """The functions of all instructions."""
    module = Module(target)
    module.word(_KEY)
    module.declare("pthread_key_create", I32, [PTR, PTR])
    module.declare("pthread_getspecific", PTR, [I32])
    module.declare("pthread_setspecific", I32, [I32, PTR])
    module.declare("calloc", PTR, [I64, I64])
    module.define(_STATE, PTR, [], _state)
    for instruction in INSTRUCTIONS:
        write, arguments = _EMULATIONS[instruction]
        module.define(emulation_of(instruction), VOID, arguments, write, internal=False)
    return module


def _state(f: FunctionBuilder) -> None:
    """Returns the configuration of this thread, behind which its tiles are. The first thread that asks makes the key of what threads have;
    one that is made at the same time is left unused. The memory of a thread is freed when it ends."""
    key = Val(f"@{_KEY}", PTR)
    with f.if_(f.compare("eq", f.atomic_load(key, I64), 0)):
        new_key = f.alloca(I32, 1, 8)
        f.module.declare("free", VOID, [PTR])
        f.call("pthread_key_create", I32, [new_key, Val("@free", PTR)])
        f.compare_exchange(key, 0, f.add(f.convert("zext", f.load(new_key, I32), I64), 1), I64)
    number = f.convert("trunc", f.sub(f.atomic_load(key, I64), 1), I32)
    state = f.call("pthread_getspecific", PTR, [number])
    with f.if_(f.compare("ne", f.convert("ptrtoint", state, I64), 0)):
        f.ret(state)
    new = f.call("calloc", PTR, [const(I64, 1), const(I64, _STATE_BYTES)])
    f.call("pthread_setspecific", I32, [number, new])
    f.ret(new)


def _demand(f: FunctionBuilder, condition: Val) -> None:
    with f.if_(f.not_(condition)):
        f.call_intrinsic("llvm.x86.int", VOID, [const(I8, 3)])


# --- configurations ---


def _row_bytes(f: FunctionBuilder, configuration: Val, tile: Val) -> Val:
    return f.convert("zext", f.load(configuration, I16, f.add(tile, BYTES_AT // 2), align=1), I64)


def _rows(f: FunctionBuilder, configuration: Val, tile: Val) -> Val:
    return f.convert("zext", f.load(configuration, I8, f.add(tile, ROWS_AT)), I64)


def _ldtilecfg(f: FunctionBuilder) -> None:
    (at,) = f.args
    state = f.call(_STATE, PTR, [])
    _demand(f, f.compare("eq", f.load(at, I8), PALETTE))
    with f.for_range(0, TILES) as loop:
        bytes_, rows = _row_bytes(f, at, loop.index), _rows(f, at, loop.index)
        _demand(f, f.and_(f.compare("le", bytes_, ROW_BYTES), f.compare("le", rows, ROWS)))
        _demand(f, f.compare("eq", f.compare("eq", bytes_, 0), f.compare("eq", rows, 0)))
    for first, end in ((1, BYTES_AT), (BYTES_AT + 2 * TILES, ROWS_AT), (ROWS_AT + TILES, CONFIGURATION_BYTES)):
        with f.for_range(first, end) as loop:
            _demand(f, f.compare("eq", f.load(at, I8, loop.index), 0))
    f.memset_zero(state, const(I64, _STATE_BYTES))
    f.memcpy(state, at, const(I64, CONFIGURATION_BYTES))
    f.ret()


def _tilerelease(f: FunctionBuilder) -> None:
    f.memset_zero(f.call(_STATE, PTR, []), const(I64, _STATE_BYTES))
    f.ret()


# --- tiles ---


class _TileState:
    """A tile of the thread: its shape, and its memory. It must have rows."""

    def __init__(self, f: FunctionBuilder, state: Val, number: Val) -> None:
        self.f = f
        tile = f.convert("zext", number, I64)
        self.rows, self.row_bytes = _rows(f, state, tile), _row_bytes(f, state, tile)
        self.memory = f.gep(state, f.add(f.mul(tile, _TILE_BYTES), CONFIGURATION_BYTES), I8)
        _demand(f, f.compare("gt", self.rows, 0))

    def row(self, index: Val) -> Val:
        return self.f.gep(self.memory, self.f.mul(index, ROW_BYTES), I8)

    def clear(self) -> None:
        self.f.memset_zero(self.memory, const(I64, _TILE_BYTES))


def _tilezero(f: FunctionBuilder) -> None:
    _TileState(f, f.call(_STATE, PTR, []), f.args[0]).clear()
    f.ret()


def _tileload(f: FunctionBuilder) -> None:
    number, at, step = f.args
    tile = _TileState(f, f.call(_STATE, PTR, []), number)
    tile.clear()
    with f.for_range(0, tile.rows) as loop:
        f.memcpy(tile.row(loop.index), f.gep(at, f.mul(loop.index, step), I8), tile.row_bytes)
    f.ret()


def _tilestore(f: FunctionBuilder) -> None:
    number, at, step = f.args
    tile = _TileState(f, f.call(_STATE, PTR, []), number)
    with f.for_range(0, tile.rows) as loop:
        f.memcpy(f.gep(at, f.mul(loop.index, step), I8), tile.row(loop.index), tile.row_bytes)
    f.ret()


# --- products ---

_RowProduct = Callable[[FunctionBuilder, Val, Val, Val, Val], Val]
"""The words of a row of results, by those that are there, a row of the first factor, how many words of it, and the second factor's rows"""


def _multiply(f: FunctionBuilder, row_product: _RowProduct) -> None:
    """Emits a product of tiles: the shapes of all three must fit, and the result has zeros beyond its own."""
    state = f.call(_STATE, PTR, [])
    total, a, b = (_TileState(f, state, number) for number in f.args)
    for one, other in zip(f.args, (*f.args[1:], f.args[0])):
        _demand(f, f.compare("ne", one, other))
    steps = f.lshr(a.row_bytes, 2)
    for fits in (
        f.compare("eq", a.rows, total.rows),
        f.compare("eq", steps, b.rows),
        f.compare("eq", b.row_bytes, total.row_bytes),
        f.compare("eq", f.and_(f.or_(a.row_bytes, b.row_bytes), 3), 0),
    ):
        _demand(f, fits)
    inside = f.tail_mask(f.lshr(total.row_bytes, 2), WORDS)
    words = I32.vector(WORDS)
    with f.for_range(0, total.rows) as loop:
        at = total.row(loop.index)
        result = row_product(f, f.load(at, words, align=1), a.row(loop.index), steps, b.memory)
        f.store(f.select(inside, result, const(words, 0)), at, align=1)
    f.ret()


def _pairs(f: FunctionBuilder, there: Val, row: Val, steps: Val, b: Val) -> Val:
    """Products of pairs of bf16."""
    vector, words = F32.vector(WORDS), I32.vector(WORDS)
    with f.for_range(0, steps, carried=[const(vector, 0), const(vector, 0)]) as loop:
        factors = f.splat(f.load(row, I32, loop.index), WORDS), f.load(b, words, f.mul(loop.index, WORDS), align=1)
        sums = []
        for halves, so_far in zip((_low, _high), loop.carried):
            x, y = (_flushed(f, halves(f, word)) for word in factors)
            sums.append(_flushed(f, f.fma(x, y, so_far, exact=True)))
        loop.next(*sums)
    even, odd = loop.results
    both = _flushed(f, f.add(even, odd))
    return f.bitcast(_flushed(f, f.add(_flushed(f, f.bitcast(there, vector)), both)), words)


def _low(f: FunctionBuilder, word: Val) -> Val:
    return f.bitcast(f.shl(word, 16), F32.vector(WORDS))


def _high(f: FunctionBuilder, word: Val) -> Val:
    return f.bitcast(f.and_(word, -65536), F32.vector(WORDS))


def _flushed(f: FunctionBuilder, x: Val) -> Val:
    """A subnormal number is 0 with its sign; NaN stays."""
    is_small = f.compare("lt", f.unary("fabs", x), _LEAST_NORMAL)
    zero = f.bitcast(f.and_(f.bitcast(x, x.type.as_int()), _SIGN_BIT), x.type)
    return f.select(is_small, zero, x)


def _fours(f: FunctionBuilder, there: Val, row: Val, steps: Val, b: Val, signs: tuple[bool, bool]) -> Val:
    """Products of four bytes, each operand with a sign or without; sums wrap around."""
    words = I32.vector(WORDS)
    with f.for_range(0, steps, carried=[there]) as loop:
        factors = f.splat(f.load(row, I32, loop.index), WORDS), f.load(b, words, f.mul(loop.index, WORDS), align=1)
        (total,) = loop.carried
        for byte in range(4):
            x, y = (
                f.binary("ashr" if signed else "lshr", f.shl(word, 24 - 8 * byte), 24)
                for word, signed in zip(factors, signs)
            )
            total = f.add(total, f.mul(x, y))
        loop.next(total)
    return loop.results[0]


_OF_THREE = [("total", I8), ("a", I8), ("b", I8)]
_MOVE = [("tile", I8), ("at", PTR), ("step", I64)]
_EMULATIONS: dict[str, tuple[Callable[[FunctionBuilder], None], list[tuple[str, Type]]]] = {
    "ldtilecfg": (_ldtilecfg, [("at", PTR)]),
    "tilerelease": (_tilerelease, []),
    "tilezero": (_tilezero, [("tile", I8)]),
    "tileloadd64": (_tileload, _MOVE),
    "tilestored64": (_tilestore, _MOVE),
    "tdpbf16ps": (partial(_multiply, row_product=_pairs), _OF_THREE),
    **{
        f"tdpb{'us'[a]}{'us'[b]}d": (partial(_multiply, row_product=partial(_fours, signs=(a, b))), _OF_THREE)
        for a in (False, True)
        for b in (False, True)
    },
}
