"""Computes a call by the interpreter of its equations; bodies of composed ops node by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.equations import entropy
from anyshape.equations.interpret import Arithmetic, interpret
from anyshape.graph.value import Node
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import equations
from anyshape_testing.execution import eager

Array = NDArray[Any]


def run_equations(c: Call, node: Node) -> list[Array]:
    """Computes the outputs by the interpreter, and caches them; those of a view by reshaping, of a composed op node by node."""
    return _read(c, node).results


def largest_on_the_way(c: Call, node: Node) -> float:
    """Returns the largest magnitude of a finite float among intermediate results of a composed op; the run is cached."""
    return _read(c, node).largest


def run_equations_with(c: Call, node: Node, arithmetic: Arithmetic) -> list[Array]:
    """Computes the outputs by the interpreter under another arithmetic of elements."""
    return _read_anew(c, node, arithmetic).results


@dataclass(frozen=True)
class _Reading:
    results: list[Array]
    largest: float = 0.0


def _read(c: Call, node: Node) -> _Reading:
    return c.cached("equations", node, lambda: _read_anew(c, node))


def _read_anew(c: Call, node: Node, arithmetic: Arithmetic | None = None) -> _Reading:
    if node.op.view:
        source = c.inputs[next(iter(node.op.view.values()))]
        shape = node.outputs[0].type.shape
        assert shape is not None
        return _Reading([np.reshape(source, [int(str(n)) for n in shape])])
    if node.op.composition is not None:
        parts = eager.Eager(arithmetic)
        return _Reading(parts.run(node, operands_of(c)), parts.largest)
    eqs, ins, outs = equations(node)
    arrays = dict(zip([t for t in ins if t.absent is None], c.flat_inputs(), strict=True))
    entropy.restart(0)
    results = interpret(eqs.equations, arrays, arithmetic=arithmetic)
    return _Reading([results[t] for t in outs])


def operands_of(c: Call) -> list[Array | None]:
    """Lists the arrays of all inputs, flattened; None where one is absent."""
    return [a for v in c.inputs.values() for a in (v if isinstance(v, list) else [v])]
