"""Functions of one byte as tables: what is computed of a byte alone, and is a byte again, is computed for all 256 of them before all loops.

In: a node whose value is a byte. Out: its value, looked up. So an activation between a dequantisation and a quantisation takes as long as
any other, a few instructions for a vector: two permutations of 128 bytes each, and a choice by the highest bit. Where an instruction
picks out of 16 bytes alone (AVX2), each sixteenth of the table is looked up in all lanes: for a code less than `16 * k` the index is
negative, which gives 0, and sixteenth k has what it differs in from the one before, so that the exclusive or of what is picked is the
result. That is for processors that permute bytes; others would have to load each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyshape.kernel_model.costs import cost_of
from anyshape.lower.emit.values import elementwise
from anyshape.lower.ir.dag import DagNode, Operation
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I64, Val, const
from anyshape.lower.target import Target

LANES = 64
"""Bytes of a vector of which a byte of seven bits is picked out of two."""
WORTH = 8
"""Cycles of a vector of f32 from which on bytes are permuted: what takes less is not looked up. Another scale takes 9: 786,432 bytes 24 us
in place of 45."""
WORTH_OF_SIXTEENTHS = 40
"""Cycles of all vectors of f32 whose bytes are looked up together by sixteenths: of four, 786,432 bytes take 117 us. Another scale takes
108 without, a ReLU 157."""
_CODES = 256
_QUARTERS, _SIXTEENTHS = _CODES // LANES, 16
_SIXTEENTH = 16
_MOST_PICKED = 32
"""Bytes for which one instruction picks out of 16."""
_FEW = 2 * _CODES
"""Elements for which a table is not worth its results, if it is known that there are no more."""


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


def parts(target: Target) -> int:
    """The number of values that a table is passed on as: its place in memory, and its vectors."""
    return 1 + (_QUARTERS if target.permutes_bytes else _SIXTEENTHS)


def is_worth(function: ByteFunction, n: DagNode, target: Target, vectors: int) -> bool:
    """Whether a function is looked up for the bytes of so many vectors of f32 at once."""
    if target.permutes_bytes:
        return True
    if not target.picks_of_sixteen or function.cycles * vectors < WORTH_OF_SIXTEENTHS:
        return False
    known = [v.extent for v in n.domain if isinstance(v.extent, int)]
    return len(known) < len(n.domain) or math.prod(known) > _FEW


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
    if f.target.permutes_bytes:
        return [place, *(f.load(place, I8.vector(LANES), at) for at in range(0, _CODES, LANES))]
    return [place, *_differences(f, place)]


def _differences(f: FunctionBuilder, place: Val) -> list[Val]:
    """The sixteenths of a table as vectors, each but the first of a half as what it differs in from the one before."""
    own = [f.load(place, I8.vector(_SIXTEENTH), at) for at in range(0, _CODES, _SIXTEENTH)]
    first = (0, len(own) // 2)
    sixteenths = [part if k in first else f.xor(part, own[k - 1]) for k, part in enumerate(own)]
    return [f.shuffle(part, None, [*range(_SIXTEENTH)] * (_MOST_PICKED // _SIXTEENTH)) for part in sixteenths]


def look_up(f: FunctionBuilder, table: Sequence[Val], code: Val) -> Val:
    """The result for a byte, or for each of at most as many as an instruction takes."""
    place, *parts = table
    if not code.type.lanes:
        return f.load(place, I8, f.convert("zext", code, I64))
    return _permuted(f, parts, code) if f.target.permutes_bytes else _of_sixteenths(f, parts, code)


def _of_sixteenths(f: FunctionBuilder, sixteenths: Sequence[Val], code: Val) -> Val:
    lanes = code.type.lanes
    width = _SIXTEENTH if lanes <= _SIXTEENTH else _MOST_PICKED
    index = f.shuffle(code, None, [lane if lane < lanes else -1 for lane in range(width)]) if lanes < width else code
    upper, result = f.xor(index, const(index.type, -128)), const(index.type, 0)
    name = "ssse3.pshuf.b.128" if width == _SIXTEENTH else "avx2.pshuf.b"
    for k, part in enumerate(sixteenths):
        if k == len(sixteenths) // 2:
            index = upper
        elif k:  # with saturation: what is negative stays so
            index = f.call_intrinsic("llvm.ssub.sat", index.type, [index, const(index.type, _SIXTEENTH)])
        own = part if width == _MOST_PICKED else f.shuffle(part, None, [*range(width)])
        result = f.xor(result, f.call_intrinsic(f"llvm.x86.{name}", index.type, [own, index]))
    return f.shuffle(result, None, list(range(lanes))) if lanes < width else result


def _permuted(f: FunctionBuilder, table: Sequence[Val], code: Val) -> Val:
    lanes = code.type.lanes
    first, second, third, fourth = table
    wide = f.shuffle(code, None, [lane if lane < lanes else -1 for lane in range(LANES)]) if lanes < LANES else code
    low, high = (
        f.call_intrinsic("llvm.x86.avx512.vpermi2var.qi.512", wide.type, [a, wide, b])
        for a, b in ((first, second), (third, fourth))
    )
    picked = f.select(f.compare("lt", wide, const(wide.type, 0)), high, low)
    return f.shuffle(picked, None, list(range(lanes))) if lanes < LANES else picked
