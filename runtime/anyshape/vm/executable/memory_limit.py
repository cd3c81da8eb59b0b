"""Limit of the memory of one call: `max_memory` of `compile`.

In: a function, its formulas, and a number of bytes. Out: a `CallPath` that refuses a call before it runs, where its dims decide how much
it needs, with the formula and the sizes that fit. Where elements decide, Python runs the program and counts: such a call is refused as
soon as it demands more. Intermediate values count, and results that the caller has no memory for; weights, code and arguments do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.dims import Dim
from anyshape.errors import MemoryLimitExceeded
from anyshape.graph.function import Function
from anyshape.vm.compiling.plans import Plan
from anyshape.vm.executable.call_path import Array, CallPath, CallSizes
from anyshape.vm.export.call_bytes import CallBytes
from anyshape.vm.run.memory_budget import MemoryBudget, within

_MOST_KEYS = 4096
"""Sizes of admitted calls that are kept, so that a formula is evaluated once for them"""


class MemoryLimit:
    """The limit of one executable. `formulas` are None where elements decide; `counted` is the plan that Python runs."""

    def __init__(self, f: Function, limit: int, formulas: CallBytes | None, counted: Plan) -> None:
        self._name, self._limit, self._formulas, self._counted = f.name, limit, formulas, counted
        self._sizes = CallSizes(formulas.places if formulas is not None else {})
        self._admitted: set[tuple[int, ...]] = set()

    def demand_possible(self) -> None:
        """Raises MemoryLimitExceeded where every call needs the same, which is too much."""
        needed = self._formulas.formula if self._formulas is not None else 0
        if not isinstance(needed, Dim) and needed > self._limit:
            raise MemoryLimitExceeded(self._refused({}, needed))

    def before(self, path: CallPath) -> CallPath:
        """The path with each call admitted first."""

        def direct(arguments: Sequence[Any], places: Sequence[Any] = ()) -> list[Array] | None:
            assert path.direct is not None
            key = self._sizes.key(arguments)
            return path.direct(arguments, places) if key is not None and self._admits(key, places) else None

        def run(arguments: Sequence[Array], places: Sequence[Any] = ()) -> list[Array]:
            key = self._sizes.key(arguments)
            if self._formulas is not None and key is not None and self._admits(key, places):
                return path.run(arguments, places)
            with within(MemoryBudget(self._counter())):
                return self._counted.run(arguments, places)

        return CallPath(direct if path.direct is not None and self._formulas is not None else None, path.bind, run)

    def _admits(self, key: tuple[int, ...], places: Sequence[Any]) -> bool:
        """Tests whether a call of these sizes may run; False where elements decide. Raises MemoryLimitExceeded where it may not."""
        if key in self._admitted:
            return True
        assert self._formulas is not None
        sizes = self._sizes.named(key)
        placed = [k for k, place in enumerate(places) if place is not None]
        needed = self._formulas.needed(sizes, placed)
        if needed is None:
            return False
        if needed > self._limit:
            raise MemoryLimitExceeded(self._refused(sizes, needed))
        if not placed:
            if len(self._admitted) >= _MOST_KEYS:
                self._admitted.clear()
            self._admitted.add(key)
        return True

    def _refused(self, sizes: dict[str, int], needed: int) -> str:
        assert self._formulas is not None
        at = f" with {', '.join(f'{name} = {n}' for name, n in sizes.items())}" if sizes else ""
        said = [
            f"{self._name}: a call{at} needs {needed} bytes for intermediate values and results, and max_memory is {self._limit}"
        ]
        if sizes:
            said += [f"they are {self._formulas.formula}", *self._formulas.admissible(sizes, self._limit)]
        return "; ".join(said)

    def _counter(self) -> Any:
        """Makes a counter of one call's bytes, which raises MemoryLimitExceeded."""
        held = 0

        def demand(size: int) -> None:
            nonlocal held
            held += size
            if held > self._limit:
                raise MemoryLimitExceeded(
                    f"{self._name}: the call needs at least {held} bytes for intermediate values and results, and max_memory is "
                    f"{self._limit}; elements decide how many, so that there is no formula"
                )

        return demand
