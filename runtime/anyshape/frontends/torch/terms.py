"""Functions of terms of ATen mappings: what torch does before an op, and operators of which no op is one.

In: a node and its operands. Out: values, or arguments of an op's call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshape import ops
from anyshape.dims import Size, eq, ne
from anyshape.dtypes import BOOL, F32, F64, I64, U8, DType
from anyshape.frontends.torch.dtypes import dtype_of_torch, torch_of_dtype
from anyshape.frontends.torch.indexing import diagonal, indexed, masked_scatter, put_along, put_at, put_slice
from anyshape.frontends.torch.node import AtenNode
from anyshape.frontends.torch.recurrent import gru_layers, lstm_layers, rnn_layers
from anyshape.graph.require import require
from anyshape.graph.value import Value, constant


def promoted(n: AtenNode, *operands: Any) -> list[Any]:
    """Operands in the dtype that torch gives their result: tensors with dims decide before those without, and those before numbers,
    unless what comes later is of a higher kind (bool, integer, float). None stays None."""
    present = [v for v in operands if v is not None]
    dtype = _common(n, present)
    return [None if v is None else _as_dtype(v, dtype) for v in operands]


def floating(n: AtenNode, x: Any) -> Any:
    """A tensor of floats as it is; integers and truths as f32, numbers of Python as f64, as functions of real numbers take them."""
    if isinstance(x, Value):
        return x if x.type.dtype.is_float else _as_dtype(x, F64 if n.is_number(x) else F32)
    return constant(np.asarray(x, np.float64))


def _common(n: AtenNode, operands: Sequence[Any]) -> DType:
    with_dims, without, numbers = list[DType](), list[DType](), list[DType]()
    for v in operands:
        if not isinstance(v, Value):
            numbers.append(BOOL if isinstance(v, bool) else I64 if isinstance(v, int) else F32)
        elif n.is_number(v):
            numbers.append(v.type.dtype)
        else:
            (without if v.type.rank == 0 else with_dims).append(v.type.dtype)
    if not with_dims and not without:  # sizes, which are computed with in 64 bits
        return F64 if any(t.is_float for t in numbers) else _joined(numbers)
    best: DType | None = None
    for group in (with_dims, without, [F32 if t.is_float else t for t in numbers]):
        if group:
            best = _joined(group) if best is None else _combined(best, _joined(group))
    assert best is not None
    return best


def _combined(higher: DType, lower: DType) -> DType:
    """The dtype of a result whose operands are of two groups: the lower one counts where it is of a higher kind."""
    return _joined([higher, lower]) if _kind(lower) > _kind(higher) else higher


def _kind(t: DType) -> int:
    return 2 if t.is_float else 1 if t.is_integer else 0


def _joined(dtypes: Sequence[DType]) -> DType:
    import torch

    first, *rest = (torch_of_dtype(t) for t in dtypes)
    for t in rest:
        first = torch.promote_types(first, t)
    return dtype_of_torch(first)


def _as_dtype(v: Any, dtype: DType) -> Value:
    from anyshape import ops

    if not isinstance(v, Value):
        return constant(np.asarray(v).astype(dtype.numpy))
    return v if v.type.dtype is dtype else ops.cast(v, to=dtype)


def expanded(n: AtenNode, sizes: Sequence[Any]) -> list[Any]:
    """Sizes to expand to, in which -1 leaves a dim as it is, as 1 does with us."""
    return [1 if isinstance(s, int) and s == -1 else s for s in sizes]


def border(n: AtenNode, pads: Sequence[Any]) -> list[Any]:
    """Pads of the last dim, then of the one before it, …, each before and after: all before in the order of the axes -1, -2, …, then all
    after."""
    return [*pads[::2], *pads[1::2]]


def last_axes(n: AtenNode, pads: Sequence[Any]) -> list[int]:
    """Lists the last axes, as many as there are pairs of pads, the last one first."""
    return [-1 - k for k in range(len(pads) // 2)]


def each_of(n: AtenNode, numbers: Any, count: int) -> list[Any]:
    """Numbers, one for each of some axes: a single one is for all; none are those of the attribute kernel_size, as a stride is."""
    listed = list(numbers) if isinstance(numbers, Sequence) else [numbers]
    if not listed:
        return each_of(n, n.attr("kernel_size"), count)
    return listed * count if len(listed) == 1 else listed


def twice(n: AtenNode, numbers: Sequence[Any]) -> list[Any]:
    """Pads before some axes, and as many after them."""
    return [*numbers, *numbers]


def ones_of(n: AtenNode, x: Value, axes: Any) -> list[int]:
    """Returns the axes of some along which a tensor has size 1; torch leaves all others as they are. What torch took for another size than
    1 when it traced the model is required to be one."""
    ones = list[int]()
    for axis in axes if isinstance(axes, Sequence) else [axes]:
        size = x.shape[axis] if x.shape else 0
        if isinstance(size, int):
            if size == 1 and axis % x.ndim not in ones:
                ones.append(axis % x.ndim)
        else:
            require(
                ne(size, 1),
                f"squeeze leaves axis {axis} of {x.type} where it is, as for the sizes of the example",
                n.source,
            )
    return ones


def axes_of(n: AtenNode, x: Value, axes: Any) -> list[int] | None:
    """The axes of a reduction, None for all: torch writes none of them for all, and axis 0 of a tensor without dims."""
    if axes is None or x.type.rank == 0:
        return None
    listed = list(axes) if isinstance(axes, Sequence) else [axes]
    return listed or None


def axes_but(n: AtenNode, x: Value, axis: int) -> list[int]:
    """All axes but one."""
    return [k for k in range(x.ndim) if k != axis]


def along_channels(n: AtenNode, w: Value, x: Value) -> Value:
    """A vector along the second axis of a tensor."""
    behind = x.ndim - 2
    return ops.expand_dims(w, axes=[1 + k for k in range(behind)], source=n.source) if behind > 0 else w


def size_along(n: AtenNode, x: Value, axes: Sequence[int] | None) -> Value:
    """How many elements a tensor has along some axes, as a scalar of i64."""
    sizes = ops.shape_of(x, source=n.source)
    picked = sizes if axes is None else ops.gather(sizes, np.array([a % x.ndim for a in axes], np.int64))
    return ops.prod(picked, source=n.source)


def not_empty(n: AtenNode, tensors: Sequence[Value]) -> list[Value]:
    """Tensors to join, without vectors of no elements among tensors of more dims, which torch leaves out."""
    most = max(v.ndim for v in tensors)
    return [v for v in tensors if v.ndim == most or v.shape != (0,)]


def part_of(n: AtenNode, src: Value, index: Value) -> Value:
    """The first elements along each axis, as many as an index has there."""
    if src.type.shape == index.type.shape:
        return src
    starts = [0] * src.ndim
    return ops.slice(src, starts, ops.shape_of(index, source=n.source), source=n.source)


def comparable(n: AtenNode, *operands: Any) -> list[Any]:
    """Operands of an order, promoted; truths are 0 and 1."""
    return [v if v is None or not v.type.dtype.is_bool else ops.cast(v, to=U8) for v in promoted(n, *operands)]


def scaled(n: AtenNode, y: Value, factor: Any) -> Value:
    """A tensor times a number, in the dtype of the tensor."""
    if isinstance(factor, int) and factor == 1:
        return y
    return ops.mul(y, _as_dtype(factor, y.type.dtype), source=n.source)


def numbered(n: AtenNode, start: Any, end: Any, step: Any) -> Value:
    """Numbers from `start` to before `end`, in the dtype of the result. Those of floats are counted in f64."""
    to = n.output_dtype
    if any(isinstance(v, float) or (isinstance(v, Value) and v.type.dtype.is_float) for v in (start, end, step)):
        if any(isinstance(v, Value) for v in (start, end, step)):
            n.refuse("a range whose ends are floats that are computed; count in integers and scale them")
        return constant(np.arange(float(start), float(end), float(step)).astype(to.numpy))
    return _as_dtype(ops.arange(start, end, step, source=n.source), to)


def average_of_parts(n: AtenNode, x: Value, sizes: Sequence[Any]) -> Value:
    """The means of so many parts of each of the last axes, as equal as can be: part i of m is from i * n // m to
    ceil((i + 1) * n / m)."""
    first = x.ndim - len(sizes)
    if all(isinstance(m, int) and m == 1 for m in sizes):
        return ops.mean(x, axes=[first + k for k in range(len(sizes))], keepdims=True, source=n.source)
    for k, count in enumerate(sizes):
        x = _averaged(n, x, first + k, count)
    return x


def _averaged(n: AtenNode, x: Value, axis: int, count: Any) -> Value:
    """Averages parts of one axis, as a product with a matrix of weights."""
    size = x.shape[axis]
    part = ops.expand_dims(ops.arange(0, count), axes=[1])
    start = ops.div(ops.mul(part, size), count)
    end = ops.div(ops.add(ops.mul(ops.add(part, 1), size), ops.sub(count, 1)), count)
    at = ops.expand_dims(ops.arange(0, size), axes=[0])
    inside = ops.logical_and(ops.greater_equal(at, start), ops.less(at, end))
    dtype = x.type.dtype
    weights = ops.div(ops.cast(inside, to=dtype), ops.cast(ops.sub(end, start), to=dtype))
    last = [k for k in range(x.ndim) if k != axis] + [axis]
    back = [last.index(k) for k in range(x.ndim)]
    product = ops.matmul(ops.transpose(x, axes=last), ops.transpose(weights, axes=[1, 0]), source=n.source)
    return ops.transpose(product, axes=back)


def attended(n: AtenNode, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
    """Scaled dot product attention of torch: a mask of truths says which keys count, one of floats is added; `is_causal` lets query i see
    the keys up to i."""
    if n.attr("dropout_p"):
        n.refuse("attention with dropout; call model.eval()")
    if n.attr("is_causal"):
        mask = _lower_triangle(n, q.shape[-2], k.shape[-2])
        causal = eq(q.shape[-2], k.shape[-2]) is True
        mask = None if causal else mask
    else:
        causal = False
    bias = None
    if mask is not None:
        dtype = q.type.dtype
        seen, hidden = (constant(np.array(s, dtype.numpy)) for s in (0, -np.inf))
        bias = ops.where(mask, seen, hidden) if mask.type.dtype.is_bool else mask
    lead = q.ndim - 4
    shape = ops.shape_of(q, end=-1)
    if lead != 0:
        q, k, v = (_of_four(x) for x in (q, k, v))
        if bias is not None and bias.ndim > 2:
            bias = (
                _of_four(bias)
                if bias.ndim == lead + 4
                else n.refuse(f"a mask {bias.type} of another rank than the queries")
            )
    y = ops.attention(
        q, k, v, bias, causal=causal, behind=0 if causal else None, scale=n.attr("scale", 0.0), source=n.source
    )
    if lead == 0:
        return y
    return ops.reshape(y, ops.concat([shape, ops.shape_of(v, start=3)], axis=0), allowzero=True)


def _of_four(x: Value) -> Value:
    """A tensor with the dims ahead of its last three as one."""
    if x.ndim == 3:
        return ops.expand_dims(x, axes=[0])
    if x.ndim == 2:
        return ops.expand_dims(x, axes=[0, 1])
    return ops.reshape(x, ops.concat([np.array([-1]), ops.shape_of(x, start=x.ndim - 3)], axis=0))


def _lower_triangle(n: AtenNode, rows: Size, columns: Size) -> Value:
    """Whether a column is not beyond the row."""
    row = ops.expand_dims(ops.arange(0, rows), axes=[1])
    return ops.less_equal(ops.expand_dims(ops.arange(0, columns), axes=[0]), row, source=n.source)


__all__ = [
    "along_channels",
    "attended",
    "average_of_parts",
    "axes_but",
    "axes_of",
    "border",
    "comparable",
    "diagonal",
    "each_of",
    "expanded",
    "floating",
    "gru_layers",
    "indexed",
    "last_axes",
    "lstm_layers",
    "masked_scatter",
    "not_empty",
    "numbered",
    "ones_of",
    "part_of",
    "promoted",
    "put_along",
    "put_at",
    "put_slice",
    "rnn_layers",
    "scaled",
    "size_along",
    "twice",
]
