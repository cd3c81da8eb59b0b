"""The interface of the lowering: a group of equations in, a kernel out.

In: `Group`, what the fuser puts together. Out: `Kernel`, code and everything a caller must pass to it. Both are frozen; the text holds
no name of a symbol or tensor, so groups that differ only in names share one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anyshape import failure_report
from anyshape.dims import Cond, Size
from anyshape.equations import Equation, Tensor
from anyshape.equations.refusing import TensorNames
from anyshape.kernel_model.contractions import MOST_SCALES
from anyshape.rules.checks import located

if TYPE_CHECKING:
    from anyshape.lower.target import Target

LITERAL_BYTES = 256
"""Bytes of a constant whose elements lowering may write into the code; those of larger ones never are."""
SMALL_BYTES = 1 << 14
"""Bytes of a constant of which lowering may ask whether it is all zeros; zero points of many columns often are."""


def is_finite(constant: NDArray[Any]) -> bool:
    """Whether all elements are finite: least and most are, since they are NaN if any is."""
    if constant.size == 0 or constant.dtype.kind not in "fV":
        return True
    values = constant.astype(np.float32) if constant.dtype.kind == "V" else constant
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.min()) and np.isfinite(values.max()))


_BOUNDS = (2.0**-6, 1.0, 2.0**12)
"""Bounds that magnitudes of constants are held against: those of scales of weights, of scales, of biases. They are few, so that kernels
serve many constants."""


def magnitude_bound(constant: NDArray[Any]) -> float | None:
    """The least of a few bounds that no element of a small constant of f32 exceeds in magnitude; None if one does, or is NaN."""
    if constant.dtype != np.float32 or constant.nbytes > MOST_SCALES or constant.ndim > 2 or constant.size == 0:
        return None
    most = float(np.abs(constant).max())
    return next((bound for bound in _BOUNDS if most <= bound), None)


def is_small(a: NDArray[Any]) -> bool:
    """Whether a form says if all elements are zero."""
    return a.nbytes <= SMALL_BYTES


@dataclass(frozen=True, eq=False, slots=True)
class Origin:
    """The op that an equation is of, its source in the model, and what it calls its operands."""

    op: str
    source: str = ""
    names: TensorNames = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Equations of one or several ops in topological order. Tensors that are neither input nor output are intermediates.

    `origins` is what errors say of equations with checks on data; the default is the group's name.
    """

    name: str
    equations: tuple[Equation, ...]
    inputs: tuple[Tensor, ...]
    _: KW_ONLY
    outputs: tuple[Tensor, ...]
    constants: Mapping[Tensor, NDArray[Any]] = field(default_factory=dict)
    origins: Mapping[Equation, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PackedConstant:
    """A constant operand laid out before the first call; `layout` says how, `array` is the result. `pack` does the same to the
    constant of another group of the same form."""

    tensor: Tensor
    layout: str
    array: NDArray[Any]
    pack: Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Index:
    """A place in a message for the index that is out of range."""


@dataclass(frozen=True, slots=True)
class KernelError:
    """The meaning of a non-zero result of a kernel: words, sizes between them, and a place for the index that failed.

    `equation` is what cannot be computed, as the spec has it; it is followed by the elements of `read` that led to the refusal.
    """

    origin: Origin
    parts: tuple[str | Size | Tensor | Index, ...]
    equation: str = ""
    read: tuple[Tensor, ...] = ()

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Sizes whose values the message needs: those between words, and those that say which element of a tensor it is."""
        named = (p for p in self.parts if not isinstance(p, (str, Tensor, Index)))
        return (*named, *(n for t in self.read for n in t.shape[1:]))

    def template(self, scalars: Sequence[Size | Cond]) -> str:
        """The message with marks for what only a run knows (`anyshape.failure_report`). A size that is not passed stays as written."""
        words = "".join(self._word(p, scalars) for p in self.parts)
        read = [_element(k, t, self._name(t), scalars) for k, t in enumerate(self.read)]
        return failure_report.template(located(self.origin.op, self.origin.source, words), self.equation, read)

    def _word(self, p: str | Size | Tensor | Index, scalars: Sequence[Size | Cond]) -> str:
        match p:
            case str():
                return p
            case Index():
                return failure_report.INDEX
            case Tensor():
                return self._name(p)
        return failure_report.scalar(scalars.index(p)) if p in scalars else str(p)

    def _name(self, t: Tensor) -> str:
        return self.origin.names.get(t, t.name)


def _element(k: int, t: Tensor, name: str, scalars: Sequence[Size | Cond]) -> str:
    inner = [n if isinstance(n, int) else f"#{scalars.index(n)}" for n in t.shape[1:]]
    return failure_report.element(k, name, t.dtype, inner if t.shape else None)


class KernelCode(Protocol):
    """The code of a kernel: its text, and the key of its object in the object cache."""

    @property
    def text(self) -> str: ...

    def object_key(self, target: Target) -> str: ...

    def of_group(self, group: Group) -> KernelCode:
        """The code for another group of the same form."""
        ...


@dataclass(frozen=True, slots=True)
class WrittenCode:
    """The LLVM text of a kernel that was lowered."""

    text: str

    def object_key(self, target: Target) -> str:
        from anyshape.lower.llvm.jit import object_key

        return object_key(self.text, target)

    def of_group(self, group: Group) -> KernelCode:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Native code for a group. `scratch` is the bytes that each part needs, 64-byte aligned, with no initial contents.

    `schedule` names the forms that were used, for counters; `imports` are symbols of the micro-kernel library. `reusable`: (output, input)
    positions that may be the same memory if they have one size, one input for one output; `overwrites`: if they have one shape. `work`:
    rough cycles of all parts together; 0 if the first part does everything. `pieces`: at most how many parts have work, if that is few.
    `polls`: the kernel itself tests whether it is to stop; any other is run in more parts if it takes long. `shares`: run in one part, it
    shares some of its steps over the pool itself.
    """

    symbol: str
    code: KernelCode
    scalars: tuple[Size | Cond, ...]
    inputs: tuple[Tensor | PackedConstant, ...]
    outputs: tuple[Tensor, ...]
    scratch: Size
    errors: tuple[KernelError, ...]
    schedule: tuple[str, ...]
    imports: tuple[str, ...] = ()
    reusable: tuple[tuple[int, int], ...] = ()
    overwrites: tuple[tuple[int, int], ...] = ()
    work: Size = 0
    pieces: Size | None = None
    polls: bool = False
    shares: bool = False

    @property
    def text(self) -> str:
        """The LLVM text, which is lowered again if the kernel was read from disk."""
        return self.code.text
