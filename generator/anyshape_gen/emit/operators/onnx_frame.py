"""The dims and runs at whose positions an op's equations compute, and where they stand among the axes of a tensor of ONNX.

In: a spec. Out: a Frame, or none. Within a function every value has all axes of the frame, of size 1 where it does not depend on them, so
that ONNX's broadcasting aligns values; `Axes` writes the nodes that compute which axes belong to a piece, where these depend on a parameter
or on a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from anyshape_gen.model.nodes import Exact, Expr, Item, Name, Part, Placed, Star, VecLit
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, OpSpec, Run

FramePiece: TypeAlias = Dim | Run | AtAxis | AtAxes


class NotComposed(Exception):
    """The op is no composition of ONNX's operators; the text says why."""


@dataclass(frozen=True)
class Frame:
    """The pieces of the operand that has most of them: `[*o, n@axis, *i]`, `[b, c, *d]`, `[*o, *r@axes]`, `[*o:axis, *n]`."""

    operand: str
    pieces: tuple[FramePiece, ...]

    @classmethod
    def of(cls, spec: OpSpec) -> Frame | None:
        """The frame of an op; None where operands have other pieces than named dims and runs."""
        frames = [cls(o.name, pieces) for o in spec.inputs if (pieces := _frame_pieces(o.signature.pieces)) is not None]
        return max(frames, key=lambda f: len(f.pieces), default=None)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of the pieces, each of which is an extent or a run of extents."""
        return tuple(size_name(p) for p in self.pieces)

    def is_run(self, size: str) -> bool:
        """Whether a piece is a run of any number of dims."""
        return isinstance(self.pieces[self.sizes.index(size)], Run | AtAxes)

    @property
    def is_linear(self) -> bool:
        """Whether pieces stand one after another, none among the dims of another."""
        return not any(isinstance(p, AtAxes) for p in self.pieces)

    def in_order(self, sizes: Sequence[str]) -> bool:
        """Whether pieces stand in the order of the frame."""
        places = [self.sizes.index(s) for s in sizes]
        return places == sorted(set(places))

    def at(self, axes: Expr) -> str | None:
        """The piece at the axis or the axes that a parameter says."""
        for piece in self.pieces:
            match piece:
                case AtAxis(_, axis) if axes == VecLit((axis,)):
                    return size_name(piece)
                case AtAxes(_, several) if axes == several:
                    return size_name(piece)
        return None

    def covers(self, sizes: Iterable[str]) -> bool:
        """Whether all sizes are pieces."""
        return set(sizes) <= set(self.sizes)


def size_name(piece: FramePiece) -> str:
    """The name of the extent, or extents, of a piece."""
    match piece:
        case Dim(name) | Run(name) | AtAxis(Dim(name)) | AtAxes(Run(name)):
            return name
    raise AssertionError(piece)


def _frame_pieces(pieces: Sequence[object]) -> tuple[FramePiece, ...] | None:
    """The pieces of an operand if they are named dims and runs, each once."""
    kept: list[FramePiece] = []
    for piece in pieces:
        match piece:
            case (
                Dim(_, False, None)
                | Run(_, _, None)
                | AtAxis(Dim(_, False, None), Name())
                | AtAxes(Run(_, None, None), Name())
            ):
                kept.append(piece)
            case _:
                return None
    names = [size_name(p) for p in kept]
    return tuple(kept) if len(set(names)) == len(names) else None


def index_items(parts: Iterable[Part]) -> tuple[Item, ...] | None:
    """The items of an index in the order of a signature; None if items are fitted or computed."""
    items: list[Item] = []
    for part in parts:
        match part:
            case Exact(some):
                items += some
            case Placed(rest, picked, _):
                items += (*rest, *picked)
            case _:
                return None
    return tuple(items)


def variable(item: Item) -> str | None:
    """The variable that an item is, or None for one that is computed."""
    match item:
        case Name(id) | Star(Name(id)):
            return id
    return None


class Axes:
    """Writes the nodes of a function that compute the axes of pieces, as vectors, and their sizes.

    `emit`: writes a node of ONNX, `(operator, inputs, **attributes)`, and gives the name of its value; `referred`: gives the value of the
    parameter of a name. Each value is computed once.
    """

    def __init__(self, frame: Frame, emit: Callable[..., str], referred: Callable[[str], str]) -> None:
        self.frame, self._emit, self._referred = frame, emit, referred
        self._computed: dict[tuple[str, str], str] = {}

    def of(self, size: str) -> str:
        """The axes of a piece, a vector of i64, some of them negative: counted from the last."""
        return self._once("axes", size, self._axes)

    def of_all(self, sizes: Sequence[str]) -> str:
        """The axes of several pieces."""
        vectors = [self.of(s) for s in sizes]
        return vectors[0] if len(vectors) == 1 else self._emit("Concat", vectors, axis=0)

    def extent(self, size: str) -> str:
        """The number of positions of a piece, a scalar of i64: of a run the product of its dims."""
        return self._once("extent", size, self._extent)

    def count(self, size: str) -> str:
        """The number of axes of a piece, a scalar of i64."""
        return self._emit("Size", [self.of(size)])

    def _once(self, what: str, size: str, compute: Callable[[str], str]) -> str:
        if (what, size) not in self._computed:
            self._computed[what, size] = compute(size)
        return self._computed[what, size]

    def _extent(self, size: str) -> str:
        sizes = self._emit("Gather", [self._shape(), self.of(size)])
        return self._emit("ReduceProd", [sizes], keepdims=0)

    def _axes(self, size: str) -> str:
        place = self.frame.sizes.index(size)
        before, piece, after = self.frame.pieces[:place], self.frame.pieces[place], self.frame.pieces[place + 1 :]
        match piece:
            case AtAxis(_, Name(axis)):
                return self._emit("Unsqueeze", [self._referred(axis), self._vector(0)])
            case AtAxes(_, Name(axes)):
                return self._referred(axes)
            case Dim() if _are_dims(before):
                return self._vector(place)
            case Dim() if _are_dims(after):
                return self._vector(-1 - len(after))
            case Run(_, Name(length)) if _are_dims(before):
                return self._range(self._number(place), self._plus(self._from_first(length), place))
            case Run(_, None) if _are_dims(before) and _are_dims(after):
                return self._range(self._number(place), self._plus(self._rank(), -len(after)))
            case Run(_, None) if _are_dims(after) and (split := _split(before)):
                return self._range(
                    self._plus(self._from_first(split), place - 1), self._plus(self._rank(), -len(after))
                )
        raise NotComposed(f"where {size} stands among the axes depends on two lengths")

    def _from_first(self, axis: str) -> str:
        """A parameter, an axis that may be counted from the last, as the number of axes before it."""
        value = self._referred(axis)
        is_negative = self._emit("Less", [value, self._number(0)])
        return self._emit("Where", [is_negative, self._emit("Add", [value, self._rank()]), value])

    def _range(self, start: str, end: str) -> str:
        return self._emit("Range", [start, end, self._number(1)])

    def _plus(self, value: str, more: int) -> str:
        return self._emit("Add", [value, self._number(more)]) if more else value

    def _shape(self) -> str:
        return self._once("shape", "", lambda _: self._emit("Shape", [self.frame.operand]))

    def _rank(self) -> str:
        return self._once("rank", "", lambda _: self._emit("Size", [self._shape()]))

    def _number(self, value: int) -> str:
        return self._once("number", str(value), lambda _: self._emit("Constant", [], value_int=value))

    def _vector(self, *values: int) -> str:
        return self._once("vector", str(values), lambda _: self._emit("Constant", [], value_ints=values))


def _are_dims(pieces: Sequence[FramePiece]) -> bool:
    return all(isinstance(p, Dim) for p in pieces)


def _split(before: Sequence[FramePiece]) -> str | None:
    """The parameter that says the length of the one run before a piece, in `[*o:axis, *n]`."""
    match [p for p in before if not isinstance(p, Dim)]:
        case [Run(_, Name(length))]:
            return length
    return None
