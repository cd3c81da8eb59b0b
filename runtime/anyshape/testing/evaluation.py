"""A graph evaluated node by node with the slow reading of the equations: no pass, no fusion, no program.

In: values, and arrays of the parameters by name. Out: their arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.equations.interpret import Arithmetic, interpret
from anyshape.graph.value import Node, Value
from anyshape.testing import eager
from anyshape.testing.calls import equations

Array = NDArray[Any]


def evaluate(values: Sequence[Value], given: Mapping[str, Array], arithmetic: Arithmetic | None = None) -> list[Array]:
    """All shapes below `values` are numbers."""
    known: dict[Value, Array] = {}
    return [_array(v, given, known, arithmetic) for v in values]


def _array(v: Value, given: Mapping[str, Array], known: dict[Value, Array], arithmetic: Arithmetic | None) -> Array:
    if v not in known:
        if v.node is not None:
            known.update(zip(v.node.outputs, _run(v.node, given, known, arithmetic)))
        else:
            known[v] = np.asarray(v.constant) if v.constant is not None else given[v.name]
    return known[v]


def _run(
    node: Node, given: Mapping[str, Array], known: dict[Value, Array], arithmetic: Arithmetic | None
) -> list[Array]:
    operands: list[Array | None] = []
    for x in node.inputs:
        parts = x if isinstance(x, (list, tuple)) else [x]
        operands += [None if p is None else _array(p, given, known, arithmetic) for p in parts]
    if node.op.composition is not None:
        return eager.run(node, operands, arithmetic)
    if node.op.view:
        names = [i.name for i in node.op.inputs]
        source = operands[names.index(next(iter(node.op.view.values())))]
        assert source is not None
        return [np.reshape(source, [int(str(n)) for n in node.outputs[0].type.shape or ()])]
    eqs, ins, outs = equations(node)
    present = [t for t in ins if t.absent is None]
    arrays = dict(zip(present, [a for a in operands if a is not None], strict=True))
    results = interpret(eqs.equations, arrays, arithmetic=arithmetic)
    return [results[t] for t in outs]
