"""What `load` makes of good models: parameters, symbols, constants, order."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.dims import bounds
from anyshape.errors import ArgumentError, ModelError, ShapeError, UnsupportedError
from anyshape.frontends.onnx import UnsupportedModel, load
from anyshape.frontends.onnx.tensors import tensor_array
from anyshape.passes import optimise
from tests.frontends.models import chain, model, node, tensor
from tests.frontends.small_ops import TABLE, relu_6


def test_a_chain_from_proto_bytes_and_path(tmp_path):
    proto = chain()
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    for source in (proto, proto.SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        f = load(source, table=TABLE)
        assert [p.name for p in f.params] == ["x"]
        assert [n.op.name for n in f.nodes] == ["add", "relu", "add"]
        assert f.result_names == ("y",)
        assert str(f.results[0].type) == "f32[batch, 4]"
    assert [n.source for n in f.nodes] == ["Add 'a'", "Relu 'act'", "Add 'y'"]


def test_initializers_are_constants_even_where_they_are_inputs_too():
    proto = chain()
    proto.graph.input.append(tensor("w", [4]))
    f = load(proto, table=TABLE)
    assert [p.name for p in f.params] == ["x"]
    assert f.constants[0].constant.tolist() == [0, 1, 2, 3]
    assert not f.constants[0].constant.flags.writeable


def test_equal_names_are_one_symbol_and_the_unnamed_are_not():
    inputs = [tensor("x", ["n", None, "m"]), tensor("y", ["n", None, "n"]), tensor("z", None)]
    f = load(model([node("Identity", "x", "o")], inputs, "o"), table=TABLE)
    x, y, z = (p.type.shape for p in f.params)
    assert x[0] is y[0] and y[0] is y[2]
    assert x[1] is not y[1] and x[2] is not x[0]
    assert z is None


def test_names_that_spell_alike_stay_two_symbols():
    f = load(model([node("Identity", "x", "o")], [tensor("x", ["a.b", "a b", "a.b", "2"])], "o"), table=TABLE)
    shape = f.params[0].type.shape
    assert shape[0] is shape[2] and shape[0] is not shape[1]
    assert [str(d) for d in shape] == ["a_b", "a_b_2", "a_b", "d_2"]


def test_dims_bind_and_bound():
    proto = model([node("Identity", "x", "o")], [tensor("x", ["batch", "seq", "k"])], "o")
    batch, seq, k = load(proto, dims={"batch": 8, "seq": (1, 512)}, table=TABLE).params[0].type.shape
    assert batch == 8 and bounds(seq) == (1, 512) and bounds(k) == (0, None)


@pytest.mark.parametrize("dims", [{"batsh": 8}, {"batch": -1}, {"batch": (3, 2)}, {"batch": "8"}, {"batch": True}])
def test_bad_dims_are_named(dims):
    with pytest.raises(ArgumentError, match=r"batch|batsh"):
        load(model([node("Identity", "x", "o")], [tensor("x", ["batch"])], "o"), dims=dims, table=TABLE)


def test_bound_dims_reach_the_type_relations():
    proto = model([node("Add", "x z", "y")], [tensor("x", ["n", 4]), tensor("z", [8, 4])], "y")
    assert str(load(proto, dims={"n": 8}, table=TABLE).results[0].type) == "f32[8, 4]"
    with pytest.raises(ShapeError, match="Add 'y'"):
        load(proto, dims={"n": 5}, table=TABLE)


def test_a_dim_without_a_name_is_bound_by_its_place() -> None:
    proto = model([node("Identity", "x", "o")], [tensor("x", [None, 4, None, "n"])], "o")
    batch, _, length, n = load(proto, dims={"x.shape[0]": 8, "x.shape[2]": (1, 512)}, table=TABLE).params[0].type.shape
    assert batch == 8 and bounds(length) == (1, 512) and bounds(n) == (0, None)
    for place in ("x.shape[1]", "x.shape[3]", "x.shape[4]", "o.shape[0]"):
        expected = f"no input of model has a dim '{place}'"
        with pytest.raises(
            ArgumentError, match=rf"{re.escape(expected)}.* number: 'n', 'x\.shape\[0\]', 'x\.shape\[2\]'$"
        ):
            load(proto, dims={place: 8}, table=TABLE)


@pytest.mark.parametrize(("second", "checks"), [("c", 0), ("d", 1)])
def test_what_one_condition_selects_has_one_size(second, checks):
    """The sum of two selections by one condition needs no check; that of selections by two is checked when it runs."""
    nodes = [
        node("Compress", "x c", "kept", axis=0),
        node("Compress", f"y {second}", "others", axis=0),
        node("Add", "kept others", "z"),
        node("NonZero", "c", "at"),
    ]
    inputs = [tensor(name, ["n"]) for name in "xy"] + [tensor(name, ["n"], TensorProto.BOOL) for name in "cd"]
    f = optimise(load(model(nodes, inputs, "z at")))
    total, at = f.results
    assert (total.type.shape[0] is at.type.shape[1]) == (checks == 0)
    assert sum(len(n.checks) for n in f.nodes if n.op.name == "add") == checks


def test_unsorted_nodes_are_sorted():
    nodes = [node("Add", "b x", "y"), node("Relu", "a", "b"), node("Add", "x x", "a")]
    f = load(model(nodes, [tensor("x", [3])], "y"), table=TABLE)
    assert [n.op.name for n in f.nodes] == ["add", "relu", "add"]


def test_constant_nodes():
    held = helper.make_tensor("t", TensorProto.FLOAT, [2], [3.0, 4.0])
    nodes = [node("Constant", "", "a", value_floats=[1.0, 2.0]), node("Constant", "", "b", value=held)]
    f = load(model([*nodes, node("Add", "a b", "y")], [], "y"), table=TABLE)
    assert [c.constant.tolist() for c in f.constants] == [[1, 2], [3, 4]]


def test_dropout_at_inference_is_its_input():
    seed = {"r": np.float32(0.5), "t": np.bool_(True), "f": np.bool_(False)}
    x = [tensor("x", [3])]
    for opset, inputs in ((7, "x"), (10, "x"), (12, "x"), (13, "x r"), (22, "x r f")):
        f = optimise(load(model([node("Dropout", inputs, "y m")], x, "y", seed, opset=opset)))
        assert f.results == f.params
    trained = optimise(load(model([node("Dropout", "x r t", "y")], x, "y", seed)))
    assert {n.op.name for n in trained.nodes} == {"fresh_seed", "dropout_mask", "dropout"}
    assert str(load(model([node("Dropout", "x", "y m")], x, "y m")).results[1].type) == "bool[3]"
    with pytest.raises(UnsupportedError, match=r"output 1 \('m'\) is not computed"):
        load(model([node("Dropout", "x", "y m")], x, "y m", opset=7))


def test_the_greatest_since_not_above_the_opset_is_taken():
    table = {**TABLE, "Relu": {6: relu_6, 14: lambda n: n.refuse("new")}}
    relu = [node("Relu", "x", "y")]
    assert load(model(relu, [tensor("x", [3])], "y", opset=13), table=table).nodes
    for opset in (14, 17):
        with pytest.raises(UnsupportedError, match="new"):
            load(model(relu, [tensor("x", [3])], "y", opset=opset), table=table)
    with pytest.raises(UnsupportedError, match="supported from opset 7"):
        load(model([node("Add", "x x", "y")], [tensor("x", [3])], "y", opset=6), table=table)
    with pytest.raises(UnsupportedError, match="removed from ONNX before opset 18"):
        load(model([node("ReduceMax", "x", "y")], [tensor("x", [3])], "y", opset=18), table=table)


def _branch():
    return helper.make_graph([node("Constant", "", "v", value_float=1.0)], "b", [], [tensor("v", [])])


def test_everything_unsupported_is_reported_at_once():
    nodes = [
        node("NonMaxSuppression", "b s", "i"),
        node("If", "c", "q", then_branch=_branch(), else_branch=_branch()),
        node("If", "c", "r", then_branch=_branch(), else_branch=_branch()),
        node("ReduceMax", "x", "m", axes=[0]),
        node("Relu", "q", "y"),
        node("Mystery", "x", "z", domain="acme"),
    ]
    inputs = [tensor("b", [1, 2, 4]), tensor("s", [1, 1, 2]), tensor("c", [], TensorProto.BOOL), tensor("x", [3])]
    with pytest.raises(UnsupportedModel) as caught:
        load(model(nodes, inputs, "y", domains=["acme"]), table=TABLE)
    entries = {(e.op, e.domain, e.opset, e.count) for e in caught.value.entries}
    mine = {("NonMaxSuppression", 1), ("If", 2), ("ReduceMax", 1)}
    assert entries == {(op, "ai.onnx", 17, count) for op, count in mine} | {("Mystery", "acme", 1, 1)}
    assert "keepdims must be 0" in str(caught.value)


def test_a_dtype_that_onnx_has_and_we_lack_is_unsupported():
    proto = model([node("Relu", "x", "y")], [tensor("x", [3], TensorProto.INT32)], "y")
    with pytest.raises(UnsupportedError, match="i32"):
        load(proto, table=TABLE)


def test_other_element_types_are_unsupported_in_sequences_too():
    text = tensor("t", [3], TensorProto.COMPLEX64)
    listed = helper.make_tensor_sequence_value_info("l", TensorProto.COMPLEX64, None)
    with pytest.raises(UnsupportedModel) as caught:
        load(model([node("Relu", "x", "y")], [tensor("x", [3]), text, listed], "y"), table=TABLE)
    assert [(e.op, e.count) for e in caught.value.entries] == [("input", 2)]


def test_declared_result_dtypes_are_checked_and_shapes_are_not_trusted():
    proto = model([node("Relu", "x", "y")], [tensor("x", ["n"])], "y")
    proto.graph.output[0].CopyFrom(tensor("y", [77]))
    assert str(load(proto, table=TABLE).results[0].type) == "f32[n]"
    proto.graph.output[0].CopyFrom(tensor("y", ["n"], TensorProto.DOUBLE))
    with pytest.raises(ModelError, match="declared as f64"):
        load(proto, table=TABLE)


def test_16_bit_floats_are_read_from_their_bits():
    for kind, dtype in ((TensorProto.FLOAT16, "float16"), (TensorProto.BFLOAT16, "bfloat16")):
        array = tensor_array(helper.make_tensor("t", kind, [3], [1.5, -2.0, 0.25]), None, "t")
        assert array.dtype.name == dtype and array.astype(np.float32).tolist() == [1.5, -2.0, 0.25]


def test_ranks_that_decide_how_a_model_is_read_are_asked_for():
    of = [tensor("x", None), tensor("z", None)]
    with pytest.raises(UnsupportedError, match=r"Einsum .*the rank of 'x' must be known"):
        load(model([node("Einsum", "x z", "y", equation="ij,jk->ik")], of, "y"))
    f = anyshape.compile(model([node("Add", "x z", "y", axis=1, broadcast=1)], of, "y", opset=6))
    x, z = np.zeros((2, 3, 4), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(f(x, z), np.broadcast_to(z[:, None], x.shape))
    np.testing.assert_array_equal(f(x[:, :, 0], z), np.broadcast_to(z, (2, 3)))
    with pytest.raises(ShapeError):
        f(x[:, 0, 0], z)
