"""A law of narrow floats: along axes longer than they can count, of elements larger than their sums may be, nothing is rounded on the way.

In: an op, from its spec alone. Out: nothing where native code gives, of every call with one long dim and in every narrow dtype, what the
reference gives in float64, rounded once. The slow reading of equations is left out: it would take its time, and law 1 holds it
against the reference in the same dtypes on small calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import DType, accum, from_numpy, parse_dtype
from anyshape.errors import ShapeError, TypeRelationError
from anyshape.graph.opdef import OpDef
from anyshape.graph.value import Node
from anyshape.testing import Property
from anyshape.testing.calls import Call, Recipe, computed, made, resolved, static_node, variants
from anyshape.testing.draws import Choosing, HypothesisDraw
from anyshape.testing.execution import run_native
from anyshape.testing.values import LARGE

Array = NDArray[Any]
LENGTHS = (800, 70_000)
"""800 elements near 1000 sum to more than f16 holds, and so does the number of 70,000 elements."""
ULPS = 4
"""What a result may be off by, of the narrow dtype: it is rounded once, and of a composed op once for each op."""
PLACES = 6
"""Of the dims of a call, in the order in which they are drawn: how many are made long in turn."""
TRIES = 4
"""Draws for each of them, until the rule accepts one."""
MOST = 400_000
"""Elements of all operands."""


class Dealt(Choosing):
    """Choices by a seed."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def __call__(self, strategy: Any) -> Any:
        return self.random.randrange(2**32)

    def among(self, values: Any) -> Any:
        return values[self.random.randrange(len(values))]

    def order(self, n: int) -> list[int]:
        return self.random.sample(range(n), n)


class OneLong(HypothesisDraw):
    """Small dims, but the one at a place in the order in which they are drawn."""

    def __init__(self, choose: Choosing, place: int, length: int) -> None:
        super().__init__(choose)
        self.pool = [1, 2, 3]
        self.left, self.long = place, length

    def dim(self, name: str) -> int:
        self.left -= 1
        return self.long if self.left == -1 else super().dim(name)


def narrow_dtypes(op: OpDef) -> list[dict[str, str]]:
    """Each narrow float that a variable of the op may be, the other variables with it where they may, else in a common dtype."""
    found = []
    for narrow in dict.fromkeys(d for allowed in op.dtypes.values() for d in computed(allowed)):
        dtype = parse_dtype(narrow)
        if dtype.is_float and accum(dtype) is not dtype:
            found.append({v: narrow if narrow in allowed else allowed[0] for v, allowed in op.dtypes.items()})
    return found


def long_calls(p: Property) -> Iterator[Call]:
    """A call for each narrow dtype, length and place of the long dim, where the rule accepts one."""
    op = variants(p.op)[0]
    for dtypes in narrow_dtypes(op):
        for length, style in zip(LENGTHS, LARGE, strict=True):
            for place in range(PLACES):
                c = _call(p, dtypes, length, style, place)
                if c is not None:
                    yield c


def _call(p: Property, dtypes: Mapping[str, str], length: int, style: str, place: int) -> Call | None:
    for attempt in range(TRIES):
        choose = Dealt(f"{p.op} {place} {attempt}")
        drawing = OneLong(choose, place, length)
        try:
            case = p.case(drawing)
        except (ShapeError, UnsatisfiedAssumption):
            continue
        if drawing.left >= 0:
            return None
        shapes = [s for v in case.shapes.values() if v is not None for s in (v if isinstance(v, list) else [v])]
        if sum(int(np.prod([int(n) for n in s])) for s in shapes) > MOST:
            continue
        if any(low >= high for low, high in case.ranges.values()):
            continue
        c = made(p, Recipe(case, dtypes, attempt, style))
        try:
            node = static_node(c)
        except TypeRelationError:
            continue
        if all(v.type.shape is not None and _size(v.type.shape) <= 4 * MOST for v in node.outputs):
            return c
    return None


def _size(shape: Any) -> float:
    return float(np.prod([n if isinstance(n, int) else 1 for n in shape]))


def in_float64(c: Call, node: Node) -> list[Array]:
    """The outputs by the reference, all narrow floats widened to float64."""
    given: dict[str, Any] = {}
    for i in node.op.inputs:
        v = c.inputs[i.name]
        if v is None and i.default is not None:
            dtype = node.dtypes[i.dtype] if i.dtype in node.dtypes else parse_dtype(i.dtype)
            v = np.asarray(i.absent(dtype), dtype.numpy)
        given[i.name] = [_double(a) for a in v] if isinstance(v, list) else None if v is None else _double(v)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = c.property.reference(**given, **resolved(node))
    return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else [result])]


def _double(a: Array) -> Array:
    dtype = from_numpy(a.dtype)
    return a.astype(np.float64) if dtype.is_float else a


def test_long_axes(op: str, record_property: Any) -> None:
    """Of an op that computes nothing with narrow floats there is nothing to say."""
    from anyshape.testing.running import PROPERTIES

    tried = 0
    for c in long_calls(PROPERTIES[op]):
        node = static_node(c)
        agree(run_native(c, static=True), in_float64(c, node), c)
        tried += 1


def agree(got: list[Array], want: list[Array], c: Call) -> None:
    narrow = min((d for d in c.dtypes.values() if d.is_float), key=lambda d: d.bits)
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        worst = off_by(g, w, narrow, c)
        assert worst <= 1, f"output {k} of {c.property.op} in {narrow}: off by {worst * ULPS:.3g} ulps"


def off_by(got: Array, want: Array, narrow: DType, c: Call) -> float:
    """The largest distance of an element of a float result, in what is allowed; 0 of all others."""
    if not from_numpy(got.dtype).is_float or want.dtype.kind != "f":
        return 0.0
    with np.errstate(all="ignore"):
        w = want.astype(got.dtype).astype(np.float64)
        g = got.astype(np.float64)
        scale = max((float(np.nanmax(np.abs(a.astype(np.float64)), initial=0)) for a in c.flat_inputs() if from_numpy(a.dtype).is_float), default=0.0)
        margin = ULPS * float(finfo(narrow.numpy).eps) * np.abs(w) + scale * 2.0**-18 + float(finfo(got.dtype).tiny)
        off = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0, np.abs(g - w) / margin)
    off = np.where(np.isnan(off), np.inf, off)
    return float(off.max(initial=0))
