"""Products for sums over several variables, such as convolutions: one operand lies in memory, the other is computed, gathered, or read by
taps from a copy of windows.

In: stores of one sum. Out: a product, or None where loops do as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.analyse.windows import Staged, Windows, product_windows, row_windows
from anyshape.lower.ir.dag import Access, Dag, DagNode, Load, LoopVar, Reduction, affine, row_major, walk
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.ir.terms import NODES
from anyshape.lower.schedule.byte_products import ByteProducts
from anyshape.lower.schedule.codes import operand_of, raw_sum, sides_of
from anyshape.lower.schedule.distributed import distributed
from anyshape.lower.schedule.factors import (
    contraction,
    factors_of,
    is_contiguous,
    is_covered,
    is_free,
    joined_step,
    plain_access,
    words_of,
)
from anyshape.lower.schedule.products import (
    ColumnOperand,
    ComputedColumns,
    GatheredRows,
    InMemory,
    Product,
    RowOperand,
    WindowColumns,
    WindowRows,
)
from anyshape.lower.schedule.rows_in_place import rows_in_place, rows_of_lines

FEW_RESULTS = 8
"""Results of a plane that are computed row by row though its elements are taken apart by remainder."""


def makes_words(reduction: Reduction, windows: Windows[DagNode]) -> bool:
    """Whether taps of a copy of windows can be packed as what the reduction multiplies: words take those of channels that one variable
    counts."""
    return words_of(reduction) is None or len(windows.staged.channels) <= 1


def _is_for_rows(staged: Staged, results: LoopVar) -> bool:
    """Whether windows of one plane have so few results, or so much in common, that rows of them are computed from the copy itself: a
    product would have each tap packed for few products."""
    few = isinstance(results.extent, int) and results.extent <= FEW_RESULTS
    return not staged.channels and (few or all(m.step == 1 for m in staged.moving))


def _positions(windows: Windows[DagNode]) -> set[LoopVar]:
    return {m.position for m in windows.staged.moving}


class WindowProducts:
    """Recognises products of windows. `bytes_`: products of bytes may be that."""

    def __init__(self, dag: Dag, constants: Mapping[Tensor, NDArray[Any]], bytes_: bool) -> None:
        self.dag, self.constants, self.bytes = dag, constants, bytes_
        self.of_bytes = ByteProducts(dag, constants)

    def product(self, stores: list[Store], reds: list[Reduction]) -> Product | None:
        """A product for a sum over several variables of a plain operand, in which they are contiguous, times anything: a convolution,
        say."""
        if (
            len(reds) != 1
            or any(s.domain != reds[0].domain for s in stores)
            or contraction(reds[0], over_several=True) is None
        ):
            return None
        (reduction,) = reds
        of_bytes = self._gathered_bytes(stores, reduction) or self._window_of_bytes(reduction, stores)
        if of_bytes is not None:
            return of_bytes
        gathered = self._gathered(stores, reduction)
        if gathered is not None:
            return gathered
        over, factors = reduction.variables, factors_of(reduction)
        inner = [v for v, c in stores[0].access.address.terms if c == 1]
        for widened, b in (factors, factors[::-1]):
            plain = plain_access(widened)
            ahead = () if plain is not None else self._bytes_ahead(widened, over, stores)
            a = plain if not ahead else ahead[0].access
            if a is None:
                continue
            step = joined_step(a, over)
            inside = [v for v in inner if v in b.domain - a.domain]
            rows = [v for v in stores[0].variables if v in a.domain - b.domain]
            if step is None or not inside or not rows or not is_free(b):
                continue
            k, access = self._as_one(over, a, step)
            m, n = rows[-1], inside[0]
            seen = product_windows(self.dag, reduction, b, stores)
            windows = None
            moved = {n}
            if seen is not None and makes_words(reduction, seen[0]) and not _positions(seen[0]) & a.domain:
                windows, n = seen
                if _is_for_rows(windows.staged, m) and isinstance(row_windows(self.dag, stores), Windows):
                    return None
                moved = {p.position for p in windows.staged.moving}
            batch = tuple(v for v in stores[0].variables if v is not m and v not in moved)
            operand: ColumnOperand = ComputedColumns(b, over) if windows is None else WindowColumns(b, over, windows)
            few = distributed(self.dag, tuple(stores), reduction, m)
            return Product(
                sum=reduction, a=InMemory(access), b=operand, m=m, n=n, k=k, batch=batch, stores=tuple(stores), few=few, ahead=ahead,
                words=words_of(reduction),
            )  # fmt: skip
        return None

    def _bytes_ahead(self, factor: DagNode, over: tuple[LoopVar, ...], stores: list[Store]) -> tuple[Store, ...]:
        """Bytes less a zero point as integers in scratch, contiguous in what is summed over: for a product that is none of bytes."""
        x = operand_of(NODES, factor, over, self.constants) if self.bytes else None
        if x is None or not isinstance(x.stored, Load) or not x.stored.access.is_plain:
            return ()
        variables = (*(v for v in stores[0].variables if v in factor.domain), *over)
        tensor = Tensor("wide", factor.dtype, tuple(v.extent for v in variables))
        return (Store(Access(tensor, affine(row_major(variables)[0], 0)), factor, variables),)

    def _window_of_bytes(self, reduction: Reduction, stores: list[Store]) -> Product | None:
        """Returns a product of bytes less zero points for a sum over channels and taps: a convolution, say."""
        over, dag = reduction.variables, self.dag
        factors = [operand_of(NODES, x, over, self.constants) for x in reduction.body.inputs]
        for a, b in (factors, factors[::-1]) if self.bytes else ():
            if a is None or b is None or not isinstance(a.stored, Load) or not a.stored.access.is_plain:
                continue
            step = joined_step(a.stored.access, over)
            rows = [v for v in stores[0].variables if v in a.stored.domain - b.stored.domain]
            seen = product_windows(dag, reduction, b.stored, stores) if step is not None and rows else None
            if seen is None or step is None or len(seen[0].staged.channels) > 1:
                continue
            windows, n = seen
            moved = {p.position for p in windows.staged.moving}
            if moved & a.stored.domain or not is_free(b.stored):
                continue
            codes = sides_of(a, b, flips_a=False)
            raw = raw_sum(dag, (a, b), codes, over)
            columns = Tensor("columns", raw.dtype, (n.extent,))
            places = zip(windows.staged.moving, windows.staged.result_pitches, strict=True)
            of_window = dag.load(Access(columns, affine([(m.position, pitch) for m, pitch in places], 0)))
            total, ahead, known = self.of_bytes.corrected(raw, (a, b), codes, over, stores, of_window)
            rebuild = Rebuild(dag, {reduction: total})
            new = tuple(rebuild.store(s) for s in stores)
            k, access = self._as_one(over, a.stored.access, step)
            batch = tuple(v for v in stores[0].variables if v is not rows[-1] and v not in moved)
            sums = columns if of_window in below(new, stop=raw) else None
            return Product(
                sum=raw, a=InMemory(access), b=WindowColumns(b.stored, over, windows, sums), m=rows[-1], n=n, k=k, batch=batch,
                stores=new, words=codes, ahead=ahead, known=known,
            )  # fmt: skip
        return None

    def _gathered(self, stores: list[Store], reduction: Reduction) -> Product | None:
        """A product whose rows are all places of a result that is contiguous along what a constant has alone: a convolution that stores
        channels last. What a row is multiplied by is gathered for a block of rows, wherever it lies."""
        inner, factors = {v for v, c in stores[0].access.address.terms if c == 1}, factors_of(reduction)
        for x, factor in (factors, factors[::-1]):
            b = plain_access(factor)
            if (
                b is None
                or b.tensor not in self.constants
                or not is_covered(b, self.constants[b.tensor])
                or not is_free(x)
            ):
                continue
            columns = [v for v in stores[0].variables if v in inner & (b.domain - x.domain)]
            rows = tuple(v for v in stores[0].variables if v in x.domain - b.domain)
            along = [v for v in reduction.variables if any(is_contiguous(n, v) for n in walk([x]))]
            if not columns or not rows or len(along) != 1:
                continue
            over = (*(v for v in reduction.variables if v is not along[0]), along[0])
            m, windows = self._counting(rows), None
            seen = self._row_windows(reduction, x, stores, b)
            if seen is not None and makes_words(
                reduction, seen[0]
            ):  # its channels are not adjacent: a row of them is gathered for many places at once
                windows, m = seen
                over, rows = reduction.variables, tuple(p.position for p in windows.staged.moving)
            a: RowOperand
            if windows is not None:
                a = WindowRows(x, over, rows, windows)
            else:
                if words_of(reduction) is None:
                    read = rows_in_place(self.dag, x, over, rows, self.constants[b.tensor])
                else:
                    read = rows_of_lines(x, over, rows)
                if read is not None and read.rows != rows:
                    rows, m = read.rows, self._counting(read.rows)
                a = GatheredRows(x, over, rows, read)
            batch = tuple(v for v in stores[0].variables if v is not columns[0] and v not in rows)
            return Product(
                sum=reduction, a=a, b=InMemory(b, b.tensor), m=m, n=columns[0], k=self._counting(over), batch=batch,
                stores=tuple(stores), words=words_of(reduction),
            )  # fmt: skip
        return None

    def _gathered_bytes(self, stores: list[Store], reduction: Reduction) -> Product | None:
        """Returns a product of bytes less zero points whose rows are all places of a result, gathered for a block of rows."""
        inner = {v for v, c in stores[0].access.address.terms if c == 1}
        factors = [operand_of(NODES, x, reduction.variables, self.constants) for x in reduction.body.inputs]
        for x, w in (factors, factors[::-1]) if self.bytes else ():
            if (
                x is None
                or w is None
                or not isinstance(w.stored, Load)
                or not self.of_bytes.is_constant(w)
                or not is_free(x.stored)
            ):
                continue
            b = w.stored.access
            columns = [v for v in stores[0].variables if v in inner & (b.domain - x.stored.domain)]
            rows = tuple(v for v in stores[0].variables if v in x.stored.domain - b.domain)
            along = [v for v in reduction.variables if any(is_contiguous(n, v) for n in walk([x.stored]))]
            if not columns or not rows or len(along) != 1:
                continue
            over = (*(v for v in reduction.variables if v is not along[0]), along[0])
            m, windows = self._counting(rows), None
            seen = self._row_windows(reduction, x.stored, stores, b)
            if seen is not None:
                if len(seen[0].staged.channels) > 1:
                    continue
                windows, m = seen
                over, rows = reduction.variables, tuple(p.position for p in windows.staged.moving)
            codes = sides_of(x, w, flips_a=True)
            raw = raw_sum(self.dag, (x, w), codes, reduction.variables)
            total, ahead, known = self.of_bytes.corrected(raw, (x, w), codes, reduction.variables, stores)
            rebuild = Rebuild(self.dag, {reduction: total})
            batch = tuple(v for v in stores[0].variables if v is not columns[0] and v not in rows)
            a: RowOperand = (
                GatheredRows(x.stored, over, rows, rows_of_lines(x.stored, over, rows))
                if windows is None
                else WindowRows(x.stored, over, rows, windows)
            )
            return Product(
                sum=raw, a=a, b=InMemory(b, b.tensor), m=m, n=columns[0], k=self._counting(over), batch=batch,
                stores=tuple(rebuild.store(s) for s in stores), words=codes, ahead=ahead, known=known,
            )  # fmt: skip
        return None

    def _row_windows(
        self, reduction: Reduction, x: DagNode, stores: list[Store], b: Access
    ) -> tuple[Windows[DagNode], LoopVar] | None:
        """The windows that rows are gathered from, whose positions the rows then count; None where b differs between those."""
        seen = product_windows(self.dag, reduction, x, stores, stored_along=False)
        if seen is None or _positions(seen[0]) & b.domain:
            return None
        return seen

    def _counting(self, variables: Sequence[LoopVar]) -> LoopVar:
        """A variable with a value for each of those of several."""
        extent: Size = 1
        for v in variables:
            extent = extent * v.extent
        return self.dag.variable(extent)

    def _as_one(self, over: Sequence[LoopVar], x: Access, step: Size) -> tuple[LoopVar, Access]:
        """A variable in place of several that are contiguous in an access, and the access with it."""
        k = self._counting(over)
        kept = [(v, c) for v, c in x.address.terms if v not in over]
        return k, Access(x.tensor, affine([*kept, (k, step)], x.address.offset))
