"""Cuts a kernel into phases: matrix products with their epilogues, and scopes of rows.

In: stages of stores. Out: phases in order. What a contraction is, says `kernel_model/contractions.py`, to fusion too. What only a
contraction can not do with (a computed factor, a second reduction on its result) goes through scratch, in a phase of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import QuantisationConstants
from anyshape.lower.analyse.collapse import Rebuild, collapse
from anyshape.lower.analyse.vector_product import with_row
from anyshape.lower.analyse.written_out import Spread, written_out
from anyshape.lower.ir.dag import Access, Dag, DagNode, Load, LoopVar, Reduction, affine, row_major
from anyshape.lower.ir.stores import Store, below, reductions_of
from anyshape.lower.ir.terms import NODES
from anyshape.lower.schedule.byte_products import ByteProducts
from anyshape.lower.schedule.codes import ByteOperand, operand_of, raw_sum, sides_of
from anyshape.lower.schedule.factors import contraction, factors_of, is_covered, is_free, plain_access, words_of
from anyshape.lower.schedule.products import Component, InMemory, Product
from anyshape.lower.schedule.scales import with_scales_apart
from anyshape.lower.schedule.tree import components
from anyshape.lower.schedule.window_products import WindowProducts

MANY_ROWS = 64
"""Rows of a product from which on copying what it multiplies takes little of its time."""


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
        self.known = QuantisationConstants.among(constants)
        self.of_bytes = ByteProducts(dag, constants)
        self.windows = WindowProducts(dag, constants, bytes_)

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
                window = self.windows.product(stores, reds)
                self.out.items.append(stores if window is None else window)
                return
            bytes_ = self.bytes_of(reduction) if sum(contraction(r) is not None for r in reds) == 1 else None
            if bytes_ is not None:
                left = self.by_bytes(reduction, bytes_, stores)
                if left is None:
                    return
                stores = left
                continue
            scaled = with_scales_apart(self.dag, reduction, self.known)
            if scaled is not None:
                rebuild = Rebuild(self.dag, {reduction: scaled})
                stores = [rebuild.store(s) for s in stores]
                continue
            factors = tuple(self.in_memory(x, reduction, stores) for x in factors_of(reduction))
            stores, reduction = self.without(reduction, factors, stores)
            if self.is_whole(reduction, stores):
                self.out.items.append(self.product(reduction, factors, tuple(stores)))
                return
            stores = self.through_scratch(reduction, factors, stores)

    def is_of_table(self, reduction: Reduction, stores: list[Store]) -> bool:
        """Whether a sum is of windows that are in no memory times a small constant table: written out it needs no copy of them."""
        return any(plain_access(x) is None for x in factors_of(reduction)) and isinstance(
            written_out(self.dag, stores, self.constants), Spread
        )

    def without(
        self, reduction: Reduction, factors: tuple[Access, ...], stores: list[Store]
    ) -> tuple[list[Store], Reduction]:
        """The stores with factors that went through scratch read from there, wherever else they are used, and the sum of them."""
        pairs = zip(factors_of(reduction), factors)
        spilled = {x: self.dag.load(a) for x, a in pairs if plain_access(x) != a}
        if not spilled:
            return stores, reduction
        rebuild = Rebuild(self.dag, {**spilled})
        stores, total = [rebuild.store(s) for s in stores], rebuild.node(reduction)
        assert isinstance(total, Reduction)
        return stores, total

    def dense_columns(self, stores: list[Store], reduction: Reduction) -> Product | None:
        """The product of a copy of every other element of a factor, and such, if what several variables count are then its columns, as the
        places of a result are: each row of those would be a product of few columns. None if that is not so."""
        factors = [plain_access(x) for x in factors_of(reduction)]
        a, b = factors
        if a is None or b is None or not self.is_whole(reduction, stores):
            return None
        a, b = self.roles((a, b), stores)
        n = next((v for v, c in stores[0].access.address.terms if c == 1 and v in b.domain - a.domain), None)
        rows = [v for v in stores[0].variables if v in a.domain - b.domain]
        most = max((dims.bounds(v.extent)[1] or MANY_ROWS for v in rows), default=0)
        if n is None or b.address.coefficient(n) == 1 or most < MANY_ROWS:
            return None
        (factor,) = (x for x, y in zip(factors_of(reduction), factors) if y is b)
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
        accesses = tuple(x for x in map(plain_access, factors_of(total)) if x is not None)
        return replace(self.product(total, accesses, tuple(merged)), ahead=(copied,))

    def with_factor_in_scratch(self, stores: list[Store], reds: list[Reduction]) -> list[Store] | None:
        """The stores of sums over several variables, with the first factor that a product cannot compute by itself read from scratch: loops
        would compute it again for each row of the result. None if there is no such factor."""
        for reduction in reds:
            for factor in factors_of(reduction) if contraction(reduction, over_several=True) else ():
                if not is_free(factor) and plain_access(factor) is None:
                    load = self.dag.load(self.in_memory(factor, reduction, stores))
                    rebuild = Rebuild(self.dag, {factor: load})
                    return [rebuild.store(s) for s in stores]
        return None

    def in_memory(self, factor: DagNode, reduction: Reduction, stores: list[Store]) -> Access:
        """The access of a factor; one that is more than a plain load is computed into scratch first."""
        access = plain_access(factor)
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

    def bytes_of(self, reduction: Reduction) -> tuple[ByteOperand, ByteOperand] | None:
        """The factors of a contraction, if both are bytes in memory, less zero points."""
        operands = [operand_of(NODES, x, reduction.variables, self.constants) for x in reduction.body.inputs]
        match operands:
            case [ByteOperand(Load(x)) as a, ByteOperand(Load(y)) as b] if self.bytes and x.is_plain and y.is_plain:
                return a, b
        return None

    def by_bytes(
        self, reduction: Reduction, operands: tuple[ByteOperand, ByteOperand], stores: list[Store]
    ) -> list[Store] | None:
        """Adds the product of bytes; returns the stores that are left, which read the sums from scratch, if it is not all."""
        whole = self.is_whole(reduction, stores)
        store = None if whole else self.spill(reduction, stores)
        own = stores if store is None else [store]
        accesses = tuple(x.stored.access for x in operands if isinstance(x.stored, Load))
        if self.roles(accesses, own)[0] is not accesses[0]:
            operands = operands[::-1]
        a, b = operands
        codes = sides_of(a, b, flips_a=self.of_bytes.is_constant(b) and not self.of_bytes.is_constant(a))
        raw = raw_sum(self.dag, operands, codes, reduction.variables)
        total, ahead, known = self.of_bytes.corrected(raw, operands, codes, reduction.variables, own)
        rebuild = Rebuild(self.dag, {reduction: total})
        product = self.product(raw, accesses, tuple(rebuild.store(s) for s in own))
        self.out.items.append(replace(product, words=codes, ahead=ahead, known=known))
        if store is None:
            return None
        rebuild = Rebuild(self.dag, {reduction: self.dag.load(store.access)})
        return [rebuild.store(s) for s in stores]

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
        constant = b.tensor if b.tensor in self.constants and is_covered(b, self.constants[b.tensor]) else None
        return Product(
            sum=reduction, a=InMemory(a), b=InMemory(b, constant), m=m, n=n, k=k, batch=batch, stores=stores,
            words=words_of(reduction),
        )  # fmt: skip
