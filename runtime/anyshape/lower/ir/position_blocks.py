"""Blocks of positions of what a recurrence reads at one position in each step.

In: a tensor, and where it is written and read, which lowering its equations says. Out: the place of an element in the block in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from anyshape.dims import Dim
from anyshape.equations import Tensor
from anyshape.lower.ir.dag import Affine
from anyshape.lower.ir.index_forms import flatten


@dataclass(frozen=True, slots=True, eq=False)
class PositionBlock:
    """A tensor of which a recurrence reads one position in each step, and has a block of positions in memory at a time, from `first` on.

    `tensor` has that block, of `most` positions; `axis` is that of these. `written` is the index at which it is computed, `read` are those
    at which steps read it."""

    tensor: Tensor
    _: KW_ONLY
    axis: int
    first: Dim
    most: Dim
    written: list[Affine] = field(default_factory=list)
    read: list[tuple[Affine, ...]] = field(default_factory=list)

    def element(self, index: Sequence[Affine]) -> Affine:
        """The place of an element in the block."""
        return flatten(self.tensor, [i + Affine((), -self.first) if k == self.axis else i for k, i in enumerate(index)])
