"""What is remembered of a call is what would be inferred of it, and calls that differ in anything are asked anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import anyshape
from anyshape import ops, passes
from anyshape.dims import Facts, eq, symbol
from anyshape.frontends.onnx import loading
from anyshape.graph import infer
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.inference_cache import InferenceCache, Question, question_of
from anyshape.graph.registry import find_op
from anyshape.graph.value import Node
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.operands import ByName, flat_values, typed
from anyshape_testing.calls.packages import register
from benchmarks.models import load

OPS = register("anyshape_ops")
PARTS = 16


@contextmanager
def held_against_inference() -> Iterator[Counter[str]]:
    """Infers anew and compares whatever is remembered while this is open, which was learned here; counts both."""
    counted: Counter[str] = Counter()
    cached = infer._inferred

    def compared(node: Node, facts: Facts | None) -> infer.Inference:
        question = question_of(node, facts)
        known = question is not None and memory.get(question) is not None
        inference = cached(node, facts)
        counted["remembered" if known else "inferred"] += 1
        if known:
            assert described(inference) == described(infer.infer(node, facts)), f"{node}: {question}"
        return inference

    memory = InferenceCache[infer.Inference]()
    with patch.object(infer, "_MEMORY", memory), patch.object(infer, "_inferred", compared):
        yield counted


def described(inference: infer.Inference) -> tuple[Any, ...]:
    """Dims are compared by identity, and so are the conditions in contents."""
    return (
        inference.types,
        inference.contents,
        inference.checks,
        inference.dtypes,
        repr(inference.bound),
        inference.undetermined,
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_examples_of_all_ops(part: int) -> None:
    for op in sorted(OPS)[part::PARTS]:
        with held_against_inference() as counted:
            for example in OPS[op].examples:
                if example.error is None:
                    c = call_of(op, example)
                    for _ in range(2):
                        inputs = flat_values(c.values(typed))
                        passes.optimise(Function(inputs, call(c.op, c.values(ByName(inputs)), c.params)))
        assert counted["inferred"] or not OPS[op].examples


@pytest.mark.parametrize("name", ["bert_mini", "gpt2", "detection", "shape_heavy", "lstm", "mobilenet"])
def test_models(name: str, tmp_path: Path) -> None:
    path = load(name).build(tmp_path / "model.onnx")
    with held_against_inference() as counted:
        passes.optimise(loading.load(path))
    assert counted["inferred"]


def test_a_model_repeats_its_layers(tmp_path: Path) -> None:
    path = load("bert_mini").build(tmp_path / "model.onnx")
    with held_against_inference() as counted:
        passes.optimise(loading.load(path))
    assert counted["remembered"] > 2 * counted["inferred"]


def test_the_same_function_with_and_without(tmp_path: Path) -> None:
    path = load("gpt2").build(tmp_path / "model.onnx")
    remembering = str(passes.optimise(loading.load(path)))
    with patch.object(infer, "question_of", lambda *_: None):
        assert str(passes.optimise(loading.load(path))) == remembering


def question(value: Any, **attrs: Any) -> Question | None:
    (x,) = [anyshape.constant(value)] if isinstance(value, np.ndarray) else [anyshape.input("x", value)]
    return question_of(infer.untyped(find_op("clip"), [x, None, None], attrs), None)


def test_what_differs_is_another_question() -> None:
    asked = [
        question("f32[n, 3]"), question("f32[m, 3]"), question("f32[n, 4]"), question("f64[n, 3]"), question("f32[n, 3, 1]"),
        question("f32[...]"),
        question(np.float32([0.0])), question(np.float32([-0.0])), question(np.float64([0.0])), question(np.float32([[0.0]])),
        question(np.zeros(1, np.int64)), question(np.zeros(1, bool)), question(np.ones(1, bool)),
    ]  # fmt: skip
    assert len(set(asked)) == len(asked)
    assert question("f32[n, 3]") == asked[0]
    assert question(np.float32([-0.0])) == asked[7]


def test_attributes_of_one_number_and_several_types() -> None:
    x = anyshape.input("x", "f32[n]")
    op = find_op("concat")
    name = op.attributes[0].name
    values = [
        1,
        True,
        1.0,
        "1",
        None,
        (1,),
        [1],
        (1.0,),
        0.0,
        -0.0,
        float("nan"),
        symbol("n"),
        symbol("n", 1),
        np.ones(1),
    ]
    asked = [question_of(infer.untyped(op, [x] * len(op.inputs), {name: v}), None) for v in values]
    assert None not in asked
    assert len(set(asked)) == len(asked)
    assert question_of(infer.untyped(op, [x] * len(op.inputs), {name: object()}), None) is None
    assert question_of(infer.untyped(op, [x] * len(op.inputs), {name: (1,) * 1000}), None) is None


def test_every_count_has_symbols_of_its_own() -> None:
    """Calls of operands of one type are no question of the cache where data decides a size."""
    x = anyshape.input("x", "f32[n]")
    first, second, again = (ops.nonzero(ops.greater(x, least)) for least in (0.0, 1.0, 0.0))
    assert first.type.shape is not None
    assert second.type.shape is not None
    assert first.type.shape != second.type.shape
    assert first.type.shape == again.type.shape


def test_elements_that_only_the_run_tells_are_of_their_own() -> None:
    a, b = (anyshape.input(name, "i64[2]") for name in "ab")
    first, second = ops.add(a, 1), ops.add(b, 1)
    assert first.elements() != second.elements()


def test_checks_name_their_own_call() -> None:
    matmul = find_op("matmul")
    x, y = anyshape.input("x", "f32[2, n]"), anyshape.input("y", "f32[m, 2]")
    one, other = (infer.build(matmul, [x, y], {}, source) for source in ("here", "there"))
    assert [c.where for c in one.checks] == ["here"]
    assert [c.where for c in other.checks] == ["there"]


def test_what_is_known_of_dims_is_part_of_the_question() -> None:
    matmul = find_op("matmul")
    x, y = anyshape.input("x", "f32[2, n]"), anyshape.input("y", "f32[m, 2]")
    known = Facts()
    known.learn(eq(symbol("n"), symbol("m")))
    assert not infer.build(matmul, [x, y], {}, facts=known).checks
    assert infer.build(matmul, [x, y], {}, facts=Facts()).checks
    assert not infer.build(matmul, [x, y], {}, facts=known).checks


def test_facts_of_one_history_are_one_state() -> None:
    n, m, k = map(symbol, "nmk")

    def state_after(*equal: Any) -> int | None:
        facts = Facts()
        for a, b in equal:
            facts.learn(eq(a, b))
        return facts.state()

    assert state_after() == 0
    assert state_after((n, m)) == state_after((n, m)) != state_after((n, k))
    assert state_after((n, m), (k, 3)) == state_after((n, m), (k, 3)) != state_after((n, m), (k, 4))
    assert state_after((n, m), (n, m)) == state_after((n, m))  # nothing new
    assert Facts().under(eq(n, m)).state() is None


def test_a_wrong_call_is_refused_each_time() -> None:
    for source in ("here", "there"):
        with pytest.raises(anyshape.errors.ShapeError, match=source):
            infer.build(
                find_op("matmul"), [anyshape.input("x", "f32[2, 3]"), anyshape.input("y", "f32[4, 2]")], {}, source
            )


def test_memory_is_bounded() -> None:
    memory = InferenceCache[int](most=8)
    for k in range(1000):
        memory.put((k,), k)
        assert memory.get((k,)) == k
        assert len(memory._answers) <= 8


def test_lists_and_what_holds_in_a_region_alone_are_not_asked() -> None:
    x = anyshape.input("x", "f32[n]")
    relu = infer.untyped(find_op("relu"), [x], {})
    assert question_of(relu, None) == question_of(relu, Facts()) is not None
    assert question_of(relu, Facts().under(eq(symbol("n"), 1))) is None
    assert question_of(anyshape.lists.of([x, x]).node, None) is None
