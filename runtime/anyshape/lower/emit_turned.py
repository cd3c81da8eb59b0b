"""Maps that read some operand across its rows: blocks of it are turned into scratch first, and read from there.

In: a scope of stores without reductions whose `turned` variable runs contiguously through operands that the vector
variable strides through. Out: loops over blocks small enough for the first cache; each calls the packer of the
matrix-product library, which turns squares in registers, and then runs along the rows of the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.lower import elementwise, gemm
from anyshape.lower.dag import LoopVar, Node, affine
from anyshape.lower.emit_rows import Rows, Sums
from anyshape.lower.emit_value import Buffer
from anyshape.lower.gemm.packing import PACK_ARGUMENTS, pack_name
from anyshape.lower.llvm.types import I64, VOID, Val, const
from anyshape.lower.schedule import Loop, Scope, turned_loads

ALONG, ACROSS = 64, 64
"""Elements of a block: half of the first cache for f32; several whole cache lines in either direction."""


def emit_turned(rows: Rows, scope: Scope) -> None:
    assert scope.vector is not None
    assert scope.turned is not None
    loop = scope.steps[0]
    assert isinstance(loop, Loop)
    outer = [v for v in scope.variables if v is not scope.vector and v is not scope.turned]
    _Blocks(rows, scope.vector, scope.turned, loop).loops(outer)


def can_turn(scope: Scope) -> bool:
    """The library has packers for the operands' element types."""
    loop = scope.steps[0]
    if scope.vector is None or scope.turned is None or not isinstance(loop, Loop):
        return False
    turned = turned_loads(loop.stores, scope.vector, scope.turned)
    return all(elementwise.memory_type(n.dtype) in gemm.ELEMENTS for n in turned)


class _Blocks:
    """`along` is the vector variable (lanes of the results), `across` the one that the turned operands are contiguous in."""

    def __init__(self, rows: Rows, along: LoopVar, across: LoopVar, loop: Loop) -> None:
        self.rows, self.along, self.across, self.loop = rows, along, across, loop
        self.tiles: dict[Node, Buffer] = {}
        for n in turned_loads(loop.stores, along, across):
            slack = gemm.tiles_for(rows.f.target, elementwise.memory_type(n.dtype)).slack
            tensor = rows.reserve(n.dtype, ALONG * ACROSS + slack)
            self.tiles[n] = Buffer(tensor, affine([(across, ALONG), (along, 1)], 0), 1)

    def loops(self, outer: Sequence[LoopVar], split: bool = True) -> None:
        rows = self.rows
        if outer:
            v = outer[0]
            whole = (const(I64, 0), rows.size(v.extent))
            first, last = rows.part_of(whole[1], 1) if split else whole
            with rows.loop(first, last, 1) as turn:
                rows.bind(v)
                rows.indices[v] = turn.index
                self.loops(outer[1:], False)
            return
        f = rows.f
        n, m = rows.size(self.across.extent), rows.size(self.along.extent)
        first, last = rows.part_of(n, ACROSS) if split else (const(I64, 0), n)
        with rows.loop(first, last, ACROSS) as down, rows.loop(0, m, ALONG) as right:
            i, j = down.index, right.index
            ends = f.smin(f.add(i, ACROSS), last), f.smin(f.add(j, ALONG), m)
            for node, tile in self.tiles.items():
                self.turn(node, tile, i, j, ends)
            with rows.loop(i, ends[0], 1) as across:
                rows.bind(self.across)
                rows.indices[self.across] = across.index
                rows.vector_range(self.along, (4,), (j, ends[1]), [], self.body)

    def body(self, sums: Sums) -> Sums:
        self.rows.loop_step(self.loop)
        return sums

    def turn(self, n: Node, tile: Buffer, i: Val, j: Val, ends: tuple[Val, Val]) -> None:
        """One block of an operand, so that element (across, along) of the whole lies at its place in the tile."""
        rows, f = self.rows, self.rows.f
        address = n.data.address
        element = elementwise.memory_type(n.dtype)
        f.module.declare(pack_name(element), VOID, [type_ for _, type_ in PACK_ARGUMENTS])
        stride = rows.size(address.coefficient(self.along))
        start = f.add(i, f.mul(j, stride))
        source = f.gep(rows.pointer(n.data.tensor, address), start, element)
        to = rows.base(tile.tensor)
        count, k = f.sub(ends[1], j), f.sub(ends[0], i)
        f.call(pack_name(element), VOID, [source, stride, const(I64, 1), count, const(I64, ALONG), k, to])
        origin = f.add(f.mul(i, ALONG), j)
        rows.remember(("base", tile.tensor), f.gep(to, f.neg(origin), element))
        rows.levels[-1].buffers[n] = tile
        rows.forget_depths()
