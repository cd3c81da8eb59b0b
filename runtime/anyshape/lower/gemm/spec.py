"""The specification of a contraction, as the caller of the template states it.

C[b.., i, j] = sum over l of A[b.., i, l] * B[b.., l, j], sizes and strides being run-time values of the kernel under construction. Strides
count elements. Each kind of operand has a class here; `driver` emits the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..llvm.builder import FunctionBuilder
from ..llvm.polling import Pause
from ..llvm.types import Type, Val, ValLike
from ..target import Target
from .reload_probe import shares_widened
from .words import OperandWords


@dataclass(frozen=True)
class Tile:
    """The position of the batch loops: the index of each."""

    batch: tuple[Val, ...]


@dataclass(frozen=True)
class Strided:
    """An operand in memory. For A: element (i, l) at pointer[i * outer + l * inner]; for B: element (l, j) at
    pointer[l * outer + j * inner].

    A is read in place or packed, whichever suits its strides. B is read in place when `inner` is 1, decided
    at run time unless it is a literal, and packed otherwise; `panels` is where `emit_panels` has packed it already.
    """

    pointer: Val
    outer: ValLike
    inner: ValLike
    panels: Val | None = None


@dataclass(frozen=True)
class Prepacked:
    """B as `prepack_b` laid it out."""

    pointer: Val


Packer = Callable[[FunctionBuilder, Tile, Val, Val, Val, Val], None]


@dataclass(frozen=True)
class Packed:
    """An operand that is computed while it is packed.

    `emit(f, tile, first, count, width, to)` writes rows (of A) or columns (of B) first .. first + count - 1, at least
    one: element (first + i, l) to `to[l * width + i]`. It may write up to `Tiles.slack` elements beyond the last step,
    and anything within a step beyond `count`, as long as steps are written in ascending order.
    """

    emit: Packer
    prepare: Callable[[FunctionBuilder, Tile], None] | None = None
    """Emitted at the beginning of every batch: it writes what `emit` reads."""


@dataclass(frozen=True)
class Gathered:
    """An A whose rows are computed for a block of them before they are multiplied.

    `emit(f, tile, first, count, pitch, to)` writes rows first .. first + count - 1: element (first + i, l) to `to[i * pitch + l]`.
    """

    emit: Packer


@dataclass(frozen=True, kw_only=True)
class WindowDim:
    """One dim of the windows of `TapRows`: element `step * position + spread * tap + offset` of the `size` that there are, position being
    the index of the rows' variable with the number `position`. Taps are `a` elements of A apart."""

    taps: int
    a: ValLike
    position: int | None = None
    """The number of the rows' variable; None where no tap is ever outside."""
    step: int = 1
    spread: int = 1
    offset: ValLike = 0
    size: ValLike = 0


@dataclass(frozen=True, kw_only=True)
class TapRows:
    """An A whose rows are windows, read where they lie at each tap that is inside; k counts taps of all dims, then channels, row-major.

    Rows count positions, row-major: of each variable the extent, and how far apart its positions are. At a position and a tap the channels
    are adjacent. The last dim of the windows moves with the last variable.
    """

    pointer: Val
    positions: tuple[tuple[Val, ValLike], ...]
    dims: tuple[WindowDim, ...]
    channels: ValLike
    prepare: Callable[[FunctionBuilder, Tile], None] | None = None
    """Emitted at the beginning of every batch: it writes what is read."""

    outside: Val | None = None
    """The element that pads are, as words have it; they are zeros without one."""


@dataclass(frozen=True)
class Batch:
    """One batch loop: its extent, and the stride of each operand (0: shared). `b` is also for Prepacked."""

    extent: ValLike
    a: ValLike = 0
    b: ValLike = 0
    c: ValLike = 0


@dataclass(frozen=True)
class Destination:
    """C in memory: element (i, j) at pointer[i * row + j * column]. A column stride of 1 is the fast way."""

    pointer: Val
    row: ValLike
    column: ValLike = 1


Masks = tuple[Val | None, ...]
RowBody = Callable[[FunctionBuilder, Val, Sequence[Val]], None]
Epilogue = Callable[[FunctionBuilder, Tile, Val, Masks], RowBody]
"""Code that stores the sums. `epilogue(f, tile, column, masks)` emits what depends on the columns (a bias, say) and returns `body(f, row,
sums)`, which emits the rest and every store. `sums` are vectors for columns column, column + 1, ..., one for each mask; of one with a mask
only its lanes exist, without one all do. Both are emitted for `together` vectors, for one, and for the last one."""


Segments = Callable[[FunctionBuilder, Tile, Val, Val | None, Callable[[Val | None], None]], None]
"""Code for columns that are not contiguous in the results: `segments(f, tile, column, mask, emit)` calls `emit` in a loop over the pieces
that are, each time with a mask of the piece's lanes; the epilogue may use what it knows of the piece."""

RowSegments = Callable[[FunctionBuilder, Val, Val, Callable[[Val, Val], None]], None]
"""Code for rows that several variables count: `row_segments(f, row, count, emit)` calls `emit(begin, end)` in a loop over the lines of
results that rows row .. row + count - 1 overlap, of which rows begin .. end - 1 are in this one; the epilogue may use what it knows of the
line."""

Poll = Callable[[Pause | None], None]
"""Emits a poll. `Pause`: what to do around code of others that it may call."""

RowsDone = Callable[[FunctionBuilder, Tile, Val, Val], None]
"""`rows_done(f, tile, row, count)` runs once all columns of rows row .. row + count - 1 have been stored, a block of rows
that is half the second cache at most: the place for what needs whole rows (a normalisation, say). Columns are then not
shared out over parts."""


@dataclass(frozen=True, kw_only=True)
class ContractionSpec:
    """One contraction. With an `epilogue` the sums go nowhere else; without one they go to `c`."""

    element: Type
    m: ValLike
    n: ValLike
    k: ValLike
    a: Strided | Packed | Gathered | TapRows
    b: Strided | Prepacked | Packed
    c: Destination | None = None
    epilogue: Epilogue | None = None
    batch: Sequence[Batch] = ()
    rows_done: RowsDone | None = None
    all_rows: ValLike | None = None
    """Rows of the whole product, if this is a part of one: choices that depend on the number of rows are then the same for all parts."""
    segments: Segments | None = None
    row_segments: RowSegments | None = None
    a_stored: Type | None = None
    b_stored: Type | None = None
    """What a `Strided` A, and a B that is not `Packed`, are in memory, if that is narrower than `element`: floats of 16 bits, or bytes, for
    f32. A, which is always packed then, is widened while it is packed, B by the kernels as they read it."""

    words: OperandWords | None = None
    """What is multiplied in place of elements: words of bytes where `element` is i32, of bf16 where it is f32. Strides count what is in
    memory then, but those of a `Prepacked` B words, which may be stored in fewer bits (`b_stored`)."""
    a_packer: str | None = None
    """The packer of a `Strided` A, which is always packed then, if it is another one than that of its elements."""

    streams_a: bool = False
    """Whether A comes from memory a block at a time, for a B that a cache keeps: rows of it are prefetched, then."""

    together: int = 1
    """Vectors of a row that the epilogue takes at once: as many as make a line of the cache where they are stored."""

    def __post_init__(self) -> None:
        if (self.c is None) == (self.epilogue is None):
            raise TypeError("a contraction wants either a destination or an epilogue that stores")

    @property
    def packs_b(self) -> bool:
        """Whether B may need packing at run time, and so scratch for it."""
        if isinstance(self.b, Strided):
            return self.b.panels is None and (self.words is not None or self.b.inner != 1)
        return isinstance(self.b, Packed)

    @property
    def packs_a_once(self) -> bool:
        """Whether rows are packed ahead of all batches, which share them. Columns that are computed are so again for each block of rows,
        and therefore those of windows are not among them, which a batch copies before."""
        computed = isinstance(self.b, Packed) and self.b.prepare is None and self.rows_done is None
        return computed and isinstance(self.a, Strided) and all(batch.a == 0 for batch in self.batch)

    def of_elements(self, target: Target) -> ContractionSpec:
        """Returns the specification of the product without words where these are single elements of a `Prepacked` B: kernels widen them."""
        if self.words is None or self.words.per(target) > 1 or not isinstance(self.b, Prepacked):
            return self
        return replace(self, words=None, b_stored=self.words.stored_b(target, 0), a_packer=self.words.packers[0])

    def widens_b(self, target: Target) -> bool:
        """Whether B may be widened for several tiles at once, and so needs scratch."""
        narrow = self.b_stored is not None and self.b_stored != self.element
        return isinstance(self.b, Prepacked) and narrow and self.words is None and shares_widened(target)
