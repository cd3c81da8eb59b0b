"""Random inputs that fit a model's types: dims from --shape and --dim, the rest chosen and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, Size, bounds, evaluate, free_symbols
from anyshape.dtypes import DType
from anyshape.errors import ArgumentError
from anyshape.types import TensorType

USUAL = 8
"""The size of a dim that nobody names, if its bounds allow it"""


class Sizes:
    """Numbers for symbols: bound by the given shapes, then chosen; `chosen` is what nobody asked for."""

    def __init__(self) -> None:
        self.values: dict[Dim, int] = {}
        self.chosen: dict[str, int] = {}

    def bind(self, name: str, t: TensorType, shape: Sequence[int]) -> None:
        """Learns from one shape; contradictions are left for the entry check of the model, which says them best."""
        if t.shape is None:
            return
        if len(t.shape) != len(shape):
            raise ArgumentError(f"{name} is {t}, of rank {len(t.shape)}; got {'x'.join(map(str, shape)) or 'scalar'}")
        for d, n in zip(t.shape, shape):
            if isinstance(d, Dim) and d in free_symbols(d):
                self.values.setdefault(d, n)

    def size(self, d: Size) -> int:
        if isinstance(d, int):
            return d
        for s in sorted(free_symbols(d), key=str):
            if s not in self.values:
                low, high = bounds(s)
                n = max(USUAL, low or 0)
                self.values[s] = self.chosen[str(s)] = n if high is None else min(n, high)
        return int(evaluate(d, self.values))


def make_inputs(
    names: Sequence[str],
    types: Sequence[TensorType],
    shapes: Mapping[str, tuple[int, ...]],
    given: Mapping[str, NDArray[Any]],
    ints: tuple[int, int],
    seed: int,
) -> tuple[dict[str, NDArray[Any]], Sizes]:
    """An array for every input. Raises ArgumentError for names the model does not have and for ranks nobody gave."""
    for name in (*shapes, *given):
        if name not in names:
            raise ArgumentError(f"the model has no input {name!r}; its inputs are {', '.join(names)}")
    sizes, random = Sizes(), np.random.default_rng(seed)
    said = {**shapes, **{name: a.shape for name, a in given.items()}}
    for name, t in zip(names, types):
        if name in said:
            sizes.bind(name, t, said[name])
    made: dict[str, NDArray[Any]] = {}
    for name, t in zip(names, types):
        if name in given:
            made[name] = given[name].astype(t.dtype.numpy)
            continue
        if name not in said and t.shape is None:
            raise ArgumentError(f"{name} is {t}: its rank is not known, so say a shape: --shape {name}=2x3")
        shape = said[name] if name in said else tuple(sizes.size(d) for d in t.shape or ())
        made[name] = _random(t.dtype, shape, ints, random)
    return made, sizes


def _random(t: DType, shape: tuple[int, ...], ints: tuple[int, int], random: np.random.Generator) -> NDArray[Any]:
    if t.is_float:
        return random.standard_normal(shape).astype(t.numpy)
    if t.is_bool:
        return random.integers(0, 2, shape).astype(t.numpy)
    return random.integers(*ints, shape).astype(t.numpy)
