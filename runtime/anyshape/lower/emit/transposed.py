"""Maps that read some operand across its rows: blocks of it are turned into scratch first, and read from there.

In: a scope of stores without reductions whose `transposed` variable runs contiguously through operands that the vector
variable strides through. Out: loops over blocks small enough for the first cache; each calls the packer of the
matrix-product library, which turns squares in registers, and then runs along the rows of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.lower import gemm
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.nest import Range, Sums
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.value import Buffer
from anyshape.lower.gemm.packing import PACK_ARGUMENTS, pack_name
from anyshape.lower.gemm.thin import THIN_ARGUMENTS, join_name, part_name
from anyshape.lower.gemm.transposition import TURN_ARGUMENTS, transpose_name
from anyshape.lower.ir.dag import Access, Load, LoopVar, affine
from anyshape.lower.llvm.types import F32, I1, I64, VOID, Type, Val, const
from anyshape.lower.schedule.tree import Loop, Scope, turned_loads
from anyshape.lower.schedule.work import points
from anyshape.lower.target import Target

Side = tuple[Access, LoopVar]


def side_of_block(target: Target) -> int:
    """Elements along and across a block, a power of two: of f32 at most half of the first cache, and several whole lines."""
    fitting = target.l1_bytes // 2 // F32.bytes
    return 1 << (fitting.bit_length() - 1) // 2


def emit_transposed(rows: Rows, scope: Scope) -> None:
    """Where either side is shorter than a vector, the other one runs over the lanes: they gather or scatter, but in copies of which
    the library has the form."""
    along, across, loop = scope.vector, scope.transposed, scope.steps[0]
    assert along is not None
    assert across is not None
    assert isinstance(loop, Loop)
    f, lanes = rows.f, rows.f.target.lanes(rows.element_bytes)
    outer = [v for v in scope.variables if v is not along and v is not across]
    tall, wide = (f.compare("ge", rows.size(v.extent), lanes) for v in (across, along))
    blocks = _Blocks(rows, along, across, loop)
    with rows.when(f.and_(wide, tall)):
        blocks.loops(outer)
    joins = f.and_(f.and_(tall, f.not_(wide)), blocks.joins())
    parts = f.and_(f.and_(wide, f.not_(tall)), blocks.parts())
    for thin, move in ((joins, blocks.join), (parts, blocks.part)) if blocks.is_copy else ():
        with rows.when(thin):
            blocks.loops(outer, move=move)
    with rows.when(f.not_(f.or_(wide, joins))):
        rows.scope(Scope((*outer, across, along), None, scope.steps), split=True)
    with rows.when(f.and_(wide, f.not_(f.or_(tall, parts)))):
        rows.scope(Scope((*outer, across, along), along, scope.steps), split=True)


def can_transpose(scope: Scope) -> bool:
    """The library has packers for the operands' element types."""
    loop = scope.steps[0]
    if scope.vector is None or scope.transposed is None or not isinstance(loop, Loop):
        return False
    transposed = turned_loads(loop.stores, scope.vector, scope.transposed)
    return all(elementwise.memory_type(n.dtype) in gemm.ELEMENTS for n in transposed)


class _Blocks:
    """`along` is the vector variable (lanes of the results), `across` the one that the turned operands are contiguous in."""

    def __init__(self, rows: Rows, along: LoopVar, across: LoopVar, loop: Loop) -> None:
        self.rows, self.along, self.across, self.loop = rows, along, across, loop
        self.side = side_of_block(rows.f.target)
        self.tiles: dict[Load, Buffer] = {}
        self.transposed = turned_loads(loop.stores, along, across)
        for n in () if self.is_copy else self.transposed:
            slack = gemm.tiles_for(rows.f.target, elementwise.memory_type(n.dtype)).slack
            tensor = rows.reserve(n.dtype, self.side * self.side + slack)
            self.tiles[n] = Buffer(tensor, affine([(across, self.side), (along, 1)], 0), 1)

    def loops(self, outer: Sequence[LoopVar], split: bool = True, move: Callable[[bool], None] | None = None) -> None:
        """`move`: what to do in the loops, if not whole blocks."""
        rows = self.rows
        if outer:
            v = outer[0]
            whole = (const(I64, 0), rows.size(v.extent))
            first, last = rows.part_of(whole[1], 1) if split else whole
            with rows.loop(first, last, 1) as iteration:
                rows.bind(v)
                rows.indices[v] = iteration.index
                self.loops(outer[1:], False, move)
            return
        if move is not None:
            move(split)
            return
        f = rows.f
        n, m = rows.size(self.across.extent), rows.size(self.along.extent)
        if self.is_copy:
            self.copy(n, m, split)
            return
        first, last = rows.part_of(n, self.side) if split else (const(I64, 0), n)
        with rows.loop(first, last, self.side) as down, rows.loop(0, m, self.side) as right:
            i, j = down.index, right.index
            ends = f.smin(f.add(i, self.side), last), f.smin(f.add(j, self.side), m)
            for node, tile in self.tiles.items():
                self.transpose(node, tile, i, j, ends)
            with rows.loop(i, ends[0], 1) as across:
                rows.bind(self.across)
                rows.indices[self.across] = across.index
                rows.vector_range(self.along, (4,), (j, ends[1]), [], self.body)

    @property
    def is_copy(self) -> bool:
        """Whether nothing but the turned operand is stored, side by side."""
        stores = self.loop.stores
        if len(stores) != 1 or stores[0].value not in self.transposed:
            return False
        access = stores[0].access
        return access.address.coefficient(self.along) == 1 and not access.bounds and not access.address.lets

    def copy(self, n: Val, m: Val, split: bool) -> None:
        """By the library, from the operand to the result; the longer side is shared out."""
        rows, f, store = self.rows, self.rows.f, self.loop.stores[0]
        load, element = store.source, elementwise.memory_type(store.value.dtype)
        f.module.declare(transpose_name(element), VOID, [type_ for _, type_ in TURN_ARGUMENTS])
        down, right = (const(I64, 0), n), (const(I64, 0), m)
        if split:
            long = f.compare("gt", m, n)
            down = self._chosen(long, down, rows.part_of(n, self.side))
            right = self._chosen(long, rows.part_of(m, self.side), right)
        source, to = rows.pointer(load.tensor, load.address), rows.pointer(store.access.tensor, store.access.address)
        steps = (rows.size(x.address.coefficient(v)) for x, v in ((load, self.along), (store.access, self.across)))
        row_step, to_step = steps
        source, to = f.gep(source, f.mul(right[0], row_step), element), f.gep(to, right[0], element)
        moved = rows.size(2 * element.bytes * points(store.variables))
        with rows.when(f.compare("lt", right[0], right[1])):
            count = f.sub(right[1], right[0])
            f.call(transpose_name(element), VOID, [source, row_step, count, down[0], down[1], n, to, to_step, moved])

    def _chosen(self, condition: Val, yes: Range, no: Range) -> Range:
        return self.rows.f.select(condition, yes[0], no[0]), self.rows.f.select(condition, yes[1], no[1])

    def joins(self) -> Val:
        """Whether operand rows become elements that lie side by side without gaps."""
        return self._gapless(self.along, self.across, stored=True)

    def parts(self) -> Val:
        """Whether elements side by side without gaps become rows of the result."""
        return self._gapless(self.across, self.along, stored=False)

    def _gapless(self, short: LoopVar, long: LoopVar, stored: bool) -> Val:
        f, rows, store = self.rows.f, self.rows, self.loop.stores[0]
        if not self.is_copy:
            return const(I1, 0)
        access = store.access if stored else store.source
        step, count = rows.size(access.address.coefficient(long)), rows.size(short.extent)
        return f.and_(f.compare("eq", step, count), f.compare("ge", count, 1))

    def join(self, split: bool) -> None:
        load, store = self.loop.stores[0].source, self.loop.stores[0].access
        self._thin(join_name, (load, self.along), (store, self.across), split)

    def part(self, split: bool) -> None:
        load, store = self.loop.stores[0].source, self.loop.stores[0].access
        self._thin(part_name, (store, self.across), (load, self.along), split)

    def _thin(self, name: Callable[[Type], str], planes: Side, joined: Side, split: bool) -> None:
        """By the library: each side is an access, and the variable that it does not run along."""
        rows, f = self.rows, self.rows.f
        element = elementwise.memory_type(planes[0].tensor.dtype)
        f.module.declare(name(element), VOID, [type_ for _, type_ in THIN_ARGUMENTS])
        count = rows.size(joined[1].extent)
        first, last = rows.part_of(count, self.side) if split else (const(I64, 0), count)
        from_, to = (rows.pointer(a.tensor, a.address) for a, _ in (planes, joined))
        plane, few = rows.size(planes[0].address.coefficient(planes[1])), rows.size(planes[1].extent)
        f.call(name(element), VOID, [from_, plane, to, few, first, last, count])

    def body(self, sums: Sums) -> Sums:
        self.rows.loop_step(self.loop)
        return sums

    def transpose(self, n: Load, tile: Buffer, i: Val, j: Val, ends: tuple[Val, Val]) -> None:
        """One block of an operand, so that element (across, along) of the whole lies at its place in the tile."""
        rows, f = self.rows, self.rows.f
        address = n.access.address
        element = elementwise.memory_type(n.dtype)
        f.module.declare(pack_name(element), VOID, [type_ for _, type_ in PACK_ARGUMENTS])
        stride = rows.size(address.coefficient(self.along))
        start = f.add(i, f.mul(j, stride))
        source = f.gep(rows.pointer(n.access.tensor, address), start, element)
        to = rows.base(tile.tensor)
        count, k = f.sub(ends[1], j), f.sub(ends[0], i)
        f.call(pack_name(element), VOID, [source, stride, const(I64, 1), count, const(I64, self.side), k, to])
        origin = f.add(f.mul(i, self.side), j)
        rows.remember(("base", tile.tensor), f.gep(to, f.neg(origin), element))
        rows.levels[-1].buffers[n] = tile
        rows.forget_depths()
