"""What the loops of one contraction share: sizes, types, tables of micro-kernels, and where the scratch of a part is.

In: an open kernel, a `ContractionSpec`, its scratch. Out: `ContractionContext`, which the loops and what packs operands read.
"""

from __future__ import annotations

from ..llvm.builder import FunctionBuilder
from ..llvm.matrix_tiles import ROWS
from ..llvm.types import I64, PTR, Val, ValLike, const
from .matrix_tiles import TALLEST
from .microkernels import table_name
from .packing import pack_name
from .spec import ContractionSpec, Gathered, Packed
from .tiled_rows import matrix_use
from .tiles import ALIGN, Tiles


def packers_of(spec: ContractionSpec) -> tuple[str, str]:
    """The packers of A and B."""
    if spec.words is not None:
        return spec.words.packers
    of_a = spec.a_packer or pack_name(spec.a_stored or spec.element, spec.element)
    return of_a, pack_name(spec.b_stored or spec.element)


class ContractionContext:
    """A contraction under construction, for one part of it."""

    def __init__(self, f: FunctionBuilder, spec: ContractionSpec, tiles: Tiles, scratch: Val) -> None:
        self.f = f
        self.spec = spec
        self.tiles = tiles
        self.m, self.n, self.depth = f.i64(spec.m), f.i64(spec.n), f.i64(spec.k)
        self.k = self.depth if spec.words is None else f.ceil_div(self.depth, spec.words.per(f.target))
        """Steps of the micro-kernels."""
        self.matrix = matrix_use(f, spec, tiles, self.k, self.all_rows())
        self.panel_steps = self.k if self.matrix is None else self.matrix.steps
        """Steps that packed panels have."""
        self.a_type, self.b_type = spec.a_stored or spec.element, spec.b_stored or spec.element
        self.pitch = self._pitch()
        """Elements between rows of A in scratch."""
        self.table = f.module.declare_table(self._table())
        self.a_packer, self.b_packer = packers_of(spec)
        self.source_types = (self.a_type, self.b_type) if spec.words is None else (spec.words.source,) * 2
        """Elements of operands in memory that are not packed yet."""
        self.a_scratch = self._aligned(scratch)
        self.b_scratch = self._aligned(f.gep(self.a_scratch, self._a_elements(), spec.element))
        self.strip = None
        if self.matrix is not None:
            self.strip = self._aligned(f.gep(self.b_scratch, self._b_elements(), spec.element))
        self.direct = spec.c is not None and spec.c.column == 1
        self.temporary = None if self.direct and self.matrix is None else f.alloca(spec.element, tiles.temporary)
        """Memory of the sums of a tile: of those of matrix tiles that are not whole, if others go where they belong."""

    def _table(self) -> str:
        words = self.spec.words
        if words is None:
            return table_name(self.spec.element, self.b_type)
        return words.table if self.b_type == self.spec.element else words.narrow_table

    def _pitch(self) -> Val:
        f, line = self.f, self.tiles.line // self.tiles.element.bytes
        if not isinstance(self.spec.a, Gathered):
            return self.k if self.matrix is None else self.matrix.choose(f, self.matrix.pitch, self.k)
        return f.add(f.mul(f.binary("udiv", f.add(self.k, 2 * line - 1), const(I64, 2 * line)), 2 * line), line)

    def _aligned(self, address: Val) -> Val:
        f = self.f
        number = f.convert("ptrtoint", address, I64)
        rounded = f.binary("and", f.add(number, ALIGN - 1), const(I64, -ALIGN))
        return f.convert("inttoptr", rounded, PTR)

    def _a_elements(self) -> Val:
        f, tiles = self.f, self.tiles
        m, row, rows = self.m, self.pitch, tiles.rows
        if self.matrix is not None:  # as `scratch_bytes` has it, whichever way it is
            m, row, rows = f.add(m, ROWS - 1), self.matrix.pitch, tiles.tallest
        block = f.smax(f.mul(row, rows), self.a_block)
        return f.add(f.smin(f.mul(m, row), block), tiles.slack)

    def _b_elements(self) -> ValLike:
        f, tiles = self.f, self.tiles
        if not self.spec.packs_b:
            return 0
        columns = f.add(self.n, tiles.columns - 1)
        block = f.smax(f.mul(self.panel_steps, tiles.columns), self.b_block)
        return f.add(f.smin(f.mul(columns, self.panel_steps), block), tiles.slack)

    @property
    def a_block(self) -> int:
        """Elements of A that are packed at once."""
        return self.tiles.b_block if self.spec.packs_a_once else self.tiles.a_block

    @property
    def b_block(self) -> int:
        """Elements of B that are packed at once."""
        return self.tiles.computed_block if isinstance(self.spec.b, Packed) else self.tiles.b_block

    def per_k(self, elements: int, unit: ValLike, row: Val | None = None) -> Val:
        """How many rows (columns) of length k fit `elements`, in whole units, at least one."""
        f = self.f
        length = self.panel_steps if row is None else row
        fitting = f.binary("udiv", const(I64, elements), f.mul(f.smax(length, 1), unit))
        return f.smax(fitting, 1)

    def all_rows(self) -> Val:
        """Rows of the product that this is a part of."""
        return self.m if self.spec.all_rows is None else self.f.i64(self.spec.all_rows)

    def tallest(self) -> ValLike:
        """Rows of a tile at most."""
        return self.tiles.rows if self.matrix is None else self.matrix.choose(self.f, TALLEST, self.tiles.rows)

    @property
    def reads_a(self) -> bool:
        """Whether A may be read in place."""
        if self.spec.words is not None:
            return self.spec.words.reads_a(self.f.target)
        return self.spec.a_packer is None
