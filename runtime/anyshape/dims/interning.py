"""What every table of dims needs: one object per value in all threads, and a limit to how deep expressions are."""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

from anyshape.errors import UnsupportedError

T = TypeVar("T")
_entering = RLock()
"""The lock under which expressions are created: equal ones are one object in all threads."""
MAX_DEPTH = 64
"""How many operations may stand within one another; sums and products are none."""


class Consed:
    """One object per value: copies are the object itself, and pickling would make doubles, so it is refused."""

    __slots__ = ()

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("dims and conditions are not pickled; store exact_text(dim) and read it with parse_dim")


class NestedTooDeep(UnsupportedError):
    """An expression of more than MAX_DEPTH operations within one another."""


def enter(table: WeakValueDictionary[Any, T], key: Any, entry: T) -> T:
    """The entry of the key: this one, unless another thread was first."""
    with _entering:
        first = table.get(key)
        if first is not None:
            return first
        table[key] = entry
        return entry


def nesting(args: Iterable[Any]) -> tuple[int, int]:
    """(depth, weight): operations within one another; how many atoms the text has."""
    depth = weight = 0
    for a in args:
        if not isinstance(a, int):
            depth, weight = max(depth, a.depth), weight + a.weight
    if depth >= MAX_DEPTH:
        raise NestedTooDeep(
            f"the sizes of a tensor are expressions of more than {MAX_DEPTH} operations within one another"
        )
    return depth + 1, weight + 1
