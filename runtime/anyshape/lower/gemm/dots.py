"""Micro-kernels for few rows of A and a B whose columns are contiguous along k: attention of one query, mostly.

To transpose such a B in registers would cost more than the product itself. Here vectors run along k, a sum per column is kept in a vector
of its own, and a vector full of columns is folded into one at the end.

In: the row count. Out: a function with the arguments of every kernel, of which `a_row` is the distance of rows of A, and `b_step` here that
of columns of B; `a_step` and `b_panel` are not used.
"""

from __future__ import annotations

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.types import I64, VOID, Type, Val, const
from .kernel_arguments import KERNEL_ARGUMENTS, multiply_add, widened
from .tiles import Tiles


def emit_dot(module: Module, tiles: Tiles, name: str, rows: int, stored: Type) -> None:
    element, lanes = tiles.element, tiles.lanes
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        k, a, a_row, _, b, b_step, _, c, c_step, count, *_ = f.args
        with f.for_range(0, count, lanes) as columns:
            last = f.sub(f.sub(count, columns.index), 1)
            starts = [f.gep(b, f.mul(f.add(columns.index, f.smin(last, j)), b_step), stored) for j in range(lanes)]
            mask = f.tail_mask(f.sub(count, columns.index), lanes)
            with f.for_range(0, rows, carried=[a, c], at_least_once=True) as each:
                row, to = each.carried
                f.masked_store(_dots(f, tiles, k, row, starts, stored), to, mask, columns.index)
                each.next(f.gep(row, a_row, element), f.gep(to, c_step, element))
        f.ret()


def _dots(f: FunctionBuilder, tiles: Tiles, k: Val, row: Val, starts: list[Val], stored: Type) -> Val:
    """The products of one row with a vector full of columns."""
    lanes = tiles.lanes
    vector, narrow = tiles.element.vector(lanes), stored.vector(lanes)
    whole = f.sub(k, f.binary("and", k, const(I64, lanes - 1)))
    with f.for_range(0, whole, lanes, carried=[const(vector, 0)] * lanes) as loop:
        factor = f.load(row, vector, loop.index)
        loop.next(
            *[
                multiply_add(f, factor, widened(f, f.load(start, narrow, loop.index), vector), total)
                for start, total in zip(starts, loop.carried)
            ]
        )
    rest = f.tail_mask(f.sub(k, whole), lanes)
    with f.for_range(whole, k, lanes, carried=loop.results) as tail:
        factor = f.masked_load(row, vector, rest, whole)
        tail.next(
            *[
                multiply_add(f, factor, widened(f, f.masked_load(start, narrow, rest, whole), vector), total)
                for start, total in zip(starts, tail.carried)
            ]
        )
    return _fold(f, list(tail.results))


def _fold(f: FunctionBuilder, totals: list[Val]) -> Val:
    """Lane j of the result is the sum of the lanes of vector j: neighbours are added until one vector is left."""
    lanes = totals[0].type.lanes
    even, odd = list(range(0, 2 * lanes, 2)), list(range(1, 2 * lanes, 2))
    while len(totals) > 1:
        totals = [f.add(f.shuffle(x, y, even), f.shuffle(x, y, odd)) for x, y in zip(totals[::2], totals[1::2])]
    return totals[0]
