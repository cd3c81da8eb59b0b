"""Vectors of more lanes than a vector of f32 has, for maps that compute nothing as wide as an f32 along them.

In: the loops of a scope. Out: a factor. A kernel's vectors have as many elements as there are f32 in one, since lanes of all operands have
to be alike; a block of four such vectors of bytes is one vector of bytes, where nothing in the block is wider. What is left at the
end of a row is vectors of as many elements as f32, under masks: few processors mask bytes.
"""

from __future__ import annotations

from anyshape.dtypes import DType
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, Operation, walk
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.llvm.types import F32
from anyshape.lower.schedule.tree import Loop, Scope, loops_of

_OF_INTEGERS = frozenset(
    ("add", "sub", "mul", "min", "max", "abs", "neg", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
    + ("and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "select", "cast")
)
_OF_HALVES = frozenset(("abs", "neg", "select"))
"""Operations on floats of 16 bits that are not computed in f32."""


def width_factor(ctx: KernelContext, scope: Scope) -> int:
    """How many times as many lanes as a vector of f32 has fit into a vector: 1, 2 or 4."""
    vector, loops = scope.vector, [*loops_of(scope)]
    if vector is None or scope.fills or any(isinstance(step, Scope) for step in scope.steps):
        return 1
    if ctx.lanes * F32.bytes != ctx.f.target.vector_bytes or not loops or not all(map(_only_stores, loops)):
        return 1
    widest = max((_bytes(ctx, a, n, vector) for loop in loops for a, n in _stored(loop)), default=F32.bytes)
    return max(1, F32.bytes // widest)


def _only_stores(loop: Loop) -> bool:
    return not (loop.reductions or loop.keep or loop.inside or loop.tried or loop.variables)


def _stored(loop: Loop) -> list[tuple[Access, DagNode]]:
    return [(s.access, s.value) for s in loop.stores]


def _bytes(ctx: KernelContext, to: Access, value: DagNode, vector: LoopVar) -> int:
    """Bytes of the widest element that varies along a vector; those of an f32 if there is another obstacle."""
    nodes = [n for n in walk([value]) if vector in n.domain]
    if not _is_close(ctx, to, vector, (1,)) or not all(_is_narrow(ctx, n, vector) for n in nodes):
        return F32.bytes
    return max((n.dtype.itemsize for n in nodes), default=to.tensor.dtype.itemsize)


def _is_close(ctx: KernelContext, a: Access, vector: LoopVar, steps: tuple[int, ...]) -> bool:
    return a.is_plain and ctx.sizes.coefficient(a.address.coefficient(vector)) in steps


def _is_narrow(ctx: KernelContext, n: DagNode, vector: LoopVar) -> bool:
    match n:
        case Load(access):
            return not n.dtype.is_narrow and _is_close(ctx, access, vector, (0, 1))
        case Operation(name, args) if padded_load(n) is None:
            return all(_is_computed_narrow(name, m.dtype) for m in (n, *args))
    return False


def _is_computed_narrow(name: str, dtype: DType) -> bool:
    if dtype.is_narrow:
        return False
    return name in (_OF_HALVES if dtype.is_float else _OF_INTEGERS)
