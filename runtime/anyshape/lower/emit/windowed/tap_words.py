"""Sums of products of bytes over taps, four taps in a word: what a place sees is interleaved to words, which are multiplied at once.

In: a scope with such a sum over taps, on a processor that adds up products of four bytes. Out: its loops. Factors become words ahead of
all loops, in scratch, where it turns out whether they are bytes; if not, the sum is computed as any other.

With x for bytes without a sign and p for their zero point, sum((x - p) * w) is sum(x * w) - p * sum(w), where the last term is the same at
all places: sums begin with it. A byte with a sign has its sign bit flipped, which adds 128, and so has p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from anyshape import dtypes
from anyshape.equations import Tensor
from anyshape.lower.analyse.byte_products import ByteProduct
from anyshape.lower.emit.loops.nest import nest, nest_carrying
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.windowed.tap_positions import all_inside, at_taps, tap_numbers
from anyshape.lower.emit.windowed.windows import over_planes
from anyshape.lower.gemm import add_dot
from anyshape.lower.ir.dag import IndexBound, LoopVar, Reduction
from anyshape.lower.llvm.byte_words import words_of_bytes
from anyshape.lower.llvm.types import I8, I32, I64, Val, const

Tap = tuple[int, ...]
PER_WORD = 4
"""Taps of a word."""
TIERS = (4, 2, 1)
"""Vectors of sums at once: of four the bytes are a vector, too."""
_SIGN = 0x80


@dataclass(frozen=True, slots=True)
class TapWords:
    """The taps of each word (None: no tap), and how many places, each `step` taps after the one before it, read all they see from them."""

    taps: tuple[tuple[Tap | None, ...], ...]
    places: int
    step: int

    @property
    def further(self) -> int:
        """How many taps after the first place the last one is."""
        return (self.places - 1) * self.step


def tap_words(variables: Sequence[LoopVar], step: int) -> TapWords:
    """Words of a line of taps, if several places have these in common; else of any four taps."""
    along = variables[-1].extent
    assert isinstance(along, int)
    places = (PER_WORD - along) // step + 1 if step and along <= PER_WORD else 1
    if places > 1:
        seen = along + (places - 1) * step
        lines = tap_numbers(variables[:-1])
        words = tuple(tuple((*line, k) if k < seen else None for k in range(PER_WORD)) for line in lines)
        return TapWords(words, places, step)
    taps = tap_numbers(variables)
    fours = [taps[k : k + PER_WORD] for k in range(0, len(taps), PER_WORD)]
    return TapWords(tuple((*four, *[None] * (PER_WORD - len(four))) for four in fours), 1, 0)


@dataclass(frozen=True)
class WordSums:
    """The sums of a scope over `outer`, `place` and `channels`; `store` stores those of the place that is bound."""

    ctx: KernelContext
    red: Reduction
    product: ByteProduct
    bounds: set[IndexBound]
    outer: Sequence[LoopVar]
    place: LoopVar
    channels: LoopVar
    words: TapWords
    store: Callable[[Sequence[Val]], None]

    def emit(self, otherwise: Callable[[], None]) -> None:
        """Emits the scope; `otherwise` emits it for factors that are no bytes."""
        ctx = self.ctx
        are_bytes = self.pack()
        with ctx.levels.when(are_bytes, certain=True):
            over_planes(
                ctx, self.outer, lambda: nest(ctx, [self.channels], self.emit_places, vector=self.channels, tiers=TIERS)
            )
        with ctx.levels.when(ctx.f.not_(are_bytes), certain=True):
            otherwise()

    # factors

    @cached_property
    def scratch(self) -> Tensor:
        """For each vector of channels its words, one after the other, and what its sums begin with."""
        lanes = self.ctx.lanes
        vectors = (self.channels.extent + (lanes - 1)) // lanes
        return self.ctx.memory.reserve(dtypes.I32, vectors * (self.stored * lanes))

    @property
    def stored(self) -> int:
        """Vectors that are stored for one of channels."""
        return len(self.words.taps) + 1

    def vector_of(self, copy: int, number: int) -> Val:
        """The address of a stored vector."""
        ctx, f = self.ctx, self.ctx.f
        first = f.gep(ctx.memory.base(self.scratch), f.mul(ctx.levels.indices[self.channels], self.stored), I32)
        return f.gep(first, (copy * self.stored + number) * ctx.lanes, I32)

    def pack(self) -> Val:
        """Stores the factors as words; returns whether all of them are bytes."""
        ctx, f, lanes = self.ctx, self.ctx.f, self.ctx.lanes
        type_ = I32.vector(lanes)
        point = self.point()

        def vector(sums: list[list[Val]]) -> list[list[Val]]:
            beyond, total = sums[0][0], const(type_, 0)
            factors: dict[Tap, Val] = {}
            for tap in at_taps(ctx, self.red.variables):
                factor = f.splat(ctx.values.of(self.product.factor), lanes)
                mask = ctx.values.mask(0)
                factors[tap] = factor = factor if mask is None else f.select(mask, factor, const(type_, 0))
                total, beyond = f.add(total, factor), f.or_(beyond, f.lshr(f.add(factor, _SIGN), 8))
            for number, taps in enumerate(self.words.taps):
                word = const(type_, 0)
                for at, tap in enumerate(taps):
                    if tap in factors:
                        word = f.or_(word, f.shl(f.and_(factors[tap], 0xFF), 8 * at))
                f.store(word, self.vector_of(0, number))
            f.store(f.sub(const(type_, 0), f.mul(total, point)), self.vector_of(0, len(self.words.taps)))
            return [[beyond]]

        start = [[const(type_, 0)]]
        ((beyond,),) = nest_carrying(ctx, [self.channels], start, vector, vector=self.channels, tiers=(1,))
        return f.compare("eq", f.reduce("or", beyond), 0)

    def point(self) -> Val:
        """What is subtracted from each byte as it is multiplied."""
        point = const(I32, 0) if self.product.point is None else self.ctx.values.of(self.product.point)
        return point if self.product.unsigned else self.ctx.f.add(point, _SIGN)

    # places

    def emit_places(self) -> None:
        """Emits all places for the channels of the vector."""
        ctx, f, levels, words = self.ctx, self.ctx.f, self.ctx.levels, self.words
        extent = ctx.sizes.of(self.place.extent)
        factors, starts = self.factors(), self.starts()
        with levels.loop(0, extent, words.places) as iteration:
            index = iteration.index
            with self.at(index):
                inside = all_inside(ctx, self.red.variables, self.bounds, words.further)
            end = f.add(index, words.places)
            whole = inside if words.places == 1 else f.and_(f.compare("le", end, extent), inside)
            with levels.when(whole, certain=True):
                self.emit_together(index, factors, starts, words.places)
            with levels.when(f.not_(whole), certain=True):
                if words.places == 1:
                    self.emit_together(index, factors, starts, 1, tested=True)
                else:
                    with levels.loop(index, f.smin(end, extent), 1) as each:
                        self.emit_together(each.index, factors, starts, 1, tested=True)

    @contextmanager
    def at(self, index: Val, tap: Tap = ()) -> Iterator[None]:
        """Code for a place, and a tap."""
        levels = self.ctx.levels
        with levels.section():
            levels.bind(self.place, index)
            for v, k in zip(self.red.variables, tap):
                levels.bind(v, const(I64, k))
            yield

    def factors(self) -> list[list[list[Val]]]:
        """The words of the factors by place, number and copy."""
        f, type_ = self.ctx.f, I32.vector(self.ctx.lanes)
        numbers, copies = range(len(self.words.taps)), self.ctx.values.copies
        first = [[f.load(self.vector_of(copy, k), type_) for copy in copies] for k in numbers]
        moved = [8 * j * self.words.step for j in range(1, self.words.places)]
        return [first, *([[f.shl(w, bits) for w in word] for word in first] for bits in moved)]

    def starts(self) -> list[Val]:
        number = len(self.words.taps)
        return [
            self.ctx.f.load(self.vector_of(copy, number), I32.vector(self.ctx.lanes)) for copy in self.ctx.values.copies
        ]

    def emit_together(
        self, index: Val, factors: list[list[list[Val]]], starts: Sequence[Val], places: int, tested: bool = False
    ) -> None:
        """Emits so many places from an index on; `tested`: at an edge."""
        ctx, f = self.ctx, self.ctx.f
        totals = [[*starts] for _ in range(places)]
        for number, taps in enumerate(self.words.taps):
            rows = [self.seen(index, tap, tested) for tap in taps]
            words = words_of_bytes(f, rows, ctx.lanes)
            for j, total in enumerate(totals):
                for copy, word in enumerate(words):
                    total[copy] = add_dot(f, total[copy], word, factors[j][number][copy])
        for j, total in enumerate(totals):
            with self.at(f.add(index, j)):
                self.store(total)

    def seen(self, index: Val, tap: Tap | None, tested: bool) -> Val:
        """The bytes that a place sees at a tap, as they are multiplied; zeros where no factor is for the tap."""
        ctx, f, access = self.ctx, self.ctx.f, self.product.byte.access
        type_ = I8.vector(ctx.lanes * len(ctx.values.copies))
        along = self.red.variables[-1].extent
        assert isinstance(along, int)
        if tap is None or (tested and tap[-1] >= along):
            return const(type_, 0)
        with self.at(index, tap):
            pointer = ctx.values.pointer(access.tensor, access.address)
            inside = ctx.values.inside(sorted(access.bounds, key=attrgetter("order")), 0) if tested else None
            if inside is not None:
                pointer = f.select(inside, pointer, self.pad())
            mask = ctx.values.mask(0)
            raw = f.load(pointer, type_) if mask is None else f.masked_load(pointer, type_, mask)
        return raw if self.product.unsigned else f.xor(raw, const(type_, -_SIGN))

    def pad(self) -> Val:
        """The address of a vector of what is outside."""
        ctx, f, outside = self.ctx, self.ctx.f, self.product.outside
        known = ctx.levels.find("pad of taps")
        if known is None:
            with ctx.levels.at(0 if outside is None else ctx.levels.depth(outside)):
                value = const(I8, 0) if outside is None else ctx.values.of(outside)
                count = f.target.vector_bytes
                known = ctx.levels.remember("pad of taps", f.alloca(I8, count))
                f.store(f.splat(value, count), known)
        return known
