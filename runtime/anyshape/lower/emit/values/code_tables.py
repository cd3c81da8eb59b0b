"""Functions of codes of four bits as permutations: what is computed of `x & 15` alone is computed for all 16 codes before all loops, and
one instruction picks the results for a vector of codes.

In: a node whose value is an f32. Out: its value, looked up. Weights in 4 bits become numbers so: a conversion, the zero point and whatever
else is the same for all codes take one instruction together. That is for vectors of 16 that the processor permutes.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.lower.emit.values import elementwise
from anyshape.lower.ir.dag import Constant, DagNode, Operation
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import F32, I32, Val, const_vector

CODES = 16
"""Codes of four bits, and lanes of the vectors that are permuted: the lowest four bits of a lane pick one of these."""
_MASK = CODES - 1


@dataclass(frozen=True, slots=True)
class CodeFunction:
    """What a node is computed by: `steps`, inputs first, of the code `masked`, which are the lowest four bits of `of`."""

    of: DagNode
    masked: Operation
    steps: tuple[Operation, ...]


def code_function(n: Operation) -> CodeFunction | None:
    """The function of four bits that an f32 is, if it takes more than its conversion: all else in it is constant."""
    if elementwise.register_type(n.dtype) != F32:
        return None
    steps: dict[Operation, None] = {}
    codes: dict[Operation, DagNode] = {}

    def visit(m: DagNode) -> bool:
        if isinstance(m, Constant) or m in steps or m in codes:
            return True
        if not isinstance(m, Operation) or padded_load(m) is not None:
            return False
        code = _low_bits(m)
        if code is not None:
            codes[m] = code
            return len(codes) == 1
        if not all(map(visit, m.args)):
            return False
        steps[m] = None
        return True

    if not visit(n) or len(codes) != 1 or not steps:
        return None
    ((masked, of),) = codes.items()
    return CodeFunction(of, masked, tuple(steps))


def _low_bits(n: Operation) -> DagNode | None:
    """The integer of 32 bits of which a node has the lowest four."""
    if n.name != "bit_and" or elementwise.register_type(n.dtype) != I32:
        return None
    for value, mask in (n.args, n.args[::-1]):
        if isinstance(mask, Constant) and mask.value == _MASK:
            return value
    return None


def fill(f: FunctionBuilder, function: CodeFunction) -> Val:
    """Computes the results for all codes, which LLVM folds to a constant."""
    values: dict[DagNode, Val] = {function.masked: const_vector(I32, [*range(CODES)])}

    def value(n: DagNode) -> Val:
        return elementwise.literal(n.dtype, n.value) if isinstance(n, Constant) else values[n]

    for n in function.steps:
        values[n] = elementwise.apply(f, n.name, n.dtype, [value(a) for a in n.args], [a.dtype for a in n.args])
    return values[function.steps[-1]]


def look_up(f: FunctionBuilder, table: Val, codes: Val) -> Val:
    """The results for 16 codes, the lowest four bits of integers."""
    return f.call_intrinsic("llvm.x86.avx512.permvar.sf.512", table.type, [table, codes])
