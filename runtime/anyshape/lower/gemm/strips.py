"""Micro-kernels of few rows against a B read in place, which is bound by memory alone.

Panels would read a few hundred bytes of every row of B and skip the rest, which prefetchers do not follow. Here some whole rows (as far as
the requested columns go) are read side by side, the sums being in memory meanwhile. Short rows of words are read one step after the other,
a few vectors of them, the sums being in registers: memory is then read in the order in which it lies. Either way each sum adds up in the
order of k.

In: the arguments of every kernel; `count` columns, any number. Of words, rows of A have steps of words, and `k` and B those of elements:
so many rows of B are a step. Out: the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.types import I64, VOID, Type, Val, const
from .kernel_arguments import KERNEL_ARGUMENTS, multiply_add, widened
from .tiles import Tiles

_UNROLLED = 4
"""Rows of B that an iteration reads for one row of A, and steps of k for several: one row waits for memory, several for their sums."""


_SHORT = 4
"""Groups of columns with sums in registers of which rows are short."""
_WIDEST = 8
"""Vectors of columns with sums in registers, at most."""


class StripOperands(Protocol):
    """How rows of B become the columns of a step, and are multiplied."""

    @property
    def stored(self) -> Type:
        """The type of B in memory."""

    @property
    def per(self) -> int:
        """Rows of B that are a step."""

    @property
    def is_of_words(self) -> bool:
        """Whether elements of B become words as they are read."""

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

    @property
    def is_of_words(self) -> bool:
        return False

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
        steps = k if per == 1 else f.binary("udiv", k, const(I64, per))
        most = _UNROLLED if rows > 1 else max(_UNROLLED // per, 1)
        together = f.binary("and", steps, const(I64, -most))

        def step(index: Val, exist: int = per) -> _StripStep:
            factors = [
                f.splat(f.load(a, element, f.add(f.mul(index, a_step), f.mul(a_row, i))), lanes) for i in range(rows)
            ]
            first = index if per == 1 else f.mul(index, per)
            starts = [f.gep(b, f.mul(f.add(first, i), b_step), of.stored) for i in range(exist)]
            return _StripStep(factors, [*starts, *[None] * (per - exist)])

        def add_all() -> None:
            _clear(f, strip)
            for start, stop, unrolled in ((const(I64, 0), together, most), (together, steps, 1)):
                with f.for_range(start, stop, unrolled) as loop:
                    _add_steps(f, strip, [step(f.add(loop.index, i)) for i in range(unrolled)], of)
            for exist in range(1, per):
                with f.if_(f.compare("eq", f.sub(k, f.mul(steps, per)), exist)):
                    _add_steps(f, strip, [step(steps, exist)], of)

        if not of.is_of_words:
            add_all()
        else:
            width = _vectors_at_once(tiles, rows) * lanes
            with f.if_else(f.compare("le", count, _SHORT * width)) as is_short:
                with is_short.then():
                    left = f.sub(k, f.mul(steps, per))
                    _sum_groups(f, strip, of, _Steps(step, steps, left), width // lanes)
                with is_short.otherwise():
                    add_all()
        f.ret()


def _vectors_at_once(tiles: Tiles, rows: int) -> int:
    """Vectors of columns of which the sums of so many rows are in registers beside the operands; a power of two where they are four and
    more, as usual rows of columns are."""
    most = max(min((tiles.rows * tiles.vectors - 4) // rows, _WIDEST), 1)
    return most if most < 4 else 1 << (most.bit_length() - 1)


@dataclass(frozen=True)
class _Steps:
    """The steps of a sum: `count` whole ones by their number, and a last one of the `left` rows of B that are no whole step."""

    step: Callable[..., _StripStep]
    count: Val
    left: Val


def _sum_groups(f: FunctionBuilder, strip: _Strip, of: StripOperands, steps: _Steps, vectors: int) -> None:
    """Stores all sums, those of some vectors of columns after the other, of fewer vectors at the end."""
    first: Val = const(I64, 0)
    for some in (vectors, *(n for n in (4, 2, 1) if n < vectors)):
        width = some * strip.lanes
        end = f.add(first, f.mul(f.binary("udiv", f.sub(strip.whole, first), const(I64, width)), width))
        with f.for_range(first, end, width) as loop:
            _sum_group(f, strip, of, steps, [(f.add(loop.index, v * strip.lanes), None) for v in range(some)])
        first = end
    with f.if_(strip.ragged):
        _sum_group(f, strip, of, steps, [(strip.whole, strip.mask)])


def _sum_group(
    f: FunctionBuilder, strip: _Strip, of: StripOperands, steps: _Steps, places: Sequence[tuple[Val, Val | None]]
) -> None:
    """Stores the sums of a few vectors of columns, which begin at places and have the lanes of masks."""
    nothing = const(strip.element.vector(strip.lanes), 0)

    def added(of_step: _StripStep, totals: Sequence[Val]) -> list[Val]:
        columns = [_columns(f, strip, of, of_step, place, mask) for place, mask in places]
        pairs = [(factor, column) for factor in of_step.factors for column in columns]
        return [of.multiply_add(f, *pair, total) for pair, total in zip(pairs, totals, strict=True)]

    with f.for_range(0, steps.count, carried=[nothing] * (strip.rows * len(places))) as loop:
        loop.next(*added(steps.step(loop.index), loop.carried))
    totals: Sequence[Val] = loop.results
    for exist in range(1, of.per):
        some = f.compare("eq", steps.left, exist)
        with f.for_range(0, f.convert("zext", some, I64), carried=totals) as once:
            once.next(*added(steps.step(steps.count, exist), once.carried))
        totals = once.results
    for number, total in enumerate(totals):
        row, (place, mask) = number // len(places), places[number % len(places)]
        _write(f, total, _row(f, strip, row), place, mask)


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
    vector = strip.element.vector(strip.lanes)
    columns = [_columns(f, strip, of, s, index, mask) for s in steps]
    for row in range(strip.rows):
        c = _row(f, strip, row)
        total = _read(f, c, vector, index, mask)
        for s, column in zip(steps, columns):
            total = of.multiply_add(f, s.factors[row], column, total)
        _write(f, total, c, index, mask)


def _columns(
    f: FunctionBuilder, strip: _Strip, of: StripOperands, step: _StripStep, index: Val, mask: Val | None
) -> Val:
    """What is multiplied of a vector of columns in a step."""
    stored = of.stored.vector(strip.lanes)
    rows = [const(stored, 0) if start is None else _read(f, start, stored, index, mask) for start in step.rows]
    return of.columns(f, rows)


def _read(f: FunctionBuilder, at: Val, type_: Type, index: Val, mask: Val | None) -> Val:
    return f.load(at, type_, index) if mask is None else f.masked_load(at, type_, mask, index)


def _write(f: FunctionBuilder, value: Val, at: Val, index: Val, mask: Val | None) -> None:
    if mask is None:
        f.store(value, at, index)
    else:
        f.masked_store(value, at, mask, index)
