"""The models of benchmarks/models: they build from seeds, always the same, and run at listed shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from benchmarks.models import load, structure, table

SMALL = ("bert_mini", "mlp", "shape_heavy")
RUN_PER_MODEL = 8


@pytest.mark.parametrize("name", SMALL)
def test_runs_at_listed_shapes(name: str, tmp_path: Path) -> None:
    model = load(name)
    session = onnxruntime.InferenceSession(str(model.build(tmp_path / "m.onnx")), providers=["CPUExecutionProvider"])
    for batch, length in model.SHAPES[:RUN_PER_MODEL]:
        for output in session.run(None, dict(model.inputs(batch, length, seed=1))):
            assert output.shape[0] == batch
            assert np.isfinite(output).all()
            assert output.std() > 0.05, "activations died: the model would prove nothing"


@pytest.mark.parametrize("name", SMALL)
def test_builds_the_same_bytes_twice(name: str, tmp_path: Path) -> None:
    model = load(name)
    first, second = (model.build(tmp_path / f"{n}.onnx").read_bytes() for n in range(2))
    assert first == second


@pytest.mark.parametrize("name", SMALL)
def test_inputs_are_those_of_the_graph(name: str, tmp_path: Path) -> None:
    model = load(name)
    graph = onnx.load(model.build(tmp_path / "m.onnx")).graph
    arguments = model.inputs(2, 1, seed=0)
    assert list(arguments) == [value.name for value in graph.input]
    for value in graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        assert arguments[value.name].dtype == dtype


def test_what_follows_a_detector_agrees_with_onnxruntime(tmp_path: Path) -> None:
    """One compile for every number of boxes, also none; data decides four sizes."""
    model = load("detection")
    path = model.build(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(path)
    for shape in (*model.SHAPES, (1, 1), (1, 0)):
        arguments = dict(model.inputs(*shape, seed=1))
        for got, want in zip(ours.run(arguments), session.run(None, arguments), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
            assert shape[1] < 100 or 30 < got.shape[0] <= 300


def test_padding_of_bert_changes_no_row_that_is_kept(tmp_path: Path) -> None:
    """The mask works: a text answers the same alone and padded, up to rounding."""
    model = load("bert_mini")
    session = onnxruntime.InferenceSession(str(model.build(tmp_path / "m.onnx")), providers=["CPUExecutionProvider"])
    alone = dict(model.inputs(1, 9, seed=3))
    padded = {name: np.pad(array, ((0, 0), (0, 5))) for name, array in alone.items()}
    short, long = session.run(None, alone)[0], session.run(None, padded)[0]
    assert np.abs(short - long[:, :9]).max() < 1e-4


@pytest.mark.parametrize("name", ["bert_mini", "bert_base"])
def test_structures_are_small_and_valid(name: str) -> None:
    path = structure.FOLDER / f"{name}.onnx"
    assert path.stat().st_size < 150_000
    graph = onnx.load(path).graph
    assert all(sum(name == t.name for t in graph.initializer) == 1 for name in (t.name for t in graph.initializer))
    assert sum(bool(tensor.doc_string) for tensor in graph.initializer) > 50


def _weighted() -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.ones((16, 8), np.float32), "weight")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_strip_then_fill_keeps_names_dims_and_dtypes() -> None:
    bare = structure.strip(_weighted())
    assert bare.graph.initializer[0].doc_string == "normal 0 0.2000"
    assert not bare.graph.initializer[0].raw_data
    filled = numpy_helper.to_array(structure.fill(bare, seed=0).graph.initializer[0])
    assert filled.shape == (16, 8)
    assert filled.dtype == np.float32
    assert 0.1 < filled.std() < 0.3
    other = numpy_helper.to_array(structure.fill(bare, seed=1).graph.initializer[0])
    assert not np.array_equal(filled, other)


def test_an_unknown_recipe_says_which_tensor() -> None:
    bare = structure.strip(_weighted())
    bare.graph.initializer[0].doc_string = "uniform 0 1"
    with pytest.raises(ValueError, match="'weight' has the unknown recipe 'uniform 0 1'"):
        structure.fill(bare, seed=0)


def test_names_that_would_collide_are_refused() -> None:
    model = _weighted()
    model.graph.node.append(helper.make_node("Identity", ["y"], ["yy"]))
    with pytest.raises(ValueError, match="makes two values the same"):
        structure.shorten(model, ("y",))


def test_an_unknown_model_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there are bert_mini"):
        load("bert_maxi")


@pytest.mark.in_every_sample
def test_the_list_of_ops_is_current() -> None:
    assert table.listing() in table.README.read_text(encoding="utf-8"), "run python -m benchmarks.models.table"
