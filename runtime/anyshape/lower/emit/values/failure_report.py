"""Failure reports as code: the index that is out of range, and the elements that it was computed from.

In: a check that fails, in a block that is laid out of the way. Out: the code that fills the words of `anyshape.failure_report` and ends the
kernel. It uses values that exist where the check is, and computes nothing but places from them, so that nothing is done, or kept, for it
where all checks hold; an element whose value no longer exists is not reported. Of a vector, the first lane that fails is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyshape.dims import Dim, Size, free_symbols
from anyshape.dtypes import F64, DType
from anyshape.dtypes import I64 as INT64
from anyshape.equations import Tensor
from anyshape.failure_report import MOST_ELEMENTS, FailureReport
from anyshape.lower.emit.values import elementwise
from anyshape.lower.ir.dag import Affine, DagNode, Load, LoopVar, walk
from anyshape.lower.llvm.types import I32, I64, PTR, Val, const, const_vector

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values
    from anyshape.lower.llvm.builder import FunctionBuilder, Module

Element = tuple[Val, Val] | None
"""The number of an element in its tensor and the word for its value; None where they do not exist."""


def loads_below(roots: Sequence[DagNode]) -> list[Load]:
    """The loads that values are computed from, those nearest to them first."""
    return [n for n in reversed(walk(roots)) if isinstance(n, Load)]


class ReportedElements:
    """The tensors of which a failure report has an element: `tensors` by number of the error, the same wherever the error is checked.

    Elements of tensors that nobody named are not reported, nor of tensors with sizes that the kernel itself computes.
    """

    def __init__(self, unnamed: frozenset[Tensor], computed: frozenset[Dim]) -> None:
        self.tensors: dict[int, tuple[Tensor, ...]] = {}
        self._unnamed, self._computed = unnamed, computed

    def loads(self, error: int, loads: Sequence[Load]) -> list[Load]:
        """The loads that are reported with an error, one for each tensor."""
        by_tensor: dict[Tensor, Load] = {}
        for n in loads:
            if self._is_known(n.access.tensor):
                by_tensor.setdefault(n.access.tensor, n)
        tensors = tuple(by_tensor)[:MOST_ELEMENTS]
        return [by_tensor[t] for t in tensors] if self.tensors.setdefault(error, tensors) == tensors else []

    def _is_known(self, t: Tensor) -> bool:
        return t not in self._unnamed and not any(self.is_computed(n) for n in t.shape[1:])

    def is_computed(self, n: Size) -> bool:
        """Whether the kernel itself computes a size."""
        return bool(free_symbols(n) & self._computed)


def refuse_index(
    values: Values, error: int, index: DagNode | Affine | Val, loads: Sequence[Load], copy: int, ok: Val
) -> None:
    """Ends the kernel at an index; `ok` says of which lanes it is in range."""
    place = _FailingLane(values, copy, ok)
    refuse(values.f, error, [place.element(n) for n in values.reported.loads(error, loads)], place.index(index))


def refuse(f: FunctionBuilder, error: int, elements: Sequence[Element], index: Val | None = None) -> None:
    """Ends the kernel by a call, so that the code of the report is not between checks."""
    none = const(I64, 0)
    present = sum(1 << k for k, e in enumerate(elements) if e is not None)
    words = [none if index is None else index, *(w for e in elements for w in (e or (none, none)))]
    name = f"tell_{len(elements)}"
    if not f.module.has(name):
        _define_report(f.module, name, len(elements))
    f.ret(f.call(name, I32, [f.args[0], f.args[3], const(I64, error), const(I64, present), *words]))


def _define_report(module: Module, name: str, elements: int) -> None:
    """Defines a function that fills the words, unless a lower part has, and returns the error as a kernel's status."""
    of_each = [(f"{what}{k}", I64) for k in range(elements) for what in ("place", "value")]
    arguments = [("scalars", PTR), *((n, I64) for n in ("part", "error", "told", "index")), *of_each]
    with module.function(name, I32, arguments, internal=True, inline=False, noalias=False, cold=True) as f:
        table, part, error, present, index, *rest = f.args
        words = {
            FailureReport.PART: f.add(part, 1),
            FailureReport.ERROR: error,
            FailureReport.ELEMENTS: present,
            FailureReport.INDEX: index,
        }
        again, mine = f.new_block(), f.new_block()
        f.jump(again)
        f.start(again)
        f.branch(f.compare_exchange(table, 0, 1, I64, FailureReport.LOCK), mine, again)
        f.start(mine)
        before = f.load(table, I64, FailureReport.PART)
        with f.if_(f.or_(f.compare("eq", before, 0), f.compare("lt", words[FailureReport.PART], before))):
            for at, word in words.items():
                f.store(word, table, at)
            for k in range(elements):
                f.store(rest[2 * k], table, FailureReport.element(k))
                f.store(rest[2 * k + 1], table, FailureReport.element(k) - 1)
        f.atomic_store(const(I64, 0), table, FailureReport.LOCK)
        f.ret(f.convert("trunc", error, I32))


def first_lane(f: FunctionBuilder, ok: Val) -> Val:
    """The number of the first lane that is false."""
    lanes = ok.type.lanes
    return f.reduce("umin", f.select(ok, const(I32.vector(lanes), lanes), const_vector(I32, list(range(lanes)))))


def word_of(f: FunctionBuilder, value: Val, dtype: DType) -> Val:
    """A scalar as a word of the report."""
    if dtype.is_float:
        return f.bitcast(elementwise.convert(f, value, dtype, F64), I64)
    return elementwise.convert(f, value, dtype, INT64)


class _FailingLane:
    """The place where a check fails: scalars of the first lane that does."""

    def __init__(self, values: Values, copy: int, ok: Val) -> None:
        self.values, self.copy = values, copy
        self.lane: Val | None = None
        if ok.type.lanes:
            self.lane = first_lane(values.f, ok)

    def element(self, load: Load) -> Element:
        value = self.node(load)
        if value is None:
            return None  # and no code of its place, whose loop may be over
        place = self.affine(load.access.address)
        return None if place is None else (place, word_of(self.values.f, value, load.dtype))

    def index(self, i: DagNode | Affine | Val) -> Val | None:
        return i if isinstance(i, Val) else self.affine(i) if isinstance(i, Affine) else self.node(i)

    def node(self, n: DagNode) -> Val | None:
        """Returns the value of a node, if it has one at this place of the code."""
        value = self.values.levels.find((n, self.copy if self.values.varies(n) else -1))
        if value is None or not value.type.lanes:
            return value
        if self.lane is None:
            return None
        f, lanes = self.values.f, value.type.lanes
        type_ = value.type if value.type.element == "i1" else value.type.as_int()
        mine = f.compare("eq", const_vector(I32, list(range(lanes))), f.splat(self.lane, lanes))
        alone = f.reduce("or", f.select(mine, f.bitcast(value, type_), const(type_, 0)))
        return f.bitcast(alone, value.type.scalar)

    def affine(self, a: Affine) -> Val | None:
        f = self.values.f
        parts = [(self.position(v), c) for v, c in a.terms] + [(self.node(n), c) for n, c in a.lets]
        known = [(value, c) for value, c in parts if value is not None]
        if len(known) < len(parts):
            return None  # and no code of those that exist, which may be of a loop that is over
        total = self.size(a.offset)
        for value, c in known:
            total = f.add(total, f.mul(value, self.size(self.values.sizes.coefficient(c))))
        return total

    def position(self, v: LoopVar) -> Val | None:
        values, f = self.values, self.values.f
        index, vector = values.levels.indices.get(v), values.vector
        if index is None or v not in values.levels.level_of:
            return None
        if vector is None or v is not vector.variable:
            return index
        return (
            None
            if self.lane is None
            else f.add(f.add(index, self.copy * vector.lanes), f.convert("zext", self.lane, I64))
        )

    def size(self, s: Size) -> Val:
        """The value of a size, loaded here unless it exists."""
        if isinstance(s, int):
            return const(I64, s)
        sizes, f = self.values.sizes, self.values.f
        known = self.values.levels.find(("scalar", s))
        if known is not None:
            return known
        rest, steps = sizes.stepped(s)
        if not steps:
            return sizes.load(s)
        total = self.size(rest)
        for value, c in steps:
            total = f.add(total, f.mul(value, self.size(c)))
        return total
