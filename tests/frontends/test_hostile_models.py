"""Damaged, contradictory and malicious models: each is refused by an AnyshapeError that says what and where."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from anyshape.errors import AnyshapeError, ModelError
from anyshape.frontends.onnx import load
from benchmarks.models import load as load_benchmark
from tests.frontends.models import call, chain, function, model, node, tensor
from tests.frontends.small_ops import TABLE

X = tensor("x", [3])


def refused(source, words, error=ModelError):
    with pytest.raises(error, match=words):
        load(source, table=TABLE)


def rich():
    """A model that uses functions, attributes, constants and several inputs."""
    body = function("F", "x", [node("ReduceMax", "x", "y", axes=[0], keepdims=0)])
    held = helper.make_tensor("t", TensorProto.FLOAT, [2], [3.0, 4.0])
    nodes = [node("Constant", "", "c", value=held), node("Add", "x c", "a"), call("F", "a", "y")]
    return model(nodes, [tensor("x", ["n", 2]), tensor("z", None)], "y", domains=["acme"], functions=[body])


@pytest.mark.parametrize("make", [chain, rich])
def test_every_prefix_of_a_file_is_refused_or_whole(make):
    data = make().SerializeToString()
    for n in range(len(data)):
        try:
            f = load(data[:n], table=TABLE)
        except AnyshapeError as e:
            assert str(e).startswith("model")
        else:
            assert f.result_names == ("y",)
    refused(data[: len(data) // 2], "cut|parse")


@pytest.mark.parametrize("make", [chain, rich])
@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits_never_crash(make, seed):
    pick = random.Random(seed)
    data = make().SerializeToString()
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(pick.choice((1, 1, 2, 5))):
            broken[pick.randrange(len(broken))] ^= 1 << pick.randrange(8)
        try:
            load(bytes(broken), table=TABLE)
        except AnyshapeError as e:
            assert str(e)


@pytest.mark.parametrize("seed", range(2))
def test_damage_never_crashes_the_generated_mappings(seed, tmp_path):
    data = load_benchmark("shape_heavy").build(tmp_path / "m.onnx").read_bytes()
    pick = random.Random(seed)
    for _ in range(50):
        broken = bytearray(data)
        for _ in range(pick.choice((1, 2, 5))):
            broken[pick.randrange(len(broken))] ^= 1 << pick.randrange(8)
        with suppress(AnyshapeError):
            load(bytes(broken))


def test_files_that_are_no_models(tmp_path):
    refused(b"", "empty")
    refused(b"PK\3\4 nothing of the sort", "parse|no graph")
    refused(tmp_path / "none.onnx", r"none.onnx: cannot be read: No such file")
    refused(tmp_path, "cannot be read")
    refused(42, "path, bytes")
    refused(onnx.ModelProto(), "no graph")
    unversioned = chain()
    del unversioned.opset_import[:]
    refused(unversioned, "opset")


def test_names():
    relu = node("Relu", "x", "y")
    again = node("Relu", "x", "y", "again")
    refused(model([relu, again], [X], "y"), "'y' is produced twice, by Relu 'y' and by Relu 'again'")
    refused(model([node("Relu", "gone", "y")], [X], "y"), "Relu 'y' reads 'gone', which nothing produces")
    refused(model([relu], [X], "y z"), "nothing produces the output 'z'")
    refused(model([relu], [X], ""), "no outputs")
    refused(model([relu], [X, X], "y"), "two inputs have the name 'x'")
    refused(model([relu], [X], "y y"), "two outputs have the name 'y'")
    refused(model([relu], [tensor("", [3])], "y"), "no name")
    refused(model([node("Relu", "x", "x")], [X], "x"), "already an input")
    twice = chain()
    twice.graph.initializer.append(twice.graph.initializer[0])
    twice.graph.initializer[1].data_type = TensorProto.INT32
    refused(twice, "two different initializers have the name 'w'")


def test_cycles_are_spelled_out():
    nodes = [node("Add", "x b", "a", "one"), node("Relu", "a", "b", "two"), node("Relu", "b", "y", "after")]
    refused(model(nodes, [X], "y"), "cycle: Add 'one', which needs Relu 'two', which needs Add 'one'")
    refused(model([node("Relu", "y", "y")], [X], "y"), "cycle")


def test_attributes():
    def reduce(**attributes):
        return model([node("ReduceMax", "x", "y", **attributes)], [X], "y")

    refused(reduce(axes=1.5), "attribute axes must be ints, got a float")
    refused(reduce(axis=[1]), "ReduceMax has no attribute axis; in this opset it has axes, keepdims")
    doubled = reduce(keepdims=0)
    doubled.graph.node[0].attribute.append(doubled.graph.node[0].attribute[0])
    refused(doubled, "keepdims is given twice")
    refused(reduce(axes=[7], keepdims=0), "ReduceMax 'y'", AnyshapeError)
    empty = reduce(keepdims=0)
    empty.graph.node[0].attribute[0].ClearField("i")
    refused(empty, "got nothing")


def test_numbers_of_inputs_and_outputs():
    refused(model([node("Relu", "x x", "y")], [X], "y"), "Relu has 1 input, got 2")
    refused(model([node("Add", "x -", "y")], [X], "y"), "input B is left out")
    refused(model([node("Relu", "x", "y z")], [X], "y"), "1 output, got 2")


def test_domains_and_opsets():
    refused(model([call("F", "x", "y")], [X], "y"), "domain 'acme', which the model does not import")
    for opset in (0, -3, 2**40):
        refused(model([node("Relu", "x", "y")], [X], "y", opset=opset), f"opset {opset} .*does not exist")


def _with_tensor(**fields):
    proto = chain()
    t = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=fields.pop("dims", [4]))
    for key, value in fields.items():
        if isinstance(value, list):
            getattr(t, key).extend(value)
        else:
            setattr(t, key, value)
    proto.graph.initializer[0].CopyFrom(t)
    return proto


def test_tensors_whose_size_is_not_their_shape():
    refused(_with_tensor(raw_data=b"1234"), "'w'.*16 bytes, but there are 4")
    refused(_with_tensor(float_data=[1.0]), "4 elements of float32, but its data has 1")
    refused(_with_tensor(dims=[-4], raw_data=b""), "cannot be negative")
    refused(_with_tensor(dims=[2**62, 2**62], raw_data=b"1234"), "but there are 4")
    refused(_with_tensor(dims=[2**62, 2**62, 2**62, 0], raw_data=b""), "does not fit in memory", AnyshapeError)
    refused(_with_tensor(data_type=0, raw_data=b"1" * 16), "0 is not an element type")
    refused(_with_tensor(data_type=99, raw_data=b"1" * 16), "99 is not an element type")


FOUR = np.arange(4, dtype=np.float32).tobytes()


def _external(folder, location, data=FOUR, **said):
    proto = _with_tensor(data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **said}.items():
        proto.graph.initializer[0].external_data.add(key=key, value=str(value))
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    (folder / "w.bin").write_bytes(data)
    return folder / "m.onnx"


def test_external_data_is_mapped(tmp_path):
    data = b"head" + np.arange(4, dtype=np.float32).tobytes()
    (w,) = load(_external(tmp_path, "w.bin", data, offset=4, length=16), table=TABLE).constants
    assert w.constant.tolist() == [0, 1, 2, 3]
    assert not w.constant.flags.owndata and not w.constant.flags.writeable


def test_external_data_stays_in_the_folder(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "w.bin").write_bytes(bytes(16))
    (inside / "link.bin").symlink_to(outside / "w.bin")
    (inside / "door").symlink_to(outside)
    for location in ("../out/w.bin", str(outside / "w.bin"), "a/../../out/w.bin", "..\\out\\w.bin", "C:\\w.bin"):
        refused(_external(inside, location), "outside the model's folder")
    refused(_external(inside, "link.bin"), "through a link")
    refused(_external(inside, "door/w.bin"), "through a link")
    refused(_external(inside, ""), "is not a file name")
    refused(_external(inside, "gone.bin"), "No such file")
    refused(_external(inside, "."), "plain file|is not a file name|cannot be read")
    refused(_external(inside, "w.bin").read_bytes(), "by its path")


def test_external_data_offsets_and_lengths_are_checked(tmp_path):
    refused(_external(tmp_path, "w.bin", offset=8), "bytes 8 to 24 of .* has 16")
    refused(_external(tmp_path, "w.bin", length=8), "length says 8")
    refused(_external(tmp_path, "w.bin", offset=-4), "got '-4'")
    refused(_external(tmp_path, "w.bin", offset="9" * 30), "needs offset, a number")
    refused(_external(tmp_path, "w.bin", b""), "which has 0")


def test_a_wrong_shape_names_the_node():
    proto = model([node("Add", "x z", "y", "enc/add")], [X, tensor("z", [4])], "y")
    refused(proto, "enc/add", AnyshapeError)


def test_an_input_without_a_type():
    proto = model([node("Relu", "x", "y")], [onnx.ValueInfoProto(name="x")], "y")
    refused(proto, "input 'x'")


def test_names_in_the_graphs_of_nodes_are_text_too():
    side = [
        helper.make_graph([node("Relu", "x", n)], n, [], [onnx.ValueInfoProto(name=n)]) for n in ("then", "else_side")
    ]
    proto = model(
        [node("If", "c", "y", then_branch=side[0], else_branch=side[1])], [X, tensor("c", [], TensorProto.BOOL)], "y"
    )
    data = proto.SerializeToString()
    assert data.count(b"Relu") == 2
    refused(data.replace(b"Relu", b"R\xeelu"), "is not UTF-8 text")
