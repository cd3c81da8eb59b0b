"""The part of the builder that steers: blocks, branches, counted loops with carried values, if/else with results.

In: conditions and bounds. Out: context managers whose bodies are emitted in place. Loops come out rotated (one test at
the bottom) and in phi form, since no IR pass will do either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from .arithmetic import Arithmetic
from .emitter import Block
from .types import Operand, Type, Val


@dataclass
class Loop:
    """An open loop. `index` counts, `carried` are this turn's values; `next(...)` gives the next turn's.

    `results` (after the loop) are the carried values that the last turn gave, or the initial ones if it never ran.
    """

    index: Val
    carried: tuple[Val, ...]
    results: tuple[Val, ...] = ()
    _next: tuple[Val, ...] = ()

    def next(self, *values: Val) -> None:
        if [v.type for v in values] != [v.type for v in self.carried]:
            raise TypeError(f"the loop carries {[str(v) for v in self.carried]}, next() got {[str(v) for v in values]}")
        self._next = values


@dataclass
class Branch:
    """An open if/else. Each side may `give(...)` values; `results` merges them after the end."""

    then: Callable[[], AbstractContextManager[None]]
    otherwise: Callable[[], AbstractContextManager[None]]
    results: tuple[Val, ...] = ()
    given: list[tuple[Block, tuple[Val, ...]]] = field(default_factory=list)
    _current: tuple[Val, ...] = ()

    def give(self, *values: Val) -> None:
        self._current = values


class Control(Arithmetic):
    """Blocks and structured control flow."""

    # blocks

    def new_block(self) -> Block:
        """A block that is not yet in the function; `start` puts it there."""
        return Block("b" + self.fresh()[2:])

    def jump(self, to: Block) -> None:
        self.line(f"br label %{to.label}")
        self.block.terminated = True

    def branch(self, cond: Val, yes: Block, no: Block) -> None:
        self.line(f"br {cond}, label %{yes.label}, label %{no.label}")
        self.block.terminated = True

    def expect(self, cond: Val, usual: Block, other: Block) -> None:
        """A branch that hardly ever goes the other way: that block is laid out of the way."""
        weights = '!{!"branch_weights", i32 1048576, i32 1}'
        self.line(f"br {cond}, label %{usual.label}, label %{other.label}, !prof {weights}")
        self.block.terminated = True

    def ret(self, value: Val | None = None) -> None:
        self.line("ret void" if value is None else f"ret {value}")
        self.block.terminated = True

    def phi(self, type_: Type, incoming: Sequence[tuple[Val, Block]], block: Block | None = None) -> Val:
        """A phi at the head of `block` (the current one unless given)."""
        result = Val(self.fresh(), type_)
        self.set_phi(result, incoming, block or self.block)
        return result

    def set_phi(self, result: Val, incoming: Sequence[tuple[Val, Block]], block: Block) -> None:
        sources = ", ".join(f"[{value.name}, %{source.label}]" for value, source in incoming)
        block.phis.append(f"{result.name} = phi {result.type} {sources}")

    # structured

    @contextmanager
    def for_range(
        self, start: Operand, stop: Operand, step: Operand = 1, carried: Sequence[Val] = (), at_least_once: bool = False
    ) -> Iterator[Loop]:
        """for index in range(start, stop, step), step positive. `at_least_once` leaves the first test out."""
        first, last, stride = self.i64(start), self.i64(stop), self.i64(step)
        body, after = self.new_block(), self.new_block()
        guard = None
        if at_least_once:
            self.jump(body)
            before = self.block
        else:
            cond = self.compare("lt", first, last)
            before = guard = self.block
            self.branch(cond, body, after)
        self.start(body)
        index = Val(self.fresh(), first.type)
        loop = Loop(index, tuple(Val(self.fresh(), v.type) for v in carried))
        yield loop
        if carried and not loop._next:
            raise TypeError("a loop with carried values must call next(...)")
        following = self.add(index, stride)
        latch = self.block
        self.branch(self.compare("lt", following, last), body, after)
        self.set_phi(index, [(first, before), (following, latch)], body)
        for phi, initial, value in zip(loop.carried, carried, loop._next):
            self.set_phi(phi, [(initial, before), (value, latch)], body)
        self.start(after)
        if guard is None:
            loop.results = loop._next
        else:
            loop.results = tuple(
                self.phi(value.type, [(initial, guard), (value, latch)]) for initial, value in zip(carried, loop._next)
            )

    @contextmanager
    def if_(self, cond: Val) -> Iterator[None]:
        """Emit the body under `cond`, nothing otherwise."""
        body, after = self.new_block(), self.new_block()
        self.branch(cond, body, after)
        self.start(body)
        yield
        if not self.block.terminated:
            self.jump(after)
        self.start(after)

    @contextmanager
    def if_else(self, cond: Val) -> Iterator[Branch]:
        """`with f.if_else(c) as b:` then `with b.then(): ... b.give(x)` and `with b.otherwise(): ... b.give(y)`."""
        yes, no, after = self.new_block(), self.new_block(), self.new_block()
        self.branch(cond, yes, no)

        @contextmanager
        def side(block: Block) -> Iterator[None]:
            self.start(block)
            branch._current = ()
            yield
            if not self.block.terminated:
                branch.given.append((self.block, branch._current))
                self.jump(after)

        branch = Branch(lambda: side(yes), lambda: side(no))
        yield branch
        self.start(after)
        counts = {len(values) for _, values in branch.given}
        if len(counts) > 1:
            raise TypeError("both sides of an if_else must give the same number of values")
        width = counts.pop() if counts else 0
        branch.results = tuple(
            self.phi(branch.given[0][1][k].type, [(values[k], source) for source, values in branch.given])
            for k in range(width)
        )

    def switch(self, value: Val, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        table = " ".join(f"{value.type} {number}, label %{block.label}" for number, block in cases)
        self.line(f"switch {value}, label %{default.label} [ {table} ]")
        self.block.terminated = True
