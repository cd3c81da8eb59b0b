"""Passes go into functions that are called, and so does what `executor="graph"` refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.errors import UnsupportedError
from anyshape.graph.callee import callees_of
from anyshape.graph.function import Function
from anyshape.passes import dyn_to_static, optimise

X = anyshape.input("x", "f32[4, 6]")
A = np.arange(24, dtype=np.float32).reshape(4, 6)


def transposed() -> Function:
    iteration = control.function("turn", {"p": "f32[4, 6]", "k": "i64[]"}, ["f32[4, 6]"])

    def body(p: Any, k: Any) -> Any:
        def again() -> Any:
            there = ops.dyn.reshape(p, ops.flip(ops.shape_of(p)))
            return control.call(iteration, [ops.dyn.reshape(there, ops.shape_of(p)), ops.sub(k, 1)])

        return control.if_(ops.greater(k, 0), again, lambda: ops.mul(p, 2.0))

    iteration = control.define(iteration, body)
    k = anyshape.input("k", "i64[]")
    return anyshape.function([X, k], control.call(iteration, [X, k]))


@pytest.mark.parametrize("one", [dyn_to_static, optimise])
def test_dyn_becomes_static_in_a_function_that_calls_itself(one: Any) -> None:
    f = transposed()
    g = one(f)
    assert "dyn.reshape" in str(f) and "dyn." not in str(g)
    (callee,) = callees_of([g])
    assert callees_of([callee.defined()]) == {callee: 0}  # it calls what was made of it
    assert one(g) is g
    for h in (f, g):
        np.testing.assert_array_equal(anyshape.compile(h)(A, np.array(3)), 2 * A)


def test_graph_refuses_what_is_dynamic_in_a_callee() -> None:
    callee = control.function("found", {"p": "f32[6]"}, ["i64[]"])
    callee = control.define(callee, lambda p: ops.sum(ops.nonzero(p), axes=(0, 1)))
    p = anyshape.input("p", "f32[6]")
    f = anyshape.function([p], control.call(callee, [p]))
    assert anyshape.compile(f)(A[0]) == 15
    with pytest.raises(UnsupportedError, match="found: nonzero: its dims come from a size of nonzero"):
        anyshape.compile(f, executor="graph")


def test_graph_refuses_recursion_and_lists() -> None:
    with pytest.raises(UnsupportedError, match="turn: how deep its calls are nested is known at run time"):
        anyshape.compile(transposed(), executor="graph")
    k = anyshape.input("k", "i64[]")
    (rows,) = control.loop(k, lambda i, kept: [lists.append(kept, X)], [lists.of([X])])
    with pytest.raises(UnsupportedError, match="list: how many elements it comes to have is known at run time"):
        anyshape.compile(anyshape.function([X, k], rows), executor="graph")
    (y,) = control.loop(k, lambda i, s: [ops.add(s, X)], [X])
    assert anyshape.compile(anyshape.function([X, k], y), executor="graph")(A, np.array(2)).shape == (4, 6)
