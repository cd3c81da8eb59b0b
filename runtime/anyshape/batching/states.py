"""What is known of a value or of a tensor of an equation when requests are joined along a dim.

A row is what the value has of one position along the batch dim.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from anyshape.dims import Cond, Dim, Size, exact_div, free_symbols
from anyshape.equations.expr import Expr, Var
from anyshape.equations.traversal import substitute


@dataclass(frozen=True, slots=True)
class IndexElements:
    """Integers that are computed of their position and of sizes, as indices are: `value` at the position `variables`."""

    variables: tuple[Var, ...]
    value: Expr

    def at(self, index: Sequence[Expr]) -> Expr:
        """The element at an index."""
        return substitute(self.value, dict(zip(self.variables, index, strict=True)))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that is equal in each of the requests and in the joined call; `elements`, if they are known."""

    elements: IndexElements | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """What stands at position i along the axis is of row i // stride, and depends on that row alone."""

    axis: int
    stride: Size


@dataclass(frozen=True, slots=True)
class Joint:
    """What may depend on several rows, on their number or on the place of a row among the rest."""

    reason: str


@dataclass(frozen=True, slots=True)
class Computed:
    """Integers of which it is seen where they are read which rows they pick; as data they depend on more than their row."""

    elements: IndexElements
    reason: str


RowState = Fixed | Rows | Joint | Computed
FIXED = Fixed()


@dataclass(frozen=True, slots=True)
class RowDim:
    """The dim along which requests are joined, and the sizes that are the same in all of them."""

    symbol: Dim
    fixed: Set[Dim]

    def varies(self, size: Size | Cond) -> bool:
        """Whether a size or a condition may differ between the requests and the joined call."""
        return not free_symbols(size) <= self.fixed

    def rows(self, shape: Sequence[Size]) -> Rows | None:
        """The one axis that has the rows, `stride` positions for each; None where there is none, or another size varies too."""
        varying = [k for k, n in enumerate(shape) if self.varies(n)]
        if len(varying) != 1:
            return None
        size = shape[varying[0]]
        stride = exact_div(size, self.symbol, known_nonzero=True)
        if self.varies(stride) or stride * self.symbol != size:
            return None
        return Rows(varying[0], stride)
