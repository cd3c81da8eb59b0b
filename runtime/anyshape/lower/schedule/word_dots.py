"""Sums of products of bytes within blocks of a longer sum, four adjacent bytes at a time.

    sum(i32(x[e]) * bit_and(shift_right(i32(codes[e]), a), m) for e in 4)

where x has a sign and codes have none, is a dot product of two words of 32 bits, which some processors have as one instruction. Only sums
that are part of another sum are such, as those of blocks of weights that have scales of their own: a sum that stands alone is a matrix
product, which packs its operands.

In: stores. Out: the same with a `word` in place of four bytes, and a `dot` of two words in place of four products.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dtypes import I8, I32, U8, DType
from anyshape.lower.analyse.collapse import Numbered, Rebuild
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Load, LoopIndex, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.stores import Store, reductions_of

BYTES = 4
"""The bytes of a word."""
_LARGEST, _BITS = 255, 8
_EACH = 0x01010101
"""A byte, times this, is in each byte of a word."""


def with_dots(dag: Dag, stores: Sequence[Store]) -> list[Store]:
    """The stores with dot products of words where sums within their sums are such."""
    inner = {n for r in reductions_of(stores) for n in walk([r.body]) if isinstance(n, Reduction)}
    dots: dict[DagNode, DagNode] = {r: dot for r in inner if (dot := _dot(dag, r)) is not None}
    if not dots:
        return list(stores)
    rebuild = Rebuild(dag, dots)
    return [rebuild.store(s) for s in stores]


def _dot(dag: Dag, total: Reduction) -> DagNode | None:
    body = total.body
    if total.kind != "sum" or total.dtype != I32 or not isinstance(body, Operation) or body.name != "mul":
        return None
    for along in (v for v in total.variables if v.extent == BYTES):
        for x, codes in (body.args, body.args[::-1]):
            with_sign, without = _word(dag, x, along, I8), _word_of_codes(dag, codes, along)
            if with_sign is not None and without is not None:
                dot = dag.op("dot", I32, without, with_sign)
                outer = tuple(v for v in total.variables if v is not along)
                return dag.red("sum", outer, dot, I32) if outer else dot
    return None


def _word(dag: Dag, n: DagNode, along: LoopVar, dtype: DType) -> DagNode | None:
    """The word of which a value is one byte, if that is what it is."""
    match n:
        case Operation("cast", (Load(access) as load,)) if load.dtype == dtype and access.is_plain:
            if access.address.coefficient(along) == 1:
                return dag.op("word", I32, Numbered(dag, {}, {along: 0}).node(load))
    return None


def _word_of_codes(dag: Dag, n: DagNode, along: LoopVar) -> DagNode | None:
    """The word of bytes of which a value is one, or of the bits that it takes of a byte. All four are shifted at once; what comes into
    a byte from the next one is not among the bits that are taken."""
    match n:
        case Operation("bit_and", (Operation("shift_right", (byte, amount)), Constant(int(mask)))):
            word, most = _word(dag, byte, along, U8), None if along in amount.domain else _most(amount)
            if word is None or most is None or most >= _BITS or not 0 <= mask <= _LARGEST >> most:
                return None
            if mask == _LARGEST:
                return word
            return dag.op("bit_and", I32, dag.op("shift_right", I32, word, amount), dag.const(mask * _EACH, I32))
    return _word(dag, n, along, U8)


def _most(n: DagNode) -> int | None:
    """The most that an integer is, if it is a number, not below 0, or a loop variable times one."""
    match n:
        case Operation("cast", (value,)):
            return _most(value)
        case Operation("mul", (a, b)):
            first, second = _most(a), _most(b)
            return None if first is None or second is None else first * second
        case LoopIndex(variable) if isinstance(variable.extent, int):
            return variable.extent - 1
        case Constant(int(value)) if value >= 0:
            return value
    return None
