"""Arithmetic of indices in affine form: what they are sure to lie inside of, their ends, quotients by sizes, and row-major places.

In: affine forms and sizes. Out: affine forms; None, or False, where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor, Var
from anyshape.lower.ir.dag import Affine, affine

OF_SIZES: Mapping[str, Callable[[Size, Size], Size]] = {
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "min": dims.minimum,
    "max": dims.maximum,
}
"""Functions of two sizes whose result is again a size."""


def flatten(t: Tensor, index: list[Affine]) -> Affine:
    return row_major_place(index, t.shape)


def row_major_position(index: list[Affine], variables: tuple[Var, ...]) -> Affine:
    return row_major_place(index, [v.extent for v in variables])


def row_major_place(index: Sequence[Affine], extents: Sequence[Size]) -> Affine:
    total = Affine()
    stride: Size = 1
    for i, n in zip(reversed(index), reversed(extents), strict=True):
        total = total + i.scaled(stride)
        stride = stride * n
    return total


def is_inside(i: Affine, n: Size) -> bool:
    """Provably 0 <= i < n, of an index as equations spell it: a variable of that extent, or an affine form whose ends are inside."""
    if not i.lets and len(i.terms) == 1 and i.offset == 0 and not isinstance(i.terms[0][1], int):
        # an open broadcast, select(n == 1, 0, v): that n is 1 or v's extent was checked where it was decided
        return dims.bounds(i.terms[0][1]) == (0, 1)
    return is_value_inside(i, n)


def is_value_inside(i: Affine, n: Size) -> bool:
    """Provably 0 <= i < n, whatever i is computed of."""
    if not i.lets and len(i.terms) == 1 and i.terms[0][1] == 1 and i.offset == 0 and i.terms[0][0].extent == n:
        return True
    ends = ends_of(i)
    return ends is not None and dims.ge(ends[0], 0) is True and dims.lt(ends[1], n) is True


def ends_of(i: Affine) -> tuple[Size, Size] | None:
    """The least and the greatest value of an affine form, if all its coefficients are numbers and nothing in it is computed."""
    if i.lets:
        return None
    low = high = i.offset
    for v, c in i.terms:
        if not isinstance(c, int):
            return None
        if c > 0:
            high = high + (v.extent - 1) * c
        else:
            low = low + (v.extent - 1) * c
    return low, high


def is_never_positive(i: Affine) -> bool:
    ends = ends_of(i)
    return ends is not None and dims.le(ends[1], 0) is True


def divided(i: Affine, n: Size) -> tuple[Affine, Affine]:
    """An index as a multiple of a size, over it, and the rest: what the size plainly divides, and what else there is."""
    whole = [(v, 1 if c == n else c // n) for v, c in i.terms if _divides(n, c)]
    return affine(whole, 0), affine([(v, c) for v, c in i.terms if not _divides(n, c)], i.offset, i.lets)


def _divides(n: Size, c: Size) -> bool:
    return c == n or (isinstance(c, int) and isinstance(n, int) and n > 0 and c % n == 0)


def either(c: dims.Cond, a: Affine, b: Affine) -> Affine | None:
    """Chooses one index or the other by the condition, if they are the same but for their coefficients."""
    if a.lets != b.lets:
        return None
    variables = {v: None for v, _ in (*a.terms, *b.terms)}
    terms = [(v, dims.select(c, a.coefficient(v), b.coefficient(v))) for v in variables]
    return affine(terms, dims.select(c, a.offset, b.offset), a.lets)
