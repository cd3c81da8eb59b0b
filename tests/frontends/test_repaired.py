"""What the standard refuses and costs a model: taken where it has one meaning, as onnxruntime takes it; else refused, with what a repair
would make of it, which `repair` makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.cli.main import main
from anyshape.errors import AnyshapeError, ModelError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ONES, TWO = np.ones(3, np.float32), np.full(3, 2, np.float32)
node = helper.make_node


def info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    initializers: Sequence[tuple[str, Any]] = (),
    outputs: Sequence[str] = ("y",),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    imports: Sequence[tuple[str, int]] = (("", 15),),
) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in initializers]
    graph = helper.make_graph(nodes, "g", [info("x", shape=["n", 3]), *inputs], [info(n) for n in outputs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*i) for i in imports], ir_version=8)


def sparse(places: Any) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.float32([1, 2]), "s")
    return onnx.SparseTensorProto(values=values, indices=numpy_helper.from_array(np.array(places)), dims=[2, 3])


def added(places: Any, opset: int = 15) -> onnx.ModelProto:
    constant = node("Constant", [], ["s"], sparse_value=sparse(places))
    return model([constant, node("Add", ["x", "s"], ["y"])], imports=[("", opset)])


def norm(scale: np.ndarray, bias: np.ndarray = 0 * ONES) -> onnx.ModelProto:
    held = [("s", scale), ("b", bias), ("m", 0 * ONES), ("v", ONES - np.float32(1e-5))]
    return model([node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])], held)


def theirs(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def constant(value: np.ndarray) -> onnx.NodeProto:
    return node("Constant", [], ["s"], value=numpy_helper.from_array(value))


ADD = node("Add", ["x", "s"], ["y"])
TAKEN = {
    "bounds of one element": model(
        [node("Clip", ["x", "lo", "hi"], ["y"])], [("lo", np.float32([2])), ("hi", np.float32([4]))]
    ),
    "one bound of one element": model([node("Clip", ["x", "", "hi"], ["y"])], [("hi", np.float32([4]))]),
    "places that do not ascend": added([5, 0]),
    "rows of places that do not ascend": added([[1, 2], [0, 0]]),
    "a sparse value before opset 11": added([0, 5], 9),
    "equal initializers": model([ADD], [("s", ONES), ("s", ONES)]),
    "initializers that nobody reads": model([node("Neg", ["x"], ["y"])], [("s", ONES), ("s", TWO)]),
    "an initializer without a name": model([node("Neg", ["x"], ["y"])], [("", ONES)]),
}  # fmt: skip


@pytest.mark.parametrize("text", TAKEN)
def test_what_has_one_meaning_is_taken_as_onnxruntime_takes_it(text):
    np.testing.assert_array_equal(anyshape.compile(TAKEN[text])(X), theirs(TAKEN[text], {"x": X})[0])


def test_names_that_nobody_reads_may_be_made_twice():
    masks = model([node("Dropout", ["x"], ["a", "mask"]), node("Dropout", ["a"], ["y", "mask"])])
    np.testing.assert_array_equal(anyshape.compile(masks)(X), X)
    with pytest.raises(ModelError, match="'mask' is produced twice"):
        masks.graph.output.append(info("mask", TensorProto.BOOL))
        anyshape.compile(masks)


def test_what_is_empty_behind_the_last_input_or_output_is_nothing():
    np.testing.assert_array_equal(anyshape.compile(model([node("Neg", ["x", ""], ["y", ""])]))(X), -X)


def branches() -> onnx.ModelProto:
    then, other = (
        helper.make_graph([node(op, ["x"], [op])], op, [], [info(op)]) for op in ("Identity", "Neg")
    )  # fmt: skip
    chosen = node("If", ["c", "x"], ["y"], then_branch=then, else_branch=other)
    return model([chosen], inputs=[info("c", TensorProto.BOOL, [])])


NEG = node("Neg", ["x"], ["y"])
ONE_PLACE = np.float32([[0, 0, 0], [0, 0, 2]])
IN_A_ROW = [node("Relu", ["x"], ["z"]), node("Neg", ["z"], ["z"]), node("Abs", ["z"], ["y"])]
REPAIRED: dict[str, tuple[onnx.ModelProto, str, np.ndarray]] = {
    "a scale of one element": (norm(np.float32([2])), "of BatchNormalization 'y' 's' as [3]", 2 * X),
    "a scale of rank 0": (norm(np.float32(2)), "of BatchNormalization 'y' 's' as [3]", 2 * X),
    "a scale with dims of 1": (norm(TWO.reshape(1, 3, 1, 1)), "of BatchNormalization 'y' 's' as [3]", 2 * X),
    "scale and bias of one element": (norm(np.float32([2]), np.float32([1])), "'s' as [3], 'b' as [3]", 2 * X + 1),
    "an If with inputs": (branches(), "If 'y' without 'x'", X),
    "an operator with inputs behind": (model([node("Neg", ["x", "x"], ["y"])]), "Neg 'y' without 'x'", -X),
    "two values at one place": (added([5, 5]), "of values at one place of Constant 's' the last", X + ONE_PLACE),
    "a name made twice": (model(IN_A_ROW), "'z', which is made more than once", X),
    "a result made twice": (
        model([node("Exp", ["x"], ["y"]), node("Log", ["y"], ["y"])]),
        "'y', which is made more than once",
        X,
    ),
    "an initializer made anew": (
        model([node("Relu", ["x"], ["s"]), node("Neg", ["s"], ["y"])], [("s", ONES)]),
        "'s', which is made more than once",
        -X,
    ),
    "an input made anew": (model([node("Relu", ["x"], ["x"]), NEG]), "'x', which is made more than once", -X),
    "two Constants of one name": (model([constant(ONES), constant(TWO), ADD]), "'s', which is made", X + 2),
    "two initializers": (model([ADD], [("s", ONES), ("s", TWO)]), "of initializers 's' the last", X + 2),
    "a result twice": (model([NEG], outputs=("y", "y")), "of results 'y' the first", -X),
    "two opsets": (
        model([node("Softmax", ["x"], ["y"], axis=1)], imports=[("ai.onnx", 13), ("", 12)]),
        "of opsets of ai.onnx the last, 12",
        np.exp(X) / np.exp(X).sum(-1, keepdims=True),
    ),
    "no opset of ONNX's own": (model([NEG], imports=[("com.microsoft", 1)]), "of ai.onnx, of which none was", -X),
}


def feeds_of(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {"x": X, **({"c": np.array(True)} if any(i.name == "c" for i in proto.graph.input) else {})}


@pytest.mark.parametrize("text", REPAIRED)
def test_what_may_mean_something_else_is_refused_and_repaired(text):
    proto, change, want = REPAIRED[text]
    was = proto.SerializeToString()
    with pytest.raises(AnyshapeError, match=r"compile\(repair=True\), or `anyshape simplify --repair`, \w+"):
        anyshape.compile(proto)
    exe = anyshape.compile(proto, repair=True)
    assert change in str(exe.report) and str(exe.report).count("repaired: ") == 1
    np.testing.assert_allclose(exe.run(feeds_of(proto))[0], want, 1e-5)
    notes: list[str] = []
    simplified = anyshape.simplify(proto, repair=True, notes=notes)
    assert len(notes) == 1 and change in notes[0]
    np.testing.assert_allclose(anyshape.compile(simplified).run(feeds_of(proto))[0], want, 1e-5)
    if "no opset" not in text:  # this onnxruntime may not have the newest
        np.testing.assert_allclose(theirs(simplified, feeds_of(proto))[0], want, 1e-5)
    assert proto.SerializeToString() == was


def test_a_fault_in_a_body_is_repaired_once():
    body = helper.make_graph(
        [node("Identity", ["c"], ["more"]), node("BatchNormalization", ["v", "s", "b", "m", "q"], ["next"])],
        "body",
        [info("k", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v")],
        [info("more", TensorProto.BOOL), info("next")],
    )
    held = [("s", np.float32([2])), ("b", 0 * ONES), ("m", 0 * ONES), ("q", ONES), ("trip", np.array(3))]
    proto = model([node("Loop", ["trip", "", "x"], ["y"], body=body)], held)
    exe = anyshape.compile(proto, repair=True)
    assert str(exe.report).count("repaired: ") == 1
    np.testing.assert_allclose(exe(X), 8 * X, 1e-4)


def test_nothing_is_repaired_of_what_is_right():
    right = norm(TWO)
    assert "repaired" not in str(anyshape.compile(right, repair=True).report)
    notes: list[str] = []
    assert anyshape.simplify(right, repair=True, notes=notes) == anyshape.simplify(right) and not notes


def test_no_repair_makes_operands_fit_that_say_something_else():
    with pytest.raises(AnyshapeError) as e:
        anyshape.compile(norm(np.float32([2, 3])), repair=True)
    assert "repair" not in str(e.value)


def test_repair_on_the_command_line(tmp_path, capsys):
    path, out = str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx")
    onnx.save(REPAIRED["a scale of one element"][0], path)
    assert main(["simplify", path, out]) == 0  # what it would refuse stays as it is
    assert main(["compile", path]) == 2
    assert "simplify --repair" in capsys.readouterr().err
    assert main(["simplify", path, out, "--repair"]) == 0
    assert "repaired: of BatchNormalization 'y' 's' as [3]" in capsys.readouterr().out
    np.testing.assert_allclose(theirs(onnx.load(out), {"x": X})[0], 2 * X, 1e-5)
    assert main(["compile", path, "--repair"]) == 0
    assert "repaired" in capsys.readouterr().out
