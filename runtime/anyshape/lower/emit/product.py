"""A matrix product as a phase of a kernel: operands and strides for the template, the graph as its epilogue.

In: a `Product`. Out: the template's loops, and inside them the stores of the product. What depends on columns only is
emitted once per vector of columns, the rest per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower import gemm
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.context import KernelContext
from anyshape.lower.emit.nest import nest
from anyshape.lower.emit.rows import emit_versions
from anyshape.lower.emit.taps import all_inside, are_few, at_taps, tap_bounds
from anyshape.lower.emit.value import Vector
from anyshape.lower.emit.windows import fill, prepare
from anyshape.lower.ir.dag import Affine, DagNode, Load, LoopVar
from anyshape.lower.ir.stores import below
from anyshape.lower.kernel import Packed
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I16, I32, I64, Val, const
from anyshape.lower.schedule.contraction import ConstantSums, Product
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


def emit_product(ctx: KernelContext, p: Product, prepacked: Tensor | None, block: OfBlock | None = None) -> None:
    """Emits a product. `prepacked` is the operand that holds b as panels, if it does."""
    _Emission(ctx, p, block).run(prepacked)


def emit_panels(ctx: KernelContext, p: Product, all_rows: Size) -> Val | None:
    """Packs b once for all blocks of rows, in scratch; None where each block reads it in place, or packs what it needs."""
    return None if p.packed is not None else _Emission(ctx, p, None).panels(all_rows)


class _Emission:
    def __init__(self, ctx: KernelContext, p: Product, block: OfBlock | None) -> None:
        self.ctx, self.p, self.block = ctx, p, block
        self.element = elementwise.register_type(p.sum.dtype)
        self.tiles = gemm.tiles_for(ctx.f.target, self.element)
        self.a_type, self.b_type = (
            self.element if p.codes is not None else elementwise.memory_type(x.tensor.dtype) for x in (p.a, p.b)
        )
        if p.computed is not None:
            self.b_type = self.element
        if p.gathered is not None:
            self.a_type = self.element
        self.segment: tuple[Val, Val] | None = None
        """The row of results and the vector's start in it, inside of `segments`."""
        self.open = ExitStack()
        """Contexts that `columns` enters and `row` leaves."""

    def run(self, prepacked: Tensor | None) -> None:
        ctx, scope = self.ctx, self.few_rows()
        if scope is None:
            self.contract(prepacked)
            return
        few = ctx.f.compare("le", ctx.sizes.of(self.p.m.extent), FEW)
        with ctx.levels.when(few, certain=True):
            emit_versions(ctx, scope)
        with ctx.levels.when(ctx.f.not_(few), certain=True):
            self.contract(prepacked)

    def contract(self, prepacked: Tensor | None) -> None:
        ctx, p = self.ctx, self.p
        with ctx.levels.section():
            if p.windows is not None:
                prepare(ctx, p.windows.staged)
            spec = self.spec(prepacked)
            m = p.m.extent if self.block is None else self.block.most
            widens = spec.widens_b(ctx.f.target)
            sizes, computes = (m, p.n.extent, _steps(p, ctx.f.target)), p.computed is not None or widens
            packs = spec.packs_b or widens
            gathers = p.gathered is not None and p.windows is None
            bytes_ = gemm.scratch_bytes(self.tiles, *sizes, packs, dims.minimum, dims.maximum, computes, gathers)
            if p.codes is not None and p.windows is not None:  # words of channels past the last one
                bytes_ = bytes_ + len(p.windows.taps) * self.tiles.columns * self.element.bytes
            if p.column_sums is not None:
                ctx.memory.place(p.column_sums)
            gemm.emit_contraction(
                ctx.f, spec, self.ctx.memory.take(bytes_), ctx.parts.part, ctx.parts.nparts, ctx.levels.poll
            )

    def few_rows(self) -> Scope | None:
        """A scope of sums that compute the operand where they use it, row by row: for few rows it is faster than packing."""
        p = self.p
        if p.computed is None or p.windows is not None or self.block is not None or p.around:
            return None
        scope = plan(list(p.stores))
        variables = (*p.batch, p.m, p.n)
        if scope.vector is not p.n or set(scope.variables) != set(variables):
            return None
        return replace(scope, variables=variables)

    def panels(self, all_rows: Size) -> Val | None:
        ctx, p = self.ctx, self.p
        if p.b.address.coefficient(p.n) == 1 or any(v in p.b.domain for v in p.batch):
            return None
        with ctx.levels.section():
            scratch = self.ctx.memory.take(gemm.panel_bytes(self.tiles, p.n.extent, p.k.extent))
            sizes = ctx.sizes.of(all_rows), ctx.sizes.of(p.n.extent), ctx.sizes.of(p.k.extent)
            along_k = ctx.f.i64(self.stride(p.a.address, p.k))
            gemm.emit_panels(ctx.f, (self.element, self.a_type, self.b_type), along_k, self.right(None), sizes, scratch)
        return scratch

    def start(self, t: Tensor, address: Affine) -> Val:
        known = tuple((v, c) for v, c in address.terms if v in self.p.around)
        return self.ctx.values.pointer(t, Affine(known, address.offset))

    def stride(self, address: Affine, v: LoopVar) -> Val | int:
        c = address.coefficient(v)
        return c if isinstance(c, int) and self.ctx.sizes.is_literal(c) else self.ctx.sizes.of(c)

    def right(self, panels: Val | None) -> gemm.Strided:
        p, b = self.p, self.p.b.address
        return gemm.Strided(self.start(p.b.tensor, b), self.stride(b, p.k), self.stride(b, p.n), panels)

    def spec(self, prepacked: Tensor | None) -> gemm.ContractionSpec:
        ctx, p, start, stride = self.ctx, self.p, self.start, self.stride
        size = ctx.sizes.of
        a, b = p.a.address, p.b.address
        left = (
            gemm.Packed(self.pack_places if p.codes is None else self.pack_rows_of_bytes, self.stage)
            if p.gathered is not None and p.windows is not None
            else gemm.Gathered(self.gather)
            if p.gathered is not None
            else gemm.Strided(start(p.a.tensor, a), stride(a, p.m), stride(a, p.k))
        )
        right: gemm.Strided | gemm.Prepacked | gemm.Packed = (
            gemm.Packed(self.pack_windows if p.codes is None else self.pack_bytes, self.stage)
            if p.windows is not None and p.gathered is None
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
                b_step = size(self.packed_step(v))
            batch.append(gemm.Batch(size(v.extent), 0 if p.gathered else stride(a, v), b_step, stride(c, v)))
        direct = p.is_plain and c.coefficient(p.n) == 1 and p.windows is None and p.gathered is None
        to = gemm.Destination(start(p.stores[0].access.tensor, c), stride(c, p.m), 1) if direct else None
        return gemm.ContractionSpec(
            element=self.element,
            m=size(p.m.extent),
            n=size(p.n.extent),
            k=size(p.k.extent),
            a=left,
            b=right,
            c=to,
            epilogue=None if direct else self.columns,
            batch=batch,
            all_rows=None if self.block is None else size(self.block.rows),
            segments=self.segments if self.merges else None,
            a_stored=self.a_type,
            b_stored=self.b_type,
            together=self.together,
            codes=p.codes,
        )

    @property
    def together(self) -> int:
        """Vectors of results that fill a cache line: the first cache may have evicted a line that is written in parts, with those of the
        other rows between."""
        bytes_ = min(elementwise.memory_type(s.access.tensor.dtype).bytes for s in self.p.stores)
        vectors = self.tiles.line // (bytes_ * self.tiles.lanes)
        return 1 if self.merges else max(1, min(self.tiles.vectors, vectors))

    @property
    def merges(self) -> bool:
        """Whether columns are the places of a copy, in rows longer than those of the results."""
        return self.p.gathered is None and self.p.windows is not None and len(self.p.windows.staged.moving) > 1

    def panels_of(self, prepacked: Tensor) -> Val:
        """The address of the panels for the values of variables around."""
        f, at = self.ctx.f, self.ctx.memory.base(prepacked)
        for v in self.p.around:
            at = f.gep(at, f.mul(self.ctx.levels.indices[v], self.packed_step(v)), self.b_type)
        return at

    def packed_step(self, v: LoopVar) -> int:
        """The distance from one batch of a prepacked operand to the next: batches are packed in the order of the loops."""
        own = _packed_batch(self.p)
        if v not in own:
            return 0
        steps = _steps(self.p, self.ctx.f.target)
        step = int(gemm.prepacked_elements(steps, self.p.n.extent, self.tiles))
        for w in own[own.index(v) + 1 :]:
            step *= _number(w.extent)
        return step

    def stage(self, f: FunctionBuilder, tile: gemm.Tile) -> None:
        """Fills the copy of the windows, once a batch."""
        assert self.p.windows is not None
        with self.inside(tile):
            fill(self.ctx, self.p.windows.staged)

    @contextmanager
    def inside(self, tile: gemm.Tile) -> Iterator[None]:
        """Code of the template, in which a batch is open."""
        with self.ctx.levels.inner():
            for v, index in zip(self.p.batch, tile.batch, strict=True):
                self.ctx.levels.bind(v, index)
            yield

    def pack_windows(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
        """Packs one panel: for every channel and tap two vectors of the copy, past the last column too."""
        self._pack_taps(tile, self.p.n, first, width, to, self.tiles.vectors)

    def _pack_taps(self, tile: gemm.Tile, along: LoopVar, first: Val, width: Val, to: Val, vectors: int) -> None:
        """Packs so many vectors of places of the copy of windows, for every channel and tap."""
        ctx, f, lanes, windows = self.ctx, self.ctx.f, self.tiles.lanes, self.p.windows
        assert windows is not None

        def body() -> None:
            step = const(I64, 0)
            for v in windows.staged.channels:
                step = f.add(f.mul(step, ctx.sizes.of(v.extent)), ctx.levels.indices[v])
            place = f.gep(to, f.mul(f.mul(step, len(windows.taps)), width), self.element)
            for k, tap in enumerate(windows.taps):
                for copy in range(vectors):
                    at = f.add(f.mul(width, k), copy * lanes)
                    f.store(f.splat(ctx.values.of(tap, copy), lanes), place, at)

        with self.inside(tile), ctx.values.along(Vector(along, lanes, (None,) * vectors)):
            ctx.levels.bind(along, first)
            nest(ctx, windows.staged.channels, body)

    def pack_bytes(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
        """Packs one panel of bytes of windows."""
        assert self.p.codes is not None
        self.pack_words(self.p.n, self.p.codes.b, self.tiles.vectors, tile, first, width, to)

    def pack_rows_of_bytes(
        self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val
    ) -> None:
        """Packs rows of bytes that are places of the copy of windows, past the last one too."""
        assert self.p.codes is not None
        self.pack_words(self.p.m, self.p.codes.a, self.vectors_of_rows, tile, first, width, to)

    def pack_words(
        self, along: LoopVar, side: gemm.Side, vectors: int, tile: gemm.Tile, first: Val, width: Val, to: Val
    ) -> None:
        """Packs words of consecutive taps, for so many channels together that these fill whole words."""
        ctx, p, f, lanes = self.ctx, self.p, self.ctx.f, self.tiles.lanes
        windows, codes = p.windows, p.codes
        assert windows is not None
        assert codes is not None
        taps, per = windows.taps, gemm.per_word(f.target)
        together = per // math.gcd(per, len(taps))
        (channel,) = windows.staged.channels or (None,)
        channels: Size = 1 if channel is None else channel.extent
        zero = [const(I32.vector(lanes), 0)] * (vectors if p.column_sums is not None else 0)
        with self.inside(tile), ctx.values.along(Vector(along, lanes, (None,) * vectors)):
            ctx.levels.bind(along, first)
            with ctx.levels.loop(0, ctx.sizes.of(channels), together, carried=zero) as group:
                rows = [r for c in range(together) for r in self.taps_of(channel, f.add(group.index, c), c, side)]
                rows += [[self.nothing(side)] * vectors] * (-len(rows) % per)
                place = f.mul(f.mul(f.binary("udiv", group.index, const(I64, together)), len(rows) // per), width)
                sums = list(group.carried)
                for k in range(0, len(rows), per):
                    for copy in range(vectors):
                        word = gemm.words_of(f, [row[copy] for row in rows[k : k + per]], side)
                        f.store(word, to, f.add(place, f.add(f.mul(width, k // per), copy * lanes)))
                        if sums:
                            one = f.splat(gemm.ones(f.target), lanes)
                            sums[copy] = gemm.multiply_add_words(f, one, word, sums[copy], codes.a.unsigned)
                group.next(sums)
            for copy, total in enumerate(group.results):
                assert p.column_sums is not None
                f.store(total, ctx.memory.base(p.column_sums), f.add(first, copy * lanes))

    def nothing(self, side: gemm.Side) -> Val:
        """Bytes that are multiplied as 0."""
        return const(I8.vector(self.tiles.lanes), gemm.SIGN if side.flips else 0)

    def taps_of(self, channel: LoopVar | None, index: Val, ahead: int, side: gemm.Side) -> list[list[Val]]:
        """The bytes of each tap of a channel; 0 of one past the last, which only the first of a group cannot be."""
        ctx, f, windows = self.ctx, self.ctx.f, self.p.windows
        assert windows is not None
        lanes, taps, copies = self.tiles.lanes, windows.taps, ctx.values.copies
        if channel is None and ahead:
            return [[self.nothing(side)] * len(copies)] * len(taps)
        inside = None
        with ctx.levels.inner():
            if channel is not None:
                together = gemm.per_word(f.target) // math.gcd(gemm.per_word(f.target), len(taps))
                if ahead and not (isinstance(channel.extent, int) and channel.extent % together == 0):
                    last = f.sub(ctx.sizes.of(channel.extent), 1)
                    inside = f.compare("le", index, last)
                    index = f.smin(index, last)
                ctx.levels.bind(channel, index)
            rows = [[f.splat(ctx.values.of(tap, copy), lanes) for copy in copies] for tap in taps]
        if inside is None:
            return rows
        return [[f.select(inside, byte, self.nothing(side)) for byte in row] for row in rows]

    def segments(
        self, f: FunctionBuilder, tile: gemm.Tile, column: Val, mask: Val | None, emit: Callable[[Val | None], None]
    ) -> None:
        """Loops over the rows of results that a vector of places overlaps."""
        ctx, p, lanes = self.ctx, self.p, self.tiles.lanes
        assert p.windows is not None
        across, along = p.windows.staged.moving
        pitch, width = ctx.sizes.of(p.windows.staged.pitches[0]), ctx.sizes.of(along.position.extent)
        first = f.binary("udiv", column, pitch)
        last = f.binary("udiv", f.add(column, lanes - 1), pitch)
        end = f.smin(f.add(last, 1), ctx.sizes.of(across.position.extent))
        with f.for_range(first, end) as loop:
            begin = f.sub(column, f.mul(loop.index, pitch))
            places = f.add(f.iota(I64, lanes), begin)
            inside = f.compare("lt", places, width, unsigned=True)
            self.segment = loop.index, begin
            emit(inside if mask is None else f.and_(inside, mask))

    def pack(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
        """Packs one panel of a computed operand: for every value of the summed variables, two vectors of columns."""
        ctx, p, lanes = self.ctx, self.p, self.tiles.lanes
        assert p.computed is not None
        node = p.computed

        def body() -> None:
            step = const(I64, 0)
            for v in p.over:
                step = f.add(f.mul(step, ctx.sizes.of(v.extent)), ctx.levels.indices[v])
            place = f.mul(step, width)
            for copy in range(self.tiles.vectors):
                f.store(f.splat(ctx.values.of(node, copy), lanes), to, f.add(place, copy * lanes))

        with self.inside(tile):
            ctx.levels.bind(p.n, first)
            masks = tuple(f.tail_mask(count, lanes, copy * lanes) for copy in range(self.tiles.vectors))
            with ctx.values.along(Vector(p.n, lanes, masks)):
                nest(ctx, p.over, body)

    def gather(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, pitch: Val, to: Val) -> None:
        """Computes rows of a, one after the other, in vectors along the variable in which they are contiguous."""
        ctx, p, lanes = self.ctx, self.p, self.tiles.lanes
        node = p.gathered
        assert node is not None

        *taps, along = p.over
        bounds = tap_bounds([node], taps, along) if are_few(taps) else set()
        element, per = self.element, 1
        if p.codes is not None:  # rows of bytes, or of what they are widened to, are words as they lie
            per = gemm.per_word(f.target)
            element, lanes = (I8 if per == 4 else I16), lanes * per
            ctx = replace(ctx, lanes=lanes)

        def body() -> None:
            step = const(I64, 0)
            for v in p.over:
                step = f.add(f.mul(step, ctx.sizes.of(v.extent)), ctx.levels.indices[v])
            for copy in range(len(ctx.values.copies)):
                at = f.gep(place, f.add(step, copy * lanes), element)
                value = f.splat(ctx.values.of(node, copy), lanes)
                f.store(value if p.codes is None else gemm.digits(f, value, p.codes.a), at)

        with self.inside(tile), ctx.levels.loop(0, count, 1) as iteration:
            place = f.gep(to, f.mul(iteration.index, pitch), self.element)
            self.bind_row(f.add(first, iteration.index))
            if not bounds:
                nest(ctx, p.over, body, vector=along, tiers=(4, 1))
                return
            inside = all_inside(ctx, taps, bounds)
            with ctx.levels.when(inside), ctx.values.held(bounds):
                for _ in at_taps(ctx, taps):
                    nest(ctx, [along], body, vector=along, tiers=(4, 1))
            with ctx.levels.when(f.not_(inside)):
                nest(ctx, p.over, body, vector=along, tiers=(4, 1))

    @property
    def vectors_of_rows(self) -> int:
        """Vectors that hold the rows of a tile."""
        return -(-self.tiles.rows // self.tiles.lanes)

    def pack_places(self, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
        """Packs rows of a that are places of the copy of windows: of every channel and tap a vector of places, past the last one too."""
        self._pack_taps(tile, self.p.m, first, width, to, self.vectors_of_rows)

    @contextmanager
    def at_row(self, row: Val) -> Iterator[None]:
        """Code of the epilogue for one row; for none that is a place without a result."""
        ctx, p, f = self.ctx, self.p, self.ctx.f
        if p.windows is None or p.gathered is None or len(p.windows.staged.moving) == 1:
            if p.rows:
                self.bind_row(row)
            else:
                ctx.levels.bind(p.m, row)
            yield
            return
        across, along = p.windows.staged.moving
        pitch = ctx.sizes.of(p.windows.staged.pitches[0])
        quotient = f.binary("udiv", row, pitch)
        position = f.sub(row, f.mul(quotient, pitch))
        is_result = f.compare("lt", position, ctx.sizes.of(along.position.extent))
        with ctx.levels.when(is_result):
            ctx.levels.bind(across.position, quotient)
            ctx.levels.bind(along.position, position)
            yield

    def bind_row(self, row: Val) -> None:
        """Binds the variables that the rows of a gathered operand count."""
        ctx, f = self.ctx, self.ctx.f
        for v in reversed(self.p.rows[1:]):
            size = ctx.sizes.of(v.extent)
            quotient = f.binary("udiv", row, size)
            ctx.levels.bind(v, f.sub(row, f.mul(quotient, size)))
            row = quotient
        ctx.levels.bind(self.p.rows[0], row)

    # the epilogue

    def columns(self, f: FunctionBuilder, tile: gemm.Tile, column: Val, masks: gemm.Masks) -> gemm.RowBody:
        ctx, p = self.ctx, self.p
        self.open.enter_context(self.inside(tile))
        along = p.n
        if self.segment is not None and p.windows is not None:
            across, along = (m.position for m in p.windows.staged.moving)
            row, column = self.segment
            ctx.levels.bind(across, row)
        ctx.levels.bind(along, column)
        self.open.enter_context(ctx.values.along(Vector(along, self.tiles.lanes, masks)))
        self.ahead(len(masks))
        ctx.levels.close()
        return self.row

    def ahead(self, copies: int) -> None:
        """Emits values and addresses that do not depend on the row."""
        ctx, p = self.ctx, self.p
        late: set[DagNode] = set()
        rows = p.rows or (p.m,)
        for n in below(p.stores, stop=p.sum):
            if n is p.sum or not n.domain.isdisjoint(rows) or any(a in late for a in n.inputs):
                late.add(n)
                if isinstance(n, Load):
                    ctx.values.pointer(n.access.tensor, n.access.address)
            else:
                for copy in range(copies):
                    ctx.values.of(n, copy)
        for s in p.stores:
            ctx.values.pointer(s.access.tensor, s.access.address)

    def row(self, f: FunctionBuilder, row: Val, sums: Sequence[Val]) -> None:
        ctx, p = self.ctx, self.p
        with self.open.pop_all(), ctx.levels.inner(), self.at_row(row):
            for copy, vector in enumerate(sums):
                ctx.levels.define(p.sum, copy, vector)
            for s in p.stores:
                for copy in range(len(sums)):
                    ctx.values.store(s.access, ctx.values.of(s.value, copy), copy)


def prepack(p: Product, array: NDArray[Any], target: Target) -> Packed:
    """Packs a constant operand as panels, in the layout that the emitted strides expect."""
    assert p.packed is not None
    own = _packed_batch(p)
    summed = p.over or (p.k,)
    order: list[LoopVar] = [*own, *summed, p.n]
    extents = tuple(_number(v.extent) for v in order)
    shape = (*extents[: len(own)], _number(p.k.extent), extents[-1])
    steps = tuple(_number(p.b.address.coefficient(v)) for v in order)
    offset = _number(p.b.address.offset)
    tiles = gemm.tiles_for(target, elementwise.register_type(p.sum.dtype))

    def pack(constant: NDArray[Any]) -> NDArray[Any]:
        view = _strided(constant, extents, steps, offset).reshape(shape)
        if p.codes is not None:
            return gemm.prepack_codes(view, tiles, p.codes.b, gemm.per_word(target))
        packed: NDArray[Any] = gemm.prepack_b(view, tiles, lambda b: gemm.packer_of(b.dtype, tiles, target))
        return packed

    return Packed(p.packed, f"panels {tiles.columns}", pack(array), pack)


def pack_sums(sums: ConstantSums, array: NDArray[Any]) -> Packed:
    """Sums of a constant's values as they are multiplied, for every value of the variables that it varies with."""
    order = (*sums.variables, *sums.summed)
    extents = tuple(_number(v.extent) for v in order)
    steps = tuple(_number(sums.of.address.coefficient(v)) for v in order)
    offset = _number(sums.of.address.offset)
    axes = tuple(range(len(sums.variables), len(order)))
    count = math.prod(extents[len(sums.variables) :])
    shift = 0 if not sums.side.flips else 128 if sums.side.unsigned else -128

    def pack(constant: NDArray[Any]) -> NDArray[Any]:
        total = _strided(constant, extents, steps, offset).sum(axes, dtype=np.int64) + shift * count
        return np.asarray(total).astype(np.int32)  # which wraps around

    return Packed(sums.of.tensor, f"sums over {axes}", pack(array), pack)


def _strided(constant: NDArray[Any], extents: tuple[int, ...], steps: tuple[int, ...], offset: int) -> NDArray[Any]:
    """The elements of a constant from one on, in the order of some loops."""
    flat = np.ascontiguousarray(constant).reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, extents, [n * flat.itemsize for n in steps])


def _steps(p: Product, target: Target) -> Size:
    """The length of the sums as the micro-kernels count it: of bytes, words."""
    per = 1 if p.codes is None else gemm.per_word(target)
    return p.k.extent if per == 1 else (p.k.extent + (per - 1)) // per


def _packed_batch(p: Product) -> list[LoopVar]:
    """The variables that a constant operand has panels for each value of."""
    return [v for v in (*p.around, *p.batch) if p.b.address.coefficient(v) != 0]


def _number(size: Size) -> int:
    """A dim of a constant."""
    if not isinstance(size, int):
        raise TypeError(f"the dims of a constant are numbers, got {size}")
    return size
