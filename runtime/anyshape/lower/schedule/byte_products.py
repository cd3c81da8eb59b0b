"""Sums that correct a product of bytes less zero points: of constants, packed with these, and of operands, computed ahead.

In: the factors of a contraction of bytes. Out: its original sums, and where those come from that correct them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.gemm import Codes, Side
from anyshape.lower.ir.dag import Access, Dag, DagNode, Load, LoopVar, Reduction, affine, row_major
from anyshape.lower.ir.stores import Store
from anyshape.lower.schedule.codes import ByteOperand, Moved, corrected, sums_of
from anyshape.lower.schedule.factors import is_covered
from anyshape.lower.schedule.products import ConstantSums


class ByteProducts:
    """Corrects products of bytes; `constants` are the values of constant operands."""

    def __init__(self, dag: Dag, constants: Mapping[Tensor, NDArray[Any]]) -> None:
        self.dag, self.constants = dag, constants

    def corrected(
        self,
        raw: Reduction,
        operands: tuple[ByteOperand, ByteOperand],
        codes: Codes,
        summed: tuple[LoopVar, ...],
        stores: Sequence[Store],
        of_b: DagNode | None = None,
    ) -> tuple[DagNode, tuple[Store, ...], tuple[ConstantSums, ...]]:
        """The sums of the original product, and where those of the operands come from that correct them; `of_b` if b's are known."""
        dag = self.dag
        sides = (codes.a, codes.b)
        zeros = tuple(Moved.of(dag, x, side).zero for x, side in zip(operands, sides))
        ahead: list[Store] = []
        known: list[ConstantSums] = []
        sums: list[DagNode | None] = []
        for x, side, other, own in zip(operands, sides, reversed(zeros), (None, of_b)):
            computed = (
                own if own is not None or other is None else self.sum_in_memory(x, side, summed, stores, ahead, known)
            )
            sums.append(computed)
        count: Size = 1
        for v in summed:
            count = count * v.extent
        return corrected(dag, raw, (zeros[0], zeros[1]), (sums[0], sums[1]), count), tuple(ahead), tuple(known)

    def sum_in_memory(
        self,
        x: ByteOperand,
        side: Side,
        summed: tuple[LoopVar, ...],
        stores: Sequence[Store],
        ahead: list[Store],
        known: list[ConstantSums],
    ) -> DagNode:
        """The sums of an operand: packed with the constants if it is one, else computed ahead of the product."""
        node = sums_of(self.dag, x, side, summed)
        variables = tuple(v for v in stores[0].variables if v in node.domain)
        tensor = Tensor(f"sums{len(ahead) + len(known)}", node.dtype, tuple(v.extent for v in variables))
        access = Access(tensor, affine(row_major(variables)[0], 0))
        if isinstance(x.stored, Load) and self.is_constant(x):
            known.append(ConstantSums(tensor, x.stored.access, side, variables, summed))
        else:
            ahead.append(Store(access, node, variables))
        return self.dag.load(access)

    def is_constant(self, x: ByteOperand) -> bool:
        """Whether the bytes are those of a constant, used as it is."""
        match x.stored:
            case Load(access) if access.tensor in self.constants:
                return is_covered(access, self.constants[access.tensor])
        return False
