"""The data that crosses the border of the lowering: a group of equations in, a kernel out.

In: `Group`, what the fuser puts together. Out: `Kernel`, LLVM text and everything a caller must pass to it. Both are
frozen; the text holds no name of a symbol or tensor, so groups that differ only in names share one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Cond, Size
from anyshape.equations import Equation, Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Equations of one or several ops in topological order. Tensors that are neither input nor output are intermediates."""

    name: str
    equations: tuple[Equation, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: Mapping[Tensor, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Packed:
    """A constant operand laid out before the first call; `layout` says how, `array` is the result. `pack` does the same to the
    constant of another group of the same form."""

    tensor: Tensor
    layout: str
    array: NDArray[Any]
    pack: Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class KernelError:
    """What a non-zero result of a kernel means: words, and sizes between them."""

    parts: tuple[str | Size, ...]

    @property
    def message(self) -> str:
        """With sizes as they are written, where no run gives their values."""
        return "".join(map(str, self.parts))

    def template(self, scalars: Sequence[Size | Cond]) -> str:
        """The message with a mark in place of a size that the caller passes: the number of the scalar between two NULs."""
        marked = (f"\0{scalars.index(p)}\0" if not isinstance(p, str) and p in scalars else str(p) for p in self.parts)
        return "".join(marked)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Native code for a group. `scratch` is the bytes that each part needs, 64-byte aligned, with no initial contents.

    `schedule` names the forms that were used, for counters; `imports` are symbols of the micro-kernel library.
    `reusable`: (output, input) positions that may be the same memory if they have one size, one input for one output.
    `work`: rough cycles of all parts together; 0 if the first part does everything. `pieces`: at most how many parts have something to do,
    if that is few.
    """

    symbol: str
    text: str
    scalars: tuple[Size | Cond, ...]
    inputs: tuple[Tensor | Packed, ...]
    outputs: tuple[Tensor, ...]
    scratch: Size
    errors: tuple[KernelError, ...]
    schedule: tuple[str, ...]
    imports: tuple[str, ...] = ()
    reusable: tuple[tuple[int, int], ...] = ()
    work: Size = 0
    pieces: Size | None = None
