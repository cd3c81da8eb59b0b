"""Ops written by hand, so that the tests of the VM depend on no spec."""

from __future__ import annotations

from typing import Any

from anyshape.equations import Equations
from anyshape.equations import functions as fn
from anyshape.equations.expr import reduce_node
from anyshape.graph.infer import build
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.graph.value import Value
from anyshape.rules import Bound, Rule, Vec

NUMBERS = {"T": ("f32", "f64", "i32", "i64", "bool")}


def _binary_relation(r: Rule, *, a: Vec, b: Vec) -> Bound:
    return r.bind(outputs={"y": r.broadcast(a, b)}, i=r.broadcast(a, b))


def _binary_kernel(op: str) -> Any:
    def kernel(eqs: Equations, b: Bound) -> None:
        x, z, y = eqs.tensor("a"), eqs.tensor("b"), eqs.tensor("y")
        i = eqs.indices("i", y.shape)
        left, right = x[fn.fit(i, x.shape)], z[fn.fit(i, z.shape)]
        eqs.define(y[i], {"add": left + right, "mul": left * right}[op])

    return kernel


def _binary(name: str) -> OpDef:
    inputs = (InputDef("a", "T"), InputDef("b", "T"))
    return OpDef(
        name=name,
        variant="",
        inputs=inputs,
        params=(),
        outputs=(OutputDef("y", "T"),),
        dtypes=NUMBERS,
        relation=_binary_relation,
        kernel=_binary_kernel(name),
    )


def _double_kernel(eqs: Equations, b: Bound) -> None:
    x, y = eqs.tensor("x"), eqs.tensor("y")
    i = eqs.indices("i", y.shape)
    eqs.define(y[i], x[i] + x[i])


def _sum_kernel(eqs: Equations, b: Bound) -> None:
    x, y = eqs.tensor("x"), eqs.tensor("y")
    i = eqs.indices("i", x.shape)
    axes = b.axes
    rest = tuple(v for k, v in enumerate(i) if k not in axes)
    eqs.define(y[rest], reduce_node("sum", tuple(i[k] for k in axes), x[i], None, x.dtype))


def _sum_relation(r: Rule, *, x: Vec, axes: Vec) -> Bound:
    picked = tuple(r.axes("axes", axes, len(x)))
    return r.bind(outputs={"y": Vec(n for k, n in enumerate(x) if k not in picked)}, axes=picked)


def _reshape_relation(r: Rule, *, x: Vec, newshape: Vec) -> Bound:
    from anyshape.rules import prod

    elements = prod(newshape)
    r.require(_equal(prod(x), elements), lambda: f"cannot view {prod(x)} elements as {newshape}")
    return r.bind(outputs={"y": newshape})


def _equal(a: Any, b: Any) -> Any:
    from anyshape.dims import eq

    return eq(a, b)


def _shape_relation(r: Rule, *, x: Vec) -> Bound:
    return r.bind(outputs={"y": Vec((len(x),))}, d=x)


def _shape_kernel(eqs: Equations, b: Bound) -> None:
    y = eqs.tensor("y")
    for k, n in enumerate(b.d):
        eqs.define(y[k], n)


def _fill_relation(r: Rule, *, x: Vec, dims: Vec) -> Bound:
    for n in dims:
        r.require(_at_least(n), lambda n=n: f"a dim cannot be negative, got {n}")
    return r.bind(outputs={"y": dims})


def _at_least(n: Any) -> Any:
    from anyshape.dims import ge

    return ge(n, 0)


def _fill_kernel(eqs: Equations, b: Bound) -> None:
    x, y = eqs.tensor("x"), eqs.tensor("y")
    eqs.define(y[eqs.indices("i", y.shape)], x[()])


def _pick_relation(r: Rule, *, x: Vec, i: Vec) -> Bound:
    return r.bind(outputs={"y": i}, n=len(i))


def _pick_kernel(eqs: Equations, b: Bound) -> None:
    x, i, y = eqs.tensor("x"), eqs.tensor("i"), eqs.tensor("y")
    k = eqs.indices("k", y.shape)
    eqs.define(y[k], x[fn.wrap(i[k], x.shape[0])])


def _flatten_relation(r: Rule, *, x: Vec) -> Bound:
    from anyshape.rules import prod

    return r.bind(outputs={"y": Vec((prod(x),))})


def _product_relation(r: Rule, *, a: Vec, b: Vec) -> Bound:
    k = r.equal(a[1], b[0], "the rows of b")
    return r.bind(outputs={"y": Vec((a[0], b[1]))}, k=k)


def _product_kernel(eqs: Equations, b: Bound) -> None:
    x, z, y = eqs.tensor("a"), eqs.tensor("b"), eqs.tensor("y")
    i, j = eqs.indices("i", y.shape)
    k = eqs.index("k", b.k)
    eqs.define(y[i, j], reduce_node("sum", (k,), x[i, k] * z[k, j], None, y.dtype))


X = (InputDef("x", "T"),)
Y = (OutputDef("y", "T"),)
ADD, MUL = _binary("add"), _binary("mul")
DOUBLE = OpDef(
    name="double",
    variant="",
    inputs=X,
    params=(),
    outputs=Y,
    dtypes=NUMBERS,
    relation=lambda r, *, x: r.bind(outputs={"y": x}),
    kernel=_double_kernel,
)
AXES = ParamDef("axes", "axes")
STATIC_SUM = OpDef(
    name="sum",
    variant="static",
    inputs=X,
    params=(AXES,),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_sum_relation,
    kernel=_sum_kernel,
)
DYN_SUM = OpDef(
    name="sum",
    variant="dyn",
    inputs=X,
    params=(ParamDef("axes", "axes", operand=True),),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_sum_relation,
    kernel=_sum_kernel,
)
NEWSHAPE = ParamDef("newshape", "ints", operand=True)
RESHAPE = OpDef(
    name="reshape",
    variant="dyn",
    inputs=X,
    params=(NEWSHAPE,),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_reshape_relation,
    view={"y": "x"},
)
FLATTEN = OpDef(
    name="flatten",
    variant="",
    inputs=X,
    params=(),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_flatten_relation,
    view={"y": "x"},
)
SHAPE_OF = OpDef(
    name="shape_of",
    variant="",
    inputs=X,
    params=(),
    outputs=(OutputDef("y", "i64"),),
    dtypes=NUMBERS,
    relation=_shape_relation,
    kernel=_shape_kernel,
)
DIMS = ParamDef("dims", "ints", operand=True)
FILL = OpDef(
    name="fill",
    variant="dyn",
    inputs=X,
    params=(DIMS,),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_fill_relation,
    kernel=_fill_kernel,
)
PICK = OpDef(
    name="pick",
    variant="",
    inputs=(InputDef("x", "T"), InputDef("i", "i64")),
    params=(),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_pick_relation,
    kernel=_pick_kernel,
)
PAIR = (InputDef("a", "T"), InputDef("b", "T"))
PRODUCT = OpDef(
    name="product",
    variant="",
    inputs=PAIR,
    params=(),
    outputs=Y,
    dtypes=NUMBERS,
    relation=_product_relation,
    kernel=_product_kernel,
)
OPS = {o.full_name: o for o in (PRODUCT, ADD, MUL, DOUBLE, STATIC_SUM, DYN_SUM, RESHAPE, FLATTEN, SHAPE_OF, FILL, PICK)}


def call(op: OpDef, *inputs: Value | None, source: str = "", **attrs: Any) -> Value:
    return build(op, inputs, attrs, source).outputs[0]
