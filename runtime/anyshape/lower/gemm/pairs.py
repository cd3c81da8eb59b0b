"""Products of f32 that multiply bf16 or f16: two elements along k are a word of 32 bits, which is multiplied and added up as one.

Operands are f32 in memory, and rounded while they are packed. Where the processor adds up products of pairs of bf16 (`Target.pairs`), which
takes the smallest numbers for 0 and rounds each sum in its own way, a word is a pair. So it is where the processor multiplies f16
(`Target.halves`): even and odd elements of a chunk of k are added up in f16, chunks in f32 (N. Wang et al., "Training Deep Neural Networks
with 8-bit Floating Point Numbers", 2018, call it chunk-based accumulation). Elsewhere a word is one rounded f32: the same products, added
up by multiply-adds of f32. A last word without a second element has 0 there, in both operands, so that nothing times 0 is NaN.

In: a target. Out: names of the table and the packer, and the code of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ..llvm import half
from ..llvm.builder import FunctionBuilder, Module
from ..llvm.transpose import transpose
from ..llvm.types import BF16, F16, F32, I16, I32, I64, VOID, Type, Val, const
from ..target import Target
from .accumulation import OF_ELEMENTS, Accumulation
from .dots import DotOperands, StoredElements, read_vector
from .kernel_arguments import multiply_add
from .matrix_tiles import ROW_PACK_ARGUMENTS, TileNames
from .microkernels import table_name
from .packing import RoundingPacker, emit_pack, emit_packer, prepack_b
from .strips import StoredRows, StripOperands
from .tiles import Tiles
from .words import panel_steps, word_panels

CHUNK_OF_F16 = 32
"""Steps whose products are added up in f16: 32 even elements along k, and 32 odd ones."""
FEWEST_ROWS = 5
"""Rows from which on matrix tiles multiply where vectors of pairs are slow: one more than kernels have that read B in place. Tiles are
ahead from four rows on (`python -m benchmarks.matrix_tiles`), though most of their rows are idle then."""
TILED = TileNames(
    "anyshape_gemm_pairs_tile_kernels",
    "anyshape_gemm_pairs_rows",
    "anyshape_gemm_pairs_strip",
    "tdpbf16ps",
    "anyshape_gemm_pairs_tap_kernels",
)
"""What multiplies by matrix tiles."""


@dataclass(frozen=True)
class Pairs:
    """Words of `element`, bf16 or f16, for both operands of a product of f32."""

    element: Type = BF16

    @property
    def source(self) -> Type:
        """What operands in memory are, which are not packed yet."""
        return F32

    @property
    def table(self) -> str:
        return f"anyshape_gemm_{self._called}_kernels"

    @property
    def packers(self) -> tuple[str, str]:
        return (f"anyshape_gemm_{self._called}_pack",) * 2

    @property
    def _called(self) -> str:
        return "pairs" if self.element == BF16 else "pairs_of_f16"

    def per(self, target: Target) -> int:
        """Elements of a word."""
        return 2 if self.are_multiplied(target) else 1

    def are_multiplied(self, target: Target) -> bool:
        """Whether the processor multiplies pairs of these elements."""
        return target.multiplies_pairs if self.element == BF16 else target.halves

    @property
    def reads_b(self) -> bool:
        return True

    def reads_a(self, target: Target) -> bool:
        """Whether rows of words may be read in place: f32 are none yet."""
        return False

    @property
    def narrow_table(self) -> str:
        return table_name(F32, self.element)

    def stored_b(self, target: Target, elements: int) -> Type | None:
        """What a `Prepacked` B is in memory where words are single elements: these are widened as they are read."""
        return self.element if self.per(target) == 1 else None

    def tiles(self, target: Target) -> TileNames | None:
        has_tiles = target.matrix_tiles is not None and target.matrix_tiles.pairs
        return TILED if has_tiles and self.element == BF16 else None

    def least_rows(self, target: Target) -> int:
        assert target.matrix_tiles is not None
        least = target.matrix_tiles.least_rows
        return min(least, FEWEST_ROWS) if target.slow_pairs else least

    def prepacked(self, array: npt.NDArray[Any], tiles: Tiles, target: Target) -> npt.NDArray[Any]:
        with np.errstate(over="ignore"):  # beyond the largest number is infinity
            narrow, per = array.astype(ml_dtypes.bfloat16 if self.element == BF16 else np.float16), self.per(target)
        if per == 1:
            return prepack_b(narrow, tiles)
        steps = panel_steps(self, target, array.shape[-2])
        return word_panels(narrow.view(np.int16), tiles.columns, per, steps).view(np.float32)


def accumulation(target: Target, of: Pairs) -> Accumulation:
    """How micro-kernels add up products of words."""
    if not of.are_multiplied(target):
        return OF_ELEMENTS
    if of.element == BF16:
        return Accumulation(_multiply_add_bf16)
    return Accumulation(multiply_add_f16, CHUNK_OF_F16, lambda sums: F16.vector(2 * sums.lanes), _total_of_f16)


def multiply_add_words(f: FunctionBuilder, a: Val, b: Val, total: Val, element: Type) -> Val:
    """Adds the products of the elements of two words to each lane, an f32."""
    if element == BF16:
        return _multiply_add_bf16(f, a, b, total)
    for x, y in zip(_halves_of(f, a), _halves_of(f, b)):
        total = multiply_add(f, half.widen(f, x), half.widen(f, y), total)
    return total


def _multiply_add_bf16(f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
    words = [f.bitcast(x, I32.vector(total.type.lanes)) for x in (a, b)]
    return f.call_intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{total.type.lanes * 32}", total.type, [total, *words])


def multiply_add_f16(f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
    """Adds the products of f16 of two vectors of words to sums of f16, of even and of odd elements."""
    return half.multiply_add(f, f.bitcast(a, total.type), f.bitcast(b, total.type), total)


def _total_of_f16(f: FunctionBuilder, sums: Val) -> Val:
    """Sums of even and of odd elements together, as f32."""
    even, odd = _halves_of(f, sums)
    return half.widen(f, half.add(f, even, odd))


def _halves_of(f: FunctionBuilder, words: Val) -> tuple[Val, Val]:
    """The first and the second f16 of words."""
    bits = f.bitcast(words, I32.vector(words.type.bits * words.type.lanes // I32.bits))
    low, high = (f.convert("trunc", x, I16) for x in (bits, f.lshr(bits, 16)))
    return f.bitcast(low, F16.vector(low.type.lanes)), f.bitcast(high, F16.vector(high.type.lanes))


def narrow_pair(f: FunctionBuilder, low: Val, high: Val, element: Type) -> Val:
    """Elements of two vectors of f32 as floats of 16 bits, the first vector's before the second's."""
    lanes = 2 * low.type.lanes
    if element == BF16:
        return f.call_intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512", I16.vector(lanes), [high, low])
    return f.shuffle(half.narrow(f, low, element), half.narrow(f, high, element), range(lanes))


def pair_words(f: FunctionBuilder, low: Val, high: Val, element: Type) -> Val:
    """Words whose first elements are those of `low`, and whose second those of `high`: vectors of f32 of consecutive k."""
    lanes = low.type.lanes
    order = [lane for i in range(lanes) for lane in (i, lanes + i)]
    return f.bitcast(f.shuffle(narrow_pair(f, low, high, element), None, order), I32.vector(lanes))


@dataclass(frozen=True)
class PairsAlongK:
    """Rounded f32 of both operands, read from memory: vectors of words that are pairs along k."""

    lanes: int
    to: Type

    @property
    def steps(self) -> int:
        return 2 * self.lanes

    def read(self, f: FunctionBuilder, at: Val, index: Val, of_b: bool, masks: Sequence[Val | None]) -> Val:
        return _read_words(f, at, index, self.lanes, masks, self.to)

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
        return multiply_add_words(f, a, b, total, self.to)


@dataclass(frozen=True)
class RoundedAlongK(StoredElements):
    """Rounded f32 of both operands, read from memory."""

    to: Type

    def read(self, f: FunctionBuilder, at: Val, index: Val, of_b: bool, masks: Sequence[Val | None]) -> Val:
        return half.through(f, super().read(f, at, index, of_b, masks), self.to)


@dataclass(frozen=True)
class PairedRows:
    """Rows of f32, of which two that follow each other along k are words."""

    to: Type

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
        return pair_words(f, low, high, self.to)

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
        return multiply_add_words(f, a, b, total, self.to)


@dataclass(frozen=True)
class RoundedRows(StoredRows):
    """Rows of f32, rounded as they are read."""

    to: Type

    @property
    def is_of_words(self) -> bool:
        return True

    def columns(self, f: FunctionBuilder, rows: Sequence[Val]) -> Val:
        return half.through(f, super().columns(f, rows), self.to)


def strip_operands(target: Target, of: Pairs) -> StripOperands:
    """How few rows are multiplied by adjacent columns, with sums of f32."""
    return PairedRows(of.element) if of.are_multiplied(target) else RoundedRows(F32, F32, of.element)


def dot_operands(target: Target, of: Pairs, lanes: int) -> DotOperands:
    """How few rows are multiplied by columns that are contiguous along k, with sums of f32."""
    if of.element == BF16 and of.are_multiplied(target):
        return PairsAlongK(lanes, of.element)
    return RoundedAlongK(F32, F32, lanes, of.element)


def _read_words(f: FunctionBuilder, at: Val, index: Val, lanes: int, masks: Sequence[Val | None], to: Type) -> Val:
    """Words of elements that lie side by side, from an index on: two vectors of f32."""
    vector = F32.vector(lanes)
    low, high = (read_vector(f, at, vector, f.add(index, lanes * k), mask) for k, mask in enumerate(masks))
    return f.bitcast(narrow_pair(f, low, high, to), I32.vector(lanes))


def emit_pack_pairs(module: Module, tiles: Tiles, of: Pairs) -> None:
    """Emits the exported packer: like that of f32, but that steps of the result are words."""
    name, to = of.packers[0], of.element
    if not of.are_multiplied(module.target):
        emit_pack(module, tiles, rounds=RoundingPacker(name, to))
        return
    methods = [partial(emit, element=to) for emit in (_along_k, _along_rows, _any)]
    emit_packer(module, name, tiles.lanes, F32, F32, methods)


def emit_pack_rows(module: Module, tiles: Tiles) -> None:
    """Emits the exported packer of rows along k for matrix tiles: rows of whole tiles of words, with zeros at their ends."""
    lanes = tiles.lanes
    with module.function(TILED.pack_rows, VOID, ROW_PACK_ARGUMENTS) as f:
        source, row_step, rows, k, pitch, to = f.args
        whole = f.and_(k, -2 * lanes)
        with f.for_range(0, rows, carried=[source, to]) as loop:
            at, target = loop.carried
            with f.for_range(0, whole, 2 * lanes) as steps:
                f.store(_read_words(f, at, steps.index, lanes, (None, None), BF16), target, f.lshr(steps.index, 1))
            with f.if_(f.compare("lt", whole, k)):
                masks = [f.tail_mask(f.sub(k, whole), lanes, first) for first in (0, lanes)]
                f.store(_read_words(f, at, whole, lanes, masks, BF16), target, f.lshr(whole, 1))
            loop.next(f.gep(at, row_step, F32), f.gep(target, pitch, I32))
        f.ret()


def _along_k(f: FunctionBuilder, lanes: int, element: Type) -> None:
    """Emits packing of rows contiguous along k: square blocks of words are transposed in registers."""
    source, row_step, _, rows, width, k, to = f.args
    step = 2 * lanes
    starts = [f.gep(source, f.mul(f.smin(f.sub(rows, 1), i), row_step), F32) for i in range(lanes)]
    whole = f.sub(k, f.binary("and", k, const(I64, step - 1)))

    def put(at: Val, masks: Sequence[Val | None]) -> None:
        words = [_read_words(f, start, at, lanes, masks, element) for start in starts]
        target = f.gep(to, f.mul(f.lshr(at, 1), width), I32)
        for word in transpose(f, words):
            f.store(word, target)
            target = f.gep(target, width, I32)

    with f.for_range(0, whole, step) as loop:
        put(loop.index, (None, None))
    rest = f.sub(k, whole)
    with f.if_(f.compare("gt", rest, 0)):
        put(whole, [f.tail_mask(rest, lanes, first) for first in (0, lanes)])


def _along_rows(f: FunctionBuilder, lanes: int, element: Type) -> None:
    """Emits packing of rows contiguous among themselves: two masked vectors make the words of a step."""
    source, _, k_step, rows, width, k, to = f.args
    vector, mask = F32.vector(lanes), f.tail_mask(rows, lanes)
    with f.for_range(0, f.lshr(k, 1), carried=[source, to]) as loop:
        at, target = loop.carried
        following = f.gep(at, k_step, F32)
        low, high = (f.masked_load(row, vector, mask) for row in (at, following))
        f.store(pair_words(f, low, high, element), target)
        loop.next(f.gep(following, k_step, F32), f.gep(target, width, I32))
    with f.if_(f.compare("eq", f.and_(k, 1), 1)):
        at, target = loop.results
        f.store(pair_words(f, f.masked_load(at, vector, mask), const(vector, 0), element), target)


def _any(f: FunctionBuilder, lanes: int, element: Type) -> None:
    """Emits packing for any steps, element by element."""
    source, row_step, k_step, rows, width, k, to = f.args
    with f.for_range(0, k, 2, carried=[to]) as loop:
        target, following = loop.carried[0], f.add(loop.index, 1)
        inside = f.compare("lt", following, k)
        places = [f.mul(loop.index, k_step), f.mul(f.smin(following, f.sub(k, 1)), k_step)]
        with f.for_range(0, rows, carried=[source], at_least_once=True) as inner:
            low, high = (f.load(f.gep(inner.carried[0], place, F32), F32) for place in places)
            high = f.select(inside, high, const(F32, 0))
            low, high = (f.convert("zext", half.narrow(f, x, element), I32) for x in (low, high))
            f.store(f.or_(low, f.shl(high, 16)), target, inner.index)
            inner.next(f.gep(inner.carried[0], row_step, F32))
        loop.next(f.gep(target, width, I32))
