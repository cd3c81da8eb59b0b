"""TensorType, the type of every value of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.dims import Dim, Size, free_symbols, substitute
from anyshape.dtypes import DType
from anyshape.errors import ArgumentError, UnsupportedError

MOST_DIMS = 64
"""The most dims of a tensor: those that an array of NumPy can have."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape; shape None says that the rank is unknown. Prints as `f32[n, 224]`, `f32[...]`; a size that
    has no name prints as `?`, each any size, and one that is element 0 of an input s as `s[0]`."""

    dtype: DType
    shape: tuple[Size, ...] | None

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DType) or not isinstance(self.shape, tuple | None):
            raise ArgumentError(f"a type is a DType and a tuple of dims or None, got {self.dtype!r} and {self.shape!r}")
        if self.shape is not None and len(self.shape) > MOST_DIMS:
            raise UnsupportedError(f"a tensor of {len(self.shape)} dims; there are at most {MOST_DIMS}")

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a number."""
        return self.shape is not None and all(isinstance(n, int) for n in self.shape)

    def count(self) -> Size:
        """The number of elements; the rank must be known."""
        assert self.shape is not None
        n: Size = 1
        for d in self.shape:
            n = n * d
        return n

    def symbols(self) -> set[Dim]:
        mentioned: set[Dim] = set()
        for d in self.shape or ():
            if not isinstance(d, int):
                mentioned |= free_symbols(d)
        return mentioned

    def substitute(self, values: Mapping[Dim, Size]) -> TensorType:
        if self.shape is None:
            return self
        return TensorType(self.dtype, tuple(d if isinstance(d, int) else substitute(d, values) for d in self.shape))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        return f"{self.dtype}[{'...' if self.shape is None else ', '.join(map(str, self.shape))}]"
