"""What a driver does otherwise where matrix tiles may multiply: one decision for the whole product, and rows of A in the layout of tiles.

The decision is taken when the kernel runs, by the rows of the whole product, so that all parts take it alike. The code of both ways is one:
sizes, addresses and tables are chosen by it. In: a `ContractionSpec` whose words have tiles. Out: values, and rows packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..llvm import matrix_tiles
from ..llvm.builder import FunctionBuilder
from ..llvm.matrix_tiles import ROWS
from ..llvm.types import I32, I64, PTR, VOID, Val, ValLike, const
from .blocks import BlockRows
from .matrix_tiles import (
    ROW_PACK_ARGUMENTS,
    STRIP_ARGUMENTS,
    TALLEST,
    TileNames,
    clear_row_ends,
    clear_steps,
    emit_whole_steps,
)
from .spec import ContractionSpec
from .tiles import Tiles

CONFIGURATION = "anyshape_tile_configuration"


@dataclass(frozen=True)
class TileConfiguration:
    """The configuration of matrix tiles in code that uses them where `holds`."""

    holds: Val

    @contextmanager
    def configured(self, f: FunctionBuilder) -> Iterator[None]:
        """Code during which tiles are configured. A kernel that ends with an error leaves them so until the next product of the thread."""
        self._configure(f)
        yield
        self._release(f)

    @contextmanager
    def paused(self, f: FunctionBuilder) -> Iterator[None]:
        """Code, in the midst of that, which may use tiles itself."""
        self._release(f)
        yield
        self._configure(f)

    def _configure(self, f: FunctionBuilder) -> None:
        if f.module.has_data(CONFIGURATION):
            at = Val(f"@{CONFIGURATION}", PTR)
        else:
            at = matrix_tiles.define_configuration(f.module, CONFIGURATION)
        with f.if_(self.holds):
            matrix_tiles.configure(f, at)

    def _release(self, f: FunctionBuilder) -> None:
        with f.if_(self.holds):
            matrix_tiles.release(f)


@dataclass(frozen=True)
class MatrixUse:
    """Matrix tiles in a product: `holds` says whether they multiply. Panels and rows have `steps` then, of which the words of k are the
    first, and rows are `pitch` words apart."""

    names: TileNames
    holds: Val
    k: Val
    steps: Val
    pitch: Val

    @property
    def configuration(self) -> TileConfiguration:
        return TileConfiguration(self.holds)

    def choose(self, f: FunctionBuilder, by_tiles: ValLike, by_vectors: ValLike) -> Val:
        return f.select(self.holds, f.i64(by_tiles), f.i64(by_vectors))

    def kernels(self, f: FunctionBuilder, by_vectors: Val) -> Val:
        """The table of kernels."""
        return f.select(self.holds, f.module.declare_table(self.names.table), by_vectors)

    def split(self, f: FunctionBuilder, total: Val, rows: BlockRows) -> BlockRows:
        """Tiles of rows as `rows` splits them for vectors, or as tiles do: the largest kernel for all but the last."""
        return BlockRows(
            rows.first,
            self.choose(f, f.ceil_div(total, TALLEST), rows.tiles),
            self.choose(f, TALLEST, rows.height),
            self.choose(f, 0, rows.taller),
            f.add(rows.first, total),
        )

    def is_whole(self, f: FunctionBuilder, *counts: Val) -> Val:
        """Whether rows and columns are whole tiles, or vectors multiply."""
        parts = [f.and_(count, ROWS - 1) for count in counts]
        together = parts[0]
        for part in parts[1:]:
            together = f.or_(together, part)
        return f.or_(f.compare("eq", together, 0), f.not_(self.holds))


def matrix_use(f: FunctionBuilder, spec: ContractionSpec, tiles: Tiles, k: Val, rows: Val) -> MatrixUse | None:
    """Matrix tiles in a product with so many words of k and so many rows in all; None where there are none for it."""
    names = None if spec.words is None else spec.words.tiles(f.target)
    if spec.words is None or names is None:
        return None
    line = tiles.line // tiles.element.bytes
    pitch = f.add(f.mul(f.binary("udiv", f.add(k, 2 * line - 1), const(I64, 2 * line)), 2 * line), line)
    return MatrixUse(names, f.compare("ge", rows, spec.words.least_rows(f.target)), k, emit_whole_steps(f, k), pitch)


@dataclass(frozen=True)
class RowPacking:
    """How rows first .. first + count - 1 of a block are packed for tiles: `strip` is room for 16 rows, step by step."""

    use: MatrixUse
    strip: Val
    to: Val

    def along_k(self, f: FunctionBuilder, source: Val, row_step: Val, rows: Val, k: Val) -> None:
        """Packs rows that are contiguous along k."""
        name = self.use.names.pack_rows
        f.module.declare(name, VOID, [type_ for _, type_ in ROW_PACK_ARGUMENTS])
        f.call(name, VOID, [source, row_step, rows, k, self.use.pitch, self.to])

    def transposed(self, f: FunctionBuilder, row: Val) -> None:
        """Makes rows of the strip, from one of the block on."""
        use = self.use
        clear_steps(f, self.strip, ROWS, use.k, use.steps)
        f.module.declare(use.names.transpose, VOID, [type_ for _, type_ in STRIP_ARGUMENTS])
        to = f.gep(self.to, f.mul(row, use.pitch), I32)
        f.call(use.names.transpose, VOID, [self.strip, use.steps, use.pitch, to])

    def ended(self, f: FunctionBuilder, rows: Val) -> None:
        """Fills the ends of rows that lie as tiles read them."""
        with f.if_(self.use.holds):
            clear_row_ends(f, self.to, rows, self.use.pitch, self.use.k, self.use.steps)
