"""Weights left in the file: the same model as protobuf reads, or no answer at all."""

from __future__ import annotations

import random

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from anyshape.frontends.onnx import load
from anyshape.frontends.onnx.wire import strip_weights
from tests.frontends.models import model, node, tensor
from tests.frontends.small_ops import TABLE


def weighty():
    held = {f"w{k}": np.arange(n, dtype=np.float32) for k, n in enumerate((4, 2000, 1023, 1024, 5000))}
    nodes = [node("Add", "x w1", "a"), node("Add", "a x", "y")]
    return model(nodes, [tensor("x", ["n", 1])], "y", held)


def whole(data):
    """The model of stripped bytes with its weights put back."""
    stripped = strip_weights(memoryview(data))
    if stripped is None:
        return None
    proto = onnx.ModelProto.FromString(stripped.data)
    for k, raw in stripped.taken.items():
        assert not proto.graph.initializer[k].HasField("raw_data")
        proto.graph.initializer[k].raw_data = bytes(raw)
    return proto


def test_stripping_takes_the_long_ones_and_keeps_the_rest():
    data = weighty().SerializeToString()
    stripped = strip_weights(memoryview(data))
    assert sorted(stripped.taken) == [1, 3, 4]
    assert len(stripped.data) < len(data) - 4 * 8000
    assert whole(data) == weighty()


def test_damaged_bytes_give_the_same_model_or_none():
    pick, data = random.Random(1), weighty().SerializeToString()
    heads = [k for k in range(len(data)) if data[k] or k < 200]
    same = 0
    for _ in range(400):
        broken = bytearray(data)
        broken[pick.choice(heads)] ^= 1 << pick.randrange(8)
        try:
            theirs = onnx.ModelProto.FromString(bytes(broken))
        except DecodeError:
            continue
        try:
            ours = whole(bytes(broken))
        except DecodeError:
            continue
        if ours is not None:
            assert ours.SerializeToString() == theirs.SerializeToString()
            same += 1
    assert same > 100


def test_mapped_weights_are_the_weights(tmp_path):
    (tmp_path / "m.onnx").write_bytes(weighty().SerializeToString())
    constants = {c.name: c.constant for c in load(tmp_path / "m.onnx", table=TABLE).constants}
    np.testing.assert_array_equal(constants["w1"], np.arange(2000, dtype=np.float32))
    assert not constants["w1"].flags.owndata and not constants["w1"].flags.writeable
