"""Arithmetic of indices in affine form: what they are sure to lie inside of, their ends, quotients by sizes, and row-major places.

In: affine forms and sizes. Out: affine forms; None, or False, where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor, Var
from anyshape.lower.ir.dag import Affine, Constant, DagNode, LoopIndex, Operation, SizeValue, affine

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


def without_computed(i: Affine) -> Affine:
    """The index with what is computed of sizes and variables as terms and offset, where it is linear in these."""
    total = Affine(i.terms, i.offset)
    for n, c in i.lets:
        form = linear(n)
        total = total + (Affine((), 0, ((n, c),)) if form is None else form.scaled(c))
    return total


def linear(n: DagNode) -> Affine | None:
    """The affine form of what is computed of sizes and variables by sums and products; of one of two values, where a variable of extent 2
    decides which. None for all else."""
    match n:
        case Constant(value=int() as value):
            return Affine((), value)
        case SizeValue(size=dims.Dim() as size):
            return Affine((), size)
        case LoopIndex(variable=v):
            return Affine(((v, 1),))
        case Operation(name="add" | "sub" | "mul" as name, args=args):
            forms = [f for f in map(linear, args) if f is not None]
            if len(forms) == len(args):
                return _combined(name, *forms)
        case Operation(
            name="select", args=(Operation(name="eq", args=(LoopIndex(variable=v), Constant(value=1))), a, b)
        ):
            first, second = linear(b), linear(a)
            if v.extent == 2 and first is not None and second is not None:
                step = second + first.scaled(-1)
                return first + Affine(((v, step.offset),)) if step.is_constant else None
    return None


def _combined(name: str, a: Affine, b: Affine) -> Affine | None:
    if name != "mul":
        return a + (b if name == "add" else b.scaled(-1))
    if not (a.is_constant or b.is_constant):
        return None
    return a.scaled(b.offset) if b.is_constant else b.scaled(a.offset)


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
