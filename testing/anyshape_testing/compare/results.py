"""Compares the results of two ways of computing one call, by what rounding explains; and results with the types of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.equations.interpret import Arithmetic
from anyshape.graph.value import Node
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import equations_below
from anyshape_testing.compare.cuts import as_cut, cuts_floats
from anyshape_testing.compare.enlarging import enlarged, is_steep, overflowing, recurs
from anyshape_testing.compare.tolerance import allowance, are_finite, assert_close
from anyshape_testing.execution.interpreter import largest_on_the_way, run_equations_with

Array = NDArray[Any]


def same_as_reference(got: list[Any], want: list[Any], c: Call, node: Node, what: str) -> bool:
    """Compares results with the reference; those of a random op by shape and dtype only."""
    if node.op.is_random:
        assert [(np.shape(g), np.asarray(g).dtype) for g in got] == [(np.shape(w), np.asarray(w).dtype) for w in want]
        return True
    return same(got, want, c, node, what)


def same(got: list[Any], want: list[Any], c: Call, node: Node, what: str) -> bool:
    """Raises AssertionError unless all results are equal, or differ by what rounding explains. Returns whether an element was compared: a
    call of which all results are empty, or so uncertain that anything would pass, does not count as tried."""
    stated = c.cached("stated", node, lambda: equations_below(node))
    most, on_the_way = 0.0, list[Array]()
    if node.op.composition is not None:
        # What a loop multiplies in every iteration grows beyond all inputs, and its terms cancel, or overflow.
        most = largest_on_the_way(c, node) * max((a.size for a in c.flat_inputs()), default=1)
        on_the_way = [np.array(largest_on_the_way(c, node))]
    assert len(got) == len(want), f"{what}: {len(got)} outputs, wanted {len(want)}"
    got, want = [np.asarray(g) for g in got], [np.asarray(w) for w in want]
    if node.op.is_for_finite and not are_finite(c.flat_inputs()):
        assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want], what
        return False

    def read(arithmetic: Arithmetic) -> list[Any]:
        return run_equations_with(c, node, arithmetic)

    want = as_cut(got, want, stated, read)

    @cache
    def spread(reductions: bool) -> list[Array]:
        return enlarged(read, recurs(stated), reductions, narrowing=node.op.composition is not None)

    moves = all(o.dtype in node.op.moves for o in node.op.outputs)
    samples = cuts_floats(stated)  # a sample between elements depends on the rounding of its position, which is no sum
    telling = False
    for k, (g, w) in enumerate(zip(got, want)):
        allowed = allowance(stated, c.flat_inputs(), np.shape(w))
        allowed = replace(allowed, scale=np.maximum(allowed.scale, most), signed_zeros=moves)
        allowed = replace(allowed, inputs=[*allowed.inputs, *on_the_way])
        allowed = replace(allowed, sums=allowed.sums and not samples)
        where = f"{what}, output {k} of {node.op.full_name}"
        try:  # first with the tolerance of sums in which no terms cancel
            telling |= assert_close(g, w, replace(allowed, scale=0.0) if allowed.sums else allowed, where)
        except AssertionError:
            allowed = replace(
                allowed, undetermined=overflowing(read, allowed.factors > 2 and are_finite(c.flat_inputs()))[k]
            )
            if allowed.sums:
                allowed, where = replace(allowed, scale=0.0, spread=spread(True)[k]), f"{where}, by its own terms"
            elif recurs(stated) or is_steep(stated):
                allowed = replace(allowed, spread=spread(recurs(stated))[k])
            telling |= assert_close(g, w, allowed, where)
    return telling


def has_types_of(node: Node, results: Sequence[Any]) -> None:
    """Asserts that results have the shapes and dtypes of the rule; a data-dependent size has to be within its bounds."""
    for value, array in zip(node.outputs, results, strict=True):
        shape = value.type.shape
        assert shape is not None and len(shape) == array.ndim, f"{value.type} against {array.shape}"
        for n, m in zip(shape, array.shape):
            low, high = dims.bounds(n)
            assert (low is None or low <= m) and (high is None or m <= high), f"{value.type} against {array.shape}"
        assert value.type.dtype.numpy == array.dtype, f"{value.type} against {array.dtype} from the reference"
