"""Recurrences for the scheduler: the position of a step is a symbol, and what is computed at one position is an ordinary group.

In: stores of the equations of one cycle, in the order stated, at the position that a symbol stands for. Out: a `Recurrence`, of one of
two forms. *Rows of steps*: every element depends on what came before in its own row only, so that the loops over the rows are outside,
and the previous values stay in registers. *Steps of phases*: the loop over positions is outside, and holds matrix products and rows; loops
over variables of which the cycle computes each value apart from the others, from operands of its own, are around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Dim, Size, substitute
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import along_stores
from anyshape.lower.analyse.collapse import collapse
from anyshape.lower.ir.dag import Access, Dag, Load, LoopVar, Reduction, walk
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.schedule.contraction import Product, split_phases
from anyshape.lower.schedule.tree import Scope, plan
from anyshape.lower.schedule.work import points


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """The stores of a cycle in stages. `late` are loads of what is written at the same position: they follow the store."""

    position: Dim
    extent: Size
    backward: bool
    stores: tuple[Store, ...]
    late: frozenset[Load]
    temporaries: tuple[Tensor, ...]
    """What is read at the same position only: it has no place for others."""


@dataclass(frozen=True, eq=False, slots=True)
class RowForm:
    """`carried`: loads of the previous position, each with the store that wrote it; `dropped` are tensors that nothing else reads."""

    variables: tuple[LoopVar, ...]
    vector: LoopVar | None
    carried: tuple[tuple[Load, Store], ...]
    dropped: frozenset[Tensor]


@dataclass(frozen=True, eq=False, slots=True)
class Recurrence:
    """What a cycle became; `rows` is None where the loop over the positions is outside."""

    position: Dim
    extent: Size
    backward: bool
    stages: tuple[tuple[Store, ...], ...]
    phases: tuple[Scope | Product, ...]
    rows: RowForm | None
    temporaries: tuple[Tensor, ...]
    around: tuple[LoopVar, ...] = ()
    """Variables whose loops are around the one over the positions, and can be shared out."""

    @property
    def pieces(self) -> Size:
        """How many there are to share out."""
        return points(self.around)


def plan_recurrence(
    dag: Dag, steps: Steps, outputs: tuple[Tensor, ...], constants: Mapping[Tensor, NDArray[Any]]
) -> Recurrence:
    around = _around(steps)
    stages = [s for stage in _staged(steps) for s in collapse(dag, [stage], frozenset(around))]
    rows = _as_rows(steps, stages, outputs)
    if rows is not None:
        fixed = (tuple(stages[0]),)
        return Recurrence(steps.position, steps.extent, steps.backward, fixed, (), rows, steps.temporaries)
    found = split_phases(dag, stages, constants)
    items = [p for c in found for p in c.items]
    if any(isinstance(p, Product) and not _is_around(p, around) for p in items):
        around = ()
    phases = tuple(_inside(p, around) for p in items)
    stores = tuple(p.stores if isinstance(p, Product) else tuple(p) for p in items)
    temporaries = (*steps.temporaries, *(t for c in found for t in c.temporaries))
    return Recurrence(steps.position, steps.extent, steps.backward, stores, phases, None, temporaries, around)


def _around(steps: Steps) -> tuple[LoopVar, ...]:
    """Variables of all stores, of which each value reads only what was written for it, and sums only what is its own."""
    nodes = below(steps.stores)
    summed = walk([n.body for n in nodes if isinstance(n, Reduction)])
    if not summed:
        return ()
    written: dict[Tensor, set[Size]] = {}
    own = [n.access for n in summed if isinstance(n, Load)]

    def is_apart(v: LoopVar) -> bool:
        written.clear()
        for s in steps.stores:
            written.setdefault(s.access.tensor, set()).add(s.access.address.coefficient(v))
        for n in nodes:
            if isinstance(n, Load) and n.access.tensor in written:
                written[n.access.tensor].add(n.access.address.coefficient(v))
        return all(len(found) == 1 for found in written.values()) and all(v in x.domain for x in own)

    shared = frozenset.intersection(*(s.domain for s in steps.stores))
    return tuple(v for v in steps.stores[0].variables if v in shared and is_apart(v))


def _is_around(p: Product, around: tuple[LoopVar, ...]) -> bool:
    return p.windows is None and p.computed is None and all(v in p.batch for v in around)


def _inside(p: Product | list[Store], around: tuple[LoopVar, ...]) -> Product | Scope:
    """A phase in the loops around."""
    if isinstance(p, Product):
        return replace(p, batch=tuple(v for v in p.batch if v not in around), around=around)
    return plan(p, frozenset(around))


def _staged(steps: Steps) -> list[list[Store]]:
    """A store comes in a later stage than those stated before it that it reads through memory at the same position."""
    level: dict[Store, int] = {}
    for k, s in enumerate(steps.stores):
        read = {n.access.tensor for n in walk(s.roots) if isinstance(n, Load) and n in steps.late}
        level[s] = max((level[o] + 1 for o in steps.stores[:k] if o.access.tensor in read), default=0)
    return [[s for s in steps.stores if level[s] == k] for k in range(max(level.values(), default=-1) + 1)]


def _as_rows(steps: Steps, stages: list[list[Store]], outputs: tuple[Tensor, ...]) -> RowForm | None:
    """If nothing is reduced, and reads of what the cycle writes are of the element's own row."""
    if len(stages) != 1:
        return None
    stores = stages[0]
    nodes = below(stores)
    written: dict[Tensor, list[Store]] = {}
    for s in stores:
        written.setdefault(s.access.tensor, []).append(s)
    variables = stores[0].variables
    if any(isinstance(n, Reduction) for n in nodes) or any(set(s.variables) != set(variables) for s in stores):
        return None
    loads = [(n, written[n.access.tensor]) for n in nodes if isinstance(n, Load) and n.access.tensor in written]
    if any(not _same_row(n.access, s.access) for n, own in loads for s in own):
        return None
    carried = {n: own[0] for n, own in loads if len(own) == 1 and _is_previous(steps, n.access, own[0].access)}
    kept = {*outputs, *(n.access.tensor for n, _ in loads if n not in carried)}
    vector = next((v for v in along_stores(stores) if v in variables), None)
    order = (*(v for v in variables if v is not vector), *([vector] if vector is not None else []))
    return RowForm(order, vector, tuple(carried.items()), frozenset(t for t in written if t not in kept))


def _same_row(load: Access, store: Access) -> bool:
    return not load.address.lets and not store.address.lets and load.address.terms == store.address.terms


def _is_previous(steps: Steps, load: Access, store: Access) -> bool:
    back = -1 if steps.backward else 1
    return bool(substitute(load.address.offset, {steps.position: steps.position + back}) == store.address.offset)


__all__ = ["Recurrence", "RowForm", "Steps", "plan_recurrence"]
