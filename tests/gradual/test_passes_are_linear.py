"""The passes are one walk: ten times the nodes take ten times as much work, and a model in which nothing changes takes next to none.
Work is counted, not timed; `python -m benchmarks.passes_speed` prints the times."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import anyshape
from anyshape import control, ops, passes
from anyshape.graph import infer
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape_testing.process.profile import LONG
from benchmarks.passes_speed import FAMILIES, PASSES, bert, reshapes
from tests.counting import calls


def test_what_is_measured_does_become_static() -> None:
    done = Counter(n.op.full_name for n in passes.dyn_to_static(reshapes(1000)).nodes)
    assert done["static.reshape"] == done["dyn.reshape"] == 100


class Work:
    """How many relations a pass runs: types inferred are what it does, and do not depend on what else the machine does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = 0
        plain = infer.infer
        monkeypatch.setattr(infer, "question_of", lambda *_: None)  # nothing is remembered

        def counted(*arguments: Any, **named: Any) -> Any:
            self.done += 1
            return plain(*arguments, **named)

        monkeypatch.setattr(infer, "infer", counted)

    def of(self, run: Callable[[Function], Function], f: Function) -> int:
        self.done = 0
        run(f)
        return self.done


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("run", list(PASSES))
def test_work_grows_as_the_graph(family: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    small, large = (FAMILIES[family](n) for n in (300, 1500))
    few, many = (work.of(PASSES[run], f) for f in (small, large))
    ratio = sum(1 for _ in large.all_nodes()) / sum(1 for _ in small.all_nodes())
    assert many <= 1.1 * ratio * few + 20, f"{few} relations, and {many} for {ratio:.1f} times the nodes"


def test_equal_computed_shapes_are_one_reshape() -> None:
    """Equal shapes are one in the function itself and in both branches and a loop's body."""
    x, c = anyshape.input("x", "f32[n, m, 4]"), anyshape.input("c", "bool[]")

    def twice(v: Value) -> Value:
        both = [ops.reshape(v, ops.concat([[-1], ops.shape_of(v, start=2)], axis=0)) for _ in range(2)]
        return ops.reshape(ops.add(*both), ops.shape_of(v))

    (y,) = control.if_(c, lambda: twice(x), lambda: ops.neg(twice(x)))
    (z,) = control.loop(3, lambda iteration, v: [twice(v)], [twice(y)])
    done = passes.optimise(anyshape.function([x, c], z))
    places = [done, *(r for node in done.nodes for r in node.regions)]
    assert len(places) == 4
    for f in places:
        added = [n for n in f.nodes if n.op.name == "add"]
        assert len(added) == 1 and added[0].inputs[0] is added[0].inputs[1], str(f)


@pytest.mark.skipif(not LONG, reason="half a minute; relations are counted above")
@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("run", list(PASSES))
def test_ten_times_the_nodes(family: str, run: str) -> None:
    small, large = (FAMILIES[family](n) for n in (300, 3_000))
    ratio = sum(1 for _ in large.all_nodes()) / sum(1 for _ in small.all_nodes())
    assert calls(lambda: PASSES[run](large)) < 1.2 * ratio * calls(lambda: PASSES[run](small))


def test_a_bert_in_which_nothing_changes() -> None:
    done = passes.optimise(bert())
    assert len(done.nodes) > 500
    again: list[Function] = []
    assert calls(lambda: again.append(passes.dyn_to_static(done))) < 60 * len(done.nodes)
    assert len(again[0].nodes) == len(done.nodes)
