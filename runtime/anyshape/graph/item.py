"""`x[1:, None, k]`: an index of a Value as NumPy means it, made of calls that the specs name with `python:`.

In: a Value and what stands in the brackets: numbers, dims, slices, `None`, `...`, arrays or Values of integers, masks. Out: the value of
the calls. Slices are taken first, then what picks elements, then new axes are put in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import Size, eq
from anyshape.errors import ArgumentError, ShapeError
from anyshape.graph.call import as_value
from anyshape.graph.spelled import stacked
from anyshape.graph.value import Value
from anyshape.public import short
from anyshape.wording import counted

END = (1 << 63) - 1
"""What ends a slice that has no end, beyond every size"""


@dataclass(frozen=True)
class _Pick:
    """Integers that pick elements along an axis, or a mask over some axes."""

    axis: int
    at: Value
    is_mask: bool

    @property
    def taken(self) -> int:
        """The number of axes that the pick is of."""
        return self.at.type.rank or 1 if self.is_mask else 1

    @property
    def left(self) -> int:
        """The number of axes that come in place of those taken."""
        return 1 if self.is_mask else self.at.type.rank or 0


IndexEntry = None | slice | _Pick


def item(x: Value, key: Any) -> Value:
    """x[key]. Raises ArgumentError for what is no index, ShapeError for too many of them."""
    entries = _entries(x, key if isinstance(key, tuple) else (key,))
    x = _sliced(x, entries)
    picks = [e for e in entries if isinstance(e, _Pick)]
    arrays = [p for p in picks if p.is_mask or p.at.type.rank]
    places = [k for k, e in enumerate(entries) if isinstance(e, _Pick)]
    in_front = len(picks) > 1 and bool(arrays) and places != list(range(places[0], places[0] + len(places)))
    if len(picks) > 1 and arrays:
        x, block = _at_rows(x, picks, in_front)
        widths = {id(p): block if k == 0 and not in_front else 0 for k, p in enumerate(picks)}
    else:
        block, widths = 0, {id(p): p.left for p in picks}
        for p in reversed(picks):
            x = _masked(x, p) if p.is_mask else x._at(p.at, along=p.axis)
    new: list[int] = []
    place = block if in_front else 0
    for e in entries:
        if e is None:
            new.append(place)
        place += widths[id(e)] if isinstance(e, _Pick) else 1
    return x._new_axes(along=tuple(new)) if new else x


def _entries(x: Value, keys: Sequence[Any]) -> list[IndexEntry]:
    """One entry for each axis, or for several that a mask is over, and for each new axis."""
    rank = x.type.rank
    if rank is None:
        raise ArgumentError(f"an index is of a value whose rank is known, got {x!r}; match_shape says what it is")
    read = [k if k is None or k is Ellipsis or isinstance(k, slice) else _pick(k) for k in keys]
    taken = sum(k.taken if isinstance(k, _Pick) else int(isinstance(k, slice)) for k in read)
    if taken > rank or sum(k is Ellipsis for k in read) > 1:
        raise ShapeError(
            f"{counted(taken, 'index', 'indices')} of {x.type}" if taken > rank else "an index has `...` once at most"
        )
    if not any(k is Ellipsis for k in read):
        read.append(Ellipsis)
    entries: list[IndexEntry] = []
    axis = 0
    for k in read:
        if k is Ellipsis:
            entries += [slice(None)] * (rank - taken)
            axis += rank - taken
        elif isinstance(k, _Pick):
            entries.append(_Pick(axis, k.at, k.is_mask))
            axis += k.taken
        else:
            entries.append(k)
            axis += k is not None
    return entries


def _pick(k: Any) -> _Pick:
    if isinstance(k, bool | str | float):
        raise ArgumentError(f"an index is a number, a slice, None, `...`, integers or a mask, got {short(k)}")
    at = as_value(k)
    if (
        not (at.type.dtype.is_index or at.type.dtype.is_bool)
        or at.type.rank is None
        or (at.type.dtype.is_bool and at.type.rank == 0)
    ):
        raise ArgumentError(f"an index is of integers, or a mask with axes, got {at.type}")
    return _Pick(0, at, at.type.dtype.is_bool)


def _sliced(x: Value, entries: Sequence[IndexEntry]) -> Value:
    axes: list[int] = []
    bounds: list[tuple[Any, Any, Any]] = []
    axis = 0
    for e in entries:
        if isinstance(e, slice) and e != slice(None):
            step = 1 if e.step is None else e.step
            if not isinstance(step, int) and (e.start is None or e.stop is None):
                raise ArgumentError("a slice without a start or an end needs a step that is a number")
            back = isinstance(step, int) and step < 0
            start = (END if back else 0) if e.start is None else e.start
            end = (-END - 1 if back else END) if e.stop is None else e.stop
            axes.append(axis)
            bounds.append((start, end, step))
        axis += e.taken if isinstance(e, _Pick) else e is not None
    if not axes:
        return x
    starts, ends, steps = zip(*bounds)
    return x._slice(tuple(axes), starts, ends, steps)


def _masked(x: Value, p: _Pick) -> Value:
    """The elements for which a mask holds, along one axis in the place of those that the mask is over."""
    shape, over = list[Size](x.type.shape or ()), list[Size](p.at.type.shape or ())
    for n, m in zip(shape[p.axis :], over):
        if eq(n, m) is False:
            raise ShapeError(f"a mask of {p.at.type} is over dims of other sizes, of {x.type}")
    mask = p.at
    if len(over) > 1:
        mask = mask.reshape(-1)
        x = x.reshape(*shape[: p.axis], -1, *shape[p.axis + len(over) :])
    return x._where(mask, along=p.axis)


def _at_rows(x: Value, picks: Sequence[_Pick], in_front: bool) -> tuple[Value, int]:
    """The elements that several arrays of integers pick together, and the rank of these arrays, broadcast."""
    if any(p.is_mask for p in picks):
        raise ArgumentError("a mask beside other integers is the integers where it holds: use nonzero of it")
    axes = [p.axis for p in picks]
    rest = [k for k in range(x.type.rank or 0) if k not in axes]
    ats = [p.at if p.at.type.dtype.name == "i64" else p.at.astype("i64") for p in picks]
    nothing = ats[0] - ats[0]
    for at in ats[1:]:
        nothing = nothing + (at - at)
    block = nothing.type.rank or 0
    x = x.transpose(*axes, *rest)._at_rows(stacked([at + nothing for at in ats], -1))
    if not in_front:
        first = axes[0]
        there = range(block, block + first)
        x = x.transpose(*there, *range(block), *range(block + first, block + len(rest)))
    return x, block
