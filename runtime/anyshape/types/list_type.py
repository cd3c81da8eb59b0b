"""ListType, the type of a value that holds any number of tensors, or of lists, all of one type.

To code that asks a type for a dtype and a shape, a list is a scalar of a dtype that no op of tensors takes: one word, that says where
the list is. What it holds is said by `element`. A dim in which elements may differ is DIFFERS; it is bound nowhere, and taking an element
out makes a fresh symbol of it. Any other dim is the same in all elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.dims import Dim, Size, symbol
from anyshape.dtypes import LIST
from anyshape.types.tensor_type import TensorType

DIFFERS = symbol("?", 0)


@dataclass(frozen=True, slots=True)
class ListType(TensorType):
    """The type of a list or an optional value, made by `list_of`. Prints as `list[f32[?, 4]]`, `optional[f32[n]]`; `list[f32[none]]` is a
    list into which nothing was put yet."""

    element: TensorType
    optional: bool
    """A list of at most one element, which callers see as that element or None."""
    never: bool
    """Whether nothing was put in: of the element only the dtype is known, and any element may come."""

    @property
    def depth(self) -> int:
        """How many lists are around a tensor."""
        return 1 + (self.element.depth if isinstance(self.element, ListType) else 0)

    @property
    def tensor(self) -> TensorType:
        """The type of the tensors at the bottom."""
        return self.element.tensor if isinstance(self.element, ListType) else self.element

    def symbols(self) -> set[Dim]:
        return self.element.symbols() - {DIFFERS}

    def substitute(self, values: Mapping[Dim, Size]) -> ListType:
        return list_of(self.element.substitute(values), self.optional, self.never)

    def __str__(self) -> str:
        inner = f"{self.tensor.dtype}[none]" if self.never and self.depth == 1 else str(self.element)
        return f"{'optional' if self.optional else 'list'}[{inner}]"


def list_of(element: TensorType, optional: bool = False, never: bool = False) -> ListType:
    """Returns the type of lists of an element; `never`: of those that are empty."""
    return ListType(LIST, (), element, optional, never)
