"""The micro-kernel of one row against a B read in place, which is bound by memory alone.

Panels would read a few hundred bytes of every row of B and skip the rest, which prefetchers do not follow. Here some whole rows (as far as
the requested columns go) are read side by side, the sums being in memory meanwhile; each sum still adds up in the order of k.

In: the arguments of every kernel; `count` columns, any number. Out: the function.
"""

from __future__ import annotations

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.types import I64, VOID, Type, Val, const
from .kernel_arguments import KERNEL_ARGUMENTS, multiply_add, widened
from .tiles import Tiles

_ABREAST = 4


def emit_strip(module: Module, tiles: Tiles, name: str, stored: Type) -> None:
    element, lanes = tiles.element, tiles.lanes
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        k, a, _, a_step, b, b_step, _, c, _, count, *_ = f.args
        whole = f.binary("and", count, const(I64, -lanes))
        mask = f.tail_mask(f.sub(count, whole), lanes)
        ragged = f.compare("lt", whole, count)
        with f.for_range(0, whole, lanes) as loop:
            f.store(const(element.vector(lanes), 0), c, loop.index)
        with f.if_(ragged):
            f.masked_store(const(element.vector(lanes), 0), c, mask, whole)
        together = f.binary("and", k, const(I64, -_ABREAST))
        for start, stop, step in ((const(I64, 0), together, _ABREAST), (together, k, 1)):
            with f.for_range(start, stop, step) as loop:
                factors, rows = [], []
                for i in range(step):
                    at = f.add(loop.index, i)
                    factors.append(f.splat(f.load(a, element, f.mul(at, a_step)), lanes))
                    rows.append(f.gep(b, f.mul(at, b_step), stored))
                _add_rows(f, tiles, factors, (rows, stored), c, whole, ragged, mask)
        f.ret()


def _add_rows(
    f: FunctionBuilder,
    tiles: Tiles,
    factors: list[Val],
    of: tuple[list[Val], Type],
    c: Val,
    whole: Val,
    ragged: Val,
    mask: Val,
) -> None:
    """Adds the rows to c, each times its factor."""
    vector = tiles.element.vector(tiles.lanes)
    rows, narrow = of[0], of[1].vector(tiles.lanes)
    with f.for_range(0, whole, tiles.lanes) as loop:
        total = f.load(c, vector, loop.index)
        for factor, row in zip(factors, rows):
            total = multiply_add(f, factor, widened(f, f.load(row, narrow, loop.index), vector), total)
        f.store(total, c, loop.index)
    with f.if_(ragged):
        total = f.masked_load(c, vector, mask, whole)
        for factor, row in zip(factors, rows):
            read = f.masked_load(row, narrow, mask, whole)
            total = multiply_add(f, factor, widened(f, read, vector), total)
        f.masked_store(total, c, mask, whole)
