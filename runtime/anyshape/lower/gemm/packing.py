"""Packing of operands into the layout that the micro-kernels read.

A strip is `rows` rows of some matrix, element (i, l) at source[i * row_step + l * k_step]; packed, element (i, l) is at to[l * width + i],
width >= rows. A tile of A is a strip with width = rows. A panel of B is a strip of its columns with width = `columns`; the lanes beyond the
matrix hold copies of its last column, which are never stored.

In: addresses and steps at run time (`emit_pack`), or a NumPy array at compile time (`prepack_b`). Whole vectors are written in ascending
order, so that the surplus lanes of one step are overwritten by the next; `Tiles.slack` elements past the end may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..llvm import half
from ..llvm.builder import FunctionBuilder, Module
from ..llvm.transpose import transpose
from ..llvm.types import I8, I64, PTR, VOID, Type, Val, ValLike, const
from .background_packing import collecting, zeros
from .kernel_arguments import narrowed, widened
from .tiles import Tiles

PACK_ARGUMENTS = [
    ("source", PTR),
    ("row_step", I64),
    ("k_step", I64),
    ("rows", I64),  # at least 1
    ("width", I64),
    ("k", I64),
    ("to", PTR),
]


def pack_name(source: Type, to: Type | None = None) -> str:
    """The name of a packer. `to`: the element type of packed strips, if it is wider than that of the source."""
    name = source.element if source.is_half else source.suffix
    return f"anyshape_gemm_{name}_pack" + ("" if to is None or to == source else "_wide")


@dataclass(frozen=True)
class _Conversion:
    """Conversion from elements of one type to those of another, in registers of the tiles' type."""

    tiles: Tiles
    source: Type
    to: Type
    rounds: Type | None = None
    """What elements are rounded to, and stay of their own type."""

    def read(self, f: FunctionBuilder, base: Val, index: ValLike = 0, mask: Val | None = None, lanes: int = 0) -> Val:
        narrow, vector = self.source.vector(lanes), self.tiles.element.vector(lanes)
        raw = f.load(base, narrow, index) if mask is None else f.masked_load(base, narrow, mask, index)
        return widened(f, raw, vector)

    def convert(self, f: FunctionBuilder, value: Val) -> Val:
        if self.rounds is not None:
            return half.through(f, value, self.rounds)
        return narrowed(f, value, self.to)


@dataclass(frozen=True)
class RoundingPacker:
    """A packer of elements that are rounded to fewer bits: its name, and the float of 16 bits."""

    name: str
    to: Type


def emit_pack(
    module: Module,
    tiles: Tiles,
    source: Type | None = None,
    to: Type | None = None,
    rounds: RoundingPacker | None = None,
) -> None:
    """Emits the exported packer of elements of a type."""
    source, element = source or tiles.element, to or tiles.element
    move = _Conversion(tiles, source, element, None if rounds is None else rounds.to)
    methods = (_emit_along_k, _emit_along_rows, _emit_any)
    name = pack_name(source, element) if rounds is None else rounds.name
    emit_packer(module, name, tiles.lanes, source, element, [partial(emit, move=move) for emit in methods])


StripPacker = Callable[[FunctionBuilder, int], None]
"""Emits the packing of one strip of at most so many rows, with the arguments `PACK_ARGUMENTS`."""


def emit_packer(module: Module, name: str, lanes: int, source: Type, to: Type, methods: Sequence[StripPacker]) -> None:
    """Emits the exported packer: it takes strips of one vector of rows each, from the last to the first, by the fastest of the methods,
    which are for rows along k, for rows contiguous among themselves, and for any."""
    for kind, emit in zip(("along_k", "along_rows", "any"), methods, strict=True):
        with module.function(f"{name}_{kind}", VOID, PACK_ARGUMENTS, internal=True) as f:
            emit(f, lanes)
            f.ret()
    with module.function(name, VOID, PACK_ARGUMENTS) as f:
        at, row_step, k_step, rows, width, k, target = f.args
        strips = f.ceil_div(rows, lanes)
        with f.for_range(0, strips) as loop:
            first = f.mul(f.sub(f.sub(strips, 1), loop.index), lanes)
            start = f.gep(at, f.mul(first, row_step), source)
            args = [start, row_step, k_step, f.smin(f.sub(rows, first), lanes), width, k, f.gep(target, first, to)]
            _call_best(f, name, args)
        f.ret()


def _call_best(f: FunctionBuilder, whole: str, args: list[Val]) -> None:
    """Calls the packing method that the steps of the matrix allow."""
    _, row_step, k_step, *_ = args
    with f.if_else(f.compare("eq", k_step, 1)) as unit_k:
        with unit_k.then():
            f.call(f"{whole}_along_k", VOID, args)
        with unit_k.otherwise(), f.if_else(f.compare("eq", row_step, 1)) as unit_row:
            with unit_row.then():
                f.call(f"{whole}_along_rows", VOID, args)
            with unit_row.otherwise():
                f.call(f"{whole}_any", VOID, args)


def _emit_along_k(f: FunctionBuilder, lanes: int, move: _Conversion) -> None:
    """Emits packing of rows contiguous along k: square blocks are transposed in registers."""
    source, row_step, _, rows, width, k, to = f.args
    last = f.sub(rows, 1)
    starts = [f.gep(source, f.mul(f.smin(last, i), row_step), move.source) for i in range(lanes)]
    whole = f.sub(k, f.binary("and", k, const(I64, lanes - 1)))
    with f.for_range(0, whole, lanes) as loop:
        transposed = transpose(f, [move.read(f, start, loop.index, lanes=lanes) for start in starts])
        _store_steps(f, move, transposed, f.gep(to, f.mul(loop.index, width), move.to), width)
    rest = f.sub(k, whole)
    with f.if_(f.compare("gt", rest, 0)):
        mask = f.tail_mask(rest, lanes)
        transposed = transpose(f, [move.read(f, start, whole, mask, lanes) for start in starts])
        _store_steps(f, move, transposed, f.gep(to, f.mul(whole, width), move.to), width)


def _store_steps(f: FunctionBuilder, move: _Conversion, steps: list[Val], to: Val, width: Val) -> None:
    for step in steps:
        f.store(move.convert(f, step), to)
        to = f.gep(to, width, move.to)


def _emit_along_rows(f: FunctionBuilder, lanes: int, move: _Conversion) -> None:
    """Emits packing of rows contiguous among themselves: one masked vector per step."""
    source, _, k_step, rows, width, k, to = f.args
    mask = f.tail_mask(rows, lanes)
    with f.for_range(0, k, carried=[source, to]) as loop:
        at, target = loop.carried
        f.store(move.convert(f, move.read(f, at, 0, mask, lanes)), target)
        loop.next(f.gep(at, k_step, move.source), f.gep(target, width, move.to))


def _emit_any(f: FunctionBuilder, lanes: int, move: _Conversion) -> None:
    """Emits packing for any steps: element by element, again in ascending order of steps of k."""
    source, row_step, k_step, rows, width, k, to = f.args
    with f.for_range(0, k, carried=[source, to]) as loop:
        at, target = loop.carried
        with f.for_range(0, rows, carried=[at], at_least_once=True) as inner:
            f.store(move.convert(f, move.read(f, inner.carried[0])), target, inner.index)
            inner.next(f.gep(inner.carried[0], row_step, move.source))
        loop.next(f.gep(at, k_step, move.source), f.gep(target, width, move.to))


def pack_all_name(element: Type) -> str:
    return f"{pack_name(element)}_all"


def emit_pack_all(module: Module, element: Type) -> None:
    """Emits the packer for a table of strips, which has a row of arguments for each; `claimed` counts those that some thread has begun."""
    words = len(PACK_ARGUMENTS)
    with module.function(
        pack_all_name(element), VOID, [("table", PTR), ("count", I64), ("claimed", PTR)], noalias=False
    ) as f:
        table, count, claimed = f.args
        with f.for_range(0, count):
            row = f.atomic_update("add", claimed, const(I64, 1))
            with f.if_(f.compare("ge", row, count)):
                f.ret()
            at = f.gep(table, f.mul(row, words), I64)
            f.call(pack_name(element), VOID, [f.load(at, type_, k) for k, (_, type_) in enumerate(PACK_ARGUMENTS)])
        f.ret()


def touch_name(element: Type) -> str:
    return f"{pack_name(element)}_touch"


def emit_touch(module: Module, element: Type) -> None:
    """Emits a function that writes to each page what is there already, so that the system maps it; `claimed` counts those that some thread
    has begun."""
    arguments = [("memory", PTR), ("page", I64), ("count", I64), ("claimed", PTR)]
    with module.function(touch_name(element), VOID, arguments, noalias=False) as f:
        memory, page, count, claimed = f.args
        with f.for_range(0, count):
            row = f.atomic_update("add", claimed, const(I64, 1))
            with f.if_(f.compare("ge", row, count)):
                f.ret()
            f.compare_exchange(f.gep(memory, f.mul(row, page), I8), 0, 0, I64)
        f.ret()


def prepack_b(
    array: npt.NDArray[Any], tiles: Tiles, packer: Callable[[npt.NDArray[Any]], int | None] | None = None
) -> npt.NDArray[Any]:
    """Packs a constant B of shape [..., K, N] as panels: [..., ceil(N / columns), K, columns], in which what is beyond N is never used.

    Flat, it is what `Prepacked` takes; one matrix of a batch is `prepacked_elements` after the one before it. Inside of `collected`, a
    large result is filled later, by the `pack_all` of the library at the address that `packer` gives for an array, if it gives one.
    """
    *batch, k, n = array.shape
    width = tiles.columns
    shape = (*batch, -(-n // width), k, width)
    later = collecting(prod(shape) * array.itemsize)
    by = packer(array) if later is not None and packer is not None and _stays_inside(array, tiles) else None
    panels = zeros(shape, array.dtype)
    if later is None or by is None:
        return _filled(panels, array)
    later.add(by, _strips(array, panels), array, panels)
    return panels


def _filled(panels: npt.NDArray[Any], array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Fills the panels now."""
    *batch, k, n = array.shape
    *steps, along = array.strides
    width = panels.shape[-1]
    whole = n // width
    cut = np.lib.stride_tricks.as_strided(array, (*batch, k, whole, width), (*steps, width * along, along))
    panels[..., :whole, :, :] = cut.swapaxes(-2, -3)
    if whole * width < n:
        panels[..., whole, :, : n - whole * width] = array[..., whole * width :]
    return panels


def _stays_inside(array: npt.NDArray[Any], tiles: Tiles) -> bool:
    """Whether no strip is written past its end: the order in which strips are packed is not fixed."""
    return array.strides[-2] != array.itemsize or array.shape[-2] % tiles.lanes == 0


def _strips(array: npt.NDArray[Any], panels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A table with a row of packer's arguments for each panel."""
    *batch, k, n = array.shape
    *steps, k_step, n_step = array.strides
    count, width, size = panels.shape[-3], panels.shape[-1], array.itemsize
    first = np.arange(count, dtype=np.int64) * width
    sources = np.full((), array.ctypes.data, np.int64)
    for extent, step in zip((*batch, count), (*steps, width * n_step), strict=True):
        sources = sources[..., None] + np.arange(extent, dtype=np.int64) * step
    table = np.empty((sources.size, len(PACK_ARGUMENTS)), np.int64)
    table[:, 0] = sources.reshape(-1)
    table[:, 1:3] = n_step // size, k_step // size
    table[:, 3] = np.tile(np.minimum(n - first, width), sources.size // count)
    table[:, 4:6] = width, k
    table[:, 6] = panels.ctypes.data + np.arange(sources.size) * (k * width * size)
    return table


def prepacked_elements(k: Any, n: Any, tiles: Tiles) -> Any:
    """How many elements one prepacked matrix has; sizes are ints or dims."""
    return k * ((n + (tiles.columns - 1)) // tiles.columns * tiles.columns)
