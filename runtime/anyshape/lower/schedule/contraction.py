"""Recognises contractions and cuts a kernel into phases: matrix products with their epilogues, and scopes of rows.

In: stages of stores. Out: phases in order. A contraction is a sum of a product of two factors that both use the summed
variable and each own a further one; which op it came from does not matter. What only a contraction can not do with
(a computed factor, a second reduction on its result) goes through scratch, in a phase of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.dtypes import BF16, F16, F32
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.analyse.vector_product import with_row
from anyshape.lower.analyse.windows import Windows, product_windows
from anyshape.lower.ir.dag import Access, Dag, DagNode, LoopVar, Store, affine, walk
from anyshape.lower.schedule.tree import components

_ELEMENTS = ("f32", "f64", "i32", "i64")


@dataclass(eq=False)
class Product:
    """sum over k of a[m, k] * b[k, n] for every batch variable, then the stores, whose domain is that of the sum."""

    sum: DagNode
    a: Access
    b: Access
    m: LoopVar
    n: LoopVar
    k: LoopVar
    batch: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    packed: Tensor | None = None
    """The constant that stands behind `b`, to be prepacked."""
    computed: DagNode | None = None
    """What `b` is where it is no plain operand: computed while it is packed, for values of `over`. `b` is then `a`, and not looked at."""
    over: tuple[LoopVar, ...] = ()
    """The summed variables of which k counts the values, row-major."""
    windows: Windows | None = None
    """How `computed` is read where it moves over an operand: from a copy, whose places `n` then counts."""
    around: tuple[LoopVar, ...] = ()
    """Variables whose loops are open already; like those of `batch` otherwise."""

    @property
    def is_plain(self) -> bool:
        """One store of the bare sums."""
        return len(self.stores) == 1 and self.stores[0].value is self.sum and not self.stores[0].access.address.lets


Phase = Product | list[Store]


@dataclass
class Component:
    """Phases that compute some stores, in order, and the scratch between them."""

    items: list[Phase] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)


def split_phases(
    dag: Dag, stages: list[list[Store]], constants: Mapping[Tensor, NDArray[Any]]
) -> tuple[Component, ...]:
    """A component with scratch wants one part to run all its phases, since one reads what another wrote."""
    found: list[Component] = []
    for stage in stages:
        for part in components(stage):
            found.append(Component())
            splitter = _Splitter(dag, found[-1], constants, sum(len(c.temporaries) for c in found))
            splitter.component(with_row(dag, part, constants))
    return tuple(found)


class _Splitter:
    def __init__(self, dag: Dag, out: Component, constants: Mapping[Tensor, NDArray[Any]], number: int) -> None:
        self.dag, self.out, self.constants, self.number = dag, out, constants, number

    def component(self, stores: list[Store]) -> None:
        while True:
            reds = [n for n in walk([r for s in stores for r in s.roots]) if n.kind == "red"]
            found = next((r for r in reds if is_contraction(r)), None)
            if found is None:
                window = self.window(stores, reds)
                self.out.items.append(stores if window is None else window)
                return
            factors = tuple(self.in_memory(x, found, stores) for x in found.args[0].args)
            stores, found = self.without(found, factors, stores)
            outer = walk([r for s in stores for r in s.roots], stop=found)
            whole = all(n is found for n in outer if n.kind == "red") and all(s.domain == found.domain for s in stores)
            if whole:
                self.out.items.append(self.product(found, factors, tuple(stores)))
                return
            stores = self.through_scratch(found, factors, stores)

    def without(self, found: DagNode, factors: tuple[Access, ...], stores: list[Store]) -> tuple[list[Store], DagNode]:
        """The stores with factors that went through scratch read from there, wherever else they are used, and the sum of them."""
        pairs = zip(found.args[0].args, factors)
        spilled = {x: self.dag.load(a) for x, a in pairs if as_stored(x).kind != "load" or as_stored(x).data != a}
        if not spilled:
            return stores, found
        rebuild = Rebuild(self.dag, {**spilled})
        return [rebuild.store(s) for s in stores], rebuild.node(found)

    def window(self, stores: list[Store], reds: list[DagNode]) -> Product | None:
        """A sum over several variables of a plain operand, in which they are contiguous, times anything: a convolution, say."""
        if len(reds) != 1 or any(s.domain != reds[0].domain for s in stores) or not is_window(reds[0]):
            return None
        (found,) = reds
        over = found.data[1]
        inner = [v for v, c in stores[0].access.address.terms if c == 1]
        for widened, b in (found.args[0].args, found.args[0].args[::-1]):
            a = as_stored(widened)
            step = _joined(a, over)
            columns = [v for v in inner if v in b.domain - a.domain]
            rows = [v for v in stores[0].variables if v in a.domain - b.domain]
            if step is None or not columns or not rows or not _is_free(b):
                continue
            k, access = self.as_one(over, a.data, step)
            m, n = rows[-1], columns[0]
            seen = product_windows(self.dag, found, b, stores)
            windows = None
            moved = {n}
            if seen is not None and not {p.position for p in seen[0].staged.moving} & a.domain:
                windows, n = seen
                moved = {p.position for p in windows.staged.moving}
            batch = tuple(v for v in stores[0].variables if v is not m and v not in moved)
            return Product(found, access, access, m, n, k, batch, tuple(stores), None, b, over, windows)
        return None

    def as_one(self, over: Sequence[LoopVar], x: Access, step: Size) -> tuple[LoopVar, Access]:
        """A variable in place of several that are contiguous in an access, and the access with it."""
        extent: Size = 1
        for v in over:
            extent = extent * v.extent
        k = self.dag.variable(extent)
        kept = [(v, c) for v, c in x.address.terms if v not in over]
        return k, Access(x.tensor, affine([*kept, (k, step)], x.address.offset))

    def in_memory(self, factor: DagNode, found: DagNode, stores: list[Store]) -> Access:
        """A factor that is more than a plain load is computed into scratch first."""
        stored = as_stored(factor)
        if stored.kind == "load" and not (stored.data.bounds or stored.data.checks or stored.data.address.lets):
            access: Access = stored.data
            return access
        store = self.spill(factor, stores, found.data[1])
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
        terms: list[tuple[LoopVar, Size]] = []
        stride: Size = 1
        for v in reversed(variables):
            terms.append((v, stride))
            stride = stride * v.extent
        return Store(Access(tensor, affine(terms, 0)), n, variables)

    def through_scratch(self, found: DagNode, factors: tuple[Access, ...], stores: list[Store]) -> list[Store]:
        store = self.spill(found, stores)
        self.out.items.append(self.product(found, factors, (store,)))
        rebuild = Rebuild(self.dag, {found: self.dag.load(store.access)})
        return [rebuild.store(s) for s in stores]

    def product(self, found: DagNode, factors: tuple[Access, ...], stores: tuple[Store, ...]) -> Product:
        a, b = factors
        (k,) = found.data[1]
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
        return Product(found, a, b, m, n, k, batch, stores, packed)


def as_stored(factor: DagNode) -> DagNode:
    """What is in memory of a factor that products widen as they read it: of f32, a float of 16 bits."""
    if factor.kind == "op" and factor.data == "cast" and factor.dtype == F32 and factor.args[0].dtype in (F16, BF16):
        return factor.args[0]
    return factor


def is_contraction(r: DagNode) -> bool:
    if r.data[0] != "sum" or len(r.data[1]) != 1 or r.dtype not in _ELEMENTS:
        return False
    body = r.args[0]
    if body.kind != "op" or body.data != "mul" or any(n.kind == "red" and is_contraction(n) for n in walk(body.args)):
        return False
    a, b = body.args
    (k,) = r.data[1]
    owned = (a.domain - b.domain) and (b.domain - a.domain)
    return bool(owned) and k in a.domain and k in b.domain and a.domain | b.domain - {k} >= r.domain


def is_window(r: DagNode) -> bool:
    """A sum of products over several variables; what is in the products is looked at by `_Splitter.window`."""
    if r.data[0] != "sum" or len(r.data[1]) < 2 or r.dtype not in _ELEMENTS:
        return False
    body = r.args[0]
    return body.kind == "op" and body.data == "mul" and all(set(r.data[1]) <= a.domain for a in body.args)


def _joined(a: DagNode, over: tuple[LoopVar, ...]) -> Size | None:
    """The step of one variable that counts the values of several in a plain load; None where they are not side by side."""
    if a.kind != "load" or a.data.bounds or a.data.checks or a.data.address.lets:
        return None
    coefficients: list[Size] = [a.data.address.coefficient(v) for v in over]
    for v, outer, inner in zip(over[1:], coefficients, coefficients[1:]):
        if outer != inner * v.extent:
            return None
    return coefficients[-1]


def _is_free(b: DagNode) -> bool:
    """Whether a value can be computed anywhere: no sums in it, and no index that has to be checked."""
    return all(n.kind != "red" and not (n.kind == "load" and n.data.checks) for n in walk([b]))


def _covers(b: Access, array: NDArray[Any]) -> bool:
    """A constant used as it is: known extents, no offset."""
    return (
        b.address.offset == 0
        and all(isinstance(c, int) and isinstance(v.extent, int) for v, c in b.address.terms)
        and array.ndim > 0
    )
