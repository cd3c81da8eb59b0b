"""The slow reading of programs: one action after the other, on NumPy arrays.

In: a program, an array per tensor that it reads, numbers for symbols. Out: arrays for what it makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim
from anyshape.equations.array_sizes import depth_of
from anyshape.equations.expr import Expr, Tensor, Var
from anyshape.equations.interpret import Arithmetic, Evaluation
from anyshape.equations.ordered import stable_order, update
from anyshape.equations.program import Action, Each, Leave, Let, Order, Put, StepProgram, When

Array = NDArray[Any]


class _Left(Exception):
    """A loop is left."""

    def __init__(self, loop: Var) -> None:
        self.loop = loop


def run_program(
    program: StepProgram, known: dict[Tensor, Array], sizes: dict[Dim, int], arithmetic: Arithmetic | None = None
) -> None:
    """Puts what the program makes into `known`. Raises ShapeError for an index out of bounds."""
    arrays = dict(known)
    runner = _Runner(arrays, dict(sizes), arithmetic)
    for t in program.own:
        arrays.pop(t, None)
        runner.start({}).make(t)
    with np.errstate(all="ignore"):
        runner.block(program.actions, {})
    known.update((t, arrays[t]) for t in program.makes)


class _Runner:
    def __init__(self, known: dict[Tensor, Array], sizes: dict[Dim, int], arithmetic: Arithmetic | None) -> None:
        self.known, self.sizes, self.arithmetic = known, sizes, arithmetic

    def start(self, fixed: dict[Var, int]) -> Evaluation:
        return Evaluation(self.known, self.sizes, False, fixed, self.arithmetic)

    def block(self, actions: Sequence[Action], fixed: dict[Var, int]) -> None:
        for a in actions:
            self.do(a, fixed)

    def do(self, a: Action, fixed: dict[Var, int]) -> None:
        match a:
            case Let(symbol, value):
                self.sizes[symbol] = int(self.value(value, (), fixed))
            case Put(op, target, index, value, over):
                if self.has_positions(over, fixed):
                    at = [self.value(i, over, fixed) for i in index]
                    update(op, self.known[target], at, self.value(value, over, fixed), target)
            case Order(target, over, key, descending):
                if self.has_positions((over,), fixed):
                    keys = self.value(key, (over,), fixed)
                    self.known[target][: len(keys)] = stable_order(keys, descending)
            case Each(var, body):
                self.each(var, body, fixed)
            case When(condition, then, other):
                self.block(then if self.value(condition, (), fixed) else other, fixed)
            case Leave(loop):
                raise _Left(loop)

    def each(self, var: Var, body: Sequence[Action], fixed: dict[Var, int]) -> None:
        try:
            for k in range(self.start(fixed).size(var.extent)):
                self.block(body, {**fixed, var: k})
        except _Left as left:
            if left.loop is not var:
                raise

    def has_positions(self, over: Sequence[Var], fixed: dict[Var, int]) -> bool:
        return all(self.start(fixed).size(v.extent) for v in over)

    def value(self, e: Expr, over: tuple[Var, ...], fixed: dict[Var, int]) -> Array:
        """The value of an expression, as an array with an axis for each variable of `over`."""
        evaluation = self.start(fixed)
        extents = tuple(evaluation.size(v.extent) for v in over)
        evaluation.rank = len(over) + depth_of(e)
        evaluation.axis = {v: k for k, v in enumerate(over)}
        return evaluation.whole(e, np.ones((1,) * evaluation.rank, bool), len(over), extents)
