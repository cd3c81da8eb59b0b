"""Where emitted code goes: nested levels, each open at its end, so that what does not vary in a loop lands before it.

In: loops and conditions as context managers. Out: blocks in the function. A level is the straight-line code around an
inner loop; it stays open while the loop is written, its branch into the loop is added last. So a value is emitted at the
outermost level where everything it depends on exists, and no IR pass has to move it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anyshape.dims import Cond, Dim, Size, free_symbols
from anyshape.equations import Tensor
from anyshape.lower.ir.dag import DagNode, Load, LoopIndex, LoopVar, Reduction, SizeValue
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.emitter import Block
from anyshape.lower.llvm.polling import Polls
from anyshape.lower.llvm.types import I64, Operand, Val, const


@dataclass
class Level:
    """`memo` holds values that may be used here and further in; `buffers` nodes that are in scratch from here on.

    `over`: the level is entered if that loop has a turn, and under no other condition.
    """

    block: Block
    memo: dict[Any, Val] = field(default_factory=dict)
    buffers: dict[DagNode, Any] = field(default_factory=dict)
    variables: list[LoopVar] = field(default_factory=list)
    closed: bool = False
    over: LoopVar | None = None


_POLLED = 2
"""Loops around loops that a kernel looks in, counted from the outermost."""
_SHORT_TURNS = 1 << 16
"""Turns without a loop between looks."""


@dataclass
class Iteration:
    """An open loop or condition: this turn's values, what the next one (or the code after it) gets, and where the code after it is."""

    index: Val
    carried: tuple[Val, ...]
    exit: Block
    results: tuple[Val, ...] = ()
    following: tuple[Val, ...] = ()

    def next(self, values: Sequence[Val]) -> None:
        self.following = tuple(values)


class Levels:
    """The stack of levels of one function."""

    def __init__(self, f: FunctionBuilder) -> None:
        self.f = f
        self.levels = [Level(f.block)]
        self.level_of: dict[LoopVar, int] = {}
        self.indices: dict[LoopVar, Val] = {}
        self._depths: dict[DagNode, int] = {}
        self.written: frozenset[Tensor] = frozenset()
        self.floor = 0
        self.stepping: dict[Dim, tuple[Val, int]] = {}
        """Symbols that stand for the position of an open recurrence: value, and the level since which it holds."""
        self.polls: Polls | None = None
        """Of a kernel that looks whether it is to stop: once a turn of its two outer loops, or once in many turns without a loop."""
        self._open = self._made = 0

    @contextmanager
    def phase(self, written: frozenset[Tensor]) -> Iterator[None]:
        """Code that reads what earlier phases wrote: loads of those tensors stay inside."""
        with self.section():
            outer = self.written, self.floor
            self.written, self.floor = written, len(self.levels) - 1
            yield
            self.written, self.floor = outer

    @contextmanager
    def step_to(self, position: Dim, value: Val) -> Iterator[None]:
        """At the current level and further in, the symbol has this value."""
        self.stepping[position] = value, len(self.levels) - 1
        self._depths.clear()
        yield
        del self.stepping[position]
        self._depths.clear()

    def step_depth(self, sizes: Iterable[Size | Cond | bool]) -> int:
        """The outermost level at which sizes have values."""
        if not self.stepping:
            return 0
        found = {s for n in sizes for s in free_symbols(n)}
        return max((level for s, (_, level) in self.stepping.items() if s in found), default=0)

    @contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """Emit at the open end of an outer level, or of the next one further in if that is closed."""
        top = len(self.levels) - 1
        while self.levels[depth].closed and depth < top:
            depth += 1
        if depth == top:
            yield
            return
        self.levels[top].block = self.f.block
        self.f.block = self.levels[depth].block
        outer = self.levels[depth + 1 :]
        del self.levels[depth + 1 :]
        yield
        self.levels[depth].block = self.f.block
        self.levels += outer
        self.f.block = self.levels[top].block

    def _push(self, block: Block) -> None:
        self.levels[-1].block = self.f.block
        self.f.start(block)
        self.levels.append(Level(block))
        self._depths.clear()

    def _pop(self) -> None:
        """Closes the innermost level; goes on at the open end of the one around it."""
        for v in self.levels.pop().variables:
            del self.level_of[v]
        self.f.block = self.levels[-1].block
        self._depths.clear()

    def bind(self, v: LoopVar) -> None:
        self.level_of[v] = len(self.levels) - 1
        self.levels[-1].variables.append(v)
        self._depths.clear()

    @contextmanager
    def loop(
        self, start: Operand, stop: Operand, step: Operand, carried: Sequence[Val] = (), surely: bool = False
    ) -> Iterator[Iteration]:
        """for index in range(start, stop, step): a test ahead of it, left out if it `surely` has a turn, and one at the bottom."""
        f = self.f
        first, last = f.i64(start), f.i64(stop)
        body, after = f.new_block(), f.new_block()
        self._push(body)
        iteration = Iteration(Val(f.fresh(), I64), tuple(Val(f.fresh(), v.type) for v in carried), after)
        self._made, self._open = self._made + 1, self._open + 1
        made = self._made
        yield iteration
        self._open -= 1
        if self._open < _POLLED:
            self._poll_in(iteration.index, step, self._made > made)
        following = f.add(iteration.index, step)
        f.branch(f.compare("lt", following, last), body, after)
        latch = f.block
        self._pop()
        before = f.block
        if surely:
            f.jump(body)
        else:
            f.branch(f.compare("lt", first, last), body, after)
        f.set_phi(iteration.index, [(first, before), (following, latch)], body)
        for phi, initial, value in zip(iteration.carried, carried, iteration.following, strict=True):
            f.set_phi(phi, [(initial, before), (value, latch)], body)
        if surely:
            f.start(after)
            self.levels[-1].block, iteration.results = after, iteration.following
        else:
            self._join(iteration, carried, after, before, latch)

    @contextmanager
    def when(self, condition: Val, carried: Sequence[Val] = ()) -> Iterator[Iteration]:
        """The body if the condition holds; `results` are the carried values otherwise."""
        f = self.f
        body, after = f.new_block(), f.new_block()
        self._push(body)
        iteration = Iteration(const(I64, 0), tuple(carried), after)
        yield iteration
        latch = f.block
        f.jump(after)
        self._pop()
        before = f.block
        f.branch(condition, body, after)
        self._join(iteration, carried, after, before, latch)

    def poll(self) -> None:
        """Ends the kernel if it is one that looks, and is to stop."""
        if self.polls is not None:
            self.polls.poll()

    def _poll_in(self, index: Val, step: Operand, is_long: bool) -> None:
        if self.polls is None or is_long:
            self.poll()
            return
        self.poll_now_and_then(index, step)

    def poll_now_and_then(self, index: Val, step: Operand = 1) -> None:
        """Once in many turns that are short."""
        f = self.f
        if self.polls is not None:
            with f.if_(f.compare("lt", f.and_(index, _SHORT_TURNS - 1), step)):
                self.poll()

    def _join(self, iteration: Iteration, carried: Sequence[Val], after: Block, before: Block, latch: Block) -> None:
        self.f.start(after)
        self.levels[-1].block = after
        iteration.results = tuple(
            self.f.phi(value.type, [(initial, before), (value, latch)])
            for initial, value in zip(carried, iteration.following, strict=True)
        )

    @contextmanager
    def section(self) -> Iterator[None]:
        """Code whose blocks somebody else makes: the levels around it stay open meanwhile."""
        body, after = self.f.new_block(), self.f.new_block()
        self._push(body)
        yield
        self.f.jump(after)
        self._pop()
        self.f.jump(body)
        self.f.start(after)
        self.levels[-1].block = after

    def enter(self) -> Level:
        """A level at the current place, in code made by somebody else; `leave` ends it."""
        self.levels[-1].block = self.f.block
        self.levels.append(Level(self.f.block))
        self._depths.clear()
        return self.levels[-1]

    def leave(self) -> None:
        for v in self.levels.pop().variables:
            del self.level_of[v]
        self._depths.clear()

    def turn_of(self, v: LoopVar, index: Val) -> None:
        """The level just opened is a turn (or several) of the loop over v: all of them together are its whole extent."""
        self.bind(v)
        self.levels[-1].over = v
        self.indices[v] = index

    def outermost(self, needed: int) -> int:
        """The outermost level, `needed` or further in, from which loops alone lead to the current one."""
        depth = len(self.levels) - 1
        while depth > needed and self.levels[depth].over is not None and not self.levels[depth - 1].closed:
            depth -= 1
        return depth

    def turns(self, depth: int) -> list[LoopVar]:
        """The loops of the levels further in, as far as `turn_of` opened them."""
        return [level.over for level in self.levels[depth + 1 :] if level.over is not None]

    # what exists where

    def find(self, key: Any) -> Val | None:
        for level in reversed(self.levels):
            value = level.memo.get(key)
            if value is not None:
                return value
        return None

    def remember(self, key: Any, value: Val, depth: int | None = None) -> Val:
        self.levels[len(self.levels) - 1 if depth is None else depth].memo[key] = value
        return value

    def forget(self) -> None:
        """Of the current level no value is used again."""
        self.levels[-1].memo.clear()
        self._depths.clear()

    def buffer(self, node: DagNode) -> tuple[Any, int] | None:
        """The scratch that holds a node, and the level since which it does."""
        for depth in range(len(self.levels) - 1, -1, -1):
            found = self.levels[depth].buffers.get(node)
            if found is not None:
                return found, depth
        return None

    def forget_depths(self) -> None:
        self._depths.clear()

    def depth_of_variables(self, variables: frozenset[LoopVar]) -> int:
        return max((self.level_of[v] for v in variables), default=0)

    def depth(self, n: DagNode) -> int:
        """The outermost level at which a node can be emitted."""
        known = self._depths.get(n)
        if known is None:
            known = self._depths[n] = self._depth(n)
        return known

    def _depth(self, n: DagNode) -> int:
        held = self.buffer(n)
        if held is not None:
            return max(held[1], self.depth_of_variables(n.domain))
        for depth in range(len(self.levels) - 1, -1, -1):
            memo = self.levels[depth].memo
            if (n, 0) in memo or (n, -1) in memo:
                return depth
        below = max((self.depth(a) for a in n.inputs), default=0)
        match n:
            case Reduction():
                raise RuntimeError("a reduction is used before it is computed")
            case Load(access):
                parts = (*access.bounds, *access.checks)
                below = max(below, self.step_depth((access.address.offset, *(b.index.offset for b in parts))))
                if access.tensor in self.written:
                    below = max(below, self.floor)
                return max(below, self.depth_of_variables(n.domain))
            case SizeValue(size):
                return self.step_depth((size,))
            case LoopIndex():
                return self.depth_of_variables(n.domain)
        return below
