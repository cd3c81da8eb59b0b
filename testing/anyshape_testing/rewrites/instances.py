"""Random instances of the left side of a rewrite, on numbers and on symbols.

An instance is built from the pattern: inner calls first, then each outer one by a random call of its op with the shape and dtype of its
operands.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import reject
from numpy.typing import NDArray

from anyshape.dtypes import from_numpy
from anyshape.errors import AnyshapeError
from anyshape.graph.call import call
from anyshape.graph.opdef import InputDef, RewriteDef
from anyshape.graph.value import Value, constant
from anyshape.properties import Property
from anyshape.rules import Vec
from anyshape_testing.calls.call import Call, Recipe, build_call, variants
from anyshape_testing.calls.dtypes import input_dtype
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.operands import Symbols, typed
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.draw.choices import HypothesisDraw, choosing
from anyshape_testing.draw.random_call import random_call, random_case
from anyshape_testing.rewrites.text import name_of, pattern_of

Array = NDArray[Any]

DRAWS = 16
"""draws of one call until its parameters fit the pattern"""


class Following(HypothesisDraw):
    """Draws a call whose first shape is a given one, as far as its signature allows it. Its other sizes are mostly sizes of that shape, and
    its integers those that a condition compares with."""

    def __init__(self, draw: Any, shape: Sequence[int], numbers: Sequence[int] = ()) -> None:
        super().__init__(draw)
        self.rest = list(shape)
        self.pool = [*shape, *self.pool[len(shape) :]]
        self.numbers = numbers

    def integer(self) -> int:
        drawn: int = self._among(super().integer(), 0, 1, *self.numbers)
        return drawn

    def dim(self, name: str) -> int:
        return self.rest.pop(0) if self.rest else super().dim(name)

    def run(self, name: str) -> Vec:
        if not self.rest:
            return super().run(name)
        taken, self.rest = self.rest, []
        return Vec(taken)

    def maybe(self, name: str, needed: bool) -> Vec:
        return Vec((self.rest.pop(0),)) if self.rest else super().maybe(name, needed)


@dataclass(repr=False)
class Instance:
    """Builds the left side of a rewrite on numbers and on symbols; keeps the arrays of its inputs, and the calls for the report."""

    draw: Any
    arrays: dict[str, Array] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    bound: dict[str, Value] = field(default_factory=dict)
    symbols: Symbols = field(default_factory=lambda: Symbols({}))
    symbolic: dict[Value, Value] = field(default_factory=dict)
    """the value on symbols for each value on numbers"""
    recipes: list[Recipe] = field(default_factory=list)
    """recipes of the calls so far, in the order in which they were drawn"""
    again: list[Recipe] = field(default_factory=list)
    """recipes to use in place of random calls"""
    known: frozenset[str] = frozenset()
    """operands whose elements the condition reads: they are constants, often 0, 1 or one of `numbers`, with which the condition compares"""
    numbers: tuple[int, ...] = ()
    single: frozenset[str] = frozenset()
    """operands that often have one element, as the condition asks for"""
    first: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """dtypes from which those of innermost calls are drawn, by variable"""

    def __repr__(self) -> str:
        return f"Instance({'; '.join(self.called)})"

    @property
    def operands(self) -> list[Array]:
        """The arrays of the instance's inputs, and its constants."""
        constants = (v.constant for v in self.bound.values())
        return [*self.arrays.values(), *(a for a in constants if a is not None)]

    def of(self, pattern: ast.Call, like: Array | None = None) -> Value:
        """Builds a pattern, whose result is to have the shape and dtype of `like`. Raises what inference raises; rejects a draw that does
        not fit its operands."""
        assert isinstance(pattern.func, ast.Name)
        p = PROPERTIES[pattern.func.id]
        op = variants(p.op)[0]
        names = [i.name for i in op.inputs] + [q.name for q in op.params]
        parts = dict(zip(names, pattern.args)) | {k.arg: k.value for k in pattern.keywords if k.arg}
        calls = {i: a for i in op.inputs if isinstance(a := parts.get(i.name), ast.Call)}
        if calls and (
            len(calls) > 1 or op.inputs[0] not in calls or not variants(name_of(calls[op.inputs[0]]))[0].params
        ):
            return self._around(p, calls, parts)
        fixed = (
            {} if self.again else {v: choosing(self.draw).among(ts) for v, ts in self.first.items() if v in op.dtypes}
        )
        if like is not None:
            fixed[op.outputs[0].dtype] = from_numpy(like.dtype).name
        inner = {i.name: self.of(a) for i, a in calls.items()}
        dtypes = {i.dtype: inner[i.name].type.dtype.name for i in op.inputs if i.name in inner and i.dtype in op.dtypes}
        if self.again:
            c = build_call(p, self.again.pop(0))
        else:
            first = like.shape if like is not None else next(map(_shape, inner.values()), None)
            c = self._drawn(p, parts, dtypes if inner else fixed, first)
        self.recipes += [c.recipe] if c.recipe is not None else []
        return self._called(p, c, parts, inner)

    def _drawn(
        self, p: Property, parts: Mapping[str, Any], dtypes: Mapping[str, str], shape: Sequence[int] | None = None
    ) -> Call:
        """Draws a call of an op that its rule accepts, of a first shape if one is given, with the parameters at their defaults that the
        pattern does not mention: shapes may depend on them."""
        unmatched = [q for q in variants(p.op)[0].params if q.name not in parts]
        for _ in range(DRAWS):
            choices = HypothesisDraw(self.draw) if shape is None else Following(self.draw, shape, self.numbers)
            case = random_case(p, choices)
            if all(case.params.get(q.name) is None or case.params[q.name] == q.default for q in unmatched):
                c = random_call(p, self.draw, dtypes, case=case)
                with suppress(AnyshapeError):
                    static_node(c)
                    return c
        return reject()

    def _around(self, p: Property, calls: Mapping[InputDef, ast.Call], parts: Mapping[str, ast.expr]) -> Value:
        """Builds a call of several calls, or of one that is not its first operand or that no parameter gives another shape. Their shapes
        have to fit each other, so it is drawn first, and each of them with the shape and dtype of its operand."""
        if self.again:
            c = build_call(p, self.again.pop(0))
        else:
            results = {
                i: variants(a.func.id)[0].outputs[0].dtype for i, a in calls.items() if isinstance(a.func, ast.Name)
            }
            among = {i.dtype: self.first[v] for i, v in results.items() if v in self.first}
            c = self._drawn(p, parts, {v: choosing(self.draw).among(ts) for v, ts in among.items()})
        self.recipes += [c.recipe] if c.recipe is not None else []
        inner = {i.name: self.of(a, drawn) for i, a in calls.items() if (drawn := c.inputs[i.name]) is not None}
        if len(inner) < len(calls):
            reject()
        return self._called(p, c, parts, inner)

    def _called(self, p: Property, c: Call, parts: Mapping[str, ast.expr], inner: Mapping[str, Value]) -> Value:
        """Builds a drawn call on what its inner calls return, on constants and on parameters."""
        op = variants(p.op)[0]
        assert c.recipe is not None
        operands: list[Any] = []
        for i in op.inputs:
            drawn = c.inputs[i.name]
            if i.name in inner:
                if drawn is None or drawn.shape != _shape(inner[i.name]):
                    reject()
                operands.append(inner[i.name])
            else:
                operands.append(self._leaf(parts.get(i.name), drawn, c.recipe.seed, free=not op.params))
            operand = operands[-1]
            if operand is not None and operand.type.dtype != input_dtype(i, c.dtypes):
                reject()
        params = {q.name: c.params.get(q.name) for q in op.params if q.name in parts}
        self.called.append(
            f"{p.op}({', '.join(str(v.type) if v is not None else 'absent' for v in operands)}, {params})"
        )
        result = call(op, operands, params)[0]
        self.symbolic[result] = call(op, [v if v is None else self.symbolic[v] for v in operands], params)[0]
        return result

    def _leaf(self, part: ast.expr | None, drawn: Array | None, seed: int, free: bool) -> Value | None:
        """Makes an operand, or returns that of the same name; None where the pattern or the draw leaves it out. `free`: no parameter says
        what shape it has."""
        if part is None or drawn is None:
            return None
        assert isinstance(part, ast.Name)
        if part.id in self.bound:
            return self.bound[part.id]
        if free and part.id in self.single and seed % 2:
            drawn = np.resize(drawn, (1,) * drawn.ndim)
        if part.id in self.known:
            choices = [drawn, *(np.full_like(drawn, number) for number in (0, 1, *self.numbers))]
            value = constant(choices[seed % len(choices)])
            self.symbolic[value] = self.bound[part.id] = value
            return value
        name = f"in{len(self.arrays)}"
        self.arrays[name] = drawn
        value = typed(drawn, name)
        self.symbolic[value] = self.symbols(drawn, name)
        if part.id != "_":
            self.bound[part.id] = value
        return value


def _shape(v: Value) -> tuple[int, ...]:
    assert v.type.shape is not None
    return tuple(int(str(n)) for n in v.type.shape)


def left_side(rewrite: RewriteDef, instance: Instance) -> Value:
    """Builds the left side of a rewrite. Rejects an instance that is no valid call."""
    try:
        return instance.of(pattern_of(rewrite))
    except AnyshapeError:
        return reject()
