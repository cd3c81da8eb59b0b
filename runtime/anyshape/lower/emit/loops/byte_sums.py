"""Sums of bytes along the lanes as integers: each lane of 32 bits adds up four bytes that lie side by side, the dot product with ones.

In: a loop whose sums are such, or one of them and what it is so far. Out: an answer, or the sum with a vector of bytes more.
"""

from __future__ import annotations

from anyshape.dtypes import I32
from anyshape.lower.emit.values.value import Values
from anyshape.lower.gemm import add_dot
from anyshape.lower.ir.dag import Load, LoopVar, Operation, Reduction
from anyshape.lower.llvm.types import I32 as WORD
from anyshape.lower.llvm.types import Val, const
from anyshape.lower.schedule.tree import Loop

BYTES = 4
"""Bytes that a lane adds up at once."""
_ONES = 0x01010101


def are_all(step: Loop) -> bool:
    """Whether all that a loop does is to add up bytes that are contiguous along its vector."""
    along = step.vector
    if along is None or not step.reductions or step.stores or step.inside:
        return False
    return all(_is_byte_sum(r, along) for r in step.reductions)


def _is_byte_sum(r: Reduction, along: LoopVar) -> bool:
    match r.body:
        case Operation("cast", (Load(access) as byte,)) if r.kind == "sum" and r.dtype == I32:
            is_byte = byte.dtype.is_integer and byte.dtype.bits == 8 and not byte.dtype.is_narrow
            return is_byte and access.is_plain and access.address.coefficient(along) == 1
    return False


def added(values: Values, r: Reduction, total: Val, copy: int) -> Val:
    """The sum and the bytes of a vector; a mask leaves zeros of those that do not exist."""
    assert isinstance(r.body, Operation)
    (byte,) = r.body.args
    words = values.f.bitcast(values.of(byte, copy), WORD.vector(total.type.lanes))
    ones = const(words.type, _ONES)
    operands, largest = ((words, ones), 255) if byte.dtype.kind == "uint" else ((ones, words), 128)
    return add_dot(values.f, total, *operands, largest)
