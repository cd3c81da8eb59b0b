"""Law 10: the gradients of an op, derived from its equations, are the limits of difference quotients, in f64.

Points are random, so that corners and steps have probability 0. In a random direction, the difference quotient of a random weighted sum of
the results is compared with the product of gradient and direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import ops
from anyshape.dtypes import F64, from_numpy
from anyshape.equations.expr import Const
from anyshape.equations.traversal import walk
from anyshape.errors import UnsupportedError
from anyshape.expansion.gradient import gradients
from anyshape.graph.call import call
from anyshape.graph.value import Node, Value, constant
from anyshape_testing.calls.call import Call, build_call
from anyshape_testing.calls.contents import ABOVE, UNIT
from anyshape_testing.calls.nodes import equations_below
from anyshape_testing.calls.operands import typed
from anyshape_testing.draw.validity import refused_by_elements, valid_node
from anyshape_testing.execution.evaluation import evaluate
from anyshape_testing.process.memory_limit import memory_limit
from anyshape_testing.running.random_calls import on_random_calls

Array = NDArray[Any]
STEP = 1e-6
CORNER = 1e-2
"""The relative difference of the two one-sided quotients from which on a point is a corner; elsewhere it is about STEP. At a flatter
corner, where one of many elements passes another in order, the slope is between the two: half of their difference is allowed."""
ROOM = 1 << 28
"""Bytes that the interpreter may take for a call"""
INSIDE = ("plain", UNIT, ABOVE)
"""Styles of contents that are tried until the results are finite: a function may have no value for most numbers"""


def test_gradients_are_limits_of_differences(smooth_op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        return any(map(_holds_of, INSIDE, repeat(c)))

    def _holds_of(style: str, c: Call) -> bool:
        smooth = in_f64(c, style)
        try:
            with memory_limit(ROOM):
                return not _rounds(valid_node(smooth)) and not refused_by_elements(smooth) and holds(smooth)
        except MemoryError:  # the interpreter holds all points of an equation: of a gradient, those of its sums too
            return False

    on_random_calls(smooth_op, "10 gradients == limits of differences", record_property, body, share=20)


def in_f64(c: Call, style: str) -> Call:
    """The call with other floats, in f64 where the op allows it; its integers are kept, since the asserts accept them."""
    assert c.recipe is not None
    wide = {v: "f64" if "f64" in c.op.dtypes.get(v, ()) else d for v, d in c.recipe.dtypes.items()}
    smooth = build_call(c.property, replace(c.recipe, dtypes=wide, style=style))
    return replace(smooth, inputs={name: _as_before(v, c.inputs[name]) for name, v in smooth.inputs.items()})


def _as_before(new: Any, old: Any) -> Any:
    if isinstance(new, list):
        return [_as_before(a, b) for a, b in zip(new, old, strict=True)]
    return old if new is not None and new.dtype == old.dtype and not from_numpy(new.dtype).is_float else new


def _rounds(node: Node) -> bool:
    """Whether something is computed in fewer bits than f64, in which a small difference is lost. A constant is not computed: an optional
    input that is absent is one, of whatever dtype was drawn for it."""
    dtypes = {e.dtype for q in equations_below(node) for e in walk(q.value) if not isinstance(e, Const)}
    return any(d is not None and d.is_float and d is not F64 for d in dtypes)


def _weighted(results: Sequence[Value], rng: np.random.Generator) -> Value:
    """Returns the sum of all elements of the results with random weights, or with their places where elements decide how many there are."""
    sums = [ops.sum(ops.mul(v, _weights(v, rng) if v.type.is_static else _places(v))) for v in results]
    return reduce(ops.add, sums)


def _weights(v: Value, rng: np.random.Generator) -> Value:
    return constant(rng.normal(size=[int(str(n)) for n in v.type.shape or ()]))


def _places(v: Value) -> Value:
    """Returns the product of an element's places along the axes, counted from 1."""
    ones = ops.full(constant(np.array(1.0)), ops.shape_of(v))
    return reduce(ops.mul, (ops.cumsum(ones, axis) for axis in range(len(v.type.shape or ()))), ones)


def refusal(node: Node) -> str | None:
    """Says why the results of a call have no gradient, with the line of the spec; None where they have one."""
    by = [v for v in node.inputs if v is not None and v.type.dtype is F64]
    results = [v for v in node.outputs if v.type.dtype is F64]
    if not by or not results:
        return "it makes no f64 of f64"
    try:
        gradients(_weighted(results, np.random.default_rng(0)), by)
    except UnsupportedError as e:
        return str(e)
    return "it computes in fewer bits than f64" if _rounds(node) else None


def holds(c: Call) -> bool:
    """Whether gradient and difference quotient were compared: False where the op has no gradient or no f64, at a corner, where differences
    to both sides are not the same, and at a step, where those over half the distance are others. Raises AssertionError if they differ."""
    arrays: dict[str, Array] = {}

    def operand(a: Array, name: str) -> Value:
        arrays[name] = a
        return typed(a, name)

    operands = c.values(operand)
    params = {v.name: v for x in operands if x is not None for v in (x if isinstance(x, list) else [x])}
    by = [v for v in params.values() if v.type.dtype is F64]
    results = [v for v in call(c.op, operands, c.params) if v.type.dtype is F64]
    if not by or not results:
        return False
    rng = np.random.default_rng(0)
    total = _weighted(results, rng)
    try:
        derivatives = gradients(total, by)
    except UnsupportedError:
        return False
    direction = {v.name: rng.normal(size=arrays[v.name].shape) for v in by}
    with np.errstate(all="ignore"):
        slopes = evaluate(derivatives, arrays)
        far, near, at, nearer, farther = (
            evaluate([total], {n: a + step * direction[n] if n in direction else a for n, a in arrays.items()})[0]
            for step in (-STEP, -STEP / 2, 0.0, STEP / 2, STEP)
        )
        quotient, closer = (farther - far) / (2 * STEP), (nearer - near) / STEP
        bend = abs((farther - at) - (at - far)) / STEP
        slope = sum(float(np.sum(g * direction[v.name])) for g, v in zip(slopes, by, strict=True))
    if not np.isfinite(quotient):
        return False
    scale = sum(float(np.sum(np.abs(g * direction[v.name]))) for g, v in zip(slopes, by)) + abs(float(far))
    allowed = 1e-5 * scale + 1e-6
    if bend > CORNER * (scale + 1) or abs(closer - quotient) > allowed:
        return False
    assert abs(slope - quotient) <= allowed + bend / 2, f"gradients say {slope}, differences {quotient}"
    return True
