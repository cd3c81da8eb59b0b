"""Vectors that decide a rank within a loop: those whose length is plain to see have it, others are refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import anyshape
from anyshape import control, lists, ops
from anyshape.dims import maximum, minimum, symbol
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.lengths import one_number, roomy

node = helper.make_node
X = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
ONE, ZERO = np.array([1]), np.array([0])


def info(name: str, kind: int, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def looped(
    body: list[onnx.NodeProto],
    before: list[onnx.NodeProto] = [],  # noqa: B006, never changed
    iteration: tuple[int, ...] = (1,),
    opset: int = 13,
) -> onnx.ModelProto:
    """`o` of each turn `i`, stacked; x, v and n are inputs."""
    graph = helper.make_graph(
        [node("Identity", ["c"], ["c2"]), *body],
        "body",
        [info("i", T.INT64, iteration), info("c", T.BOOL, [])],
        [info("c2", T.BOOL, []), info("o", T.FLOAT)],
    )
    held = {
        "one": ONE,
        "zero": ZERO,
        "yes": np.array(True),
        "minus": -ONE,
        "two": np.array([2]),
        "three": np.array([3]),
    }
    whole = helper.make_graph(
        [*before, node("Loop", ["n", "yes"], ["y"], body=graph)],
        "g",
        [info("x", T.FLOAT, ["N", 3, 4]), info("v", T.INT64, ["K"]), info("n", T.INT64, [])],
        [info("y", T.FLOAT)],
        [numpy_helper.from_array(a, name) for name, a in held.items()],
    )
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


PICK = [node("Add", ["i", "one"], ["e"]), node("Slice", ["v", "i", "e"], ["s"])]
"""v[i:i+1]"""
NEXT = node("Add", ["s", "two"], ["t"])
ONES = node("ConstantOfShape", ["length"], ["ones"], value=numpy_helper.from_array(ONE))
SPLIT = [node("Shape", ["v"], ["length"]), ONES, node("SplitToSequence", ["v", "ones"], ["parts"], axis=0)]
AT = [node("Squeeze", ["i", "zero"], ["k"]), node("SequenceAt", ["parts", "k"], ["s"])]
TIMES_0 = node("Mul", ["s", "zero"], ["q"])
SUM = node("ReduceSum", ["p"], ["o"])
USES: dict[str, list[onnx.NodeProto]] = {
    "slice": [NEXT, node("Slice", ["x", "s", "t"], ["p"]), SUM],
    "slice of an axis": [NEXT, node("Slice", ["x", "s", "t", "zero"], ["p"]), SUM],
    "slice with steps": [NEXT, node("Slice", ["x", "s", "t", "two", "one"], ["p"]), SUM],
    "expand": [
        TIMES_0,
        node("Add", ["q", "one"], ["r"]),
        node("Concat", ["r", "one", "one"], ["to"], axis=0),
        node("Expand", ["x", "to"], ["o"]),
    ],
    "expand, the end": [TIMES_0, node("Add", ["q", "one"], ["to"]), node("Expand", ["x", "to"], ["o"])],
    "a shape": [
        TIMES_0,
        node("Slice", ["x", "zero", "one", "zero"], ["p"]),
        node("Add", ["q", "two"], ["r"]),
        node("Concat", ["r", "minus"], ["to"], axis=0),
        node("Reshape", ["p", "to"], ["o"]),
    ],
    "a constant of a shape": [node("ConstantOfShape", ["s"], ["p"]), SUM],
    "tiles": [node("Concat", ["one", "one", "s"], ["to"], axis=0), node("Tile", ["x", "to"], ["p"]), SUM],
    "pads": [
        node("Concat", ["zero", "zero", "s", "zero", "zero", "s"], ["to"], axis=0),
        node("Pad", ["x", "to"], ["p"]),
        SUM,
    ],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("source", ["v[i:i+1]", "an element of a split"])
def test_a_vector_whose_length_is_plain_to_see(use, source):
    """Vectors of known length are written as tf2onnx writes crop_and_resize, torch repeat_interleave, and dynamo EmbeddingBag."""
    picked = source == "v[i:i+1]"
    proto = looped((PICK if picked else AT) + USES[use], [] if picked else SPLIT)
    feeds = {"x": X, "v": np.array([0, 2, 1]), "n": np.array(3)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(anyshape.compile(proto).run(feeds)[0], session.run(None, feeds)[0], 1e-5)


def test_it_is_checked_that_the_length_is_what_it_seems():
    exe = anyshape.compile(looped(PICK + USES["slice"]))
    with pytest.raises(
        AnyshapeError, match=r"starts of dyn.slice, whose length is one in all iterations.*expected \[1\], got"
    ):
        exe.run({"x": X, "v": np.array([0, 2]), "n": np.array(3)})


def test_embedding_bags():
    """Slices of rows between offsets that are read one by one."""
    body = [
        *PICK,
        node("Add", ["e", "one"], ["f"]),
        node("Slice", ["v", "e", "f"], ["t"]),
        node("Slice", ["x", "s", "t", "zero"], ["bag"]),
        node("ReduceSum", ["bag", "zero"], ["o"], keepdims=0),
    ]
    got = anyshape.compile(looped(body)).run({"x": X, "v": np.array([0, 2, 2, 5]), "n": np.array(3)})[0]
    np.testing.assert_allclose(got, [X[:2].sum(0), X[2:2].sum(0), X[2:].sum(0)], 1e-6)


OPEN = {
    "a length that is the number of the turn": [node("Slice", ["v", "zero", "i"], ["s"])],
    "a length that elements decide": [
        node("NonZero", ["v"], ["z"]),
        node("Squeeze", ["z", "zero"], ["zz"]),
        node("Add", ["zz", "i"], ["s"]),
    ],
}


@pytest.mark.parametrize("text", OPEN)
def test_any_other_is_refused_before_anything_runs(text):
    proto = looped([*OPEN[text], node("Expand", ["x", "s"], ["o"])])
    with pytest.raises(UnsupportedError) as e:
        anyshape.compile(proto)
    for said in (
        "loop (Loop 'y')",
        "the length of the vector that",
        ", i64[",
        "Expand 'o'",
        "as shape",
    ):
        assert said in str(e.value)


def test_a_loop_that_waits_for_the_rank_of_an_input_is_not_refused():
    proto = looped([*PICK, *USES["slice of an axis"]])
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    feeds = {"x": X, "v": np.array([0, 2, 1]), "n": np.array(3)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(anyshape.compile(proto).run(feeds)[0], session.run(None, feeds)[0], 1e-5)


def test_loops_built_in_python():
    x, v, n = anyshape.input("x", "f32[n, 3]"), anyshape.input("v", "i64[k]"), anyshape.input("t", "i64[]")

    def iteration(i: anyshape.Value, total: anyshape.Value) -> list[anyshape.Value]:
        at = ops.static.reshape(i, newshape=(1,))
        row = ops.slice(x, ops.slice(v, at, ops.add(at, 1)), ops.add(ops.slice(v, at, ops.add(at, 1)), 1), [0])
        return [ops.add(total, ops.sum(row, axes=(0,)))]

    exe = anyshape.compile(anyshape.function([x, v, n], list(control.loop(n, iteration, [np.zeros(3, np.float32)]))))
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(exe(rows, np.array([3, 1]), np.array(2)), rows[3] + rows[1])


def test_what_a_length_is_where_nothing_cuts_it_short():
    i, k, e = symbol("i"), symbol("k"), symbol("e", low=None)
    assert roomy(minimum(i + 1, k) - minimum(i, k)) == 1
    assert roomy(maximum(minimum(i + 3, k) - minimum(i, k), 0)) == 3
    assert roomy(4) == 4 and roomy(k) is None and roomy(i + 1) is None and roomy(minimum(e, 1 - e)) is None


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda n: ops.full(np.int64(1), n), 1),
        (lambda n: ops.full(np.int64(7), n), 7),
        (lambda n: ops.arange(0, ops.gather(n, 0)), None),
        (lambda n: ops.shape_of(ops.full(np.int64(7), n)), None),
    ],
)
def test_the_one_number_of_a_vector(make: Callable[[anyshape.Value], anyshape.Value], number):
    v = anyshape.input("v", "f32[n]")
    assert one_number(make(ops.shape_of(v))) == number
    assert one_number(anyshape.input("w", "i64[n]")) is None


def test_pieces_of_one_size_have_it():
    v = anyshape.input("v", "f32[n]")
    parts = lists.split(v, ops.full(np.int64(1), ops.shape_of(v)), 0, True)
    exe = anyshape.compile(anyshape.function([v], [lists.at(parts, 1)]))
    assert exe(np.float32([4, 5, 6])).tolist() == [5]
