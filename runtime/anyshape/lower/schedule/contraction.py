"""Recognises contractions and cuts a kernel into phases: matrix products with their epilogues, and scopes of rows.

In: stages of stores. Out: phases in order. What a contraction is, says `kernel_model/contractions.py`, to fusion too. What only a
contraction can not do with (a computed factor, a second reduction on its result) goes through scratch, in a phase of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import Contraction, Terms, as_stored, contraction_of
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.analyse.vector_product import with_row
from anyshape.lower.analyse.windows import Windows, product_windows
from anyshape.lower.ir.dag import Access, Dag, DagNode, Load, LoopVar, Operation, Reduction, affine, row_major, walk
from anyshape.lower.ir.stores import Store, below, reductions_of
from anyshape.lower.schedule.tree import Scope, components


@dataclass(eq=False, kw_only=True)
class Product:
    """A matrix product: sum over k of a[m, k] * b[k, n] for every batch variable, then the stores, whose domain is that of the sum."""

    sum: Reduction
    a: Access
    b: Access
    m: LoopVar
    n: LoopVar
    k: LoopVar
    batch: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    packed: Tensor | None = None
    """The constant operand of `b`, to be prepacked."""
    computed: DagNode | None = None
    """The value of `b` where it is no plain operand: computed while it is packed, for values of `over`. `b` is then `a`, and not used."""
    over: tuple[LoopVar, ...] = ()
    """The summed variables of which k counts the values, row-major."""
    windows: Windows[DagNode] | None = None
    """How `computed` is read where it moves over an operand: from a copy, whose places `n` then counts."""
    gathered: DagNode | None = None
    """The value of `a` where it is computed, rows of it at a time, contiguous along the last of `over`. `a` is then `b`, and not used."""
    rows: tuple[LoopVar, ...] = ()
    """The variables of which m counts the values, row-major, where `a` is gathered."""
    around: tuple[LoopVar, ...] = ()
    """Variables whose loops are open already; like those of `batch` otherwise."""

    @property
    def is_plain(self) -> bool:
        """Whether the only store is of the bare sums."""
        return len(self.stores) == 1 and self.stores[0].value is self.sum and not self.stores[0].access.address.lets


Step = Scope | Product
"""A scope of rows, or a product."""
Unplanned = Product | list[Store]


@dataclass
class Component:
    """Phases that compute some stores, in order, and the scratch between them."""

    items: list[Unplanned] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)


def split_phases(
    dag: Dag, stages: list[list[Store]], constants: Mapping[Tensor, NDArray[Any]]
) -> tuple[Component, ...]:
    """Splits each component into phases. All phases of a component with scratch are run by one part, since one reads what another wrote."""
    split: list[Component] = []
    for stage in stages:
        for part in components(stage):
            split.append(Component())
            splitter = _Splitter(dag, split[-1], constants, sum(len(c.temporaries) for c in split))
            splitter.component(with_row(dag, part, constants))
    return tuple(split)


class _Splitter:
    def __init__(self, dag: Dag, out: Component, constants: Mapping[Tensor, NDArray[Any]], number: int) -> None:
        self.dag, self.out, self.constants, self.number = dag, out, constants, number

    def component(self, stores: list[Store]) -> None:
        while True:
            reds = reductions_of(stores)
            reduction = next((r for r in reds if contraction(r)), None)
            if reduction is None:
                window = self.window(stores, reds)
                self.out.items.append(stores if window is None else window)
                return
            factors = tuple(self.in_memory(x, reduction, stores) for x in reduction.body.inputs)
            stores, reduction = self.without(reduction, factors, stores)
            outer = below(stores, stop=reduction)
            whole = all(n is reduction for n in outer if isinstance(n, Reduction)) and all(
                s.domain == reduction.domain for s in stores
            )
            if whole:
                self.out.items.append(self.product(reduction, factors, tuple(stores)))
                return
            stores = self.through_scratch(reduction, factors, stores)

    def without(
        self, reduction: Reduction, factors: tuple[Access, ...], stores: list[Store]
    ) -> tuple[list[Store], Reduction]:
        """The stores with factors that went through scratch read from there, wherever else they are used, and the sum of them."""
        pairs = zip(reduction.body.inputs, factors)
        spilled = {x: self.dag.load(a) for x, a in pairs if _plain_access(x) != a}
        if not spilled:
            return stores, reduction
        rebuild = Rebuild(self.dag, {**spilled})
        stores, total = [rebuild.store(s) for s in stores], rebuild.node(reduction)
        assert isinstance(total, Reduction)
        return stores, total

    def window(self, stores: list[Store], reds: list[Reduction]) -> Product | None:
        """A product for a sum over several variables of a plain operand, in which they are contiguous, times anything: a convolution,
        say."""
        if (
            len(reds) != 1
            or any(s.domain != reds[0].domain for s in stores)
            or contraction(reds[0], over_several=True) is None
        ):
            return None
        (reduction,) = reds
        gathered = self.gathered(stores, reduction)
        if gathered is not None:
            return gathered
        over = reduction.variables
        inner = [v for v, c in stores[0].access.address.terms if c == 1]
        for widened, b in (reduction.body.inputs, reduction.body.inputs[::-1]):
            a = _plain_access(widened)
            if a is None:
                continue
            step = _joined(a, over)
            columns = [v for v in inner if v in b.domain - a.domain]
            rows = [v for v in stores[0].variables if v in a.domain - b.domain]
            if step is None or not columns or not rows or not _is_free(b):
                continue
            k, access = self.as_one(over, a, step)
            m, n = rows[-1], columns[0]
            seen = product_windows(self.dag, reduction, b, stores)
            windows = None
            moved = {n}
            if seen is not None and not {p.position for p in seen[0].staged.moving} & a.domain:
                windows, n = seen
                moved = {p.position for p in windows.staged.moving}
            batch = tuple(v for v in stores[0].variables if v is not m and v not in moved)
            return Product(
                sum=reduction, a=access, b=access, m=m, n=n, k=k, batch=batch, stores=tuple(stores),
                computed=b, over=over, windows=windows,
            )  # fmt: skip
        return None

    def gathered(self, stores: list[Store], reduction: Reduction) -> Product | None:
        """A product whose rows are all places of a result that is contiguous along what a constant has alone: a convolution that stores
        channels last. What a row is multiplied by is gathered for a block of rows, wherever it lies."""
        inner = {v for v, c in stores[0].access.address.terms if c == 1}
        for x, factor in (reduction.body.inputs, reduction.body.inputs[::-1]):
            b = _plain_access(factor)
            if (
                b is None
                or b.tensor not in self.constants
                or not _covers(b, self.constants[b.tensor])
                or not _is_free(x)
            ):
                continue
            columns = [v for v in stores[0].variables if v in inner & (b.domain - x.domain)]
            rows = tuple(v for v in stores[0].variables if v in x.domain - b.domain)
            along = [v for v in reduction.variables if any(_is_contiguous(n, v) for n in walk([x]))]
            if not columns or not rows or len(along) != 1:
                continue
            over = (*(v for v in reduction.variables if v is not along[0]), along[0])
            m, windows = self.counting(rows), None
            seen = product_windows(self.dag, reduction, x, stores, stored_along=False)
            if seen is not None:  # its channels are not adjacent: a row of them is gathered for many places at once
                windows, m = seen
                over, rows = reduction.variables, tuple(p.position for p in windows.staged.moving)
            batch = tuple(v for v in stores[0].variables if v is not columns[0] and v not in rows)
            return Product(
                sum=reduction, a=b, b=b, m=m, n=columns[0], k=self.counting(over), batch=batch,
                stores=tuple(stores), packed=b.tensor, gathered=x, over=over, rows=rows, windows=windows,
            )  # fmt: skip
        return None

    def counting(self, variables: Sequence[LoopVar]) -> LoopVar:
        """A variable with a value for each of those of several."""
        extent: Size = 1
        for v in variables:
            extent = extent * v.extent
        return self.dag.variable(extent)

    def as_one(self, over: Sequence[LoopVar], x: Access, step: Size) -> tuple[LoopVar, Access]:
        """A variable in place of several that are contiguous in an access, and the access with it."""
        k = self.counting(over)
        kept = [(v, c) for v, c in x.address.terms if v not in over]
        return k, Access(x.tensor, affine([*kept, (k, step)], x.address.offset))

    def in_memory(self, factor: DagNode, reduction: Reduction, stores: list[Store]) -> Access:
        """The access of a factor; one that is more than a plain load is computed into scratch first."""
        access = _plain_access(factor)
        if access is not None:
            return access
        store = self.spill(factor, stores, reduction.variables)
        self.component([store])
        return store.access

    def spill(self, n: DagNode, stores: list[Store], summed: tuple[LoopVar, ...] = ()) -> Store:
        """A scratch tensor with one element for each point of a node's domain: in the order of the results, what is summed over inside,
        and innermost what the results are contiguous in."""
        main = stores[0]
        after = len(main.variables)

        def place(v: LoopVar) -> tuple[int, int]:
            if v in main.variables:
                at = main.variables.index(v)
                return (after + 2 if main.access.address.coefficient(v) == 1 else at), v.number
            return after + (v in summed), v.number

        variables = tuple(sorted(n.domain, key=place))
        number = self.number + len(self.out.temporaries)
        tensor = Tensor(f"phase{number}", n.dtype, tuple(v.extent for v in variables))
        self.out.temporaries.append(tensor)
        return Store(Access(tensor, affine(row_major(variables)[0], 0)), n, variables)

    def through_scratch(self, reduction: Reduction, factors: tuple[Access, ...], stores: list[Store]) -> list[Store]:
        store = self.spill(reduction, stores)
        self.out.items.append(self.product(reduction, factors, (store,)))
        rebuild = Rebuild(self.dag, {reduction: self.dag.load(store.access)})
        return [rebuild.store(s) for s in stores]

    def product(self, reduction: Reduction, factors: tuple[Access, ...], stores: tuple[Store, ...]) -> Product:
        a, b = factors
        (k,) = reduction.variables
        main = stores[0].access.address
        own_a, own_b = a.domain - b.domain, b.domain - a.domain
        inner = [v for v, c in main.terms if c == 1]
        if any(v in own_a for v in inner):
            a, b, own_a, own_b = b, a, own_b, own_a
        order = stores[0].variables
        n = next((v for v in inner if v in own_b), None) or [v for v in order if v in own_b][-1]
        m = [v for v in order if v in own_a][-1]
        batch = tuple(v for v in order if v is not m and v is not n)
        packed = b.tensor if b.tensor in self.constants and _covers(b, self.constants[b.tensor]) else None
        return Product(sum=reduction, a=a, b=b, m=m, n=n, k=k, batch=batch, stores=stores, packed=packed)


def _plain_access(factor: DagNode) -> Access | None:
    """The access of a factor that is a plain load. Products widen some dtypes as they read them."""
    stored = as_stored(NODES, factor)
    return stored.access if isinstance(stored, Load) and stored.access.is_plain else None


class _Nodes:
    """The graph that is scheduled, as the matcher of contractions reads it; variables of one value are gone in it."""

    def dtype(self, term: DagNode) -> DType:
        return term.dtype

    def variables(self, term: DagNode) -> frozenset[LoopVar]:
        return term.domain

    def sum_of(self, term: DagNode) -> tuple[tuple[LoopVar, ...], DagNode] | None:
        return (term.variables, term.body) if isinstance(term, Reduction) and term.kind == "sum" else None

    def arguments(self, operation: str, term: DagNode) -> tuple[DagNode, ...] | None:
        return term.args if isinstance(term, Operation) and term.name == operation else None


NODES: Terms[DagNode, LoopVar] = _Nodes()


def contraction(r: Reduction, over_several: bool = False) -> Contraction[DagNode, LoopVar] | None:
    """The contraction that a sum is, over one variable or over several; `_Splitter.window` examines the operands of the latter."""
    matched = contraction_of(NODES, r)
    return matched if matched is not None and (len(matched.summed) > 1) == over_several else None


def _joined(x: Access, over: tuple[LoopVar, ...]) -> Size | None:
    """The step of one variable that counts the values of several in a plain access; None where they are not contiguous."""
    coefficients: list[Size] = [x.address.coefficient(v) for v in over]
    for v, outer, inner in zip(over[1:], coefficients, coefficients[1:]):
        if outer != inner * v.extent:
            return None
    return coefficients[-1]


def _is_contiguous(n: DagNode, v: LoopVar) -> bool:
    return isinstance(n, Load) and n.access.address.coefficient(v) == 1


def _is_free(b: DagNode) -> bool:
    """Whether a value can be computed anywhere: no sums in it, and no index that has to be checked."""
    return not any(isinstance(n, Reduction) or (isinstance(n, Load) and n.access.checks) for n in walk([b]))


def _covers(b: Access, array: NDArray[Any]) -> bool:
    """Whether a constant is used as it is: known extents, no offset."""
    return (
        b.address.offset == 0
        and all(isinstance(c, int) and isinstance(v.extent, int) for v, c in b.address.terms)
        and array.ndim > 0
    )
