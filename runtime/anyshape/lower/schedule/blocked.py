"""Blocks of rows for phases that share their outer loops: what one phase hands to the next is held for one block of rows at a time.

In: the phases of a component and the scratch tensors between them. Out: a `Blocked`, or None. Which phases they are does not matter:
products and rows, in any order, whose stores have the same variables outside, and a variable of rows that every product has as its own. For
one block those are symbols, like the position of a recurrence, so that each phase is an ordinary one, of a few rows. Attention comes out as
a block of scores, its softmax, and their product with the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.dtypes import I64
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.gemm.tiles import ALIGN
from anyshape.lower.ir.dag import Access, Affine, Dag, DagNode, Load, LoopIndex, LoopVar, Reduction, affine, row_major
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.schedule.products import InMemory, PhaseStep, Product, Unplanned
from anyshape.lower.schedule.reuse import LoadsOf
from anyshape.lower.schedule.tree import Scope, plan
from anyshape.lower.target import Target

_TILES = 6
"""Tiles of rows in a block at most: more gain nothing, since what all rows share is read from the second cache."""


@dataclass(eq=False, kw_only=True)
class Blocked:
    """`batch` are symbols of the outer loops with their extents, `first` and `count` those of a block of the `rows`.

    `ahead` is run once for each batch, `steps` for each block. `held` are the elements of scratch tensors for a batch, `rowwise` those for
    each row of a block; tensors of `over` lie where another one does that is read for the last time by the step that writes them.
    `whole` is the same without blocks.
    """

    batch: tuple[tuple[Dim, Size], ...]
    rows: Size
    first: Dim
    count: Dim
    ahead: tuple[PhaseStep, ...]
    steps: tuple[PhaseStep, ...]
    held: dict[Tensor, Size]
    rowwise: dict[Tensor, Size]
    over: dict[Tensor, Tensor]
    whole: tuple[PhaseStep, ...]

    @property
    def all_steps(self) -> tuple[PhaseStep, ...]:
        return (*self.ahead, *self.steps)

    @property
    def stores(self) -> tuple[Store, ...]:
        return tuple(s for step in self.all_steps for s in step.stores)

    def most(self, target: Target, tile: int) -> Size:
        """Rows of a block: some tiles, that fit half the second cache."""
        width: Size = 1
        for t, n in self.rowwise.items():
            width = width + (0 if t in self.over else n * t.dtype.itemsize)
        fitting = (target.l2_bytes // 2) // (width * tile)
        return tile * dims.maximum(1, dims.minimum(_TILES, fitting))


def block_phases(dag: Dag, phases: Sequence[Unplanned], temporaries: Sequence[Tensor]) -> Blocked | None:
    """Combines phases into blocks of rows, if they can be."""
    first = next((p for p in phases if isinstance(p, Product)), None)
    alone = any(isinstance(p, Product) and (p.codes is not None or not p.is_in_memory) for p in phases)
    if len(phases) < 2 or first is None or alone:
        return None
    rows = first.m
    phases = [_with_rows(p, rows) if isinstance(p, Product) else p for p in phases]
    shared = _outside(phases, rows)
    if rows not in shared or not _apart(phases, rows, frozenset(temporaries)):
        return None
    inside = next(s for p in reversed(phases) for s in reversed(_stores(p)) if rows in s.domain)
    loops = [v for v in inside.variables if v in shared and v is not rows]
    columns = {v for p in phases if isinstance(p, Product) for v in p.accesses[1].domain}
    loops.sort(key=lambda v: v not in columns)  # so that columns are read again while they are in a cache
    return _Blocking(dag, tuple(loops), rows, frozenset(temporaries)).blocked(phases)


@dataclass(frozen=True, eq=False, slots=True)
class BlockOfRows:
    """A range of `all` rows: `count` from `first` on, which are symbols."""

    first: Dim
    count: Dim
    all: Size


@dataclass(frozen=True, eq=False, slots=True)
class SharedRows:
    """Several lists of phases, each as steps for one block of rows."""

    rows: BlockOfRows
    phases: tuple[tuple[PhaseStep, ...], ...]


def share_rows(dag: Dag, lists: Sequence[Sequence[Unplanned]], rows: LoopVar) -> SharedRows | None:
    """Rewrites phases for a block of rows, if all of them have these."""
    if any(isinstance(p, Product) and (p.codes is not None or not p.is_in_memory) for phases in lists for p in phases):
        return None
    lists = [[_with_rows(p, rows) if isinstance(p, Product) else p for p in phases] for phases in lists]
    every = [p for phases in lists for p in phases]
    if rows not in _outside(every, rows) or not all(rows in s.domain for p in every for s in _stores(p)):
        return None
    blocking = _Blocking(dag, (), rows, frozenset())
    return SharedRows(
        BlockOfRows(blocking.first, blocking.count, rows.extent),
        tuple(tuple(blocking.step(p) for p in phases) for phases in lists),
    )


def _outside(phases: Sequence[Unplanned], rows: LoopVar) -> frozenset[LoopVar]:
    """Variables of all stores that have rows, which no phase sums over; none where a product has its rows otherwise."""
    products = [p for p in phases if isinstance(p, Product)]
    inside = [s.domain for p in phases for s in _stores(p) if rows in s.domain]
    if not inside or any(not _has_rows(p, rows) for p in products):
        return frozenset()
    summed = {v for p in phases for n in _evaluated(p) if isinstance(n, Reduction) for v in n.variables}
    summed.update(v for p in products for v in (p.n, p.k))
    return frozenset.intersection(*inside) - summed


def _stores(p: Unplanned | Scope) -> tuple[Store, ...]:
    return tuple(p) if isinstance(p, list) else p.stores


def _with_rows(p: Product, rows: LoopVar) -> Product:
    """The product with these rows, where it has several variables to choose them from."""
    _, b = p.accesses
    if rows is p.m or rows not in p.batch or rows in b.domain:
        return p
    return replace(p, m=rows, batch=tuple(p.m if v is rows else v for v in p.batch))


def _has_rows(p: Product, rows: LoopVar) -> bool:
    _, b = p.accesses
    return p.m is rows and rows not in b.domain


def _apart(phases: Sequence[Unplanned], rows: LoopVar, temporaries: frozenset[Tensor]) -> bool:
    """Whether blocks are independent: scratch is read at its own row; phases without rows come first, and only serve those that follow."""
    places: dict[Tensor, Affine] = {}
    late = False
    for p in phases:
        if any(places.get(x.tensor, x.address) != x.address for x in _loads(p)):
            return False
        for s in _stores(p):
            ahead = rows not in s.domain
            if not s.access.is_plain or (ahead and (late or s.access.tensor not in temporaries)):
                return False
            late = late or not ahead
            places[s.access.tensor] = s.access.address
    return True


def _evaluated(p: Unplanned | Scope) -> list[DagNode]:
    """The nodes that a phase computes; the sum of a product stands for its factors, which are in memory."""
    return below(_stores(p), stop=p.sum if isinstance(p, Product) else None)


def _loads(p: Unplanned | Scope) -> Iterator[Access]:
    yield from (n.access for n in _evaluated(p) if isinstance(n, Load))
    if isinstance(p, Product):
        yield from p.accesses


class _Blocking(Rebuild):
    """Rewrites outer variables as symbols, rows as those of a block, and scratch tensors as large as one."""

    def __init__(self, dag: Dag, loops: tuple[LoopVar, ...], rows: LoopVar, temporaries: frozenset[Tensor]) -> None:
        super().__init__(dag)
        self.loops, self.rows, self.old = loops, rows, temporaries
        self.first, self.count = dims.fresh("first"), dims.fresh("count")
        self.row = dag.variable(self.count)
        self.symbols = {v: dims.fresh("outer") for v in loops}
        self.tensors: dict[Tensor, Tensor] = {}
        self.held: dict[Tensor, Size] = {}
        self.rowwise: dict[Tensor, Size] = {}

    def blocked(self, phases: Sequence[Unplanned]) -> Blocked:
        ahead: list[PhaseStep] = []
        steps: list[PhaseStep] = []
        for p in phases:
            to = steps if any(self.rows in s.domain for s in _stores(p)) else ahead
            to.append(self.step(p))
        batch = tuple((self.symbols[v], v.extent) for v in self.loops)
        over = _overwritten(steps, self.rowwise)
        whole = tuple(p if isinstance(p, Product) else plan(p) for p in phases)
        return Blocked(
            batch=batch, rows=self.rows.extent, first=self.first, count=self.count, ahead=tuple(ahead), steps=tuple(steps),
            held=self.held, rowwise=self.rowwise, over=over, whole=whole,
        )  # fmt: skip

    def step(self, p: Unplanned) -> PhaseStep:
        return self.product(p) if isinstance(p, Product) else plan([self.store(s) for s in p])

    def product(self, p: Product) -> Product:
        a, b = map(self.access, p.accesses)
        factors = self.dag.load(a), self.dag.load(b)
        self.memo[p.sum] = total = self.dag.red("sum", (p.k,), self.dag.op("mul", p.sum.dtype, *factors), p.sum.dtype)
        batch = tuple(v for v in p.batch if v not in self.symbols)
        stores = tuple(self.store(s) for s in p.stores)
        constant = None if any(v in self.symbols for v in p.accesses[1].domain) else p.constant
        return replace(
            p, sum=total, a=InMemory(a), b=InMemory(b, constant), m=self.row, batch=batch, stores=stores
        )  # fmt: skip

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        return tuple(self.row if v is self.rows else v for v in vs if v not in self.symbols)

    def affine(self, x: Affine) -> Affine:
        offset = x.offset
        terms: list[tuple[LoopVar, Size]] = []
        for v, c in x.terms:
            if v in self.symbols:
                offset = offset + self.symbols[v] * c
            elif v is self.rows:
                offset = offset + self.first * c
                terms.append((self.row, c))
            else:
                terms.append((v, c))
        return affine(terms, offset, [(self.node(n), k) for n, k in x.lets])

    def access(self, x: Access) -> Access:
        if x.tensor not in self.old:
            return super().access(x)
        inner = [v for v, _ in x.address.terms if v not in self.symbols and v is not self.rows]
        terms, stride = row_major(inner)
        t = self.tensors.setdefault(x.tensor, Tensor(x.tensor.name, x.tensor.dtype, (stride,)))
        if self.rows in x.address.domain:
            # Rows are aligned as scratch is, an odd number of such steps apart: never a page, which few lines of the cache would hold.
            step = ALIGN // t.dtype.itemsize
            self.rowwise[t] = (stride + step - 1) // (2 * step) * (2 * step) + step
            terms.append((self.row, self.rowwise[t]))
        else:
            self.held[t] = stride
        return Access(t, affine(terms, 0))

    def _node(self, n: DagNode) -> DagNode:
        if isinstance(n, LoopIndex) and n.variable in self.symbols:
            return self.dag.dim(self.symbols[n.variable], n.dtype)
        if isinstance(n, LoopIndex) and n.variable is self.rows:
            return self.dag.op("add", I64, self.dag.var(self.row, I64), self.dag.dim(self.first, I64))
        return super()._node(n)


def _overwritten(steps: Sequence[PhaseStep], rowwise: dict[Tensor, Size]) -> dict[Tensor, Tensor]:
    """Scratch tensors that rows write over what they read, element by element, and that is not read later."""
    under: dict[Tensor, Tensor] = {}
    reads = [{x.tensor for x in _loads(step)} for step in steps]
    for at, step in enumerate(steps):
        later = set().union(*reads[at + 1 :])
        dying = [t for t in rowwise if t in reads[at] - later and t not in under.values()]
        for s in step.stores if len(step.stores) == 1 and isinstance(step, Scope) else ():
            t = s.access.tensor
            fits = [u for u in dying if u.shape == t.shape and u.dtype == t.dtype and LoadsOf().is_safe(step, u, s)]
            if t in rowwise and fits:
                under[t] = under.get(fits[0], fits[0])
    return under
