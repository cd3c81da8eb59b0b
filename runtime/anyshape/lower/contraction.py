"""Recognises contractions and cuts a kernel into phases: matrix products with their epilogues, and scopes of rows.

In: stages of stores. Out: phases in order. A contraction is a sum of a product of two factors that both use the summed
variable and each own a further one; which op it came from does not matter. What only a contraction can not do with
(a computed factor, a second reduction on its result) goes through scratch, in a phase of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.collapse import Rebuild
from anyshape.lower.dag import Access, Dag, LoopVar, Node, Store, affine, walk
from anyshape.lower.schedule import components

_ELEMENTS = ("f32", "f64", "i32", "i64")


@dataclass(eq=False)
class Product:
    """sum over k of a[m, k] * b[k, n] for every batch variable, then the stores, whose domain is that of the sum."""

    sum: Node
    a: Access
    b: Access
    m: LoopVar
    n: LoopVar
    k: LoopVar
    batch: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    packed: Tensor | None = None
    """The constant that stands behind `b`, to be prepacked."""

    @property
    def is_plain(self) -> bool:
        """One store of the bare sums."""
        return len(self.stores) == 1 and self.stores[0].value is self.sum and not self.stores[0].access.address.lets


Phase = Product | list[Store]


@dataclass
class Phases:
    """`serial`: a phase reads what an earlier one wrote, so one part must run them all."""

    items: list[Phase] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)
    serial: bool = False


def split_phases(dag: Dag, stages: list[list[Store]], constants: Mapping[Tensor, NDArray[Any]]) -> Phases:
    out = Phases(serial=len(stages) > 1)
    for stage in stages:
        for part in components(stage):
            _Splitter(dag, out, constants).component(part)
    return out


class _Splitter:
    def __init__(self, dag: Dag, out: Phases, constants: Mapping[Tensor, NDArray[Any]]) -> None:
        self.dag, self.out, self.constants = dag, out, constants

    def component(self, stores: list[Store]) -> None:
        while True:
            reds = [n for n in walk([r for s in stores for r in s.roots]) if n.kind == "red"]
            found = next((r for r in reds if is_contraction(r)), None)
            if found is None:
                self.out.items.append(stores)
                return
            factors = tuple(self.in_memory(x) for x in found.args[0].args)
            outer = walk([r for s in stores for r in s.roots], stop=found)
            whole = all(n is found for n in outer if n.kind == "red") and all(s.domain == found.domain for s in stores)
            if whole:
                self.out.items.append(self.product(found, factors, tuple(stores)))
                return
            stores = self.through_scratch(found, factors, stores)

    def in_memory(self, factor: Node) -> Access:
        """A factor that is more than a plain load is computed into scratch first."""
        if factor.kind == "load" and not (factor.data.bounds or factor.data.checks or factor.data.address.lets):
            access: Access = factor.data
            return access
        store = self.spill(factor)
        self.component([store])
        return store.access

    def spill(self, n: Node) -> Store:
        """A scratch tensor with one element for each point of a node's domain."""
        variables = tuple(sorted(n.domain, key=lambda v: v.number))
        tensor = Tensor(f"phase{len(self.out.temporaries)}", n.dtype, tuple(v.extent for v in variables))
        self.out.temporaries.append(tensor)
        self.out.serial = True
        terms: list[tuple[LoopVar, Size]] = []
        stride: Size = 1
        for v in reversed(variables):
            terms.append((v, stride))
            stride = stride * v.extent
        return Store(Access(tensor, affine(terms, 0)), n, variables)

    def through_scratch(self, found: Node, factors: tuple[Access, ...], stores: list[Store]) -> list[Store]:
        store = self.spill(found)
        self.out.items.append(self.product(found, factors, (store,)))
        rebuild = Rebuild(self.dag, {found: self.dag.load(store.access)})
        return [rebuild.store(s) for s in stores]

    def product(self, found: Node, factors: tuple[Access, ...], stores: tuple[Store, ...]) -> Product:
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


def is_contraction(r: Node) -> bool:
    if r.data[0] != "sum" or len(r.data[1]) != 1 or r.dtype not in _ELEMENTS:
        return False
    body = r.args[0]
    if body.kind != "op" or body.data != "mul" or any(n.kind == "red" and is_contraction(n) for n in walk(body.args)):
        return False
    a, b = body.args
    (k,) = r.data[1]
    owned = (a.domain - b.domain) and (b.domain - a.domain)
    return bool(owned) and k in a.domain and k in b.domain and a.domain | b.domain - {k} >= r.domain


def _covers(b: Access, array: NDArray[Any]) -> bool:
    """A constant used as it is: known extents, no offset."""
    return (
        b.address.offset == 0
        and all(isinstance(c, int) and isinstance(v.extent, int) for v, c in b.address.terms)
        and array.ndim > 0
    )
