"""Runs nodes one after the other on arrays: each is typed for its operands, and its equations are interpreted; bodies of composed ops,
branches and loops are executed in Python. There are no symbols, passes, fusion or compiled programs.

In: a node, or values, and arrays. Out: arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import from_numpy
from anyshape.equations.builder import Equation
from anyshape.equations.interpret import Arithmetic, interpret
from anyshape.errors import ShapeError
from anyshape.expansion.composition import body
from anyshape.graph.function import Function, topological
from anyshape.graph.infer import build
from anyshape.graph.value import Node, Value, constant
from anyshape_testing.calls.nodes import equations

Array = NDArray[Any]


def run(node: Node, operands: Sequence[Array | None], arithmetic: Arithmetic | None = None) -> list[Array]:
    """Computes the outputs of one call, from arrays of all its inputs. Raises what inference raises for them."""
    return Eager(arithmetic).run(node, operands)


class Eager:
    """One run; `largest` is the largest magnitude of a finite float among all intermediate results. `restated`: what each equation is
    interpreted as."""

    def __init__(
        self, arithmetic: Arithmetic | None = None, restated: Callable[[Equation], Equation] = lambda q: q
    ) -> None:
        self.largest, self.arithmetic, self.restated = 0.0, arithmetic, restated

    def run(self, node: Node, operands: Sequence[Array | None]) -> list[Array]:
        results = self._run(node, operands)
        for a in results:
            if a.size and from_numpy(a.dtype).is_float:
                magnitudes = np.abs(a.astype(np.float64))
                self.largest = max(self.largest, float(np.where(np.isfinite(magnitudes), magnitudes, 0.0).max()))
        return results

    def _run(self, node: Node, operands: Sequence[Array | None]) -> list[Array]:
        if node.op.control is not None:
            return self._loop(node, operands) if node.op.control.repeats else self._branch(node, operands)
        constants = [None if a is None else constant(a, computed=True) for a in operands]
        here = build(node.op, constants, node.attrs, node.source, count=node.count)
        if here.op.composition is not None:
            return self._all(body(here), {})
        return by_equations(here, operands[: len(operands) - len(node.op.operands)], self.arithmetic, self.restated)

    def _all(self, values: Sequence[Value], arrays: Mapping[Value, Array]) -> list[Array]:
        """Computes the arrays of values, from those of parameters."""
        known = dict(arrays)
        for node in topological(values):
            operands = [None if v is None else _known(v, known) for v in node.inputs]
            known.update(zip(node.outputs, self.run(node, operands), strict=True))
        return [_known(v, known) for v in values]

    def _region(self, f: Function, arguments: Sequence[Array]) -> list[Array]:
        if f.failure:
            raise ShapeError(f.failure)
        return self._all(f.results, dict(zip(f.params, arguments, strict=True)))

    def _branch(self, node: Node, operands: Sequence[Array | None]) -> list[Array]:
        *captured, cond = [a for a in operands if a is not None]
        return self._region(node.regions[0 if cond.reshape(()).item() else 1], captured)

    def _loop(self, node: Node, operands: Sequence[Array | None]) -> list[Array]:
        assert node.op.control is not None
        (region,) = node.regions
        data = [a for a in operands[:-2] if a is not None]
        first = node.op.control.captures_from(node)
        state, captured = data[:first], data[first:]
        trip, cond = operands[-2:]
        going = cond is None or bool(cond.reshape(()).item())
        stacked: list[list[Array]] = [[] for _ in region.results[1 + first :]]
        iteration = 0
        while going and (trip is None or iteration < trip.reshape(()).item()):
            again, *results = self._region(region, [np.asarray(iteration, np.int64), *state, *captured])
            state, going, iteration = results[:first], bool(again.reshape(()).item()), iteration + 1
            for row, a in zip(stacked, results[first:]):
                row.append(a)
        return [*state, *(np.stack(row) if row else _none_of(v, node) for row, v in zip(stacked, node.outputs[first:]))]


def by_equations(
    node: Node,
    data: Sequence[Array | None],
    arithmetic: Arithmetic | None = None,
    restated: Callable[[Equation], Equation] = lambda q: q,
) -> list[Array]:
    """Computes the outputs of a node with numbers for dims by the interpreter; those of a view by reshaping."""
    if node.op.view:
        names = [i.name for i in node.op.inputs]
        source = data[names.index(next(iter(node.op.view.values())))]
        assert source is not None
        return [np.reshape(source, [int(str(n)) for n in node.outputs[0].type.shape or ()])]
    eqs, ins, outs = equations(node)
    present = [t for t in ins if t.absent is None]
    arrays = dict(zip(present, [a for a in data if a is not None], strict=True))
    results = interpret([restated(q) for q in eqs.equations], arrays, arithmetic=arithmetic)
    return [results[t] for t in outs]


def _known(v: Value, known: Mapping[Value, Array]) -> Array:
    return np.asarray(v.constant) if v.constant is not None else known[v]


def _none_of(v: Value, loop: Node) -> Array:
    """Makes the stack of a loop without iterations: dims of a first iteration, and 0 for those that only an iteration would decide."""
    inner = [loop.bound.firsts.get(n, n) for n in (v.type.shape or (0,))[1:]]
    return np.zeros([0, *(n if isinstance(n, int) else 0 for n in inner)], v.type.dtype.numpy)
