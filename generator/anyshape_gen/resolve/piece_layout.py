"""Locates the pieces of an operand's signature in its shape.

In: an operand and the names known so far. Out: a task for each piece, with its place as an expression over `shape(x)`; pieces
before the open run are counted from the front, the others from the back.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape_gen.model.analysis import Define
from anyshape_gen.model.build import add, call, end_of, item, item_from_end, part, subtract
from anyshape_gen.model.nodes import Expr, Index, Int, Name
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, Operand, Piece, Run, RunExpr
from anyshape_gen.model.traverse import free_names


@dataclass
class PieceTask:
    """One piece of one operand, located at `value`, with the names that have to be known before it can be solved."""

    operand: Operand
    piece: Piece
    value: Expr


@dataclass
class PieceLayout:
    """Locates the pieces of one operand."""

    operand: Operand
    base: Expr
    known: set[str]

    def locate(self) -> tuple[list[PieceTask], Expr, Expr | None, list[Define]] | None:
        """Returns tasks, least rank, highest rank unless a run is open, and definitions of lengths; None while lengths are unknown."""
        pieces = list(self.operand.signature.pieces)
        tasks: list[PieceTask] = []
        base = self.base
        least: Expr = Int(0)
        for piece in [p for p in pieces if isinstance(p, AtAxes)]:
            if not free_names(piece.axes) <= self.known:
                return None
            tasks.append(PieceTask(self.operand, piece, Index(self.base, (piece.axes,))))
            base = call("drop", base, piece.axes)
            least = add(least, call("len", piece.axes))
            pieces.remove(piece)
        lengths = self._lengths(pieces)
        if lengths is None:
            return None
        extra = self._optional_lengths(pieces, lengths, base)
        opens = [k for k, length in enumerate(lengths) if length is None]
        if len(opens) > 1:
            return None
        tasks += self._place(pieces, lengths, base, opens[0] if opens else len(pieces))
        optional = [isinstance(p, Dim) and p.optional for p in pieces]
        for length, absent in zip(lengths, optional):
            if length is not None and not absent:
                least = add(least, length)
        return tasks, least, None if opens else add(least, Int(sum(optional))), extra

    def _lengths(self, pieces: list[Piece]) -> list[Expr | None] | None:
        """Returns the number of dims of every piece, None for an open run; None for all while a name is not known."""
        lengths: list[Expr | None] = []
        for k, piece in enumerate(pieces):
            length: Expr | None = Int(1)
            following = pieces[k + 1] if k + 1 < len(pieces) else None
            if isinstance(piece, Run):
                length = piece.length
                if piece.name in self.known:
                    length = call("len", Name(piece.name))
                elif length is None and isinstance(following, AtAxis):
                    length = following.axis
                    for before in lengths:
                        length = subtract(length, before or Int(0))
            elif isinstance(piece, RunExpr):
                length = call("len", piece.expr)
            if length is not None and not free_names(length) <= self.known:
                return None
            lengths.append(length)
        return lengths

    def _optional_lengths(self, pieces: list[Piece], lengths: list[Expr | None], base: Expr) -> list[Define]:
        """Defines the length of each `n?`, which is present where the rank allows, under a name of its own."""
        extra: list[Define] = []
        required: Expr = Int(0)
        for length, piece in zip(lengths, pieces):
            if length is not None and not (isinstance(piece, Dim) and piece.optional):
                required = add(required, length)
        for k, piece in enumerate(pieces):
            if isinstance(piece, Dim) and piece.optional:
                presence = f"{self.operand.name}_{piece.name}"
                room = subtract(call("len", base), required)
                extra.append(Define(presence, call("clamp", room, Int(0), Int(1)), span=piece.span))
                lengths[k] = Name(presence)
                required = add(required, Name(presence))
        return extra

    def _place(self, pieces: list[Piece], lengths: list[Expr | None], base: Expr, middle: int) -> list[PieceTask]:
        """Places the pieces before the open run from the front, and the others from the back."""
        tasks: list[PieceTask] = []
        at: Expr = Int(0)
        for piece, length in zip(pieces[:middle], lengths[:middle]):
            assert length is not None
            many = _is_run(piece)
            ends = add(at, length)
            # Without an open run the rank is checked to be that of all pieces, so the last one ends at the end of the shape.
            high = None if piece is pieces[-1] else ends
            value = part(base, at, high) if many else item(base, at)
            tasks.append(PieceTask(self.operand, piece, value))
            at = ends
        if middle == len(pieces):
            return tasks
        behind: Expr = Int(0)
        backwards: list[PieceTask] = []
        for piece, length in reversed(list(zip(pieces[middle + 1 :], lengths[middle + 1 :]))):
            assert length is not None
            further = add(behind, length)
            if _is_run(piece):
                value = part(base, subtract(call("len", base), further), end_of(base, behind))
            else:
                value = item_from_end(base, further)
            backwards.append(PieceTask(self.operand, piece, value))
            behind = further
        whole = PieceTask(self.operand, pieces[middle], part(base, at, end_of(base, behind)))
        return [*tasks, whole, *reversed(backwards)]


def _is_run(piece: Piece) -> bool:
    return isinstance(piece, (Run, RunExpr)) or (isinstance(piece, Dim) and piece.optional)
