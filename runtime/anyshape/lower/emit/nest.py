"""Loops around a body that carries sums: nests of them, shares of parts, and whole vectors with a masked rest.

In: loop variables, the one that runs along the lanes, how many vectors a block has, accumulators, a body. Out: instructions, and the
accumulators after the last turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anyshape.equations import Tensor
from anyshape.lower.emit.scope import Iteration
from anyshape.lower.emit.value import Values, Vector
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I32, I64, Val, const

if TYPE_CHECKING:
    from anyshape.lower.emit.empty_loops import Spans

Sums = list[list[Val]]
"""Per reduction, one accumulator per copy."""

Body = Callable[[Sums], Sums]
WRITTEN_OUT = 4
"""Turns of an innermost loop that are no loop: pairs of a complex number, corners of a box, channels of a picture, for which counting would
cost as much as a turn."""

Range = tuple[Val, Val]


class Nests(Values):
    """`part` of `nparts` is written for; `element_bytes` says how many lanes a vector has."""

    def __init__(self, f: FunctionBuilder, tensors: dict[Tensor, int]) -> None:
        super().__init__(f, tensors)
        self.element_bytes = 4
        self.part, self.nparts = f.args[3], f.args[4]

    def nest(
        self,
        variables: Sequence[LoopVar],
        vector: LoopVar | None,
        tiers: Sequence[int],
        sums: Sums,
        body: Body,
        split: bool = False,
        spans: Spans | None = None,
    ) -> Sums:
        """Loops over the variables, outermost first, around the body; accumulators are carried through all of them."""
        if not variables:
            return body(sums)
        v = variables[0]
        if v is vector:
            range_ = self.vector_share(v, tiers, split) if spans is None else spans.of(v)
            return self.vector_range(v, tiers, range_, sums, body)
        whole = (const(I64, 0), self.size(v.extent)) if spans is None else spans.of(v)
        few = 0 if split or len(variables) > 1 else self._written_out(whole)
        if few:
            for index in range(few):
                with self.section():
                    self.bind(v)
                    self.indices[v] = const(I64, index)
                    sums = body(sums)
            return sums
        first, last = self.part_of(whole[1], 1) if split else whole
        with self.loop(first, last, 1, _flat(sums)) as iteration:
            self.turn_of(v, iteration.index)
            inner = self.nest(variables[1:], vector, tiers, _shaped(iteration.carried, sums), body, spans=spans)
            iteration.next(_flat(inner))
        return _shaped(iteration.results, sums)

    def _written_out(self, range_: Range) -> int:
        """A few last turns around vectors, or 0: what they have in common, a byte of several codes, say, is then read once."""
        first, last = range_
        turns = 0 if last.number is None or first.number != 0 else int(last.number)
        return turns if self.vector is not None and turns <= WRITTEN_OUT else 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What is emitted inside is not shared out: every part that comes by does all of it."""
        outer = self.part, self.nparts
        self.part, self.nparts = const(I64, 0), const(I64, 1)
        yield
        self.part, self.nparts = outer

    def part_of(self, extent: Val, block: int) -> Range:
        """This part's share of a loop, in whole blocks."""
        f = self.f
        if self.nparts.number == 1:
            return const(I64, 0), extent
        part, nparts = self.part, self.nparts
        blocks = f.ceil_div(extent, block)
        first = f.binary("udiv", f.mul(blocks, part), nparts)
        last = f.binary("udiv", f.mul(blocks, f.add(part, 1)), nparts)
        return f.mul(first, block), f.smin(f.mul(last, block), extent)

    def vector_loop(self, v: LoopVar, tiers: Sequence[int], sums: Sums, body: Body, split: bool) -> Sums:
        """Blocks of `tiers` vectors, largest first, then what is left in masked single vectors.

        One masked vector at most is left if the last tier is 1. Where blocks are large since what they carry is little and waits
        for itself (sums), several vectors that are left are one masked block.
        """
        return self.vector_range(v, tiers, self.vector_share(v, tiers, split), sums, body)

    def vector_share(self, v: LoopVar, tiers: Sequence[int], split: bool) -> Range:
        """What this part has of the loop, if it is shared out."""
        lanes, extent = self.f.target.lanes(self.element_bytes), self.size(v.extent)
        return self.part_of(extent, tiers[0] * lanes if tiers else lanes) if split else (const(I64, 0), extent)

    def vector_range(self, v: LoopVar, tiers: Sequence[int], range_: Range, sums: Sums, body: Body) -> Sums:
        """Blocks and masked rest of `vector_loop`, over a range of the variable."""
        f = self.f
        lanes = f.target.lanes(self.element_bytes)
        first, last = range_
        at_once = tiers[-1] if len(tiers) > 1 and not sums and f.target.masks else 1
        tiers = [t for t in tiers if not isinstance(v.extent, int) or t * lanes <= v.extent]
        depth = self._known_since(v, range_)
        with self.at(depth):
            start, count = first, f.sub(last, first)
            stops = [f.add(start, f.and_(count, -copies * lanes)) for copies in tiers]
        for copies, stop in zip(tiers, stops, strict=True):
            part = [s[:copies] for s in sums]
            with self.loop(first, stop, copies * lanes, _flat(part)) as iteration:
                out = self._block(v, iteration.index, (None,) * copies, _shaped(iteration.carried, part), body, lanes)
                iteration.next(_flat(out))
            sums = _replaced(sums, _shaped(iteration.results, part))
            first = stop
        if at_once > 1:
            first = self._rest_at_once(v, (first, last), at_once, body)
        part = [s[:1] for s in sums]
        once = bool(tiers) and tiers[-1] == 1
        with self._rest(first, last, lanes, _flat(part), once) as (iteration, index):
            with self.at(depth if once else len(self.levels) - 1):
                left = f.smin(f.sub(last, index), lanes)
                mask = f.tail_mask(f.convert("trunc", left, I32), lanes)
            out = self._block(v, index, (mask,), _shaped(iteration.carried, part), body, lanes)
            iteration.next(_flat(out))
        return _replaced(sums, _shaped(iteration.results, part))

    def _rest_at_once(self, v: LoopVar, range_: Range, copies: int, body: Body) -> Val:
        """More than one vector and less than a block; where the loop over single ones begins."""
        f, lanes = self.f, self.f.target.lanes(self.element_bytes)
        first, last = range_
        left = f.sub(last, first)
        several = f.compare("gt", left, lanes)
        with self.when(several):
            count = f.convert("trunc", left, I32)
            masks = tuple(f.tail_mask(count, lanes, copy * lanes) for copy in range(copies))
            self._block(v, first, masks, [], body, lanes)
        return f.select(several, last, first)

    def _known_since(self, v: LoopVar, range_: Range) -> int:
        """The outermost level at which both ends exist: those of a whole row are the same for all rows."""
        first, last = range_
        whole = first.number == 0 and last == self.size(v.extent)
        return self.step_depth((v.extent,)) if whole else len(self.levels) - 1

    @contextmanager
    def _rest(
        self, first: Val, last: Val, lanes: int, carried: Sequence[Val], once: bool
    ) -> Iterator[tuple[Iteration, Val]]:
        if once:
            with self.when(self.f.compare("lt", first, last), carried) as iteration:
                yield iteration, first
        else:
            with self.loop(first, last, lanes, carried) as iteration:
                yield iteration, iteration.index

    def _block(self, v: LoopVar, index: Val, masks: tuple[Val | None, ...], sums: Sums, body: Body, lanes: int) -> Sums:
        self.turn_of(v, index)
        outer, self.vector = self.vector, Vector(v, lanes, masks)
        out = body(sums)
        self.vector = outer
        return out


def _flat(sums: Sums) -> list[Val]:
    return [v for s in sums for v in s]


def _shaped(values: Sequence[Val], like: Sums) -> Sums:
    rest = iter(values)
    return [[next(rest) for _ in s] for s in like]


def _replaced(sums: Sums, part: Sums) -> Sums:
    return [[*new, *old[len(new) :]] for old, new in zip(sums, part, strict=True)]
