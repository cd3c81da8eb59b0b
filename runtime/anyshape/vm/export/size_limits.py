"""Limits of sizes that only a run tells: the most that a register of a program can hold, by the dims of the arguments.

In: what is known of a program before it runs. Out: for each region the most bytes that an instruction demands of it, as an expression of
registers that dims alone decide; or nothing, where elements decide without a limit.

A register that several instructions write, as the size of a value that a loop carries, is limited where each of them writes something
limited, or adds something limited to the register itself in a loop of limited iterations; of registers that are written of each other, as
those of loops within loops, all count as one. The iterations of a loop are limited where its
counter, which each one raises, is compared with something limited before the rest of it runs. Nothing is assumed of the order of writes:
the limit holds for the largest number that the register has had so far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from anyshape.dims import Dim, NestedTooDeep, Size, bounds, floordiv, maximum, minimum, substitute, symbol
from anyshape.vm.export.entry_knowledge import EntryKnowledge, KnownInstruction
from anyshape.vm.export.register_values import Content, number_of
from anyshape.vm.program.table import ELEMENTS, Op

_TRUTHS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.AND, Op.OR, Op.NOT})
_JUMPS = frozenset({Op.JUMP, Op.UNLESS})


@dataclass(frozen=True, slots=True)
class _UpperLimit:
    """Upper limit: at most `size`; or, with `own`, at most so much more than a register of a group has held."""

    size: Size
    own: bool = False


@dataclass(frozen=True, slots=True)
class _ProgramLoop:
    """Words of a loop, from the one that its last instruction, a jump, goes back to."""

    first: int
    last: int

    def has(self, step: KnownInstruction) -> bool:
        return self.first <= step.word <= self.last


class SizeLimits:
    """Limits of the registers of one program. `values`: what is known of its registers, as expressions of the caller's dims."""

    def __init__(self, known: EntryKnowledge, values: Mapping[int, Content]) -> None:
        self.known = known
        self.symbols: dict[Dim, int] = {}
        """The known registers that limits are expressions of."""
        self._values, self._by_register = values, dict[int, Size]()
        self._writers: dict[int, list[KnownInstruction]] = defaultdict(list)
        for step in known.steps:
            if step.op.writes:
                self._writers[step["d"]].append(step)
        self._limits: dict[int, Size | None] = {}
        self._terms: dict[tuple[int, frozenset[int], frozenset[int]], _UpperLimit | None] = {}
        self._open: frozenset[int] = frozenset()
        """The registers of several writers whose limits are asked for: a limit that depends on itself is none."""
        self._sources: dict[int, frozenset[int]] = {}
        self._regular: dict[_ProgramLoop, list[KnownInstruction]] = {}
        self._loops = [
            _ProgramLoop(step["to"], step.word) for step in known.steps if step.op in _JUMPS and step["to"] <= step.word
        ]

    def regions(self) -> dict[int, Size] | None:
        """The most bytes that are demanded of each region, without padding; None where one has no limit."""
        limits: dict[int, Size] = {}
        try:
            for region, sizes in self.known.demands().items():
                of_each = [self._limit(k) for k in sizes]
                if None in of_each:
                    return None
                limits[region] = maximum(0, *(n for n in of_each if n is not None))
        except (NestedTooDeep, RecursionError):
            return None
        return limits

    def of_caller(self, limit: Size) -> Size:
        """A limit as an expression of the caller's dims."""
        return (
            substitute(limit, {s: number_of(self._values[k]) for s, k in self.symbols.items()})
            if isinstance(limit, Dim)
            else limit
        )

    # --- registers ---

    def _entry(self, k: int) -> Size:
        """The number of a register that dims alone decide."""
        if k not in self._by_register:
            value = number_of(self._values[k])
            low, high = bounds(value)
            self._by_register[k] = value if isinstance(value, int) else symbol(f"register{k}", low, high)
            if isinstance(value, Dim):
                self.symbols[self._by_register[k]] = k  # type: ignore[index]
        return self._by_register[k]

    def _limit(self, k: int) -> Size | None:
        term = self._term(k, frozenset())
        return None if term is None else term.size

    def _term(self, k: int, own: frozenset[int]) -> _UpperLimit | None:
        """The limit of a register, or what it has more than those of the group `own` at most."""
        if k in own:
            return _UpperLimit(0, own=True)
        if k in self.known.known:
            return _UpperLimit(self._entry(k))
        writers = self._writers[k]
        if len(writers) == 1:
            key = k, own, self._open
            if key not in self._terms:
                self._terms[key] = self._written(writers[0], own)
            return self._terms[key]
        limit = self._of_several(k)
        return None if limit is None else _UpperLimit(limit)

    def _of_several(self, k: int) -> Size | None:
        """The limit of a register that several instructions write."""
        if k in self._limits:
            return self._limits[k]
        if k in self._open:
            return None
        group = self._group(k)
        self._open |= group
        limit = self._largest(group)
        self._open -= group
        if limit is not None or not self._open:
            self._limits.update(dict.fromkeys(group, limit))
        return limit

    def _largest(self, group: frozenset[int]) -> Size | None:
        """The most that any register of a group holds."""
        largest: Size = 0
        growth: Size = 0
        for step in (step for k in sorted(group) for step in self._writers[k]):
            term = self._written(step, group)
            if term is None:
                return None
            if not term.own:
                largest = maximum(largest, term.size)
            elif term.size != 0:
                times = self._times(step)
                if times is None:
                    return None
                growth = growth + times * maximum(term.size, 0)
        return largest + growth

    def _group(self, k: int) -> frozenset[int]:
        """The registers of several writers that are written of a register, and it of them; itself among them."""
        return frozenset(j for j in self._read_for(k) if len(self._writers[j]) > 1 and k in self._read_for(j)) | {k}

    def _read_for(self, k: int) -> frozenset[int]:
        """The registers that a register is computed of, over all instructions."""
        if k not in self._sources:
            seen, open_ = set[int](), [k]
            while open_:
                read = {j for step in self._writers[open_.pop()] if step.op in _RULES for j in step.registers()}
                open_ += read - seen
                seen |= read
            self._sources[k] = frozenset(seen)
        return self._sources[k]

    def _written(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        """What an instruction writes at most."""
        if step.op in _TRUTHS or (step.op is Op.LOAD and ELEMENTS[step["of"]][0] == "bool"):
            return _UpperLimit(1)
        rule = _RULES.get(step.op)
        return None if rule is None else rule(self, step, own)

    def _added(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        a, b = self._term(step["a"], own), self._term(step["b"], own)
        return None if a is None or b is None or (a.own and b.own) else _UpperLimit(a.size + b.size, a.own or b.own)

    def _subtracted(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        a, b = self._term(step["a"], own), step["b"]
        if a is None:
            return None
        if b in self.known.known:
            return _UpperLimit(a.size - self._entry(b), a.own)
        return a if b in self._nonnegative else None

    def _multiplied(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        a, b = self._term(step["a"], own), self._term(step["b"], own)
        if a is None or b is None or a.own or b.own or not self._nonnegative.issuperset((step["a"], step["b"])):
            return None
        return _UpperLimit(a.size * b.size)

    def _divided(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        a, b = self._term(step["a"], own), step["b"]
        if a is None or a.own or b not in self.known.known:
            return None
        by = self._entry(b)
        return _UpperLimit(floordiv(a.size, by)) if (bounds(by)[0] or 0) > 0 else None

    def _least(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        terms = [t for t in (self._term(step["a"], own), self._term(step["b"], own)) if t is not None]
        fixed = [t.size for t in terms if not t.own]
        return _UpperLimit(reduce(minimum, fixed)) if fixed else terms[0] if terms else None

    def _greatest(self, step: KnownInstruction, own: frozenset[int]) -> _UpperLimit | None:
        """Limits the greater or the chosen one of two."""
        names = ("then", "other") if step.op is Op.SELECT else ("a", "b")
        a, b = (self._term(step[name], own) for name in names)
        if a is None or b is None:
            return None
        if a.own != b.own and not own <= self._nonnegative:
            return None
        return _UpperLimit(maximum(a.size, b.size), a.own or b.own)

    # --- what is at least 0 ---

    @cached_property
    def _nonnegative(self) -> frozenset[int]:
        """The registers that never hold less than 0: the largest set of which each instruction keeps it true."""
        held = {*self._writers}
        while True:
            lost = {
                step["d"]
                for step in self.known.steps
                if step.op.writes and step["d"] in held and not self._keeps(step, held)
            }
            if not lost:
                return frozenset(held)
            held -= lost

    def _keeps(self, step: KnownInstruction, held: set[int]) -> bool:
        if step["d"] in self.known.known:
            low, _ = bounds(number_of(self._values[step["d"]]))
            return low is not None and low >= 0
        if step.op is Op.MAX:
            return bool(held & {step["a"], step["b"]})
        if step.op is Op.MOD:
            return step["b"] in held
        if step.op is Op.SELECT:
            return held >= {step["then"], step["other"]}
        if step.op in (Op.ADD, Op.MUL, Op.MIN, Op.FLOORDIV):
            return held >= {step["a"], step["b"]}
        return step.op in _TRUTHS or (step.op is Op.LOAD and ELEMENTS[step["of"]][0] in ("bool", "u8", "u16", "u32"))

    # --- loops ---

    def _times(self, step: KnownInstruction) -> Size | None:
        """How often an instruction runs at most."""
        times: Size = 1
        for loop in self._loops:
            if loop.has(step):
                of_loop = self._iterations(loop, step)
                if of_loop is None:
                    return None
                times = times * of_loop
        return times

    def _iterations(self, loop: _ProgramLoop, step: KnownInstruction) -> Size | None:
        """How often a loop comes to an instruction at most, for each time that it is entered."""
        if self._is_entered_elsewhere(loop):
            return None
        for leave in self._each_time(loop):
            if leave.op is Op.UNLESS and leave["to"] > loop.last:
                for compared in self._conditions(leave["cond"], loop, leave):
                    limit = self._limit(compared["b"]) if self._is_counter(compared["a"], loop) else None
                    if limit is not None:
                        return maximum(limit, 0) + (1 if step.word < leave.word else 0)
        return None

    def _is_entered_elsewhere(self, loop: _ProgramLoop) -> bool:
        """Tests whether a jump leads into the middle of a loop, or another one back to its beginning."""
        jumps = [s for s in self.known.steps if s.op in _JUMPS]
        into = any(loop.first < s["to"] <= loop.last and not loop.has(s) for s in jumps)
        back = any(s["to"] == loop.first and loop.first < s.word != loop.last for s in jumps)
        return into or back

    def _each_time(self, loop: _ProgramLoop) -> list[KnownInstruction]:
        """The instructions that each iteration runs once, unless it leaves the loop before."""
        if loop not in self._regular:
            self._regular[loop] = self._run_each_time(loop)
        return self._regular[loop]

    def _run_each_time(self, loop: _ProgramLoop) -> list[KnownInstruction]:
        inside = [s for s in self.known.steps if loop.has(s)]
        spans = [
            (min(s.word, s["to"]), max(s.word, s["to"]))
            for s in inside
            if s.op in _JUMPS and s.word != loop.last and s["to"] <= loop.last
        ]
        return [s for s in inside if not any(first <= s.word < last for first, last in spans)]

    def _conditions(self, cond: int, loop: _ProgramLoop, before: KnownInstruction) -> Iterator[KnownInstruction]:
        """The comparisons `a < b` that must hold for a condition to hold, which the iteration makes ahead of an instruction."""
        writers = self._writers[cond]
        if len(writers) == 1 and writers[0].word < before.word and writers[0] in self._each_time(loop):
            (writer,) = writers
            if writer.op is Op.LT:
                yield writer
            elif writer.op is Op.AND:
                yield from self._conditions(writer["a"], loop, writer)
                yield from self._conditions(writer["b"], loop, writer)

    def _is_counter(self, k: int, loop: _ProgramLoop) -> bool:
        """Tests whether a register is at least 0, and each iteration adds at least 1 to it."""
        inside = [s for s in self._writers[k] if loop.has(s)]
        each_time = self._each_time(loop)
        if k not in self._nonnegative or len(inside) != 1 or inside[0] not in each_time:
            return False
        (copied,) = inside
        if copied.op is not Op.MAX or copied["a"] != copied["b"]:
            return False
        sums = self._writers[copied["a"]]
        if len(sums) != 1 or sums[0].op is not Op.ADD or sums[0] not in each_time or sums[0].word > copied.word:
            return False
        rest = [o for o in (sums[0]["a"], sums[0]["b"]) if o != k]
        return len(rest) == 1 and rest[0] in self.known.known and (bounds(self._entry(rest[0]))[0] or 0) >= 1


_RULES: dict[Op, Callable[[SizeLimits, KnownInstruction, frozenset[int]], _UpperLimit | None]] = {
    Op.ADD: SizeLimits._added,
    Op.SUB: SizeLimits._subtracted,
    Op.MUL: SizeLimits._multiplied,
    Op.FLOORDIV: SizeLimits._divided,
    Op.MIN: SizeLimits._least,
    Op.MAX: SizeLimits._greatest,
    Op.SELECT: SizeLimits._greatest,
}
