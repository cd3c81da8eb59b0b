"""`Vec`, the vector of the rule language: arithmetic and comparisons item by item, conditions and sums of what meets them.

In: ints, dims, conditions, vectors. Out: the same, exactly computed: on integers these run as plain Python, on dims
they build expressions. Nothing here can fail for a value, only for lengths that do not fit; what can is a method of
`Rule`. `lists` has the functions that make lists from lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, TypeAlias

from anyshape import dims
from anyshape.dims import INT64_MAX, INT64_MIN, Cond, Dim
from anyshape.errors import AnyshapeError, OverflowedError, ShapeError

Truth: TypeAlias = "bool | Cond"


class Undetermined(AnyshapeError):
    """The rank (or other structure) of a result needs a value that is not known; `operand` is the parameter, if
    one is to blame."""

    def __init__(self, operand: str, why: str) -> None:
        super().__init__(f"{operand}: {why}" if operand else why)
        self.operand, self.why = operand, why


class Vec(tuple[Any, ...]):
    """An immutable vector. + - * // % and comparisons by function are elementwise; a tuple in every other respect."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(str, self))}]"

    __str__ = __repr__

    def __getitem__(self, i: Any) -> Any:
        if i.__class__ is int:
            if -len(self) <= i < len(self):
                return tuple.__getitem__(self, i)
            raise ShapeError(f"index {i} is out of range for {self}, which has {len(self)} items")
        if isinstance(i, slice):
            if any(bound.__class__ is Dim for bound in (i.start, i.stop, i.step)):
                raise Undetermined("", f"how many items of {self} are meant is not known")
            return Vec(tuple.__getitem__(self, i))
        if isinstance(i, tuple | list):
            return Vec(self[j] for j in i)
        if i.__class__ is Dim:
            raise Undetermined("", f"item {i} of {self} is not known")
        return tuple.__getitem__(self, i)

    def __add__(self, other: Any) -> Any:
        return spread(_add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return spread(_sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return spread(_sub, other, self)

    def __mul__(self, other: SupportsIndex | Any) -> Any:
        return spread(_mul, self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return Vec(-x for x in self)

    def __floordiv__(self, other: Any) -> Any:
        return spread(dims.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return spread(dims.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return spread(dims.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return spread(dims.mod, other, self)


def _add(a: Any, b: Any) -> Any:
    return a + b


def _sub(a: Any, b: Any) -> Any:
    return a - b


def _mul(a: Any, b: Any) -> Any:
    return a * b


def is_vector(v: Any) -> bool:
    return isinstance(v, tuple | list | range)


def spread(f: Callable[..., Any], *args: Any) -> Any:
    """f on scalars, or item by item where an argument is a vector, scalars repeated."""
    vectors = [a for a in args if isinstance(a, (tuple, list, range))]
    if not vectors:
        return f(*args)
    n = len(vectors[0])
    if any(len(v) != n for v in vectors):
        raise ShapeError(f"vectors of different lengths are combined: {' and '.join(str(Vec(v)) for v in vectors)}")
    columns = [a if isinstance(a, (tuple, list, range)) else (a,) * n for a in args]
    return Vec(map(f, *columns))


def _compare(test: Callable[[Any, Any], Truth], a: Any, b: Any) -> Truth:
    """Whether a comparison holds for all items."""
    if a.__class__ is int and b.__class__ is int:
        return test(a, b)
    if isinstance(a, tuple | list | range) or isinstance(b, tuple | list | range):
        return all_(spread(test, a, b))
    return test(_plain(a), _plain(b))


def _plain(x: Any) -> Any:
    """A condition met as a number is 1 or 0."""
    return dims.select(x, 1, 0) if x.__class__ is Cond else int(x) if x.__class__ is bool else x


def eq(a: Any, b: Any) -> Truth:
    """Whether values are equal; vectors also need equal lengths. Strings, floats and None compare as Python does."""
    if a.__class__ is int and b.__class__ is int:
        return a == b
    vectors = is_vector(a), is_vector(b)
    if all(vectors):
        return len(a) == len(b) and all_(eq(x, y) for x, y in zip(a, b))
    if any(vectors):
        return all_(eq(x, b) for x in a) if vectors[0] else all_(eq(a, y) for y in b)
    if isinstance(a, int | Dim | Cond) and isinstance(b, int | Dim | Cond):
        return dims.eq(_plain(a), _plain(b))
    return bool(a == b)


def ne(a: Any, b: Any) -> Truth:
    """Unequal; for vectors and a scalar: every item is (as every comparison holds for all items); two vectors:
    not equal."""
    if is_vector(a) != is_vector(b):
        return all_(ne(x, b) for x in a) if is_vector(a) else all_(ne(a, y) for y in b)
    return not_(eq(a, b))


def lt(a: Any, b: Any) -> Truth:
    return _compare(_scalar_lt, a, b)


def le(a: Any, b: Any) -> Truth:
    return _compare(_scalar_le, a, b)


def gt(a: Any, b: Any) -> Truth:
    return _compare(_scalar_lt, b, a)


def ge(a: Any, b: Any) -> Truth:
    return _compare(_scalar_le, b, a)


def _scalar_lt(a: Any, b: Any) -> Truth:
    return bool(a < b) if isinstance(a, float) or isinstance(b, float) else dims.lt(a, b)


def _scalar_le(a: Any, b: Any) -> Truth:
    return bool(a <= b) if isinstance(a, float) or isinstance(b, float) else dims.le(a, b)


def not_(c: Any) -> Truth:
    return dims.not_(truth(c))


def truth(c: Any) -> Truth:
    """The value as a condition: a vector of conditions holds if every item does."""
    if c.__class__ is bool or c.__class__ is Cond:
        return c
    if is_vector(c):
        return all_(c)
    return dims.ne(c, 0) if c.__class__ is Dim else bool(c)


def _filtered(items: Iterable[Any], where: Iterable[Any] | None, neutral: Any) -> Iterable[Any]:
    if where is None:
        return items
    return (_chosen(truth(c), x, neutral) for x, c in zip(items, where))


def _chosen(c: Truth, x: Any, neutral: Any) -> Any:
    if c.__class__ is bool:
        return x if c else neutral
    if x.__class__ is bool or x.__class__ is Cond:
        return dims.or_(dims.and_(c, x), dims.and_(dims.not_(c), neutral))
    return dims.select(c, x, neutral)


def prod(items: Iterable[Any], where: Iterable[Any] | None = None) -> Any:
    """The product (1 of nothing); where an item's condition is undecided, it is a factor of select(condition,
    item, 1)."""
    result: Any = 1
    for x in _filtered(items, where, 1):
        result = result * x
    return _sized(result, "product")


def sum_(items: Iterable[Any], where: Iterable[Any] | None = None) -> Any:
    result: Any = 0
    for x in _filtered(items, where, 0):
        result = result + _plain(x)
    return _sized(result, "sum")


def _sized(result: Any, what: str) -> Any:
    if result.__class__ is int and not INT64_MIN <= result <= INT64_MAX:
        raise OverflowedError(f"the {what} {result} does not fit a signed 64-bit integer")
    return result


def count(conditions: Iterable[Any], where: Iterable[Any] | None = None) -> Any:
    """How many conditions hold."""
    result: Any = 0
    for c in _filtered(conditions, where, False):
        result = result + _plain(truth(c))
    return result


def any_(conditions: Iterable[Any], where: Iterable[Any] | None = None) -> Truth:
    met: list[Cond] = []
    for c in _filtered(conditions, where, False):
        c = truth(c)
        if c.__class__ is Cond:
            met.append(c)
        elif c:
            return True
    return dims.or_(*met) if met else False


def all_(conditions: Iterable[Any], where: Iterable[Any] | None = None) -> Truth:
    met: list[Cond] = []
    for c in _filtered(conditions, where, True):
        c = truth(c)
        if c.__class__ is Cond:
            met.append(c)
        elif not c:
            return False
    return dims.and_(*met) if met else True


def ceil_div(a: Any, b: Any) -> Any:
    return spread(dims.ceil_div, a, b)


def clamp(x: Any, low: Any, high: Any) -> Any:
    return spread(dims.clamp, x, low, high)


def among(x: Any, v: Iterable[Any]) -> Truth:
    """Whether x is an item of v."""
    return any_(eq(x, y) for y in v)


def reflect(i: Any, n: Any) -> Any:
    """i mirrored at both ends of 0..n-1, the ends themselves once, until it is inside; for n > 0."""
    return spread(_reflect, i, n)


def _reflect(i: Any, n: Any) -> Any:
    last = 2 * n - 2
    there = dims.mod(i, dims.maximum(last, 1))
    return dims.minimum(there, last - there)


def int_(c: Any) -> Any:
    """A truth as a number, 1 or 0; item by item for a vector of them."""
    return spread(lambda x: _plain(truth(x)), c)
