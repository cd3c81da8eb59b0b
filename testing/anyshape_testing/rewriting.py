"""Law 5: every rewrite of a spec keeps values and types, on random instances of its left side, on numbers and on symbols.

An instance is built from the rewrite's own text: inner calls first, then each outer one by a random call of its op with the shape and dtype
of its operands. Instances begin with each dtype that is allowed, since a rewrite may be wrong for unsigned integers only. A rewrite that
never fires fails the law.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dtypes import from_numpy
from anyshape.equations.expr import Reduce
from anyshape.equations.interpret import Arithmetic
from anyshape.equations.traversal import walk
from anyshape.errors import AnyshapeError
from anyshape.graph.call import call
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.opdef import InputDef, RewriteDef
from anyshape.graph.value import Node, Value, constant
from anyshape.properties import Case, Property
from anyshape.rules import Vec
from anyshape_testing.accounting import Tally, required_calls, settle
from anyshape_testing.calls import (
    Call,
    Recipe,
    Symbols,
    build_call,
    computed,
    input_dtype,
    random_call,
    random_case,
    static_node,
    typed,
    variants,
)
from anyshape_testing.corpus import FEW, Enough
from anyshape_testing.draws import Choosing, HypothesisDraw, choosing
from anyshape_testing.enlarging import enlarged
from anyshape_testing.evaluation import evaluate
from anyshape_testing.running import MORE, PACKAGES, PROPERTIES, asked_of, line_of, plain, register
from anyshape_testing.tolerance import is_float, is_normal, product_leaves_range, underflow

Array = NDArray[Any]
Record = Callable[[str, Any], None]
LAW = "5 rewrites keep values and types"
DRAWS = 16
"""draws of one call until its parameters fit the pattern"""
ENOUGH = 100
"""Instances after which a rewrite that has not fired fails"""


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
            len(calls) > 1 or op.inputs[0] not in calls or not variants(_name(calls[op.inputs[0]]))[0].params
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


def _name(pattern: ast.Call) -> str:
    assert isinstance(pattern.func, ast.Name)
    return pattern.func.id


def _shape(v: Value) -> tuple[int, ...]:
    assert v.type.shape is not None
    return tuple(int(str(n)) for n in v.type.shape)


def elements_read(rewrite: RewriteDef) -> frozenset[str]:
    """Lists the operands of which the condition reads elements: `r[()]`, `finite(w)`."""
    return frozenset(re.findall(r"\w+(?=\[\(\)\])|(?<=\bfinite\()\w+", rewrite.text))


def single_elements(rewrite: RewriteDef) -> frozenset[str]:
    """Lists the operands that have one element, if the condition is to hold."""
    return frozenset(re.findall(r"prod\(shape\((\w+)\)\) == 1", rewrite.text))


def numbers_of(rewrite: RewriteDef) -> tuple[int, ...]:
    """Lists the numbers but 0 and 1 that the condition says something is equal to."""
    return tuple(sorted({int(n) for n in re.findall(r" == (-?\d+)", rewrite.text)} - {0, 1}))


def pattern_of(rewrite: RewriteDef) -> ast.Call:
    """Parses the left side of a rewrite, without the name it may be given."""
    left = rewrite.text.split(">>")[0].split(" as ")[0].strip()
    pattern = ast.parse(left, mode="eval").body
    assert isinstance(pattern, ast.Call)
    return pattern


def term_of(rewrite: RewriteDef) -> ast.expr:
    """Parses the right side of a rewrite, without its condition."""
    return ast.parse(rewrite.text.split(">>")[1].split(" if ")[0].strip(), mode="eval").body


def test_rewrites(rewriting_op: str, record_property: Record) -> None:
    p, drawn = PROPERTIES[rewriting_op], 0
    fired: list[int] = []
    for k, rewrite in enumerate(variants(rewriting_op)[0].rewrites):
        here, times = fires(rewriting_op, k)
        assert here or times < ENOUGH, f"{rewrite.source}: {rewrite.text} never fired in {times} instances"
        drawn, fired = drawn + times, [*fired, here]
    # Each rewrite has to be accepted on its own: one that fires often does not test another.
    least = required_calls(settings().max_examples)
    accepted = sum(fired) if min(fired) >= least else min(fired)
    settle(Tally(LAW, rewriting_op, drawn, accepted, least), p.weak, record_property, p.source)


def fires(op: str, number: int) -> tuple[int, int]:
    """Returns how often the op's rewrite of that number fired and was compared, and on how many instances. Raises AssertionError where it
    is wrong."""
    rewrite = variants(op)[0].rewrites[number]
    counts = [0, 0]
    failing: list[Instance] = []

    def search(examples: int, dtypes: Mapping[str, Sequence[str]], enough: float = math.inf) -> None:
        @st.composite  # one strategy for the whole instance: a draw within it costs a tenth of one with `data()`
        def instances(draw: Any) -> tuple[Instance, Value]:
            counts[1] += 1
            instance = Instance(
                Choosing(draw),
                known=elements_read(rewrite),
                numbers=numbers_of(rewrite),
                single=single_elements(rewrite),
                first=dtypes,
            )
            return instance, left_side(rewrite, instance)

        @settings(max_examples=examples)
        @given(instances())
        def run(drawn: tuple[Instance, Value]) -> None:
            instance, before = drawn
            try:
                counts[0] += applied(rewrite, instance, before)
            except AssertionError:
                failing.append(instance)
                raise
            if counts[0] >= enough:  # after the draws, since the test library may run it again
                raise Enough

        run()

    try:
        search(settings().max_examples, {})
        taken = dtypes_of_term(rewrite)
        for var, dtype in first_dtypes(rewrite):
            with suppress(Unsatisfiable):  # a call of that dtype may fit no pattern
                search(FEW if dtype in taken.get(var, (dtype,)) else 1, {var: (dtype,)})
        if counts[0] < (least := required_calls(settings().max_examples)):
            with suppress(Enough):
                search(MORE * calls_within(rewrite) * settings().max_examples, taken, least)
    except AssertionError as e:
        if failing:
            e.add_note(report(op, number, failing[-1]))
        raise
    return counts[0], counts[1]


def calls_within(rewrite: RewriteDef) -> int:
    """Counts the calls of the pattern but the outermost one: the more of them have to fit each other, the rarer do they."""
    return max(sum(isinstance(n, ast.Call) for n in ast.walk(pattern_of(rewrite))) - 1, 1)


def first_dtypes(rewrite: RewriteDef) -> list[tuple[str, str]]:
    """Lists each dtype that an innermost call of the pattern allows, with its variable."""
    calls = [n for n in ast.walk(pattern_of(rewrite)) if isinstance(n, ast.Call)]
    inner = {a for c in calls for a in (*c.args, *(k.value for k in c.keywords)) if isinstance(a, ast.Call)}
    innermost = [c for c in calls if inner.isdisjoint((*c.args, *(k.value for k in c.keywords)))]
    names = [c.func.id for c in innermost if isinstance(c.func, ast.Name)]
    return list(
        dict.fromkeys(
            (v, d) for name in names for v, allowed in variants(name)[0].dtypes.items() for d in computed(allowed)
        )
    )


def dtypes_of_term(rewrite: RewriteDef) -> dict[str, list[str]]:
    """Lists, for each dtype variable of innermost calls, the dtypes that calls of the term take; nothing where it has no calls."""
    calls = [n for n in ast.walk(term_of(rewrite)) if isinstance(n, ast.Call)]
    names = [c.func.id for c in calls if isinstance(c.func, ast.Name)]
    taken = {d for name in names for allowed in variants(name)[0].dtypes.values() for d in computed(allowed)}
    some: dict[str, list[str]] = {}
    for v, d in first_dtypes(rewrite):
        if d in taken:
            some.setdefault(v, []).append(d)
    return some


def left_side(rewrite: RewriteDef, instance: Instance) -> Value:
    """Builds the left side of a rewrite. Rejects an instance that is no valid call."""
    try:
        return instance.of(pattern_of(rewrite))
    except AnyshapeError:
        return reject()


def applied(rewrite: RewriteDef, instance: Instance, before: Value) -> bool:
    """Applies a rewrite to an instance and compares; returns whether it fired, and there was something to compare."""
    after = rewrite.apply(before.node)
    general = instance.symbolic[before]
    compare_on_symbols(rewrite, instance, general, rewrite.apply(general.node), after is not None)
    return after is not None and compare(rewrite, instance, before, after[0])


def report(op: str, number: int, instance: Instance) -> str:
    """Describes an instance for which a rewrite fails: its calls, the spec's line and a script that runs it again."""
    source = variants(op)[0].rewrites[number].source
    calls = [
        {
            "shapes": plain(r.case.shapes), "params": plain(r.case.params), "dtypes": dict(r.dtypes), "seed": r.seed,
            "style": r.style, **asked_of(r.case),
        }
        for r in instance.recipes
    ]  # fmt: skip
    summary = "; ".join(f"shapes {c['shapes']}, dtypes {c['dtypes']}, seed {c['seed']}" for c in calls)
    return "\n".join(
        [
            f"\nlaw {LAW} of {op}, {source}: {line_of(source)}",
            f"  {summary}",
            "again:",
            "    from anyshape_testing.rewriting import rerun",
            f"    calls = {calls}",
            f"    rerun({PACKAGES[op]!r}, {op!r}, {number}, calls)",
        ]
    )


def _recipe(shapes: Any, params: Any, dtypes: Mapping[str, str], seed: int, style: str, **asked: Any) -> Recipe:
    return Recipe(Case(shapes, params, **asked), dtypes, seed, style)


def rerun(package: str, op: str, number: int, calls: Sequence[Mapping[str, Any]]) -> None:
    """Applies one rewrite to one instance of its left side. Raises what the law raises."""
    register(package)
    again = [_recipe(**c) for c in calls]
    rewrite = variants(op)[0].rewrites[number]
    if sum(isinstance(n, ast.Call) for n in ast.walk(pattern_of(rewrite))) != len(calls):
        print(f"{rewrite.text} is another rewrite than these calls were made for")
        return
    instance = Instance(
        None, again=again, known=elements_read(rewrite), numbers=numbers_of(rewrite), single=single_elements(rewrite)
    )
    fired = applied(rewrite, instance, left_side(rewrite, instance))
    print(f"{rewrite.text} {'holds for' if fired else 'does not fire on'} these calls")


def compare(rewrite: RewriteDef, instance: Instance, before: Value, after: Value) -> bool:
    """Compares what a rewrite makes with what was there; returns whether there is an element other than zero."""
    where = f"{rewrite.source}: {rewrite.text}\n  on " + "; ".join(instance.called)
    assert after.type == before.type, f"{where}: type {after.type} in place of {before.type}"
    with np.errstate(all="ignore"):
        want, got = evaluate([before, after], instance.arrays)
    assert got.shape == want.shape and got.dtype == want.dtype, where
    close = _are_close(got, want, np.zeros(got.shape))
    if not close and is_float(
        got
    ):  # by what the terms of sums explain: the other side may add them up in another order

        def read(arithmetic: Arithmetic) -> list[Array]:
            return evaluate([before], instance.arrays, arithmetic)

        with np.errstate(all="ignore"):
            (spread,) = enlarged(read, beside=False, reductions=True)
            close = _are_close(got, want, spread)
        if not close and _adds_up(before.node) and product_leaves_range(instance.operands):
            held = is_normal(got) & is_normal(want)
            lost = underflow(instance.operands)
            close = _are_close(got[held], want[held], np.broadcast_to(spread + lost, got.shape)[held])
    assert close, f"{where}: {got!r} in place of {want!r}"
    return bool(np.any(want))


def _adds_up(node: Node | None) -> bool:
    """Whether a node, or one that it reads, is a sum of floats."""
    if node is None or node.op.kernel is None:
        return False
    stated = equations_of(node, *tensors_of(node)).equations
    sums = (e for q in stated for e in walk(q.value) if isinstance(e, Reduce) and e.kind == "sum")
    return any(e.dtype is not None and e.dtype.is_float for e in sums) or any(
        _adds_up(v.node) for v in node.inputs if v is not None
    )


def _are_close(got: Array, want: Array, spread: Array) -> bool:
    """Whether elements are equal, or floats up to their rounding and `spread`. The largest float rounds to infinity, and stands for it."""
    if not is_float(got):
        return np.array_equal(got, want)
    with np.errstate(all="ignore"):
        g, w = got.astype(np.float64), want.astype(np.float64)
        margin = 64 * float(finfo(got.dtype).eps) * np.abs(w) + spread
        near = np.clip(g, -float(finfo(got.dtype).max), float(finfo(got.dtype).max))
        return bool(((g == w) | (np.isnan(g) & np.isnan(w)) | (np.isfinite(w) & (np.abs(near - w) <= margin))).all())


def compare_on_symbols(
    rewrite: RewriteDef, instance: Instance, before: Value, results: Sequence[Value] | None, on_numbers: bool
) -> None:
    """Asserts that a rewrite that fires on symbols fires on numbers too, and keeps every dim at these numbers."""
    if results is None:
        return
    after = results[0]
    where = f"{rewrite.source}: {rewrite.text}\n  on symbols, " + "; ".join(instance.called)
    assert on_numbers, f"{where}: fires, and does not on {instance.symbols.numbers}"
    if before.type.shape is None:
        return
    assert after.type.dtype == before.type.dtype, f"{where}: type {after.type} in place of {before.type}"
    assert after.type.shape is not None, f"{where}: the rank of {before.type} is lost"
    assert len(after.type.shape) == len(before.type.shape), f"{where}: type {after.type} in place of {before.type}"
    for n, m in zip(after.type.shape, before.type.shape):
        values = {int(dims.evaluate(x, instance.symbols.numbers)) for x in (n, m)}
        assert len(values) == 1, f"{where}: type {after.type} in place of {before.type} at {instance.symbols.numbers}"


__all__ = ["test_rewrites"]
