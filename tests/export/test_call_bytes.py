"""The bytes of a call by formulas are those that the interpreter counts, instruction by instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import anyshape
from anyshape.vm.export.call_bytes import call_bytes
from anyshape.vm.run.memory_budget import MemoryBudget, memory_budget, within
from tests.frontends.models import model, node, tensor

X, W = tensor("x", ["n", "m"]), tensor("w", ["m", "k"])
AXIS = {"a": np.array(0)}
MODELS = {
    "one value": model([node("CumSum", "x a", "y")], [X], "y", AXIS),
    "two values": model([node("CumSum", "x a", "s"), node("CumSum", "s a", "y")], [X], "y", AXIS),
    "a product": model([node("MatMul", "x w", "p"), node("Softmax", "p", "y")], [X, W], "y"),
    "a transposed sum": model(
        [node("Transpose", "x", "t"), node("Softmax", "t", "s"), node("Add", "s t", "y")], [X], "y"
    ),
}
SIZES = [(1, 1, 1), (7, 30, 5), (300, 17, 64), (0, 3, 4), (3, 0, 2), (0, 0, 0)]


def counted(exe: anyshape.Executable, arrays: list[Any]) -> int:
    """The most bytes that a call has at once."""
    held, most = 0, 0

    def demand(size: int) -> None:
        nonlocal held, most
        held += size
        most = max(most, held)

    with within(MemoryBudget(demand)):
        exe(*arrays)
    return most


def formulas(exe: anyshape.Executable) -> Any:
    return call_bytes(exe.function, exe.plan, 1)


@pytest.mark.parametrize("name", MODELS)
def test_formulas_are_what_is_counted(name: str) -> None:
    exe = anyshape.compile(MODELS[name], threads=1)
    python, known = exe.by(loop="python"), formulas(exe)
    for n, m, k in SIZES:
        arrays = [np.ones(shape, np.float32) for shape in ((n, m), (m, k))[: len(exe.input_names)]]
        number = known.needed(known.sizes(arrays))
        most = counted(python, arrays)
        assert most <= number <= most + 64, (
            "the formula rounds the arena up; of an empty call it is that of either program"
        )
        if min(n, m, k):
            assert number - known.needed(known.sizes(arrays), [0]) == exe(*arrays).nbytes


@pytest.mark.parametrize(
    "nodes", [[node("NonZero", "x", "y")], [node("Unique", "x", "y")], [node("SplitToSequence", "x", "y", axis=0)]]
)
def test_what_elements_decide_has_no_formula(nodes: list[onnx.NodeProto]) -> None:
    assert formulas(anyshape.compile(model(nodes, [X], "y"))) is None


def test_more_threads_need_more_where_each_has_memory_of_its_own() -> None:
    exe = anyshape.compile(MODELS["a product"])
    sizes = {"n": 300, "m": 40, "k": 64}
    assert formulas(exe).needed(sizes) <= call_bytes(exe.function, exe.plan, 2).needed(sizes)  # type: ignore[union-attr, operator]  # neither is None


def test_a_budget_counts_each_region_once() -> None:
    taken: list[int] = []
    b = MemoryBudget(taken.append)
    for size in (10, 5, 10, 30):
        b.grow("a", size)
    b.swap("a", "b")
    b.grow("b", 30)  # which has the memory of a now
    b.grow("a", 7)
    b.take(3)
    b.give_back(3)
    assert taken == [10, 20, 7, 3, -3]


def test_budgets_are_of_one_thread_and_end() -> None:
    with within(outer := MemoryBudget(abs)):
        with pytest.raises(ValueError, match="ends"), within(MemoryBudget(abs)):
            raise ValueError("ends")
        assert memory_budget() is outer
    assert memory_budget() is None
