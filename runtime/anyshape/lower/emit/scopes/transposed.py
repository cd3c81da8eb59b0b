"""Maps that read some operand across its rows: blocks of it are transposed into scratch first, and read from there.

In: a scope of stores without reductions whose `transposed` variable runs contiguously through operands that the vector variable strides
through. Out: loops over blocks small enough for the first cache; each calls the packer of the matrix-product library, which transposes
squares in registers, and then runs along the rows of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.lower import gemm
from anyshape.lower.emit.loops.inner_loop import emit_loop
from anyshape.lower.emit.loops.nest import vector_range
from anyshape.lower.emit.scopes.rows import emit_scope
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.levels import Buffer
from anyshape.lower.gemm.packing import PACK_ARGUMENTS, pack_name
from anyshape.lower.gemm.thin import THIN_ARGUMENTS, join_name, most_planes, part_name
from anyshape.lower.gemm.transposition import TRANSPOSE_ARGUMENTS, lanes_of, moved_as, transpose_name
from anyshape.lower.ir.dag import Access, Load, LoopVar, affine
from anyshape.lower.llvm.types import F32, I1, I64, VOID, Type, Val, const
from anyshape.lower.schedule.tree import Loop, Scope, transposed_loads
from anyshape.lower.schedule.work import points
from anyshape.lower.target import Target

BlockSide = tuple[Access, LoopVar]


def side_of_block(target: Target) -> int:
    """Elements along and across a block, a power of two: of f32 at most half of the first cache, and several whole lines."""
    fitting = target.l1_bytes // 2 // F32.bytes
    return 1 << (fitting.bit_length() - 1) // 2


def emit_transposed(ctx: KernelContext, scope: Scope) -> None:
    """Emits blocks where both sides have a vector. Where either side is shorter, the other one runs over the lanes, with gathers or
    scatters, except in copies that the library has a function for."""
    along, across, loop = scope.vector, scope.transposed, scope.steps[0]
    assert along is not None
    assert across is not None
    assert isinstance(loop, Loop)
    f, lanes = ctx.f, ctx.lanes
    outer = [v for v in scope.variables if v is not along and v is not across]
    blocks = _Blocks(ctx, along, across, loop)
    tall, wide = (f.compare("ge", ctx.sizes.of(v.extent), blocks.least or lanes) for v in (across, along))
    with ctx.levels.when(f.and_(wide, tall), certain=True):
        blocks.loops(outer)
    joins = f.and_(f.and_(tall, f.not_(wide)), blocks.joins())
    parts = f.and_(f.and_(wide, f.not_(tall)), blocks.parts())
    for thin, move in ((joins, blocks.join), (parts, blocks.part)) if blocks.is_copy else ():
        with ctx.levels.when(thin, certain=True):
            blocks.loops(outer, move=move)
    with ctx.levels.when(f.not_(f.or_(wide, joins)), certain=True):
        emit_scope(ctx, Scope((*outer, across, along), None, scope.steps), split=True)
    with ctx.levels.when(f.and_(wide, f.not_(f.or_(tall, parts))), certain=True):
        emit_scope(ctx, Scope((*outer, across, along), along, scope.steps), split=True)


def can_transpose(scope: Scope) -> bool:
    """Whether the library has packers for the operands' element types, or copies what is stored."""
    loop = scope.steps[0]
    if scope.vector is None or scope.transposed is None or not isinstance(loop, Loop):
        return False
    transposed = transposed_loads(loop.stores, scope.vector, scope.transposed)
    packed = all(elementwise.memory_type(n.dtype) in gemm.ELEMENTS for n in transposed)
    return packed or _is_copy(loop, scope.vector, transposed)


def _is_copy(loop: Loop, along: LoopVar, transposed: Sequence[Load]) -> bool:
    """Whether nothing but the transposed operand is stored, side by side."""
    stores = loop.stores
    if len(stores) != 1 or stores[0].value not in transposed:
        return False
    access = stores[0].access
    return access.address.coefficient(along) == 1 and not access.bounds and not access.address.lets


class _Blocks:
    """The loops over blocks. `along` is the vector variable (lanes of the results), `across` the one that the transposed operands are
    contiguous in."""

    def __init__(self, ctx: KernelContext, along: LoopVar, across: LoopVar, loop: Loop) -> None:
        self.ctx, self.along, self.across, self.loop = ctx, along, across, loop
        self.side = side_of_block(ctx.f.target)
        self.tiles: dict[Load, Buffer] = {}
        self.transposed = transposed_loads(loop.stores, along, across)
        self.is_copy = _is_copy(loop, along, self.transposed)
        self.element = moved_as(elementwise.memory_type(self.transposed[0].dtype))
        self.least = lanes_of(ctx.f.target, self.element) if self.is_copy else 0
        for n in () if self.is_copy else self.transposed:
            slack = gemm.tiles_for(ctx.f.target, elementwise.memory_type(n.dtype)).slack
            tensor = ctx.memory.reserve(n.dtype, self.side * self.side + slack)
            self.tiles[n] = Buffer(tensor, affine([(across, self.side), (along, 1)], 0), 1)

    def loops(self, outer: Sequence[LoopVar], split: bool = True, move: Callable[[bool], None] | None = None) -> None:
        """Emits the outer loops, and in them `move`, or else whole blocks."""
        ctx = self.ctx
        if outer:
            v = outer[0]
            whole = (const(I64, 0), ctx.sizes.of(v.extent))
            first, last = ctx.parts.share(whole[1]) if split else whole
            with ctx.levels.loop(first, last, 1) as iteration:
                ctx.levels.bind(v, iteration.index)
                self.loops(outer[1:], False, move)
            return
        if move is not None:
            move(split)
            return
        f = ctx.f
        n, m = ctx.sizes.of(self.across.extent), ctx.sizes.of(self.along.extent)
        if self.is_copy:
            self.copy(n, m, split)
            return
        first, last = ctx.parts.share(n, self.side) if split else (const(I64, 0), n)
        with ctx.levels.loop(first, last, self.side) as down, ctx.levels.loop(0, m, self.side) as right:
            i, j = down.index, right.index
            ends = f.smin(f.add(i, self.side), last), f.smin(f.add(j, self.side), m)
            for node, tile in self.tiles.items():
                self.transpose(node, tile, i, j, ends)
            with ctx.levels.loop(i, ends[0], 1) as across:
                ctx.levels.bind(self.across, across.index)
                vector_range(ctx, self.along, (4,), (j, ends[1]), self.body)

    def copy(self, n: Val, m: Val, split: bool) -> None:
        """Calls the library to copy from the operand to the result; the longer side is shared out."""
        ctx, f, store = self.ctx, self.ctx.f, self.loop.stores[0]
        load, element = store.source, self.element
        f.module.declare(transpose_name(element), VOID, [type_ for _, type_ in TRANSPOSE_ARGUMENTS])
        down, right = (const(I64, 0), n), (const(I64, 0), m)
        if split:
            long = f.compare("gt", m, n)
            down = self._chosen(long, down, ctx.parts.share(n, self.side))
            right = self._chosen(long, ctx.parts.share(m, self.side), right)
        source, to = (
            ctx.values.pointer(load.tensor, load.address),
            ctx.values.pointer(store.access.tensor, store.access.address),
        )
        steps = (ctx.sizes.of(x.address.coefficient(v)) for x, v in ((load, self.along), (store.access, self.across)))
        row_step, to_step = steps
        source, to = f.gep(source, f.mul(right[0], row_step), element), f.gep(to, right[0], element)
        moved = ctx.sizes.of(2 * element.bytes * points(store.variables))
        with ctx.levels.when(f.compare("lt", right[0], right[1])):
            count = f.sub(right[1], right[0])
            f.call(transpose_name(element), VOID, [source, row_step, count, down[0], down[1], n, to, to_step, moved])

    def _chosen(self, condition: Val, yes: Range, no: Range) -> Range:
        return self.ctx.f.select(condition, yes[0], no[0]), self.ctx.f.select(condition, yes[1], no[1])

    def joins(self) -> Val:
        """Whether operand rows become elements that lie side by side without gaps."""
        return self._gapless(self.along, self.across, stored=True)

    def parts(self) -> Val:
        """Whether elements side by side without gaps become rows of the result."""
        return self._gapless(self.across, self.along, stored=False)

    def _gapless(self, short: LoopVar, long: LoopVar, stored: bool) -> Val:
        f, ctx, store = self.ctx.f, self.ctx, self.loop.stores[0]
        if not self.is_copy:
            return const(I1, 0)
        access = store.access if stored else store.source
        step, count = ctx.sizes.of(access.address.coefficient(long)), ctx.sizes.of(short.extent)
        few = f.and_(f.compare("ge", count, 1), f.compare("le", count, most_planes(f.target, self.element)))
        return f.and_(f.compare("eq", step, count), few)

    def join(self, split: bool) -> None:
        load, store = self.loop.stores[0].source, self.loop.stores[0].access
        self._thin(join_name, (load, self.along), (store, self.across), split)

    def part(self, split: bool) -> None:
        load, store = self.loop.stores[0].source, self.loop.stores[0].access
        self._thin(part_name, (store, self.across), (load, self.along), split)

    def _thin(self, name: Callable[[Type], str], planes: BlockSide, joined: BlockSide, split: bool) -> None:
        """Calls the library for a copy with one short side: each side is an access, and the variable that it does not run along."""
        ctx, f = self.ctx, self.ctx.f
        element = self.element
        f.module.declare(name(element), VOID, [type_ for _, type_ in THIN_ARGUMENTS])
        count = ctx.sizes.of(joined[1].extent)
        first, last = ctx.parts.share(count, self.side) if split else (const(I64, 0), count)
        from_, to = (ctx.values.pointer(a.tensor, a.address) for a, _ in (planes, joined))
        plane, few = ctx.sizes.of(planes[0].address.coefficient(planes[1])), ctx.sizes.of(planes[1].extent)
        f.call(name(element), VOID, [from_, plane, to, few, first, last, count])

    def body(self) -> None:
        emit_loop(self.ctx, self.loop)

    def transpose(self, n: Load, tile: Buffer, i: Val, j: Val, ends: tuple[Val, Val]) -> None:
        """Transposes one block of an operand, so that element (across, along) of the whole lies at its place in the tile."""
        ctx, f = self.ctx, self.ctx.f
        address = n.access.address
        element = elementwise.memory_type(n.dtype)
        f.module.declare(pack_name(element), VOID, [type_ for _, type_ in PACK_ARGUMENTS])
        stride = ctx.sizes.of(address.coefficient(self.along))
        start = f.add(i, f.mul(j, stride))
        source = f.gep(ctx.values.pointer(n.access.tensor, address), start, element)
        to = ctx.memory.base(tile.tensor)
        count, k = f.sub(ends[1], j), f.sub(ends[0], i)
        f.call(pack_name(element), VOID, [source, stride, const(I64, 1), count, const(I64, self.side), k, to])
        origin = f.add(f.mul(i, self.side), j)
        ctx.memory.move(tile.tensor, f.gep(to, f.neg(origin), element))
        ctx.levels.hold(n, tile)
