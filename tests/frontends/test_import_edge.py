"""What leaves the importer: AnyshapeErrors alone, with their cause; and domains that a model uses and does not import."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.errors import AnyshapeError, ModelError, UnsupportedError
from anyshape.frontends.onnx import importer, load, named_values
from anyshape.frontends.onnx.mappings import all_mappings

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
    with pytest.raises(ModelError, match="'acme', which the model does not import; add it to opset_import"):
        load(model([helper.make_node("F", ["x"], ["y"], domain="acme")], {"": 13}))
    with pytest.raises(ModelError, match=r"'ai.onnx', which the model does not import"):
        load(model([helper.make_node("Neg", ["x"], ["y"])], {"com.microsoft": 1}))


def test_both_spellings_of_onnx_own_domain_are_one():
    nodes = [helper.make_node("Neg", ["x"], ["t"], domain="ai.onnx"), helper.make_node("Relu", ["t"], ["y"])]
    for imports in ({"": 13}, {"ai.onnx": 13}, {"": 13, "ai.onnx": 13}):
        np.testing.assert_array_equal(anyshape.compile(model(nodes, imports))(FEED), np.maximum(-FEED, 0))
    for imports in ({"": 12, "ai.onnx": 13}, {"": 13, "ai.onnx": 12}):  # in which these operators are the same
        np.testing.assert_array_equal(anyshape.compile(model(nodes, imports))(FEED), np.maximum(-FEED, 0))
    softmax = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    exponents = np.exp(FEED - FEED.max(0))
    np.testing.assert_allclose(
        anyshape.compile(model(softmax, {"": 12, "ai.onnx": 13}))(FEED), exponents / exponents.sum(0), 1e-5
    )
    with pytest.raises(AnyshapeError, match=r"two opsets of ai\.onnx, 13 and 12, in which its operators differ"):
        load(model(softmax, {"": 13, "ai.onnx": 12}))
    branch = helper.make_graph(softmax, "b", [], [onnx.ValueInfoProto(name="y")])
    nested = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    chosen = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    with pytest.raises(AnyshapeError, match="two opsets"):
        load(model([chosen, nested], {"": 13, "ai.onnx": 12}))


def test_what_is_newer_than_everything_known_is_refused_by_name():
    newest = onnx.defs.onnx_opset_version()
    ours = max(since for name, versions in all_mappings().items() if ":" not in name for since in versions)
    assert ours <= newest, "mappings were written for an onnx that is not installed here"
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    np.testing.assert_array_equal(anyshape.compile(model(relu, {"": newest}))(FEED), np.maximum(FEED, 0))
    with pytest.raises(
        UnsupportedError, match=f"Relu .*opset {newest + 1} is newer than {newest}, the newest that the installed onnx"
    ):
        load(model(relu, {"": newest + 1}))
    scaler = [helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[1.0], offset=[0.0])]
    with pytest.raises(UnsupportedError, match=r"Scaler .*opset 99 is newer than"):
        load(model(scaler, {"": 18, "ai.onnx.ml": 99}))
    gelu = [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")]
    assert load(model(gelu, {"": 18, "com.microsoft": 1})).nodes
    with pytest.raises(
        UnsupportedError,
        match=r"Gelu \(com.microsoft, opset 99\): opset 99 is newer than 1, the newest that onnxruntime",
    ):
        load(model(gelu, {"": 18, "com.microsoft": 99}))
    assert load(model(relu, {"": 18, "ai.onnx.ml": 99, "com.microsoft": 99, "com.example": 99})).nodes, (
        "nobody uses these"
    )
    inner = helper.make_function("com.example", "F", ["x"], ["y"], relu, [helper.make_opsetid("", newest + 1)])
    outer = model([helper.make_node("F", ["x"], ["y"], domain="com.example")], {"": 18, "com.example": 1})
    outer.functions.append(inner)
    with pytest.raises(UnsupportedError, match="in its body, Relu: opset"):
        load(outer)


def test_formats_of_the_future_are_refused():
    """Protobuf leaves out fields that it does not know."""
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"": 18})
    for version in (3, onnx.IR_VERSION):
        proto.ir_version = version
        assert load(proto).nodes
    proto.ir_version = onnx.IR_VERSION + 1
    for read in (load, anyshape.simplify, anyshape.compile):
        with pytest.raises(UnsupportedError, match=f"its IR version is {onnx.IR_VERSION + 1}, and the newest"):
            read(proto)


def test_names_of_results_differ_within_a_graph_alone():
    """Graphs within nodes, and functions, may use a name again; in one graph it would be two values, which onnxruntime refuses too."""

    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], ["fused"])], op, [], [onnx.ValueInfoProto(name="fused")])

    true = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    chosen = helper.make_node("If", ["c"], ["z"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    total = [helper.make_node("Abs", ["x"], ["fused"]), helper.make_node("Add", ["z", "fused"], ["y"])]
    np.testing.assert_array_equal(anyshape.compile(model([true, chosen, *total], {"": 18}))(FEED), np.abs(FEED) - FEED)
    twice = [helper.make_node(op, ["x"], ["fused"]) for op in ("Neg", "Abs")]
    proto = model([*twice, helper.make_node("Neg", ["fused"], ["y"])], {"": 18})
    with pytest.raises(ModelError, match="'fused' is produced twice, by Neg"):
        load(proto)
    with pytest.raises(Exception, match="Duplicate definition of name"):
        onnxruntime.InferenceSession(proto.SerializeToString())


@pytest.mark.parametrize("shape", [[3], ["k"], None])
def test_an_initializer_that_is_sparse_may_be_an_input_too(shape):
    values, places = numpy_helper.from_array(np.float32([1, 2]), "w"), numpy_helper.from_array(np.array([0, 2]))
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"": 18})
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, shape))
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    exe = anyshape.compile(proto)
    np.testing.assert_array_equal(exe(FEED), FEED + np.float32([1, 0, 2]))
    assert exe.input_names == ("x",)
    sessions = [onnxruntime.InferenceSession(proto.SerializeToString()), anyshape.InferenceSession(proto)]
    for feeds in ({"x": FEED}, {"x": FEED, "w": np.float32([7, 8, 9])}, {"x": FEED}):
        theirs, ours = (s.run(None, feeds)[0] for s in sessions)
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(exe(FEED), theirs)
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(ModelError, match="'w' is declared as"):
        load(proto)
