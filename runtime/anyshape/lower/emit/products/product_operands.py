"""Operands of products that do not lie in memory: columns and rows that are computed, gathered, or read by taps from a copy of windows.

In: a product. Out: what the template of products calls to fill its panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower import gemm
from anyshape.lower.analyse.windows import Windows
from anyshape.lower.emit.loops.nest import VectorLoop, nest
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.vector import Vector, VectorPlace
from anyshape.lower.emit.windowed.copies import fill
from anyshape.lower.emit.windowed.tap_positions import all_inside, are_few, at_taps, tap_bounds
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, walk
from anyshape.lower.ir.stores import Store
from anyshape.lower.llvm import half
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.target_probe import prefetches_streams
from anyshape.lower.llvm.types import F32, I1, I8, I16, I32, I64, Type, Val, const
from anyshape.lower.schedule.products import ComputedColumns, GatheredRows, Product, WindowColumns, WindowRows


@contextmanager
def in_batch(ctx: KernelContext, p: Product, tile: gemm.Tile) -> Iterator[None]:
    """Code of the template, in which a batch is open."""
    with ctx.levels.inner():
        for v, index in zip(p.batch, tile.batch, strict=True):
            ctx.levels.bind(v, index)
        yield


def bind_row(ctx: KernelContext, rows: Sequence[LoopVar], row: Val) -> None:
    """Binds the variables that the rows of a gathered operand count."""
    for v in reversed(rows[1:]):
        size = ctx.sizes.of(v.extent)
        quotient = ctx.f.binary("udiv", row, size)
        ctx.levels.bind(v, ctx.f.sub(row, ctx.f.mul(quotient, size)))
        row = quotient
    ctx.levels.bind(rows[0], row)


@dataclass(frozen=True, slots=True)
class _WindowVectors:
    """Number of vectors of places of a copy of windows, along the variable that counts these."""

    windows: Windows[DagNode]
    along: LoopVar
    vectors: int


@dataclass(frozen=True, slots=True)
class _WordsOf:
    """Words of elements of consecutive k: `join` makes them of a vector of each, `nothing` is multiplied as 0."""

    nothing: Val
    join: Callable[[FunctionBuilder, list[Val]], Val]


def _words_of_bytes(lanes: int, side: gemm.Side) -> _WordsOf:
    nothing = const(I8.vector(lanes), gemm.SIGN if side.flips else 0)
    return _WordsOf(nothing, lambda f, rows: gemm.words_of(f, rows, side))


def _words_of_pairs(lanes: int, element: Type) -> _WordsOf:
    return _WordsOf(const(F32.vector(lanes), 0), lambda f, rows: gemm.pair_words(f, rows[0], rows[1], element))


PANELS_AHEAD = 4
"""The most panels of a batch of which the next is prefetched"""


class OperandCode:
    """Emits the code that packs the operands of a product."""

    def __init__(self, ctx: KernelContext, p: Product) -> None:
        self.ctx, self.p = ctx, p
        self.element = elementwise.register_type(p.sum.dtype)
        self.tiles = gemm.tiles_for(ctx.f.target, self.element)
        self.per = 1 if p.words is None else p.words.per(ctx.f.target)
        """Elements of a word."""
        self.pairs = p.words if isinstance(p.words, gemm.Pairs) else None

    def columns(self, b: ComputedColumns | WindowColumns) -> gemm.Packed:
        """Returns how the template packs columns."""
        if isinstance(b, ComputedColumns):
            return gemm.Packed(partial(self._pack, b))
        places, codes = _WindowVectors(b.windows, self.p.n, self.tiles.vectors), self.p.codes
        return gemm.Packed(
            self._of_taps(places, None if codes is None else codes.b, b.sums), partial(self._stage, b.windows)
        )

    def rows(self, a: GatheredRows | WindowRows) -> gemm.Packed | gemm.Gathered:
        """Returns how the template packs or gathers rows."""
        if isinstance(a, GatheredRows):
            return gemm.Gathered(partial(self._gather, a))
        places, codes = _WindowVectors(a.windows, self.p.m, -(-self.tiles.rows // self.tiles.lanes)), self.p.codes
        return gemm.Packed(
            self._of_taps(places, None if codes is None else codes.a, None), partial(self._stage, a.windows)
        )

    def byte(self, value: DagNode) -> Val:
        """A byte that varies with nothing, as words have it."""
        assert self.p.codes is not None
        return gemm.digits(self.ctx.f, self.ctx.values.of(value, 0), self.p.codes.a)

    def fill(self, store: Store, f: FunctionBuilder, tile: gemm.Tile) -> None:
        """Stores what rows are read from in place."""
        ctx = self.ctx
        (v,) = store.variables

        def body() -> None:
            for copy in range(len(ctx.values.copies)):
                ctx.values.store(store.access, ctx.values.of(store.value, copy), copy)

        with in_batch(ctx, self.p, tile):
            nest(ctx, [v], body, vector=VectorLoop(v, (4, 1)))

    def _of_taps(self, places: _WindowVectors, side: gemm.Side | None, total: Tensor | None) -> gemm.Packer:
        """Returns how places of a copy of windows are packed. `side`: what their bytes are, if they are bytes; their sums go to `total`."""
        if side is not None:
            return partial(self._pack_words, places, _words_of_bytes(self.tiles.lanes, side), total)
        if self.pairs is not None and self.per == 2:
            return partial(self._pack_words, places, _words_of_pairs(self.tiles.lanes, self.pairs.element), None)
        return partial(self._pack_taps, places)

    def _stage(self, windows: Windows[DagNode], f: FunctionBuilder, tile: gemm.Tile) -> None:
        """Fills the copy of the windows, once a batch."""
        with in_batch(self.ctx, self.p, tile):
            fill(self.ctx, windows.staged)

    def _pack_taps(
        self, places: _WindowVectors, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val
    ) -> None:
        """Packs vectors of places of the copy of windows, for every channel and tap, past the last place too."""
        ctx, lanes, windows, vectors = self.ctx, self.tiles.lanes, places.windows, places.vectors

        def body() -> None:
            step = const(I64, 0)
            for v in windows.staged.channels:
                step = f.add(f.mul(step, ctx.sizes.of(v.extent)), ctx.levels.indices[v])
            place = f.gep(to, f.mul(f.mul(step, len(windows.taps)), width), self.element)
            for k, tap in enumerate(windows.taps):
                for copy in range(vectors):
                    at = f.add(f.mul(width, k), copy * lanes)
                    f.store(self._as_packed(f.splat(ctx.values.of(tap, copy), lanes)), place, at)

        with in_batch(ctx, self.p, tile):
            self._for_places(places, first, lambda: nest(ctx, windows.staged.channels, body))

    def _for_places(self, places: _WindowVectors, first: Val, body: Callable[[], None]) -> None:
        """Emits `body` for vectors of places from the one with this number on: where results are counted, once for vectors of which each is
        in one row, and once for those that go on in the next."""
        ctx, f, lanes, masks = self.ctx, self.ctx.f, self.tiles.lanes, (None,) * places.vectors
        staged = places.windows.staged
        if len(staged.moving) == 1 or staged.result_pitches[0] == staged.pitches[0]:
            with ctx.values.along(Vector(places.along, lanes, masks)):
                ctx.levels.bind(places.along, first)
                body()
            return
        line, last = ctx.sizes.of(staged.result_pitches[0]), f.sub(ctx.sizes.of(places.along.extent), 1)
        gap = f.sub(ctx.sizes.of(staged.pitches[0]), line)
        base, lying, crosses = first, list[VectorPlace](), const(I1, 0)
        for copy in range(places.vectors):
            number = f.smin(f.add(first, copy * lanes), last)
            row = f.binary("udiv", number, line)
            left = f.sub(line, f.sub(number, f.mul(row, line)))
            place = f.add(number, f.mul(row, gap))
            base = base if copy else place
            lying.append(VectorPlace(f.sub(place, base), gap, f.compare("ge", f.iota(I64, lanes), left)))
            crosses = f.or_(crosses, f.compare("lt", left, lanes))
        crosses = f.and_(crosses, f.compare("ne", gap, 0))
        whole = [replace(place, following=None) for place in lying]
        for holds, each in ((crosses, lying), (f.not_(crosses), whole)):
            vector = Vector(places.along, lanes, masks, tuple(each))
            with ctx.levels.when(holds, certain=True), ctx.values.along(vector):
                ctx.levels.bind(places.along, base)
                body()

    def _pack_words(
        self, places: _WindowVectors, of: _WordsOf, total: Tensor | None,
        f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val,
    ) -> None:  # fmt: skip
        """Packs words of consecutive taps, for so many channels together that these fill whole words, and the sums of bytes into
        `total`."""
        with in_batch(self.ctx, self.p, tile):
            self._for_places(places, first, partial(self._pack_words_of_channels, places, of, total, first, width, to))

    def _pack_words_of_channels(
        self, places: _WindowVectors, of: _WordsOf, total: Tensor | None, first: Val, width: Val, to: Val
    ) -> None:
        ctx, f, lanes, windows, vectors = self.ctx, self.ctx.f, self.tiles.lanes, places.windows, places.vectors
        taps, per, codes = windows.taps, self.per, self.p.codes
        together = per // math.gcd(per, len(taps))
        (channel,) = windows.staged.channels or (None,)
        channels: Size = 1 if channel is None else channel.extent
        zero = [const(I32.vector(lanes), 0)] * (vectors if total is not None else 0)
        with ctx.levels.loop(0, ctx.sizes.of(channels), together, carried=zero) as group:
            rows = [
                r
                for c in range(together)
                for r in self._taps_of(windows, channel, f.add(group.index, c), c, of.nothing)
            ]
            rows += [[of.nothing] * vectors] * (-len(rows) % per)
            place = f.mul(f.mul(f.binary("udiv", group.index, const(I64, together)), len(rows) // per), width)
            sums = list(group.carried)
            for k in range(0, len(rows), per):
                for copy in range(vectors):
                    word = of.join(f, [row[copy] for row in rows[k : k + per]])
                    f.store(word, to, f.add(place, f.add(f.mul(width, k // per), copy * lanes)))
                    if sums and codes is not None:
                        one = f.splat(gemm.ones(f.target), lanes)
                        sums[copy] = gemm.multiply_add_words(f, one, word, sums[copy], codes.a.unsigned)
            group.next(sums)
        if total is not None:
            for copy, result in enumerate(group.results):
                f.store(result, ctx.memory.base(total), f.add(first, copy * lanes))

    def _taps_of(
        self, windows: Windows[DagNode], channel: LoopVar | None, index: Val, ahead: int, nothing: Val
    ) -> list[list[Val]]:
        """The elements of each tap of a channel; 0 of one past the last, which only the first of a group cannot be."""
        ctx, f = self.ctx, self.ctx.f
        lanes, taps, copies = self.tiles.lanes, windows.taps, ctx.values.copies
        if channel is None and ahead:
            return [[nothing] * len(copies)] * len(taps)
        inside = None
        with ctx.levels.inner():
            if channel is not None:
                together = self.per // math.gcd(self.per, len(taps))
                if ahead and not (isinstance(channel.extent, int) and channel.extent % together == 0):
                    last = f.sub(ctx.sizes.of(channel.extent), 1)
                    inside = f.compare("le", index, last)
                    index = f.smin(index, last)
                ctx.levels.bind(channel, index)
            rows = [[f.splat(ctx.values.of(tap, copy), lanes) for copy in copies] for tap in taps]
        if inside is None:
            return rows
        return [[f.select(inside, element, nothing) for element in row] for row in rows]

    def _pack(
        self, b: ComputedColumns, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val
    ) -> None:
        """Packs one panel of columns: for every value of the summed variables, two vectors of them."""
        ctx, p, lanes = self.ctx, self.p, self.tiles.lanes

        def body() -> None:
            step = const(I64, 0)
            for v in b.over:
                step = f.add(f.mul(step, ctx.sizes.of(v.extent)), ctx.levels.indices[v])
            place = f.mul(step if self.per == 1 else f.lshr(step, 1), width)
            for copy in range(self.tiles.vectors):
                value, at = f.splat(ctx.values.of(b.value, copy), lanes), f.add(place, copy * lanes)
                if self.per == 1:
                    f.store(self._as_packed(value), to, at)
                else:
                    self._put_half(value, step, f.gep(to, at, I32))

        masks: tuple[Val | None, ...] = (None,) * self.tiles.vectors
        if not self._are_whole_panels():
            masks = tuple(f.tail_mask(count, lanes, copy * lanes) for copy in range(self.tiles.vectors))
        if prefetches_streams(f.target) and tile.batch and self._are_few_panels():
            self._prefetch_panel(b, replace(tile, batch=(*tile.batch[:-1], f.add(tile.batch[-1], 1))), first, masks)
        with in_batch(ctx, p, tile):
            ctx.levels.bind(p.n, first)
            with ctx.values.along(Vector(p.n, lanes, masks)):
                nest(ctx, b.over, body)

    def _are_whole_panels(self) -> bool:
        """Whether all panels are known to have all columns: loads of bytes with masks take several instructions each."""
        return isinstance(self.p.n.extent, int) and self.p.n.extent % self.tiles.columns == 0

    def _are_few_panels(self) -> bool:
        """Whether the next batch is so near that what is prefetched of it is still in the caches."""
        return isinstance(self.p.n.extent, int) and self.p.n.extent <= PANELS_AHEAD * self.tiles.columns

    def _prefetch_panel(self, b: ComputedColumns, tile: gemm.Tile, first: Val, masks: Sequence[Val | None]) -> None:
        """Prefetches what columns of the next batch are computed of, so that it comes from memory while those of this one are packed and
        multiplied: lines, once for each value of the variables that they depend on."""
        ctx, p, f = self.ctx, self.p, self.ctx.f
        with in_batch(ctx, p, tile):
            ctx.levels.bind(p.n, first)
            with ctx.values.along(Vector(p.n, self.tiles.lanes, tuple(masks))):
                for access in dict.fromkeys(n.access for n in walk([b.value]) if isinstance(n, Load)):
                    if access.address.lets or not access.domain & {*p.batch}:
                        continue
                    element = elementwise.memory_type(access.tensor.dtype)

                    def body(access: Access = access, element: Type = element) -> None:
                        pointer = ctx.values.pointer(access.tensor, access.address)
                        for at in range(0, self.tiles.columns, max(1, f.target.line_bytes // element.bytes)):
                            f.prefetch(f.gep(pointer, at, element), False)

                    nest(ctx, [v for v in b.over if v in access.domain], body)

    def _as_packed(self, value: Val) -> Val:
        """An element as a word of its own has it."""
        return value if self.pairs is None else half.through(self.ctx.f, value, self.pairs.element)

    def _put_half(self, value: Val, step: Val, at: Val) -> None:
        """Stores elements of a step of k as the halves of words that it is: the first halves, with nothing in the second ones, or these."""
        f, lanes = self.ctx.f, value.type.lanes
        is_second = f.compare("ne", f.and_(step, 1), 0)
        assert self.pairs is not None
        bits = f.convert("zext", half.narrow(f, value, self.pairs.element), I32)
        first = f.select(is_second, f.load(at, I32.vector(lanes)), const(bits.type, 0))
        f.store(f.or_(first, f.select(is_second, f.shl(bits, 16), bits)), at)

    def _gathered(self, values: list[Val], element: Type) -> list[Val]:
        """Vectors of adjacent elements as rows have them: two together where these are narrowed to half their bits."""
        f, p = self.ctx.f, self.p
        if p.codes is not None:
            return [gemm.digits(f, value, p.codes.a) for value in values]
        if self.pairs is None or element is not I16:
            return [self._as_packed(value) for value in values]
        of, whole = self.pairs.element, len(values) & -2
        pairs = [gemm.narrow_pair(f, values[at], values[at + 1], of) for at in range(0, whole, 2)]
        return [*pairs, *(half.narrow(f, value, of) for value in values[whole:])]

    def _gather(
        self, a: GatheredRows, f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, pitch: Val, to: Val
    ) -> None:
        """Computes rows, one after the other, in vectors along the variable in which they are contiguous."""
        ctx, p, lanes = self.ctx, self.p, self.tiles.lanes
        *taps, along = a.over
        bounds = tap_bounds([a.value], taps, along) if are_few(taps) else set()
        element = self.element
        if p.codes is not None:  # rows of bytes, or of what they are widened to, are words as they lie
            element, lanes = (I8 if self.per == 4 else I16), lanes * self.per
            ctx = replace(ctx, lanes=lanes)
        elif self.pairs is not None and self.per == 2:
            element = I16

        def body() -> None:
            step = const(I64, 0)
            for v in a.over:
                step = f.add(f.mul(step, ctx.sizes.of(v.extent)), ctx.levels.indices[v])
            values = [f.splat(ctx.values.of(a.value, copy), lanes) for copy in range(len(ctx.values.copies))]
            for value in self._gathered(values, element):
                f.store(value, f.gep(place, step, element))
                step = f.add(step, value.type.lanes)

        with in_batch(ctx, p, tile), ctx.levels.loop(0, count, 1) as iteration:
            place = f.gep(to, f.mul(iteration.index, pitch), self.element)
            bind_row(ctx, a.rows, f.add(first, iteration.index))
            if not bounds:
                nest(ctx, a.over, body, vector=VectorLoop(along, (4, 1)))
            else:
                inside = all_inside(ctx, taps, bounds)
                with ctx.levels.when(inside), ctx.values.held(bounds):
                    for _ in at_taps(ctx, taps):
                        nest(ctx, [along], body, vector=VectorLoop(along, (4, 1)))
                with ctx.levels.when(f.not_(inside)):
                    nest(ctx, a.over, body, vector=VectorLoop(along, (4, 1)))
            if element is I16 and p.codes is None:  # the second half of a last word
                f.store(const(I16, 0), place, ctx.sizes.of(p.k.extent))
