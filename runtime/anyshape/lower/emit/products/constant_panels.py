"""Constant operands of products, packed as panels before the first call, and sums of them.

In: a product and the values of its constant. Out: an operand of the kernel in that form, and the steps between its batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.lower import gemm
from anyshape.lower.emit.values import elementwise
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.kernel import PackedConstant
from anyshape.lower.schedule.products import ConstantSums, InMemory, Product
from anyshape.lower.target import Target


def prepack(p: Product, array: NDArray[Any], target: Target) -> PackedConstant:
    """Packs a constant operand as panels, in the layout that the emitted strides expect."""
    assert p.constant is not None
    pack = panel_layout(p, target)
    layout = f"panels {pack.tiles.columns}" if p.words is None else f"panels {pack.tiles.columns} of {p.words}"
    if gemm.by_matrix_tiles(p.words, target):
        layout += " in whole tiles"
    return PackedConstant(p.constant, layout, pack(array), pack)


def panel_layout(p: Product, target: Target) -> PanelLayout:
    """The layout of a constant operand as panels."""
    assert isinstance(p.b, InMemory)
    b, own = p.b.access, packed_batch(p, p.b)
    summed = (p.k,) if isinstance(p.a, InMemory) else p.a.over
    order: list[LoopVar] = [*own, *summed, p.n]
    extents = tuple(_number(v.extent) for v in order)
    shape = (*extents[: len(own)], _number(p.k.extent), extents[-1])
    steps = tuple(_number(b.address.coefficient(v)) for v in order)
    offset = _number(b.address.offset)
    tiles = gemm.tiles_for(target, elementwise.register_type(p.sum.dtype))

    return PanelLayout(
        extents=extents,
        steps=steps,
        offset=offset,
        shape=shape,
        tiles=tiles,
        words=p.words,
        target=target,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelLayout:
    """Packs a constant, read from `offset` on in the order of some loops, as panels of tiles, or of `words` of the product."""

    extents: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int
    shape: tuple[int, ...]
    tiles: gemm.Tiles
    words: gemm.OperandWords | None
    target: Target

    def __call__(self, constant: NDArray[Any]) -> NDArray[Any]:
        view = _strided(constant, self.extents, self.steps, self.offset).reshape(self.shape)
        if self.words is not None:
            return self.words.prepacked(view, self.tiles, self.target)
        packed: NDArray[Any] = gemm.prepack_b(
            view, self.tiles, lambda b: gemm.packer_of(b.dtype, self.tiles, self.target)
        )
        return packed


def pack_sums(sums: ConstantSums, array: NDArray[Any]) -> PackedConstant:
    """Sums of a constant's values as they are multiplied, for every value of the variables that it varies with."""
    order = (*sums.variables, *sums.summed)
    extents = tuple(_number(v.extent) for v in order)
    steps = tuple(_number(sums.of.address.coefficient(v)) for v in order)
    offset = _number(sums.of.address.offset)
    axes = tuple(range(len(sums.variables), len(order)))
    count = math.prod(extents[len(sums.variables) :])
    shift = 0 if not sums.side.flips else 128 if sums.side.unsigned else -128

    pack = _SumLayout(extents, steps, offset, axes, shift * count)
    return PackedConstant(sums.of.tensor, f"sums over {axes}", pack(array), pack)


@dataclass(frozen=True, slots=True)
class _SumLayout:
    """Sums a constant, read from `offset` on in the order of some loops, over axes of those loops, and adds a number to each sum."""

    extents: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int
    axes: tuple[int, ...]
    added: int

    def __call__(self, constant: NDArray[Any]) -> NDArray[Any]:
        total = _strided(constant, self.extents, self.steps, self.offset).sum(self.axes, dtype=np.int64) + self.added
        return np.asarray(total).astype(np.int32)  # which wraps around


def _strided(constant: NDArray[Any], extents: tuple[int, ...], steps: tuple[int, ...], offset: int) -> NDArray[Any]:
    """The elements of a constant from one on, in the order of some loops."""
    flat = np.ascontiguousarray(constant).reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, extents, [n * flat.itemsize for n in steps])


def steps_of(p: Product, target: Target) -> Size:
    """The length of the sums as the micro-kernels count it."""
    per = 1 if p.words is None else p.words.per(target)
    return p.k.extent if per == 1 else (p.k.extent + (per - 1)) // per


def panel_steps_of(p: Product, target: Target) -> Size:
    """The length of the sums as packed panels have it."""
    return p.k.extent if p.words is None else gemm.panel_steps(p.words, target, p.k.extent)


def packed_batch(p: Product, b: InMemory) -> list[LoopVar]:
    """The variables that a constant operand has panels for each value of."""
    return [v for v in (*p.around, *p.batch) if b.access.address.coefficient(v) != 0]


def packed_step(p: Product, v: LoopVar, target: Target) -> int:
    """The distance from one batch of a prepacked operand to the next: batches are packed in the order of the loops."""
    assert isinstance(p.b, InMemory)
    own = packed_batch(p, p.b)
    if v not in own:
        return 0
    tiles = gemm.tiles_for(target, elementwise.register_type(p.sum.dtype))
    step = int(gemm.prepacked_elements(panel_steps_of(p, target), p.n.extent, tiles))
    for w in own[own.index(v) + 1 :]:
        step *= _number(w.extent)
    return step


def _number(size: Size) -> int:
    """A dim of a constant."""
    if not isinstance(size, int):
        raise TypeError(f"the dims of a constant are numbers, got {size}")
    return size
