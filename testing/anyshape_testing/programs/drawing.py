"""Draws a random program statement by statement, and evaluates it on the way, so that each statement fits the values before it.

In: a source of choices and ops under test. Out: a `Drawn`: the program, its arrays, its values for them and for perturbed ones, and the
values of its graph on symbols. A statement that does not fit is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.dtypes import CHAR, from_numpy, parse_dtype
from anyshape.errors import AnyshapeError
from anyshape.graph.opdef import InputDef, OpDef
from anyshape.graph.value import Value
from anyshape_testing.calls.call import Call as Drawing
from anyshape_testing.calls.call import variants
from anyshape_testing.calls.dtypes import input_dtype
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.operands import Symbols, operand_arrays, typed
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.draw.random_call import random_call
from anyshape_testing.programs import symbols
from anyshape_testing.programs.numbers import Env, Numbers, TooLarge, Unsaid, nudged
from anyshape_testing.programs.statements import (
    Block,
    Call,
    If,
    Longer,
    Loop,
    Operand,
    Piece,
    Program,
    Ref,
    Statement,
    results_of,
)
from anyshape_testing.rewrites.instances import Following

Array = NDArray[Any]
MOST = 400
"""The most elements of a value: the interpreter is slow"""
NUDGE = 1e-5
NOISE = 2e-6
"""Relative perturbations, of inputs (NUDGE) and of the results of every statement (NOISE)"""
READINGS = ((1, 0), (-1, 0), (1, 1))
"""Sign and seed of the perturbations of each reading. Those of the first two are opposite, and where they cancel in a result of many
operations, what is left may go the same way in both."""
KINDS = ("any",) * 9 + ("dyn",) * 6 + ("sized",) * 3 + ("if",) * 2 + ("loop",) * 2
FAR = 2**62


class Misfit(Exception):
    """A drawn statement does not fit the program."""


@cache
def sized_by_data(ops: tuple[str, ...]) -> tuple[str, ...]:
    """Lists the ops with a data-dependent size, judged by the first example of each."""
    names = []
    for name in ops:
        op = variants(name)[0]
        for e in PROPERTIES[name].examples:
            if e.error or any(i.variadic for i in op.inputs):
                continue
            shapes = {k: np.shape(g.value) if g.is_literal else g.shape for k, g in e.inputs.items()}
            if not all(isinstance(s, Sequence) and all(isinstance(n, int) for n in s) for s in shapes.values()):
                continue
            inputs = {i.name: _example_array(op, e.inputs.get(i.name), i) for i in op.inputs}
            try:
                node = static_node(Drawing(PROPERTIES[name], inputs, dict(e.params)))
            except (AnyshapeError, TypeError, ValueError):
                continue
            if any(not isinstance(n, int) for v in node.outputs for n in v.type.shape or ()):
                names.append(name)
            break
    return tuple(names)


def sizes_of(a: Array) -> tuple[int, ...]:
    """Returns the dims that a program may ask for: not that of characters, which is the length of the longest string."""
    return a.shape[:-1] if a.dtype == CHAR.numpy else a.shape


def _example_array(op: OpDef, g: Any, i: InputDef) -> Any:
    if g is None:
        return None
    dtype = parse_dtype(op.dtypes.get(i.dtype, (i.dtype,))[0]).numpy
    return np.zeros(np.shape(g.value) if g.is_literal else tuple(g.shape), dtype)


@dataclass
class Drawn:
    """A program under construction. `pool` has the values that later statements may use; `near` the values for perturbed inputs, of
    each of READINGS."""

    draw: Any
    ops: tuple[str, ...]
    program: Program = field(default_factory=Program)
    arrays: dict[str, Array] = field(default_factory=dict)
    symbols: Symbols = field(default_factory=lambda: Symbols({}))
    numbers: Env = field(default_factory=dict)
    near: tuple[Env, ...] = field(default_factory=lambda: tuple({} for _ in READINGS))
    values: dict[Ref, Value] = field(default_factory=dict)
    pool: list[Ref] = field(default_factory=list)
    refs: int = 0

    def fresh(self) -> Ref:
        self.refs += 1
        return self.refs - 1

    def size(self, ref: Ref, axis: int) -> Size | None:
        """Returns an inferred dim; None where the rank is not known."""
        shape = self.values[ref].type.shape
        return None if shape is None or axis >= len(shape) else shape[axis]

    def among(self, xs: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(xs)))

    # --- statements

    def step(self) -> bool:
        """Adds a statement; returns False where the drawn one does not fit."""
        kind = self.among(KINDS)
        statement = self.attempt(lambda: self._statement(kind))
        if statement is not None:
            self.program.statements.append(statement)
        return statement is not None

    def attempt(self, make: Callable[[], Statement]) -> Statement | None:
        """Makes a statement and evaluates it on numbers and on symbols; where it does not fit, undoes all changes."""
        inputs, arrays, sizes = dict(self.program.params), dict(self.arrays), dict(self.symbols.numbers)
        before = self.seen()
        try:
            s = make()
            self.take(s)
            return s
        except (AnyshapeError, UnsatisfiedAssumption, Misfit, TooLarge, Unsaid):
            self.program.params, self.arrays, self.symbols.numbers = inputs, arrays, sizes
            self.numbers, self.near, self.values, self.pool = before
            return None

    def seen(self) -> tuple[Env, tuple[Env, ...], dict[Ref, Value], list[Ref]]:
        """Copies the state that statements change."""
        return dict(self.numbers), tuple(map(dict, self.near)), dict(self.values), list(self.pool)

    def take(self, s: Statement) -> None:
        reader = Numbers(MOST)
        reader.run(s, self.numbers)
        for near, (sign, seed) in zip(self.near, READINGS, strict=True):
            try:
                Numbers(MOST, noise=sign * NOISE, seed=seed).run(s, near)
            except AnyshapeError:
                raise Misfit from None  # a perturbed input is refused: the effect of rounding cannot be bounded
            if any(self.numbers[r].shape != near[r].shape for r in results_of(s)):
                raise Misfit
        symbols.run(s, self.values)
        self.pool += results_of(s)

    def _statement(self, kind: str) -> Statement:
        if kind == "if":
            return self.branch()
        if kind == "loop":
            return self.loop()
        ops = self.ops
        if kind == "dyn":
            ops = tuple(o for o in ops if len(variants(o)) == 2)
        elif kind == "sized":
            ops = sized_by_data(ops)
        if not ops:
            raise Misfit
        source = self.among(self.pool[-6:]) if self.pool else None
        return self.call(self.among(ops), source, kind == "dyn" or self.draw(st.booleans()))

    def call(self, name: str, source: Ref | None, dyn: bool) -> Call:
        """Draws a call whose first input is `source`, where the op allows it."""
        op = variants(name)[0]
        first = op.inputs[0] if op.inputs else None
        dtypes = {}
        if first is None or first.variadic:
            source = None
        if first is not None and source is not None:
            have = from_numpy(self.numbers[source].dtype).name
            if have not in op.dtypes.get(first.dtype, (first.dtype,)):
                raise Misfit
            dtypes = {first.dtype: have} if first.dtype in op.dtypes else {}
        following = None if source is None else Following(self.draw, self.numbers[source].shape)
        c = random_call(PROPERTIES[name], self.draw, dtypes, following)
        ranges = c.recipe.case.ranges if c.recipe is not None else {}
        inputs: list[Any] = []
        for k, i in enumerate(op.inputs):
            drawn = c.inputs[i.name]
            if drawn is None:
                inputs.append(None)
            elif isinstance(drawn, list):
                inputs.append(tuple(self.operand(a, i.name in ranges) for a in drawn))
            elif k == 0 and source is not None:
                mine = self.numbers[source]
                if drawn.shape != mine.shape or from_numpy(mine.dtype) != input_dtype(i, c.dtypes):
                    raise Misfit
                inputs.append(source)
            else:
                inputs.append(self.operand(drawn, i.name in ranges))
        computed = operand_arrays(c) if dyn and len(variants(name)) == 2 else {}
        operands = tuple(self.computed(n, a) for n, a in computed.items())
        params = {n: v for n, v in c.params.items() if n not in computed}
        outputs = tuple(self.fresh() for _ in static_node(c).outputs)
        return Call(name, tuple(inputs), params, operands, outputs)

    def operand(self, a: Array, is_index: bool) -> Ref:
        """Chooses a value of the shape and dtype, or adds a new input."""
        fitting = [r for r in self.pool if self.numbers[r].shape == a.shape and self.numbers[r].dtype == a.dtype]
        if fitting and not is_index and self.draw(st.booleans()):
            return fitting[-1]
        return self.input(a, shared=not is_index)

    def input(self, a: Array, shared: bool) -> Ref:
        """Adds an input to the program; one that is not shared is an operand of one statement only."""
        if a.size > MOST:
            raise Misfit
        ref, name = self.fresh(), f"p{len(self.arrays)}"
        self.program.params[name], self.arrays[name] = ref, a
        self.numbers[ref] = a
        for near, (sign, _) in zip(self.near, READINGS, strict=True):
            near[ref] = nudged(a, sign * NUDGE)
        self.values[ref] = self.symbols(a, name)
        if shared:
            self.pool.append(ref)
        return ref

    def computed(self, name: str, a: Array) -> Operand:
        """Passes a parameter as an operand: an input, of which only the length is known, or a vector of numbers and dims."""
        scalar = a.ndim == 0
        if a.dtype.kind == "f" or self.draw(st.booleans()):
            ref, param = self.fresh(), f"p{len(self.arrays)}"
            self.program.params[param], self.arrays[param] = ref, a
            for env in (self.numbers, *self.near):
                env[ref] = a
            self.values[ref] = typed(a, param)
            return Operand(name, ref, scalar)
        return Operand(name, tuple(self.piece(int(n)) for n in a.reshape(-1)), scalar)

    def piece(self, n: int) -> Piece:
        dims = [(r, k, m) for r in self.pool[-8:] for k, m in enumerate(sizes_of(self.numbers[r]))]
        same = [d for d in dims if d[2] == n]
        if not dims or not self.draw(st.booleans()):
            return Piece(n)
        of, axis, m = self.among(same or dims)
        return Piece(n - m, of, axis)

    # --- regions

    def inside(self, sources: Sequence[Ref], make: Callable[[Drawn], Block]) -> Block:
        """Draws a block with `sources` as its most recent values; outside, only new inputs of the program remain."""
        numbers, near, values, pool = self.seen()
        self.pool = [*self.pool, *sources]
        try:
            block = make(self)
        finally:
            for r in self.program.params.values():
                if r in self.numbers:
                    numbers[r], values[r] = self.numbers[r], self.values[r]
                    for outside, within in zip(near, self.near, strict=True):
                        outside[r] = within[r]
            self.numbers, self.near, self.values, self.pool = numbers, near, values, pool
        return block

    def branch(self) -> If:
        source = self.among(self.pool[-6:]) if self.pool else self.misfit()
        then = self.inside((), lambda d: d.one_call(source))
        kind = self.numbers_of(then)
        other = self.inside((), lambda d: d.alternative(kind))
        if self.draw(st.booleans()):
            axes = [(r, k) for r in self.pool[-6:] for k, _ in enumerate(sizes_of(self.numbers[r]))]
            of, axis = self.among(axes) if axes else self.misfit()
            cond: Ref | Longer = Longer(of, axis, self.among((0, 1, 2, 4)))
        else:
            cond = self.input(np.asarray(self.draw(st.booleans())), shared=False)
        return If(cond, then, other, self.fresh())

    def one_call(self, source: Ref) -> Block:
        s = self.call(self.among(self.ops), source, self.draw(st.booleans()))
        self.take(s)
        return Block((s,), s.outputs[0])

    def numbers_of(self, b: Block) -> Array:
        return Numbers(MOST).block(b, self.numbers)

    def alternative(self, like: Array) -> Block:
        """Draws a block whose result has a given dtype and rank."""
        pool = [r for r in self.pool if self.numbers[r].dtype == like.dtype and self.numbers[r].ndim == like.ndim]
        if not pool:
            raise Misfit
        source = self.among(pool)
        statement = self.attempt(lambda: self.call(self.among(self.ops), source, self.draw(st.booleans())))
        if isinstance(statement, Call):
            out = self.numbers[statement.outputs[0]]
            if out.dtype == like.dtype and out.ndim == like.ndim:
                return Block((statement,), statement.outputs[0])
        if like.ndim and self.draw(st.booleans()):
            s = self.cut(source)
            self.take(s)
            return Block((s,), s.outputs[0])
        return Block((), source)

    def cut(self, source: Ref) -> Call:
        """Makes a call that removes the first row."""
        params = {"starts": (1,), "ends": (FAR,), "axes": (0,), "steps": None}
        return Call("slice", (source,), params, (), (self.fresh(),))

    def loop(self) -> Loop:
        initial = self.among(self.pool[-6:]) if self.pool else self.misfit()
        trip = self.input(np.asarray(self.among((0, 1, 2, 3)), np.int64), shared=False)
        inside, kind = self.fresh(), self.among(("same", "same", "grow", "shrink", "either"))
        for env in (self.numbers, *self.near):
            env[inside] = env[initial]
        self.values[inside] = self.values[initial]
        body = self.inside((inside,), lambda d: d.body(kind, initial, inside))
        stacked = self.fresh() if kind == "same" and self.draw(st.booleans()) else None
        return Loop(trip, initial, inside, body, self.fresh(), stacked)

    def body(self, kind: str, initial: Ref, inside: Ref) -> Block:
        """Draws the body of a loop: the carried value keeps its type, gets a row more or less, or one of both by a branch."""
        x = self.numbers[inside]
        if kind == "same":
            s = self.call(self.among(self.ops), inside, self.draw(st.booleans()))
            self.take(s)
            fitting = [r for r in s.outputs if self.numbers[r].shape == x.shape and self.numbers[r].dtype == x.dtype]
            return Block((s,), fitting[0] if fitting else self.misfit())
        if x.ndim == 0:
            raise Misfit
        shorter, longer = self.cut(inside), Call("concat", ((inside, initial),), {"axis": 0}, (), (self.fresh(),))
        if kind != "either":
            s = longer if kind == "grow" else shorter
            self.take(s)
            return Block((s,), s.outputs[0])
        test = If(
            Longer(inside, 0, self.among((0, 2, 5))),
            Block((shorter,), shorter.outputs[0]),
            Block((longer,), longer.outputs[0]),
            self.fresh(),
        )
        self.take(test)
        return Block((test,), test.output)

    @staticmethod
    def misfit() -> Any:
        raise Misfit


def draw_program(draw: Any, ops: Sequence[str]) -> Drawn | None:
    """Draws a program; None where too few statements fit."""
    # executors are compared with each other, so that ops that draw random numbers are left out
    d = Drawn(draw, tuple(o for o in ops if not any(v.is_random for v in variants(o))))
    for _ in range(draw(st.integers(3, 9))):
        d.step()
    refs = [r for s in d.program.statements for r in results_of(s)]
    if len(d.program.statements) < 2:
        return None
    d.program.results = tuple(refs[-4:])
    return d
