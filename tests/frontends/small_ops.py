"""A few ops made by hand with their ONNX mappings, so that the importer is tested apart from what the specs say today."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.equations import Equations
from anyshape.equations.functions import fit, maximum
from anyshape.frontends.onnx.mappings import BOOKKEEPING, Table
from anyshape.frontends.onnx.node import OnnxNode, needed
from anyshape.graph.infer import build
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.graph.value import Value
from anyshape.rules import Bound, Rule, Vec


def _join(r: Rule, a: Any, b: Any) -> Bound:
    return r.bind(outputs={"y": r.broadcast(a, b)})


def _same(r: Rule, x: Any) -> Bound:
    return r.bind(outputs={"y": x})


def _drop(r: Rule, x: Any, axis: int) -> Bound:
    k = r.axis("axis", axis, len(x))
    return r.bind(outputs={"y": Vec([*list(x)[:k], *list(x)[k + 1 :]])})


def _add_kernel(eqs: Equations, b: Bound) -> None:
    x, z, y = eqs.tensor("a"), eqs.tensor("b"), eqs.tensor("y")
    i = eqs.indices("i", y.shape)
    eqs.define(y[i], x[fit(i, x.shape)] + z[fit(i, z.shape)])


def _relu_kernel(eqs: Equations, b: Bound) -> None:
    x, y = eqs.tensor("x"), eqs.tensor("y")
    i = eqs.indices("i", y.shape)
    eqs.define(y[i], maximum(x[i], 0))


_FLOATS = {"T": ("f32", "f64")}
ADD = OpDef(
    name="add",
    variant="",
    inputs=(InputDef("a", "T"), InputDef("b", "T")),
    params=(),
    outputs=(OutputDef("y", "T"),),
    dtypes=_FLOATS,
    relation=_join,
    kernel=_add_kernel,
)
RELU = OpDef(
    name="relu",
    variant="",
    inputs=(InputDef("x", "T"),),
    params=(),
    outputs=(OutputDef("y", "T"),),
    dtypes=_FLOATS,
    relation=_same,
    kernel=_relu_kernel,
)
DROP = OpDef(
    name="drop",
    variant="",
    inputs=(InputDef("x", "T"),),
    params=(ParamDef("axis", "axis"),),
    outputs=(OutputDef("y", "T"),),
    dtypes=_FLOATS,
    relation=_drop,
)


def add_7(n: OnnxNode) -> Sequence[Value]:
    return build(ADD, [n.input(0), n.input(1)], {}, n.source).outputs


def relu_6(n: OnnxNode) -> Sequence[Value]:
    return build(RELU, [n.input(0)], {}, n.source).outputs


def reduce_1(n: OnnxNode) -> Sequence[Value]:
    """A reduction of one axis, as far as attributes and types are concerned."""
    if n.attr("keepdims") != 0:
        n.refuse("keepdims must be 0")
    return build(DROP, [n.input(0)], {"axis": (n.attr("axes") or [0])[0]}, n.source).outputs


TABLE: Table = {
    **BOOKKEEPING,
    "Identity": {1: lambda n: [needed(n, n.input(0), "x")]},
    "Add": {7: add_7},
    "Relu": {6: relu_6, 14: relu_6},
    "ReduceMax": {1: reduce_1, 18: None},
}
