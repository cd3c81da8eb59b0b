"""Matrix products as phases: their operands, sums that correct them, and the phases of a component.

Data only: `contraction.py` and `window_products.py` make it, `lower/emit/products/product.py` emits it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anyshape.equations import Tensor
from anyshape.lower.analyse.windows import Windows
from anyshape.lower.gemm import Codes, OperandWords, Side
from anyshape.lower.ir.dag import Access, DagNode, IndexBound, LoopVar, Reduction
from anyshape.lower.ir.stores import Store
from anyshape.lower.schedule.distributed import Distributed
from anyshape.lower.schedule.tree import Scope


@dataclass(frozen=True, slots=True)
class ConstantSums:
    """Sums of a constant's values over `summed`, known before the first call: for every value of `variables`, in `tensor`, which marks
    their place among the operands."""

    tensor: Tensor
    of: Access
    side: Side
    variables: tuple[LoopVar, ...]
    summed: tuple[LoopVar, ...]


@dataclass(frozen=True, eq=False, slots=True)
class InMemory:
    """An operand whose elements lie in memory as they are multiplied."""

    access: Access
    constant: Tensor | None = None
    """The constant of the kernel that it is, packed as panels ahead of all calls."""


@dataclass(frozen=True, eq=False, slots=True)
class ComputedColumns:
    """Columns that are computed while they are packed, for values of `over`: the variables of which k counts the values, row-major."""

    value: DagNode
    over: tuple[LoopVar, ...]


@dataclass(frozen=True, eq=False, slots=True)
class WindowColumns:
    """Columns that are read by taps from a copy of what windows see, whose places n counts."""

    value: DagNode
    over: tuple[LoopVar, ...]
    windows: Windows[DagNode]
    sums: Tensor | None = None
    """The tensor that holds the sums of packed windows, by the place that n counts."""


@dataclass(frozen=True, eq=False, slots=True)
class RowsInPlace:
    """How rows of windows are read where they lie: `access` reads an element at positions, which are those of `rows`, and taps; `bounds`
    has for each tap the bound outside of which there are zeros, if it has one, or `outside`. `fill` stores what is read, for each batch,
    where that is not in memory as it is multiplied."""

    access: Access
    bounds: tuple[IndexBound | None, ...]
    rows: tuple[LoopVar, ...]
    fill: Store | None = None
    outside: DagNode | None = None


@dataclass(frozen=True, eq=False, slots=True)
class GatheredRows:
    """Rows that are computed, a block of them at a time, contiguous along the last of `over`, the variables of which k counts the values,
    row-major; m counts those of `rows`."""

    value: DagNode
    over: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    in_place: RowsInPlace | None = None
    """Set where they need not be gathered."""


@dataclass(frozen=True, eq=False, slots=True)
class WindowRows:
    """Rows that are read by taps from a copy of what windows see, whose places m counts: those of `rows`."""

    value: DagNode
    over: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    windows: Windows[DagNode]


RowOperand = InMemory | GatheredRows | WindowRows
ColumnOperand = InMemory | ComputedColumns | WindowColumns


@dataclass(eq=False, kw_only=True)
class Product:
    """A matrix product: sum over k of a[m, k] * b[k, n] for every batch variable, then the stores, whose domain is that of the sum."""

    sum: Reduction
    a: RowOperand
    b: ColumnOperand
    m: LoopVar
    n: LoopVar
    k: LoopVar
    batch: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    around: tuple[LoopVar, ...] = ()
    """Variables whose loops are open already; like those of `batch` otherwise."""
    words: OperandWords | None = None
    """What is multiplied in place of elements. Of bytes, the stores correct the sums by what follows."""
    few: Distributed | None = None
    """The sum for few rows, whose columns are computed where they are used: scales of blocks are multiplied after the sums of one row."""
    ahead: tuple[Store, ...] = ()
    """What every part computes for itself before: sums of operands."""
    known: tuple[ConstantSums, ...] = ()
    streams_a: bool = False
    """The `streams_a` of the `ContractionSpec`: set for what is computed ahead of the steps of a recurrence."""

    @property
    def codes(self) -> Codes | None:
        """What a and b are where both are bytes."""
        return self.words if isinstance(self.words, Codes) else None

    @property
    def is_plain(self) -> bool:
        """Whether the only store is of the bare sums."""
        return len(self.stores) == 1 and self.stores[0].value is self.sum and not self.stores[0].access.address.lets

    @property
    def accesses(self) -> tuple[Access, ...]:
        """How the operands that lie in memory are read: a, then b."""
        return tuple(x.access for x in (self.a, self.b) if isinstance(x, InMemory))

    @property
    def is_in_memory(self) -> bool:
        """Whether both operands lie in memory."""
        return len(self.accesses) == 2

    @property
    def values(self) -> tuple[DagNode, ...]:
        """The values of operands that are computed."""
        return tuple(x.value for x in (self.a, self.b) if not isinstance(x, InMemory))

    @property
    def constant(self) -> Tensor | None:
        """The constant that b is, packed as panels ahead of all calls."""
        return self.b.constant if isinstance(self.b, InMemory) else None

    @property
    def windows(self) -> Windows[DagNode] | None:
        """The windows that an operand is read from."""
        match self.a, self.b:
            case (WindowRows(windows=windows), _) | (_, WindowColumns(windows=windows)):
                return windows
        return None

    @property
    def rows(self) -> tuple[LoopVar, ...]:
        """The variables of which m counts the values, row-major."""
        return (self.m,) if isinstance(self.a, InMemory) else self.a.rows

    @property
    def column_sums(self) -> Tensor | None:
        """The tensor of the sums of packed windows, if the stores read them."""
        return self.b.sums if isinstance(self.b, WindowColumns) else None


PhaseStep = Scope | Product
"""A scope of rows, or a product."""
Unplanned = Product | list[Store]


@dataclass
class Component:
    """Phases that compute some stores, in order, and the scratch between them."""

    items: list[Unplanned] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)
