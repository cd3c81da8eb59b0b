"""What narrow weights change, on inputs of the user: the result of each node, with the operands that it had before, and those of the model.

In: a model before and after, and inputs. Out: relative errors. The nodes with narrow weights are put beside the old ones, on the same
operands, in one model, of which both results are outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.frontends.onnx.embedding import embedded
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.simplified import names_in
from anyshape.graph.unused_names import unused
from anyshape.quantisation.narrowing import NarrowedModel, NarrowedWeight

Arrays = Mapping[str, NDArray[Any]]
Dims = Mapping[str, DimBinding] | None


def errors_on(
    read: Source, narrow: NarrowedModel, inputs: Arrays, dims: Dims
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Returns the error of each narrowed node of the model's own graph, by its result, and of each output of floats."""
    from anyshape.vm import compile

    own = [w for w in narrow.narrowed if not w.inside]
    model, beside = _side_by_side(read, narrow, own)
    before = compile(model, dims)
    results = dict(zip(before.output_names, before.run(inputs), strict=True))
    of_nodes = {name: relative_error(results[name], results[other]) for name, other in beside.items()}
    after = compile(narrow.model, dims)
    outputs = {
        name: relative_error(results[name], r)
        for name, r in zip(after.output_names, after.run(inputs), strict=True)
        if isinstance(r, np.ndarray) and r.dtype.kind not in "biuSUO"
    }
    return of_nodes, outputs


def _side_by_side(read: Source, narrow: NarrowedModel, own: Sequence[NarrowedWeight]) -> tuple[Any, Mapping[str, str]]:
    """Makes the model with old nodes and new ones; returns it, and the results of the new by those of the old."""
    import onnx

    model = embedded(read)
    graph, taken = model.graph, {*names_in(narrow.model.graph), *names_in(model.graph)}
    there = {t.name for t in graph.initializer}
    graph.initializer.extend(t for t in narrow.model.graph.initializer if t.name not in there)
    domains = {o.domain for o in model.opset_import}
    model.opset_import.extend(o for o in narrow.model.opset_import if o.domain not in domains)
    outputs, beside = {o.name for o in graph.output}, {}
    for w in own:
        *first, last = w.written.nodes
        beside[w.result] = unused(f"{w.result}_narrow", taken)
        graph.node.extend([*first, last])
        graph.node[-1].output[0] = beside[w.result]
    asked = dict.fromkeys(name for pair in beside.items() for name in pair if name not in outputs)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked)
    return model, beside


def relative_error(before: NDArray[Any], after: NDArray[Any]) -> float:
    """The root mean square of a difference as a share of that of the array before; inf where only one of them is finite."""
    a, b = before.astype(np.float64), after.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        lost = float(np.square(np.where(same, 0.0, a - b)).sum())
    if lost == 0:
        return 0.0
    total = float(np.square(np.where(np.isfinite(a), a, 0.0)).sum())
    return float(np.sqrt(lost / total)) if total and np.isfinite(lost) else float("inf")
