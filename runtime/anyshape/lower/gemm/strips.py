"""Micro-kernels of few rows against a B read in place, which is bound by memory alone.

Panels would read a few hundred bytes of every row of B and skip the rest, which prefetchers do not follow. Here some whole rows (as far as
the requested columns go) are read side by side, the sums being in memory meanwhile; each sum still adds up in the order of k.

In: the arguments of every kernel; `count` columns, any number. Of words, rows of A have steps of words, and `k` and B those of elements:
so many rows of B are a step. Out: the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.types import I64, VOID, Type, Val, const
from .kernel_arguments import KERNEL_ARGUMENTS, multiply_add, widened
from .tiles import Tiles

_ABREAST = 4
"""Rows of B that are read side by side for one row of A, and steps of k for several: one row waits for memory, several for their sums."""


class StripOperands(Protocol):
    """How rows of B become the columns of a step, and are multiplied."""

    @property
    def stored(self) -> Type:
        """The type of B in memory."""

    @property
    def per(self) -> int:
        """Rows of B that are a step."""

    def columns(self, f: FunctionBuilder, rows: Sequence[Val]) -> Val:
        """What is multiplied of a vector of each row of a step; of the last step some may be zeros."""

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val: ...


@dataclass(frozen=True)
class StoredRows:
    """Rows of elements, widened from what they are stored as."""

    element: Type
    stored: Type

    @property
    def per(self) -> int:
        return 1

    def columns(self, f: FunctionBuilder, rows: Sequence[Val]) -> Val:
        (row,) = rows
        return widened(f, row, self.element.vector(row.type.lanes))

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
        return multiply_add(f, a, b, total)


@dataclass(frozen=True, kw_only=True)
class _Strip:
    """The sums of some rows of A: `whole` columns in whole vectors, and a `ragged` last one of the lanes that `mask` has."""

    element: Type
    lanes: int
    rows: int
    c: Val
    c_step: Val
    whole: Val
    ragged: Val
    mask: Val


@dataclass(frozen=True)
class _StripStep:
    """A factor for each row of A, and the rows of B that they are multiplied by; None for one past the last."""

    factors: Sequence[Val]
    rows: Sequence[Val | None]


def emit_strip(module: Module, tiles: Tiles, name: str, rows: int, of: StripOperands) -> None:
    element, lanes, per = tiles.element, tiles.lanes, of.per
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        k, a, a_row, a_step, b, b_step, _, c, c_step, count, *_ = f.args
        whole = f.binary("and", count, const(I64, -lanes))
        mask, ragged = f.tail_mask(f.sub(count, whole), lanes), f.compare("lt", whole, count)
        strip = _Strip(
            element=element, lanes=lanes, rows=rows, c=c, c_step=c_step, whole=whole, ragged=ragged, mask=mask
        )
        _clear(f, strip)
        steps = k if per == 1 else f.binary("udiv", k, const(I64, per))
        most = _ABREAST if rows > 1 else max(_ABREAST // per, 1)
        together = f.binary("and", steps, const(I64, -most))

        def step(index: Val, exist: int = per) -> _StripStep:
            factors = [
                f.splat(f.load(a, element, f.add(f.mul(index, a_step), f.mul(a_row, i))), lanes) for i in range(rows)
            ]
            first = index if per == 1 else f.mul(index, per)
            starts = [f.gep(b, f.mul(f.add(first, i), b_step), of.stored) for i in range(exist)]
            return _StripStep(factors, [*starts, *[None] * (per - exist)])

        for start, stop, abreast in ((const(I64, 0), together, most), (together, steps, 1)):
            with f.for_range(start, stop, abreast) as loop:
                _add_steps(f, strip, [step(f.add(loop.index, i)) for i in range(abreast)], of)
        for exist in range(1, per):
            with f.if_(f.compare("eq", f.sub(k, f.mul(steps, per)), exist)):
                _add_steps(f, strip, [step(steps, exist)], of)
        f.ret()


def _clear(f: FunctionBuilder, strip: _Strip) -> None:
    """Sets all sums to 0."""
    nothing = const(strip.element.vector(strip.lanes), 0)
    for row in range(strip.rows):
        c = _row(f, strip, row)
        with f.for_range(0, strip.whole, strip.lanes) as loop:
            f.store(nothing, c, loop.index)
        with f.if_(strip.ragged):
            f.masked_store(nothing, c, strip.mask, strip.whole)


def _row(f: FunctionBuilder, strip: _Strip, row: int) -> Val:
    return f.gep(strip.c, f.mul(strip.c_step, row), strip.element) if row else strip.c


def _add_steps(f: FunctionBuilder, strip: _Strip, steps: Sequence[_StripStep], of: StripOperands) -> None:
    """Adds the products of some steps to all sums."""
    with f.for_range(0, strip.whole, strip.lanes) as loop:
        _add_vector(f, strip, steps, of, loop.index, None)
    with f.if_(strip.ragged):
        _add_vector(f, strip, steps, of, strip.whole, strip.mask)


def _add_vector(
    f: FunctionBuilder, strip: _Strip, steps: Sequence[_StripStep], of: StripOperands, index: Val, mask: Val | None
) -> None:
    """Adds the products of some steps to a vector of the sums of each row."""
    vector, stored = strip.element.vector(strip.lanes), of.stored.vector(strip.lanes)

    def read(at: Val, type_: Type) -> Val:
        return f.load(at, type_, index) if mask is None else f.masked_load(at, type_, mask, index)

    columns = [
        of.columns(f, [const(stored, 0) if start is None else read(start, stored) for start in s.rows]) for s in steps
    ]
    for row in range(strip.rows):
        c = _row(f, strip, row)
        total = read(c, vector)
        for s, column in zip(steps, columns):
            total = of.multiply_add(f, s.factors[row], column, total)
        if mask is None:
            f.store(total, c, index)
        else:
            f.masked_store(total, c, mask, index)
