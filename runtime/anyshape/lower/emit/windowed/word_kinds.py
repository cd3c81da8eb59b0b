"""Words of taps: what bytes and factors are put together to be multiplied at once, four taps as bytes or two as integers of 16 bits.

In: the bytes that a place sees at each tap, and factors. Out: words of both, and sums of their products.

Bytes of one side are multiplied without a sign, those of the other with one. With x for bytes without a sign and p for their zero point,
sum((x - p) * w) is sum(x * w) - p * sum(w), where the last term is the same at all places: sums begin with it. A byte with a sign has its
sign bit flipped, which adds 128, and so has p. Integers of 16 bits hold a byte less a zero point, so that sums begin with 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from anyshape.lower.analyse.byte_products import ByteProduct
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.gemm import add_dot, multiply_add_words
from anyshape.lower.ir.dag import DagNode
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.byte_words import words_of_bytes, words_of_halves
from anyshape.lower.llvm.types import I8, I16, I32, Val, const

_SIGN = 0x80


class WordKind(Protocol):
    """How many taps a word has, and how many vectors of sums are computed at once, the most first."""

    @property
    def per(self) -> int: ...

    @property
    def tiers(self) -> tuple[int, ...]: ...

    def point(self, ctx: KernelContext, product: ByteProduct) -> Val:
        """The zero point as an integer of 32 bits, as bytes are less it where they are multiplied."""

    def start(self, f: FunctionBuilder, factors: Val, point: Val) -> Val:
        """What sums begin with, of the sum of all factors."""

    def beyond(self, f: FunctionBuilder, factor: Val) -> Val:
        """A number that is not 0 in any lane in which a word does not hold the factor."""

    def seen(self, f: FunctionBuilder, bytes_: Val, product: ByteProduct, point: Val) -> Val:
        """Bytes as they are multiplied."""

    def nothing(self, count: int) -> Val:
        """Returns so many zeros, for a tap that has no factor."""

    def words(self, f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
        """Vectors of words, of what is seen at each tap."""

    def multiply_add(self, f: FunctionBuilder, total: Val, seen: Val, factor: Val) -> Val: ...


@dataclass(frozen=True, slots=True)
class ByteWords:
    """Four taps as bytes."""

    per: int = 4
    tiers: tuple[int, ...] = (4, 2, 1)

    def point(self, ctx: KernelContext, product: ByteProduct) -> Val:
        point = _point(ctx, product.point)
        return point if product.unsigned else ctx.f.add(point, _SIGN)

    def start(self, f: FunctionBuilder, factors: Val, point: Val) -> Val:
        return f.sub(const(factors.type, 0), f.mul(factors, point))

    def beyond(self, f: FunctionBuilder, factor: Val) -> Val:
        return f.lshr(f.add(factor, _SIGN), 8)

    def seen(self, f: FunctionBuilder, bytes_: Val, product: ByteProduct, point: Val) -> Val:
        return bytes_ if product.unsigned else f.xor(bytes_, const(bytes_.type, -_SIGN))

    def nothing(self, count: int) -> Val:
        return const(I8.vector(count), 0)

    def words(self, f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
        return words_of_bytes(f, rows, lanes)

    def multiply_add(self, f: FunctionBuilder, total: Val, seen: Val, factor: Val) -> Val:
        return add_dot(f, total, seen, factor)


@dataclass(frozen=True, slots=True)
class HalfWords:
    """Two taps as integers of 16 bits."""

    per: int = 2
    tiers: tuple[int, ...] = (2, 1)

    def point(self, ctx: KernelContext, product: ByteProduct) -> Val:
        return _point(ctx, product.point)

    def start(self, f: FunctionBuilder, factors: Val, point: Val) -> Val:
        return const(factors.type, 0)

    def beyond(self, f: FunctionBuilder, factor: Val) -> Val:
        return const(factor.type, 0)

    def seen(self, f: FunctionBuilder, bytes_: Val, product: ByteProduct, point: Val) -> Val:
        halves = f.convert("zext" if product.unsigned else "sext", bytes_, I16)
        return (
            halves if point.number == 0 else f.sub(halves, f.splat(f.convert("trunc", point, I16), halves.type.lanes))
        )

    def nothing(self, count: int) -> Val:
        return const(I16.vector(count), 0)

    def words(self, f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
        return words_of_halves(f, rows, lanes)

    def multiply_add(self, f: FunctionBuilder, total: Val, seen: Val, factor: Val) -> Val:
        return multiply_add_words(f, seen, factor, total, a_unsigned=False)


def _point(ctx: KernelContext, point: DagNode | None) -> Val:
    return const(I32, 0) if point is None else ctx.values.of(point)


def word_kind(ctx: KernelContext, product: ByteProduct) -> WordKind | None:
    """The words by which a processor multiplies taps in the fewest instructions; None if it has none for them."""
    target = ctx.f.target
    if not target.triple.startswith("x86_64") or ctx.lanes * 4 != target.vector_bytes:
        return None
    if target.dots:
        return ByteWords()
    return HalfWords() if product.fits_halves else None
