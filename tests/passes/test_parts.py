"""Kernels of an op that takes several read its inputs in the order of the op, whatever the process: else no cache would know them again."""

from __future__ import annotations

from typing import Any

import pytest

from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.passes.fuse import fuse
from anyshape.passes.steps import KernelStep
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.operands import ByName, flat_values, typed
from anyshape_testing.calls.packages import register


def function_of_an_example(op: str) -> Function:
    """The first example that is no error."""
    (example, *_) = [e for e in register("anyshape_ops")[op].examples if e.error is None]
    c = call_of(op, example)
    inputs: list[Value] = flat_values(c.values(typed))
    results: Any = call(c.op, c.values(ByName(inputs)), c.params)
    return Function(inputs, results)


@pytest.mark.parametrize("op", ["tree_walks", "lstm"])
def test_inputs_are_in_the_order_of_the_op(op: str) -> None:
    steps = [s for s in fuse(function_of_an_example(op)).steps if isinstance(s, KernelStep)]
    ordered = [s for s in steps if len(s.inputs) > 1 and set(s.inputs) <= set(s.nodes[0].inputs)]
    assert ordered, "no kernel that reads several inputs"
    for s in ordered:
        places = [s.nodes[0].inputs.index(v) for v in s.inputs]
        assert places == sorted(places)
