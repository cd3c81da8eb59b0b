"""Law 13: sums and counts of narrow floats along long axes, which exceed the dtype's range or precision, are rounded only once.

In: an op, from its spec alone. Out: nothing where native code gives, for calls with one long dim in every narrow dtype, what the reference
gives in float64, rounded once. The interpreter is left out: it would take long, and law 1 compares it with the reference on small calls
in the same dtypes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import F64, DType, accum, from_numpy
from anyshape.equations.accumulation import ARITHMETIC
from anyshape.equations.builder import RecurrenceStep, Run, Update
from anyshape.equations.expr import Reduce, Scalar
from anyshape.equations.traversal import walk
from anyshape.errors import ShapeError, TypeRelationError
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node
from anyshape.properties import Property
from anyshape_testing.calls.call import Call, Recipe, build_call, input_shapes, variants
from anyshape_testing.calls.contents import LEVEL
from anyshape_testing.calls.dtypes import narrow_dtypes
from anyshape_testing.calls.nodes import equations_below, resolved, static_node
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.draw.choices import Choosing, HypothesisDraw
from anyshape_testing.execution.native import run_native
from anyshape_testing.execution.reference import in_place_of_nothing
from anyshape_testing.process import time_budget
from anyshape_testing.process.profile import LONG
from anyshape_testing.process.time_limit import TooLong, time_limit
from anyshape_testing.running.accounting import Tally, settle
from anyshape_testing.running.random_calls import repeated
from anyshape_testing.running.report import report

Array = NDArray[Any]
LAW = "13 long axes of narrow floats"
LENGTHS = ((800, "near 1000"), (100_000, "near 20"), (100_000, LEVEL))
"""800 elements near 1000 sum to more than f16 holds, and so does the number of 100,000 elements."""
MOST = 400_000
"""The most elements of all operands"""
ULPS = 4
"""The allowed error in ulps of the narrow dtype: a result is rounded once, that of a composed op once for each op in it"""
NOISE = 2.0**-12
"""The allowed error, relative to the largest operand, of terms that cancel, since they are summed in f32. The least power of two that lets
`batch_norm_training` and `group_norm` pass with room: of 100,000 numbers near 20 they take away a mean that f32 rounds, and divide by a
deviation of a tenth; at 2^-14 they are off by twice what is allowed. All other ops hold with 2^-16."""
POSITIONS = 4
"""The number of dims of a call, in the order of drawing, of which each is made long once"""
TRIES = 12
"""The most draws for each long dim, until the rule accepts one"""
SECONDS = 20 if LONG else 1
"""Processor time for the reference: a call for which it takes longer is left out"""
MOST_WORK = 4e7 if LONG else 4e6
"""The most elements that a call computes with (`work`), which excludes a discrete Fourier transform of 100,000 elements by its sum"""
STEP = 1000
"""The cost of an element of a recurrence or procedure, which references execute one by one, relative to that of another element"""


class Dealt(Choosing):
    """Makes choices by a seed."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def __call__(self, strategy: Any) -> Any:
        return self.random.randrange(2**32)

    def among(self, values: Any) -> Any:
        return values[self.random.randrange(len(values))]

    def order(self, n: int) -> list[int]:
        return self.random.sample(range(n), n)


class OneLong(HypothesisDraw):
    """Draws small dims, except for the one at a place in the order of drawing."""

    def __init__(self, choose: Choosing, place: int, length: int) -> None:
        super().__init__(choose)
        self.pool = [1, 2, 3]
        self.left, self.long = place, length

    def dim(self, name: str) -> int:
        self.left -= 1
        return self.long if self.left == -1 else super().dim(name)


def counts_or_adds(node: Node) -> bool:
    """Whether a call sums elements, has a recurrence, or computes with a number of elements: otherwise no axis is too long for it."""
    counts = False
    for q in equations_below(node):
        counts |= isinstance(q.form, (RecurrenceStep, Run)) or (isinstance(q.form, Update) and q.form.op in ARITHMETIC)
        for e in (e for part in q.expressions for e in walk(part)):
            counts |= isinstance(e, (Reduce, Scalar)) and e.dtype is not None and e.dtype.is_float
    return counts


def work(node: Node) -> float:
    """Estimates how many elements a call computes with; a procedure counts as many steps for each element as there are elements."""
    total = 0.0
    for q in equations_below(node):
        vars_ = {*q.variables, *q.over}
        vars_ |= {v for part in q.expressions for e in walk(part) if isinstance(e, Reduce) for v in e.vars}
        extents = [v.extent for v in vars_] if not isinstance(q.form, Run) else [_elements(node)] * 2
        total += _size(extents) * (STEP if isinstance(q.form, (RecurrenceStep, Run, Update)) else 1)
    return total


def _elements(node: Node) -> int:
    return int(sum(_size(v.type.shape or ()) for v in (*node.inputs, *node.outputs) if v is not None))


def long_calls(p: Property) -> Iterator[Call]:
    """Yields a call for each narrow dtype, length and place of the long dim, where the rule accepts one."""
    for dtypes in narrow_dtypes(variants(p.op)[0]):
        for length, style in LENGTHS:
            for place in range(POSITIONS):
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
        shapes = list(input_shapes(case))
        if (
            any(n < 1 for s in shapes for n in s)
            or sum(_size(s) for s in shapes) > MOST
            or any(low >= high for low, high in case.ranges.values())
        ):
            continue
        c = build_call(p, Recipe(case, dtypes, attempt, style))
        try:
            node = static_node(c)
        except TypeRelationError:
            continue
        if work(node) <= MOST_WORK and counts_or_adds(node):
            return c
    return None


def _size(shape: Any) -> float:
    return float(np.prod([n if isinstance(n, int) else 1 for n in shape]))


def read_in(dtype: DType, c: Call, node: Node) -> list[Array]:
    """Computes the outputs by the reference, with all float operands in this dtype. Raises IndexError for random indices out of range."""
    inputs: dict[str, Any] = {}
    for i in node.op.inputs:
        v = c.inputs[i.name]
        if v is None and i.default is not None:
            v = in_place_of_nothing(i, node)
        inputs[i.name] = [_as(dtype, a) for a in v] if isinstance(v, list) else None if v is None else _as(dtype, v)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = c.property.reference(**inputs, **resolved(node))
    return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else [result])]


def _as(dtype: DType, a: Array) -> Array:
    return a.astype(dtype.numpy) if from_numpy(a.dtype).is_float else a


def test_long_axes(narrow_op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        node = static_node(c)
        try:
            with time_limit(SECONDS):
                want = read_in(F64, c, node)
        except (IndexError, TooLong):
            return False
        agree(run_native(c, static=True), want, c, node)
        return True

    tried = 0
    for c in repeated(narrow_op) or long_calls(PROPERTIES[narrow_op]):
        if tried and time_budget.is_over():
            break
        try:
            tried += body(c)
        except Exception as e:
            e.add_note(report(c, LAW, body))
            raise
    p = PROPERTIES[narrow_op]
    settle(
        Tally(LAW, narrow_op, tried, tried, 1, time_budget.is_over(), listed=True), p.weak, record_property, p.source
    )


def agree(got: Sequence[Array], want: Sequence[Array], c: Call, node: Node) -> None:
    """Asserts that results are close; elements that also leave the range of the accumulation dtype are excused."""
    narrow = min((d for d in c.dtypes.values() if d.is_float), key=lambda d: d.bits)
    off = [distance(g, w, narrow, c, growth_of(node.op.name)) for g, w in zip(got, want, strict=True)]
    if any((d > 1).any() for d in off):
        wider = read_in(accum(narrow), c, node)
        off = [np.where(np.isfinite(w), d, 0) for d, w in zip(off, wider, strict=True)]
    for k, d in enumerate(off):
        worst = float(d.max(initial=0))
        assert worst <= 1, f"output {k} of {c.property.op} in {narrow}: off by {worst * ULPS:.3g} ulps"


def growth_of(name: str) -> float:
    """How much larger the bound of errors of an algorithm is than that of the sum in whose place it is; 0 of what is none."""
    return max((a.growth for op in all_ops().values() for a in op.algorithms if a.op == name), default=0.0)


def distance(got: Array, want: Array, narrow: DType, c: Call, growth: float = 0.0) -> Array:
    """Returns the error of each element of a float result, relative to the allowed one; 0 for other results. An algorithm computes
    several results of the same products, in the dtype that sums have: one may be off by `growth` times what the largest is rounded by."""
    if not from_numpy(got.dtype).is_float or want.dtype.kind != "f":
        return np.zeros(())
    floats = [a.astype(np.float64) for a in c.flat_inputs() if from_numpy(a.dtype).is_float]
    scale = max((float(np.abs(a).max(initial=0)) for a in floats), default=0.0)
    largest = float(np.abs(want).max(initial=0, where=np.isfinite(want)))
    with np.errstate(all="ignore"):
        w, g = want.astype(got.dtype).astype(np.float64), got.astype(np.float64)
        margin = ULPS * float(finfo(narrow.numpy).eps) * np.abs(w) + scale * NOISE + float(finfo(got.dtype).tiny)
        margin += growth * float(finfo(accum(narrow).numpy).eps) * largest
        off = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0, np.abs(g - w) / margin)
    return np.where(np.isnan(off), np.inf, off)


__all__ = ["LAW", "long_calls", "test_long_axes"]
