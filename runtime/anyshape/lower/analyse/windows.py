"""Reads under a moving window: recognised, and moved to a copy in scratch from which every tap reads side by side.

In: the body of a reduction over window variables. Out: `Staged`, a copy of what the window sees with its pads written out and, where the
window moves by more than one, with the elements of equal remainder side by side; and the body once more for each tap, reading from there.
So no read has a mask or a stride, and what lies around the edge is looked at once instead of at every tap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import contiguous
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Access, Affine, Bound, Dag, DagNode, LoopVar, Store, affine, walk
from anyshape.lower.ir.padded import padded_load

SLACK = 128
"""Elements past a plane that whole vectors may touch: several of the longest."""
TAPS = 64
"""At most so many are written out."""
_STEPS, _SPREADS = range(1, 5), range(2, 17)


@dataclass(frozen=True)
class Moving:
    """One dim of a window: element `step * position + spread * tap` of what it moves over, from where that begins."""

    position: LoopVar
    tap: LoopVar
    step: int
    spread: int

    @property
    def reach(self) -> int:
        """From the first tap to the last."""
        assert isinstance(self.tap.extent, int)
        return self.spread * (self.tap.extent - 1)


@dataclass(eq=False)
class Staged:
    """The copy: [channels][remainders][places], the places being those of windows and their reach beyond the last.

    `access` reads the original at `along`, one variable per dim that runs over `lengths`; where its bounds do not hold the copy has
    `outside`. `fixed` are variables that stand for small numbers, so that addresses share their products with sizes.
    """

    tensor: Tensor
    access: Access
    outside: DagNode | None
    moving: tuple[Moving, ...]
    channels: tuple[LoopVar, ...]
    along: tuple[LoopVar, ...]
    lengths: tuple[Size, ...]
    pitches: tuple[Size, ...]
    plane: Size
    channel_pitches: tuple[Size, ...]
    fixed: dict[int, LoopVar]

    @property
    def remainder_pitches(self) -> tuple[int, ...]:
        """How many planes apart the remainders of each dim are."""
        return tuple(math.prod(m.step for m in self.moving[k + 1 :]) for k in range(len(self.moving)))


@dataclass(eq=False)
class Windows:
    """A reduction by taps: `taps` are reductions of one element each, in the order of the reduction that they replace."""

    staged: Staged
    taps: tuple[DagNode, ...]


def row_windows(dag: Dag, stores: Sequence[Store]) -> Windows | None:
    """Of stores whose one reduction runs over a window and nothing else, and that write side by side what the window moves along."""
    reds = [n for n in walk([r for s in stores for r in s.roots]) if n.kind == "red"]
    if len(reds) != 1 or reds[0].data[0] not in ("sum", "prod", "max", "min"):
        return None
    (r,) = reds
    if any(s.domain != r.domain or not _plain(s.access) for s in stores) or _has_checks(stores):
        return None
    found = _staged(dag, r, stores)
    if found is None or found[0].channels or _is_open(stores, found[0]):
        return None
    staged, read = found
    if _is_row(staged):
        return None
    bodies = _taps(dag, staged, read, r.args[0], {})
    kind = r.data[0]
    return Windows(staged, tuple(dag.red(kind, (), b, r.dtype) for b in bodies))


def product_windows(dag: Dag, r: DagNode, b: DagNode, stores: Sequence[Store]) -> tuple[Windows, LoopVar] | None:
    """Of a sum over channels, then taps, of products with `b`, which sees windows: the taps of `b`, and the variable of its columns. In
    two dims columns count the places of the copy, so that those of several rows lie side by side: some are nobody's."""
    found = _staged(dag, r, stores, b)
    if found is None or len(found[0].moving) > 2:
        return None
    staged, read = found
    over = r.data[1]
    if over != (*staged.channels, *(m.tap for m in staged.moving)):
        return None
    last = staged.moving[-1].position
    n = last if len(staged.moving) == 1 else dag.variable(staged.moving[0].position.extent * staged.pitches[0])
    merged = {m.position: n for m in staged.moving}
    taps = _taps(dag, staged, read, b, merged)
    positions = {m.position for m in staged.moving} - {n}
    if any(t.domain & positions for t in taps):
        return None
    return Windows(staged, taps), n


def _plain(x: Access) -> bool:
    return not (x.bounds or x.checks or x.address.lets)


def _has_checks(stores: Sequence[Store]) -> bool:
    nodes = walk([r for s in stores for r in s.roots])
    return any(n.kind == "load" and n.data.checks for n in nodes)


def _is_row(staged: Staged) -> bool:
    """A short row of its own for each result. A copy pays for pairs, which are taken apart by one shuffle, and not for more."""
    (first, *others) = staged.moving
    return not others and first.step > max(first.reach, 2) and not staged.access.bounds


def _is_open(stores: Sequence[Store], staged: Staged) -> bool:
    """Whether the run decides if an operand is broadcast along the vectors: there are loops for either, in plain rows."""
    last = staged.moving[-1].position
    nodes = walk([r for s in stores for r in s.roots])
    steps = (n.data.address.coefficient(last) for n in nodes if n.kind == "load")
    return any(not isinstance(c, int) and contiguous(c) for c in steps)


def _staged(
    dag: Dag, r: DagNode, stores: Sequence[Store], body: DagNode | None = None
) -> tuple[Staged, DagNode] | None:
    """The one read of the body that sees windows, and its copy."""
    over: tuple[LoopVar, ...] = r.data[1]
    shared = stores[0].variables
    along = {v for v in shared if all(s.access.address.coefficient(v) == 1 for s in stores)}
    body = r.args[0] if body is None else body
    nodes = walk([body])
    if any(n.kind == "red" for n in nodes):
        return None
    moving = {n: _moving(_load(n).data, over, shared, along, body is r.args[0]) for n in _reads(nodes)}
    seen = [(n, pairs) for n, pairs in moving.items() if pairs]
    if len(seen) != 1:
        return None
    ((read, pairs),) = seen
    access = _load(read).data
    taps = [m.tap.extent for m in pairs]
    if math.prod(n for n in taps if isinstance(n, int)) > TAPS or any(v not in access.domain for v in over):
        return None
    channels = tuple(v for v in over if all(v is not m.tap for m in pairs))
    return _copy(dag, read, pairs, channels), read


def _moving(
    x: Access, over: Sequence[LoopVar], shared: Sequence[LoopVar], along: Set[LoopVar], whole: bool
) -> tuple[Moving, ...]:
    """The pairs of an access that sees windows along vectors, or none; `whole`, it is read by all of the sum."""
    pairs = _pairs(x, over, shared)
    if not whole:
        pairs = tuple(m for m in pairs if m is pairs[-1] or m.step <= m.reach or _is_bounded(x, m))
    fits = bool(pairs) and pairs[-1].position in along and _in_order(x, pairs) and _bounded(x, pairs)
    return pairs if fits else ()


def _reads(nodes: Sequence[DagNode]) -> list[DagNode]:
    """Padded reads, and loads that are not in one."""
    padded = [n for n in nodes if padded_load(n) is not None]
    inside = {n.args[1] for n in padded}
    loads = [n for n in nodes if n.kind == "load" and n not in inside and not n.data.bounds]
    return [n for n in (*padded, *loads) if not _load(n).data.checks and not _load(n).data.address.lets]


def _load(n: DagNode) -> DagNode:
    return n if n.kind == "load" else n.args[1]


def _pairs(x: Access, over: Sequence[LoopVar], shared: Iterable[LoopVar]) -> tuple[Moving, ...]:
    """Which variables move together, read off their coefficients."""
    found: list[Moving] = []
    for q in over:
        c = x.address.coefficient(q)
        if c == 0 or not isinstance(q.extent, int) or q.extent < 1:
            continue
        steps = {p: _together(x.address.coefficient(p), c) for p in shared if all(m.position is not p for m in found)}
        close = {p: s for p, s in steps.items() if s is not None}
        if close:
            p = min(close, key=lambda p: close[p])
            found.append(Moving(p, q, *close[p]))
    return tuple(found)


def _together(position: Size, tap: Size) -> tuple[int, int] | None:
    """(step, spread) if the coefficients are as these; one of them is 1."""
    if position == 0:
        return None
    for k in _STEPS:
        if position == tap * k:
            return k, 1
    for k in _SPREADS:
        if tap == position * k:
            return 1, k
    return None


def _in_order(x: Access, pairs: tuple[Moving, ...]) -> bool:
    """The last dim is the one whose elements are side by side, and they are nobody else's."""
    last = pairs[-1]
    return x.address.coefficient(last.position) == last.step and x.address.coefficient(last.tap) == last.spread


def _bounded(x: Access, pairs: tuple[Moving, ...]) -> bool:
    """Every bound is about one dim of the window, or about none."""
    variables = {v for m in pairs for v in (m.position, m.tap)}
    for b in x.bounds:
        own = {v: c for v, c in b.index.terms if v in variables}
        fits = any(own == {m.position: m.step, m.tap: m.spread} for m in pairs)
        single = any(m.tap.extent == 1 and own == {m.position: m.step} for m in pairs)
        if b.index.lets or b.guard is not None or (own and not fits and not single):
            return False
    return True


def _is_bounded(x: Access, m: Moving) -> bool:
    return any(b.index.coefficient(m.tap) != 0 for b in x.bounds)


def _copy(dag: Dag, read: DagNode, pairs: tuple[Moving, ...], channels: tuple[LoopVar, ...]) -> Staged:
    access = _load(read).data
    lengths = tuple(m.step * (m.position.extent - 1) + m.reach + 1 for m in pairs)
    places = [m.position.extent + m.reach // m.step for m in pairs]
    pitches: list[Size] = [1]
    for n in reversed(places[1:]):
        pitches.insert(0, pitches[0] * n)
    plane = pitches[0] * places[0] + SLACK + pairs[-1].reach
    size: Size = plane * math.prod(m.step for m in pairs)
    channel_pitches: list[Size] = []
    for v in reversed(channels):
        channel_pitches.insert(0, size)
        size = size * v.extent
    along = tuple(dag.variable(n) for n in lengths)
    moved = _Along(dag, pairs, along)
    outside = read.args[2] if read.kind == "op" else None
    numbers = {k for m in pairs for k in range(max(m.reach // m.step + 1, 1))} | set(
        range(math.prod(m.step for m in pairs))
    )
    fixed = {k: dag.variable(k + 1) for k in sorted(numbers)}
    tensor = Tensor("staged", read.dtype, (size,))
    return Staged(
        tensor, moved.access(access), outside, pairs, channels, along, lengths, tuple(pitches), plane, tuple(channel_pitches), fixed
    )  # fmt: skip


class _Along(Rebuild):
    """Position and tap of each dim become one variable, the element of what the window moves over."""

    def __init__(self, dag: Dag, pairs: tuple[Moving, ...], along: tuple[LoopVar, ...]) -> None:
        super().__init__(dag)
        self.kept = {(m.tap if m.spread == 1 else m.position): u for m, u in zip(pairs, along, strict=True)}
        self.dropped = {(m.position if m.spread == 1 else m.tap) for m in pairs}

    def affine(self, x: Affine) -> Affine:
        return affine([(self.kept.get(v, v), c) for v, c in x.terms if v not in self.dropped], x.offset)

    def bound(self, b: Bound) -> Bound:
        return Bound(self.affine(b.index), b.extent, b.error)


class _Tap(Rebuild):
    """Taps become numbers, the read one of the copy."""

    def __init__(self, dag: Dag, replaced: dict[DagNode, DagNode], numbers: dict[LoopVar, int]) -> None:
        super().__init__(dag, replaced)
        self.numbers = numbers

    def affine(self, x: Affine) -> Affine:
        terms = [(v, c) for v, c in x.terms if v not in self.numbers]
        offset = x.offset
        for v, c in x.terms:
            if v in self.numbers:
                offset = offset + c * self.numbers[v]
        return affine(terms, offset, [(self.node(n), k) for n, k in x.lets])

    def _node(self, n: DagNode) -> DagNode:
        if n.kind == "var" and n.data in self.numbers:
            return self.dag.const(self.numbers[n.data], n.dtype)
        return super()._node(n)


def _taps(
    dag: Dag, staged: Staged, read: DagNode, body: DagNode, merged: dict[LoopVar, LoopVar]
) -> tuple[DagNode, ...]:
    """The body for each tap, the last dim running fastest."""
    ranges = [range(int(m.tap.extent)) for m in staged.moving if isinstance(m.tap.extent, int)]
    found = []
    for numbers in itertools.product(*ranges):
        load = dag.load(Access(staged.tensor, _address(staged, numbers, merged)))
        chosen = {m.tap: k for m, k in zip(staged.moving, numbers, strict=True)}
        found.append(_Tap(dag, {read: load}, chosen).node(body))
    return tuple(found)


def _address(staged: Staged, numbers: tuple[int, ...], merged: dict[LoopVar, LoopVar]) -> Affine:
    terms: list[tuple[LoopVar, Size]] = list(zip(staged.channels, staged.channel_pitches, strict=True))
    plane, offset = 0, 0
    for m, k, pitch, planes in zip(staged.moving, numbers, staged.pitches, staged.remainder_pitches, strict=True):
        shift, remainder = divmod(m.spread * k, m.step)
        plane += remainder * planes
        if isinstance(pitch, int):
            offset += shift * pitch
        elif shift:
            terms.append((staged.fixed[shift], pitch))
        if not merged:
            terms.append((m.position, pitch))
    if merged:
        terms.append((merged[staged.moving[-1].position], 1))
    if plane:
        terms.append((staged.fixed[plane], staged.plane))
    return affine(terms, offset)
