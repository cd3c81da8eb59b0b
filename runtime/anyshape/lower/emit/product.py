"""A matrix product as a phase of a kernel: operands and strides for the template, the graph as its epilogue.

In: a `Product`. Out: the template's loops, and inside them the stores of the product. What depends on columns only is
emitted once per vector of columns, the rest per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower import gemm
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.nest import Sums
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.scope import Level
from anyshape.lower.emit.value import Vector
from anyshape.lower.emit.windows import fill, prepare
from anyshape.lower.ir.dag import Affine, DagNode, Load, LoopVar
from anyshape.lower.ir.stores import below
from anyshape.lower.kernel import Packed
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I64, Val, const
from anyshape.lower.schedule.contraction import Product
from anyshape.lower.schedule.tree import Scope, plan
from anyshape.lower.target import Target

FEW = 2
"""Rows for which a computed operand is not packed: packing stores and loads each element once, and so few rows use it once or twice."""


@dataclass(frozen=True)
class OfBlock:
    """What a product of a block of rows takes from the whole: the rows of all blocks, those of one at most, and where `emit_panels` has
    packed b, if it had to."""

    rows: Size
    most: Size
    panels: Val | None


def emit_product(rows: Rows, p: Product, prepacked: Tensor | None, block: OfBlock | None = None) -> None:
    """`prepacked` is the operand that holds b as panels, if it does."""
    _Emission(rows, p, block).run(prepacked)


def emit_panels(rows: Rows, p: Product, all_rows: Size) -> Val | None:
    """Scratch with b packed once for all blocks of rows; None where each block reads it as it lies, or packs what it needs."""
    return None if p.packed is not None else _Emission(rows, p, None).panels(all_rows)


class _Emission:
    def __init__(self, rows: Rows, p: Product, block: OfBlock | None) -> None:
        self.rows, self.p, self.block = rows, p, block
        self.element = elementwise.register_type(p.sum.dtype)
        self.tiles = gemm.tiles_for(rows.f.target, self.element)
        self.a_type, self.b_type = (elementwise.memory_type(x.tensor.dtype) for x in (p.a, p.b))
        if p.computed is not None:
            self.b_type = self.element
        self.segment: tuple[Val, Val] | None = None
        """Of the open piece of a row of results: the row, and where the vector begins in it."""

    def run(self, prepacked: Tensor | None) -> None:
        rows, scope = self.rows, self.few_rows()
        if scope is None:
            self.contract(prepacked)
            return
        few = rows.f.compare("le", rows.size(self.p.m.extent), FEW)
        with rows.when(few):
            rows.top(scope)
        with rows.when(rows.f.not_(few)):
            self.contract(prepacked)

    def contract(self, prepacked: Tensor | None) -> None:
        rows, p = self.rows, self.p
        with rows.section():
            if p.windows is not None:
                prepare(rows, p.windows.staged)
            spec = self.spec(prepacked)
            m = p.m.extent if self.block is None else self.block.most
            widens = spec.widens_b(rows.f.target)
            sizes, made = (m, p.n.extent, p.k.extent), p.computed is not None or widens
            packs = spec.packs_b or widens
            bytes_ = gemm.scratch_bytes(self.tiles, *sizes, packs, dims.minimum, dims.maximum, made)
            gemm.emit_contraction(rows.f, spec, self.reserve(bytes_), rows.part, rows.nparts, rows.poll)

    def few_rows(self) -> Scope | None:
        """Sums that compute the operand where they use it, row by row: what few rows are done with sooner than with packing it."""
        p = self.p
        if p.computed is None or p.windows is not None or self.block is not None or p.around:
            return None
        scope = plan(list(p.stores))
        variables = (*p.batch, p.m, p.n)
        if scope.vector is not p.n or set(scope.variables) != set(variables):
            return None
        scope.variables = variables
        return scope

    def reserve(self, bytes_: Size) -> Val:
        """Scratch of this product alone."""
        rows = self.rows
        scratch = rows.f.gep(rows.f.args[2], rows.size(rows.scratch), I8)
        rows.scratch = rows.scratch + (bytes_ + 63) // 64 * 64
        return scratch

    def panels(self, all_rows: Size) -> Val | None:
        rows, p = self.rows, self.p
        if p.b.address.coefficient(p.n) == 1 or any(v in p.b.domain for v in p.batch):
            return None
        with rows.section():
            scratch = self.reserve(gemm.panel_bytes(self.tiles, p.n.extent, p.k.extent))
            sizes = rows.size(all_rows), rows.size(p.n.extent), rows.size(p.k.extent)
            along_k = rows.f.i64(self.stride(p.a.address, p.k))
            gemm.emit_panels(
                rows.f, (self.element, self.a_type, self.b_type), along_k, self.right(None), sizes, scratch
            )
        return scratch

    def start(self, t: Tensor, address: Affine) -> Val:
        known = tuple((v, c) for v, c in address.terms if v in self.p.around)
        return self.rows.pointer(t, Affine(known, address.offset))

    def stride(self, address: Affine, v: LoopVar) -> Val | int:
        c = address.coefficient(v)
        return c if isinstance(c, int) else self.rows.size(c)

    def right(self, panels: Val | None) -> gemm.Strided:
        p, b = self.p, self.p.b.address
        return gemm.Strided(self.start(p.b.tensor, b), self.stride(b, p.k), self.stride(b, p.n), panels)

    def spec(self, prepacked: Tensor | None) -> gemm.ContractionSpec:
        rows, p, start, stride = self.rows, self.p, self.start, self.stride
        size = rows.size
        a, b = p.a.address, p.b.address
        left = gemm.Strided(start(p.a.tensor, a), stride(a, p.m), stride(a, p.k))
        right: gemm.Strided | gemm.Prepacked | gemm.Packed = (
            gemm.Packed(self.pack_windows, self.stage)
            if p.windows is not None
            else gemm.Packed(self.pack)
            if p.computed is not None
            else gemm.Prepacked(self.panels_of(prepacked))
            if prepacked is not None
            else self.right(None if self.block is None else self.block.panels)
        )
        c = p.stores[0].access.address
        batch = []
        for v in p.batch:
            b_step = stride(b, v) if p.computed is None else 0
            if prepacked is not None:
                b_step = self.packed_step(v)
            batch.append(gemm.Batch(size(v.extent), stride(a, v), b_step, stride(c, v)))
        direct = p.is_plain and c.coefficient(p.n) == 1 and p.windows is None
        to = gemm.Destination(start(p.stores[0].access.tensor, c), stride(c, p.m), 1) if direct else None
        return gemm.ContractionSpec(
            self.element, size(p.m.extent), size(p.n.extent), size(p.k.extent), left, right, to,
            None if direct else self.columns, batch, None, None if self.block is None else size(self.block.rows),
            self.segments if self.merges else None, self.a_type, self.b_type,
            self.together,
        )  # fmt: skip

    @property
    def together(self) -> int:
        """Vectors of results that make a line: a line that is written in parts, between which the other rows' are, may have left the first
        cache meanwhile."""
        bytes_ = min(elementwise.memory_type(s.access.tensor.dtype).bytes for s in self.p.stores)
        vectors = self.tiles.line // (bytes_ * self.tiles.lanes)
        return 1 if self.merges else max(1, min(self.tiles.vectors, vectors))

    @property
    def merges(self) -> bool:
        """Whether columns are the places of a copy, in rows longer than those of the results."""
        return self.p.windows is not None and len(self.p.windows.staged.moving) > 1

    def panels_of(self, prepacked: Tensor) -> Val:
        """The panels for the values of variables around."""
        f, at = self.rows.f, self.rows.base(prepacked)
        for v in self.p.around:
            at = f.gep(at, f.mul(self.rows.indices[v], self.packed_step(v)), self.b_type)
        return at

    def packed_step(self, v: LoopVar) -> int:
        """How far one batch of a prepacked operand is from the next: batches are packed in the order of the loops."""
        own = _packed_batch(self.p)
        if v not in own:
            return 0
        step = int(gemm.prepacked_elements(self.p.k.extent, self.p.n.extent, self.tiles))
        for w in own[own.index(v) + 1 :]:
            step *= _number(w.extent)
        return step

    def stage(self, f: FunctionBuilder, tile: gemm.Tile) -> None:
        """Once a batch."""
        assert self.p.windows is not None
        self.enter(tile)
        fill(self.rows, self.p.windows.staged)
        self.rows.leave()

    def enter(self, tile: gemm.Tile) -> Level:
        level = self.rows.enter()
        for v, index in zip(self.p.batch, tile.batch, strict=True):
            self.rows.indices[v] = index
            self.rows.bind(v)
        return level

    def pack_windows(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
        """One panel: for every channel and tap two vectors of the copy, past the last column too."""
        rows, p, lanes = self.rows, self.p, self.tiles.lanes
        windows = p.windows
        assert windows is not None
        self.enter(tile)
        rows.indices[p.n] = first
        rows.bind(p.n)
        rows.vector = Vector(p.n, lanes, (None,) * self.tiles.vectors)

        def body(sums: Sums) -> Sums:
            step = const(I64, 0)
            for v in windows.staged.channels:
                step = f.add(f.mul(step, rows.size(v.extent)), rows.indices[v])
            place = f.gep(to, f.mul(f.mul(step, len(windows.taps)), width), self.element)
            for k, tap in enumerate(windows.taps):
                for copy in range(self.tiles.vectors):
                    at = f.add(f.mul(width, k), copy * lanes)
                    f.store(f.splat(rows.value(tap, copy), lanes), place, at)
            return sums

        rows.nest(windows.staged.channels, None, (), [], body)
        rows.vector = None
        rows.leave()

    def segments(
        self, f: FunctionBuilder, tile: gemm.Tile, column: Val, mask: Val | None, emit: Callable[[Val | None], None]
    ) -> None:
        """The rows of results that a vector of places touches."""
        rows, p, lanes = self.rows, self.p, self.tiles.lanes
        assert p.windows is not None
        across, along = p.windows.staged.moving
        pitch, width = rows.size(p.windows.staged.pitches[0]), rows.size(along.position.extent)
        first = f.binary("udiv", column, pitch)
        last = f.binary("udiv", f.add(column, lanes - 1), pitch)
        end = f.smin(f.add(last, 1), rows.size(across.position.extent))
        with f.for_range(first, end) as loop:
            begin = f.sub(column, f.mul(loop.index, pitch))
            places = f.add(f.iota(I64, lanes), begin)
            inside = f.compare("lt", places, width, unsigned=True)
            self.segment = loop.index, begin
            emit(inside if mask is None else f.and_(inside, mask))

    def pack(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
        """One panel of a computed operand: for every value of the summed variables, two vectors of columns."""
        rows, p, lanes = self.rows, self.p, self.tiles.lanes
        assert p.computed is not None
        node = p.computed
        self.enter(tile)
        rows.indices[p.n] = first
        rows.bind(p.n)
        masks = tuple(f.tail_mask(count, lanes, copy * lanes) for copy in range(self.tiles.vectors))
        rows.vector = Vector(p.n, lanes, masks)

        def body(sums: Sums) -> Sums:
            step = const(I64, 0)
            for v in p.over:
                step = f.add(f.mul(step, rows.size(v.extent)), rows.indices[v])
            place = f.mul(step, width)
            for copy in range(self.tiles.vectors):
                f.store(f.splat(rows.value(node, copy), lanes), to, f.add(place, copy * lanes))
            return sums

        rows.nest(p.over, None, (), [], body)
        rows.vector = None
        rows.leave()

    # the epilogue

    def columns(self, f: FunctionBuilder, tile: gemm.Tile, column: Val, masks: gemm.Masks) -> gemm.RowBody:
        rows, p = self.rows, self.p
        level = self.enter(tile)
        along = p.n
        if self.segment is not None and p.windows is not None:
            across, along = (m.position for m in p.windows.staged.moving)
            rows.indices[across], column = self.segment
            rows.bind(across)
        rows.indices[along] = column
        rows.bind(along)
        rows.vector = Vector(along, self.tiles.lanes, masks)
        self.ahead(len(masks))
        level.closed = True
        return self.row

    def ahead(self, copies: int) -> None:
        """Values and addresses that do not depend on the row."""
        rows, p = self.rows, self.p
        late: set[DagNode] = set()
        for n in below(p.stores, stop=p.sum):
            if n is p.sum or p.m in n.domain or any(a in late for a in n.inputs):
                late.add(n)
                if isinstance(n, Load):
                    rows.pointer(n.access.tensor, n.access.address)
            else:
                for copy in range(copies):
                    rows.value(n, copy)
        for s in p.stores:
            rows.pointer(s.access.tensor, s.access.address)

    def row(self, f: FunctionBuilder, row: Val, sums: Sequence[Val]) -> None:
        rows, p = self.rows, self.p
        rows.enter()
        rows.indices[p.m] = row
        rows.bind(p.m)
        for copy, vector in enumerate(sums):
            rows.remember((p.sum, copy), vector)
        for s in p.stores:
            for copy in range(len(sums)):
                rows.store(s.access, rows.value(s.value, copy), copy)
        rows.leave()
        rows.leave()
        rows.vector = None


def prepack(p: Product, array: NDArray[Any], target: Target) -> Packed:
    """The panels of a constant operand, as the emitted strides expect them."""
    assert p.packed is not None
    own = _packed_batch(p)
    order: list[LoopVar] = [*own, p.k, p.n]
    extents = tuple(_number(v.extent) for v in order)
    steps = tuple(_number(p.b.address.coefficient(v)) for v in order)
    tiles = gemm.tiles_for(target, elementwise.register_type(p.sum.dtype))

    def pack(constant: NDArray[Any]) -> NDArray[Any]:
        flat = np.ascontiguousarray(constant).reshape(-1)
        view = np.lib.stride_tricks.as_strided(flat, extents, [n * flat.itemsize for n in steps])
        packed: NDArray[Any] = gemm.prepack_b(view, tiles, lambda b: gemm.packer_of(b.dtype, tiles, target))
        return packed

    return Packed(p.packed, f"panels {tiles.columns}", pack(array), pack)


def _packed_batch(p: Product) -> list[LoopVar]:
    """The variables that a constant operand has panels for each value of."""
    return [v for v in (*p.around, *p.batch) if p.b.address.coefficient(v) != 0]


def _number(size: Size) -> int:
    """A dim of a constant."""
    if not isinstance(size, int):
        raise TypeError(f"the dims of a constant are numbers, got {size}")
    return size
