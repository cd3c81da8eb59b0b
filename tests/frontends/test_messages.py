"""What errors say of a node: its operator and name, ONNX's names of its inputs, what was wanted and what came."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.cli.main import main
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.frontends.onnx.refusals import ImportRefusal, within

node = helper.make_node


def info(name: str, kind: int = TensorProto.FLOAT, shape: list[object] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[onnx.NodeProto], **held: np.ndarray) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(a, n) for n, a in held.items()]
    inputs = [info("x", shape=["n", 3]), info("n", TensorProto.INT64, [])]
    graph = helper.make_graph(nodes, "g", inputs, [info("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def message_of(proto: onnx.ModelProto) -> str:
    with pytest.raises(AnyshapeError) as e:
        anyshape.compile(proto)
    return str(e.value)


W = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("op", "held", "text"),
    [
        ("Add", W, "Add 'y': [n, 3] and [2, 2] do not broadcast: 3 against 2 (add of A 'x': f32[n, 3], B 'w': f32[2, 2])"),
        ("MatMul", W, "MatMul 'y': k of B: expected 3, got 2 (matmul of A 'x': f32[n, 3], B 'w': f32[2, 2])"),
        ("Add", W.astype(int), "Add 'y': B is i64, and A is f32; they must be equal (add of A 'x': f32[n, 3], B 'w': i64[2, 2])"),
        ("Gather", W, "Gather 'y': indices must be one of i64, i32, got f32 (gather of data 'x': f32[n, 3], indices 'w': f32[2, 2])"),
        ("Max", W.astype(np.float64), "data_0[1] is f64, and data_0[0] is f32; they must be equal (maximum of data_0[0] 'x'"),
        ("Clip", W, "Clip 'y': one element was expected, got [2, 2] (item of input 'x': f32[n, 3], min 'w': f32[2, 2])"),
    ],
)  # fmt: skip
def test_it_tells_of_the_node_and_its_inputs(op, held, text):
    assert text in message_of(model([node(op, ["x", "w"], ["y"])], w=held))


def test_a_step_of_an_operator_is_named_behind():
    skip = node("SkipLayerNormalization", ["x", "s", "g"], ["y"], domain="com.microsoft")
    said = message_of(model([skip], s=np.ones((2, 3)), g=np.ones(3, np.float32)))
    assert (
        "SkipLayerNormalization 'y': input 1 is f64, and input 0 is f32; they must be equal (add of input 0 'x'" in said
    )


def loops(deep: int, inner: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The node within so many loops."""
    nodes = [inner]
    for k in range(deep):
        result = nodes[-1].output[0]
        body = helper.make_graph(
            [node("Identity", ["c"], [f"more{k}"]), *nodes],
            f"b{k}",
            [info(f"i{k}", TensorProto.INT64, []), info("c", TensorProto.BOOL, [])],
            [info(f"more{k}", TensorProto.BOOL), info(result)],
        )
        nodes = [node("Loop", ["n", ""], [f"o{k}" if k < deep - 1 else "y"], body=body)]
    return nodes


def test_what_is_deep_within_is_said_once(monkeypatch):
    monkeypatch.setattr("anyshape.frontends.onnx.importer.DEEPEST_GRAPHS", 16)
    said = message_of(model(loops(18, node("Neg", ["x"], ["o"]))))
    assert "in its body, 16 deep, Loop: graphs are nested more than 16 deep" in said
    assert said.count("in its body") == 1


def test_refusals_within_count_how_deep_they_are():
    e: UnsupportedError = ImportRefusal("why")
    for op in ("Inner", "Middle", "Outer"):
        e = within(op, e)
    assert str(e) == "in its body, 3 deep, Inner: why"
    assert str(within("Loop", ImportRefusal("why"))) == "in its body, Loop: why"


@pytest.mark.parametrize("name", ["m.onnx", "model.anyshape"])
def test_show_says_what_to_do_with_a_file(name, capsys):
    assert main(["show", name]) == 2
    assert f"and {name} is a file; `anyshape explain {name}`" in capsys.readouterr().err
    assert main(["show", "sofmax"]) == 2
    assert "there is no op sofmax; did you mean" in capsys.readouterr().err
