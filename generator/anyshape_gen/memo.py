"""What a step made, remembered by what it was made of: a process that stays makes again only what changed.

In: a key, the objects whose identity the key names, and how to make the result. Out: the result. Steps are pure, so that what
comes out is the same with and without a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Results by key. `forget_unused` drops what the last round did not ask for."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[object, ...], Any]] = {}
        self._asked: set[Hashable] = set()

    def get(self, key: Hashable, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """`make()`, or what it gave for an equal key and the very same objects `of`. What raises is not kept."""
        whole = (key, *map(id, of))
        self._asked.add(whole)
        if whole not in self._kept:
            # The objects are kept beside the result: an id is theirs as long as they live.
            self._kept[whole] = of, make()
        result: T = self._kept[whole][1]
        return result

    def forget_unused(self) -> None:
        for key in self._kept.keys() - self._asked:
            del self._kept[key]
        self._asked.clear()
