"""Sequences of tensors, as rules and kernels see them: all elements, or a list of which only the run knows how many it has.

In: the shapes of the elements (in a rule), their tensors (in a kernel), or `Elements` of a list. Out: what the code that the generator
writes asks of either. On a list it runs once, for the first element and for any: its number is the symbol `index`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from anyshape.dims import Dim, Size, free_symbols, fresh
from anyshape.errors import SpecError
from anyshape.rules.lists import prefix
from anyshape.rules.vec import Vec, sum_

T = TypeVar("T")


class ElementSize:
    """A size of each element, `n[v]`: `item` is that of any, `total` the sum of all, `before` that of the elements before it."""

    def __init__(self, item: Size, total: Size, before: Size) -> None:
        self.item, self.total, self.before = item, total, before

    def __getitem__(self, index: Any) -> Size:
        return self.item


class Elements(Generic[T]):
    """`own`: the symbols that stand for something else in every element; `sums`: the sizes that have to be added up."""

    def __init__(self, first: T, any: T, index: Dim, count: Dim, own: Iterable[Dim] = ()) -> None:
        self.first, self.any, self.index, self.count, self.own = first, any, index, count, frozenset(own)
        self.sums: list[ElementSize] = []

    def __getitem__(self, v: Any) -> T:
        if v is self.index:
            return self.any
        if v.__class__ is int and v == 0:
            return self.first
        raise SpecError(f"element {v} of a list is read; only the first and any are known")

    def each(self, size: Callable[[Any], Size]) -> ElementSize:
        item = size(self.index)
        if not free_symbols(item) & self.own:
            return ElementSize(item, self.count * item, self.index * item)
        each_size = ElementSize(item, fresh("total", 0), fresh("before", 0))
        self.sums.append(each_size)
        return each_size


def count_of(xs: Sequence[Any] | Elements[Any]) -> Size:
    """The number of elements of a sequence."""
    return xs.count if isinstance(xs, Elements) else len(xs)


def numbers_of(xs: Sequence[Any] | Elements[Any]) -> Iterable[Any]:
    """The numbers of the elements."""
    return (xs.index,) if isinstance(xs, Elements) else range(len(xs))


def each_of(xs: Sequence[Any] | Elements[Any], size: Callable[[Any], Size]) -> Vec | ElementSize:
    """A size by the number of the element."""
    return xs.each(size) if isinstance(xs, Elements) else Vec(size(v) for v in range(len(xs)))


def total_of(sizes: Vec | ElementSize) -> Size:
    """The sum of a size over all elements."""
    return sizes.total if isinstance(sizes, ElementSize) else sum_(sizes)


def before_of(sizes: Vec | ElementSize, v: Any) -> Size:
    """The sum of a size over the elements before v."""
    return sizes.before if isinstance(sizes, ElementSize) else prefix(sizes)[v]
