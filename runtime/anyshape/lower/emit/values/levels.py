"""Nested levels of code, each open at its end, so that what does not vary in a loop is emitted before it.

In: loops and conditions as context managers. Out: blocks in the function. A level is the straight-line code around an
inner loop; it stays open while the loop is written, its branch into the loop is added last. So a value is emitted at the
outermost level where everything it depends on exists, and no IR pass has to move it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from anyshape.dims import Cond, Dim, Size, free_symbols
from anyshape.equations import Tensor
from anyshape.lower.ir.dag import Affine, DagNode, Load, LoopIndex, LoopVar, Reduction, SizeValue
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.instructions import BasicBlock
from anyshape.lower.llvm.polling import Pause, Polls
from anyshape.lower.llvm.types import I64, Val, ValLike, const

_POLLED = 2
"""Loops around loops in which a kernel polls, counted from the outermost."""
_SHORT_ITERATIONS = 1 << 16
"""Iterations without a loop between polls."""


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Scratch for a node: an element per value of `variables`, each `width` lanes (1, or all lanes of an outer vector).

    Padded by a block, so that whole vectors are written at the end of a row and no access needs a mask, unless it is `exact`.
    """

    tensor: Tensor
    address: Affine
    width: int
    exact: bool = False


@dataclass(slots=True)
class Level:
    """`memo` holds values that may be used here and further in; `buffers` nodes that are in scratch from here on.

    `over`: the level is entered if that loop has an iteration, and under no other condition. `is_ahead`: it is what is emitted ahead of a
    loop, for all its iterations. `certain`: it is entered wherever the level around it is. Nothing more is emitted at the end of a `closed`
    one.
    """

    block: BasicBlock
    _: KW_ONLY
    memo: dict[Any, Val] = field(default_factory=dict)
    buffers: dict[DagNode, Buffer] = field(default_factory=dict)
    variables: list[LoopVar] = field(default_factory=list)
    closed: bool = False
    over: LoopVar | None = None
    is_ahead: bool = False
    certain: bool = True


class Iteration:
    """An open loop or condition: the values of this iteration, those of the next one (or of the code after it), and the block after it."""

    __slots__ = ("carried", "exit", "following", "index", "results")

    def __init__(self, index: Val, carried: tuple[Val, ...], exit: BasicBlock) -> None:
        self.index, self.carried, self.exit = index, carried, exit
        self.following: tuple[Val, ...] = ()
        self.results: tuple[Val, ...] = ()

    def next(self, values: Sequence[Val]) -> None:
        self.following = tuple(values)

    def end(self, results: Iterable[Val]) -> None:
        self.results = tuple(results)


class Levels:
    """The stack of levels of one function. A kernel with `polls` asks whether it is to stop: once in each iteration of its two outer
    loops, or once in many iterations without a loop."""

    def __init__(self, f: FunctionBuilder, polls: Polls | None = None) -> None:
        self.f = f
        self.indices: dict[LoopVar, Val] = {}
        self.level_of: dict[LoopVar, int] = {}
        self.stepping: dict[Dim, tuple[Val, int]] = {}
        """Symbols that stand for the position of an open recurrence: value, and the level since which it holds."""
        self.written: frozenset[Tensor] = frozenset()
        """What earlier phases wrote: it is loaded at the level `_floor` or further in."""
        self._floor = 0
        self._stack = [Level(f.block)]
        self._depths: dict[DagNode, int] = {}
        self._polls = polls
        self._open = self._opened = 0

    # code that is emitted inside

    @contextmanager
    def phase(self, written: frozenset[Tensor]) -> Iterator[None]:
        """Code that reads what earlier phases wrote: loads of those tensors stay inside."""
        with self.section():
            outer = self.written, self._floor
            self.written, self._floor = written, self.innermost
            yield
            self.written, self._floor = outer

    @contextmanager
    def step_to(self, position: Dim, value: Val) -> Iterator[None]:
        """Code at the current level and further in, where the symbol has this value."""
        self.stepping[position] = value, self.innermost
        self._depths.clear()
        yield
        del self.stepping[position]
        self._depths.clear()

    @contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """Code at the open end of an outer level, or of the next one further in if that is closed."""
        stack = self._stack
        top = len(stack) - 1
        while stack[depth].closed and depth < top:
            depth += 1
        if depth == top:
            yield
            return
        stack[top].block = self.f.block
        self.f.resume(stack[depth].block)
        inner = stack[depth + 1 :]
        del stack[depth + 1 :]
        yield
        stack[depth].block = self.f.block
        stack += inner
        self.f.resume(stack[top].block)

    @contextmanager
    def loop(
        self,
        start: ValLike,
        stop: ValLike,
        step: ValLike,
        carried: Sequence[Val] = (),
        *,
        surely: bool = False,
        certain: bool = False,
    ) -> Iterator[Iteration]:
        """Opens a loop, for index in range(start, stop, step): a test ahead of it, left out if it `surely` has an iteration, and one at the
        bottom. `certain`: it has an iteration, or another loop has that does the same."""
        f = self.f
        first, last = f.i64(start), f.i64(stop)
        body, after = f.new_block(), f.new_block()
        ahead = self._push_loop(body, surely or certain)
        iteration = Iteration(Val(f.fresh(), I64), tuple(Val(f.fresh(), v.type) for v in carried), after)
        self._opened, self._open = self._opened + 1, self._open + 1
        opened = self._opened
        yield iteration
        self._open -= 1
        around = self._opened > opened
        if self._open < _POLLED or (self._polls is not None and self._polls.deep and not around):
            self._poll_in(iteration.index, step, around)
        following = f.add(iteration.index, step)
        f.branch(f.compare("lt", following, last), body, after)
        latch = f.block
        entered, entry = self._pop_loop(ahead, body)
        before = f.block
        if surely:
            f.jump(entered)
        else:
            f.branch(f.compare("lt", first, last), entered, after)
        entry = before if entry is None else entry
        f.set_phi(iteration.index, [(first, entry), (following, latch)], body)
        for phi, initial, value in zip(iteration.carried, carried, iteration.following, strict=True):
            f.set_phi(phi, [(initial, entry), (value, latch)], body)
        if surely:
            f.start(after)
            self._stack[-1].block = after
            iteration.end(iteration.following)
        else:
            self._join(iteration, carried, before, latch)

    @contextmanager
    def when(self, condition: Val, carried: Sequence[Val] = (), *, certain: bool = False) -> Iterator[Iteration]:
        """The body if the condition holds; `results` are the carried values otherwise. `certain`: it holds, or that of another body which
        does the same."""
        f = self.f
        body, after = f.new_block(), f.new_block()
        self._push(body)
        self._stack[-1].certain = certain
        iteration = Iteration(const(I64, 0), tuple(carried), after)
        yield iteration
        latch = f.block
        f.jump(after)
        self._pop()
        before = f.block
        f.branch(condition, body, after)
        self._join(iteration, carried, before, latch)

    @contextmanager
    def section(self) -> Iterator[None]:
        """Opens code whose blocks the body of the `with` makes: the levels around it stay open meanwhile."""
        body, after = self.f.new_block(), self.f.new_block()
        self._push(body)
        yield
        self.f.jump(after)
        self._pop()
        self.f.jump(body)
        self.f.start(after)
        self._stack[-1].block = after

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A level at the current place, in code of which the caller makes the blocks."""
        self._stack[-1].block = self.f.block
        self._stack.append(Level(self.f.block))
        self._depths.clear()
        yield
        self._drop()

    def close(self) -> None:
        """Ends the current level for values: what could be emitted at its end is emitted further in."""
        self._stack[-1].closed = True

    def _push(self, block: BasicBlock) -> None:
        self._stack[-1].block = self.f.block
        self.f.start(block)
        self._stack.append(Level(block))
        self._depths.clear()

    def _push_loop(self, body: BasicBlock, certain: bool) -> BasicBlock:
        """Opens the levels ahead of a loop and of its body; returns the block of the first, which is in no text yet."""
        ahead = BasicBlock(f"{body.label}.ahead")
        self._stack[-1].block = self.f.block
        self._stack.append(Level(ahead, is_ahead=True, certain=certain))
        self.f.start(body)
        self._stack.append(Level(body))
        self._depths.clear()
        return ahead

    def _pop_loop(self, ahead: BasicBlock, body: BasicBlock) -> tuple[BasicBlock, BasicBlock | None]:
        """Closes the levels of a loop; returns the block to enter it by, and the last one of what is ahead of it, if there is anything."""
        self._drop()
        last = self._stack[-1].block
        self._drop()
        is_used = bool(ahead.lines)
        if is_used:
            self.f.blocks.insert(self.f.blocks.index(body), ahead)
            self.f.resume(last)
            self.f.jump(body)
        self.f.resume(self._stack[-1].block)
        return (ahead, last) if is_used else (body, None)

    def _drop(self) -> None:
        for v in self._stack.pop().variables:
            del self.level_of[v]
        self._depths.clear()

    def _pop(self) -> None:
        """Closes the innermost level; goes on at the open end of the one around it."""
        self._drop()
        self.f.resume(self._stack[-1].block)

    def _join(self, iteration: Iteration, carried: Sequence[Val], before: BasicBlock, latch: BasicBlock) -> None:
        """Goes on after a loop or condition, which was entered from `before` and is left from `latch`."""
        self.f.start(iteration.exit)
        self._stack[-1].block = iteration.exit
        pairs = zip(carried, iteration.following, strict=True)
        iteration.end(self.f.phi(value.type, [(initial, before), (value, latch)]) for initial, value in pairs)

    # polls

    def poll(self, pause: Pause | None = None) -> None:
        """Ends the kernel if it is one that polls, and is to stop."""
        if self._polls is not None:
            self._polls.poll(pause)

    def poll_now_and_then(self, index: Val, step: ValLike = 1) -> None:
        """Polls once in many iterations that are short."""
        f = self.f
        if self._polls is not None:
            with f.if_(f.compare("lt", f.and_(index, _SHORT_ITERATIONS - 1), step)):
                self.poll()

    def _poll_in(self, index: Val, step: ValLike, is_long: bool) -> None:
        if self._polls is None or is_long:
            self.poll()
            return
        self.poll_now_and_then(index, step)

    # variables of loops

    def bind(self, v: LoopVar, index: Val) -> None:
        """Gives a variable its value at the current level and further in."""
        self.indices[v] = index
        self.level_of[v] = self.innermost
        self._stack[-1].variables.append(v)
        self._depths.clear()

    def bind_iteration(self, v: LoopVar, index: Val) -> None:
        """Binds the variable of a loop of which the current level is one iteration (or several): all iterations together are its whole
        extent."""
        self.bind(v, index)
        self._stack[-1].over = v
        if self._stack[-2].is_ahead:
            self._stack[-2].over = v

    def loops_inside(self, depth: int) -> list[LoopVar]:
        """The loops of the levels further in, as far as `bind_iteration` bound their variables."""
        return [level.over for level in self._stack[depth + 1 :] if level.over is not None]

    # what exists where

    @property
    def innermost(self) -> int:
        return len(self._stack) - 1

    def outermost(self, needed: int) -> int:
        """The outermost level, `needed` or further in, from which loops alone lead to the current one."""
        depth, stack = self.innermost, self._stack
        while depth > needed and stack[depth].over is not None and not stack[depth - 1].closed:
            depth -= 1
        return depth

    @property
    def _certain(self) -> int:
        """The outermost level that is entered only where the current one is, or another that does the same."""
        return max((depth for depth, level in enumerate(self._stack) if not level.certain), default=0)

    def find(self, key: Any) -> Val | None:
        for level in reversed(self._stack):
            value = level.memo.get(key)
            if value is not None:
                return value
        return None

    def remember(self, key: Any, value: Val) -> Val:
        self._stack[-1].memo[key] = value
        return value

    def define(self, node: DagNode, copy: int, value: Val) -> None:
        """Gives a node that is not emitted as such, a reduction or what a recurrence carries, its value from here on."""
        self.remember((node, copy), value)
        self._depths.clear()

    def forget(self) -> None:
        """Drops the values of the current level: none is used again."""
        self._stack[-1].memo.clear()
        self._depths.clear()

    def hold(self, node: DagNode, buffer: Buffer) -> None:
        """Stores the value of a node in scratch, from which it is read from here on."""
        self._stack[-1].buffers[node] = buffer
        self._depths.clear()

    def buffer(self, node: DagNode) -> tuple[Buffer, int] | None:
        """The scratch that holds a node, and the level since which it does."""
        for depth in range(len(self._stack) - 1, -1, -1):
            buffer = self._stack[depth].buffers.get(node)
            if buffer is not None:
                return buffer, depth
        return None

    def depth_of_variables(self, variables: frozenset[LoopVar]) -> int:
        return max((self.level_of[v] for v in variables), default=0)

    def step_depth(self, sizes: Iterable[Size | Cond | bool]) -> int:
        """The outermost level at which sizes have values."""
        if not self.stepping:
            return 0
        symbols = {s for n in sizes for s in free_symbols(n)}
        return max((level for s, (_, level) in self.stepping.items() if s in symbols), default=0)

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
        for depth in range(len(self._stack) - 1, -1, -1):
            memo = self._stack[depth].memo
            if (n, 0) in memo or (n, -1) in memo:
                return depth
        below = max((self.depth(a) for a in n.inputs), default=0)
        match n:
            case Reduction():
                raise RuntimeError("a reduction is used before it is computed")
            case Load(access):
                indices = (access.address, *(b.index for b in (*access.bounds, *access.checks)))
                below = max(below, self.step_depth(n for i in indices for n in i.sizes))
                if access.tensor in self.written:
                    below = max(below, self._floor)
                if access.checks:
                    below = max(below, self._certain)
                return max(below, self.depth_of_variables(n.domain))
            case SizeValue(size):
                return self.step_depth((size,))
            case LoopIndex():
                return self.depth_of_variables(n.domain)
        return below
