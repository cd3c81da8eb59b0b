"""Whether addresses in one tensor are different elements for all values of their variables: pieces of rows, side by side.

In: addresses, and the shape of the tensor. Out: yes, or that it is not shown. An address is a multiple of the length of a row, plus a place
in the row; two whose places are in ranges that do not meet are of different elements, whichever rows they are in. Only rows of a known
length are looked at, and steps that are numbers or multiples of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from anyshape.dims import Size
from anyshape.lower.ir.dag import Affine


def are_disjoint(addresses: Sequence[Affine], shape: Sequence[Size]) -> bool:
    """Whether no two of the addresses are ever of one element."""
    return len(addresses) < 2 or any(_have_places_apart(addresses, row) for row in _rows(shape))


def _rows(shape: Sequence[Size]) -> Iterator[int]:
    """Lengths of rows of one axis, of two, ..., as far as they are numbers."""
    length = 1
    for extent in reversed(shape):
        if not isinstance(extent, int) or extent == 0:
            return
        length *= extent
        yield length


def _have_places_apart(addresses: Sequence[Affine], row: int) -> bool:
    ranges = [_places(a, row) for a in addresses]
    known = sorted(r for r in ranges if r is not None)
    return len(known) == len(ranges) and all(last < first for (_, last), (first, _) in pairwise(known))


def _places(address: Affine, row: int) -> tuple[int, int] | None:
    """The first and the last place in a row of so many elements that an address has."""
    first = _remainder(address.offset, row)
    if first is None or address.lets:
        return None
    last = first
    for v, c in address.terms:
        if _remainder(c, row) == 0:
            continue
        if not (isinstance(c, int) and c > 0 and isinstance(v.extent, int)):
            return None
        last += c * (v.extent - 1)
    return (first, last) if last < row else None


def _remainder(size: Size, row: int) -> int | None:
    """What is left of a size over multiples of a row, if that is a number."""
    if isinstance(size, int):
        return size % row
    left = [(monomial, factor) for monomial, factor in size.terms if factor % row]
    if any(monomial for monomial, _ in left):
        return None
    return int(sum(factor for _, factor in left)) % row
