"""Tensors as indices of others, as NumPy and torch have them, for mappings.

In: a tensor and, for its first axes, index tensors, masks, or None for a whole axis. Out: values of `ops`. A mask stands for the positions
where it holds, one index for each of its axes; all indices broadcast. Their dims are in the place of the indexed axes where these are side
by side, and first where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape import ops
from anyshape.dims import INT64_MAX, maximum, minimum
from anyshape.dtypes import I64, U8
from anyshape.frontends.torch.node import AtenNode
from anyshape.graph.value import Value


@dataclass(frozen=True)
class _Indices:
    """Index tensors of one shape, and the axes that they are of."""

    tensors: tuple[Value, ...]
    axes: tuple[int, ...]
    rank: int
    """the rank of the tensor that is indexed"""

    @property
    def first(self) -> int:
        """The axis of the result at which the dims of the indices begin."""
        side_by_side = self.axes == tuple(range(self.axes[0], self.axes[0] + len(self.axes)))
        return self.axes[0] if side_by_side else 0

    @property
    def ahead(self) -> list[int]:
        """The order of axes in which the indexed ones are first."""
        return [*self.axes, *(k for k in range(self.rank) if k not in self.axes)]

    def rows(self) -> Value:
        """The indices as one tensor, whose last dim is along the axes."""
        return ops.stack(self.tensors, axis=-1)

    def back(self) -> list[int]:
        """The order that puts the dims of the indices, which are first, where they belong."""
        dims = self.tensors[0].type.rank or 0
        rest = self.rank - len(self.axes)
        return [*range(dims, dims + self.first), *range(dims), *range(dims + self.first, dims + rest)]


def indexed(n: AtenNode, x: Value, indices: Sequence[Value | None]) -> Value:
    """`x[indices]`."""
    if not any(v is not None for v in indices):
        return x
    mask = _first_mask(indices)
    if mask is not None:
        return ops.gather_nd(x, ops.argwhere(mask, source=n.source), source=n.source)
    of = _indices(n, x, indices)
    if len(of.axes) == 1:
        return ops.gather(x, of.tensors[0], axis=of.axes[0], source=n.source)
    return _moved(ops.gather_nd(_moved(x, of.ahead), of.rows(), source=n.source), of.back())


def index_put(n: AtenNode, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """x with `x[indices] = values`, or with `+=`, which counts an element as often as it is named."""
    mask = _first_mask(indices)
    behind = -1 if mask is None else _rank(n, x) - _rank(n, mask)
    if mask is not None and not accumulate and _rank(n, values) <= behind:
        return ops.where(_with_axes(mask, behind), values, x, source=n.source)
    of = _indices(n, x, indices)
    ahead = _moved(x, of.ahead)
    there = _moved(ops.gather_nd(ahead, of.rows(), source=n.source), of.back())
    updates = _moved(ops.broadcast_to(values, ops.shape_of(there)), _inverse(of.back()))
    narrow = x.type.dtype.is_bool
    target, updates = (ops.cast(v, to=U8) if narrow else v for v in (ahead, updates))
    put = ops.scatter_nd(target, of.rows(), updates, reduction="add" if accumulate else "none", source=n.source)
    return _moved(ops.cast(put, to=x.type.dtype) if narrow else put, _inverse(of.ahead))


def masked_scatter(n: AtenNode, x: Value, mask: Value, source: Value) -> Value:
    """x with the elements where a mask holds replaced by those of `source`, in order."""
    x = ops.broadcast_to(x, ops.shape_of(mask))
    mask = ops.broadcast_to(mask, ops.shape_of(x))
    flat = ops.reshape(ops.cast(mask, to=I64), (-1,))
    place = ops.sub(ops.cumsum(flat, axis=0), flat)
    taken = ops.gather(ops.reshape(source, (-1,)), ops.mul(place, flat), axis=0, source=n.source)
    return ops.where(mask, ops.reshape(taken, ops.shape_of(x), allowzero=True), x, source=n.source)


def put_along(n: AtenNode, x: Value, axis: int, positions: Value, src: Value) -> Value:
    """x with its entries at some positions of an axis replaced; a single position, of rank 0, takes an entry without that axis."""
    return index_put(n, x, [*[None] * (axis % x.ndim), positions], src, False)


def put_slice(n: AtenNode, x: Value, src: Value) -> Value:
    """x with a slice replaced."""
    axis = n.attr("dim")
    bounds = ([n.attr("start", 0)], [n.attr("end", INT64_MAX)], [0], [n.attr("step")])
    return put_along(n, x, axis, ops.slice(ops.arange(0, x.shape[axis]), *bounds, source=n.source), src)


def diagonal(n: AtenNode, x: Value) -> Value:
    """The elements x[…, i, i + offset, …], with i along a new last axis."""
    offset, axes = n.attr("offset"), [n.attr(name) % x.ndim for name in ("dim1", "dim2")]
    rows, columns = (x.shape[a] for a in axes)
    up, right = max(-offset, 0), max(offset, 0)
    count = ops.arange(0, maximum(minimum(rows - up, columns - right), 0))
    rest = [k for k in range(x.ndim) if k not in axes]
    of = _Indices((ops.add(count, up), ops.add(count, right)), tuple(axes), x.ndim)
    first = ops.gather_nd(_moved(x, [*axes, *rest]), of.rows(), source=n.source)
    return _moved(first, [*range(1, 1 + len(rest)), 0])


def put_at(n: AtenNode, x: Value, rest: Sequence[Value | None]) -> Value:
    """x with elements replaced, or added to; `rest` are the indices, then the values."""
    *indices, values = rest
    assert values is not None
    return index_put(n, x, indices, values, n.attr("accumulate"))


def _first_mask(indices: Sequence[Value | None]) -> Value | None:
    """The mask, where the indices are a single one and are of the first axes."""
    only = len(indices) > 0 and all(v is None for v in indices[1:])
    first = indices[0] if only else None
    return first if first is not None and first.type.dtype.is_bool else None


def _indices(n: AtenNode, x: Value, indices: Sequence[Value | None]) -> _Indices:
    tensors, axes, at = list[Value](), list[int](), 0
    for v in indices:
        if v is None:
            at += 1
        elif v.type.dtype.is_bool or v.type.dtype is U8:
            rank = _rank(n, v)
            where = ops.argwhere(v, source=n.source)
            tensors += [ops.gather(where, k, axis=1) for k in range(rank)]
            axes += range(at, at + rank)
            at += rank
        else:
            tensors.append(v if v.type.dtype is I64 else ops.cast(v, to=I64))
            axes.append(at)
            at += 1
    return _Indices(_broadcast(tensors), tuple(axes), _rank(n, x))


def _broadcast(tensors: Sequence[Value]) -> tuple[Value, ...]:
    """Tensors, each repeated to the shape of all."""
    spread = list[Value]()
    for v in tensors:
        for other in tensors:
            if other is not v:
                v = ops.broadcast_to(v, ops.shape_of(other))
        spread.append(v)
    return tuple(spread)


def _rank(n: AtenNode, v: Value) -> int:
    if v.type.rank is None:
        n.refuse(f"an operand of unknown rank, {v.type}")
    return v.type.rank


def _with_axes(v: Value, count: int) -> Value:
    rank = v.type.rank or 0
    return ops.expand_dims(v, axes=[rank + k for k in range(count)]) if count else v


def _moved(v: Value, order: Sequence[int]) -> Value:
    return v if list(order) == list(range(len(order))) else ops.transpose(v, axes=tuple(order))


def _inverse(order: Sequence[int]) -> list[int]:
    return [list(order).index(k) for k in range(len(order))]


__all__ = ["diagonal", "indexed", "masked_scatter", "put_along", "put_at", "put_slice"]
