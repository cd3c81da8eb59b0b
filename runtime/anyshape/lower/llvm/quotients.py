"""Quotients of vectors by a number that is known: products, rounded as the quotients are.

In: f32, and a divisor that is one. Out: their quotients, where none is so small that a product on the way underflows.

A reciprocal in two floats, the second one what the first leaves, gives a product and a multiply-add, whose sum is the quotient but for
2 ** -47 of it. So it is rounded otherwise only for dividends whose quotients are that close to the middle between two floats: there are
few, which integers tell, and each is tried (N. Brisebarre, J.-M. Muller, S. K. Raina). For divisors with such a dividend the reciprocal is
one float, and two multiply-adds correct the product (P. Markstein), which gives the quotient's rounding for all but those whose bits are
all ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import Val

_PLAIN = 2.0**-60, 2.0**60
"""Divisors of which neither the reciprocal nor what is left of a division underflows, unless the quotient is next to 0."""
_ALL_ONES = 1 - 2.0**-24
"""The largest float below 1."""
_DIGITS = 24
_CLOSE = 4
"""How far the dividend's multiple is from an odd multiple of the divisor, at most, where the rounding may differ."""


def is_plain(divisor: float) -> bool:
    """Whether quotients by a number may be products."""
    least, most = _PLAIN
    return least <= divisor <= most and math.frexp(divisor)[0] != _ALL_ONES


def quotients(f: FunctionBuilder, dividends: Sequence[Val], divisor: float) -> list[Val]:
    """Quotients by a plain number, an operation of all of them after the other."""
    reciprocal, rest = reciprocal_of(divisor)  # nothing is left of those of powers of two
    if rest == 0.0:
        return [f.mul(a, reciprocal) for a in dividends]
    if is_exact_in_two(divisor):
        small = [f.mul(a, rest) for a in dividends]
        return [f.fma(a, reciprocal, b) for a, b in zip(dividends, small, strict=True)]
    products = [f.mul(a, reciprocal) for a in dividends]
    left = [f.fma(product, -divisor, a) for product, a in zip(products, dividends, strict=True)]
    return [f.fma(rest_, reciprocal, product) for rest_, product in zip(left, products, strict=True)]


def reciprocal_of(divisor: float) -> tuple[float, float]:
    """The reciprocal as a float, and what is left of it as another."""
    first = float(np.float32(1) / np.float32(divisor))
    left = _rounded(1 / Fraction(divisor) - Fraction(first))
    return first, float(left)


@cache
def is_exact_in_two(divisor: float) -> bool:
    """Whether a product and a multiply-add give the rounding of all quotients by a number."""
    digits = int(math.ldexp(math.frexp(divisor)[0], _DIGITS))
    first, left = map(Fraction, reciprocal_of(float(digits)))
    return all(_rounded(a * first + _rounded(a * left)) == _rounded(Fraction(a, digits)) for a in _close_calls(digits))


def _close_calls(digits: int) -> Iterator[int]:
    """The dividends of 24 bits whose quotients by a number of as many may be next to the middle between two floats: those that times
    2 ** 24, or 2 ** 25 where the quotient is below 1, are so far from an odd multiple of the divisor."""
    twos = (digits & -digits).bit_length() - 1
    odd = digits >> twos
    for power in (_DIGITS, _DIGITS + 1):
        inverse = pow(2 ** (power - twos), -1, odd) if odd > 1 else 0
        for distance in range(1, _CLOSE // 2**twos + 1, 2):
            for sign in (-1, 1):
                first = sign * distance * inverse % odd
                start = first + -(-(2 ** (_DIGITS - 1) - first) // odd) * odd
                yield from range(start, 2**_DIGITS, odd)


def _rounded(x: Fraction) -> Fraction:
    """A number with 24 digits, halves to even ones."""
    if x == 0:
        return x
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - _DIGITS
    unit = Fraction(2) ** exponent
    while size / unit >= 2**_DIGITS:
        unit *= 2
    return round(x / unit) * unit
