"""Matches indices to the pieces of a tensor, which are its slots.

In: pieces or scratch extents, and the items between the brackets of a read or a left side. Out: `Part`s; the
variables learn the extent of each slot that a bare one indexes. A run read by fewer or other items than its own length becomes a `Fit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.build import call, item, vector
from anyshape_gen.model.nodes import (
    Along,
    Exact,
    Expr,
    Fit,
    Flat,
    Index,
    Int,
    Item,
    Name,
    Offset,
    Part,
    Placed,
    Slice,
    Star,
)
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, DimExpr, Operand, OpSpec, Piece, Product, Ragged, Run, RunExpr
from anyshape_gen.resolve.outputs import factor_exprs, picked_dims
from anyshape_gen.resolve.variables import Vars


@dataclass(frozen=True)
class One:
    """A slot of one dim."""

    extent: Expr


@dataclass(frozen=True)
class Many:
    """A run of dims."""

    extents: Expr


@dataclass(frozen=True)
class ManyAt:
    """Dims at positions; the other slots are the rest."""

    extents: Expr
    axes: Expr


@dataclass(frozen=True)
class Factors:
    """A slot of one dim that is a product."""

    extents: tuple[Expr, ...]


@dataclass(frozen=True)
class Parts:
    """A slot of one dim that consists of ragged parts."""

    sizes: Expr
    count: Expr


Slot: TypeAlias = One | Many | ManyAt | Factors | Parts


def slots_of(
    operand: Operand, kinds: Mapping[str, ValueKind], counts: Mapping[str, Expr], element: Expr | None
) -> tuple[Slot, ...]:
    """Returns the slots of an input or output; `element` selects one tensor of a variadic."""
    return tuple(_slot(piece, kinds, counts, element) for piece in operand.signature.pieces)


def _slot(piece: Piece, kinds: Mapping[str, ValueKind], counts: Mapping[str, Expr], element: Expr | None) -> Slot:
    match piece:
        case AtAxis(dim=dim):
            return _slot(dim, kinds, counts, element)
        case Dim(name=name, optional=True):
            return Many(Name(name))
        case Dim(name=name, element=str()) if element is not None:
            return One(item(Name(name), element))
        case Dim(name=name):
            return One(Name(name))
        case DimExpr(expr=expr):
            return One(expr)
        case Run(name=name, element=str()) if element is not None:
            return Many(item(Name(name), element))
        case Run(name=name):
            return Many(Name(name))
        case RunExpr(expr=expr):
            return Many(expr)
        case AtAxes(axes=axes):
            return ManyAt(picked_dims(piece, kinds), axes)
        case Product(factors=factors):
            return Factors(factor_exprs(factors))
        case Ragged(size=size):
            return Parts(Name(size.name), counts.get(size.name, call("len", Name(size.name))))


def fixed_lengths(spec: OpSpec) -> dict[str, int]:
    """Returns the lengths of the runs and of the parameters for which the spec says a number: `*d:2`, `ints[2]`."""
    runs = [piece for operand in spec.inputs for piece in operand.signature.pieces if isinstance(piece, Run)]
    lengths = [(run.name, run.length) for run in runs] + [(param.name, param.kind.length) for param in spec.params]
    return {name: length.value for name, length in lengths if isinstance(length, Int)}


def _width(slot: Slot) -> int:
    """The least number of items of a slot."""
    return len(slot.extents) if isinstance(slot, Factors) else 2 if isinstance(slot, Parts) else 1


@dataclass
class Matcher:
    """Matches one index, and tells the variables in it what they index."""

    whole: Expr
    """the shape of the tensor as one vector"""
    variables: Vars
    lengths: Mapping[str, int]
    """the runs of fixed length"""

    def match(self, items: tuple[Item, ...], slots: tuple[Slot, ...]) -> tuple[Part, ...] | str:
        """Returns the parts, or a message about what does not fit."""
        if any(isinstance(i, Star) and i.axes is not None for i in items) or any(isinstance(s, ManyAt) for s in slots):
            return self._placed(items, slots)
        if len(items) == 1 and isinstance(items[0], Star) and not (len(slots) == 1 and isinstance(slots[0], Many)):
            return self._run(items, self.whole)
        parts: list[Part] = []
        rest = list(items)
        for k, slot in enumerate(slots):
            behind = sum(_width(s) for s in slots[k + 1 :])
            take = max(len(rest) - behind, 0) if isinstance(slot, Many) else _width(slot)
            if isinstance(slot, Many) and take > 1 and isinstance(rest[0], Star) and k + 1 < len(slots):
                take = 1
            if take > len(rest):
                return f"{len(items)} indices for {len(slots)} dims"
            group, rest = tuple(rest[:take]), rest[take:]
            part = self._one(group, slot)
            if isinstance(part, str):
                return part
            parts += part
        return f"{len(items)} indices for {len(slots)} dims" if rest else tuple(parts)

    def _one(self, group: tuple[Item, ...], slot: Slot) -> tuple[Part, ...] | str:
        match slot:
            case Many(extents=extents):
                self._align(group, extents)
                return self._run(group, extents)
            case One(extent=extent):
                return self._single(group[0], extent)
            case Factors(extents=extents):
                for entry, extent in zip(group, extents):
                    self.variables.bind(entry, extent)
                inner = tuple(i for i in group if not isinstance(i, (Star, Slice)))
                return (
                    (Flat(inner, extents),)
                    if len(inner) == len(group)
                    else "a product dim needs one index for each factor"
                )
            case Parts(sizes=sizes, count=count):
                element, within = group
                if isinstance(element, (Star, Slice)) or isinstance(within, (Star, Slice)):
                    return "a ragged dim `(v, n[v])` needs two indices: an element and a position in it"
                self.variables.bind(element, count)
                self.variables.bind(within, item(sizes, element))
                return (Offset(element, within, sizes),)
            case ManyAt():
                return "unreachable"

    def _align(self, group: tuple[Item, ...], extents: Expr) -> None:
        """Assigns the dims of a run of fixed length to the items that broadcast to it: from the last one backwards, up to a star."""
        run = extents.base if isinstance(extents, Index) else extents
        length = self.lengths.get(run.id, 0) if isinstance(run, Name) else 0
        for entry, k in zip(reversed(group), reversed(range(length))):
            if isinstance(entry, (Star, Slice)):
                return
            self.variables.bind_broadcast(entry, item(extents, Int(k)))

    def _single(self, entry: Item, extent: Expr) -> tuple[Part, ...] | str:
        if isinstance(entry, Slice):
            return (Along(extent, span=entry.span),)
        if isinstance(entry, Star):
            return self._run((entry,), vector((extent,)))
        self.variables.bind(entry, extent)
        return (Exact((entry,), span=entry.span),)

    def _run(self, group: tuple[Item, ...], extents: Expr) -> tuple[Part, ...] | str:
        if len(group) == 1 and isinstance(group[0], Slice):
            return (Along(extents, span=group[0].span),)
        if any(isinstance(entry, Slice) for entry in group):
            return "`:` stands for one dim"
        if len(group) != 1 or not isinstance(group[0], Star):
            return (Fit(group, extents),)
        run = group[0]
        self.variables.bind(run, extents)
        if isinstance(run.value, Name):
            own = self.variables.extents.get(run.value.id)
            if own is not None and own != extents:
                return (Fit(group, extents, span=run.span),)
        return (Exact(group, span=run.span),)

    def _placed(self, items: tuple[Item, ...], slots: tuple[Slot, ...]) -> tuple[Part, ...] | str:
        picked = tuple(i for i in items if isinstance(i, Star) and i.axes is not None)
        rest = tuple(i for i in items if i not in picked)
        at = [slot for slot in slots if isinstance(slot, ManyAt)]
        if len(picked) == 1:
            (star,) = picked
            axes = star.axes
            assert axes is not None
            chosen = at[0].extents if at and at[0].axes == axes else Index(self.whole, (axes,))
            self.variables.bind(Star(star.value, span=star.span), chosen)
            remaining: Expr = call("drop", self.whole, axes)
            plain = [slot for slot in slots if not isinstance(slot, ManyAt)]
            if at and len(plain) == 1 and isinstance(plain[0], Many):
                remaining = plain[0].extents
            if len(rest) == 1 and isinstance(rest[0], Star):
                self.variables.bind(rest[0], remaining)
            return (Placed(rest, (Star(star.value, span=star.span),), axes, span=star.span),)
        if not picked and len(items) == 1 and isinstance(items[0], Star):
            return self._run(items, self.whole)
        return "dims at axes are indexed by `*i, *j@axes`, or all together by `*i`"
