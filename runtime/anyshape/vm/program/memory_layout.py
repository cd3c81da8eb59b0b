"""Layout of values in memory, decided once for all shapes: lifetimes and symbolic sizes in, symbolic offsets out.

A value lies on top of values that live at the same time and were placed before it: its offset is the maximum, taken at run time, of
where those end. So no two values that are alive at one step overlap, whatever the sizes turn out to be, and one large value may take
the place of several small ones. Only the order of placing is a heuristic: several are tried at typical values of the symbols, against
the most that is alive at once, and the best is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, Size, bounds, evaluate, free_symbols, nonneg
from anyshape.errors import OverflowedError

_LADDER = (1, 512, 8, 128, 32, 64, 256, 16)
"""Typical values of a symbol: powers of two that occur as batches and lengths."""
LARGE = 1 << 16
"""A large value of a symbol, where what a size is in proportion to another one shows"""
_MANY = 1500
"""Number of values from which on orders are not compared."""

ByteTable = NDArray[np.float64]
"""Table of bytes: values are rows, points are columns."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A value that needs memory: its bytes, the step that writes it first and the last one that reads it."""

    bytes: Size
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """Places of tenants. `below`: for each tenant, those it lies directly on (none: it lies at 0); `top`: those of which the highest end
    is the size of all; `typical`: the most bytes alive at once at the largest of the typical points."""

    order: tuple[int, ...]
    below: tuple[tuple[int, ...], ...]
    top: tuple[int, ...]
    typical: float = 0.0


def lay_out(tenants: Sequence[Tenant]) -> MemoryLayout:
    """Places tenants in several orders, and returns the best layout."""
    sizes = at_typical_points(tenants)
    conflicts = _conflicts(tenants)
    alive = most_alive(tenants, sizes)
    typical = float(alive.max(initial=0.0))
    if len(tenants) > _MANY:
        return replace(_placed(tenants, next(_orders(tenants, sizes)), conflicts), typical=typical)
    ideal = np.maximum(alive, 1.0)
    scores = {order: _score(order, conflicts, sizes, ideal) for order in _orders(tenants, sizes)}
    best, _ = min(scores.items(), key=lambda scored: scored[1])
    return replace(_placed(tenants, best, conflicts), typical=typical)


def at_typical_points(tenants: Sequence[Tenant]) -> ByteTable:
    """Evaluates the sizes at a few assignments of the symbols, among them some where one symbol is large and the others are small."""
    symbols = sorted({s for t in tenants for s in free_symbols(t.bytes)}, key=lambda s: s.uid)
    return at_points(
        tenants,
        [{s: _LADDER[(k * (2 * j + 1) + j) % len(_LADDER)] for j, s in enumerate(symbols)} for k in range(8)],
    )


def at_large_points(tenants: Sequence[Tenant], symbols: Sequence[Dim]) -> ByteTable:
    """Evaluates the sizes where all of these symbols are large, and where one of them is; others are 1."""
    ones = {s: 1 for t in tenants for s in free_symbols(t.bytes)}
    large = [dict.fromkeys(symbols, LARGE), *({s: LARGE} for s in symbols)]
    return at_points(tenants, [{**ones, **point} for point in large])


def at_points(tenants: Sequence[Tenant], values: Sequence[Mapping[Dim, int]]) -> ByteTable:
    """Evaluates the sizes at assignments of the symbols, each as near as its bounds allow."""
    points = [{s: _clamped(s, n) for s, n in point.items()} for point in values]
    known: dict[Size, list[float]] = {}
    for t in tenants:
        if t.bytes not in known:
            known[t.bytes] = [_bytes_at(t.bytes, p) for p in points]
    return np.array([known[t.bytes] for t in tenants], np.float64).reshape(len(tenants), len(points))


MOST = 1 << 63
"""A number of bytes that no memory has"""


def _bytes_at(size: Size, point: Mapping[Dim, int]) -> float:
    """Evaluates a size; more than any memory where the size, or a number on the way to it, has more than 64 bits: no call is refused for
    a point that is only an example."""
    try:
        return float(min(max(0, evaluate(size, point)), MOST))
    except OverflowedError:
        return float(MOST)


def _clamped(s: Dim, value: int) -> int:
    low, high = bounds(s)
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)


def most_alive(tenants: Sequence[Tenant], sizes: ByteTable) -> NDArray[np.float64]:
    """The most bytes alive at one step, at each point: no plan can do with less."""
    last = max((t.end for t in tenants), default=0)
    change = np.zeros((last + 2, sizes.shape[1]))
    for t, size in zip(tenants, sizes, strict=True):
        change[t.start] += size
        change[t.end + 1] -= size
    most: NDArray[np.float64] = change.cumsum(axis=0).max(axis=0)
    return most


def _conflicts(tenants: Sequence[Tenant]) -> list[list[int]]:
    """Lists, for each tenant, those that are alive at a step at which it is alive."""
    starts = np.array([t.start for t in tenants], np.int64)
    ends = np.array([t.end for t in tenants], np.int64)
    conflicts = []
    for k, t in enumerate(tenants):
        overlapping = np.flatnonzero((starts <= t.end) & (ends >= t.start))
        conflicts.append([int(j) for j in overlapping if j != k])
    return conflicts


def _orders(tenants: Sequence[Tenant], sizes: ByteTable) -> Iterator[tuple[int, ...]]:
    """Orders worth trying, the most promising first."""
    everyone = range(len(tenants))

    def by(key: Callable[[int], tuple[float, ...]]) -> tuple[int, ...]:
        return tuple(sorted(everyone, key=key))

    def by_column(column: Sequence[float]) -> tuple[int, ...]:
        return by(lambda k: (-column[k], -length[k], start[k]))

    length = [t.end - t.start for t in tenants]
    start = [t.start for t in tenants]
    total = sizes / np.maximum(sizes.sum(axis=0, keepdims=True), 1.0)
    share = total.sum(axis=1).tolist()
    yield _by_slots(tenants, share)
    yield by(lambda k: (-share[k], start[k]))
    yield by(lambda k: (-length[k], -share[k], start[k]))
    yield by(lambda k: (-share[k] * (length[k] + 1), start[k]))
    for column in {tuple(c): c for c in total.T}.values():
        yield by_column(column.tolist())
    yield _by_breadth(tenants, share)


def _by_slots(tenants: Sequence[Tenant], share: Sequence[float]) -> tuple[int, ...]:
    """Orders tenants by slots that hold one tenant at a time, the largest slot first: so the plan is never worse than the sum of slots."""
    slots: list[list[int]] = []
    room: list[float] = []
    for k in sorted(range(len(tenants)), key=lambda k: (tenants[k].start, -share[k])):
        free = [i for i, members in enumerate(slots) if tenants[members[-1]].end < tenants[k].start]
        if free:
            best = min(free, key=lambda i: abs(room[i] - share[k]))
            slots[best].append(k)
            room[best] = max(room[best], share[k])
        else:
            slots.append([k])
            room.append(share[k])
    return tuple(k for i in sorted(range(len(slots)), key=lambda i: -room[i]) for k in slots[i])


def _by_breadth(tenants: Sequence[Tenant], share: Sequence[float]) -> tuple[int, ...]:
    """Orders tenants by steps, the fullest step first."""
    last = max((t.end for t in tenants), default=0)
    alive: list[list[int]] = [[] for _ in range(last + 1)]
    for k, t in enumerate(tenants):
        for step in range(t.start, t.end + 1):
            alive[step].append(k)
    fullest = sorted(range(last + 1), key=lambda step: -sum(share[k] for k in alive[step]))
    order: dict[int, None] = {}
    for step in fullest:
        for k in sorted(alive[step], key=lambda k: (tenants[k].start - tenants[k].end, -share[k])):
            order[k] = None
    return tuple(order)


def _score(
    order: Sequence[int], conflicts: Sequence[Sequence[int]], sizes: ByteTable, ideal: NDArray[np.float64]
) -> float:
    """Ratio of bytes needed to bytes alive, in the mean over the points."""
    tops = np.zeros_like(sizes)  # zero until placed, which leaves the maximum alone
    for k in order:
        tops[k] = sizes[k]
        if conflicts[k]:
            tops[k] += tops[conflicts[k]].max(axis=0)
    return float((tops.max(axis=0, initial=0.0) / ideal).mean())


def _placed(tenants: Sequence[Tenant], order: Sequence[int], conflicts: Sequence[Sequence[int]]) -> MemoryLayout:
    """Lays tenants out in an order. Of those that a tenant lies on, it leaves out those that surely end no higher than another one: what
    that other one lies on, and smaller tenants beside it."""
    bit = 0
    under = [0] * len(tenants)  # bit sets: everything below, directly or not
    below: list[tuple[int, ...]] = [()] * len(tenants)

    def highest(candidates: Sequence[int]) -> tuple[int, ...]:
        covered = 0
        for j in candidates:
            covered |= under[j]
        left = [j for j in candidates if not covered >> j & 1]
        largest: dict[tuple[int, ...], list[int]] = {}
        for j in left:
            rivals = largest.setdefault(below[j], [])
            if any(_surely_at_least(tenants[r].bytes, tenants[j].bytes) for r in rivals):
                continue
            rivals[:] = [r for r in rivals if not _surely_at_least(tenants[j].bytes, tenants[r].bytes)] + [j]
        return tuple(sorted(j for rivals in largest.values() for j in rivals))

    for k in order:
        candidates = [j for j in conflicts[k] if bit >> j & 1]
        below[k] = highest(candidates)
        for j in candidates:
            under[k] |= under[j] | 1 << j
        bit |= 1 << k
    return MemoryLayout(tuple(order), tuple(below), highest(list(order)))


def _surely_at_least(a: Size, b: Size) -> bool:
    return a == b or nonneg(a - b)
