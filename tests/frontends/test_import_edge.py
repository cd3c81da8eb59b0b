"""What leaves the importer: AnyshapeErrors alone, with their cause; and domains that a model uses and does not import."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

import anyshape
from anyshape.errors import AnyshapeError, ModelError, UnsupportedError
from anyshape.frontends.onnx import importer, load, named_values

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
FEED = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)


def model(nodes: list[onnx.NodeProto], imports: dict[str, int], out: onnx.ValueInfoProto = Y) -> onnx.ModelProto:
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return helper.make_model(helper.make_graph(nodes, "g", [X], [out]), opset_imports=opsets, ir_version=8)


PLAIN = model([helper.make_node("Neg", ["x"], ["y"])], {"": 13})


@pytest.mark.parametrize(
    "raised", [ValueError, TypeError, OSError, KeyError, RuntimeError, RecursionError, DecodeError]
)
@pytest.mark.parametrize("call", [load, anyshape.simplify], ids=["load", "simplify"])
def test_any_error_below_leaves_as_ours_with_its_cause(call, raised, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise raised("from below")

    monkeypatch.setattr(importer, "sort_nodes", broken)
    monkeypatch.setattr(named_values, "sort_nodes", broken)
    with pytest.raises(UnsupportedError if raised is RecursionError else ModelError) as e:
        call(PLAIN)
    assert isinstance(e.value.__cause__, raised)


@pytest.mark.parametrize("raised", [MemoryError, KeyboardInterrupt])
def test_what_says_nothing_of_the_model_goes_through(raised, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(importer, "sort_nodes", broken)
    with pytest.raises(raised):
        load(PLAIN)


def test_a_body_that_onnx_cannot_make_names_the_node():
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["o"])], "b", [helper.make_value_info("e", Y.type)], [Y])
    body.output[0].name = "o"
    mapped = helper.make_node("SequenceMap", ["x"], ["s"], body=body)
    count = helper.make_tensor_value_info("y", TensorProto.INT64, [])
    with pytest.raises(ModelError, match="SequenceMap 's'"):
        load(model([mapped, helper.make_node("SequenceLength", ["s"], ["y"])], {"": 17}, count))


def fast_gelu(count: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"t{k}" for k in range(count - 1)), "y"]
    return [helper.make_node("FastGelu", [a], [b], domain="com.microsoft") for a, b in pairwise(names)]


def test_a_known_domain_that_is_not_imported_is_taken_at_version_1_and_said_once():
    proto = model(fast_gelu(3), {"": 13})
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    exe = anyshape.compile(proto)
    np.testing.assert_allclose(exe(FEED), session.run(None, {"x": FEED})[0], 1e-5, 1e-5)
    assert str(exe.report).count("no opset of com.microsoft is imported: version 1 is taken") == 1
    said = model(fast_gelu(3), {"": 13, "com.microsoft": 1})
    assert "imported" not in str(anyshape.compile(said).report)


def test_a_function_body_may_leave_the_import_out_too():
    domain = helper.make_opsetid("local", 1)
    body = helper.make_function("local", "F", ["x"], ["y"], fast_gelu(1), [helper.make_opsetid("", 13)])
    proto = model([helper.make_node("F", ["x"], ["y"], domain="local")], {"": 13, "local": 1})
    proto.functions.append(body)
    assert domain in proto.opset_import
    assert "version 1 is taken" in str(anyshape.compile(proto).report)


def test_an_unknown_domain_and_onnx_own_must_be_imported():
    with pytest.raises(ModelError, match="'acme', of which no opset is imported; add it to opset_import"):
        load(model([helper.make_node("F", ["x"], ["y"], domain="acme")], {"": 13}))
    with pytest.raises(ModelError, match=r"'ai.onnx', of which no opset is imported"):
        load(model([helper.make_node("Neg", ["x"], ["y"])], {"com.microsoft": 1}))


def test_both_spellings_of_onnx_own_domain_are_one():
    nodes = [helper.make_node("Neg", ["x"], ["t"], domain="ai.onnx"), helper.make_node("Relu", ["t"], ["y"])]
    for imports in ({"": 13}, {"ai.onnx": 13}, {"": 13, "ai.onnx": 13}):
        np.testing.assert_array_equal(anyshape.compile(model(nodes, imports))(FEED), np.maximum(-FEED, 0))
    with pytest.raises(AnyshapeError, match="two opsets"):
        load(model(nodes, {"": 13, "ai.onnx": 12}))
