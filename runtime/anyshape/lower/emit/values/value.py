"""Values of nodes: evaluation with memo and hoisting, addresses and stores.

In: nodes, the open levels, and the vector (which variable runs along the lanes, how many copies, their masks). Out:
instructions at the outermost level that has all they need. A copy is one vector of an unrolled block; what does not vary
along the lanes is a scalar, emitted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import BOOL
from anyshape.dtypes import I64 as INT64
from anyshape.equations import Tensor
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.bounds import check_access, lanes_inside
from anyshape.lower.emit.values.failure_report import ReportedElements
from anyshape.lower.emit.values.levels import Buffer, Levels
from anyshape.lower.emit.values.loads import load, load_word
from anyshape.lower.emit.values.lookups import from_table
from anyshape.lower.emit.values.memory import Memory
from anyshape.lower.emit.values.neighbours import Window
from anyshape.lower.emit.values.positions import compared_lanes, float_positions, position_of
from anyshape.lower.emit.values.quantisation import byte_value, difference
from anyshape.lower.emit.values.sizes import SizeTable
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.dag import (
    Access,
    Affine,
    Constant,
    DagNode,
    IndexBound,
    Load,
    LoopIndex,
    LoopVar,
    Operation,
    Reduction,
    SizeValue,
    is_nonpositive,
    is_within_one,
    walk,
)
from anyshape.lower.ir.padded import PaddedLoad, is_zero, padded_load, zeros_outside
from anyshape.lower.llvm.types import I64, Val, const, const_vector
from anyshape.lower.llvm.vecmath import exp, log1p


class Values:
    """Values of nodes. `vector` is what runs along the lanes where code is emitted now, `holding` the bounds that hold there: loads along
    the vector need no mask for them. `populated` are extents that are not 0 there, `magnitudes` bounds of the elements of constants."""

    def __init__(
        self,
        levels: Levels,
        sizes: SizeTable,
        memory: Memory,
        reported: ReportedElements,
        magnitudes: Mapping[Tensor, float],
    ) -> None:
        self.f, self.levels, self.sizes, self.memory, self.reported = levels.f, levels, sizes, memory, reported
        self.magnitudes = magnitudes
        self.vector: Vector | None = None
        self.holding: set[IndexBound] = set()
        self.populated: frozenset[Size] = frozenset()
        self.windows: dict[tuple[Access, int], Window] = {}
        """Windows that hold where code is emitted now, by load and copy."""
        self.steps_further: dict[LoopVar, int] = {}
        """Positions by which addresses are further on along a variable than where it is."""
        self.apart: set[Tensor] = set()
        """Copies whose elements lie by remainder, so that taps are read at many places."""

    @contextmanager
    def along(self, vector: Vector) -> Iterator[None]:
        """Code whose values are vectors along a variable."""
        outer, self.vector = self.vector, vector
        yield
        self.vector = outer

    @contextmanager
    def further(self, v: LoopVar, steps: int) -> Iterator[None]:
        """Code whose addresses are so many positions further on along a variable, in which they step over known numbers of elements."""
        self.steps_further[v] = steps
        yield
        del self.steps_further[v]

    @contextmanager
    def populating(self, extents: Iterable[Size]) -> Iterator[None]:
        """Code that runs only where these extents are not 0."""
        outer, self.populated = self.populated, self.populated.union(extents)
        yield
        self.populated = outer

    def has_positions(self, v: LoopVar) -> bool:
        """Whether the extent of a variable is known not to be 0 where code is emitted."""
        return v.extent in self.populated or dims.ge(v.extent, 1) is True

    @property
    def copies(self) -> range:
        """Numbers of the copies of a value that varies along the vector."""
        return range(1 if self.vector is None else self.vector.copies)

    def copies_of(self, n: DagNode) -> range:
        return self.copies if self.varies(n) else range(1)

    # nodes

    def varies(self, n: DagNode) -> bool:
        return self.vector is not None and self.vector.variable in n.domain

    def lanes_of(self, varies: bool) -> int:
        return self.vector.lanes if varies and self.vector is not None else 0

    def of(self, n: DagNode, copy: int = 0) -> Val:
        varies = self.varies(n)
        key = (n, copy if varies else -1)
        value = self.levels.find(key)
        if value is not None:
            return value
        depth = self.levels.depth(n)
        with self.levels.at(depth):
            return self.levels.remember(key, self._emit(n, copy, varies))

    def _emit(self, n: DagNode, copy: int, varies: bool) -> Val:
        held = self.levels.buffer(n)
        if held is not None:
            return self.from_buffer(held[0], n, copy)
        counted = None if self.f.target.scalef or not varies else position_of(n)
        if counted is not None:
            return float_positions(self, n, counted, copy)
        match n:
            case Constant(number):
                return elementwise.literal(n.dtype, number)
            case SizeValue(dims.Cond() as condition):
                return elementwise.convert(self.f, self.f.compare("ne", self.sizes.of(condition), 0), BOOL, n.dtype)
            case SizeValue(size):
                return elementwise.convert(self.f, self.sizes.of(size), INT64, n.dtype)
            case LoopIndex(variable):
                return elementwise.convert(self.f, self.position(variable, copy), INT64, n.dtype)
            case Load(access):
                return load(self, access, copy, varies)
            case Operation():
                return self._operation(n, copy)
            case Reduction():
                raise RuntimeError("a reduction is used before it is computed")

    def _operation(self, n: Operation, copy: int) -> Val:
        if n.name == "word" and isinstance(n.args[0], Load):
            return load_word(self, n.args[0].access, copy)
        padded = padded_load(n)
        if padded is not None:
            return self.padded_value(n, padded, copy)
        zeroed = zeros_outside(n)
        if zeroed is not None and self.varies(zeroed):
            return self.of(zeroed, copy)  # lanes that a mask leaves out are zero
        looked_up = from_table(self, n, copy)
        if looked_up is not None:
            return looked_up
        lanes = compared_lanes(self, n, copy) if self.varies(n) else None
        if lanes is None:
            lanes = byte_value(self, n, copy) or difference(self, n, copy)
        if lanes is not None:
            return lanes
        wide = n.dtype.is_float and n.dtype.bits >= 32
        if n.name == "div" and wide and self._by_reduction(n):
            return self.f.mul(*self._level(self.of(n.args[0], copy), self.reciprocal(n.args[1], copy)))
        args = [self.of(a, copy) for a in n.args]
        if n.name == "exp" and wide and is_nonpositive(n.args[0]):
            return exp(self.f, args[0], nonpositive=True)
        if n.name == "log1p" and wide and is_within_one(n.args[0]):
            return log1p(self.f, args[0], within_one=True)
        return elementwise.apply(self.f, n.name, n.dtype, args, [a.dtype for a in n.args])

    def padded_value(self, n: DagNode, padded: PaddedLoad, copy: int) -> Val:
        """The load, or the pad outside of its bounds; where the load's own mask leaves lanes out, they are zero already."""
        value, outside = self.of(padded.load, copy), padded.outside
        inside = self.inside([b for b in padded.load.access.bounds if b not in self.holding], copy)
        if inside is None or (is_zero(outside) and value.type.lanes):
            return value
        other = self.of(outside)
        lanes = max(value.type.lanes, inside.type.lanes)
        if lanes:
            value, other = self.f.splat(value, lanes), self.f.splat(other, lanes)
        return self.f.select(inside, value, other)

    def _by_reduction(self, n: Operation) -> bool:
        """Whether the divisor comes from a reduction further out. Policy: such a division is a product with the reciprocal.

        It costs one more rounding, and spares a division per element of a row. Other divisions stay exact.
        """
        return self.levels.depth(n.args[1]) < self.levels.depth(n) and any(
            isinstance(m, Reduction) for m in walk([n.args[1]])
        )

    def reciprocal(self, n: DagNode, copy: int) -> Val:
        varies = self.varies(n)
        key = ("reciprocal", n, copy if varies else -1)
        value = self.levels.find(key)
        if value is None:
            with self.levels.at(self.levels.depth(n)):
                divisor = self.of(n, copy)
                value = self.levels.remember(key, self.f.fdiv(const(divisor.type, 1.0), divisor))
        return value

    def _level(self, a: Val, b: Val) -> tuple[Val, Val]:
        lanes = max(a.type.lanes, b.type.lanes)
        return (self.f.splat(a, lanes), self.f.splat(b, lanes)) if lanes else (a, b)

    def position(self, v: LoopVar, copy: int) -> Val:
        """The value of a loop variable: a scalar, or a vector along the lanes."""
        index = self.levels.indices[v]
        vector = self.vector
        if vector is None or v is not vector.variable:
            return index
        key = ("position", v, copy)
        places = self.levels.find(key)
        if places is None:
            steps = list(range(copy * vector.lanes, (copy + 1) * vector.lanes))
            with self.levels.at(self.levels.level_of[v]):
                places = self.levels.remember(key, self.f.add(const_vector(I64, steps), index))
        return places

    # addresses

    def pointer(self, t: Tensor, address: Affine) -> Val:
        """The address for the first lane of the first copy, summed level by level, outermost first.

        Terms along the lanes that are not contiguous, and computed indices that vary along them, are left to the caller.
        Variables that are not bound yet are left out, which gives the part of an address that can be made early. In a copy of what windows
        see, those of variables that are numbers come last: its taps have all else in common.
        """
        vector = None if self.vector is None else self.vector.variable
        byterm: dict[int, list[tuple[DagNode | LoopVar | Val, Size]]] = {}
        fixed_part, steps = self.sizes.stepped(address.offset)
        fixed_part = fixed_part + sum(self.steps_further[v] * c for v, c in address.terms if v in self.steps_further)
        if steps:
            byterm[self.levels.step_depth((address.offset,))] = [*steps]
        numbers: list[tuple[Val, Size]] = []
        is_copy = self.memory.is_padded(t)
        for v, c in address.terms:
            c = self.sizes.coefficient(c)
            if (v is vector and c != 1) or v not in self.levels.level_of:
                continue
            if is_copy and self.levels.indices[v].number is not None and not isinstance(c, int):
                numbers.append((self.levels.indices[v], c))
            elif c != 0:
                byterm.setdefault(max(self.levels.level_of[v], self.levels.step_depth((c,))), []).append((v, c))
        for n, c in address.lets:
            if not self.varies(n) and all(v in self.levels.level_of for v in n.domain):
                byterm.setdefault(max(self.levels.depth(n), self.levels.step_depth((c,))), []).append((n, c))
        element = elementwise.memory_type(t.dtype)
        pointer = self.memory.base(t)
        key: tuple[Any, ...] = ("address", t, vector)
        if not isinstance(fixed_part, int):
            byterm.setdefault(0, [])
        row = max(
            (self.levels.level_of[v] for v, _ in address.terms if v in self.levels.level_of and v is not vector),
            default=0,
        )
        for depth in sorted(byterm):
            fixed = fixed_part if depth == min(byterm) and not isinstance(fixed_part, int) else 0
            key = (*key, depth, fixed, tuple((x, c) for x, c in byterm[depth]))
            known = self.levels.find(key)
            if known is None:
                with self.levels.at(depth):
                    parts = [(self.term(x), c) for x, c in byterm[depth]]
                    known = self.f.gep(pointer, self.sizes.offset(parts, fixed), element)
                    if is_copy and depth == row and t in self.apart:
                        known = self.f.opaque(known)
                    self.levels.remember(key, known)
            pointer = known
        if numbers:
            pointer = self.f.gep(pointer, self._offset_of(numbers), element)
        return self.f.gep(pointer, fixed_part, element) if isinstance(fixed_part, int) else pointer

    def _offset_of(self, numbers: Sequence[tuple[Val, Size]]) -> Val:
        """A sum of numbers times sizes, as far out as the sizes are known."""
        key = ("offset", *((n.number, c) for n, c in numbers))
        known = self.levels.find(key)
        if known is None:
            with self.levels.at(self.levels.step_depth([c for _, c in numbers])):
                known = self.levels.remember(key, self.sizes.offset([*numbers]))
        return known

    def term(self, x: DagNode | LoopVar | Val) -> Val:
        return x if isinstance(x, Val) else self.levels.indices[x] if isinstance(x, LoopVar) else self.of(x)

    def form_of_lanes(self, address: Affine) -> str:
        """Describes how the lanes lie: "contiguous", "same" or "strided"."""
        assert self.vector is not None
        c = self.sizes.coefficient(address.coefficient(self.vector.variable))
        if c in (0, 1) and not any(self.varies(n) for n, _ in address.lets):
            return "contiguous" if c == 1 else "same"
        return "strided"

    def lane_offsets(self, address: Affine, copy: int) -> tuple[str, Val | None]:
        """Describes how the lanes lie: ("contiguous", None), ("same", None) or ("strided", offsets in elements)."""
        form = self.form_of_lanes(address)
        return form, self.strided_offsets(address, copy) if form == "strided" else None

    def strided_offsets(self, address: Affine, copy: int) -> Val:
        """How many elements each lane is from the address."""
        assert self.vector is not None
        v = self.vector.variable
        c = self.sizes.coefficient(address.coefficient(v))
        parts = [(self.of(n, copy), k) for n, k in address.lets if self.varies(n)]
        if c == 1:
            steps = list(range(copy * self.vector.lanes, (copy + 1) * self.vector.lanes))
            parts.append((const_vector(I64, steps), 1))
        elif c != 0:
            parts.append((self.position(v, copy), c))
        return self.sizes.offset(parts)

    @contextmanager
    def within(self, windows: dict[tuple[Access, int], Window]) -> Iterator[None]:
        """Code in which loads read windows."""
        outer, self.windows = self.windows, windows
        yield
        self.windows = outer

    # masks

    def mask(self, copy: int) -> Val | None:
        return None if self.vector is None else self.vector.masks[copy]

    def conjunction(self, a: Val | None, b: Val | None) -> Val | None:
        if a is None or b is None:
            return a if b is None else b
        lanes = max(a.type.lanes, b.type.lanes)
        return self.f.and_(*(self.f.splat(x, lanes) if lanes else x for x in (a, b)))

    def index_value(self, i: Affine, copy: int) -> Val:
        parts = [(self.position(v, copy), c) for v, c in i.terms] + [(self.of(n, copy), c) for n, c in i.lets]
        return self.sizes.offset(parts, i.offset)

    @contextmanager
    def held(self, bounds: set[IndexBound]) -> Iterator[None]:
        """Code inside of a test, where loads need no mask for these bounds."""
        self.holding |= bounds
        yield
        self.holding -= bounds

    def inside(self, bounds: Sequence[IndexBound], copy: int) -> Val | None:
        """Tests 0 <= index < extent for all bounds; None if there are none."""
        return lanes_inside(self, bounds, copy)

    def check(self, access: Access, copy: int) -> None:
        """Ends the kernel where a computed index is out of range."""
        check_access(self, access, copy)

    # memory

    def store(self, access: Access, value: Val, copy: int) -> None:
        f = self.f
        self.check(access, copy)
        dtype = access.tensor.dtype
        pointer = self.pointer(access.tensor, access.address)
        raw = elementwise.store_value(f, dtype, value)
        vector = self.vector
        if vector is None or vector.variable not in access.domain:
            f.store(raw, pointer)
            return
        raw = f.splat(raw, vector.lanes)
        form, offsets = self.lane_offsets(access.address, copy)
        mask = self.mask(copy)
        if form == "contiguous":
            at = copy * vector.lanes
            if mask is None:
                f.store(raw, pointer, at)
            else:
                f.masked_store(raw, pointer, mask, at)
            return
        offsets = offsets if offsets is not None else f.splat(0, vector.lanes, I64)
        f.scatter(raw, pointer, offsets, mask)

    # scratch

    def from_buffer(self, buffer: Buffer, n: DagNode, copy: int) -> Val:
        element = elementwise.memory_type(n.dtype)
        if buffer.width == 1:
            access = Access(buffer.tensor, buffer.address)
            return self._unmasked(access, n, copy, buffer.exact)
        pointer = self.pointer(buffer.tensor, buffer.address)
        lanes = self.lanes_of(True)
        raw = self.f.load(pointer, element.vector(lanes), copy * lanes)
        return elementwise.load_value(self.f, n.dtype, raw)

    def _unmasked(self, access: Access, n: DagNode, copy: int, exact: bool) -> Val:
        varies = self.varies(n)
        if exact or not varies or self.sizes.coefficient(access.address.coefficient(self._lane_variable())) != 1:
            return load(self, access, copy, varies)
        pointer = self.pointer(access.tensor, access.address)
        lanes = self.lanes_of(True)
        type_ = elementwise.memory_type(n.dtype).vector(lanes)
        return elementwise.load_value(self.f, n.dtype, self.f.load(pointer, type_, copy * lanes))

    def to_buffer(self, buffer: Buffer, n: DagNode, copy: int) -> None:
        raw = elementwise.store_value(self.f, n.dtype, self.of(n, copy))
        pointer = self.pointer(buffer.tensor, buffer.address)
        vector = self.vector
        if vector is None:
            self.f.store(raw, pointer)
        elif buffer.width > 1 or (
            not buffer.exact and self.sizes.coefficient(buffer.address.coefficient(vector.variable)) == 1
        ):
            self.f.store(self.f.splat(raw, vector.lanes), pointer, copy * vector.lanes)
        else:
            self.store(Access(buffer.tensor, buffer.address), self.of(n, copy), copy)

    def _lane_variable(self) -> LoopVar:
        assert self.vector is not None
        return self.vector.variable
