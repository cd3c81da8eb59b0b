"""The innermost loops: a few rows of A times one panel (or several) of B, all sums in registers.

In: the row count, the panel count, masked or not: one function each. Out: functions of the module with the arguments of
`KERNEL_ARGUMENTS`. They are compiled once per machine and found through one table of addresses, `table_name`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.types import I8, I64, VOID, Type, Val, const
from .accumulation import OF_ELEMENTS, Accumulation
from .dots import DotOperands, emit_dot
from .kernel_arguments import KERNEL_ARGUMENTS, widened
from .reload_probe import reloads_factors
from .strips import StoredRows, StripOperands, emit_strip
from .tiles import Tiles

SEVERAL = 3
"""The number of tiles in a block from which on one of them keeps what it widens for the others."""
HALVED = 32
"""Bytes of the longest vectors of which no halves are used for few columns."""
FULL, MASKED, NARROW, WIDE, FAR, DOT, STRIP = range(7)
"""Kinds of kernel: one panel; one panel whose last columns may be missing; its first vector only, likewise; several
panels (few rows only); the same of a B beyond `Tiles.unfetched` (a kernel of its own where `Tiles.lines_ahead`); rows and columns that
are both contiguous along k (few rows only, see `dots`); any number of columns of a B in place and one row, or few of words (see
`strips`)."""


def table_name(element: Type, stored: Type | None = None) -> str:
    """The name of the table of kernels. `stored`: the type of B in memory, if it is narrower and widened as it is read."""
    return f"anyshape_gemm_{_called(element, stored)}_kernels"


def keeping_name(element: Type, stored: Type) -> str:
    """The name of the table of kernels that also store what they widen, where later tiles read it: of prepacked panels, one of them."""
    return f"anyshape_gemm_{_called(element, stored)}_keeping_kernels"


def adding_name(element: Type, stored: Type | None = None) -> str:
    """The name of the table of kernels of one panel, or of its first vector, that add to the sums in memory."""
    return f"anyshape_gemm_{_called(element, stored)}_adding_kernels"


def _called(element: Type, stored: Type | None) -> str:
    return element.suffix if stored is None or stored == element else stored.element


def table_index(tiles: Tiles, kind: int, rows: int) -> int:
    return kind * (tiles.tallest + 1) + rows


Widen = Callable[[FunctionBuilder, Val, Type], Val]
"""Makes vectors of a type from what memory has."""


@dataclass(frozen=True)
class WordKernels:
    """Kernels of words: the name of their table, and how they are multiplied and added up; how few rows and a B in place are, if they are:
    `dot` of columns that are contiguous along k, `strip` of adjacent ones. `widen`: makes words of what a prepacked B has, if that is
    narrower."""

    table: str
    accumulation: Accumulation
    dot: DotOperands | None = None
    strip: StripOperands | None = None
    widen: Widen | None = None


def emit_kernels(module: Module, tiles: Tiles, stored: Type | None = None, words: WordKernels | None = None) -> None:
    """Emits all kernels of an element type, and the exported table of them. `stored` as in `table_name`, or what words are widened from."""
    stored = stored or tiles.element
    table = table_name(tiles.element, stored) if words is None else words.table
    prefix = tiles.element.suffix if words is None else table
    accumulation = OF_ELEMENTS if words is None else words.accumulation
    names, reloads = [], words is None and stored != tiles.element and reloads_factors(module.target)
    widen = None if words is None else words.widen
    for kind in (FULL, MASKED, NARROW, WIDE, FAR):
        for rows in range(tiles.rows + 1):
            panels = tiles.panels(rows) if kind in (WIDE, FAR) else 1
            if rows == 0:
                names.append("")
            elif kind in (WIDE, FAR) and panels == 1:
                names.append(_name(prefix, FULL, rows))
            elif kind == FAR and not tiles.lines_ahead:
                names.append(_name(prefix, WIDE, rows))
            else:
                names.append(_name(prefix, kind, rows))
                vectors = 1 if kind == NARROW else tiles.vectors * panels
                emit_kernel(
                    module,
                    tiles,
                    names[-1],
                    rows,
                    vectors,
                    kind,
                    stored,
                    reloads=reloads,
                    accumulation=accumulation,
                    widen=widen,
                )
        names += [""] * (tiles.tallest - tiles.rows)
    if words is None or words.dot is not None:
        for rows in range((tiles.rows_in_place if words is None else tiles.few_rows) + 1):
            names.append(_name(prefix, DOT, rows) if rows else "")
            if rows:
                emit_dot(module, tiles, names[-1], rows, stored, None if words is None else words.dot)
    strip = StoredRows(tiles.element, stored) if words is None else words.strip
    if strip is not None:
        names += [""] * (table_index(tiles, STRIP, 1) - len(names))
        for rows in range(1, 2 if words is None else tiles.rows_in_place + 1):
            names.append(_name(prefix, STRIP, rows))
            emit_strip(module, tiles, names[-1], rows, strip)
    module.pointer_table(table, names)


def tile_columns(tiles: Tiles) -> list[int]:
    """Matrix tiles of columns that a kernel of each kind has, as far as kernels of matrix tiles are asked for."""
    return [1 if kind == NARROW else tiles.vectors for kind in (FULL, MASKED, NARROW, WIDE, FAR)]


def emit_keeping(module: Module, tiles: Tiles, stored: Type) -> None:
    """Emits kernels that keep what they widen, of as many rows as one of several tiles may have, and their table. A last panel of one
    vector takes a whole one."""
    names = [""] * table_index(tiles, WIDE, 0)
    for kind in (FULL, MASKED):
        for rows in range(tiles.least_rows(SEVERAL), tiles.rows + 1):
            names[table_index(tiles, kind, rows)] = name = f"{_name(tiles.element.suffix, kind, rows)}_keeping"
            emit_kernel(module, tiles, name, rows, tiles.vectors, kind, stored, keeps=True)
    names[table_index(tiles, NARROW, 0) :] = names[table_index(tiles, MASKED, 0) : table_index(tiles, NARROW, 0)]
    one_panel = names[: table_index(tiles, MASKED, 0)]
    module.pointer_table(keeping_name(tiles.element, stored), names + one_panel + one_panel)


def emit_adding(module: Module, tiles: Tiles, stored: Type | None = None) -> None:
    """Emits kernels that add to the sums in memory, and their table."""
    stored = stored or tiles.element
    prefix = tiles.element.suffix if stored == tiles.element else stored.element
    names = [""] * table_index(tiles, WIDE, 0)
    for kind in (FULL, MASKED, NARROW):
        for rows in range(1, tiles.rows + 1):
            if kind == MASKED:  # what is prepacked has all columns
                names[table_index(tiles, kind, rows)] = names[table_index(tiles, FULL, rows)]
                continue
            names[table_index(tiles, kind, rows)] = name = f"{_name(prefix, kind, rows)}_adding"
            vectors = 1 if kind == NARROW else tiles.vectors
            reloads = stored != tiles.element and reloads_factors(module.target)
            emit_kernel(module, tiles, name, rows, vectors, kind, stored, reloads=reloads, adds=True)
    module.pointer_table(adding_name(tiles.element, stored), names)


def _name(prefix: str, kind: int, rows: int) -> str:
    return f"{prefix}_{('full', 'masked', 'narrow', 'wide', 'far', 'dot', 'strip')[kind]}_{rows}"


def emit_kernel(
    module: Module,
    tiles: Tiles,
    name: str,
    rows: int,
    vectors: int,
    kind: int,
    stored: Type,
    keeps: bool = False,
    reloads: bool = False,
    accumulation: Accumulation = OF_ELEMENTS,
    adds: bool = False,
    widen: Widen | None = None,
) -> None:
    """Emits one kernel. `keeps`: columns of B are stored widened. `reloads`: each multiply-add loads its element of A; of two vectors of
    columns, as LLVM distinguishes two kinds of loads. `adds`: to what there is in memory, from the first products on. `widen`: of words of
    a prepacked B. The last vector of a ragged panel is half of one where that has all of its columns."""
    whole, half = [tiles.lanes] * vectors, tiles.lanes // 2
    loops = _KernelLoops(
        tiles=tiles,
        rows=rows,
        kind=kind,
        stored=stored,
        keeps=keeps,
        reloads=reloads,
        accumulation=accumulation,
        adds=adds,
        widen=widen or widened,
        padded=keeps or widen is not None,
    )
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        if kind not in (MASKED, NARROW) or keeps or tiles.lanes * tiles.element.bytes <= HALVED:
            loops.emit(f, whole)
        else:
            with f.if_else(f.compare("le", f.arg("count"), sum(whole) - half)) as is_short:
                with is_short.then():
                    loops.emit(f, [*whole[:-1], half])
                with is_short.otherwise():
                    loops.emit(f, whole)
        f.ret()


@dataclass(frozen=True, kw_only=True)
class _KernelLoops:
    """What `emit_kernel` makes a kernel of."""

    tiles: Tiles
    rows: int
    kind: int
    stored: Type
    keeps: bool
    reloads: bool
    accumulation: Accumulation
    adds: bool
    widen: Widen
    padded: bool
    """Whether panels of B have all columns, as prepacked ones do."""

    def emit(self, f: FunctionBuilder, widths: Sequence[int]) -> None:
        """Emits the loops over k, for vectors of columns with so many lanes."""
        tiles, rows, stored, vectors = self.tiles, self.rows, self.stored, len(widths)
        masked = self.kind in (MASKED, NARROW)
        k, a, a_row, a_step, b, b_step, b_panel, c, c_step, count, soon, soon_step = f.args
        masks = [f.tail_mask(count, n, v * tiles.lanes) if masked else None for v, n in enumerate(widths)]
        offsets = [f.add(f.mul(b_panel, v // tiles.vectors), (v % tiles.vectors) * tiles.lanes) for v in range(vectors)]
        start = [const(self.accumulation.register(tiles.element.vector(n)), 0) for n in widths] * rows
        places = _places(rows)
        origins = sorted({origin for origin, _ in places})
        row_bytes, step_bytes = f.mul(a_row, tiles.element.bytes), f.mul(a_step, tiles.element.bytes)
        pointers = [f.gep(a, f.mul(row_bytes, origin), I8) for origin in origins]
        loads = vectors if self.reloads and vectors <= 2 else 1
        length = self.accumulation.chunk
        ahead = f.mul(b_step, _steps_ahead(tiles, stored)) if self.kind == FAR else None
        with f.for_range(0, k, length, carried=[b, *pointers], at_least_once=True) as chunk:
            end = f.smin(f.add(chunk.index, length), k)
            with f.for_range(chunk.index, end, carried=[*chunk.carried, *start]) as loop:
                b_now, *rest = loop.carried
                a_now, sums = dict(zip(origins, rest)), rest[len(origins) :]
                if ahead is not None:
                    _prefetch(f, tiles, f.gep(b_now, ahead, stored), offsets, stored)
                elif self.kind == FULL and not self.keeps and rows > tiles.few_rows:
                    _ask_soon(f, tiles, f.gep(soon, f.mul(loop.index, soon_step), I8), stored)
                columns = self.columns(f, b_now, list(zip(offsets, masks, widths)))
                if self.keeps:
                    _keep(f, tiles, columns, f.gep(soon, f.mul(loop.index, tiles.columns), tiles.element))
                factors = (
                    _factors(f, tiles, a_now[origin], row_bytes, times, loads, widths) for origin, times in places
                )
                sums = [
                    self.accumulation.step(f, factor, column, sums[i * vectors + v])
                    for i, of_row in enumerate(factors)
                    for v, (factor, column) in enumerate(zip(of_row, columns, strict=True))
                ]
                following = [f.gep(pointer, step_bytes, I8) for pointer in a_now.values()]
                loop.next(f.gep(b_now, b_step, stored), *following, *sums)
            totals = [self.accumulation.total(f, x) for x in loop.results[1 + len(origins) :]]
            if self.adds:
                _put(f, tiles, totals, c, c_step, masks, True)
            else:
                with f.if_else(f.compare("eq", chunk.index, 0)) as first:
                    with first.then():
                        _put(f, tiles, totals, c, c_step, masks, False)
                    with first.otherwise():
                        _put(f, tiles, totals, c, c_step, masks, True)
            chunk.next(*loop.results[: 1 + len(origins)])

    def columns(self, f: FunctionBuilder, b: Val, places: Sequence[tuple[Val, Val | None, int]]) -> list[Val]:
        """Loads the columns of B for one step, widened; by their offsets, masks and lanes."""
        masked = ((offset, None if self.padded else mask, lanes) for offset, mask, lanes in places)
        return [
            self.widen(f, _read(f, b, self.stored.vector(n), offset, mask), self.tiles.element.vector(n))
            for offset, mask, n in masked
        ]


def _keep(f: FunctionBuilder, tiles: Tiles, columns: Sequence[Val], at: Val) -> None:
    for v, column in enumerate(columns):
        f.store(column, at, v * tiles.lanes)


def _steps_ahead(tiles: Tiles, stored: Type) -> int:
    return -(-tiles.lines_ahead * tiles.line // (tiles.columns * stored.bytes))


def _prefetch(f: FunctionBuilder, tiles: Tiles, at: Val, offsets: Sequence[Val], stored: Type) -> None:
    """Prefetches the lines of one step."""
    for v, offset in enumerate(offsets):
        if v % tiles.vectors * tiles.lanes * stored.bytes % tiles.line == 0:
            f.prefetch(f.gep(at, offset, stored), False)


def _ask_soon(f: FunctionBuilder, tiles: Tiles, at: Val, stored: Type) -> None:
    for line in range(0, tiles.columns * stored.bytes, tiles.line):
        f.prefetch(f.gep(at, line, I8), False)


def _factors(
    f: FunctionBuilder, tiles: Tiles, origin: Val, row_bytes: Val, times: int, loads: int, widths: Sequence[int]
) -> list[Val]:
    """Loads the element of A so many rows behind `origin` into all lanes of vectors; by one load, or one for each of several
    multiply-adds."""
    address = f.gep(origin, row_bytes, Type(f"i{8 * times}")) if times else origin
    elements = [f.load(address, tiles.element, again=k > 0) for k in range(loads)]
    spread: dict[tuple[str, int], Val] = {}
    for element, lanes in zip(cycle(elements), widths):
        if (element.name, lanes) not in spread:
            spread[element.name, lanes] = f.splat(element, lanes)
    return [spread[element.name, lanes] for element, lanes in zip(cycle(elements), widths)]


def _put(
    f: FunctionBuilder, tiles: Tiles, totals: Sequence[Val], c: Val, c_step: Val, masks: Sequence[Val | None], add: bool
) -> None:
    """Stores sums, or adds them to what is in memory."""
    vectors = len(masks)
    for i in range(len(totals) // vectors):
        row = f.gep(c, f.mul(c_step, i), tiles.element)
        for v, mask in enumerate(masks):
            total, offset = totals[i * vectors + v], const(I64, v * tiles.lanes)
            if add:
                total = f.add(_read(f, row, total.type, offset, mask), total)
            _write(f, total, row, v * tiles.lanes, mask)


def _places(rows: int) -> list[tuple[int, int]]:
    """Addresses rows as origin + times * distance, times being a factor that the processor's addressing modes have.

    A pointer per row would take more registers than there are; so five reach fourteen rows, wherever those are.
    """
    places: list[tuple[int, int]] = []
    for row in range(rows):
        origins = [origin for origin, times in places if times == 0]
        reached = [(origin, row - origin) for origin in origins if row - origin in (1, 2, 4, 8)]
        places.append(reached[0] if reached else (row, 0))
    return places


def _read(f: FunctionBuilder, base: Val, vector: Type, offset: Val, mask: Val | None) -> Val:
    return f.load(base, vector, offset) if mask is None else f.masked_load(base, vector, mask, offset)


def _write(f: FunctionBuilder, value: Val, base: Val, offset: int, mask: Val | None) -> None:
    if mask is None:
        f.store(value, base, offset)
    else:
        f.masked_store(value, base, mask, offset)
