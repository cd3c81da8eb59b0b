"""Products of the steps of a recurrence that are shared out to threads column by column, step by step.

In: a `Recurrence`. Out: those products, with the cycles of each in a step. Rows that are shared out have all steps for themselves, and no
part waits for another; but each part reads all columns, so that few rows gain nothing, and a batch of one has none to share.
"""

from __future__ import annotations

from anyshape import dims
from anyshape.dims import Size, bounds, substitute
from anyshape.kernel_model.costs import CYCLES_PER_PART
from anyshape.lower.schedule.blocked import BlockOfRows
from anyshape.lower.schedule.products import InMemory, Product
from anyshape.lower.schedule.recurrence import Recurrence, StepForm
from anyshape.lower.schedule.work import cycles
from anyshape.lower.target import Target

FEW_ROWS = 4
"""Rows up to which columns of products are shared out, and not rows: the cycles of a product are those of reading its columns, about as
many as those of four rows."""


def shared_products(r: Recurrence, lanes: int, target: Target) -> dict[Product, Size]:
    """The products that are surely worth several parts in one step, each with its cycles; and those for a block of positions, if they are
    where each has one row, and there are enough positions. Functions of WebAssembly have no address for a
    kernel to pass to a pool."""
    if not isinstance(r.form, StepForm) or r.form.around or target.triple.startswith("wasm32"):
        return {}
    rows, ahead = r.form.rows, r.form.ahead
    work = {p: cycles([p], lanes, target) for p in r.form.steps if isinstance(p, Product) and _can_be_shared(p)}
    shared = {p: _of_rows(n, rows, None) for p, n in work.items() if _is_worth_it(_of_rows(n, rows, 1))}
    if ahead is not None:
        of_block = {p: cycles([p], lanes, target) for p in ahead.whole if isinstance(p, Product) and _can_be_shared(p)}
        shared |= {
            p: substitute(n, {ahead.count: ahead.length(target)})
            for p, n in of_block.items()
            if _is_worth_it(substitute(n, {ahead.count: ahead.least_rows(target)}))
        }
    return shared


def pieces_of(rows: BlockOfRows, shares: bool) -> Size:
    """The most parts that a recurrence of such rows has work for; `shares`: its steps have products that are shared out where rows are
    few."""
    if not shares:
        return rows.all
    return dims.minimum(rows.all, dims.maximum(1, (rows.all - FEW_ROWS) * (FEW_ROWS + 1)))


def _can_be_shared(p: Product) -> bool:
    """Whether a product reads both factors from memory and writes nothing else than its results."""
    return isinstance(p.a, InMemory) and isinstance(p.b, InMemory) and not p.ahead and p.column_sums is None


def _of_rows(work: Size, rows: BlockOfRows | None, count: int | None) -> Size:
    """The work for so many rows, or for all."""
    return work if rows is None else substitute(work, {rows.count: rows.all if count is None else count})


def _is_worth_it(work: Size) -> bool:
    least = work if isinstance(work, int) else bounds(work)[0]
    return least is not None and least >= 2 * CYCLES_PER_PART
