"""The three ways to compute a call: the oracle of the spec, the slow reading of its equations, and native code.

`run_native` is the one place that says what native means.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import anyshape
import numpy as np
from anyshape.equations.interpret import interpret
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from numpy.typing import NDArray

from tests.laws.calls import Call, equations, resolved

Array = NDArray[Any]


def run_reference(c: Call, node: Node) -> list[Array]:
    """The outputs by `reference:`, flattened; absent inputs are their constants."""
    given: dict[str, Any] = {}
    for i in node.op.inputs:
        v = c.inputs[i.name]
        if v is None:
            dtype = node.dtypes[i.dtype].numpy if i.dtype in node.dtypes else None
            v = np.asarray(i.default, dtype)
        given[i.name] = v
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = c.property.reference(**given, **resolved(node, c.property))
    results = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(r) for r in results]


def run_equations(c: Call, node: Node) -> list[Array]:
    """The outputs by the slow reading of the equations (or the view)."""
    if node.op.view:
        source = c.inputs[next(iter(node.op.view.values()))]
        shape = node.outputs[0].type.shape
        assert shape is not None
        return [np.reshape(source, [int(str(n)) for n in shape])]
    eqs, ins, outs = equations(node)
    arrays = dict(zip([t for t in ins if t.absent is None], c.flat_inputs(), strict=True))
    results = interpret(eqs.equations, arrays)
    return [results[t] for t in outs]


def run_native(params: Sequence[Value], results: Sequence[Value], arrays: Mapping[str, Array]) -> list[Array]:
    """Compiled, then run on arrays by the names of the params."""
    f = Function(params, results)
    return anyshape.compile(f).run({p.name: arrays[p.name] for p in params})
