"""What is the same for all elements: sizes from the caller's table, and where tensors begin.

In: dims, conditions on dims, tensors, the positions of recurrences around. Out: scalars, each loaded once, at the outermost level that
has all it needs, and sums of values times sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.errors import UnsupportedError
from anyshape.lower.emit.scope import Levels
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I64, PTR, Val, const

FAR = 1 << 48
"""More elements than any tensor has: the addresses of a process have no more bits."""


class Scalars(Levels):
    """`scalars` is the table the caller fills, in order of first use; `assumed` are run-time coefficients known in the version that is
    written; `offsets` are places in scratch."""

    def __init__(self, f: FunctionBuilder, tensors: dict[Tensor, int]) -> None:
        super().__init__(f)
        self.tensors = tensors
        self.scalars: dict[Any, int] = {}
        self.assumed: dict[Size, int] = {}
        self.offsets: dict[Tensor, Size] = {}

    def size(self, s: Any) -> Val:
        """A dim (or a condition on dims, as 0 or 1): a literal, or an entry of the table, plus a multiple of a position."""
        if isinstance(s, (bool, int)):
            return const(I64, int(s))
        key = ("scalar", s)
        found = self.find(key)
        if found is None and self.step_depth((s,)):
            rest, steps = self.stepped(s)
            with self.at(self.step_depth((s,))):
                found = self.remember(key, self.offset(steps, rest))
        elif found is None:
            slot = self.scalars.setdefault(s, len(self.scalars))
            with self.at(0):
                found = self.remember(key, self.f.load(self.f.args[0], I64, slot))
        return found

    def stepped(self, s: Size) -> tuple[Size, list[tuple[Val, Size]]]:
        """A size as one that mentions no position, and positions with what they are multiplied by."""
        parts: list[tuple[Val, Size]] = []
        for position in [p for p in self.stepping if p in dims.free_symbols(s)]:
            rest = dims.substitute(s, {position: 0})
            factor = dims.substitute(s, {position: 1}) - rest
            if rest + factor * position != s:
                raise UnsupportedError(f"{s} is no linear function of the position of a recurrence")
            parts.append((self.stepping[position][0], factor))
            s = rest
        return s, parts

    def has_memory(self, t: Tensor) -> bool:
        return t in self.offsets or t in self.tensors

    def base(self, t: Tensor) -> Val:
        key = ("base", t)
        found = self.find(key)
        if found is None:
            offset = self.offsets.get(t)
            if offset is not None:
                bytes_ = self.size(offset)
                with self.at(0):
                    found = self.remember(key, self.f.gep(self.f.args[2], bytes_, I8))
            else:
                with self.at(0):
                    found = self.remember(key, self.f.load(self.f.args[1], PTR, self.tensors[t]))
        return found

    def coefficient(self, c: Size) -> Size:
        return self.assumed.get(c, c)

    def offset(self, parts: Sequence[tuple[Val, Size]], fixed: Size = 0) -> Val:
        """sum(value * coefficient) + fixed, vectors and scalars mixed. A coefficient that is larger than any tensor is of a variable that
        is 0 wherever the place is one of the tensor's; it is cut, so that no product of it is a place by overflow."""
        total: Val = self.size(fixed)
        for value, c in parts:
            c = max(-FAR, min(c, FAR)) if isinstance(c, int) else c
            term = value if c == 1 else self.f.mul(value, self.size(c))
            total = term if total.number == 0 else self.f.add(total, term)
        return total
