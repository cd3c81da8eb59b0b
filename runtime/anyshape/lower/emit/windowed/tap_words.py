"""Sums of products of bytes over taps, several taps in a word: what a place sees is interleaved to words, which are multiplied at once.

In: a scope with such a sum over taps, and a kind of words. Out: its loops. Factors become words ahead of all loops, in scratch, where it
turns out whether words hold them; if not, the sum is computed as any other. Where a window moves by less than it is wide, neighbouring
places read what they see from the same words, with factors that are as much further on in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter

from anyshape import dtypes
from anyshape.equations import Tensor
from anyshape.lower.analyse.byte_products import ByteProduct
from anyshape.lower.emit.loops.nest import VectorLoop, nest, nest_carrying, tiers_that_run
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.windowed.tap_positions import all_inside, at_taps, prefetch_places, tap_numbers
from anyshape.lower.emit.windowed.windows import over_planes
from anyshape.lower.emit.windowed.word_kinds import WordKind
from anyshape.lower.ir.dag import IndexBound, LoopVar, Reduction
from anyshape.lower.llvm.types import I8, I32, I64, Val, const

Tap = tuple[int, ...]
IN_LINE = 4
"""Taps of a line, and of what places that share it see more, at most."""


@dataclass(frozen=True, slots=True)
class TapWords:
    """The taps of each word (None: no tap), and how many places, each `step` taps after the one before it (0: otherwise), read all they see
    from them."""

    taps: tuple[tuple[Tap | None, ...], ...]
    places: int
    step: int

    @property
    def further(self) -> int:
        """How many taps after the first place the last one is."""
        return (self.places - 1) * self.step


def tap_words(variables: Sequence[LoopVar], step: int, per: int) -> TapWords:
    """Words of a line of taps, if several places have these in common; else of any taps."""
    along = variables[-1].extent
    assert isinstance(along, int)
    places = (IN_LINE - along) // step + 1 if step and along <= IN_LINE else 1
    if places == 1:
        return TapWords(_grouped(tap_numbers(variables), per), 1, step)
    seen = range(along + (places - 1) * step)
    lines = tap_numbers(variables[:-1])
    return TapWords(tuple(word for line in lines for word in _grouped([(*line, k) for k in seen], per)), places, step)


def _grouped(taps: Sequence[Tap], per: int) -> tuple[tuple[Tap | None, ...], ...]:
    groups = [taps[k : k + per] for k in range(0, len(taps), per)]
    return tuple((*group, *[None] * (per - len(group))) for group in groups)


@dataclass(frozen=True, kw_only=True)
class WordSums:
    """The sums of a scope over `outer`, `place` and `channels`; `store` stores those of the place that is bound."""

    ctx: KernelContext
    red: Reduction
    product: ByteProduct
    kind: WordKind
    bounds: set[IndexBound]
    outer: Sequence[LoopVar]
    place: LoopVar
    channels: LoopVar
    words: TapWords
    store: Callable[[Sequence[Val]], None]

    def emit(self, otherwise: Callable[[], None]) -> None:
        """Emits the scope; `otherwise` emits it for factors that words do not hold."""
        ctx, along = self.ctx, self.channels
        tiers = tiers_that_run(along.extent, self.kind.tiers, ctx.lanes)
        beyond = self.pack()

        def by_words() -> None:
            over_planes(
                ctx,
                self.outer,
                lambda own: nest(ctx, [along], partial(self.places, own[self.place]), vector=VectorLoop(along, tiers)),
                self.place,
            )

        if beyond.number == 0:
            by_words()
            return
        fit = ctx.f.compare("eq", beyond, 0)
        with ctx.levels.when(fit, certain=True):
            by_words()
        with ctx.levels.when(ctx.f.not_(fit), certain=True):
            otherwise()

    # factors

    @cached_property
    def scratch(self) -> Tensor:
        """Scratch that has, for each vector of channels, what its sums begin with, and its words for each place."""
        lanes = self.ctx.lanes
        vectors = (self.channels.extent + (lanes - 1)) // lanes
        return self.ctx.memory.reserve(dtypes.I32, vectors * (self.stored * lanes))

    @cached_property
    def point(self) -> Val:
        """The zero point of what is multiplied, which is emitted ahead of all loops."""
        return self.kind.point(self.ctx, self.product)

    @property
    def stored(self) -> int:
        """Vectors that are stored for one of channels."""
        return 1 + self.words.places * len(self.words.taps)

    def number_of(self, place: int, word: int) -> int:
        """The number of the stored vector for a word at a place."""
        return 1 + place * len(self.words.taps) + word

    def address(self, copy: int, number: int) -> Val:
        """The address of a stored vector."""
        ctx, f = self.ctx, self.ctx.f
        first = f.gep(ctx.memory.base(self.scratch), f.mul(ctx.levels.indices[self.channels], self.stored), I32)
        return f.gep(first, (copy * self.stored + number) * ctx.lanes, I32)

    def pack(self) -> Val:
        """Stores the factors as words; returns a number that is 0 if these hold all of them."""
        ctx, f, lanes, kind = self.ctx, self.ctx.f, self.ctx.lanes, self.kind
        zeros, point = const(I32.vector(lanes), 0), self.point
        ahead: list[Val] = []

        def vector(sums: list[list[Val]]) -> list[list[Val]]:
            ((beyond,),), total, factors = sums, zeros, dict[Tap, Val]()
            for tap in at_taps(ctx, self.red.variables):
                factor = f.splat(ctx.values.of(self.product.factor), lanes)
                mask = ctx.values.mask(0)
                factors[tap] = factor = factor if mask is None else f.select(mask, factor, zeros)
                ahead.append(kind.beyond(f, factor))
                total, beyond = f.add(total, factor), f.or_(beyond, ahead[-1])
            f.store(kind.start(f, total, point), self.address(0, 0))
            for place in range(self.words.places):
                for word, taps in enumerate(self.words.taps):
                    moved = [None if t is None else (*t[:-1], t[-1] - place * self.words.step) for t in taps]
                    f.store(self.word(moved, factors), self.address(0, self.number_of(place, word)))
            return [[beyond]]

        ((beyond,),) = nest_carrying(ctx, [self.channels], [[zeros]], vector, vector=VectorLoop(self.channels, (1,)))
        return const(I32, 0) if all(b.number == 0 for b in ahead) else f.reduce("or", beyond)

    def word(self, taps: Sequence[Tap | None], factors: dict[Tap, Val]) -> Val:
        """The word of the factors of some taps; 0 is that of others."""
        f, bits = self.ctx.f, 32 // self.kind.per
        word = const(I32.vector(self.ctx.lanes), 0)
        for at, tap in enumerate(taps):
            if tap in factors:
                word = f.or_(word, f.shl(f.and_(factors[tap], (1 << bits) - 1), bits * at))
        return word

    # places

    def places(self, own: Range) -> None:
        """Emits a range of places for the channels of the vector."""
        ctx, f, levels, words = self.ctx, self.ctx.f, self.ctx.levels, self.words
        first, stop = own
        type_, copies = I32.vector(ctx.lanes), ctx.values.copies
        known = [[f.load(self.address(copy, k), type_) for copy in copies] for k in range(self.stored)]
        with levels.loop(first, stop, words.places) as iteration:
            index = iteration.index
            with self.at(index):
                inside = all_inside(ctx, self.red.variables, self.bounds, words.further)
            end = f.add(index, words.places)
            whole = inside if words.places == 1 else f.and_(f.compare("le", end, stop), inside)
            with levels.when(whole, certain=True):
                self.together(index, known, words.places)
            with levels.when(f.not_(whole), certain=True):
                if words.places == 1:
                    self.together(index, known, 1, tested=True)
                else:
                    with levels.loop(index, f.smin(end, stop), 1) as each:
                        self.together(each.index, known, 1, tested=True)

    @contextmanager
    def at(self, index: Val, tap: Tap = ()) -> Iterator[None]:
        """Code for a place, and a tap."""
        levels = self.ctx.levels
        with levels.section():
            levels.bind(self.place, index)
            for v, k in zip(self.red.variables, tap):
                levels.bind(v, const(I64, k))
            yield

    def together(self, index: Val, known: Sequence[Sequence[Val]], places: int, tested: bool = False) -> None:
        """Emits so many places from an index on, with the vectors that are stored; `tested`: at an edge."""
        ctx, f = self.ctx, self.ctx.f
        totals = [[*known[0]] for _ in range(places)]
        for word, taps in enumerate(self.words.taps):
            rows = [self.seen(index, tap, tested) for tap in taps]
            for copy, seen in enumerate(self.kind.words(f, rows, ctx.lanes)):
                for j, total in enumerate(totals):
                    factor = known[self.number_of(j, word)][copy]
                    total[copy] = self.kind.multiply_add(f, total[copy], seen, factor)
        for j, total in enumerate(totals):
            with self.at(f.add(index, j)):
                self.store(total)

    def seen(self, index: Val, tap: Tap | None, tested: bool) -> Val:
        """What is multiplied at a tap of a place; zeros where the place has no factor for it."""
        ctx, f, access = self.ctx, self.ctx.f, self.product.byte.access
        type_ = I8.vector(ctx.lanes * len(ctx.values.copies))
        along = self.red.variables[-1].extent
        assert isinstance(along, int)
        if tap is None or (tested and tap[-1] >= along):
            return self.kind.nothing(type_.lanes)
        with self.at(index, tap):
            pointer = ctx.values.pointer(access.tensor, access.address)
            if not tested and tap[-1] >= along - max(self.words.step, 1):
                prefetch_places(ctx, pointer, access, self.place)
            inside = ctx.values.inside(sorted(access.bounds, key=attrgetter("order")), 0) if tested else None
            if inside is not None:
                pointer = f.select(inside, pointer, self.pad())
            mask = ctx.values.mask(0)
            raw = f.load(pointer, type_) if mask is None else f.masked_load(pointer, type_, mask)
        return self.kind.seen(f, raw, self.product, self.point)

    def pad(self) -> Val:
        """The address of a vector of what is outside."""
        ctx, f, outside = self.ctx, self.ctx.f, self.product.outside
        key = "pad of taps", outside
        known = ctx.levels.find(key)
        if known is None:
            with ctx.levels.at(0 if outside is None else ctx.levels.depth(outside)):
                value = const(I8, 0) if outside is None else ctx.values.of(outside)
                count = f.target.vector_bytes
                known = ctx.levels.remember(key, f.alloca(I8, count))
                f.store(f.splat(value, count), known)
        return known
