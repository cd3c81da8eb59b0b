"""Plan for one size of some dims, which runs smaller calls: their operands are padded with zeros, and the results are cut.

In: the function as it is, the program of its padded form (`passes.padding`), the plan for all sizes. Out: a `Plan`. Calls whose operands do
not have the sizes that the types say run the plan for all sizes, which tells what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, Size, evaluate
from anyshape.graph.function import Function
from anyshape.passes.padding import PaddedFunction
from anyshape.types import ListType
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.plans import Direct, Plan
from anyshape.vm.program.table import Program

Array = NDArray[Any]
Shape = tuple[int, ...]
MOST_SIZES = 1024
"""Sizes of calls whose shapes are kept; when there are more, all are forgotten."""


@dataclass(frozen=True, slots=True)
class _PaddedShapes:
    """Shapes of one size of calls: `true` and `padded` of operands, the sizes that masks need, `cuts` of results; None for what is as it is
    without padding."""

    true: tuple[Shape | None, ...]
    padded: tuple[Shape | None, ...]
    lengths: tuple[Array, ...]
    cuts: tuple[tuple[slice, ...] | None, ...]


class PaddedPlan:
    """Plan of padded calls. `sizes`: what dims are padded to."""

    direct: Direct | None = None

    def __init__(self, f: Function, form: PaddedFunction, sizes: Mapping[Dim, int], plan: Plan, generic: Plan) -> None:
        self._form, self._sizes, self._plan, self._generic = form, dict(sizes), plan, generic
        self._types = [p.type for p in f.params]
        self._results = [v.type for v in f.results]
        self._places = [(s, *place) for s in f.symbols() if (place := f.place_of(s)) is not None]
        self._known: dict[Shape, _PaddedShapes] = {}

    def run(self, arrays: Sequence[Array], places: Sequence[Array | None] = ()) -> list[Array]:
        key = tuple([arrays[k].shape[axis] for _, k, axis in self._places])
        shapes = self._known.get(key)
        if shapes is None:
            if len(self._known) >= MOST_SIZES:
                self._known.clear()
            shapes = self._known[key] = self._shapes({s: n for (s, *_), n in zip(self._places, key, strict=True)})
        operands: list[Array] = []
        for a, true, larger in zip(arrays, shapes.true, shapes.padded, strict=True):
            if true is not None and a.shape != true:
                return self._generic.run(arrays, places)
            operands.append(a if larger is None else _padded(a, larger))
        results = self._plan.run([*operands, *shapes.lengths])
        return [r if cut is None else np.ascontiguousarray(r[cut]) for r, cut in zip(results, shapes.cuts, strict=True)]

    def _shapes(self, true: Mapping[Dim, int]) -> _PaddedShapes:
        larger = {**true, **self._sizes}
        shapes = [None if isinstance(t, ListType) or t.shape is None else t.shape for t in self._types]
        return _PaddedShapes(
            tuple(None if s is None else tuple(evaluate(n, true) for n in s) for s in shapes),
            tuple(self._larger(s, true, larger) for s in shapes),
            tuple(np.array(evaluate(n, true)) for n in self._form.lengths),
            tuple(self._cut(t.shape, true) for t in self._results),
        )

    def _larger(self, shape: Sequence[Size] | None, true: Mapping[Dim, int], larger: Mapping[Dim, int]) -> Shape | None:
        """The shape of a padded operand; None where it is that of the operand."""
        padded_shape = tuple(evaluate(n, larger) for n in shape or ())
        return None if padded_shape == tuple(evaluate(n, true) for n in shape or ()) else padded_shape

    def _cut(self, shape: Sequence[Size] | None, true: Mapping[Dim, int]) -> tuple[slice, ...] | None:
        """The part of a result that is kept; None for all of it."""
        sizes = {s: n for s, n in self._sizes.items() if true[s] != n}
        grows = [isinstance(n, Dim) and any(a.dim in sizes for a in n.symbols) for n in shape or ()]
        ends = zip(shape or (), grows, strict=True)
        return tuple(slice(evaluate(n, true)) if g else slice(None) for n, g in ends) if any(grows) else None

    def by(self, options: Options) -> Plan:
        """The plan for all sizes with other options."""
        return self._generic.by(options)

    def cancel(self) -> None:
        self._plan.cancel()

    def release(self) -> None:
        self._plan.release()

    @property
    def overwrites(self) -> tuple[tuple[int, int], ...]:
        return ()  # each call may run another program

    @property
    def programs(self) -> tuple[Program, ...]:
        return self._plan.programs

    @property
    def bytes(self) -> int:
        return self._plan.bytes


def _padded(a: Array, shape: Shape) -> Array:
    out = np.zeros(shape, a.dtype)
    out[tuple([slice(n) for n in a.shape])] = a
    return out
