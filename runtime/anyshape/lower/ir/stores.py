"""Uses of nodes of the graph: stores, stores whose elements come one after the other, and demands on data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from anyshape.equations.builder import Form
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, Reduction, walk


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """An assignment, tensor[access] = value, for all values of `variables`, which are in the order of the tensor's dims."""

    access: Access
    value: DagNode
    variables: tuple[LoopVar, ...]

    @property
    def source(self) -> Access:
        """The access that is read, of a bare copy."""
        assert isinstance(self.value, Load)
        return self.value.access

    @property
    def roots(self) -> tuple[DagNode, ...]:
        return (self.value, *self.access.nodes())

    @property
    def domain(self) -> frozenset[LoopVar]:
        return frozenset(self.variables)


@dataclass(frozen=True, eq=False, slots=True)
class DemandedPart:
    """A condition, `whole`, which is that `each` holds for all values of `variables`."""

    whole: DagNode
    variables: tuple[LoopVar, ...]
    each: DagNode


@dataclass(frozen=True, eq=False, slots=True)
class Demanded:
    """Conditions on data that must all hold; else the kernel ends with the error."""

    error: int
    parts: tuple[DemandedPart, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """A store of which one element comes after the other: the loops are `store.variables`, then `over`, then what `form` says.

    `position` counts along the target; `where` says what a compaction keeps; `demanded` what must hold before.
    """

    form: Form
    store: Store
    over: tuple[LoopVar, ...]
    _: KW_ONLY
    position: LoopVar | None
    where: DagNode | None
    demanded: Demanded | None = None

    @property
    def roots(self) -> tuple[DagNode, ...]:
        more = () if self.demanded is None else tuple(p.whole for p in self.demanded.parts)
        return (*self.store.roots, *more) if self.where is None else (*self.store.roots, *more, self.where)


def below(stores: Iterable[Store], stop: DagNode | None = None) -> list[DagNode]:
    """Every node that the stores need, each once, inputs before users; nothing below `stop`."""
    return walk([r for s in stores for r in s.roots], stop)


def reductions_of(stores: Iterable[Store]) -> list[Reduction]:
    return [n for n in below(stores) if isinstance(n, Reduction)]
