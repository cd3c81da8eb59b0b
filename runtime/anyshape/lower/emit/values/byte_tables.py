"""Functions of one byte as tables: what is computed of a byte alone, and is a byte again, is computed for all 256 of them before all loops.

In: a node whose value is a byte. Out: its value, looked up. So an activation between a dequantisation and a quantisation takes as long as
any other, a few instructions for a vector: two permutations of 128 bytes each, and a choice by the highest bit. That is for processors
that permute bytes; others would have to load each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyshape.kernel_model.costs import cost_of
from anyshape.lower.emit.values import elementwise
from anyshape.lower.ir.dag import DagNode, Operation
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I64, Val, const

LANES = 64
"""Bytes of a vector of which a byte of seven bits is picked out of two."""
WORTH = 8
"""Cycles of a vector of f32: what takes less is not looked up. Another scale takes 9: 786,432 bytes 24 us in place of 45."""
_CODES = 256
PARTS = 1 + _CODES // LANES
"""Values that a table is passed on as: its place in memory, and its vectors."""


@dataclass(frozen=True, slots=True)
class ByteFunction:
    """What a node is computed by: `steps`, inputs first, of the byte `of` and of values that vary with nothing."""

    of: DagNode
    steps: tuple[Operation, ...]
    fixed: tuple[DagNode, ...]

    @property
    def cycles(self) -> int:
        return sum(cost_of(n.name).cycles for n in self.steps)


def is_byte(n: DagNode) -> bool:
    return elementwise.register_type(n.dtype) == I8


def byte_function(n: Operation) -> ByteFunction | None:
    """The function of one byte that a byte is, if it takes long enough to be looked up."""
    if not is_byte(n) or not n.domain:
        return None
    steps: list[Operation] = []
    fixed: dict[DagNode, None] = {}
    bytes_: dict[DagNode, None] = {}
    seen: set[DagNode] = set()

    def visit(m: DagNode) -> bool:
        if m in seen:
            return True
        seen.add(m)
        if not m.domain:
            fixed[m] = None
        elif m is not n and is_byte(m):
            bytes_[m] = None
        elif isinstance(m, Operation) and padded_load(m) is None:
            if not all(map(visit, m.args)):
                return False
            steps.append(m)
        else:
            return False
        return len(bytes_) <= 1

    if not visit(n) or len(bytes_) != 1:
        return None
    function = ByteFunction(next(iter(bytes_)), tuple(steps), tuple(fixed))
    return function if function.cycles >= WORTH else None


def fill(f: FunctionBuilder, function: ByteFunction, value_of: Callable[[DagNode], Val]) -> list[Val]:
    """Computes the results for all bytes: returns where they are in memory, and vectors of them. `value_of` has those of what varies with
    nothing."""
    fixed = {n: value_of(n) for n in function.fixed}
    place, lanes = f.alloca(I8, _CODES), f.target.lanes(4)
    with f.for_range(0, _CODES, lanes, at_least_once=True) as loop:
        places = f.add(f.iota(I64, lanes), f.splat(loop.index, lanes))
        values = {**fixed, function.of: f.convert("trunc", places, I8)}
        for n in function.steps:
            values[n] = elementwise.apply(f, n.name, n.dtype, [values[a] for a in n.args], [a.dtype for a in n.args])
        f.store(values[function.steps[-1]], place, loop.index)
    return [place, *(f.load(place, I8.vector(LANES), at) for at in range(0, _CODES, LANES))]


def look_up(f: FunctionBuilder, table: Sequence[Val], code: Val) -> Val:
    """The result for a byte, or for each of at most `LANES` of them."""
    lanes = code.type.lanes
    place, first, second, third, fourth = table
    if not lanes:
        return f.load(place, I8, f.convert("zext", code, I64))
    wide = f.shuffle(code, None, [lane if lane < lanes else -1 for lane in range(LANES)]) if lanes < LANES else code
    low, high = (
        f.call_intrinsic("llvm.x86.avx512.vpermi2var.qi.512", wide.type, [a, wide, b])
        for a, b in ((first, second), (third, fourth))
    )
    picked = f.select(f.compare("lt", wide, const(wide.type, 0)), high, low)
    return f.shuffle(picked, None, list(range(lanes))) if lanes < LANES else picked
