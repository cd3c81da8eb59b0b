"""Elements from several places of memory, or of vectors, in one vector: by the instructions that the target is fastest with.

In: an address or vectors, and the places. Out: a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.target_probe import gathers
from anyshape.lower.llvm.types import F32, I8, I16, I32, I64, Type, Val, ValLike, const, undefined


def pick(f: FunctionBuilder, base: Val, type_: Type, indices: Val) -> Val:
    """Gathers where all lanes exist, by one instruction or by a load each, whichever the target is faster with."""
    if gathers(f.target):
        return f.gather(base, type_, indices)
    row = undefined(type_)
    for lane in range(type_.lanes):
        row = f.insert(row, f.load(f.gep(base, f.extract(indices, lane), type_), type_.scalar), lane)
    return row


@dataclass(frozen=True, slots=True)
class LanePlaces:
    """Places of lanes as scalars, from each of which an element can be loaded if `some` lane exists. `existing`: ones in the bits of the
    lanes that do, integers as wide as elements (None: all do)."""

    places: tuple[Val, ...]
    some: Val | None
    existing: Val | None


def lane_places(f: FunctionBuilder, type_: Type, indices: Val, mask: Val | None) -> LanePlaces:
    """Makes the places of lanes, once for all loads from them: those of lanes that do not exist are where another one is."""
    existing = some = None
    if mask is not None:
        lowest = -(1 << (indices.type.bits - 1))
        some, last = f.reduce("or", mask), f.reduce("smax", f.select(mask, indices, lowest))
        indices = f.select(mask, indices, f.splat(f.select(some, last, 0), type_.lanes))
        existing = f.convert("sext", mask, type_.as_int().scalar)
    return LanePlaces(tuple(f.extract(indices, lane) for lane in range(type_.lanes)), some, existing)


def pick_existing(f: FunctionBuilder, base: Val, type_: Type, lanes: LanePlaces, zero: Val | None) -> Val:
    """Loads each lane that exists from its place, others are zero. `zero`: an address that is read if none does."""
    if lanes.some is not None and zero is not None:
        base = f.select(lanes.some, base, zero)
    row = undefined(type_)
    for lane, place in enumerate(lanes.places):
        row = f.insert(row, f.load(f.gep(base, place, type_), type_.scalar), lane)
    if lanes.existing is None:
        return row
    return f.bitcast(f.and_(f.bitcast(row, lanes.existing.type), lanes.existing), type_)


def permute(f: FunctionBuilder, a: Val, b: Val, places: Val) -> Val:
    """Lane i is element `places[i]` (an i32) of `a` and `b` side by side, where the target `permutes` these."""
    lanes, item = a.type.lanes, max(4, a.type.bytes)
    bits = I64 if item == 8 else I32
    x, y = (_carried(f, v, bits) for v in (a, b))
    if f.target.scalef:
        name = f"llvm.x86.avx512.vpermi2var.{'q' if item == 8 else 'd'}.{lanes * item * 8}"
        picked = f.call_intrinsic(name, x.type, [x, f.convert("zext", places, bits), y])
    else:
        low, high = (f.call_intrinsic("llvm.x86.avx2.permd", x.type, [v, places]) for v in (x, y))
        picked = f.select(f.compare("lt", places, lanes), low, high)
    if a.type.bytes < item:
        picked = f.convert("trunc", picked, a.type.as_int().scalar)
    return f.bitcast(picked, a.type)


def lane_picks(f: FunctionBuilder, element_bytes: int, places: Val) -> Val:
    """Makes of places in one vector (an i32 for each lane) what `pick_lanes` takes: of short elements the place of each byte."""
    if element_bytes == 4:
        return places
    first = f.mul(f.convert("trunc", places, I16), 0x0202)
    return f.bitcast(f.add(first, 0x0100), I8.vector(2 * places.type.lanes))


def pick_lanes(f: FunctionBuilder, a: Val, picks: Val) -> Val:
    """Lane i is the element of `a` for which `lane_picks` made `picks`, where the target `picks_lanes` of these."""
    if a.type.bytes == 4:
        bits = f.bitcast(a, I32.vector(a.type.lanes))
        return f.bitcast(f.call_intrinsic("llvm.x86.avx2.permd", bits.type, [bits, picks]), a.type)
    return f.bitcast(
        f.call_intrinsic("llvm.x86.ssse3.pshuf.b.128", picks.type, [f.bitcast(a, picks.type), picks]), a.type
    )


def _carried(f: FunctionBuilder, a: Val, element: Type) -> Val:
    """The bits of each element in a wider integer."""
    return f.convert("zext", f.bitcast(a, a.type.as_int()), element)


def every(f: FunctionBuilder, base: Val, type_: Type, step: int, index: ValLike = 0) -> Val:
    """Load lane i from element `index + i * step`, by whole vectors that touch nothing before the first of them or past the last."""
    lanes = type_.lanes
    last, row = (lanes - 1) * step, undefined(type_)
    base = f.gep(base, index, type_)
    for part in range(step):
        first = min(part * lanes, last - lanes + 1)
        places = [(i, i * step - first) for i in range(lanes) if part * lanes <= i * step < (part + 1) * lanes]
        picks = list(range(lanes))
        for i, place in places:
            picks[i] = lanes + place
        row = f.shuffle(row, f.load(base, type_, first), picks)
    return row


def every_existing(f: FunctionBuilder, base: Val, type_: Type, step: int, mask: Val, index: ValLike = 0) -> Val:
    """Load lane i from element `index + i * step` where the mask has it, by masked vectors that touch nothing else; others are zero."""
    lanes = type_.lanes
    base, none, row = f.gep(base, index, type_), const(mask.type, 0), const(type_, 0)
    for part in range(step):
        places = {i * step - part * lanes: i for i in range(lanes) if part * lanes <= i * step < (part + 1) * lanes}
        own = f.shuffle(mask, none, [places.get(e, lanes) for e in range(lanes)])
        picks = list(range(lanes))
        for e, i in places.items():
            picks[i] = lanes + e
        row = f.shuffle(row, f.masked_load(base, type_, own, part * lanes), picks)
    return row


def masks_elements(f: FunctionBuilder, type_: Type) -> bool:
    """Whether loads of single elements of a vector are one instruction."""
    return f.target.masks and (f.target.scalef or type_.bytes >= F32.bytes)


def load_existing(
    f: FunctionBuilder,
    base: Val,
    type_: Type,
    mask: Val,
    index: ValLike,
    memory: Callable[[], tuple[Val, Val] | None],
) -> Val:
    """Loads the lanes that the mask has, others are zero. Where no instruction does, each lane would be a branch of its own: a vector that
    lies in the `memory` of its tensor (addresses of its begin and its end) is loaded as a whole."""
    ends = None if masks_elements(f, type_) else memory()
    if ends is None:
        return f.masked_load(base, type_, mask, index)
    first, (begin, end) = f.gep(base, index, type_), ends
    address = f.convert("ptrtoint", first, I64)
    final = f.sub(end, type_.lanes * type_.bytes)
    lies_inside = f.and_(f.compare("ge", address, begin), f.compare("le", address, final))
    with f.if_else(lies_inside) as branch:
        with branch.then():
            branch.give(f.select(mask, f.load(first, type_), const(type_, 0)))
        with branch.otherwise():
            branch.give(f.masked_load(first, type_, mask))
    return branch.results[0]
