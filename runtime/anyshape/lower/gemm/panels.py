"""Panels of a B in memory, packed when the kernel runs: for one product, or once for several.

In: an open kernel, a `Strided` B, room for the panels. Out: calls of the shared packer.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I1, I64, VOID, Type, Val, ValLike, const
from .matrix_tiles import clear_steps, emit_whole_steps
from .packing import PACK_ARGUMENTS, pack_name
from .spec import Strided
from .tiles import Tiles, tiles_for
from .words import OperandWords


def emit_prepack(f: FunctionBuilder, element: Type, b: Strided, k: ValLike, n: ValLike, to: Val) -> None:
    """Pack a whole B at run time, to be used as `Prepacked(to)` by several contractions; `to` has room for
    `prepacked_elements(k, n)` and the slack. Strides as in `Strided` for B."""
    tiles = tiles_for(f.target, element)
    f.module.declare(pack_name(element), VOID, [type_ for _, type_ in PACK_ARGUMENTS])
    columns, depth = f.i64(n), f.i64(k)
    pack_strided(f, tiles, b.pointer, b, depth, const(I64, 0), columns, to, element)


def emit_panels(
    f: FunctionBuilder, types: tuple[Type, Type], along_k: Val, b: Strided, sizes: tuple[Val, Val, Val], to: Val
) -> None:
    """Pack B for products of `sizes` (rows of all together, columns, length of the sums), if they need it packed. `along_k` is the step
    of A from one term of a sum to the next; `to` has room for `panel_bytes`. `types`: what sums are, and what B is in memory."""
    element, stored = types
    tiles = tiles_for(f.target, element)
    f.module.declare(pack_name(stored), VOID, [type_ for _, type_ in PACK_ARGUMENTS])
    m, n, k = sizes
    unit = f.compare("eq", f.i64(b.inner), 1)
    dot = fits_dot(f, tiles, along_k, b, m)
    with f.if_(f.not_(f.or_(unit, dot))):
        pack_strided(f, tiles, b.pointer, b, k, const(I64, 0), n, to, stored)


@dataclass(frozen=True)
class ColumnPacker:
    """The function that packs columns, the type of what it reads, how many steps it writes, and how many a panel has: the rest is
    zeros."""

    name: str
    source: Type
    written: Val
    steps: Val


def packer_of_words(f: FunctionBuilder, words: OperandWords, written: Val) -> ColumnPacker:
    """The packer of columns as words, of which it writes so many."""
    steps = written if words.tiles(f.target) is None else emit_whole_steps(f, written)
    return ColumnPacker(words.packers[1], words.source, written, steps)


def emit_word_panels(
    f: FunctionBuilder,
    element: Type,
    words: OperandWords,
    along_k: Val,
    b: Strided,
    sizes: tuple[Val, Val, Val],
    to: Val,
) -> None:
    """Pack B as panels of words for products of `sizes` and of an A with such a step, as in `emit_panels`."""
    (m, n, k), (_, packer), tiles = sizes, words.packers, tiles_for(f.target, element)
    f.module.declare(packer, VOID, [type_ for _, type_ in PACK_ARGUMENTS])
    in_place = words_in_place(f, tiles, words, along_k, b, m)
    with f.if_(f.not_(f.or_(in_place.dot, in_place.strip))):
        by = packer_of_words(f, words, f.ceil_div(k, words.per(f.target)))
        pack_strided(f, tiles, b.pointer, b, k, const(I64, 0), n, to, element, by)


@dataclass(frozen=True)
class WordsInPlace:
    """Whether elements of B become words as they are read: of columns that are contiguous along k, or of adjacent columns."""

    dot: Val
    strip: Val


def words_in_place(
    f: FunctionBuilder, tiles: Tiles, words: OperandWords, along_k: Val, b: Strided, m: Val
) -> WordsInPlace:
    """Decides by the sizes of the whole product, so that every part decides alike."""
    if not words.reads_b:
        return WordsInPlace(const(I1, 0), const(I1, 0))
    most = tiles.rows_in_place if words.tiles(f.target) is None else tiles.few_rows  # matrix tiles may multiply more
    dot = f.and_(f.compare("le", m, tiles.few_rows), fits_dot(f, tiles, along_k, b, m))
    return WordsInPlace(dot, f.and_(f.compare("le", m, most), f.compare("eq", f.i64(b.inner), 1)))


def fits_dot(f: FunctionBuilder, tiles: Tiles, along_k: Val, b: Strided, m: Val) -> Val:
    """Whether the product is computed as dot products; decided by the sizes of the whole product, so that every part decides alike."""
    both = f.and_(f.compare("eq", f.i64(b.outer), 1), f.compare("eq", along_k, 1))
    unit = f.compare("eq", f.i64(b.inner), 1)
    return f.and_(f.and_(both, f.not_(unit)), f.compare("le", m, tiles.rows_in_place))


def pack_strided(
    f: FunctionBuilder,
    tiles: Tiles,
    pointer: Val,
    b: Strided,
    k: Val,
    first: Val,
    end: Val,
    to: Val,
    stored: Type,
    by: ColumnPacker | None = None,
) -> None:
    """Packs columns first .. end - 1 of a B in memory as panels. `by`: the packer; the one of elements as they are stored otherwise."""
    inner, width = f.i64(b.inner), tiles.columns
    packer = by or ColumnPacker(pack_name(stored), stored, k, k)
    with f.for_range(first, end, width) as loop:
        source = f.gep(pointer, f.mul(loop.index, inner), packer.source)
        target = f.gep(to, f.mul(f.sub(loop.index, first), packer.steps), stored)
        count = f.smin(f.sub(end, loop.index), width)
        args = [source, inner, f.i64(b.outer), count, const(I64, width), k, target]
        f.call(packer.name, VOID, args)
        if packer.steps is not packer.written:
            clear_steps(f, target, width, packer.written, packer.steps)
