"""How a node uses a constant weight, read off its equation and never off its name.

In: the equation of a node. Out: the use, or a reason why there is none. A product is rows times a matrix, times a factor, and a row added:

    y[*rows, *columns] = factor * sum(x[*rows, *summed] * weight[columns and summed, in any order]) + bias[*columns]

A lookup is `y[*rows, j] = weight[index[*rows], j]`. Any other sum of products with a constant is a contraction: a convolution, say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import F16, F32, I64, DType
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Tensor, Var, cast, const
from anyshape.equations.interpret import interpret
from anyshape.equations.traversal import substitute, walk
from anyshape.graph.value import Value
from anyshape.kernel_model.contractions import EXPRESSIONS, Contraction, contraction_of
from anyshape.quantisation.node_equation import NodeEquation

Array = NDArray[Any]

WEIGHT_DTYPES = (F32, F16)
"""Dtypes of weights that the nodes of `narrow_nodes` take in place of codes, in both runtimes"""


class UseKind(Enum):
    PRODUCT = "product"
    LOOKUP = "lookup"
    CONTRACTION = "contraction"


@dataclass(frozen=True, kw_only=True)
class WeightUse:
    """A node's use of a constant. `data` is the operand that varies.

    `order` lists the axes of the weight: first as many as `columns` that are columns of a product, entries of a table, or channels of
    another contraction, then those that are summed over. `lead` is how many dims the data has before these. `factor` and `bias` are those
    of a product; of another contraction `why` says what makes it none. `is_operand`: whether the weight itself is the node's operand, and
    not what the operand is computed of.
    """

    kind: UseKind
    weight: Value
    data: Value
    order: tuple[int, ...]
    columns: int = 1
    lead: int = 0
    factor: float = 1.0
    bias: Array | None = None
    why: str = ""
    is_operand: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the weight's axes, in `order`."""
        assert self.weight.constant is not None
        return tuple(int(self.weight.constant.shape[axis]) for axis in self.order)

    @cached_property
    def rows(self) -> Array:
        """The weight as a matrix, one row per column of the product; a view where its memory allows that."""
        assert self.weight.constant is not None
        count = math.prod(self.sizes[: self.columns])
        return self.weight.constant.transpose(self.order).reshape(count, math.prod(self.sizes[self.columns :]))


def weight_use(q: NodeEquation) -> WeightUse | str:
    """Returns the use of a constant, or why there is none."""
    lookup = _lookup(q)
    if lookup is not None:
        return lookup
    sums = [c for e in walk(q.value) if isinstance(e, Reduce) and (c := contraction_of(EXPRESSIONS, e)) is not None]
    if len(sums) != 1:
        return "its equation is not one contraction"
    sides = [_sides(sums[0], q, weight) for weight in (1, 0)]
    use = next((s for s in sides if s is not None), None)
    if use is None:
        return "no factor of its contraction is a constant"
    data, weight = use
    product = _product(q, sums[0], data, weight)
    return product if isinstance(product, WeightUse) else _contraction(q, sums[0], data, weight, product)


def _uncast(e: Expr) -> Expr:
    """Removes casts between floats, by which narrow ones are summed in f32."""
    while isinstance(e, Apply) and e.op == "cast" and e.dtype is not None and e.dtype.is_float:
        (inner,) = e.args
        if inner.dtype is None or not inner.dtype.is_float:
            break
        e = inner
    return e


def _sides(c: Contraction[Expr, Var], q: NodeEquation, which: int) -> tuple[Read, Read] | None:
    """The data and the weight of a contraction, where the factor `which` is a read of a constant of floats."""
    weight, data = _uncast(c.factors[which]), _uncast(c.factors[1 - which])
    if not (isinstance(weight, Read) and isinstance(data, Read)) or weight.outside is not None:
        return None
    constant = q.values.get(weight.tensor)
    is_weight = constant is not None and constant.constant is not None and constant.type.dtype.is_float
    return (data, weight) if is_weight and data.tensor in q.values else None


def _product(q: NodeEquation, c: Contraction[Expr, Var], data: Read, weight: Read) -> WeightUse | str:
    """The use of a matrix by which rows are multiplied, or what is different about this contraction."""
    lead = len(data.index) - len(c.summed)
    rows, columns, summed = q.index[:lead], q.index[lead:], data.index[lead:]
    axes = {i: axis for axis, i in enumerate(weight.index)}
    is_matrix = lead > 0 and data.outside is None and data.index[:lead] == rows and set(summed) == set(c.summed)
    if not is_matrix or not columns or len(axes) < len(weight.index) or set(axes) != {*columns, *summed}:
        return "it does not multiply rows by one matrix"
    outside = _outside(q, c)
    if outside is None or not math.isfinite(outside[0]):
        return "its product is not only scaled, by a finite number, and added to"
    alone: dict[Var, Expr] = {v: const(0, I64) for v in rows if isinstance(v, Var) and v.extent == 1}
    factor, addends = outside[0], [(f, substitute(a, alone)) for f, a in outside[1]]
    if not all(_is_row(a, columns, q.values) for _, a in addends):
        return "what it adds to its product is computed, or not one row"
    return WeightUse(
        kind=UseKind.PRODUCT,
        weight=q.values[weight.tensor],
        data=q.values[data.tensor],
        order=tuple(axes[i] for i in (*columns, *summed)),
        columns=len(columns),
        lead=lead,
        factor=factor,
        bias=_bias(addends, columns, q.values, weight.tensor.dtype),
    )


Addends = list[tuple[float, Expr]]
"""What is added to a product, each with its factor"""


def _outside(q: NodeEquation, c: Contraction[Expr, Var]) -> tuple[float, Addends] | None:
    """The factor of a contraction within the value of an equation, and what is added; None where it is part of anything else."""
    factor, addends, e = 1.0, Addends(), _uncast(q.value)
    while e is not c.term:
        match e:
            case Apply(op="mul", args=(a, b)) if (number := _number(b, q.values)) is not None:
                factor, e = factor * number, a
            case Apply(op="mul", args=(a, b)) if (number := _number(a, q.values)) is not None:
                factor, e = factor * number, b
            case Apply(op="add", args=(a, b)):
                inner, addend = (a, b) if any(n is c.term for n in walk(a)) else (b, a)
                addends.append((factor, addend))
                e = inner
            case _:
                return None
        e = _uncast(e)
    return factor, addends


def _number(e: Expr, values: Mapping[Tensor, Value]) -> float | None:
    """The number that an expression of constants is."""
    e = _uncast(e)
    if isinstance(e, Const):
        return float(e.value)
    v = values.get(e.tensor) if isinstance(e, Read) else None
    return None if v is None or v.constant is None or v.constant.size != 1 else float(v.constant.reshape(-1)[0])


def _reads(e: Expr) -> Iterator[Read]:
    return (r for r in walk(e) if isinstance(r, Read))


def _is_row(e: Expr, columns: Sequence[Expr], values: Mapping[Tensor, Value]) -> bool:
    """Whether an expression is of constants, and varies with the columns alone."""
    return e.free <= set(columns) and all(r.tensor in values and values[r.tensor].is_constant for r in _reads(e))


def _bias(addends: Addends, columns: Sequence[Expr], values: Mapping[Tensor, Value], dtype: DType) -> Array | None:
    """The row that is added to a product; None for nothing and for zeros."""
    row = Tensor("row", F32, tuple(v.extent for v in columns if isinstance(v, Var)))
    total = np.zeros(math.prod(n for n in row.shape if isinstance(n, int)), np.float64)
    for factor, e in addends:
        arrays = {r.tensor: values[r.tensor].constant for r in _reads(e)}
        known = {t: a for t, a in arrays.items() if a is not None}
        added = interpret([Equation(row, tuple(columns), cast(e, F32))], known)[row]
        total += factor * added.reshape(-1).astype(np.float64)
    return total.astype(dtype.numpy) if total.any() else None


def _lookup(q: NodeEquation) -> WeightUse | None:
    """The use of a table of which whole rows are picked by data."""
    e = q.value
    if not isinstance(e, Read) or e.outside is not None or len(e.index) != 2 or len(q.index) < 1:
        return None
    table, (place, column), (*rows, last) = q.values.get(e.tensor), e.index, q.index
    if table is None or table.constant is None or not table.type.dtype.is_float or column is not last:
        return None
    indices = list(_reads(place))
    if len(indices) != 1 or indices[0].index != tuple(rows) or indices[0].tensor not in q.values:
        return None
    if not (isinstance(place, Apply) and place.op == "wrap" and _index(place.args[0]) is indices[0]):
        return None
    return WeightUse(kind=UseKind.LOOKUP, weight=table, data=q.values[indices[0].tensor], order=(0, 1))


def _index(e: Expr) -> Expr:
    """Removes the cast of an index to i64."""
    return e.args[0] if isinstance(e, Apply) and e.op == "cast" else e


def _contraction(q: NodeEquation, c: Contraction[Expr, Var], data: Read, weight: Read, why: str) -> WeightUse | str:
    """The use of a weight of any rank with one axis that is not summed over: its channels. `why` says why it is no product."""
    summed = set(c.summed)
    channels = [axis for axis, i in enumerate(weight.index) if not i.free & summed]
    if len(channels) != 1:
        return why
    order = (*channels, *(axis for axis in range(len(weight.index)) if axis != channels[0]))
    kind, values = UseKind.CONTRACTION, q.values
    return WeightUse(kind=kind, weight=values[weight.tensor], data=values[data.tensor], order=order, why=why)
