"""Scopes and steps of the schedule tree as code: versions, accumulators, what is kept in scratch. `emit/nest` has the loops.

In: a `Scope`. Out: instructions. A vector variable that is shared makes everything inside vertical (values are blocks of
vectors); otherwise each inner loop runs along its own vector variable and ends its reductions with one across the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import cost
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.choices import chosen_store, emit_choices
from anyshape.lower.emit.empty_loops import spans_of
from anyshape.lower.emit.nest import Nests, Sums
from anyshape.lower.emit.reduction import accumulate, extreme, finish
from anyshape.lower.emit.row_blocks import Fetch, emit_in_blocks, runs_in_blocks
from anyshape.lower.emit.value import Buffer
from anyshape.lower.ir.dag import DagNode, Load, LoopVar, Operation, Reduction, affine, walk
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I1, I64, Val, const
from anyshape.lower.schedule.tree import Loop, Scope, bodies_of, loops_of, run_time_coefficients

LIGHT = 8
"""Cycles per vector of a map that is little more than a copy: what is left of a row after whole blocks counts."""


class Rows(Nests):
    """The emitter of one kernel's scopes."""

    def __init__(self, f: FunctionBuilder, tensors: dict[Tensor, int]) -> None:
        super().__init__(f, tensors)
        self.scratch: Size = 0
        self.filling: dict[DagNode, Buffer] = {}
        self.fetched: dict[Loop, list[Fetch]] = {}

    # scopes

    def top(self, scope: Scope) -> None:
        """A scope whose outermost loop is split over the parts; a run-time coefficient of a vector has a version each for 1 and 0."""
        choices = run_time_coefficients(scope)[:2]
        self._versions(scope, choices)

    def _versions(self, scope: Scope, choices: list[Size]) -> None:
        if not choices:
            self.scope(scope, split=True)
            return
        c, rest = choices[0], choices[1:]
        low, high = dims.bounds(c)
        is_one = self.f.compare("eq", self.size(c), 1)
        with self.when(is_one):
            self.assumed[c] = 1
            self._versions(scope, rest)
        is_other = self.f.not_(is_one)
        if (low, high) == (0, 1):
            with self.when(is_other):
                self.assumed[c] = 0
                self._versions(scope, rest)
            del self.assumed[c]
            return
        is_zero = self.f.compare("eq", self.size(c), 0)
        with self.when(is_zero):
            self.assumed[c] = 0
            self._versions(scope, rest)
        del self.assumed[c]
        with self.when(self.f.and_(is_other, self.f.not_(is_zero))):
            self._versions(scope, rest)

    def scope(self, scope: Scope, split: bool = False) -> None:
        if not scope.variables and split:
            with self.when(self.f.compare("eq", self.part, 0)):
                self.steps(scope)
            return
        if runs_in_blocks(self, scope):
            emit_in_blocks(self, scope, split)
            return

        def body(sums: Sums) -> Sums:
            self.steps(scope)
            return sums

        tiers = self._vertical_tiers(scope) if scope.vector is not None else ()
        chosen = chosen_store(self, scope)
        if chosen is not None:
            emit_choices(self, scope, chosen, tiers, split)
            return

        def rows() -> None:
            self.nest(scope.variables, scope.vector, tiers, [], body, split)

        alone = self._perhaps_alone(scope)
        if alone is None:
            rows()
            return
        one = self.f.compare("eq", self.size(alone.extent), 1)
        with self.when(one):
            self.bind(alone)
            self.indices[alone], self.assumed[alone.extent] = const(I64, 0), 1
            self.nest(scope.variables[:-1], scope.variables[-2], (1,), [], body, split)
            del self.assumed[alone.extent]
        with self.when(self.f.not_(one)):
            rows()

    def _perhaps_alone(self, scope: Scope) -> LoopVar | None:
        """The variable of rows that data picks, one by one, and that may turn out to have one element: lanes then run over the rows."""
        loop = scope.steps[0] if len(scope.steps) == 1 else None
        if not isinstance(loop, Loop) or loop.variables or loop.reductions or loop.keep or scope.fills:
            return None
        if self.vector is not None or len(scope.variables) < 2 or scope.variables[-1] is not scope.vector:
            return None
        along, down = scope.variables[-1], scope.variables[-2]
        lets = [n.access.address.lets for n in below(loop.stores) if isinstance(n, Load)]
        picks = [own for own in lets if any(down in let.domain for let, _ in own)]
        by_row = picks and not any(along in let.domain for own in picks for let, _ in own)
        return along if by_row and dims.bounds(along.extent)[1] != dims.bounds(along.extent)[0] else None

    def steps(self, scope: Scope) -> None:
        for step in scope.steps:
            if isinstance(step, Loop):
                self.loop_step(step)
            else:
                buffers = [(s.node, self.allocate(s.node, s.variables)) for s in step.fills]
                self.filling.update(buffers)
                self.scope(step)
                for node, buffer in buffers:
                    self.levels[-1].buffers[node] = buffer
                self.forget_depths()
        for t in scope.fills:
            for copy in range(self.vector.copies if self.varies(t.node) and self.vector else 1):
                self.to_buffer(self.filling[t.node], t.node, copy)

    def allocate(self, node: DagNode, variables: tuple[LoopVar, ...]) -> Buffer:
        """Row scratch for a node; inside a vertical scope every element is a whole block of vectors."""
        vertical = self.vector is not None
        width = self.vector.lanes * self.vector.copies if self.vector is not None else 1
        own = [v for v in variables if not (vertical and self.vector and v is self.vector.variable)]
        stride: Size = width
        terms: list[tuple[LoopVar, Size]] = []
        for v in reversed(own):
            terms.append((v, stride))
            stride = stride * v.extent
        tensor = self.reserve(node.dtype, stride)
        return Buffer(tensor, affine(terms, 0), width)

    def reserve(self, dtype: DType, elements: Size) -> Tensor:
        """A piece of scratch, 64-byte aligned, with room for a block of vectors past its end."""
        tensor = Tensor(f"scratch{len(self.offsets)}", dtype, (elements,))
        size = elementwise.memory_type(dtype).bytes
        self.offsets[tensor] = self.scratch
        slack = self.f.target.vector_bytes * 4 + 63
        self.scratch = self.scratch + (elements * size + slack) // 64 * 64
        return tensor

    def place(self, t: Tensor) -> None:
        """Scratch for a tensor that lives between phases."""
        elements: Size = 1
        for n in t.shape:
            elements = elements * n
        self.offsets[t] = self.offsets.pop(self.reserve(t.dtype, elements))

    def _vertical_tiers(self, scope: Scope) -> tuple[int, ...]:
        """Vectors per block: as many as registers allow where the body is small, few where it is long."""
        loops = list(loops_of(scope))
        inner = frozenset(scope.variables).union(*(s.variables for s in loops))
        count = max((len(s.reductions) for s in loops), default=0)
        if count == 0:
            heavy = max((cost(n, inner) for s in loops for n in bodies_of(s)), default=1)
            return (2,) if heavy >= 40 else (4, 1) if heavy <= LIGHT else (4,)
        # what is done once with the sums may be long: the turns of the sums are what takes time
        heavy = max(cost(n, inner) for s in loops if s.reductions for n in bodies_of(s))
        block = 16 if heavy <= 5 else 8 if heavy <= 9 else 4 if heavy < 20 else 2
        while block > 1 and block * count > self.f.target.vector_registers // 2:
            block //= 2
        return (block, 4) if block > 4 else (block,)

    # one loop step

    def loop_step(self, step: Loop, keeps: list[tuple[DagNode, Buffer]] | None = None) -> None:
        """Inner loops that accumulate, store and keep, in scratch of their own unless some is given."""
        if keeps is None:
            keeps = [(n, self.allocate(n, step.variables)) for n in step.keep]
        if self.vector is not None or step.vector is None:
            copies = self.vector.copies if self.vector is not None else 1
            sums = [self._start(r, copies) for r in step.reductions]
            sums = self.nest(
                step.variables, None, (), sums, lambda s: self._turn(step, s, keeps), spans=spans_of(self, step)
            )
            for r, accumulators in zip(step.reductions, sums, strict=True):
                for copy, value in enumerate(accumulators):
                    self.remember((r, copy if self.varies(r) else -1), value)
        else:
            self._horizontal(step, keeps)
        for n, buffer in keeps:
            self.levels[-1].buffers[n] = buffer
        self.forget_depths()

    def _horizontal(self, step: Loop, keeps: list[tuple[DagNode, Buffer]]) -> None:
        lanes = self.f.target.lanes(self.element_bytes)
        heavy = sum(cost(n, frozenset(step.variables)) for n in bodies_of(step))
        unroll = 2 if heavy >= 40 else 4
        tiers = (unroll, 1) if step.reductions else (unroll,)
        watched = [r for r in step.reductions if r.kind in ("max", "min") and r.dtype.is_float]
        sums = [self._start(r, unroll, lanes) for r in step.reductions]
        sums += [[const(I1.vector(lanes), 0)] for _ in watched]

        def body(iteration: Sums) -> Sums:
            out = self._turn(step, iteration[: len(step.reductions)], keeps, watched)
            return out + [[self._watch(r, seen[0])] for r, seen in zip(watched, iteration[len(step.reductions) :])]

        sums = self.nest(step.variables, step.vector, tiers, sums, body, spans=spans_of(self, step))
        seen_nan = dict(zip(watched, sums[len(step.reductions) :]))
        for r, accumulators in zip(step.reductions, sums):
            seen = seen_nan[r][0] if r in seen_nan else None
            self.remember((r, -1), finish(self.f, r.kind, r.dtype, accumulators, seen))

    def _watch(self, r: Reduction, seen: Val) -> Val:
        """Whether a lane has met NaN: kept beside the extremes, since two vectors are tested by one comparison."""
        f = self.f
        copies = self.vector.copies if self.vector is not None else 1
        found = (elementwise.comparable(f, self.value(r.body, copy)) for copy in range(copies))
        values = [f.splat(value, seen.type.lanes) for value in found]
        for i in range(0, copies, 2):
            nan = f.fcmp("uno", values[i], values[min(i + 1, copies - 1)])
            mask = self.mask(i)
            seen = f.or_(seen, nan if mask is None else f.and_(nan, mask))
        return seen

    def _start(self, r: Reduction, copies: int, lanes: int = 0) -> list[Val]:
        lanes = lanes or self.lanes_of(self.varies(r))
        first = elementwise.literal(r.dtype, neutral(r.kind, r.dtype))
        first = self.f.splat(first, lanes) if lanes else first
        return [first] * (copies if self.varies(r) or lanes else 1)

    def _turn(
        self, step: Loop, sums: Sums, keeps: list[tuple[DagNode, Buffer]], watched: Sequence[Reduction] = ()
    ) -> Sums:
        """The innermost body: all copies of every value, then keeps, stores and accumulators."""
        copies = self.vector.copies if self.vector is not None else 1
        out: Sums = []
        self._fetch_ahead(step, copies)
        for n, buffer in keeps:
            for copy in range(copies if self.varies(n) else 1):
                self.to_buffer(buffer, n, copy)
        for r, accumulators in zip(step.reductions, sums, strict=True):
            plain = r in watched
            out.append([self.accumulate(r, a, copy, plain) for copy, a in enumerate(accumulators)])
        for s in step.stores:
            at_once = 1 if self._tested_by_vector(s.value) else copies
            for first in range(0, copies, at_once):
                values = [self.value(s.value, copy) for copy in range(first, first + at_once)]
                for copy, value in enumerate(values, first):
                    self._store(s, value, copy)
        return out

    def _tested_by_vector(self, n: DagNode) -> bool:
        """Whether every vector has a test of its own: what waited for those of all, until it is stored, would be computed after them."""
        bounds = [b for m in walk([n]) if isinstance(m, Load) for b in m.access.checks]
        nodes = [m for b in bounds for m in (*(let for let, _ in b.index.lets), b.guard) if m is not None]
        return any(self.varies(m) for m in nodes)

    def _fetch_ahead(self, step: Loop, copies: int) -> None:
        """Asks for memory that other loops will touch, while this one computes; once for a whole block of vectors."""
        if copies == 1 or self.vector is None:
            return
        for fetch in self.fetched.get(step, ()):
            element = elementwise.memory_type(fetch.access.tensor.dtype)
            pointer = self.pointer(fetch.access.tensor, fetch.access.address)
            if fetch.elements is not None:
                pointer = self.f.gep(pointer, fetch.elements, element)
            for at in range(0, copies * self.vector.lanes, self.f.target.line_bytes // element.bytes):
                self.f.prefetch(self.f.gep(pointer, at, element), fetch.to_write)

    def _store(self, s: Store, value: Val, copy: int) -> None:
        self.store(s.access, value, copy)

    def accumulate(self, r: Reduction, accumulator: Val, copy: int, plain: bool = False) -> Val:
        """One step of a reduction; lanes that do not exist contribute nothing. `plain`: NaN is looked after elsewhere."""
        kind, body = r.kind, r.body
        mask = self.mask(copy) if self.vector is not None and self.vector.variable in r.variables else None
        product = kind == "sum" and body.dtype.is_float and body.dtype.bits >= 32
        if product and isinstance(body, Operation) and body.name == "mul" and self.find((body, copy)) is None:
            x, y = (
                self.f.splat(self.value(a, copy), accumulator.type.lanes)
                if accumulator.type.lanes
                else self.value(a, copy)
                for a in body.args
            )
            total = self.f.fma(x, y, accumulator)
        else:
            value = self.value(body, copy)
            if accumulator.type.lanes:
                value = self.f.splat(value, accumulator.type.lanes)
            step = extreme if plain else accumulate
            total = step(self.f, kind, r.dtype, accumulator, value)
        return total if mask is None else self.f.select(mask, total, accumulator)
