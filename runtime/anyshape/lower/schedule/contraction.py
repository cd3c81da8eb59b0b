"""Recognises contractions and cuts a kernel into phases: matrix products with their epilogues, and scopes of rows.

In: stages of stores. Out: phases in order. What a contraction is, says `kernel_model/contractions.py`, to fusion too. What only a
contraction can not do with (a computed factor, a second reduction on its result) goes through scratch, in a phase of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import Contraction, as_stored, contraction_of
from anyshape.lower.analyse.collapse import Rebuild, collapse
from anyshape.lower.analyse.vector_product import with_row
from anyshape.lower.analyse.windows import Windows, product_windows
from anyshape.lower.analyse.written_out import Spread, written_out
from anyshape.lower.gemm import Codes, Side
from anyshape.lower.ir.dag import Access, Dag, DagNode, Load, LoopVar, Reduction, affine, row_major, walk
from anyshape.lower.ir.stores import Store, below, reductions_of
from anyshape.lower.ir.terms import NODES
from anyshape.lower.schedule.codes import Moved, Operand, corrected, operand_of, raw_sum, sides_of, sums_of
from anyshape.lower.schedule.tree import Scope, components

MANY_ROWS = 64
"""Rows of a product from which on copying what it multiplies takes little of its time."""


@dataclass(frozen=True, slots=True)
class ConstantSums:
    """Sums of a constant's values over `summed`, known before the first call: for every value of `variables`, in `tensor`, which marks
    their place among the operands."""

    tensor: Tensor
    of: Access
    side: Side
    variables: tuple[LoopVar, ...]
    summed: tuple[LoopVar, ...]


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
    codes: Codes | None = None
    """What a and b are where both are bytes; the stores correct the sums by what follows."""
    ahead: tuple[Store, ...] = ()
    """What every part computes for itself before: sums of operands."""
    known: tuple[ConstantSums, ...] = ()
    column_sums: Tensor | None = None
    """The tensor that holds the sums of packed windows, by the place that `n` counts."""

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
    dag: Dag, stages: list[list[Store]], constants: Mapping[Tensor, NDArray[Any]], bytes_: bool = True
) -> tuple[Component, ...]:
    """Splits each component into phases. All phases of a component with scratch are run by one part, since one reads what another wrote.
    `bytes_`: products of bytes may be that, and products of copies; they are not inside of a recurrence, at each step of which their sums
    would be computed, and the copies made."""
    split: list[Component] = []
    for stage in stages:
        for part in components(stage):
            split.append(Component())
            splitter = _Splitter(dag, split[-1], constants, sum(len(c.temporaries) for c in split), bytes_)
            splitter.component(with_row(dag, part, constants))
    return tuple(split)


class _Splitter:
    def __init__(
        self, dag: Dag, out: Component, constants: Mapping[Tensor, NDArray[Any]], number: int, bytes_: bool
    ) -> None:
        self.dag, self.out, self.constants, self.number, self.bytes = dag, out, constants, number, bytes_

    def component(self, stores: list[Store]) -> None:
        while True:
            reds = reductions_of(stores)
            reduction = next((r for r in reds if contraction(r)), None)
            if len(reds) == 1 and reduction is not None and self.is_of_table(reduction, stores):
                self.out.items.append(stores)
                return
            dense = self.dense_columns(stores, reduction) if self.bytes and reduction is not None else None
            if dense is not None:
                self.out.items.append(dense)
                return
            if reduction is None:
                in_scratch = self.with_factor_in_scratch(stores, reds)
                if in_scratch is not None:
                    stores = in_scratch
                    continue
                window = self.window(stores, reds)
                self.out.items.append(stores if window is None else window)
                return
            bytes_ = self.bytes_of(reduction) if sum(contraction(r) is not None for r in reds) == 1 else None
            if bytes_ is not None:
                left = self.by_bytes(reduction, bytes_, stores)
                if left is None:
                    return
                stores = left
                continue
            factors = tuple(self.in_memory(x, reduction, stores) for x in reduction.body.inputs)
            stores, reduction = self.without(reduction, factors, stores)
            if self.is_whole(reduction, stores):
                self.out.items.append(self.product(reduction, factors, tuple(stores)))
                return
            stores = self.through_scratch(reduction, factors, stores)

    def is_of_table(self, reduction: Reduction, stores: list[Store]) -> bool:
        """Whether a sum is of windows that are in no memory times a small constant table: written out it needs no copy of them."""
        return any(_plain_access(x) is None for x in reduction.body.inputs) and isinstance(
            written_out(self.dag, stores, self.constants), Spread
        )

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

    def dense_columns(self, stores: list[Store], reduction: Reduction) -> Product | None:
        """The product of a copy of every other element of a factor, and such, if what several variables count are then its columns, as the
        places of a result are: each row of those would be a product of few columns. None if that is not so."""
        factors = [_plain_access(x) for x in reduction.body.inputs]
        a, b = factors
        if a is None or b is None or not self.is_whole(reduction, stores):
            return None
        a, b = self.roles((a, b), stores)
        n = next((v for v, c in stores[0].access.address.terms if c == 1 and v in b.domain - a.domain), None)
        rows = [v for v in stores[0].variables if v in a.domain - b.domain]
        most = max((dims.bounds(v.extent)[1] or MANY_ROWS for v in rows), default=0)
        if n is None or b.address.coefficient(n) == 1 or most < MANY_ROWS:
            return None
        (factor,) = (x for x, y in zip(reduction.body.inputs, factors) if y is b)
        outer = stores[0].variables[: stores[0].variables.index(rows[-1])]
        columns = stores[0].variables[len(outer) + 1 :]
        order = [v for v in (*outer, *reduction.variables, *columns) if v in factor.domain]
        tensor = Tensor("dense", factor.dtype, tuple(v.extent for v in order))
        copied = Store(Access(tensor, affine(row_major(order)[0], 0)), factor, tuple(order))
        rebuild = Rebuild(self.dag, {factor: self.dag.load(copied.access)})
        (merged,) = collapse(self.dag, [[rebuild.store(s) for s in stores]])
        if len(merged[0].variables) == len(stores[0].variables):
            return None
        (total,) = reductions_of(merged)
        accesses = tuple(x for x in map(_plain_access, total.body.inputs) if x is not None)
        return replace(self.product(total, accesses, tuple(merged)), ahead=(copied,))

    def with_factor_in_scratch(self, stores: list[Store], reds: list[Reduction]) -> list[Store] | None:
        """The stores of sums over several variables, with the first factor that a product cannot compute by itself read from scratch: loops
        would compute it again for each row of the result. None if there is no such factor."""
        for reduction in reds:
            for factor in reduction.body.inputs if contraction(reduction, over_several=True) else ():
                if not _is_free(factor) and _plain_access(factor) is None:
                    load = self.dag.load(self.in_memory(factor, reduction, stores))
                    rebuild = Rebuild(self.dag, {factor: load})
                    return [rebuild.store(s) for s in stores]
        return None

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
        of_bytes = self.gathered_bytes(stores, reduction) or self.window_of_bytes(reduction, stores)
        if of_bytes is not None:
            return of_bytes
        gathered = self.gathered(stores, reduction)
        if gathered is not None:
            return gathered
        over = reduction.variables
        inner = [v for v, c in stores[0].access.address.terms if c == 1]
        for widened, b in (reduction.body.inputs, reduction.body.inputs[::-1]):
            plain = _plain_access(widened)
            ahead = () if plain is not None else self.bytes_ahead(widened, over, stores)
            a = plain if not ahead else ahead[0].access
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
                computed=b, over=over, windows=windows, ahead=ahead,
            )  # fmt: skip
        return None

    def bytes_ahead(self, factor: DagNode, over: tuple[LoopVar, ...], stores: list[Store]) -> tuple[Store, ...]:
        """Bytes less a zero point as integers in scratch, contiguous in what is summed over: for a product that is none of bytes."""
        x = operand_of(NODES, factor, over, self.constants) if self.bytes else None
        if x is None or not isinstance(x.stored, Load) or not x.stored.access.is_plain:
            return ()
        variables = (*(v for v in stores[0].variables if v in factor.domain), *over)
        tensor = Tensor("wide", factor.dtype, tuple(v.extent for v in variables))
        return (Store(Access(tensor, affine(row_major(variables)[0], 0)), factor, variables),)

    def window_of_bytes(self, reduction: Reduction, stores: list[Store]) -> Product | None:
        """Returns a product of bytes less zero points for a sum over channels and taps: a convolution, say."""
        over, dag = reduction.variables, self.dag
        factors = [operand_of(NODES, x, over, self.constants) for x in reduction.body.inputs]
        for a, b in (factors, factors[::-1]) if self.bytes else ():
            if a is None or b is None or not isinstance(a.stored, Load) or not a.stored.access.is_plain:
                continue
            step = _joined(a.stored.access, over)
            rows = [v for v in stores[0].variables if v in a.stored.domain - b.stored.domain]
            seen = product_windows(dag, reduction, b.stored, stores) if step is not None and rows else None
            if seen is None or step is None or len(seen[0].staged.channels) > 1:
                continue
            windows, n = seen
            moved = {p.position for p in windows.staged.moving}
            if moved & a.stored.domain or not _is_free(b.stored):
                continue
            codes = sides_of(a, b, flips_a=False)
            raw = raw_sum(dag, (a, b), codes, over)
            columns = Tensor("columns", raw.dtype, (n.extent,))
            places = zip(windows.staged.moving, windows.staged.pitches, strict=True)
            of_window = dag.load(Access(columns, affine([(m.position, pitch) for m, pitch in places], 0)))
            total, ahead, known = self.corrected(raw, (a, b), codes, over, stores, of_window)
            rebuild = Rebuild(dag, {reduction: total})
            new = tuple(rebuild.store(s) for s in stores)
            k, access = self.as_one(over, a.stored.access, step)
            batch = tuple(v for v in stores[0].variables if v is not rows[-1] and v not in moved)
            return Product(
                sum=raw, a=access, b=access, m=rows[-1], n=n, k=k, batch=batch, stores=new, computed=b.stored, over=over,
                windows=windows, codes=codes, ahead=ahead, known=known,
                column_sums=columns if of_window in below(new, stop=raw) else None,
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
            seen = self.row_windows(reduction, x, stores, b)
            if seen is not None:  # its channels are not adjacent: a row of them is gathered for many places at once
                windows, m = seen
                over, rows = reduction.variables, tuple(p.position for p in windows.staged.moving)
            batch = tuple(v for v in stores[0].variables if v is not columns[0] and v not in rows)
            return Product(
                sum=reduction, a=b, b=b, m=m, n=columns[0], k=self.counting(over), batch=batch,
                stores=tuple(stores), packed=b.tensor, gathered=x, over=over, rows=rows, windows=windows,
            )  # fmt: skip
        return None

    def gathered_bytes(self, stores: list[Store], reduction: Reduction) -> Product | None:
        """Returns a product of bytes less zero points whose rows are all places of a result, gathered for a block of rows."""
        inner = {v for v, c in stores[0].access.address.terms if c == 1}
        factors = [operand_of(NODES, x, reduction.variables, self.constants) for x in reduction.body.inputs]
        for x, w in (factors, factors[::-1]) if self.bytes else ():
            if (
                x is None
                or w is None
                or not isinstance(w.stored, Load)
                or not self.is_constant(w)
                or not _is_free(x.stored)
            ):
                continue
            b = w.stored.access
            columns = [v for v in stores[0].variables if v in inner & (b.domain - x.stored.domain)]
            rows = tuple(v for v in stores[0].variables if v in x.stored.domain - b.domain)
            along = [v for v in reduction.variables if any(_is_contiguous(n, v) for n in walk([x.stored]))]
            if not columns or not rows or len(along) != 1:
                continue
            over = (*(v for v in reduction.variables if v is not along[0]), along[0])
            m, windows = self.counting(rows), None
            seen = self.row_windows(reduction, x.stored, stores, b)
            if seen is not None:
                if len(seen[0].staged.channels) > 1:
                    continue
                windows, m = seen
                over, rows = reduction.variables, tuple(p.position for p in windows.staged.moving)
            codes = sides_of(x, w, flips_a=True)
            raw = raw_sum(self.dag, (x, w), codes, reduction.variables)
            total, ahead, known = self.corrected(raw, (x, w), codes, reduction.variables, stores)
            rebuild = Rebuild(self.dag, {reduction: total})
            batch = tuple(v for v in stores[0].variables if v is not columns[0] and v not in rows)
            return Product(
                sum=raw, a=b, b=b, m=m, n=columns[0], k=self.counting(over), batch=batch,
                stores=tuple(rebuild.store(s) for s in stores), packed=b.tensor, gathered=x.stored, over=over, rows=rows,
                windows=windows, codes=codes, ahead=ahead, known=known,
            )  # fmt: skip
        return None

    def row_windows(
        self, reduction: Reduction, x: DagNode, stores: list[Store], b: Access
    ) -> tuple[Windows[DagNode], LoopVar] | None:
        """The windows that rows are gathered from, whose positions the rows then count; None where b differs between those."""
        seen = product_windows(self.dag, reduction, x, stores, stored_along=False)
        if seen is None or {p.position for p in seen[0].staged.moving} & b.domain:
            return None
        return seen

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
        # where there are no elements, each variable still has a term
        terms = [(v, c if c != 0 else 1) for v, c in row_major(variables)[0]]
        return Store(Access(tensor, affine(terms, 0)), n, variables)

    def through_scratch(self, reduction: Reduction, factors: tuple[Access, ...], stores: list[Store]) -> list[Store]:
        store = self.spill(reduction, stores)
        self.out.items.append(self.product(reduction, factors, (store,)))
        rebuild = Rebuild(self.dag, {reduction: self.dag.load(store.access)})
        return [rebuild.store(s) for s in stores]

    def bytes_of(self, reduction: Reduction) -> tuple[Operand, Operand] | None:
        """The factors of a contraction, if both are bytes in memory, less zero points."""
        operands = [operand_of(NODES, x, reduction.variables, self.constants) for x in reduction.body.inputs]
        match operands:
            case [Operand(Load(x)) as a, Operand(Load(y)) as b] if self.bytes and x.is_plain and y.is_plain:
                return a, b
        return None

    def by_bytes(
        self, reduction: Reduction, operands: tuple[Operand, Operand], stores: list[Store]
    ) -> list[Store] | None:
        """Adds the product of bytes; returns the stores that are left, which read the sums from scratch, if it is not all."""
        whole = self.is_whole(reduction, stores)
        store = None if whole else self.spill(reduction, stores)
        own = stores if store is None else [store]
        accesses = tuple(x.stored.access for x in operands if isinstance(x.stored, Load))
        if self.roles(accesses, own)[0] is not accesses[0]:
            operands = operands[::-1]
        a, b = operands
        codes = sides_of(a, b, flips_a=self.is_constant(b) and not self.is_constant(a))
        raw = raw_sum(self.dag, operands, codes, reduction.variables)
        total, ahead, known = self.corrected(raw, operands, codes, reduction.variables, own)
        rebuild = Rebuild(self.dag, {reduction: total})
        product = self.product(raw, accesses, tuple(rebuild.store(s) for s in own))
        self.out.items.append(replace(product, codes=codes, ahead=ahead, known=known))
        if store is None:
            return None
        rebuild = Rebuild(self.dag, {reduction: self.dag.load(store.access)})
        return [rebuild.store(s) for s in stores]

    def corrected(
        self,
        raw: Reduction,
        operands: tuple[Operand, Operand],
        codes: Codes,
        summed: tuple[LoopVar, ...],
        stores: Sequence[Store],
        of_b: DagNode | None = None,
    ) -> tuple[DagNode, tuple[Store, ...], tuple[ConstantSums, ...]]:
        """The sums of the original product, and where those of the operands come from that correct them; `of_b` if b's are known."""
        dag = self.dag
        sides = (codes.a, codes.b)
        zeros = tuple(Moved.of(dag, x, side).zero for x, side in zip(operands, sides))
        ahead: list[Store] = []
        known: list[ConstantSums] = []
        sums: list[DagNode | None] = []
        for x, side, other, own in zip(operands, sides, reversed(zeros), (None, of_b)):
            computed = (
                own if own is not None or other is None else self.sum_in_memory(x, side, summed, stores, ahead, known)
            )
            sums.append(computed)
        count: Size = 1
        for v in summed:
            count = count * v.extent
        return corrected(dag, raw, (zeros[0], zeros[1]), (sums[0], sums[1]), count), tuple(ahead), tuple(known)

    def sum_in_memory(
        self,
        x: Operand,
        side: Side,
        summed: tuple[LoopVar, ...],
        stores: Sequence[Store],
        ahead: list[Store],
        known: list[ConstantSums],
    ) -> DagNode:
        """The sums of an operand: packed with the constants if it is one, else computed ahead of the product."""
        node = sums_of(self.dag, x, side, summed)
        variables = tuple(v for v in stores[0].variables if v in node.domain)
        tensor = Tensor(f"sums{len(ahead) + len(known)}", node.dtype, tuple(v.extent for v in variables))
        access = Access(tensor, affine(row_major(variables)[0], 0))
        if isinstance(x.stored, Load) and self.is_constant(x):
            known.append(ConstantSums(tensor, x.stored.access, side, variables, summed))
        else:
            ahead.append(Store(access, node, variables))
        return self.dag.load(access)

    def is_constant(self, x: Operand) -> bool:
        """Whether the bytes are those of a constant, used as it is."""
        match x.stored:
            case Load(access) if access.tensor in self.constants:
                return _covers(access, self.constants[access.tensor])
        return False

    def is_whole(self, reduction: Reduction, stores: Sequence[Store]) -> bool:
        """Whether the stores are an epilogue of the sum: of its domain, with no other reduction on it."""
        outer = below(stores, stop=reduction)
        alone = all(n is reduction for n in outer if isinstance(n, Reduction))
        return alone and all(s.domain == reduction.domain for s in stores)

    def roles(self, factors: tuple[Access, ...], stores: Sequence[Store]) -> tuple[Access, Access]:
        """The factors as a and b: b has the columns, in which the results are contiguous."""
        a, b = factors
        inner = [v for v, c in stores[0].access.address.terms if c == 1]
        return (b, a) if any(v in a.domain - b.domain for v in inner) else (a, b)

    def product(self, reduction: Reduction, factors: tuple[Access, ...], stores: tuple[Store, ...]) -> Product:
        (k,) = reduction.variables
        a, b = self.roles(factors, stores)
        main = stores[0].access.address
        own_a, own_b = a.domain - b.domain, b.domain - a.domain
        inner = [v for v, c in main.terms if c == 1]
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
    """Whether what is read of a constant is known: numbers as extents and steps, from a place on that is one too, all within it."""
    offset = b.address.offset
    if not isinstance(offset, int) or array.ndim == 0:
        return False
    least = most = offset
    for v, c in b.address.terms:
        if not isinstance(c, int) or not isinstance(v.extent, int):
            return False
        far = c * (v.extent - 1)
        least, most = least + min(far, 0), most + max(far, 0)
    return least >= 0 and most < array.size
