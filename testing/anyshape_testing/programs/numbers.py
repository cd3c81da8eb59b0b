"""Evaluates a program on arrays: every statement by the static variant's rule and the interpreter of its equations.

Nothing that it is compared with takes part: no symbols, passes or kernels; branches and loops are executed in Python.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, substitute
from anyshape.errors import AnyshapeError, ShapeError
from anyshape.graph.call import call_node
from anyshape.graph.value import Node, Value
from anyshape_testing.calls.call import variants
from anyshape_testing.calls.operands import typed
from anyshape_testing.compare.wording import broken
from anyshape_testing.execution.evaluation import evaluate
from anyshape_testing.programs.rounding import Rounding
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
)

Array = NDArray[Any]
Env = dict[Ref, Array]


class TooLarge(Exception):
    """A value has more elements than the evaluation allows."""


class Unsaid(Exception):
    """The evaluation does not define what a program has to give."""


class Numbers:
    """Evaluates statements. `most`: the most elements of a value. `read`: the values whose elements are read; None: all. `results`: those
    that are results of the program. `noise`: the largest relative perturbation of each float that an operation or a statement rounds; a
    negative one perturbs by the opposite. `seed`: of the perturbations."""

    def __init__(
        self,
        most: int,
        read: Container[Ref] | None = None,
        noise: float = 0.0,
        results: Sequence[Ref] = (),
        seed: int = 0,
    ) -> None:
        self.most, self.read, self.noise, self.results, self.seed = most, read, noise, frozenset(results), seed

    def run(self, s: Statement, env: Env) -> None:
        """Evaluates a statement, and adds its results to `env`. Raises what inference and equations raise, and TooLarge."""
        if isinstance(s, Call):
            self._call(s, env)
        elif isinstance(s, If):
            taken = s.then if self.condition(s.cond, env) else s.other
            env[s.output] = self.block(taken, env)
        else:
            collected = []
            current = env[s.initial]
            for _ in range(max(int(env[s.trip]), 0)):
                current = self.block(s.body, {**env, s.inside: current})
                collected.append(current)
            env[s.output] = current
            if s.stacked is not None:
                if len({t.shape for t in collected}) > 1:
                    raise ShapeError("loop: what iterations collect differs in shape")
                env[s.stacked] = np.stack(collected) if collected else self._stack_of_none(s, env)

    def block(self, b: Block, env: Env) -> Array:
        inner = dict(env)
        for s in b.statements:
            self.run(s, inner)
        return inner[b.result]

    def _stack_of_none(self, s: Loop, env: Env) -> Array:
        """Makes the stack of a loop without iterations: with the sizes of a first iteration as far as they follow from sizes and elements
        before it, and 0 for data-dependent ones. Raises Unsaid where a first iteration would be refused."""
        known: dict[Dim, int] = {}
        values = {ref: _with_elements(a, f"v{ref}", known) for ref, a in {**env, s.inside: env[s.initial]}.items()}
        for inner in s.body.statements:
            if not isinstance(inner, Call):
                raise Unsaid
            inputs = [
                None if i is None else [values[r] for r in i] if isinstance(i, tuple) else values[i]
                for i in inner.inputs
            ]
            try:
                params = {**inner.params, **{o.name: _value(o, env) for o in inner.operands}}
                outputs = call_node(variants(inner.op)[0], inputs, params).outputs
            except AnyshapeError:
                raise Unsaid from None
            values.update(zip(inner.outputs, outputs, strict=True))
        t = values[s.body.result].type
        sizes = [substitute(n, known) for n in t.shape or ()]
        return np.zeros((0, *(n if isinstance(n, int) else 0 for n in sizes)), t.dtype.numpy)

    @staticmethod
    def condition(cond: Ref | Longer, env: Env) -> bool:
        """Evaluates a condition."""
        return _dim(env[cond.of], cond.axis) > cond.limit if isinstance(cond, Longer) else bool(env[cond])

    @staticmethod
    def _arguments(s: Call, env: Env) -> tuple[list[Any], dict[str, Any], dict[str, Array]]:
        """Returns the call's inputs, params, and arrays of the inputs by name."""
        arrays: dict[str, Array] = {}

        def operand(ref: Ref) -> Any:
            arrays[f"v{ref}"] = env[ref]
            return typed(env[ref], f"v{ref}")

        inputs = [
            None if i is None else [operand(r) for r in i] if isinstance(i, tuple) else operand(i) for i in s.inputs
        ]
        return inputs, {**s.params, **{o.name: _value(o, env) for o in s.operands}}, arrays

    def broken(self, s: Call, env: Env) -> tuple[list[str], bool]:
        """Lists the messages of the asserts that the call breaks, and whether those are all."""
        try:
            inputs, params, _ = self._arguments(s, env)
        except ShapeError:  # an operand is the size of an axis that does not exist
            return [], True
        return broken(variants(s.op)[0], inputs, params)

    def _call(self, s: Call, env: Env) -> None:
        inputs, params, arrays = self._arguments(s, env)
        node = call_node(variants(s.op)[0], inputs, params)
        for v in node.outputs:
            if int(np.prod([n for n in v.type.shape or () if isinstance(n, int)])) > self.most:
                raise TooLarge
        with np.errstate(all="ignore"):
            results = self._computed(s, node, arrays)
        env.update((ref, self._rounded(a, ref, arrays.values())) for ref, a in zip(s.outputs, results, strict=True))

    def _computed(self, s: Call, node: Node, arrays: dict[str, Array]) -> Sequence[Array]:
        """Computes the results; zeros where equations refuse results of which no element is read, since a program does not compute them.
        Raises Unsaid where they have no elements and other statements read them."""
        try:
            return evaluate(
                node.outputs, arrays, Rounding(self.noise, self._seed(s.outputs[0])) if self.noise else None
            )
        except AnyshapeError:
            shapes: list[tuple[Any, ...]] = [v.type.shape or () for v in node.outputs]
            known = all(isinstance(n, int) for shape in shapes for n in shape)
            if not known or self.read is None:
                raise
            if any(r in self.read for r in s.outputs):
                if self.results.isdisjoint(s.outputs) and all(0 in shape for shape in shapes):
                    raise Unsaid from None
                raise
            return [np.zeros(shape, v.type.dtype.numpy) for shape, v in zip(shapes, node.outputs)]

    def _seed(self, ref: Ref) -> int:
        """Returns another seed of perturbations for each value; refs are below a million."""
        return 1_000_000 * self.seed + ref

    def _rounded(self, a: Array, ref: Ref, inputs: Iterable[Array]) -> Array:
        """Perturbs a result within rounding, unless its elements are only moved. With a noise and its negative, each of two equal results
        is the larger one once. NaN gets the sign of the noise, since its sign is not defined and a bitcast shows it."""
        if not self.noise or a.dtype.kind != "f" or a.size == 0:
            return a
        moved = [i for i in inputs if i.dtype == a.dtype]
        if moved and np.isin(a, np.concatenate([i.reshape(-1) for i in moved])).all():
            return a
        part = np.random.default_rng(self._seed(ref)).uniform(0.1, 1, a.shape) * self.noise
        with np.errstate(all="ignore"):
            rounded = np.asarray(a * (1 + part)).astype(a.dtype)
            return np.where(np.isnan(a), np.copysign(a, self.noise), rounded)


def _with_elements(a: Array, name: str, known: dict[Dim, int]) -> Value:
    """Makes a value of the array's type; adds the numbers of its symbolic elements to `known`."""
    v = typed(a, name)
    known.update((e, x) for e, x in zip(v.contents or (), a.reshape(-1).tolist()) if isinstance(e, Dim))
    return v


def _value(o: Operand, env: Env) -> Any:
    if isinstance(o.source, int):
        elements = env[o.source].tolist()
        return tuple(elements) if isinstance(elements, list) and not o.scalar else elements
    numbers = tuple(_number(p, env) for p in o.source)
    return numbers[0] if o.scalar else numbers


def _number(p: Piece, env: Env) -> int:
    return p.number + (0 if p.of is None else _dim(env[p.of], p.axis))


def _dim(a: Array, axis: int) -> int:
    """Returns a size. Raises ShapeError where changed inputs leave no such axis."""
    if axis >= a.ndim:
        raise ShapeError(f"index {axis} is out of range for {a.ndim} items")
    return int(a.shape[axis])


def read(p: Program, arrays: Mapping[str, Array], most: int) -> list[Array]:
    """Evaluates a program. Raises the error of the first refused statement."""
    reader, env = Numbers(most), {ref: arrays[name] for name, ref in p.params.items()}
    for s in p.statements:
        reader.run(s, env)
    return [env[r] for r in p.results]


def nudged(a: Array, by: float) -> Array:
    """Perturbs floats: the change of a result bounds what rounding may change."""
    return np.asarray(a * (1 + by)).astype(a.dtype) if a.dtype.kind == "f" else a


__all__ = ["Array", "Env", "Numbers", "Sequence", "TooLarge", "Unsaid", "nudged", "read"]
