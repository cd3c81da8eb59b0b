"""Products of bytes: several elements along k are a word of 32 bits, which is multiplied and added up as one.

Where the processor adds up products of four bytes, one with a sign and one without, a word has four; elsewhere it has two, widened to 16
bits, and nothing saturates. Large constants keep their two bytes, which kernels widen as they read them. So a product of bytes is a
product of words for the micro-kernels and the driver, whose k counts words: only packing, which every operand takes part in, and the step
of multiplying know better. Sums are those of i32, which wrap around.

In: what both operands are. Out: names of tables and packers, and the code of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.matrix_tiles import ROW_BYTES
from ..llvm.transpose import transpose
from ..llvm.types import I8, I16, I32, I64, VOID, Type, Val, const
from ..target import Target
from .accumulation import Accumulation
from .byte_dots import multiply_add_words
from .matrix_tiles import ROW_PACK_ARGUMENTS, TileNames
from .microkernels import WordKernels
from .packing import PACK_ARGUMENTS
from .tiles import Tiles
from .words import panel_steps, word_panels

SIGN = 0x80


@dataclass(frozen=True)
class Side:
    """The bytes of an operand: as they are multiplied, with a sign or without, and whether their sign bit is flipped before that, which
    takes 128 from what had no sign and adds 128 to what had one."""

    unsigned: bool
    flips: bool = False


@dataclass(frozen=True)
class Codes:
    """The two operands of a product of bytes: one is multiplied with a sign, the other without."""

    a: Side
    b: Side

    def __post_init__(self) -> None:
        if self.a.unsigned == self.b.unsigned:
            raise TypeError("one operand of a product of bytes has a sign, the other has none")

    @property
    def source(self) -> Type:
        return I8

    @property
    def table(self) -> str:
        return table_of(self.a.unsigned)

    @property
    def narrow_table(self) -> str:
        return narrow_table_of(self.a.unsigned)

    @property
    def packers(self) -> tuple[str, str]:
        return pack_codes_name(self.a), pack_codes_name(self.b)

    @property
    def reads_b(self) -> bool:
        return False

    def per(self, target: Target) -> int:
        return per_word(target)

    def reads_a(self, target: Target) -> bool:
        """Whether four bytes of A in memory are a word as they are."""
        return per_word(target) == 4 and not self.a.flips

    def tiles(self, target: Target) -> TileNames | None:
        return tiled(self.a) if target.matrix_tiles is not None and target.matrix_tiles.dots else None

    def least_rows(self, target: Target) -> int:
        assert target.matrix_tiles is not None
        return target.matrix_tiles.least_rows

    def stored_b(self, target: Target, elements: int) -> Type | None:
        """Two bytes where the second cache does not hold as many halves: few rows take as long as reading them, and of many rows widening
        takes a fifteenth of the time."""
        return I16 if per_word(target) == 2 and elements * I16.bytes > target.l2_bytes else None

    def prepacked(self, array: npt.NDArray[Any], tiles: Tiles, target: Target) -> npt.NDArray[Any]:
        raw = array.view(np.uint8) ^ np.uint8(SIGN) if self.b.flips else array.view(np.uint8)
        codes = raw.view(np.uint8 if self.b.unsigned else np.int8)
        per, steps = per_word(target), panel_steps(self, target, array.shape[-2])
        wide = per == 2 and self.stored_b(target, array.shape[-2] * array.shape[-1]) is None
        return word_panels(codes.astype(np.int16) if wide else codes.view(np.int8), tiles.columns, per, steps)


def tiled(a: Side) -> TileNames:
    """What multiplies by matrix tiles, by the bytes of A."""
    signs, flipped = ("u8s8", "us") if a.unsigned else ("s8u8", "su"), "_flipped" if a.flips else ""
    return TileNames(
        f"anyshape_gemm_{signs[0]}_tile_kernels",
        f"anyshape_gemm_i8{flipped}_rows",
        "anyshape_gemm_i8_strip",
        f"tdpb{signs[1]}d",
        f"anyshape_gemm_{signs[0]}_tap_kernels",
    )


def table_of(a_unsigned: bool) -> str:
    return f"anyshape_gemm_{'u8s8' if a_unsigned else 's8u8'}_kernels"


def narrow_table_of(a_unsigned: bool) -> str:
    return f"anyshape_gemm_{'u8s8' if a_unsigned else 's8u8'}_narrow_kernels"


def code_kernels(a_unsigned: bool) -> WordKernels:
    """The kernels of words."""
    return WordKernels(table_of(a_unsigned), _accumulation(a_unsigned))


def narrow_code_kernels(a_unsigned: bool) -> WordKernels:
    """The kernels of words of two elements, where panels of B have two bytes for each."""

    def widen(f: FunctionBuilder, narrow: Val, to: Type) -> Val:
        elements = f.bitcast(narrow, I8.vector(2 * to.lanes))
        return f.bitcast(f.convert("sext" if a_unsigned else "zext", elements, I16), to)

    return WordKernels(narrow_table_of(a_unsigned), _accumulation(a_unsigned), widen=widen)


def _accumulation(a_unsigned: bool) -> Accumulation:
    return Accumulation(partial(multiply_add_words, a_unsigned=a_unsigned))


def per_word(target: Target) -> int:
    """Elements of a word."""
    return 4 if target.dots else 2


def pack_codes_name(side: Side) -> str:
    return f"anyshape_gemm_{'u8' if side.unsigned else 's8'}{'_flipped' if side.flips else ''}_pack"


SIDES = tuple(Side(unsigned, flips) for unsigned in (False, True) for flips in (False, True))


def ones(target: Target) -> Val:
    """A word of ones, whose products with a word are its sum, with whatever signs."""
    per = per_word(target)
    return const(I32, sum(1 << k * 32 // per for k in range(per)))


def words_of(f: FunctionBuilder, rows: list[Val], side: Side) -> Val:
    """A vector of words whose elements are those of the rows, vectors of bytes of consecutive k; fewer rows than a word has elements leave
    the rest 0."""
    bits = 32 // per_word(f.target)
    late = side.flips and (bits == 8 or side.unsigned)  # all at once
    word = const(I32.vector(rows[0].type.lanes), 0)
    for k, row in enumerate(rows):
        if side.flips and not late:
            row = f.xor(row, SIGN)
        if bits == 16 and not side.unsigned:
            row = f.convert("sext", row, I16)
        placed = f.convert("zext", row, I32)
        word = f.or_(word, f.shl(placed, k * bits)) if k else placed
    return f.xor(word, sum(SIGN << k * bits for k in range(len(rows)))) if late else word


# --- packing ---


def emit_pack_codes(module: Module, tiles: Tiles, side: Side) -> None:
    """Emits the exported packer of an operand: like those of other elements, but that `k` counts bytes and steps of the result words."""
    whole = pack_codes_name(side)
    masks = _masks_bytes(module.target)
    for name, emit in (("along_k", _emit_along_k), ("along_rows", _emit_along_rows), ("any", _emit_any)):
        with module.function(f"{whole}_{name}", VOID, PACK_ARGUMENTS, internal=True) as f:
            emit(f, tiles, side)
            f.ret()
    with module.function(whole, VOID, PACK_ARGUMENTS) as f:
        at, row_step, k_step, rows, width, k, target = f.args
        strips = f.ceil_div(rows, tiles.lanes)
        per = per_word(f.target)
        with f.for_range(0, strips) as loop:
            first = f.mul(f.sub(f.sub(strips, 1), loop.index), tiles.lanes)
            start = f.gep(at, f.mul(first, row_step), I8)
            count, to = f.smin(f.sub(rows, first), tiles.lanes), f.gep(target, first, I32)
            along_rows = f.compare("eq", row_step, 1)
            if not masks:
                along_rows = f.and_(along_rows, f.compare("eq", count, tiles.lanes))
            with f.if_else(f.compare("eq", k_step, 1)) as unit_k:
                with unit_k.then():
                    f.call(f"{whole}_along_k", VOID, [start, row_step, k_step, count, width, k, to])
                with unit_k.otherwise(), f.if_else(along_rows) as unit_row:
                    with unit_row.then():
                        words = f.binary("udiv", k, const(I64, per))
                        f.call(f"{whole}_along_rows", VOID, [start, row_step, k_step, count, width, words, to])
                        done = f.mul(words, per)
                        with f.if_(f.compare("lt", done, k)):
                            args = [
                                f.gep(start, f.mul(done, k_step), I8),
                                row_step,
                                k_step,
                                count,
                                width,
                                f.sub(k, done),
                            ]
                            f.call(f"{whole}_any", VOID, [*args, f.gep(to, f.mul(words, width), I32)])
                    with unit_row.otherwise():
                        f.call(f"{whole}_any", VOID, [start, row_step, k_step, count, width, k, to])
        f.ret()


def emit_pack_code_rows(module: Module, side: Side) -> None:
    """Emits the exported packer of rows along k for matrix tiles: rows of whole tiles of words, with zeros at their ends."""
    vector = I8.vector(ROW_BYTES)
    with module.function(tiled(side).pack_rows, VOID, ROW_PACK_ARGUMENTS) as f:
        source, row_step, rows, k, pitch, to = f.args
        whole = f.and_(k, -ROW_BYTES)
        inside = f.tail_mask(f.convert("trunc", f.sub(k, whole), I32), ROW_BYTES)
        with f.for_range(0, rows, carried=[source, to]) as loop:
            at, target = loop.carried
            with f.for_range(0, whole, ROW_BYTES) as steps:
                f.store(digits(f, f.load(at, vector, steps.index), side), target, steps.index)
            with f.if_(f.compare("lt", whole, k)):
                last = digits(f, f.masked_load(at, vector, inside, whole), side)
                f.store(f.select(inside, last, const(vector, 0)), target, whole)
            loop.next(f.gep(at, row_step, I8), f.gep(target, pitch, I32))
        f.ret()


def _masks_bytes(target: Target) -> bool:
    """Whether masked loads of bytes are instructions: elsewhere LLVM branches for each lane."""
    return target.scalef


def _emit_along_k(f: FunctionBuilder, tiles: Tiles, side: Side) -> None:
    """Emits packing of rows contiguous along k: square blocks of words are transposed in registers."""
    source, row_step, _, rows, width, k, to = f.args
    lanes, per = tiles.lanes, per_word(f.target)
    step = lanes * per
    row_type = I8.vector(step)
    starts = [f.gep(source, f.mul(f.smin(f.sub(rows, 1), i), row_step), I8) for i in range(lanes)]
    whole = f.sub(k, f.binary("and", k, const(I64, step - 1)))
    rest = f.sub(k, whole)

    def put(raw: list[Val], target: Val) -> None:
        for word in transpose(f, [_as_words(f, bytes_, side) for bytes_ in raw]):
            f.store(word, target)
            target = f.gep(target, width, I32)

    with f.for_range(0, whole, step) as loop:
        at = f.binary("udiv", loop.index, const(I64, per))
        put([f.load(start, row_type, loop.index) for start in starts], f.gep(to, f.mul(at, width), I32))
    with f.if_(f.compare("gt", rest, 0)):
        inside = f.tail_mask(f.convert("trunc", rest, I32), step)
        zero = const(row_type, SIGN if side.flips else 0)  # which becomes 0
        if _masks_bytes(f.target):
            raw = [f.select(inside, f.masked_load(start, row_type, inside, whole), zero) for start in starts]
        else:
            raw = []
            room = f.alloca(I8, step)
            for start in starts:
                f.store(zero, room)
                with f.for_range(0, rest, at_least_once=True) as each:
                    f.store(f.load(start, I8, f.add(whole, each.index)), room, each.index)
                raw.append(f.load(room, row_type))
        at = f.binary("udiv", whole, const(I64, per))
        put(raw, f.gep(to, f.mul(at, width), I32))


def digits(f: FunctionBuilder, raw: Val, side: Side) -> Val:
    """Bytes as words have them: four as they are, or two of 16 bits."""
    if side.flips:
        raw = f.xor(raw, SIGN)
    return raw if per_word(f.target) == 4 else f.convert("zext" if side.unsigned else "sext", raw, I16)


def _as_words(f: FunctionBuilder, raw: Val, side: Side) -> Val:
    """Bytes that lie side by side, as words."""
    per = per_word(f.target)
    return f.bitcast(digits(f, raw, side), I32.vector(raw.type.lanes // per))


def _emit_along_rows(f: FunctionBuilder, tiles: Tiles, side: Side) -> None:
    """Emits packing of rows contiguous among themselves, for so many whole words: as many bytes of each row of k as there are rows."""
    source, _, k_step, rows, width, words, to = f.args
    lanes, per = tiles.lanes, per_word(f.target)
    vector = I8.vector(lanes)
    mask = f.tail_mask(rows, lanes) if _masks_bytes(f.target) else None
    with f.for_range(0, words, carried=[source, to]) as loop:
        at, target = loop.carried
        raw = []
        for _ in range(per):
            raw.append(f.load(at, vector) if mask is None else f.masked_load(at, vector, mask))
            at = f.gep(at, k_step, I8)
        f.store(words_of(f, raw, side), target)
        loop.next(at, f.gep(target, width, I32))


def _emit_any(f: FunctionBuilder, tiles: Tiles, side: Side) -> None:
    """Emits packing for any steps, element by element."""
    source, row_step, k_step, rows, width, k, to = f.args
    per = per_word(f.target)
    with f.for_range(0, k, per, carried=[to]) as loop:
        target = loop.carried[0]
        inside = [f.compare("lt", f.add(loop.index, j), k) for j in range(per)]
        places = [f.mul(f.smin(f.add(loop.index, j), f.sub(k, 1)), k_step) for j in range(per)]
        with f.for_range(0, rows, carried=[source], at_least_once=True) as inner:
            at = inner.carried[0]
            zero = const(I8, SIGN if side.flips else 0)
            raw = [f.select(ok, f.load(f.gep(at, place, I8), I8), zero) for ok, place in zip(inside, places)]
            f.store(words_of(f, raw, side), target, inner.index)
            inner.next(f.gep(at, row_step, I8))
        loop.next(f.gep(target, width, I32))
