"""Sums of bytes that stand for floats, as sums of integers.

    sum((f32(x[k]) - f32(zero)) * scale for k in n)

is the scale times a float: the sum of the bytes less n times the zero point, which integers of 32 bits hold for up to `MOST` bytes. It is
rounded twice, where the sum of floats is rounded at each byte; a byte is added in one instruction in place of four, or a quarter of one.

In: stores, and tensors that are constants of scales. Out: the same with sums of integers, and how many bytes each of them has. Scales are
finite constants, as those that are taken out of products are (`schedule/scales.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from anyshape.dims import Size
from anyshape.dtypes import F32, I32, I64
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.analyse.magnitudes import is_short_integer
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Load, LoopVar, Operation, Reduction
from anyshape.lower.ir.stores import Store, reductions_of

MOST = 1 << 23
"""Bytes whose sum is an integer of 32 bits, whatever they are."""


@dataclass(frozen=True, slots=True)
class ByteSums:
    """Stores with sums of integers, and the sizes of those sums."""

    stores: tuple[Store, ...]
    counts: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class _Bytes:
    """What is summed: bytes, less a zero point, times a scale; either may be missing."""

    number: DagNode
    point: DagNode | None
    scale: DagNode | None


def with_byte_sums(dag: Dag, stores: Sequence[Store], scales: Set[Tensor]) -> ByteSums | None:
    """The stores with sums of integers in place of sums of bytes; None if there are none."""
    sums: dict[DagNode, DagNode] = {}
    counts: dict[Size, None] = {}
    for r in reductions_of(stores):
        summed = _bytes(r, scales) if r.kind == "sum" and r.dtype == r.body.dtype == F32 else None
        if summed is not None:
            count = math.prod((v.extent for v in r.variables), start=1)
            counts[count] = None
            sums[r] = _sum(dag, r.variables, summed, count)
    if not sums:
        return None
    rebuild = Rebuild(dag, sums)
    return ByteSums(tuple(rebuild.store(s) for s in stores), tuple(counts))


def _sum(dag: Dag, variables: tuple[LoopVar, ...], summed: _Bytes, count: Size) -> DagNode:
    total: DagNode = dag.red("sum", variables, dag.op("cast", I32, summed.number), I32)
    if summed.point is not None:
        moved = dag.op("mul", I64, dag.op("cast", I64, summed.point), dag.dim(count, I64))
        total = dag.op("sub", I64, dag.op("cast", I64, total), moved)
    value = dag.op("cast", F32, total)
    return value if summed.scale is None else dag.op("mul", F32, value, summed.scale)


def _bytes(r: Reduction, scales: Set[Tensor]) -> _Bytes | None:
    over = frozenset(r.variables)
    match r.body:
        case Operation("mul", (value, scale)) if _is_fixed(over, scale) and _is_finite(scale, scales):
            return _moved(value, scale, over)
    return _moved(r.body, None, over)


def _moved(value: DagNode, scale: DagNode | None, over: frozenset[LoopVar]) -> _Bytes | None:
    match value:
        case Operation("sub", (number, Operation("cast", (point,)))) if is_short_integer(point) and _is_fixed(
            over, point
        ):
            byte = _byte(number, over)
            return None if byte is None else _Bytes(byte, point, scale)
    byte = _byte(value, over)
    return None if byte is None else _Bytes(byte, None, scale)


def _byte(n: DagNode, over: frozenset[LoopVar]) -> DagNode | None:
    """The byte that is read at all places of a sum, if a value is one as a float."""
    match n:
        case Operation("cast", (Load(access) as byte,)) if is_short_integer(byte) and byte.dtype.bits == 8:
            return byte if access.is_plain and byte.domain >= over else None
    return None


def _is_fixed(over: frozenset[LoopVar], n: DagNode) -> bool:
    return n.domain.isdisjoint(over)


def _is_finite(scale: DagNode, scales: Set[Tensor]) -> bool:
    match scale:
        case Constant(number):
            return math.isfinite(number)
        case Load(access):
            return access.is_plain and access.tensor in scales
    return False
