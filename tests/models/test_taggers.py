"""LSTM and GRU taggers with sequence lengths: one compiled program for all batches, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnxruntime
import pytest

import anyshape
from anyshape.errors import ShapeError

WORDS, WIDTH, HIDDEN, TAGS = 50, 12, 16, 7
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RNG = np.random.default_rng(2)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(0, 0.4, shape).astype(np.float32)


def tagger(op: str, direction: str = "bidirectional", **attributes: Any) -> onnx.ModelProto:
    """words[length, batch], lengths[batch] -> tags[length, batch, TAGS], the last states."""
    e, g = 2 if direction == "bidirectional" else 1, GATES[op]
    constants = {
        "table": weights(WORDS, WIDTH),
        "w": weights(e, g * HIDDEN, WIDTH),
        "r": weights(e, g * HIDDEN, HIDDEN),
        "b": weights(e, 2 * g * HIDDEN),
        "out": weights(e * HIDDEN, TAGS),
        "shape": np.array([0, 0, -1], np.int64),
    }
    nodes = [
        oh.make_node("Gather", ["table", "words"], ["x"]),
        oh.make_node(
            op, ["x", "w", "r", "b", "lengths"], ["y", "last"], hidden_size=HIDDEN, direction=direction, **attributes
        ),
        oh.make_node("Transpose", ["y"], ["y_by_word"], perm=[0, 2, 1, 3]),
        oh.make_node("Reshape", ["y_by_word", "shape"], ["flat"]),
        oh.make_node("MatMul", ["flat", "out"], ["tags"]),
    ]
    graph = oh.make_graph(
        nodes,
        "tagger",
        [
            oh.make_tensor_value_info("words", onnx.TensorProto.INT64, ["length", "batch"]),
            oh.make_tensor_value_info("lengths", onnx.TensorProto.INT32, ["batch"]),
        ],
        [
            oh.make_tensor_value_info("tags", onnx.TensorProto.FLOAT, ["length", "batch", TAGS]),
            oh.make_tensor_value_info("last", onnx.TensorProto.FLOAT, [e, "batch", HIDDEN]),
        ],
        [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)


CASES = [
    ("LSTM", "bidirectional", {}),
    ("GRU", "bidirectional", {}),
    ("GRU", "reverse", {"linear_before_reset": 1}),
    ("LSTM", "forward", {"clip": 0.5}),
    ("RNN", "bidirectional", {"activations": ["Relu", "Tanh"]}),
    (
        "LSTM",
        "reverse",
        {"activations": ["HardSigmoid", "Tanh", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    ),
]


@pytest.mark.parametrize(("op", "direction", "attributes"), CASES, ids=[f"{op}-{d}-{len(a)}" for op, d, a in CASES])
def test_taggers_agree_at_every_shape(op: str, direction: str, attributes: dict[str, Any]) -> None:
    model = tagger(op, direction, **attributes)
    exe = anyshape.compile(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for length, batch in ((5, 3), (1, 1), (9, 17), (30, 2)):
        feed = {
            "words": RNG.integers(0, WORDS, (length, batch)),
            "lengths": RNG.integers(1, length + 1, batch).astype(np.int32),
        }
        got, expected = exe.run(feed), session.run(None, feed)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 2e-5)
    assert not exe.report.still_dynamic


def test_an_empty_sequence_keeps_the_initial_state() -> None:
    """onnxruntime crashes on a GRU with one."""
    exe = anyshape.compile(tagger("GRU"))
    feed = {"words": np.zeros((4, 2), np.int64), "lengths": np.array([0, 3], np.int32)}
    tags, last = exe.run(feed)
    assert (tags[:, 0] == 0).all() and (last[:, 0] == 0).all() and (last[:, 1] != 0).all()


def test_a_length_beyond_the_words_is_an_error() -> None:
    exe = anyshape.compile(tagger("LSTM"))
    with pytest.raises(ShapeError, match=r"a sequence length is not within 0\.\.4"):
        exe.run({"words": np.zeros((4, 2), np.int64), "lengths": np.array([4, 5], np.int32)})
