"""The graph that is scheduled: hash-consed nodes with explicit domains, and the accesses of loads and stores.

In: calls of `Dag`'s constructors. Out: nodes of which equal ones are one object, so that a common subexpression, in one
equation or in several, is found by identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from anyshape.dims import Size
from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.equations.builder import Form


@dataclass(frozen=True, eq=False, slots=True)
class LoopVar:
    """A loop variable, shared by all equations that have a dim of this extent."""

    number: int
    extent: Size

    def __str__(self) -> str:
        return f"i{self.number}"


@dataclass(frozen=True, slots=True)
class Affine:
    """An index: sum(coefficient * variable) + offset + sum(coefficient * a computed integer)."""

    terms: tuple[tuple[LoopVar, Size], ...] = ()
    offset: Size = 0
    lets: tuple[tuple[DagNode, Size], ...] = ()

    def coefficient(self, v: LoopVar) -> Size:
        return next((c for w, c in self.terms if w is v), 0)

    @property
    def domain(self) -> frozenset[LoopVar]:
        return frozenset(v for v, _ in self.terms).union(*(n.domain for n, _ in self.lets))

    @property
    def is_constant(self) -> bool:
        return not self.terms and not self.lets

    def __add__(self, other: Affine) -> Affine:
        return affine([*self.terms, *other.terms], self.offset + other.offset, [*self.lets, *other.lets])

    def scaled(self, factor: Size) -> Affine:
        return affine(
            [(v, c * factor) for v, c in self.terms], self.offset * factor, [(n, c * factor) for n, c in self.lets]
        )


def affine(terms: Iterable[tuple[LoopVar, Size]], offset: Size, lets: Iterable[tuple[DagNode, Size]] = ()) -> Affine:
    """Collects equal variables, drops zero coefficients, sorts."""
    byvar: dict[LoopVar, Size] = {}
    for v, c in terms:
        byvar[v] = byvar.get(v, 0) + c
    bynode: dict[DagNode, Size] = {}
    for n, c in lets:
        bynode[n] = bynode.get(n, 0) + c
    return Affine(
        tuple(sorted(((v, c) for v, c in byvar.items() if c != 0), key=lambda t: t[0].number)),
        offset,
        tuple(sorted(((n, c) for n, c in bynode.items() if c != 0), key=lambda t: t[0].serial)),
    )


@dataclass(frozen=True, slots=True)
class Bound:
    """0 <= index < extent, else the element is not touched. With an error the violation ends the kernel."""

    index: Affine
    extent: Size
    error: int = 0
    guard: DagNode | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """An element of a tensor, by its flattened address; `bounds` mask it, `checks` must hold."""

    tensor: Tensor
    address: Affine
    bounds: tuple[Bound, ...] = ()
    checks: tuple[Bound, ...] = ()

    @property
    def domain(self) -> frozenset[LoopVar]:
        d = self.address.domain
        for b in (*self.bounds, *self.checks):
            d |= b.index.domain
            if b.guard is not None:
                d |= b.guard.domain
        return d

    def nodes(self) -> Iterator[DagNode]:
        """The computed integers of the address, the bounds and the checks."""
        yield from (n for n, _ in self.address.lets)
        for b in (*self.bounds, *self.checks):
            yield from (n for n, _ in b.index.lets)
            if b.guard is not None:
                yield b.guard


@dataclass(frozen=True, eq=False, slots=True)
class DagNode:
    """A value. By kind, `data` is: const, the number; dim, the size; var, the variable; load, the access; op, the name;
    red, (kind, variables).

    `domain` are the variables it varies with; those of a reduction are not in the reduction's own domain.
    """

    kind: str
    dtype: DType
    data: Any
    args: tuple[DagNode, ...]
    domain: frozenset[LoopVar]
    serial: int

    @property
    def inputs(self) -> tuple[DagNode, ...]:
        """Arguments, and the computed indices of a load."""
        return (*self.args, *self.data.nodes()) if self.kind == "load" else self.args


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """tensor[access] = value for all values of `variables`, which are in the order of the tensor's dims."""

    access: Access
    value: DagNode
    variables: tuple[LoopVar, ...]

    @property
    def roots(self) -> tuple[DagNode, ...]:
        return (self.value, *self.access.nodes())

    @property
    def domain(self) -> frozenset[LoopVar]:
        return frozenset(self.variables)


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """A condition, which is that `each` holds for all values of `variables`."""

    whole: DagNode
    variables: tuple[LoopVar, ...]
    each: DagNode


@dataclass(frozen=True, eq=False, slots=True)
class Demanded:
    """What must hold of data, all of it; else the kernel ends with the error."""

    error: int
    parts: tuple[Asked, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """A store of which one element comes after the other: the loops are `store.variables`, then `over`, then what `form` says.

    `position` counts along the target; `where` says what a compaction keeps; `demanded` what must hold before.
    """

    form: Form
    store: Store
    over: tuple[LoopVar, ...]
    position: LoopVar | None
    where: DagNode | None
    demanded: Demanded | None = None

    @property
    def roots(self) -> tuple[DagNode, ...]:
        more = () if self.demanded is None else tuple(p.whole for p in self.demanded.parts)
        return (*self.store.roots, *more) if self.where is None else (*self.store.roots, *more, self.where)


class Dag:
    """Makes nodes; remembers them by structure."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], DagNode] = {}
        self.variables: list[LoopVar] = []

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def variable(self, extent: Size) -> LoopVar:
        v = LoopVar(len(self.variables), extent)
        self.variables.append(v)
        return v

    def pooled(self, extent: Size, taken: Iterable[LoopVar]) -> LoopVar:
        """The first variable of that extent that is not taken: equal spaces get equal names, and so share loops."""
        used = set(taken)
        for v in self.variables:
            if v.extent == extent and v not in used:
                return v
        return self.variable(extent)

    def _node(
        self, kind: str, dtype: DType, data: Any, args: tuple[DagNode, ...], domain: frozenset[LoopVar], key: Any
    ) -> DagNode:
        full = (kind, dtype, key, args)
        node = self._nodes.get(full)
        if node is None:
            node = self._nodes[full] = DagNode(kind, dtype, data, args, domain, len(self._nodes))
        return node

    def const(self, value: int | float | bool, dtype: DType) -> DagNode:
        return self._node("const", dtype, value, (), frozenset(), (type(value), repr(value)))

    def dim(self, size: Any, dtype: DType) -> DagNode:
        if isinstance(size, (bool, int)):
            return self.const(size, dtype)
        return self._node("dim", dtype, size, (), frozenset(), size)

    def var(self, v: LoopVar, dtype: DType) -> DagNode:
        return self._node("var", dtype, v, (), frozenset((v,)), v)

    def load(self, access: Access) -> DagNode:
        return self._node("load", access.tensor.dtype, access, (), access.domain, access)

    def op(self, name: str, dtype: DType, *args: DagNode) -> DagNode:
        domain = frozenset().union(*(a.domain for a in args)) if args else frozenset()
        return self._node("op", dtype, name, args, domain, name)

    def red(self, kind: str, variables: tuple[LoopVar, ...], body: DagNode, dtype: DType) -> DagNode:
        data = (kind, variables)
        return self._node("red", dtype, data, (body,), body.domain - frozenset(variables), data)


def is_nonpositive(n: DagNode) -> bool:
    """A value less the largest of its kind: at most 0, or NaN."""
    if n.kind != "op" or n.data != "sub":
        return False
    value, other = n.args
    return other.kind == "red" and bool(other.data[0] == "max") and other.args[0] is value


def walk(roots: Iterable[DagNode], stop: DagNode | None = None) -> list[DagNode]:
    """Every node below the roots, each once, inputs before users; nothing below `stop`."""
    seen: set[DagNode] = set()
    order: list[DagNode] = []
    for root in roots:
        stack = [(root, iter(()) if root is stop else iter(root.inputs))] if root not in seen else []
        seen.add(root)
        while stack:
            node, left = stack[-1]
            below = next((n for n in left if n not in seen), None)
            if below is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(below)
                stack.append((below, iter(()) if below is stop else iter(below.inputs)))
    return order
