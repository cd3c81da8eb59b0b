"""Results of a kernel that may be written over operands, derived from its schedule.

In: phases. Out: pairs (result, operand) that may be one piece of memory. A pair is safe when every load of the operand comes before the
store of the result that overwrites the element: in the loop of the store at the store's own address, or in an earlier loop of the same row.
A result that several phases write in pieces is safe if these are disjoint, and each phase so reads what it overwrites itself.
What cannot be shown from addresses is left out. Kernels promise nothing about aliasing to LLVM, and all parts of a kernel write rows of
their own, so that nothing else can come in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from anyshape.dims import Dim, Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.disjoint import are_disjoint
from anyshape.lower.ir.dag import Access, Affine, DagNode, Load, LoopVar, Reduction, affine
from anyshape.lower.ir.stores import Ordered, Store
from anyshape.lower.schedule.products import Product
from anyshape.lower.schedule.tree import Loop, Scope

if TYPE_CHECKING:
    from anyshape.lower.schedule.blocked import Blocked

    Phase: TypeAlias = Scope | Product | Blocked | Ordered

Loads = list[Access]
Equal: TypeAlias = Mapping[Dim, Size]
"""What dims are: symbols, or minima and the like, that are factors of the terms of sizes."""


@dataclass(frozen=True, eq=False, slots=True)
class ReusePairs:
    """Pairs (position of the result, position of the operand); several may name one operand, of which one can be used. `by_size`: the two
    may be one memory if they have the same size; `by_shape`: if they have the same shape, which more pairs may be."""

    by_size: tuple[tuple[int, int], ...] = ()
    by_shape: tuple[tuple[int, int], ...] = ()


def reuse_pairs(phases: Sequence[Phase], operands: Sequence[object], outputs: Sequence[Tensor]) -> ReusePairs:
    loads, readers = LoadsOf(), _readers(phases)
    stored: dict[Tensor, list[tuple[Phase, Store]]] = {}
    for p in phases:
        for s in () if isinstance(p, Ordered) else p.stores:
            stored.setdefault(s.access.tensor, []).append((p, s))
    by_phases: dict[frozenset[Phase], list[tuple[int, Tensor]]] = {}
    for j, operand in enumerate(operands):
        if isinstance(operand, Tensor) and readers.get(operand):
            by_phases.setdefault(frozenset(readers[operand]), []).append((j, operand))
    by_size: list[tuple[int, int]] = []
    by_shape: list[tuple[int, int]] = []
    for k, result in enumerate(outputs):
        pieces = stored.get(result, ())
        own = dict(pieces)
        addresses = [s.access.address for _, s in pieces]
        if (
            len(own) < len(pieces)
            or not all(s.access.is_plain for s in own.values())
            or not are_disjoint(addresses, result.shape)
        ):
            continue
        for j, operand in by_phases.get(frozenset(own), ()):
            if not _same_width(operand, result):
                continue
            equal = _equal_dims(operand, result)
            if all(loads.is_safe(phase, operand, store) for phase, store in own.items()):
                by_size.append((k, j))
                by_shape += [(k, j)] if equal is not None else []
            elif equal and all(loads.is_safe(phase, operand, store, equal) for phase, store in own.items()):
                by_shape.append((k, j))
    return ReusePairs(tuple(by_size), tuple(by_shape))


def _equal_dims(a: Tensor, b: Tensor) -> Equal | None:
    """What dims are if two tensors have the same shape; None if they cannot have it, or if it does not say what a dim is."""
    equal: dict[Dim, Size] = {}
    if len(a.shape) != len(b.shape):
        return None
    for m, n in zip(a.shape, b.shape, strict=True):
        m, n = _with_equal(m, equal), _with_equal(n, equal)
        if m == n:
            continue
        dim, size = next(((d, e) for d, e in ((n, m), (m, n)) if isinstance(d, Dim) and _is_apart(d, e)), (None, 0))
        if dim is None:
            return None
        equal = {d: _with_equal(e, {dim: size}) for d, e in equal.items()} | {dim: size}
    return equal


def _is_apart(dim: Dim, size: Size) -> bool:
    """Whether a dim is no sum or product, and no term of a size."""
    return dim.atom is not None and not (isinstance(size, Dim) and dim.atom in {a for m, _ in size.terms for a in m})


def _with_equal(size: Size, equal: Equal) -> Size:
    """The size with the dims that are its terms' factors replaced."""
    if not isinstance(size, Dim):
        return size
    terms = (prod((equal.get(a.dim, a.dim) for a in monomial), start=factor) for monomial, factor in size.terms)
    return sum(terms, start=0)


def _readers(phases: Sequence[Phase]) -> dict[Tensor, set[Phase]]:
    """The phases that read each tensor."""
    readers: dict[Tensor, set[Phase]] = {}
    for p in phases:
        for n in _below(p.roots if isinstance(p, Ordered) else _roots(p.stores)):
            if isinstance(n, Load):
                readers.setdefault(n.access.tensor, set()).add(p)
    return readers


def _same_width(a: Tensor, b: Tensor) -> bool:
    return a.dtype.numpy.itemsize == b.dtype.numpy.itemsize


def _roots(stores: Iterable[Store]) -> list[DagNode]:
    return [r for s in stores for r in s.roots]


class LoadsOf:
    """Loads of operands by step, collected once for each step however many results it has."""

    def __init__(self) -> None:
        self._loops: dict[Loop, dict[Tensor, Loads]] = {}
        self._last: dict[Store, dict[Tensor, int]] = {}

    def is_safe(self, step: object, operand: Tensor, store: Store, equal: Equal = MappingProxyType({})) -> bool:
        """Whether the store may overwrite the operand, which no other step reads; where dims are what `equal` says."""
        if isinstance(step, Product):
            if any(a.tensor is operand for a in step.accesses) or _loads(step.values, operand):
                return False
            loads = _loads(_roots(step.stores), operand)
            return all(matches(a, store, equal) for a in loads) and not self._read_after(step.stores, store, operand)
        return isinstance(step, Scope) and self._is_safe_in_rows(step, operand, store, equal)

    def _is_safe_in_rows(self, scope: Scope, operand: Tensor, store: Store, equal: Equal) -> bool:
        """Whether loops before the store's read whole rows, its own loop the element itself, and later ones nothing."""
        rows = frozenset(scope.variables)
        if not rows <= store.access.address.domain:
            return False
        written = False
        for step in scope.steps:
            loads = self._loads_of_step(step, operand)
            if written and loads:
                return False
            if isinstance(step, Loop) and store in step.stores:
                written = True
                if not all(matches(a, store, equal) for a in loads) or self._read_after(step.stores, store, operand):
                    return False
            elif not all(is_in_row(a, store, rows) for a in loads):
                return False
        return written

    def _loads_of_step(self, step: Scope | Loop, operand: Tensor) -> Loads:
        if isinstance(step, Loop):
            known = self._loops.get(step)
            if known is None:
                known = self._loops[step] = _by_tensor(_evaluated(step))
            return known.get(operand, [])
        inner = [a for s in step.steps for a in self._loads_of_step(s, operand)]
        return inner + _loads([t.node for t in step.fills], operand)

    def _read_after(self, stores: Sequence[Store], store: Store, operand: Tensor) -> bool:
        """Whether a later store of the same iteration reads the operand."""
        known = self._last.get(store)
        if known is None:
            last = {t: k for k, s in enumerate(stores) for t in _by_tensor(s.roots)}
            self._last.update((s, last) for s in stores)
            known = last
        return known.get(operand, -1) > stores.index(store)


def matches(load: Access, store: Store, equal: Equal = MappingProxyType({})) -> bool:
    """Whether a load is of the element that the store writes; with `equal`, if dims are what it says. What bounds leave out is not
    loaded."""
    if not equal:
        return load.is_plain and load.address == store.access.address
    own, other = (_address_with(x.address, equal) for x in (load, store.access))
    return not (load.checks or own.lets) and own == other


def _address_with(a: Affine, equal: Equal) -> Affine:
    return affine([(v, _with_equal(c, equal)) for v, c in a.terms], _with_equal(a.offset, equal), a.lets)


def is_in_row(load: Access, store: Store, rows: frozenset[LoopVar]) -> bool:
    """Whether the load runs over the same addresses as the store in every row, in whatever order."""
    a, b = load.address, store.access.address
    same_row = a.offset == b.offset and all(a.coefficient(v) == b.coefficient(v) for v in rows)
    return load.is_plain and same_row and _inner(a, rows) == _inner(b, rows)


def _inner(a: Affine, rows: frozenset[LoopVar]) -> Counter[tuple[object, object]]:
    return Counter((v.extent, c) for v, c in a.terms if v not in rows)


def _evaluated(loop: Loop) -> Iterator[DagNode]:
    """The nodes that a loop evaluates: reductions stand for what is below them, which their own loop loads."""
    yield from (r.body for r in loop.reductions)
    yield from loop.keep
    yield from _roots(loop.stores)


def _loads(roots: Iterable[DagNode], operand: Tensor) -> Loads:
    """Accesses of the operand below the roots; what is below a reduction is loaded by the loop that computes it."""
    return _by_tensor(roots).get(operand, [])


def _by_tensor(roots: Iterable[DagNode]) -> dict[Tensor, Loads]:
    loads: dict[Tensor, Loads] = {}
    for n in _below(roots, into_reductions=False):
        if isinstance(n, Load):
            loads.setdefault(n.access.tensor, []).append(n.access)
    return loads


def _below(roots: Iterable[DagNode], into_reductions: bool = True) -> Iterator[DagNode]:
    """Yields every node, each once."""
    seen: set[DagNode] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        yield n
        if not isinstance(n, Reduction) or into_reductions:
            stack.extend(n.inputs)
