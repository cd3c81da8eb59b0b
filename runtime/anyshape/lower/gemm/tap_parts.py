"""What the loops over windows that are read in place have in common: operands of a batch, and what one of several threads computes.

In: an open kernel, a `ContractionSpec` whose A is `TapRows`. Out: addresses, indices and ranges, decided when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I64, Type, Val, ValLike, const
from .spec import ContractionSpec, Prepacked, TapRows, Tile

Range = tuple[Val, Val]


@dataclass(frozen=True)
class PanelColumns:
    """A panel: its first column, the columns that exist, where B begins, and the number of the first kernel for so many columns."""

    first: Val
    count: Val
    b: Val
    kind: Val


def ceil_div(f: FunctionBuilder, a: ValLike, b: ValLike) -> Val:
    return f.i64(a) if b == 1 else f.binary("udiv", f.add(f.i64(a), f.sub(f.i64(b), 1)), f.i64(b))


def indices_of(f: FunctionBuilder, number: Val, extents: Sequence[Val]) -> list[Val]:
    """The indices that a number counts, row-major."""
    indices: list[Val] = []
    for extent in reversed(extents[1:]):
        quotient = f.binary("udiv", number, extent)
        indices.insert(0, f.sub(number, f.mul(quotient, extent)))
        number = quotient
    return [number, *indices] if extents else []


def operands_of_batch(
    f: FunctionBuilder, spec: ContractionSpec, rows: TapRows, types: tuple[Type, Type], number: Val
) -> tuple[Tile, Val, Val]:
    """The indices of a batch, and where its A and its B begin, whose elements have these types."""
    assert isinstance(spec.b, Prepacked)
    indices = indices_of(f, number, [f.i64(batch.extent) for batch in spec.batch])
    a, b = const(I64, 0), const(I64, 0)
    for index, batch in zip(indices, spec.batch, strict=True):
        a, b = f.add(a, f.mul(index, f.i64(batch.a))), f.add(b, f.mul(index, f.i64(batch.b)))
    return Tile(tuple(indices)), f.gep(rows.pointer, a, types[0]), f.gep(spec.b.pointer, b, types[1])


def shares_of_part(f: FunctionBuilder, of: tuple[Val, Val], part: Val, nparts: Val) -> tuple[Range, Range]:
    """The rows, counted in units that are not divided, and the panels of a part: whichever can be shared out more evenly is."""
    (count, panels), zero = of, const(I64, 0)
    if nparts.number == 1:
        return (zero, count), (zero, panels)

    def share(total: Val, own: Val) -> Range:
        low = f.binary("udiv", f.mul(total, part), nparts)
        high = f.binary("udiv", f.mul(total, f.add(part, 1)), nparts)
        return f.select(own, low, zero), f.select(own, high, total)

    by_rows = f.compare("le", f.mul(ceil_div(f, count, nparts), panels), f.mul(ceil_div(f, panels, nparts), count))
    return share(count, by_rows), share(panels, f.not_(by_rows))
