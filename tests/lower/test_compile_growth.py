"""Graphs of elementwise ops and moves compile to code in proportion to their nodes, whatever reads what how often.

Counted, never timed: nodes of the graph that is scheduled, lines of LLVM text, calls of Python. Ops are all those of the table that make a
tensor like their operands by maps alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.kernel_model.forms import KernelKind, classify
from anyshape.kernel_model.kernel_size import MOST_INSTRUCTIONS, KernelSizes
from anyshape.lower.kernel import Group
from anyshape.lower.lowering import lower_group
from anyshape.lower.schedule.inline import inline_group
from anyshape.lower.target import host_target
from anyshape.passes import optimise
from anyshape.passes.fuse import MAX_NODES, fuse
from anyshape.passes.parts import takes_parts
from anyshape.passes.steps import KernelStep
from anyshape_testing.calls.packages import register
from anyshape_testing.process.profile import LONG
from tests.counting import calls

SIZES = (10, 40, 100, 300) if LONG else (10, 60)
SEEDS = range(6) if LONG else range(1)
SIDE = 24
MOST_LINES = 8 * MOST_INSTRUCTIONS
LINES_PER_NODE = 700
Value = Any
Step = Callable[..., Value]


def _square() -> Value:
    return anyshape.input("x", f"f32[{SIDE}, {SIDE}]")


@cache
def maps(operands: int) -> list[str]:
    """The ops that make such a tensor of so many like it, and nothing else, by maps or moves."""
    names = []
    for name in sorted(register("anyshape_ops")):
        x = _square()
        try:
            y = getattr(ops, name)(*[x] * operands)
        except (AnyshapeError, TypeError, AttributeError):
            continue
        node = getattr(y, "node", None)
        if node is None or y.type != x.type or len(node.outputs) != 1 or node.op.kernel is None or node.op.is_random:
            continue
        equations = equations_of(node, *tensors_of(node)).equations
        if classify(equations) in (KernelKind.MAP, KernelKind.MOVE) and not takes_parts(equations):
            names.append(name)
    return names


def moves(r: random.Random, v: Value, index: Value) -> Value:
    """A tensor of the same type from other places: what reads it at several of them is computed there."""
    k = r.randrange(1, SIDE)
    match r.randrange(6):
        case 0:
            return ops.transpose(v, axes=[1, 0])
        case 1:
            return ops.gather(v, index, axis=r.randrange(2))
        case 2:
            return ops.slice(ops.pad(v, pads=[0, 1, 0, 1]), starts=[0], ends=[SIDE], axes=[1])
        case 3:
            sides = ops.slice(v, starts=[k], ends=[SIDE], axes=[1]), ops.slice(v, starts=[0], ends=[k], axes=[1])
            return ops.concat(list(sides), axis=1)
        case 4:
            return ops.where(ops.less(v, 0.5), v, ops.neg(v))
        case _:
            return ops.reshape(ops.reshape(v, [SIDE * SIDE]), [SIDE, SIDE])


def graph(form: str, nodes: int, seed: int, moving: float) -> Function:
    r, x, index = random.Random(f"{form} {nodes} {seed} {moving}"), _square(), anyshape.input("i", f"i64[{SIDE}]")

    def step(*vs: Value) -> Value:
        if r.random() < moving:
            return moves(r, vs[0], index)
        return getattr(ops, r.choice(maps(len(vs))))(*vs)

    values = [x]
    match form:
        case "chain":
            for _ in range(nodes):
                values.append(step(values[-1]))
        case "tree":
            values = [step(x) for _ in range((nodes + 1) // 2)]
            while len(values) > 1:
                values.append(step(values.pop(0), values.pop(0)))
        case "ladder":
            a, b = x, step(x)
            for _ in range(nodes // 2):
                a, b = step(a, b), step(b, a)
            values.append(ops.add(a, b))
        case "diamonds":
            for _ in range(nodes // 2):
                values.append(step(step(values[-1]), values[-1]))
        case _:
            for _ in range(nodes):
                values.append(step(*r.choices(values[-6:], k=r.choice((1, 2)))))
    return anyshape.function([x, index], values[-1])


def groups(f: Function) -> Iterator[Group]:
    for step in fuse(optimise(f)).steps:
        if isinstance(step, KernelStep):
            constants = {step.tensors[v]: v.constant for v in step.inputs if v.constant is not None}
            inputs, outputs = (tuple(step.tensors[v] for v in vs) for vs in (step.inputs, step.outputs))
            yield Group("g", step.equations, inputs, outputs=outputs, constants=constants)


@pytest.mark.parametrize(("form", "nodes", "seed", "moving"), [("any", 300, 4, 0.8), ("chain", 100, 0, 0.3)])
def test_pieces_are_computed_once_at_each_place(form: str, nodes: int, seed: int, moving: float) -> None:
    """What reads a concat's pieces under several conditions had a copy of them for each: 40,989 lines of text, and 16,511. Code without
    AVX-512 is a little longer."""
    assert max(lower_group(g, host_target()).text.count("\n") for g in groups(graph(form, nodes, seed, moving))) < 6_000


@pytest.mark.parametrize("form", ["chain", "tree", "ladder", "diamonds", "any"])
@pytest.mark.parametrize("moving", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("nodes", SIZES)
def test_code_grows_with_nodes(form: str, moving: float, nodes: int) -> None:
    for seed in SEEDS:
        lines = dag = 0
        for g in groups(graph(form, nodes, seed, moving)):
            text = lower_group(g, host_target()).text.count("\n")
            assert text <= MOST_LINES, f"seed {seed}: a kernel of {text} lines"
            lines += text
            dag += len(inline_group(g).dag)
        assert lines <= LINES_PER_NODE * (nodes + 10), f"seed {seed}: {lines} lines"
        assert dag <= 60 * (nodes + 10), f"seed {seed}: {dag} nodes are scheduled"


def test_the_table_has_many_of_them() -> None:
    assert len(maps(1)) >= 40 and len(maps(2)) >= 8


@pytest.mark.parametrize("name", maps(1))
def test_each_op_in_a_row_takes_work_in_proportion(name: str) -> None:
    """What a branch of a choice reads was inlined once per branch and level: 7 sigmoids took 6 s."""

    def dag(n: int) -> int:
        x = y = _square()
        for _ in range(n):
            y = getattr(ops, name)(y)
        return sum(len(inline_group(g).dag) for g in groups(anyshape.function([x], y)))

    few, many = dag(4), dag(12)
    assert many <= 3 * few + 40


def test_a_looked_up_row_of_choices_is_checked_once() -> None:
    x, index = _square(), anyshape.input("i", f"i64[{SIDE}]")
    y = ops.sigmoid(ops.gather(ops.sigmoid(ops.sigmoid(x)), index, axis=1))
    (g,) = groups(anyshape.function([x, index], y))
    assert len(inline_group(g).errors) == 1


@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"kernels": "interpret"}])
def test_an_index_out_of_range_is_refused_wherever_it_is_used(options: dict[str, Any]) -> None:
    """A tensor that is inlined is what it is on its own: nobody's condition makes a wrong index right."""
    x, index, condition = (anyshape.input(*p) for p in (("x", "f32[n]"), ("i", "i64[m]"), ("c", "bool[m]")))
    f = anyshape.function([x, index, condition], ops.where(condition, ops.gather(x, index), 0.0))
    exe = anyshape.compile(f, **options)
    data, yes = np.arange(3, dtype=np.float32), np.array([True, False])
    assert exe(data, np.array([2, 1]), yes).tolist() == [2.0, 0.0]
    with pytest.raises(AnyshapeError, match="index 7 is out of range"):
        exe(data, np.array([2, 7]), yes)


def test_places_of_places_are_cut() -> None:
    """Every element is a sum of 2 ** 12 others: the places are counted, not the nodes."""
    x, i, j = (anyshape.input(*p) for p in (("x", "f32[n]"), ("i", "i64[n]"), ("j", "i64[n]")))
    y = x
    for _ in range(12):
        y = ops.add(ops.gather(y, i), ops.gather(y, j))
    f = anyshape.function([x, i, j], y)
    sizes = [KernelSizes().instructions(g.equations) for g in groups(f)]
    assert 1 < len(sizes) < 12 and max(sizes) <= MOST_INSTRUCTIONS
    data, a, b = np.arange(5, dtype=np.float32), np.array([1, 2, 3, 4, 0]), np.array([-1, 0, 1, 2, 3])
    want = data
    for _ in range(12):
        want = want[a] + want[b]
    assert anyshape.compile(f)(data, a, b).tolist() == want.tolist()


def test_what_many_read_at_one_place_counts_once() -> None:
    x = y = _square()
    for _ in range(MAX_NODES):
        y = ops.add(y, y)
    (g,) = groups(anyshape.function([x], y))
    assert KernelSizes().instructions(g.equations) < 10 * MAX_NODES


def test_fusion_takes_time_in_proportion() -> None:
    def chain(n: int) -> Function:
        x = y = anyshape.input("x", "f32[n, m]")
        for k in range(n):
            y = ops.add(y, x) if k % 50 else ops.softmax(y)
        return anyshape.function([x], y)

    f, g = chain(200), chain(800)
    few, many = calls(lambda: fuse(f)), calls(lambda: fuse(g))
    assert many < 4.6 * few
