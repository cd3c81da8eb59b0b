"""Products of f32 that multiply bf16: two elements along k are a word of 32 bits, which is multiplied and added up as one.

Operands are f32 in memory, and rounded to bf16 while they are packed. Where the processor adds up products of pairs (`Target.pairs`), which
takes the smallest numbers for 0 and rounds each sum in its own way, a word is a pair. Elsewhere it is one rounded f32: the same products,
added up by multiply-adds of f32. A last word without a second element has 0 there, in both operands, so that nothing times 0 is NaN.

In: a target. Out: names of the table and the packer, and the code of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ..llvm import half
from ..llvm.builder import FunctionBuilder, Module
from ..llvm.transpose import transpose
from ..llvm.types import BF16, F32, I16, I32, I64, VOID, Type, Val, const
from ..target import Target
from .dots import DotOperands, StoredElements, read_vector
from .kernel_arguments import multiply_add
from .matrix_tiles import ROW_PACK_ARGUMENTS, TileNames
from .packing import emit_pack, emit_packer, prepack_b
from .strips import StoredRows, StripOperands
from .tiles import Tiles
from .words import panel_steps, word_panels

TABLE = "anyshape_gemm_pairs_kernels"
PACK = "anyshape_gemm_pairs_pack"
FEWEST_ROWS = 5
"""Rows from which on matrix tiles multiply where vectors of pairs are slow: one more than kernels have that read B in place. Tiles are
ahead from four rows on (`python -m benchmarks.matrix_tiles`), though most of their rows are idle then."""
TILED = TileNames(
    "anyshape_gemm_pairs_tile_kernels", "anyshape_gemm_pairs_rows", "anyshape_gemm_pairs_strip", "tdpbf16ps"
)
"""What multiplies by matrix tiles."""


@dataclass(frozen=True)
class Pairs:
    """Words of bf16 for both operands of a product of f32."""

    @property
    def source(self) -> Type:
        """What operands in memory are, which are not packed yet."""
        return F32

    @property
    def table(self) -> str:
        return TABLE

    @property
    def packers(self) -> tuple[str, str]:
        return PACK, PACK

    def per(self, target: Target) -> int:
        """StoredElements of a word."""
        return 2 if target.multiplies_pairs else 1

    @property
    def reads_b(self) -> bool:
        return True

    def reads_a(self, target: Target) -> bool:
        """Whether rows of words may be read in place: f32 are none yet."""
        return False

    def stored_b(self, target: Target) -> Type | None:
        """What a `Prepacked` B is in memory where words are single elements: these are widened as they are read."""
        return BF16 if self.per(target) == 1 else None

    def tiles(self, target: Target) -> TileNames | None:
        return TILED if target.matrix_tiles is not None and target.matrix_tiles.pairs else None

    def least_rows(self, target: Target) -> int:
        assert target.matrix_tiles is not None
        least = target.matrix_tiles.least_rows
        return min(least, FEWEST_ROWS) if target.slow_pairs else least

    def prepacked(self, array: npt.NDArray[Any], tiles: Tiles, target: Target) -> npt.NDArray[Any]:
        narrow, per = array.astype(ml_dtypes.bfloat16), self.per(target)
        if per == 1:
            return prepack_b(narrow, tiles)
        steps = panel_steps(self, target, array.shape[-2])
        return word_panels(narrow.view(np.int16), tiles.columns, per, steps).view(np.float32)


def multiply_add_pairs(f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
    """Adds the products of the elements of two words to each lane."""
    if not f.target.multiplies_pairs:
        return multiply_add(f, a, b, total)
    words = [f.bitcast(x, I32.vector(total.type.lanes)) for x in (a, b)]
    return f.call_intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{total.type.lanes * 32}", total.type, [total, *words])


def narrow_pair(f: FunctionBuilder, low: Val, high: Val) -> Val:
    """StoredElements of two vectors of f32 as bf16, the first vector's before the second's."""
    lanes = 2 * low.type.lanes
    return f.call_intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512", I16.vector(lanes), [high, low])


def pair_words(f: FunctionBuilder, low: Val, high: Val) -> Val:
    """Words whose first elements are those of `low`, and whose second those of `high`: vectors of f32 of consecutive k."""
    lanes = low.type.lanes
    order = [lane for i in range(lanes) for lane in (i, lanes + i)]
    return f.bitcast(f.shuffle(narrow_pair(f, low, high), None, order), I32.vector(lanes))


@dataclass(frozen=True)
class PairsAlongK:
    """Rounded f32 of both operands, read from memory: vectors of words that are pairs along k."""

    lanes: int

    @property
    def steps(self) -> int:
        return 2 * self.lanes

    def read(self, f: FunctionBuilder, at: Val, index: Val, of_b: bool, masks: Sequence[Val | None]) -> Val:
        return _read_words(f, at, index, self.lanes, masks)

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
        return multiply_add_pairs(f, a, b, total)


@dataclass(frozen=True)
class RoundedAlongK(StoredElements):
    """Rounded f32 of both operands, read from memory."""

    def read(self, f: FunctionBuilder, at: Val, index: Val, of_b: bool, masks: Sequence[Val | None]) -> Val:
        return half.through_bf16(f, super().read(f, at, index, of_b, masks))


@dataclass(frozen=True)
class PairedRows:
    """Rows of f32, of which two that follow each other along k are words."""

    @property
    def stored(self) -> Type:
        return F32

    @property
    def per(self) -> int:
        return 2

    @property
    def is_of_words(self) -> bool:
        return True

    def columns(self, f: FunctionBuilder, rows: Sequence[Val]) -> Val:
        low, high = rows
        return pair_words(f, low, high)

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
        return multiply_add_pairs(f, a, b, total)


@dataclass(frozen=True)
class RoundedRows(StoredRows):
    """Rows of f32, rounded as they are read."""

    @property
    def is_of_words(self) -> bool:
        return True

    def columns(self, f: FunctionBuilder, rows: Sequence[Val]) -> Val:
        return half.through_bf16(f, super().columns(f, rows))


def strip_operands(target: Target) -> StripOperands:
    """How few rows are multiplied by adjacent columns."""
    return PairedRows() if target.multiplies_pairs else RoundedRows(F32, F32)


def dot_operands(target: Target, lanes: int) -> DotOperands:
    """How few rows are multiplied by columns that are contiguous along k."""
    return PairsAlongK(lanes) if target.multiplies_pairs else RoundedAlongK(F32, F32, lanes)


def _read_words(f: FunctionBuilder, at: Val, index: Val, lanes: int, masks: Sequence[Val | None]) -> Val:
    """Words of elements that lie side by side, from an index on: two vectors of f32."""
    vector = F32.vector(lanes)
    low, high = (read_vector(f, at, vector, f.add(index, lanes * k), mask) for k, mask in enumerate(masks))
    return f.bitcast(narrow_pair(f, low, high), I32.vector(lanes))


def emit_pack_pairs(module: Module, tiles: Tiles) -> None:
    """Emits the exported packer: like that of f32, but that steps of the result are words."""
    if not module.target.multiplies_pairs:
        emit_pack(module, tiles, rounded_as=PACK)
        return
    emit_packer(module, PACK, tiles.lanes, F32, F32, (_along_k, _along_rows, _any))


def emit_pack_rows(module: Module, tiles: Tiles) -> None:
    """Emits the exported packer of rows along k for matrix tiles: rows of whole tiles of words, with zeros at their ends."""
    lanes = tiles.lanes
    with module.function(TILED.pack_rows, VOID, ROW_PACK_ARGUMENTS) as f:
        source, row_step, rows, k, pitch, to = f.args
        whole = f.and_(k, -2 * lanes)
        with f.for_range(0, rows, carried=[source, to]) as loop:
            at, target = loop.carried
            with f.for_range(0, whole, 2 * lanes) as steps:
                f.store(_read_words(f, at, steps.index, lanes, (None, None)), target, f.lshr(steps.index, 1))
            with f.if_(f.compare("lt", whole, k)):
                masks = [f.tail_mask(f.sub(k, whole), lanes, first) for first in (0, lanes)]
                f.store(_read_words(f, at, whole, lanes, masks), target, f.lshr(whole, 1))
            loop.next(f.gep(at, row_step, F32), f.gep(target, pitch, I32))
        f.ret()


def _along_k(f: FunctionBuilder, lanes: int) -> None:
    """Emits packing of rows contiguous along k: square blocks of words are transposed in registers."""
    source, row_step, _, rows, width, k, to = f.args
    step = 2 * lanes
    starts = [f.gep(source, f.mul(f.smin(f.sub(rows, 1), i), row_step), F32) for i in range(lanes)]
    whole = f.sub(k, f.binary("and", k, const(I64, step - 1)))

    def put(at: Val, masks: Sequence[Val | None]) -> None:
        words = [_read_words(f, start, at, lanes, masks) for start in starts]
        target = f.gep(to, f.mul(f.lshr(at, 1), width), I32)
        for word in transpose(f, words):
            f.store(word, target)
            target = f.gep(target, width, I32)

    with f.for_range(0, whole, step) as loop:
        put(loop.index, (None, None))
    rest = f.sub(k, whole)
    with f.if_(f.compare("gt", rest, 0)):
        put(whole, [f.tail_mask(rest, lanes, first) for first in (0, lanes)])


def _along_rows(f: FunctionBuilder, lanes: int) -> None:
    """Emits packing of rows contiguous among themselves: two masked vectors make the words of a step."""
    source, _, k_step, rows, width, k, to = f.args
    vector, mask = F32.vector(lanes), f.tail_mask(rows, lanes)
    with f.for_range(0, f.lshr(k, 1), carried=[source, to]) as loop:
        at, target = loop.carried
        following = f.gep(at, k_step, F32)
        f.store(pair_words(f, f.masked_load(at, vector, mask), f.masked_load(following, vector, mask)), target)
        loop.next(f.gep(following, k_step, F32), f.gep(target, width, I32))
    with f.if_(f.compare("eq", f.and_(k, 1), 1)):
        at, target = loop.results
        f.store(pair_words(f, f.masked_load(at, vector, mask), const(vector, 0)), target)


def _any(f: FunctionBuilder, lanes: int) -> None:
    """Emits packing for any steps, element by element."""
    source, row_step, k_step, rows, width, k, to = f.args
    with f.for_range(0, k, 2, carried=[to]) as loop:
        target, following = loop.carried[0], f.add(loop.index, 1)
        inside = f.compare("lt", following, k)
        places = [f.mul(loop.index, k_step), f.mul(f.smin(following, f.sub(k, 1)), k_step)]
        with f.for_range(0, rows, carried=[source], at_least_once=True) as inner:
            low, high = (f.load(f.gep(inner.carried[0], place, F32), F32) for place in places)
            high = f.select(inside, high, const(F32, 0))
            low, high = (f.convert("zext", f.bitcast(half.shorten(f, x, BF16), I16), I32) for x in (low, high))
            f.store(f.or_(low, f.shl(high, 16)), target, inner.index)
            inner.next(f.gep(inner.carried[0], row_step, F32))
        loop.next(f.gep(target, width, I32))
