"""What steps of a recurrence read of blocks of positions, for the scheduler: phases that are computed ahead of the steps of a block.

In: stores for the positions of a block, and for one of them. Out: a `BlockForm`: the phases for all rows, and for a thread that has some
rows of all positions for itself, which it gathers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Dim, Size, substitute
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild, collapse
from anyshape.lower.ir.dag import Affine, Dag, Load, LoopVar, affine
from anyshape.lower.ir.position_blocks import PositionBlock
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.schedule.contraction import split_phases
from anyshape.lower.schedule.products import GatheredRows, PhaseStep, Product, Unplanned
from anyshape.lower.schedule.tree import plan
from anyshape.lower.target import Target


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StoresAhead:
    """Stores of what steps read of blocks of positions, of each tensor one; `variable` counts the `count` positions of a block. `of_one`
    are those of one of these positions, which has the `number`; `total` stands for rows of all of them."""

    variable: LoopVar
    count: Dim
    number: Dim
    total: Dim
    blocks: Sequence[PositionBlock]
    stores: tuple[Store, ...]
    of_one: tuple[Store, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class BlockForm:
    """What is computed for a block of `count` positions from `first` on, ahead of the steps that read it: `whole`, for all rows, or
    `of_rows` where a block of some rows has all positions for itself, of which there are `total` at the positions of a block. `at` is the
    position that a step reads, in terms of the symbol of its own; None: there is one block of all positions. `most` stands for the
    positions of a block, of the `positions` of all; a position has so many `rows`, of so many bytes each."""

    tensors: tuple[Tensor, ...]
    first: Dim
    count: Dim
    most: Dim
    total: Dim
    positions: Size
    rows: Size
    row_bytes: Size
    at: Affine | None
    whole: tuple[PhaseStep, ...]
    of_rows: tuple[PhaseStep, ...] = ()

    def length(self, target: Target) -> Size:
        """Positions of a block: enough rows for products of them to be efficient, and as many as fit an eighth of the second cache, or less
        than twice as many, so that no block is a short one."""
        if self.at is None:
            return self.positions
        least = (self.rows + self.least_rows(target) - 1) // self.rows
        blocks = dims.maximum(self.positions // least, 1)
        return (self.positions + blocks - 1) // blocks

    def least_rows(self, target: Target) -> Size:
        """Rows of a block, at least, where there are as many."""
        return dims.maximum(LEAST_ROWS, target.l2_bytes // 8 // self.row_bytes)

    @property
    def steps(self) -> tuple[PhaseStep, ...]:
        return (*self.whole, *self.of_rows)


LEAST_ROWS = 64
"""Rows of a product ahead of steps, at least: enough for what all rows share to be read from a cache further out."""


def rows_ahead(
    dag: Dag, ahead: StoresAhead | None, rows: LoopVar, constants: Mapping[Tensor, NDArray[Any]]
) -> list[list[Unplanned]]:
    """The phases ahead, for one position, as a list of which a block of rows may be computed; none where steps read other rows than their
    own."""
    if ahead is None or not all(_reads_own(b, s, rows) for b, s in zip(ahead.blocks, ahead.stores, strict=True)):
        return []
    parts = split_phases(dag, collapse(dag, [[*ahead.of_one]], frozenset((rows,))), constants)
    return [[p for c in parts for p in c.items]] if not any(c.temporaries for c in parts) else []


def gathered(dag: Dag, ahead: StoresAhead | None, phases: Sequence[PhaseStep]) -> tuple[PhaseStep, ...]:
    """Products for one position as products of all of a block, whose rows are gathered of all positions; none unless all phases are
    products."""
    products = [p for p in phases if isinstance(p, Product) and p.is_in_memory]
    if ahead is None or len(products) < len(phases):
        return ()
    return tuple(_over_block(dag, ahead, p) for p in products)


def _over_block(dag: Dag, ahead: StoresAhead, p: Product) -> Product:
    rebuild = _AllPositions(dag, ahead.number, ahead.variable)
    factors = [dag.load(rebuild.access(a)) for a in p.accesses]
    rebuild.memo[p.sum] = total = dag.red("sum", (p.k,), dag.op("mul", p.sum.dtype, *factors), p.sum.dtype)
    stores = tuple(rebuild.store(s) for s in p.stores)
    rows = GatheredRows(factors[0], (p.k,), (ahead.variable, p.m))
    return replace(p, sum=total, a=rows, m=dag.variable(ahead.total), stores=stores)


class _AllPositions(Rebuild):
    """Rewrites the number of a position as a variable."""

    def __init__(self, dag: Dag, number: Dim, variable: LoopVar) -> None:
        super().__init__(dag)
        self.number, self.variable = number, variable

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        return (self.variable, *vs)

    def affine(self, x: Affine) -> Affine:
        offset = substitute(x.offset, {self.number: 0})
        step = substitute(x.offset, {self.number: 1}) - offset
        return affine([*x.terms, (self.variable, step)], offset, [(self.node(n), k) for n, k in x.lets])


def _reads_own(block: PositionBlock, s: Store, v: LoopVar) -> bool:
    """Whether steps read what was computed for their own value of a variable."""
    own = Affine(((v, 1),))
    axes = [k for k, i in enumerate(block.written) if i == own]
    return len(axes) == 1 and all(i[axes[0]] == own for i in block.read)


def blocks_ahead(
    dag: Dag,
    ahead: StoresAhead | None,
    positions: Size,
    around: tuple[LoopVar, ...],
    constants: Mapping[Tensor, NDArray[Any]],
    of_rows: tuple[PhaseStep, ...] = (),
) -> BlockForm | None:
    """What is computed for blocks of so many positions, where there is any; `of_rows`: the same for a block of rows."""
    if ahead is None:
        return None
    read = {i[b.axis] for b in ahead.blocks for i in b.read}
    at = next(iter(read)) if len(read) == 1 else None
    if at is not None and (at.lets or not {v for v, _ in at.terms} <= {*around}):
        at = None
    own = tuple(v for v in around if all(_reads_own(b, s, v) for b, s in zip(ahead.blocks, ahead.stores, strict=True)))
    parts = split_phases(dag, collapse(dag, [[*ahead.stores]], frozenset(own)), constants)
    items = [p for c in parts for p in c.items]
    inside = own if all(not isinstance(p, Product) or is_around(p, own) for p in items) else ()
    rows, row_bytes = _rows_of_position(ahead, constants)
    block = ahead.blocks[0]
    return BlockForm(
        tensors=(*(b.tensor for b in ahead.blocks), *(t for c in parts for t in c.temporaries)),
        first=block.first,
        count=ahead.count,
        most=block.most,
        total=ahead.total,
        positions=positions,
        rows=rows,
        row_bytes=row_bytes,
        at=at,
        whole=tuple(inside_of(replace(p, streams_a=True) if isinstance(p, Product) else p, inside) for p in items),
        of_rows=of_rows,
    )


def _rows_of_position(ahead: StoresAhead, constants: Mapping[Tensor, NDArray[Any]]) -> tuple[Size, Size]:
    """How many rows of products there are for a position, values of the variables that no constant depends on; and the bytes of a row of
    all results."""
    reads = (n for n in below(ahead.stores) if isinstance(n, Load) and n.access.tensor in constants)
    shared = {v for n in reads for v in n.access.domain}
    rows: Size = 1
    row_bytes: Size = 0
    for s in ahead.stores:
        width: Size = s.access.tensor.dtype.itemsize
        for v in s.variables:
            width = width * (v.extent if v in shared else 1)
        row_bytes = row_bytes + width
    for v in ahead.stores[0].variables:
        rows = rows * (1 if v in shared or v is ahead.variable else v.extent)
    return dims.maximum(rows, 1), dims.maximum(row_bytes, 1)


def is_around(p: Product, around: tuple[LoopVar, ...]) -> bool:
    return p.is_in_memory and all(v in p.batch for v in around)


def inside_of(p: Unplanned, around: tuple[LoopVar, ...]) -> PhaseStep:
    """Moves a phase into the loops around."""
    if isinstance(p, Product):
        return replace(p, batch=tuple(v for v in p.batch if v not in around), around=around)
    return plan(p, frozenset(around))
