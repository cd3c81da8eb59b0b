"""Loads of scalars and of vectors, by the instructions that suit how the lanes lie in memory.

In: an access, and the copy of the vector that it is for. Out: elements as they are computed with; lanes that do not exist touch no memory.
Lanes are contiguous, the same, every other element, in a window of neighbours, or anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.neighbours import from_window
from anyshape.lower.ir.dag import Access, Affine, DagNode, IndexBound
from anyshape.lower.llvm.gathering import (
    LanePlaces,
    every,
    every_existing,
    lane_places,
    load_existing,
    masks_elements,
    pick,
    pick_existing,
)
from anyshape.lower.llvm.target_probe import gathers_masked
from anyshape.lower.llvm.types import I8, I32, I64, Type, Val, const

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values
    from anyshape.lower.emit.values.vector import Vector, VectorPlace

CLOSE = (2,)
"""Steps of elements that are shuffled out of whole vectors: at step 2 half of what two loads bring is used, at larger steps as many lines
are read as by a gather."""


def load(values: Values, access: Access, copy: int, varies: bool) -> Val:
    """Loads an element, or, if it varies along the lanes, those of a copy of the vector."""
    values.check(access, copy)
    pointer = values.pointer(access.tensor, access.address)
    bounds = [b for b in access.bounds if b not in values.holding] if varies else access.bounds
    bounded = values.inside(bounds, copy)
    dtype = access.tensor.dtype
    if varies:
        assert values.vector is not None
        raw = _LoadOfLanes(values, values.vector, access, copy, bounds).emit(pointer, bounded)
    else:
        if not access.domain:
            bounded = values.conjunction(bounded, _not_empty(values, access.tensor))
        raw = _scalar(values, pointer, elementwise.memory_type(dtype), bounded)
    return elementwise.load_value(values.f, dtype, raw)


@dataclass(frozen=True, eq=False, slots=True)
class _LoadOfLanes:
    """The load of what varies along the lanes, for a copy of the vector. `bounds`: those that are tested."""

    values: Values
    vector: Vector
    access: Access
    copy: int
    bounds: Sequence[IndexBound]

    def emit(self, pointer: Val, bounded: Val | None) -> Val:
        """The elements of the lanes as they are in memory; `bounded`: which of them are inside of the bounds."""
        values, f, vector, type_ = self.values, self.values.f, self.vector, self.type_
        mask = self.existing(bounded)
        if mask is not None and not mask.type.lanes:
            mask = f.splat(mask, vector.lanes)
        step = self.close_step(mask)
        if step is not None:
            first = f.gep(pointer, f.mul(values.levels.indices[vector.variable], step), type_)
            at = self.copy * vector.lanes * step
            return every(f, first, type_, step, at) if mask is None else every_existing(f, first, type_, step, mask, at)
        window = values.windows.get((self.access, self.copy))
        if window is not None:
            return from_window(f, window, pointer, type_)
        match values.form_of_lanes(self.access.address):
            case "same":
                if bounded is None:
                    return f.splat(_scalar(values, pointer, type_.scalar, None), vector.lanes)
                return f.gather(pointer, type_, f.splat(0, vector.lanes, I64), mask)
            case "contiguous":
                if bounded is not None and not bounded.type.lanes:
                    # a masked load far from any memory takes as long as a fault
                    pointer = f.select(bounded, pointer, values.memory.base(self.access.tensor))
                if vector.places and mask is None:
                    return self.from_place(pointer, vector.places[self.copy])
                at = self.copy * vector.lanes
                if mask is None:
                    return f.load(pointer, type_, at)
                return load_existing(f, pointer, type_, mask, at, lambda: values.memory.range_of(self.access.tensor))
        return self.gathered(pointer, mask)

    @property
    def type_(self) -> Type:
        return elementwise.memory_type(self.access.tensor.dtype).vector(self.vector.lanes)

    @property
    def lets(self) -> tuple[tuple[DagNode, Size], ...]:
        """The computed indices that vary along the lanes."""
        return tuple((n, c) for n, c in self.access.address.lets if self.values.varies(n))

    @property
    def step(self) -> Size:
        """How many elements each lane is behind the one before it, but for computed indices."""
        return self.values.sizes.coefficient(self.access.address.coefficient(self.vector.variable))

    def existing(self, bounded: Val | None) -> Val | None:
        """Which lanes are read, of those inside of the bounds; rows of a copy have elements for all lanes of a vector."""
        if self.values.memory.is_padded(self.access.tensor):
            return bounded
        return self.values.conjunction(self.values.mask(self.copy), bounded)

    def close_step(self, mask: Val | None) -> int | None:
        """The step of lanes that are shuffled out of whole vectors; None if they are loaded in another way."""
        step = self.step
        if not isinstance(step, int) or step not in CLOSE or self.lets:
            return None
        return step if mask is None or masks_elements(self.values.f, self.type_) else None

    def from_place(self, pointer: Val, place: VectorPlace) -> Val:
        """Loads a vector that may go on in the next row."""
        f, type_ = self.values.f, self.type_
        raw = f.load(pointer, type_, place.start)
        if place.following is None:
            return raw
        return f.select(place.following, f.load(f.gep(pointer, place.gap, type_), type_, place.start), raw)

    def gathered(self, pointer: Val, mask: Val | None) -> Val:
        """Loads lanes that are anywhere: by an instruction, or by a load for each lane; or if their places are known further out, from
        there."""
        values, f, type_ = self.values, self.values.f, self.type_
        if gathers_masked(f.target) or self.known_since() == values.levels.innermost:
            offsets = values.strided_offsets(self.access.address, self.copy)
            picked = mask is None and self.lets
            return pick(f, pointer, type_, offsets) if picked else f.gather(pointer, type_, offsets, mask)
        lanes = self.lane_places(mask is not None)
        return pick_existing(f, pointer, type_, lanes, None if lanes.some is None else _zero(values))

    def lane_places(self, masked: bool) -> LanePlaces:
        """The places of the lanes, computed at the outermost level at which they are known."""
        values, f, levels, type_ = self.values, self.values.f, self.values.levels, self.type_
        number, in_rows = type_.lanes + 2 * masked, values.memory.is_padded(self.access.tensor)
        key = ("lane place", self.lets, self.step, tuple(self.bounds), in_rows, type_.bytes, self.copy)
        keys = [(*key, k) for k in range(number)]
        parts = [part for k in keys if (part := levels.find(k)) is not None]
        if len(parts) < number:
            with levels.at(self.known_since()):
                mask = self.existing(values.inside(self.bounds, self.copy))
                mask = None if mask is None else f.splat(mask, type_.lanes)
                lanes = lane_places(f, type_, values.strided_offsets(self.access.address, self.copy), mask)
                parts = [p for p in (*lanes.places, lanes.some, lanes.existing) if p is not None]
                for k, part in zip(keys, parts, strict=True):
                    levels.remember(k, part)
        places, rest = parts[: type_.lanes], parts[type_.lanes :]
        return LanePlaces(tuple(places), *(rest or (None, None)))

    def known_since(self) -> int:
        """The outermost level at which is known where the lanes are, and which of them exist."""
        levels, address, indices = self.values.levels, self.access.address, [b.index for b in self.bounds]
        nodes = [n for n, _ in self.lets] + [n for i in indices for n, _ in i.lets]
        variables = frozenset((self.vector.variable, *(v for i in indices for v, _ in i.terms)))
        sizes = [n for i in (address, *indices) for n in i.sizes] + [b.extent for b in self.bounds]
        depths = (levels.depth_of_variables(variables), levels.step_depth(sizes))
        return levels.outermost(max((*depths, *(levels.depth(n) for n in nodes))))


def load_word(values: Values, access: Access, copy: int) -> Val:
    """Loads four adjacent bytes, of which a plain access is the first, as an integer of 32 bits."""
    f, vector = values.f, values.vector
    pointer = values.pointer(access.tensor, access.address)
    if vector is None or vector.variable not in access.domain:
        ok = None if access.domain else _not_empty(values, access.tensor)
        return _scalar(values, pointer, I32, ok, align=1)
    step, mask, type_ = access.address.coefficient(vector.variable), values.mask(copy), I32.vector(vector.lanes)
    if step == I32.bytes:
        first = f.gep(pointer, f.mul(values.levels.indices[vector.variable], I32.bytes), I8)
        at = copy * vector.lanes
        return f.load(first, type_, at, 1) if mask is None else f.masked_load(first, type_, mask, at, 1)
    word = const(type_, 0)
    for at in range(I32.bytes):
        address = Affine(access.address.terms, access.address.offset + at)
        byte = load(values, Access(access.tensor, address), copy, varies=True)
        word = f.or_(word, f.shl(f.convert("zext", byte, I32), 8 * at))
    return word


def _scalar(values: Values, pointer: Val, element: Type, ok: Val | None, align: int = 0) -> Val:
    """Loads a scalar. Where `ok` is false the memory is not touched: the address becomes that of a zeroed stack slot."""
    f = values.f
    return f.load(pointer if ok is None else f.select(ok, pointer, _zero(values)), element, align=align)


def _not_empty(values: Values, t: Tensor) -> Val | None:
    """Whether a tensor has elements, for a load ahead of loops that may have no iterations; None if it surely has some."""
    ok: Val | None = None
    for n in t.shape:
        if dims.ge(n, 1) is not True:
            ok = values.conjunction(ok, values.f.compare("gt", values.sizes.of(n), 0))
    return ok


def _zero(values: Values) -> Val:
    """The address of an element of zero bits, which is written once."""
    slot = values.levels.find("zero")
    if slot is None:
        with values.levels.at(0):
            slot = values.levels.remember("zero", values.f.alloca(I64, 1))
            values.f.store(const(I64, 0), slot)
    return slot
