"""Graphs of any length compile under the limit of recursion that Python has, in calls in proportion to their nodes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.frontends.onnx.resolve import DEEPEST
from anyshape_testing.process.profile import LONG
from tests.counting import calls

NODES = 5000 if LONG else 400
ROOM = 330
"""Calls within one another that a compile may make, whatever is around it."""
Step = Callable[[str, int], list[Any]]
make = helper.make_node


def _value(name: str, dtype: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def _add_mean(c: str, k: int) -> list[Any]:
    return [make("ReduceMean", [c, "one"], [f"r{k}"]), make("Sub", [c, f"r{k}"], [f"a{k}"])]


def _with_its_transpose(c: str, k: int) -> list[Any]:
    return [make("Transpose", [c], [f"t{k}"], perm=[1, 0]), make("Add", [c, f"t{k}"], [f"a{k}"])]


def _reshape(c: str, k: int) -> list[Any]:
    return [make("Shape", [c], [f"s{k}"]), make("Reshape", [c, f"s{k}"], [f"r{k}"]), make("Relu", [f"r{k}"], [f"a{k}"])]


def _branches(c: str, k: int) -> list[Any]:
    then, other = (
        helper.make_graph([make(op, [c, *more], ["o"])], op, [], [_value("o", 1, None)])
        for op, *more in (("Add", "scale"), ("Neg",))
    )
    return [make("If", ["cond"], [f"a{k}"], then_branch=then, else_branch=other)]


def _loop(c: str, k: int) -> list[Any]:
    body = helper.make_graph(
        [make("Identity", ["c"], ["d"]), make("Add", ["v", "v"], ["w"])],
        "body",
        [_value("i", 7, ()), _value("c", 9, ()), _value("v", 1, None)],
        [_value("d", 9, ()), _value("w", 1, None)],
    )
    return [make("Loop", ["two", "", c], [f"a{k}"], body=body)]


def _local(c: str, k: int) -> list[Any]:
    return [make("Twice", [c], [f"a{k}"], domain="local")]


STEPS: dict[str, Step] = {
    "add": lambda c, k: [make("Add", [c, "scale"], [f"a{k}"])],
    "sigmoid": lambda c, k: [make("Sigmoid", [c], [f"a{k}"])],
    "softmax": lambda c, k: [make("Softmax", [c], [f"a{k}"])],
    "mean": _add_mean,
    "product": lambda c, k: [make("MatMul", [c, "square"], [f"a{k}"])],
    "transpose": _with_its_transpose,
    "reshape": _reshape,
    "pad": lambda c, k: [make("Pad", [c, "pads"], [f"a{k}"])],
    "cumsum": lambda c, k: [make("CumSum", [c, "zero"], [f"a{k}"])],
    "gather": lambda c, k: [make("Gather", [c, "order"], [f"a{k}"])],
    "nonzero": lambda c, k: [make("NonZero", [c], [f"z{k}"]), make("Cast", [f"z{k}"], [f"a{k}"], to=1)],
    "identity": lambda c, k: [make("Identity", [c], [f"a{k}"])],
    "branches": _branches,
    "loops": _loop,
    "local function": _local,
}
SAMPLED = ("softmax", "sigmoid", "mean", "reshape", "branches")


def chain(step: Step, nodes: int) -> bytes:
    body: list[Any] = []
    c = "x"
    for k in range(nodes):
        body += step(c, k)
        c = f"a{k}"
    weights = {
        "scale": np.float32(1), "one": np.array([1]), "square": np.eye(4, dtype=np.float32), "pads": np.array([0, 0, 1, 0]),
        "zero": np.int64(0), "two": np.int64(2), "order": np.array([0, 1, 2, 3]),
    }  # fmt: skip
    inputs = [_value("x", TensorProto.FLOAT, [4, 4]), _value("cond", TensorProto.BOOL, [])]
    named = [numpy_helper.from_array(v, n) for n, v in weights.items()]
    g = helper.make_graph(body, "g", inputs, [_value(c, TensorProto.FLOAT, None)], named)
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    twice = helper.make_function("local", "Twice", ["a"], ["b"], [make("Add", ["a", "a"], ["b"])], domains[:1])
    return helper.make_model(g, opset_imports=domains, ir_version=9, functions=[twice]).SerializeToString()


@contextmanager
def little_room() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + ROOM)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("name", STEPS if LONG else SAMPLED)
def test_a_chain_is_no_recursion(name: str) -> None:
    step = STEPS[name]
    anyshape.compile(chain(step, 2))  # imports what it needs
    with little_room():
        before = sys.getrecursionlimit()
        exe = anyshape.compile(chain(step, NODES))
        assert sys.getrecursionlimit() == before
    assert len(exe.output_names) == 1


@pytest.mark.parametrize("name", [s for s in STEPS if s != "nonzero"] if LONG else ("softmax", "gather"))
def test_a_chain_takes_calls_in_proportion(name: str) -> None:
    few, many = chain(STEPS[name], 60), chain(STEPS[name], 240)
    for model in (few, many):  # kernels are lowered once, and `test_compile_growth` holds what that takes
        anyshape.compile(model)
    assert calls(lambda: anyshape.compile(many)) < 5 * calls(lambda: anyshape.compile(few))


def test_functions_within_functions() -> None:
    """Functions are nested as deep as they may be."""
    deep = DEEPEST
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    functions = [
        helper.make_function(
            "local", f"F{k}", ["a"], ["b"],
            [make(f"F{k + 1}", ["a"], ["t"], domain="local") if k < deep - 1 else make("Relu", ["a"], ["t"]), make("Neg", ["t"], ["b"])],
            domains,
        )
        for k in range(deep)
    ]  # fmt: skip
    g = helper.make_graph(
        [make("F0", ["x"], ["y"], domain="local")], "g", [_value("x", 1, ["n"])], [_value("y", 1, None)]
    )
    model = helper.make_model(g, opset_imports=domains, ir_version=9, functions=functions)
    x = np.array([-1, 2], np.float32)
    assert anyshape.compile(model.SerializeToString())(x).tolist() == [0.0, 2.0]
