"""The functions by which calls of an executable enter its plan, and what may stand before them.

In: a plan. Out: a `CallPath`; a memory limit or hooks make another one of it. An executable holds the functions of one path as its own
attributes, so that what is not in use costs a call nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anyshape.vm.compiling.plans import Direct

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class CallPath:
    """`direct`, if there is one, takes arguments as the caller passes them, and returns None where they have to be bound first; `bind` puts
    arguments into the order of the inputs; `run` takes what `bind` returns. `direct` and `run` take destinations of results besides."""

    direct: Direct | None
    bind: Callable[[tuple[Any, ...], Mapping[str, Any]], list[Array]]
    run: Callable[..., list[Array]]


class CallSizes:
    """Sizes of a call's named dims, by where they stand in its arguments."""

    def __init__(self, places: Mapping[str, tuple[int, int]]) -> None:
        """`places` has the number of an argument and an axis of it for each name."""
        self.names, self._places = tuple(places), tuple(places.values())

    def key(self, arguments: Sequence[Any]) -> tuple[int, ...] | None:
        """The sizes in the order of `names`; None for arguments that are no arrays of these ranks."""
        try:
            return tuple([int(arguments[k].shape[axis]) for k, axis in self._places])
        except Exception:  # an argument may be any object, and what is wrong with it is said where it is bound
            return None

    def named(self, key: Sequence[int]) -> dict[str, int]:
        return dict(zip(self.names, key, strict=True))
