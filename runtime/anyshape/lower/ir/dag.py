"""The graph that is scheduled: hash-consed nodes with explicit domains, and the accesses of loads and stores.

In: calls of `Dag`'s constructors. Out: nodes of which equal ones are one object, so that a common subexpression, in one
equation or in several, is found by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from anyshape.dims import Cond, Dim, Size, exact_text
from anyshape.dtypes import DType, literal_key
from anyshape.equations import Tensor

N = TypeVar("N")


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

    @property
    def sizes(self) -> Iterator[Size]:
        """The offset and all coefficients."""
        yield self.offset
        yield from (c for _, c in (*self.terms, *self.lets))

    @property
    def order(self) -> tuple[object, ...]:
        """Orders the forms of one kernel, by numbers of variables and nodes, and the text of sizes."""
        terms = tuple((v.number, exact_text(c)) for v, c in self.terms)
        return terms, exact_text(self.offset), tuple((n.serial, exact_text(c)) for n, c in self.lets)

    def __add__(self, other: Affine) -> Affine:
        return affine([*self.terms, *other.terms], self.offset + other.offset, [*self.lets, *other.lets])

    def scaled(self, factor: Size) -> Affine:
        return affine(
            [(v, c * factor) for v, c in self.terms], self.offset * factor, [(n, c * factor) for n, c in self.lets]
        )


def row_major(variables: Sequence[LoopVar], stride: Size = 1) -> tuple[list[tuple[LoopVar, Size]], Size]:
    """Terms of the address of an element in dense memory, the last variable fastest; and how many elements there are, times `stride`."""
    terms: list[tuple[LoopVar, Size]] = []
    for v in reversed(variables):
        terms.append((v, stride))
        stride = stride * v.extent
    return terms, stride


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
class IndexBound:
    """The condition 0 <= index < extent, without which the element is not accessed. With an error the violation ends the kernel."""

    index: Affine
    extent: Size
    error: int = 0
    guard: DagNode | None = None

    @property
    def order(self) -> tuple[object, ...]:
        """Orders the bounds of one kernel."""
        return *self.index.order, exact_text(self.extent), self.error, -1 if self.guard is None else self.guard.serial


@dataclass(frozen=True, slots=True)
class Access:
    """An element of a tensor, by its flattened address; `bounds` mask it, `checks` must hold."""

    tensor: Tensor
    address: Affine
    bounds: tuple[IndexBound, ...] = ()
    checks: tuple[IndexBound, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the address is affine and has no bounds and no checks."""
        return not (self.bounds or self.checks or self.address.lets)

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


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _ValueNode:
    """A value. `domain` are the variables it varies with; those of a reduction are not in the reduction's own domain."""

    dtype: DType
    domain: frozenset[LoopVar]
    serial: int

    @property
    def inputs(self) -> tuple[DagNode, ...]:
        """Arguments, and the computed indices of a load."""
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class Constant(_ValueNode):
    value: int | float | bool


@dataclass(frozen=True, eq=False, slots=True)
class SizeValue(_ValueNode):
    """A dim, or whether a condition on dims holds."""

    size: Dim | Cond


@dataclass(frozen=True, eq=False, slots=True)
class LoopIndex(_ValueNode):
    """The value of a loop variable."""

    variable: LoopVar


@dataclass(frozen=True, eq=False, slots=True)
class Load(_ValueNode):
    access: Access

    @property
    def inputs(self) -> tuple[DagNode, ...]:
        return tuple(self.access.nodes())


@dataclass(frozen=True, eq=False, slots=True)
class Operation(_ValueNode):
    name: str
    args: tuple[DagNode, ...]

    @property
    def inputs(self) -> tuple[DagNode, ...]:
        return self.args


@dataclass(frozen=True, eq=False, slots=True)
class Reduction(_ValueNode):
    kind: str
    variables: tuple[LoopVar, ...]
    body: DagNode

    @property
    def inputs(self) -> tuple[DagNode, ...]:
        return (self.body,)


DagNode = Constant | SizeValue | LoopIndex | Load | Operation | Reduction


class Dag:
    """Makes nodes; keeps them by structure."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Any] = {}
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

    def _shared(self, key: tuple[Any, ...], make: Callable[[int], N]) -> N:
        """The node of that key; `make` gets the serial of a new one."""
        node: N | None = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = make(len(self._nodes))
        return node

    def const(self, value: int | float | bool, dtype: DType) -> Constant:
        key = (Constant, dtype, literal_key(value))
        return self._shared(key, lambda serial: Constant(value, dtype=dtype, domain=frozenset(), serial=serial))

    def dim(self, size: Size | Cond, dtype: DType) -> Constant | SizeValue:
        if isinstance(size, int):
            return self.const(size, dtype)
        key = (SizeValue, dtype, size)
        return self._shared(key, lambda serial: SizeValue(size, dtype=dtype, domain=frozenset(), serial=serial))

    def var(self, v: LoopVar, dtype: DType) -> LoopIndex:
        key = (LoopIndex, dtype, v)
        return self._shared(key, lambda serial: LoopIndex(v, dtype=dtype, domain=frozenset((v,)), serial=serial))

    def load(self, access: Access) -> Load:
        dtype = access.tensor.dtype
        return self._shared(
            (Load, access), lambda serial: Load(access, dtype=dtype, domain=access.domain, serial=serial)
        )

    def op(self, name: str, dtype: DType, *args: DagNode) -> Operation:
        def make(serial: int) -> Operation:
            domain = frozenset[LoopVar]().union(*(a.domain for a in args))
            return Operation(name, args, dtype=dtype, domain=domain, serial=serial)

        return self._shared((Operation, dtype, name, args), make)

    def red(self, kind: str, variables: tuple[LoopVar, ...], body: DagNode, dtype: DType) -> Reduction:
        def make(serial: int) -> Reduction:
            domain = body.domain - frozenset(variables)
            return Reduction(kind, variables, body, dtype=dtype, domain=domain, serial=serial)

        return self._shared((Reduction, dtype, kind, variables, body), make)


def is_nonpositive(n: DagNode) -> bool:
    """A value less the largest of its kind, or a magnitude with its sign changed: at most 0, or NaN."""
    match n:
        case Operation("neg", (Operation("abs"),)):
            return True
        case Operation("sub", (value, Reduction("max", _, body))):
            return body is value
    return False


def is_within_one(n: DagNode) -> bool:
    """An exponential of what is at most 0: from 0 to 1, or NaN."""
    return isinstance(n, Operation) and n.name == "exp" and is_nonpositive(n.args[0])


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
