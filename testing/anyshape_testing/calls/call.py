"""Represents a call of an op: arrays and parameters, built from a recipe.

In: a property, and a recipe of shapes, parameters, dtypes, and the seed and style of contents. Out: a `Call`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from operator import itemgetter
from typing import Any, TypeVar, cast

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import DType, parse_dtype
from anyshape.graph.opdef import OpDef
from anyshape.graph.registry import all_ops
from anyshape.properties import Case, Property
from anyshape_testing.calls.contents import RISING, contents
from anyshape_testing.calls.dtypes import input_dtype

Array = NDArray[Any]
T = TypeVar("T")
MANY = 2**13
"""The number of terms of which a sum fits in a dtype, whatever number each is"""


@dataclass(frozen=True)
class Recipe:
    """All that a call is built from: shapes and parameters, dtypes of the op's variables, and seed and style of contents."""

    case: Case
    dtypes: Mapping[str, str]
    seed: int
    style: str


@dataclass(frozen=True, repr=False)
class Call:
    """Arrays of the inputs by name (None: absent, a list for a variadic one) and params by name (None: default)."""

    property: Property
    inputs: Mapping[str, Any]
    params: Mapping[str, Any]
    recipe: Recipe | None = None
    _known: dict[str, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cached(self, what: str, of: object, compute: Callable[[], T]) -> T:
        """Caches a result of `compute` under a name, for the last `of` only."""
        if self._known.get(what, (None, None))[0] is not of:
            self._known[what] = (of, compute())
        return cast(T, self._known[what][1])

    @cached_property
    def identity(self) -> Hashable:
        """A key of dtypes, shapes, elements and parameters: equal for equal calls."""
        hashed = blake2b(repr(sorted(self.params.items())).encode(), digest_size=16)
        for name, v in self.inputs.items():
            arrays = [] if v is None else v if isinstance(v, list) else [v]
            hashed.update(f"{name} {len(arrays)}".encode())
            for a in arrays:
                hashed.update(f"{a.dtype} {a.shape}".encode())
                hashed.update(np.ascontiguousarray(a).tobytes())
        return tuple(sorted(self.dtypes.items(), key=itemgetter(0))), hashed.digest()

    def __repr__(self) -> str:
        return f"{self.property.op}({self.recipe})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Prints the call for the test library, which by default prints every field."""
        printer.text(repr(self))

    @builtins.property
    def op(self) -> OpDef:
        """The static variant, or the only one."""
        return variants(self.property.op)[0]

    @builtins.property
    def dtypes(self) -> dict[str, DType]:
        """The dtype of each dtype variable, as drawn."""
        return {} if self.recipe is None else {v: parse_dtype(d) for v, d in self.recipe.dtypes.items()}

    def flat_inputs(self) -> list[Array]:
        return [a for v in self.inputs.values() if v is not None for a in (v if isinstance(v, list) else [v])]

    def values(self, make: Any) -> list[Any]:
        """Makes the operands of a call; `make(array, name)` makes each."""
        operands: list[Any] = []
        for name, v in self.inputs.items():
            if isinstance(v, list):
                operands.append([make(a, f"{name}{k}") for k, a in enumerate(v)])
            else:
                operands.append(None if v is None else make(v, name))
        return operands


def variants(op: str) -> tuple[OpDef, ...]:
    """Looks up the variants of an op: static and dyn, or its only one."""
    ops = all_ops()
    return (ops[op],) if op in ops else (ops[f"static.{op}"], ops[f"dyn.{op}"])


def build_call(p: Property, r: Recipe) -> Call:
    """Builds the call of a recipe."""
    op = variants(p.op)[0]
    dtypes = {v: parse_dtype(d) for v, d in r.dtypes.items()}
    return Call(p, _arrays(op, r.case, dtypes, r.seed, r.style), dict(r.case.params), r)


def _arrays(op: OpDef, case: Case, dtypes: Mapping[str, DType], seed: int, style: str) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    most = _largest([input_dtype(i, dtypes) for i in op.inputs if case.shapes[i.name] is not None])
    for k, i in enumerate(op.inputs):
        shape, dtype = case.shapes[i.name], input_dtype(i, dtypes)
        within = case.ranges.get(i.name)
        if shape is None:
            arrays[i.name] = None
        elif i.variadic:
            arrays[i.name] = [contents(tuple(s), dtype, seed + k + 7 * j, style) for j, s in enumerate(shape)]
        else:
            own, ends = RISING if i.name in case.rising else style, case.ends.get(i.name, (None, None))
            arrays[i.name] = contents(tuple(shape), dtype, seed + k, own, within, ends, most)
    return arrays


def _largest(operands: Sequence[DType]) -> float:
    """Returns the largest number for operands of a call: for one operand of floats, a number of which the sum of MANY fits in the dtype;
    for several, one of which the product of all of them, and of one once more, fits in the dtype of each."""
    ends = [float(finfo(d.numpy).max) for d in operands if d.is_float]
    return min(ends) ** (1 / (len(ends) + 1)) if len(ends) > 1 else min(ends, default=0.0) / MANY


def input_shapes(case: Case) -> Iterator[Sequence[int]]:
    """Lists the shapes of all inputs that are present."""
    return (s for v in case.shapes.values() if v is not None for s in (v if isinstance(v, list) else [v]))
