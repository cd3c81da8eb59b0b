"""What equations refuse in data, said as kernels say it: the index that is out of range or the assert that does not hold, the equation, and
the elements that led there.

In: words, and elements with their values. Out: `Refused`. Kernels are told apart from it by nothing but where they are: they tell the same
by other means (`anyshape.failure_report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Expr, Read, Tensor
from anyshape.equations.text import spell
from anyshape.equations.traversal import walk
from anyshape.errors import ShapeError
from anyshape.failure_report import MOST_ELEMENTS, whole

TensorNames = Mapping[Tensor, str]
"""What an op calls tensors that have been named by others."""


class Refused(ShapeError):
    """Data for which an equation has no value. `element` is what is read or written there, for an equation that does not say so; `read`
    are elements, each with what follows its tensor's name."""

    def __init__(
        self,
        words: tuple[str | Tensor, ...],
        element: tuple[Tensor, tuple[Expr, ...]] | None = None,
        read: Sequence[tuple[Tensor, str]] = (),
        equation: Equation | None = None,
        names: TensorNames | None = None,
    ) -> None:
        self.words, self.element, self.read, self.equation = words, element, tuple(read), equation
        known = names or {}
        said = "".join(w if isinstance(w, str) else known.get(w, w.name) for w in words)
        place = "" if element is None else element_of(*element, known)
        elements = [f"{known.get(t, t.name)}{text}" for t, text in read]
        super().__init__(whole(said, equation_text(equation.source if equation is not None else "", place), elements))

    def of(self, q: Equation, names: TensorNames | None = None) -> Refused:
        """Returns this refusal with the equation that caused it, unless it has one already."""
        return Refused(self.words, self.element, self.read, self.equation or q, names)


def equation_text(source: str, element: str) -> str:
    """The equation as the spec has it; where the spec has no text, the element at which it fails stands for it."""
    return source if "[" in source or not element else f"{source}: {element}" if source else element


def element_of(t: Tensor, index: Sequence[Expr], names: TensorNames) -> str:
    """The text of the element read or written, without the bounds check of its index."""
    plain = (spell(i.args[0] if isinstance(i, Apply) and i.op == "within" else i) for i in index)
    return f"{names.get(t, t.name)}[{', '.join(plain)}]"


def out_of_range(index: Any, axis: int, t: Tensor, size: Any) -> tuple[str | Tensor, ...]:
    return (f"index {index} is out of range for axis {axis} of ", t, f" with size {size}")


def unwrapped(i: Expr) -> Expr:
    """The index before it was counted from the end."""
    return i.args[0] if isinstance(i, Apply) and i.op in ("wrap", "within") else i


def reads_below(roots: Iterable[Expr]) -> list[Read]:
    """The elements that values are computed from, one of each tensor, those nearest to them first."""
    elements: dict[Any, Read] = {}
    for e in (e for root in roots for e in walk(root)):
        if isinstance(e, Read):
            elements.setdefault(e.tensor, e)
    return list(elements.values())[:MOST_ELEMENTS]
