"""Windows of neighbours: one or two vectors that have all that the lanes of a load read, which are permuted out of them.

In: the places of the lanes. Out: a window, and loads from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.gathering import permute, pick_lanes
from anyshape.lower.llvm.types import I32, Type, Val, const_vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Two vectors of neighbours that have all that the lanes of a load read: from the element `lowest` on, those of `first` and of `second`
    (which lanes are read; None: no second vector), lane i at `places[i]`; `fits` says whether it is so, `is_narrow` whether one has.
    Without `first` all elements of one vector are read, and `places` are what `lane_picks` made of them."""

    lowest: Val
    places: Val
    first: Val | None
    second: Val | None
    fits: Val
    is_narrow: Val


def window_of(f: FunctionBuilder, lowest: Val, last: Val, places: Val, exists: Val | None = None) -> Window:
    """Makes the window of the places of lanes; `exists`: whether the first lane does."""
    lanes = places.type.lanes
    first, second = (f.compare("le", const_vector(I32, list(range(at, at + lanes))), last) for at in (0, lanes))
    if exists is not None:
        first, second = (f.and_(m, f.splat(exists, lanes)) for m in (first, second))
    fits, is_narrow = (f.compare("lt", last, n) for n in (2 * lanes, lanes))
    return Window(lowest=lowest, places=places, first=first, second=second, fits=fits, is_narrow=is_narrow)


def from_window(f: FunctionBuilder, window: Window, pointer: Val, type_: Type) -> Val:
    """Loads the lanes of a window."""
    first = f.gep(pointer, window.lowest, type_)
    if window.first is None:
        return pick_lanes(f, f.load(first, type_), window.places)
    low = f.masked_load(first, type_, window.first)
    high = low if window.second is None else f.masked_load(first, type_, window.second, type_.lanes)
    return permute(f, low, high, window.places)
