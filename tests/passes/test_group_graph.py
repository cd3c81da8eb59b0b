"""The graph of groups while fusion makes it grow: no cycles, levels above those of operands, and work in proportion to the nodes.

Work is counted, not timed; `python -m benchmarks.fusion_growth` prints times and exponents.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

import anyshape
from anyshape import ops
from anyshape.errors import VerifyError
from anyshape.graph.function import Function
from anyshape.passes.fuse import fuse
from anyshape.passes.group_graph import MOST_LOOKED_AT, FusionGroup, GroupGraph
from benchmarks.fusion_growth import SHAPES, exponent
from tests.counting import calls


def drawn(seed: int, nodes: int = 14) -> tuple[GroupGraph, list[FusionGroup]]:
    """The graph of a drawn function, each node a group of its own."""
    r, x = random.Random(seed), anyshape.input("x", "f32[n]")
    values = [x]
    for _ in range(nodes):
        values.append(ops.add(*r.choices(values[-5:], k=2)))
    f = anyshape.function([x], values[1:])
    graph = GroupGraph(f)
    for node in f.nodes:
        graph.begin(node, FusionGroup(nodes=[node]))
    return graph, list(graph.groups)


def path_around(graph: GroupGraph, groups: list[FusionGroup]) -> bool:
    """Whether a path leads from one of the groups through another group to one of them: by trying all."""

    def below(g: FusionGroup) -> Iterator[FusionGroup]:
        for n in g.operands:
            yield n
            yield from below(n)

    outside = [n for g in groups for n in g.operands if n not in groups]
    return any(g in groups for n in outside for g in below(n))


def levels_hold(graph: GroupGraph) -> bool:
    return all(o.level < g.level and g in o.readers for g in graph.groups if g.nodes for o in g.operands)


@pytest.mark.parametrize("seed", range(60))
def test_groups_become_one_where_that_makes_no_cycle(seed: int) -> None:
    graph, groups = drawn(seed)
    r = random.Random(seed)
    for iteration in range(20):
        left = [g for g in groups if g.nodes]
        if len(left) < 3:
            break
        chosen = sorted(r.sample(left, r.choice((2, 2, 3))), key=lambda g: g.level)
        assert graph.may_become_one(chosen) == (not path_around(graph, chosen))
        if graph.may_become_one(chosen):
            graph.merge(chosen, f"turn {iteration}")
            assert levels_hold(graph) and chosen[-1].joined_by[-1] == f"turn {iteration}"
            assert not any(g.nodes or g.operands or g.readers for g in chosen[:-1])
    order = list(graph.in_order())
    assert len(order) == sum(bool(g.nodes) for g in groups)
    assert all(order.index(o) < k for k, g in enumerate(order) for o in g.operands)


def test_both_answers_are_tried() -> None:
    answers = {path_around(g, groups[a : a + 3 : 2]) for g, groups in map(drawn, range(20)) for a in range(8)}
    assert answers == {True, False}


def groups_of(*values: Any) -> tuple[GroupGraph, list[FusionGroup]]:
    """The graph of what the values need, each node a group of its own, and the groups of the values."""
    f = anyshape.function(list(dict.fromkeys(v for v in values if v.node is None)), [v for v in values if v.node])
    graph = GroupGraph(f)
    for node in f.nodes:
        graph.begin(node, FusionGroup(nodes=[node]))
    return graph, [graph.group_of[v.node] for v in values if v.node is not None]


def test_what_is_between_has_to_be_inside() -> None:
    x = anyshape.input("x", "f32[n]")
    a = ops.exp(x)
    b = ops.neg(a)
    graph, (first, second, third) = groups_of(x, a, b, ops.add(a, b))
    assert not graph.may_become_one([first, third]) and graph.may_become_one([first, second, third])
    graph.merge([first, second, third], "all")
    assert [g.nodes for g in graph.in_order()] == [[*third.nodes]] and len(third.nodes) == 3


def test_groups_that_need_each_other_are_refused() -> None:
    """Groups become one without a question whether they may."""
    q, k = anyshape.input("q", "f32[n, 8]"), anyshape.input("k", "f32[8, n]")
    scores = ops.matmul(q, k)
    f = anyshape.function([q, k], ops.add(ops.softmax(scores, axis=0), scores))
    assert len(fuse(f).steps) == 2
    anything = patch.object(GroupGraph, "may_become_one", lambda *_: True)
    unlevelled = patch.object(GroupGraph, "_levels_of_one", lambda _, groups: {groups[-1]: 0})
    with anything, unlevelled, pytest.raises(VerifyError, match="need each other"):
        fuse(f)


@pytest.mark.parametrize(("length", "one"), [(20, True), (2 * MOST_LOOKED_AT, False)])
def test_a_search_gives_up(length: int, one: bool) -> None:
    """One chain leads away from a group, and another to its reader: that they are not the same is known at the end of either."""
    x = anyshape.input("x", "f32[n]")
    away = first = ops.exp(x)
    to = x
    for _ in range(length):
        away, to = ops.softmax(away), ops.softmax(to)
    graph, (*_, a, b) = groups_of(x, away, first, ops.add(first, to))
    assert graph.may_become_one([a, b]) is one
    if one:
        graph.merge([a, b], "one")
        assert levels_hold(graph)


def amounts(shape: Callable[[int], Function], sizes: tuple[int, ...] = (200, 600)) -> tuple[list[int], list[float]]:
    graphs = [shape(n) for n in sizes]
    fuse(graphs[0])  # what is imported and remembered once
    return [len(f.nodes) for f in graphs], [float(calls(partial(fuse, f))) for f in graphs]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_fusion_is_linear(shape: str) -> None:
    assert exponent(*amounts(SHAPES[shape])) < 1.2


def test_work_that_grows_faster_is_found() -> None:
    """A merge that looks at all groups: nine calls for each, where a node takes a thousand."""
    plain = GroupGraph.merge

    def looking_at_all(self: GroupGraph, *arguments: Any) -> None:
        assert sum(len(g.nodes) >= 0 for g in self.groups for _ in range(9)) >= 0
        plain(self, *arguments)

    with patch.object(GroupGraph, "merge", looking_at_all):
        assert exponent(*amounts(SHAPES["chain"])) > 1.2
