"""Evaluates a graph node by node with the interpreter of equations, under the types that its nodes have (`eager` infers them again for the
operands). There are no passes, fusion or compiled programs.

In: values, and arrays of the parameters by name. Out: the arrays of the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.equations.interpret import Arithmetic
from anyshape.graph.value import Node, Value
from anyshape_testing.execution import eager

Array = NDArray[Any]


def evaluate(values: Sequence[Value], arrays: Mapping[str, Array], arithmetic: Arithmetic | None = None) -> list[Array]:
    """Evaluates values of a graph in which all shapes are numbers, or decided by elements."""
    known: dict[Value, Array] = {}
    return [_array(v, arrays, known, arithmetic) for v in values]


def _array(v: Value, arrays: Mapping[str, Array], known: dict[Value, Array], arithmetic: Arithmetic | None) -> Array:
    if v not in known:
        if v.node is not None:
            known.update(zip(v.node.outputs, _run(v.node, arrays, known, arithmetic)))
        else:
            known[v] = np.asarray(v.constant) if v.constant is not None else arrays[v.name]
    return known[v]


def _run(
    node: Node, arrays: Mapping[str, Array], known: dict[Value, Array], arithmetic: Arithmetic | None
) -> list[Array]:
    operands = [None if x is None else _array(x, arrays, known, arithmetic) for x in node.inputs]
    if node.op.composition is not None or not all(
        v.type.is_static for v in (*node.inputs, *node.outputs) if v is not None
    ):
        return eager.run(node, operands, arithmetic)
    return eager.by_equations(node, operands, arithmetic)
