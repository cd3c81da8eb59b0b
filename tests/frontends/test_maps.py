"""Defaults of scikit-learn's exporter: lists of maps at an output (ZipMap), and categories that must be known (OneHotEncoder)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape import onnx_backend
from anyshape.errors import ModelError, UnsupportedError
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import Fail

X = np.array([[0, 1, 5], [2, 2, -1]], np.float32)


def classifier(
    *nodes: onnx.NodeProto, shape: Any = ("n", 3), outputs: tuple[str, ...] = ("q", "p"), **labels: Any
) -> onnx.ModelProto:
    """Probabilities of three classes as a list of maps; `nodes` come behind."""
    first = [helper.make_node("Softmax", ["x"], ["q"], axis=-1)]
    first.append(helper.make_node("ZipMap", ["q"], ["p"], domain="ai.onnx.ml", **labels))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph([*first, *nodes], "g", [x], results), opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    "labels", [{"classlabels_int64s": [4, -9, 2**40]}, {"classlabels_strings": ["a", "b", "é"]}], ids=str
)
@pytest.mark.parametrize("shape", [("n", 3), (3,), None])
def test_the_session_gives_lists_of_maps_and_compile_the_tensor(
    labels: dict[str, Any], shape: Any, tmp_path: Path
) -> None:
    proto = classifier(shape=shape, **labels)
    x = X[0] if shape == (3,) else X
    exe = anyshape.compile(proto)
    q, p = exe(x)
    np.testing.assert_array_equal(p, q)
    names = ", ".join(map(str, *labels.values()))
    assert f"output 'p' is the tensor 'q', whose columns are of {names}; InferenceSession makes a list of maps" in str(
        exe.report
    )
    theirs = onnxruntime.InferenceSession(proto.SerializeToString())
    want = theirs.run(["p"], {"x": x})[0]
    exe.save(tmp_path / "m.anyshape")
    for source in (proto, tmp_path / "m.anyshape"):
        session = anyshape.InferenceSession(source)
        (got,) = session.run(["p"], {"x": x})
        assert [list(row) for row in got] == [list(*labels.values())] * len(want)
        assert got == [pytest.approx(row, rel=1e-6) for row in want]
        assert all(isinstance(value, float) for row in got for value in row.values())
        outputs = [[(o.name, o.type, o.shape) for o in s.get_outputs()][1] for s in (session, theirs)]
        assert outputs[0] == outputs[1]
    assert onnx_backend.run_model(proto, [x])[1] == got
    if shape == ("n", 3):
        assert anyshape.InferenceSession(proto).run(None, {"x": x[:0]})[1] == []


def test_labels_that_do_not_fit_the_columns() -> None:
    two = {"classlabels_int64s": [1, 2]}
    with pytest.raises(ModelError, match="ZipMap 'p' has 2 labels, and reads f32"):
        anyshape.compile(classifier(**two))
    session = anyshape.InferenceSession(classifier(shape=("n", "m"), **two))
    assert session.run(["p"], {"x": X[:, :2]})[0][0].keys() == {1, 2}
    with pytest.raises(Fail, match="output 'p' has 2 labels for columns, and its shape is"):
        session.run(None, {"x": X})
    for wrong in ({}, {"classlabels_int64s": [1, 2, 3], "classlabels_strings": ["a", "b", "c"]}):
        with pytest.raises(ModelError, match="either classlabels_strings or classlabels_int64s"):
            anyshape.compile(classifier(**wrong))
    with pytest.raises(ModelError, match="one label twice"):
        anyshape.compile(classifier(classlabels_int64s=[1, 1, 2]))


def test_a_list_of_maps_that_a_node_reads_is_refused() -> None:
    read = helper.make_node("SequenceLength", ["p"], ["l"])
    with pytest.raises(UnsupportedError, match=r"ZipMap .*taken at an output of the model alone"):
        anyshape.compile(classifier(read, outputs=("l", "p"), classlabels_int64s=[1, 2, 3]))


def test_simplify_leaves_maps_as_they_are() -> None:
    proto = classifier(classlabels_int64s=[1, 2, 3])
    assert [n.op_type for n in anyshape.simplify(proto).graph.node] == ["Softmax", "ZipMap"]


@pytest.mark.parametrize(("cats", "known", "unknown"), [
    ({"cats_int64s": [3, 1, 7]}, np.array([[1, 7], [3, 3]]), np.array([[1, 7], [3, 4]])),
    ({"cats_strings": ["a", "", "bc"]}, np.array([["bc", ""], ["a", "a"]], object), np.array([["bc", "b"], ["a", "a"]], object)),
])  # fmt: skip
@pytest.mark.parametrize("zeros", [0, 1])
def test_categories_that_nobody_knows(cats: dict[str, Any], known: Any, unknown: Any, zeros: int) -> None:
    """Unknown categories without zeros are an error of the call, as in onnxruntime; known ones are encoded in both."""
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", zeros=zeros, **cats)
    kind = TensorProto.INT64 if known.dtype != object else TensorProto.STRING
    x = helper.make_tensor_value_info("x", kind, ["n", "m"])
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    ours, theirs = (
        make(proto.SerializeToString()) for make in (anyshape.InferenceSession, onnxruntime.InferenceSession)
    )
    np.testing.assert_array_equal(ours.run(None, {"x": known})[0], theirs.run(None, {"x": known})[0])
    if zeros:
        np.testing.assert_array_equal(ours.run(None, {"x": unknown})[0], theirs.run(None, {"x": unknown})[0])
        return
    with pytest.raises(Fail, match=r"OneHotEncoder 'y'.*an element is of no category"):
        ours.run(None, {"x": unknown})
    with pytest.raises(Exception, match="Unknown Category"):
        theirs.run(None, {"x": unknown})
