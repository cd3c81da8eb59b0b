"""The plain reading of a program: every statement on arrays, by the static variant's rule and the slow reading of its equations.

Nothing of what it is compared with takes part: no symbols, no pass, no kernel; branches and loops are Python's.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError, ShapeError
from anyshape.graph.call import call_node
from anyshape.graph.value import Node
from anyshape.testing.calls import typed, variants
from anyshape.testing.evaluation import evaluate
from anyshape.testing.programs.statements import (
    Block,
    Call,
    If,
    Longer,
    Operand,
    Piece,
    Program,
    Ref,
    Statement,
    elements_read,
    needs_of,
    results_of,
)

Array = NDArray[Any]
Env = dict[Ref, Array]


class TooLarge(Exception):
    """A value of more elements than the reading allows."""


class Numbers:
    """`most`: elements of a value, beyond which the reading stops. `read`: the values whose elements matter; None: all."""

    def __init__(self, most: int, read: Container[Ref] | None = None) -> None:
        self.most, self.read = most, read

    def run(self, s: Statement, env: Env) -> None:
        """Adds the statement's results. Raises what inference and equations raise, and TooLarge."""
        if isinstance(s, Call):
            self._call(s, env)
        elif isinstance(s, If):
            taken = s.then if self._condition(s.cond, env) else s.other
            env[s.output] = self.block(taken, env)
        else:
            turns = []
            current = env[s.initial]
            for _ in range(max(int(env[s.trip]), 0)):
                current = self.block(s.body, {**env, s.inside: current})
                turns.append(current)
            env[s.output] = current
            if s.stacked is not None:
                if len({t.shape for t in turns}) > 1:
                    raise ShapeError("loop: what turns collect differs in shape")
                empty = np.zeros((0, *env[s.initial].shape), current.dtype)
                env[s.stacked] = np.stack(turns) if turns else empty

    def block(self, b: Block, env: Env) -> Array:
        inner = dict(env)
        for s in b.statements:
            self.run(s, inner)
        return inner[b.result]

    @staticmethod
    def _condition(cond: Ref | Longer, env: Env) -> bool:
        return _dim(env[cond.of], cond.axis) > cond.limit if isinstance(cond, Longer) else bool(env[cond])

    def _call(self, s: Call, env: Env) -> None:
        arrays: dict[str, Array] = {}

        def operand(ref: Ref) -> Any:
            arrays[f"v{ref}"] = env[ref]
            return typed(env[ref], f"v{ref}")

        inputs = [
            None if i is None else [operand(r) for r in i] if isinstance(i, tuple) else operand(i) for i in s.inputs
        ]
        params = {**s.params, **{o.name: _value(o, env) for o in s.operands}}
        node = call_node(variants(s.op)[0], inputs, params)
        for v in node.outputs:
            if int(np.prod([n for n in v.type.shape or () if isinstance(n, int)])) > self.most:
                raise TooLarge
        with np.errstate(all="ignore"):
            env.update(zip(s.outputs, self._computed(s, node, arrays), strict=True))

    def _computed(self, s: Call, node: Node, arrays: dict[str, Array]) -> Sequence[Array]:
        """The results; zeros where equations refuse what nobody reads an element of, so that nothing computes it."""
        try:
            return evaluate(node.outputs, arrays)
        except AnyshapeError:
            shapes: list[tuple[Any, ...]] = [v.type.shape or () for v in node.outputs]
            known = all(isinstance(n, int) for shape in shapes for n in shape)
            if not known or self.read is None or any(r in self.read for r in s.outputs):
                raise
            return [np.zeros(shape, v.type.dtype.numpy) for shape, v in zip(shapes, node.outputs)]


def _value(o: Operand, env: Env) -> Any:
    if isinstance(o.source, int):
        found = env[o.source].tolist()
        return tuple(found) if isinstance(found, list) and not o.scalar else found
    numbers = tuple(_number(p, env) for p in o.source)
    return numbers[0] if o.scalar else numbers


def _number(p: Piece, env: Env) -> int:
    return p.number + (0 if p.of is None else _dim(env[p.of], p.axis))


def _dim(a: Array, axis: int) -> int:
    """A size; changed inputs may have left no such axis."""
    if axis >= a.ndim:
        raise ShapeError(f"index {axis} is out of range for {a.ndim} items")
    return int(a.shape[axis])


def read(p: Program, arrays: Mapping[str, Array], most: int) -> list[Array]:
    """The program's results. Raises what the first refused statement raises."""
    reader, env = Numbers(most), {ref: arrays[name] for name, ref in p.params.items()}
    for s in p.statements:
        reader.run(s, env)
    return [env[r] for r in p.results]


def refusals(
    p: Program, arrays: Mapping[str, Array], most: int
) -> tuple[list[Array] | None, list[str], list[Statement]]:
    """(results, or None if any statement is refused; what refused statements say; statements that need those)."""
    reader, env = Numbers(most, elements_read(p)), {ref: arrays[name] for name, ref in p.params.items()}
    said: list[str] = []
    without: list[Statement] = []
    missing: set[Ref] = set()
    for s in p.statements:
        if missing & set(needs_of(s)):
            without.append(s)
            missing |= set(results_of(s))
            continue
        try:
            reader.run(s, env)
        except AnyshapeError as e:
            said.append(str(e))
            missing |= set(results_of(s))
            if not isinstance(s, Call):
                without.append(s)
    return (None if said else [env[r] for r in p.results]), said, without


def nudged(arrays: Mapping[str, Array], by: float) -> dict[str, Array]:
    """Slightly other floats: what a result changes by is what rounding may change it by."""
    return {k: np.asarray(a * (1 + by)).astype(a.dtype) if a.dtype.kind == "f" else a for k, a in arrays.items()}


__all__ = ["Array", "Env", "Numbers", "Sequence", "TooLarge", "nudged", "read", "refusals"]
