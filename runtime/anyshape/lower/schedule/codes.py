"""Products of narrow integers less zero points, as products of bytes and corrections of their sums.

    sum((x - zx) * (w - zw)) = sum(x * w) - zx * (sum(w) - k * zw) - zw * sum(x)

in integers that wrap around, so exactly. One operand is multiplied with a sign and the other without; where both have one, or neither, the
sign bit of one is flipped, which moves its values and its zero point by 128.

In: the factors of a contraction. Out: what the template multiplies, the node of its sums, and the node that corrects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.dtypes import I32
from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import Terms, codes_of
from anyshape.lower.gemm import Codes, Side
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Load, LoopVar, Operation, Reduction
from anyshape.lower.kernel import is_small

SIGN = 128


@dataclass(frozen=True, slots=True)
class ByteOperand:
    """Bytes in memory, and their zero point, if that is not 0."""

    stored: DagNode
    zero: DagNode | None

    @property
    def is_unsigned(self) -> bool:
        return self.stored.dtype.kind == "uint"


def operand_of(
    terms: Terms[DagNode, LoopVar],
    factor: DagNode,
    summed: tuple[LoopVar, ...],
    constants: Mapping[Tensor, NDArray[Any]],
) -> ByteOperand | None:
    """A factor as bytes and zero point."""
    codes = codes_of(terms, factor, summed)
    if codes is None:
        return None
    return ByteOperand(codes.stored, None if codes.zero is None or _is_zero(codes.zero, constants) else codes.zero)


def _is_zero(n: DagNode, constants: Mapping[Tensor, NDArray[Any]]) -> bool:
    match n:
        case Constant(value):
            return value == 0
        case Operation("cast", (inner,)):
            return _is_zero(inner, constants)
        case Load(access) if access.tensor in constants:
            return is_small(constants[access.tensor]) and not constants[access.tensor].any()
    return False


def sides_of(a: ByteOperand, b: ByteOperand, flips_a: bool) -> Codes:
    """How both are multiplied. `flips_a`: of two that are alike, the sign bit of a is flipped."""
    if a.is_unsigned != b.is_unsigned:
        return Codes(Side(a.is_unsigned), Side(b.is_unsigned))
    flipped, other = Side(not a.is_unsigned, flips=True), Side(a.is_unsigned)
    return Codes(flipped, other) if flips_a else Codes(other, flipped)


@dataclass(frozen=True, slots=True)
class Moved:
    """An operand as it is multiplied: each of its values is `shift` less than in memory, and so is its zero point."""

    shift: int
    zero: DagNode | None

    @classmethod
    def of(cls, dag: Dag, x: ByteOperand, side: Side) -> Moved:
        shift = 0 if not side.flips else -SIGN if side.unsigned else SIGN
        if not shift:
            return cls(0, x.zero)
        if x.zero is None:
            return cls(shift, dag.const(-shift, I32))
        return cls(shift, dag.op("sub", I32, x.zero, dag.const(shift, I32)))


def values_of(dag: Dag, stored: DagNode, shift: int) -> DagNode:
    """The integers that are multiplied."""
    wide = dag.op("cast", I32, stored)
    return dag.op("sub", I32, wide, dag.const(shift, I32)) if shift else wide


def sums_of(dag: Dag, x: ByteOperand, side: Side, summed: tuple[LoopVar, ...]) -> Reduction:
    """The sums of an operand's values as they are multiplied."""
    return dag.red("sum", summed, values_of(dag, x.stored, Moved.of(dag, x, side).shift), I32)


def raw_sum(
    dag: Dag, operands: tuple[ByteOperand, ByteOperand], codes: Codes, summed: tuple[LoopVar, ...]
) -> Reduction:
    """The sums that the template computes."""
    factors = (values_of(dag, x.stored, Moved.of(dag, x, side).shift) for x, side in zip(operands, (codes.a, codes.b)))
    return dag.red("sum", summed, dag.op("mul", I32, *factors), I32)


def corrected(
    dag: Dag,
    raw: DagNode,
    zeros: tuple[DagNode | None, DagNode | None],
    sums: tuple[DagNode | None, DagNode | None],
    k: Size,
) -> DagNode:
    """The sums of the original product. `sums` of a are needed where b has a zero point, and the other way round."""
    (of_a, of_b), (sum_a, sum_b) = zeros, sums
    total = raw
    if of_a is not None:
        assert sum_b is not None
        if of_b is not None:
            sum_b = dag.op("sub", I32, sum_b, dag.op("mul", I32, dag.dim(k, I32), of_b))
        total = dag.op("sub", I32, total, dag.op("mul", I32, of_a, sum_b))
    if of_b is not None:
        assert sum_a is not None
        total = dag.op("sub", I32, total, dag.op("mul", I32, of_b, sum_a))
    return total
