"""Laying operands out as the micro-kernels read them.

A strip is `rows` rows of some matrix, element (i, l) at source[i * row_step + l * k_step]; packed, element (i, l) is at
to[l * width + i], width >= rows. A tile of A is a strip with width = rows. A panel of B is a strip of its columns with
width = `columns`; the lanes beyond the matrix hold copies of its last column, which nobody stores.

In: addresses and steps at run time (`emit_pack`), or a NumPy array at compile time (`prepack_b`). Whole vectors are
written in ascending order, so that the surplus lanes of one step are overwritten by the next; `Tiles.slack` elements
past the end may be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..llvm.builder import Function, Module
from ..llvm.transpose import transpose
from ..llvm.types import I64, PTR, VOID, Type, Val, const
from .later import later
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


def pack_name(element: Type) -> str:
    return f"anyshape_gemm_{element.suffix}_pack"


def emit_pack(module: Module, tiles: Tiles) -> None:
    """The exported packer: takes strips of one vector of rows each, from the last to the first, by the best way."""
    element, lanes = tiles.element, tiles.lanes
    for name, emit in (("along_k", _emit_along_k), ("along_rows", _emit_along_rows), ("any", _emit_any)):
        with module.function(f"{element.suffix}_pack_{name}", VOID, PACK_ARGUMENTS, internal=True) as f:
            emit(f, tiles)
            f.ret()
    with module.function(pack_name(element), VOID, PACK_ARGUMENTS) as f:
        source, row_step, k_step, rows, width, k, to = f.args
        strips = f.ceil_div(rows, lanes)
        with f.for_range(0, strips) as loop:
            first = f.mul(f.sub(f.sub(strips, 1), loop.index), lanes)
            start = f.gep(source, f.mul(first, row_step), element)
            args = [start, row_step, k_step, f.smin(f.sub(rows, first), lanes), width, k, f.gep(to, first, element)]
            with f.if_else(f.compare("eq", k_step, 1)) as unit_k:
                with unit_k.then():
                    f.call(f"{element.suffix}_pack_along_k", VOID, args)
                with unit_k.otherwise(), f.if_else(f.compare("eq", row_step, 1)) as unit_row:
                    with unit_row.then():
                        f.call(f"{element.suffix}_pack_along_rows", VOID, args)
                    with unit_row.otherwise():
                        f.call(f"{element.suffix}_pack_any", VOID, args)
        f.ret()


def _emit_along_k(f: Function, tiles: Tiles) -> None:
    """Rows contiguous along k: square blocks are turned in registers."""
    source, row_step, _, rows, width, k, to = f.args
    element, lanes = tiles.element, tiles.lanes
    vector = element.vector(lanes)
    last = f.sub(rows, 1)
    starts = [f.gep(source, f.mul(f.smin(last, i), row_step), element) for i in range(lanes)]
    whole = f.sub(k, f.binary("and", k, const(I64, lanes - 1)))
    with f.for_range(0, whole, lanes) as loop:
        turned = transpose(f, [f.load(start, vector, loop.index) for start in starts])
        _store_steps(f, turned, f.gep(to, f.mul(loop.index, width), element), width)
    rest = f.sub(k, whole)
    with f.if_(f.compare("gt", rest, 0)):
        mask = f.tail_mask(rest, lanes)
        turned = transpose(f, [f.masked_load(start, vector, mask, whole) for start in starts])
        _store_steps(f, turned, f.gep(to, f.mul(whole, width), element), width)


def _store_steps(f: Function, steps: list[Val], to: Val, width: Val) -> None:
    for step in steps:
        f.store(step, to)
        to = f.gep(to, width, step.type)


def _emit_along_rows(f: Function, tiles: Tiles) -> None:
    """Rows contiguous among themselves: one masked vector per step."""
    source, _, k_step, rows, width, k, to = f.args
    element, lanes = tiles.element, tiles.lanes
    mask = f.tail_mask(rows, lanes)
    with f.for_range(0, k, carried=[source, to]) as loop:
        at, target = loop.carried
        f.store(f.masked_load(at, element.vector(lanes), mask), target)
        loop.next(f.gep(at, k_step, element), f.gep(target, width, element))


def _emit_any(f: Function, tiles: Tiles) -> None:
    """Neither: element by element, again in ascending order of steps."""
    source, row_step, k_step, rows, width, k, to = f.args
    element = tiles.element
    with f.for_range(0, k, carried=[source, to]) as loop:
        at, target = loop.carried
        with f.for_range(0, rows, carried=[at], at_least_once=True) as inner:
            f.store(f.load(inner.carried[0], element), target, inner.index)
            inner.next(f.gep(inner.carried[0], row_step, element))
        loop.next(f.gep(at, k_step, element), f.gep(target, width, element))


def prepack_b(array: npt.NDArray[Any], tiles: Tiles) -> npt.NDArray[Any]:
    """A constant B of shape [..., K, N] as panels: [..., ceil(N / columns), K, columns], zero beyond N.

    Flat, it is what `Prepacked` wants; one matrix of a batch is `prepacked_elements` after the one before it. Inside of `collected`, a
    large result is filled later.
    """
    *batch, k, n = array.shape
    width = tiles.columns
    panels = np.zeros((*batch, -(-n // width), k, width), array.dtype)
    whole = n // width

    def fill() -> None:
        *steps, along = array.strides
        cut = np.lib.stride_tricks.as_strided(array, (*batch, k, whole, width), (*steps, width * along, along))
        panels[..., :whole, :, :] = cut.swapaxes(-2, -3)
        if whole * width < n:
            panels[..., whole, :, : n - whole * width] = array[..., whole * width :]

    later(fill, panels.nbytes)
    return panels


def prepacked_elements(k: Any, n: Any, tiles: Tiles) -> Any:
    """How many elements one prepacked matrix has; ints or dims."""
    return k * ((n + (tiles.columns - 1)) // tiles.columns * tiles.columns)
