"""Costs of expressions, and the variables along which memory is contiguous.

In: nodes and stores. Out: numbers and a ranking. Everything here is read off accesses and operation costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from anyshape import dims
from anyshape.kernel_model.costs import LOAD, MASK_CYCLES, cost_of
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, Operation, Reduction
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.ir.stores import Store


def cost(root: DagNode, inner: frozenset[LoopVar], known: frozenset[DagNode] = frozenset()) -> int:
    """Rough cycles per vector of what a loop over `inner` evaluates for the node; each common part counts once.

    A load counts where it varies with all of them, and so does a value that is known already: it is loaded from where it is kept.
    """
    return cost_of_all([root], inner, known)


def cost_of_all(roots: Iterable[DagNode], inner: frozenset[LoopVar], known: frozenset[DagNode] = frozenset()) -> int:
    """The cost of several nodes together."""
    seen: set[DagNode] = set()
    total = 0
    stack = [*roots]
    while stack:
        n = stack.pop()
        if n in seen or isinstance(n, Reduction) or not n.domain & inner:
            continue
        seen.add(n)
        if n in known:
            total += LOAD.cycles
            continue
        padded = padded_load(n)
        if padded is not None:  # what it asks becomes the mask of its load
            total += MASK_CYCLES
            stack.append(padded.load)
            continue
        if isinstance(n, Operation):
            total += cost_of(n.name).cycles
        elif isinstance(n, Load) and n.domain >= inner:
            total += LOAD.cycles
        stack.extend(n.inputs)
    return total


def accesses(stores: Iterable[Store], reds: Iterable[Reduction], done: Set[DagNode]) -> list[tuple[Access, bool]]:
    """The accesses of a computation, down to finished reductions; True for stores."""
    seen: set[DagNode] = set()
    accessed: list[tuple[Access, bool]] = []
    stack: list[DagNode] = []
    for s in stores:
        accessed.append((s.access, True))
        stack.extend(s.roots)
    stack.extend(r.body for r in reds)
    while stack:
        n = stack.pop()
        if n in seen or n in done:
            continue
        seen.add(n)
        if isinstance(n, Load):
            accessed.append((n.access, False))
        stack.extend(n.inputs)
    return accessed


def vote(stores: Iterable[Store], reds: Iterable[Reduction], done: Set[DagNode]) -> list[LoopVar]:
    """Ranks variables by how much contiguous traffic they carry: 16 to the number of variables, half as much again for stores."""
    weight: dict[LoopVar, float] = {}
    for access, is_store in accesses(stores, reds, done):
        volume = 16.0 ** len(access.domain)
        for v, c in access.address.terms:
            score = volume * (1.5 if is_store else 1.0) if contiguous(c) else 0.0
            weight[v] = weight.get(v, 0.0) + score
    best = [v for v, w in weight.items() if w > 0]
    return sorted(best, key=lambda v: (-weight[v], -v.number))


def contiguous(c: object) -> bool:
    """Whether a coefficient is 1, or 1 unless the dim is broadcast."""
    return c == 1 or (isinstance(c, dims.Dim) and dims.bounds(c) == (0, 1))


def along_stores(stores: Iterable[Store]) -> list[LoopVar]:
    """The variables that results are contiguous in: a map writes along its rows, whatever it reads."""
    count: dict[LoopVar, int] = {}
    for s in stores:
        for v, c in s.access.address.terms:
            if c == 1:
                count[v] = count.get(v, 0) + 1
    return sorted(count, key=lambda v: (-count[v], -v.number))
