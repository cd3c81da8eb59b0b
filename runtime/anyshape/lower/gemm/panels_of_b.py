"""B as the micro-kernels read it, for some columns: panels packed before, packed here, or B in place.

In: the context, the operands of a batch, columns. Out: `Panels`, and code that packs what has to be packed.
"""

from __future__ import annotations

from dataclasses import replace

from ..llvm.types import I1, I64, Val, const
from .blocks import BatchOperands, Panels
from .context import ContractionContext
from .matrix_tiles import clear_steps
from .panels import ColumnPacker, fits_dot, pack_strided, words_in_place
from .spec import Packed, Prepacked, Strided
from .words import OperandWords


def panels_of_b(ctx: ContractionContext, ops: BatchOperands, first: Val, end: Val) -> Panels:
    f, spec, width = ctx.f, ctx.spec, const(I64, ctx.tiles.columns)
    if isinstance(spec.b, Prepacked):
        assert ops.b is not None
        base = f.gep(ops.b, f.mul(first, ctx.panel_steps), ctx.b_type)
        return Panels(base, first, end, width, ctx.panel_steps)
    packed = Panels(ctx.b_scratch, first, end, width, ctx.panel_steps)
    if isinstance(spec.b, Packed):
        _pack_panels(ctx, ops, packed)
        return packed
    assert ops.b is not None
    if spec.words is not None:
        return _panels_of_words(ctx, ops, spec.words, packed)
    one = const(I64, 1)
    in_place = Panels(
        f.gep(ops.b, first, ctx.b_type), first, end, f.i64(spec.b.outer), one, dot=None, in_place=const(I1, 1)
    )
    if spec.b.inner == 1:
        return in_place
    inner = f.i64(spec.b.inner)
    unit = f.compare("eq", inner, one)
    dot = const(I1, 0)
    if isinstance(spec.a, Strided):
        dot = fits_dot(f, ctx.tiles, f.i64(spec.a.inner), spec.b, ctx.all_rows())
    if spec.b.panels is not None:
        start = f.gep(spec.b.panels, f.mul(first, ctx.k), ctx.b_type)
        packed = Panels(start, first, end, width, ctx.k)
    else:
        with f.if_(f.not_(f.or_(unit, dot))):
            _pack_panels(ctx, ops, packed)
    column = f.gep(ops.b, f.mul(first, inner), ctx.b_type)
    return Panels(
        f.select(dot, column, f.select(unit, in_place.base, packed.base)),
        first,
        end,
        f.select(dot, inner, f.select(unit, in_place.step, packed.step)),
        f.select(dot, inner, f.select(unit, one, ctx.k)),
        dot=dot,
        in_place=unit,
    )


def _panels_of_words(ctx: ContractionContext, ops: BatchOperands, words: OperandWords, packed: Panels) -> Panels:
    """B packed as words, or in place where few rows are multiplied."""
    f, spec = ctx.f, ctx.spec
    first, panels = packed.first, spec.b.panels if isinstance(spec.b, Strided) else None
    if panels is not None:
        packed = replace(packed, base=f.gep(panels, f.mul(first, ctx.panel_steps), ctx.b_type))
    if not words.reads_b or not isinstance(spec.a, Strided) or not isinstance(spec.b, Strided):
        if panels is None:
            _pack_panels(ctx, ops, packed)
        return packed
    assert ops.b is not None
    inner, outer = f.i64(spec.b.inner), f.i64(spec.b.outer)
    in_place = words_in_place(f, ctx.tiles, words, f.i64(spec.a.inner), spec.b, ctx.all_rows())
    dot, strip = in_place.dot, in_place.strip
    either = f.or_(dot, strip)
    if panels is None:
        with f.if_(f.not_(either)):
            _pack_panels(ctx, ops, packed)
    return Panels(
        f.select(either, f.gep(ops.b, f.mul(first, inner), ctx.b_type), packed.base),
        first,
        packed.end,
        f.select(dot, inner, f.select(strip, outer, packed.step)),
        f.select(either, inner, ctx.panel_steps),
        dot=dot,
        strip=strip,
    )


def _pack_panels(ctx: ContractionContext, ops: BatchOperands, panels: Panels) -> None:
    f, b, tiles = ctx.f, ctx.spec.b, ctx.tiles
    if isinstance(b, Strided):
        assert ops.b is not None
        packer = ColumnPacker(ctx.b_packer, ctx.source_types[1], ctx.k, ctx.panel_steps)
        pack_strided(f, tiles, ops.b, b, ctx.depth, panels.first, panels.end, panels.base, ctx.b_type, packer)
    elif isinstance(b, Packed):
        with f.for_range(panels.first, panels.end, tiles.columns) as loop:
            count = f.smin(f.sub(panels.end, loop.index), tiles.columns)
            to = f.gep(panels.base, f.mul(f.sub(loop.index, panels.first), ctx.panel_steps), tiles.element)
            b.emit(f, ops.tile, loop.index, count, const(I64, tiles.columns), to)
            if ctx.matrix is not None:
                clear_steps(f, to, tiles.columns, ctx.k, ctx.panel_steps)
