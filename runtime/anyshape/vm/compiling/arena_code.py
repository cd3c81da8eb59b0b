"""Instructions of the memory plan: offsets of tenants computed when their sizes are known, one region and one growth check per group.

In: groups of tenants. Out: registers that hold addresses. The entry's group is region 0. A later one, whose sizes depend on data, gets
a region when the first of its tenants is made; groups that are never alive at once use the same region one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anyshape.graph.value import Value
from anyshape.vm.compiling.lifetimes import StorageGroup, TenantPlace, regions_of
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.program.memory_layout import MemoryLayout, lay_out
from anyshape.vm.program.table import Op
from anyshape.vm.run.arena import ROOMY


class ArenaCode:
    """Emitter of a memory plan. `regions` counts regions; `region_of` and `layouts` are the region and the layout of each group."""

    def __init__(
        self,
        code: ShapeCode,
        groups: Mapping[int, StorageGroup],
        check: Callable[[Sequence[Value]], None],
        first: int = 0,
        grow: Op = Op.REGION,
    ) -> None:
        """`first`: the number of the entry's region; `grow`: the instruction that makes a region."""
        self.grow = grow
        self.code, self.groups, self.check = code, groups, check
        self.region_of = {ready: first + k for ready, k in regions_of(groups).items()}
        self.regions = max(self.region_of.values(), default=first) + 1
        self.layouts: dict[int, MemoryLayout] = {}
        self._addresses: dict[int, list[int]] = {}

    @property
    def roomy(self) -> tuple[int, ...]:
        """Regions of which typical calls need more than `ROOMY`."""
        return tuple(sorted({self.region_of[g] for g, layout in self.layouts.items() if layout.typical > ROOMY}))

    def prepare(self, ready: int) -> None:
        """Emits the offsets and the region of a group, if there is such a group."""
        group = self.groups.get(ready)
        if group is None or ready in self._addresses:
            return
        self.check([v for values in group.values for v in values])
        layout = self.layouts[ready] = lay_out(group.tenants)
        offsets, total = self._offsets(group, layout)
        base = self.code.new(self.grow, self.region_of[ready], total)
        zero = self.code.register(0)
        self._addresses[ready] = [base if o == zero else self.code.pure(Op.VIEW, base, o) for o in offsets]

    def address(self, place: TenantPlace) -> int:
        self.prepare(place.ready)
        return self._addresses[place.ready][place.number]

    def _offsets(self, group: StorageGroup, layout: MemoryLayout) -> tuple[list[int], int]:
        zero = self.code.register(0)
        offsets, ends = [zero] * len(group.tenants), [zero] * len(group.tenants)
        for k in layout.order:
            offsets[k] = self._highest([ends[j] for j in layout.below[k]])
            size = self.code.register(group.tenants[k].bytes)
            ends[k] = size if offsets[k] == zero else self.code.pure(Op.ADD, offsets[k], size)
        return offsets, self._highest([ends[j] for j in layout.top])

    def _highest(self, ends: Sequence[int]) -> int:
        registers = sorted(set(ends))
        if not registers:
            return self.code.register(0)
        first = registers[0]
        for r in registers[1:]:
            first = self.code.pure(Op.MAX, first, r)
        return first
