"""`anyshape.simplify`: valid models with equal results, less in them, and nothing left to do the second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.cli.main import main
from anyshape.errors import AnyshapeError, ArgumentError, ModelError
from anyshape.frontends.onnx.census import census
from anyshape.frontends.onnx.writing import write_model
from benchmarks.models import load
from tests.frontends.models import call, function, model, node, tensor

DATES = Path(__file__).parents[2] / "examples" / "dates" / "dates.onnx"
I64, BOOL = TensorProto.INT64, TensorProto.BOOL


def ops(m: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in m.graph.node]


def shapes(m: onnx.ModelProto) -> dict[str, list[Any]]:
    return {
        i.name: [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in i.type.tensor_type.shape.dim]
        for i in (*m.graph.value_info, *m.graph.output)
        if i.type.tensor_type.HasField("shape")
    }


def typed(m: onnx.ModelProto, **kinds: int) -> onnx.ModelProto:
    """Adds types for the outputs, which the checker wants, and a file version that onnxruntime knows."""
    m.ir_version = 10
    for o in m.graph.output:
        o.type.tensor_type.elem_type = kinds.get(o.name, TensorProto.FLOAT)
    return m


def run(m: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    """Runs the model as it stands: onnxruntime's own fusions turn a shape that works for empty dims into one that does not."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def checked(m: onnx.ModelProto, *feeds: dict[str, Any], **options: Any) -> onnx.ModelProto:
    """The simplified model, once everything that must hold of it has been seen to hold."""
    before = m.SerializeToString(deterministic=True)
    simplified = anyshape.simplify(m, **options)
    assert m.SerializeToString(deterministic=True) == before, "the original was changed"
    if all(i.type.tensor_type.HasField("shape") for i in m.graph.input):
        # inputs of unknown rank are refused by it, unlike by onnxruntime
        onnx.checker.check_model(simplified, full_check=True)
    again = anyshape.simplify(simplified)
    first, second = (p.SerializeToString(deterministic=True) for p in (simplified, again))
    assert first == second, "not idempotent"
    assert [o.name for o in simplified.graph.output] == [o.name for o in m.graph.output]
    for feed in feeds:
        for a, b in zip(run(m, feed), run(simplified, feed), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=2e-5)
    return simplified


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("name", "most"), [("bert_mini", 180), ("mlp", 6), ("shape_heavy", 80)])
def test_the_benchmarks_models(name: str, most: int, tmp_path: Path) -> None:
    source = load(name)
    m = onnx.load(source.build(tmp_path / "m.onnx"))
    simplified = checked(m, *(dict(source.inputs(*shape, seed=1)) for shape in source.SHAPES[:5]))
    counted = census(simplified)
    assert counted.total <= most
    assert counted.shaped == counted.values, "a shape is not known"


def test_the_dates_example() -> None:
    ids = np.random.default_rng(0).integers(1, 50, (7, 30))
    simplified = checked(onnx.load(DATES), {"ids": ids}, {"ids": ids[:1, :3]}, {"ids": ids[:3, :1]})
    assert len(simplified.graph.node) < 160
    assert census(simplified).shaped == census(simplified).values
    assert shapes(simplified)["year"] == ["batch", 4, 10] or shapes(simplified)["year"][0] == "batch"


def shape_of(x: str, out: str, axis: int) -> list[onnx.NodeProto]:
    """A dim of x as a vector of one, spelled as exporters do."""
    return [
        node("Shape", x, f"{out}_s"),
        node("Constant", "", f"{out}_k", value=numpy_helper.from_array(np.array(axis))),
        node("Gather", f"{out}_s {out}_k", f"{out}_g"),
        node("Unsqueeze", f"{out}_g zero", out),
    ]


def heads(last: int = 4) -> onnx.ModelProto:
    nodes = [
        *shape_of("x", "b", 0),
        *shape_of("x", "l", 1),
        node("Concat", "b l heads size", "s", axis=0),
        node("Reshape", "x s", "y"),
    ]
    constants = {"zero": np.array([0]), "heads": np.array([4]), "size": np.array([last])}
    return typed(model(nodes, [tensor("x", ["batch", "length", 16])], "y", constants))


def test_a_computed_shape_becomes_a_constant_that_copies() -> None:
    simplified = checked(heads(), {"x": floats(2, 3, 16)}, {"x": floats(1, 1, 16)}, {"x": floats(0, 3, 16)})
    assert ops(simplified) == ["Reshape"]
    assert numpy_helper.to_array(simplified.graph.initializer[0]).tolist() == [0, 0, 4, 4]
    assert shapes(simplified)["y"] == ["batch", "length", 4, 4]


def test_what_is_left_is_said_only_where_no_empty_dim_is_beside_it() -> None:
    nodes = [
        *shape_of("x", "b", 0),
        *shape_of("x", "l", 1),
        node("Mul", "l two", "half"),
        node("Concat", "b half eight", "s", axis=0),
        node("Reshape", "x s", "y"),
    ]
    constants = {"zero": np.array([0]), "two": np.array([2]), "eight": np.array([8])}
    m = typed(model(nodes, [tensor("x", ["batch", "length", 16])], "y", constants))
    feeds = {"x": floats(2, 3, 16)}, {"x": floats(0, 3, 16)}
    assert "Concat" in ops(checked(m, *feeds)), "[0, -1, 8] is refused for an empty batch, which the model takes"
    bounded = checked(m, feeds[0], dims={"batch": (1, None)})
    assert ops(bounded) == ["Reshape"]
    assert numpy_helper.to_array(bounded.graph.initializer[0]).tolist() == [0, -1, 8]


def test_a_bound_dim_is_a_number_in_the_inputs() -> None:
    simplified = checked(heads(), {"x": floats(2, 3, 16)}, dims={"batch": 2})
    assert simplified.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    assert shapes(simplified)["y"] == [2, "length", 4, 4]


def test_expand_to_dims_that_are_there_keeps_them() -> None:
    nodes = [*shape_of("x", "b", 0), node("Concat", "three b one", "s", axis=0), node("Expand", "x s", "y")]
    constants = {"zero": np.array([0]), "three": np.array([3]), "one": np.array([1])}
    m = typed(model(nodes, [tensor("x", ["n", 1])], "y", constants))
    assert ops(checked(m, {"x": floats(4, 1)}, {"x": floats(1, 1)}, {"x": floats(0, 1)})) == ["Expand"]


def test_equal_nodes_are_one_also_where_we_know_nothing_of_them() -> None:
    nodes = [
        node("StringNormalizer", "t", "a", case_change_action="LOWER", locale="C"),
        node("StringNormalizer", "t", "b", case_change_action="LOWER", locale="C"),
        node("Equal", "a b", "y"),
    ]
    m = typed(model(nodes, [tensor("t", [None], TensorProto.STRING)], "y", opset=19), y=BOOL)
    simplified = checked(m, {"t": np.array(["One", "two"], object)})
    assert ops(simplified) == ["StringNormalizer", "Equal"]


def test_numbers_that_are_drawn_are_never_one() -> None:
    draw = [node("RandomNormalLike", "x", f"r{k}") for k in range(2)]
    m = typed(model([*draw, node("Sub", "r0 r1", "y")], [tensor("x", ["n"])], "y"))
    simplified = checked(m)
    assert ops(simplified).count("RandomNormalLike") == 2
    assert np.any(run(simplified, {"x": floats(9)})[0])


def test_a_seed_does_not_say_what_another_runtime_draws() -> None:
    draw = [node("RandomNormal", "", f"r{k}", shape=[2], seed=1.0) for k in range(2)]
    m = typed(model([*draw, node("Sub", "r0 r1", "y")], [], "y"))
    assert ops(checked(m)).count("RandomNormal") == 2


@pytest.mark.parametrize("trains", [False, True])
def test_a_dropout_is_known_where_it_does_not_train(trains: bool) -> None:
    held = {"half": np.float32(0.5), "train": np.bool_(trains)}
    nodes = [node("Dropout", "one half train", "d"), node("Add", "x d", "y")]
    m = typed(model(nodes, [tensor("x", ["n"])], "y", {**held, "one": np.ones(1, np.float32)}, opset=13))
    assert ops(anyshape.simplify(m)) == (["Dropout", "Add"] if trains else ["Add"])


def test_the_end_of_a_slice_is_a_shape_too() -> None:
    """A slice ends at the last row: whatever is one less than the rows in the model is -1 in the simplified one."""
    nodes = [*shape_of("x", "n", 0), node("Sub", "n one", "s"), node("Slice", "x zero s", "y")]
    m = typed(model(nodes, [tensor("x", ["n"])], "y", {"one": np.array([1]), "zero": np.array([0])}))
    assert ops(checked(m, {"x": floats(4)}, {"x": floats(1)})) == ["Slice"]


def test_unknown_ranks() -> None:
    nodes = [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Add", "a b", "y")]
    m = typed(model(nodes, [tensor("x", None)], "y"))
    simplified = checked(m, {"x": floats(3)}, {"x": floats(2, 2)})
    assert ops(simplified) == ["Relu", "Add"]
    assert not simplified.graph.output[0].type.tensor_type.HasField("shape")


def branch(name: str, op: str, operand: str) -> onnx.GraphProto:
    out = f"{name}_out"
    return helper.make_graph([node(op, f"{operand} x", out)], name, [], [tensor(out, None)])


def test_subgraphs_read_what_their_names_have_become() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Relu", "x", "b"),
        node("Identity", "b", "c"),
        node("Exp", "x", "dead"),
        node("If", "p", "y", then_branch=branch("t", "Add", "c"), else_branch=branch("e", "Mul", "b")),
        node("Add", "a y", "z"),
    ]
    m = typed(model(nodes, [tensor("x", ["n"]), tensor("p", [], BOOL)], "z"))
    simplified = checked(m, *({"x": floats(5), "p": np.array(p)} for p in (True, False)))
    assert ops(simplified) == ["Relu", "If", "Add"]


def looped() -> onnx.ModelProto:
    """A loop with a branch in it; in both, shapes are computed that are known, things are computed twice, and nobody reads others."""
    then = helper.make_graph(
        [
            node("Shape", "acc", "sh"), node("Gather", "sh one", "width", axis=0), node("Cast", "width", "w", to=TensorProto.FLOAT),
            node("Mul", "acc w", "m1"), node("Mul", "acc w", "m2"), node("Add", "m1 m2", "t"), node("Exp", "acc", "idle"),
        ],
        "then", [], [tensor("t", ["n", 4])], [numpy_helper.from_array(np.int64(1), "one")],
    )  # fmt: skip
    other = helper.make_graph([node("Identity", "acc", "e")], "other", [], [tensor("e", ["n", 4])])
    body = helper.make_graph(
        [
            node("Identity", "go", "again"), node("Mod", "i two", "r"), node("Equal", "r zero", "even"),
            node("If", "even", "after", then_branch=then, else_branch=other), node("Shape", "x", "around"),
            node("ConstantOfShape", "around", "zeros"), node("Add", "after zeros", "next"),
        ],
        "body", [tensor("i", [], I64), tensor("go", [], BOOL), tensor("acc", ["n", 4])],
        [tensor("again", [], BOOL), tensor("next", ["n", 4])],
        [numpy_helper.from_array(np.int64(k), name) for name, k in (("two", 2), ("zero", 0))],
    )  # fmt: skip
    proto = model(
        [node("Loop", "k c x", "y", body=body)],
        [tensor("k", [], I64), tensor("c", [], BOOL), tensor("x", ["n", 4])],
        "y",
    )
    return typed(proto)


def test_graphs_within_nodes_are_simplified_too() -> None:
    m = looped()
    feeds = [{"k": np.array(k), "c": np.array(True), "x": floats(n, 4) / 9} for k, n in ((0, 2), (3, 1), (4, 3))]
    simplified = checked(m, *feeds)
    (loop,) = simplified.graph.node
    body = loop.attribute[0].g
    (branch,) = [n for n in body.node if n.op_type == "If"]
    then = next(a.g for a in branch.attribute if a.name == "then_branch")
    assert ops(simplified) == ["Loop"] and [n.op_type for n in then.node] == ["Mul", "Add"]
    assert [t.name for t in then.initializer] == ["w"]


def test_nodes_of_one_name_are_not_taken_for_each_other() -> None:
    def branch(k: float, name: str) -> onnx.GraphProto:
        held = [
            numpy_helper.from_array(np.float32(k), f"{name}_a"),
            numpy_helper.from_array(np.float32(1), f"{name}_b"),
        ]
        nodes = [node("Add", f"{name}_a {name}_b", f"{name}_c"), node("Mul", f"x {name}_c", name)]
        return helper.make_graph(nodes, name, [], [tensor(name, ["n"])], held)

    ifs = [node("If", "c", f"y{k}", then_branch=branch(k, f"t{k}"), else_branch=branch(-k, f"e{k}")) for k in (1, 2)]
    for n in ifs:
        n.name = "same"
    m = typed(model([*ifs, node("Add", "y1 y2", "y")], [tensor("c", [], BOOL), tensor("x", ["n"])], "y"))
    simplified, x = checked(m), floats(5)  # onnxruntime takes no such model
    for c, expected in ((True, 5 * x), (False, -x)):
        np.testing.assert_allclose(anyshape.compile(simplified)(np.array(c), x), expected, rtol=1e-6)


@pytest.mark.parametrize(("names", "left"), [("ll", 5), ("lk", 2)])
def test_equal_bodies_of_nodes_of_one_name_are_not_taken_for_each_other(names: str, left: int) -> None:
    """Only where nodes have names of their own is a body simplified by the types that it has there."""

    def loop(name: str, of: str, to: str) -> onnx.NodeProto:
        nodes = [
            node("Shape", "a", "s"), node("Cast", "s", "f", to=TensorProto.FLOAT), node("ReduceSum", "f", "sum"), node("Add", "a sum", "b"),
            node("Identity", "runs", "on"),
        ]  # fmt: skip
        ends = [onnx.ValueInfoProto(name=n) for n in ("on", "b")]
        inputs = [tensor("i", [], I64), tensor("runs", [], BOOL), tensor("a", None)]
        return node("Loop", f"k - {of}", to, name, body=helper.make_graph(nodes, "body", inputs, ends))

    inputs = [tensor("x", [2]), tensor("z", [3, 4]), tensor("k", [], I64)]
    simplified = anyshape.simplify(model([loop(names[0], "x", "y"), loop(names[1], "z", "w")], inputs, "y w"))
    assert [len(n.attribute[0].g.node) for n in simplified.graph.node] == [left, left]
    y, w = anyshape.compile(simplified)(np.zeros(2, np.float32), np.zeros((3, 4), np.float32), np.array(1))
    assert (y == 2).all() and (w == 7).all()


def test_outputs_that_are_inputs_constants_or_the_same() -> None:
    nodes = [
        node("Identity", "x", "same"),
        node("Constant", "", "five", value=numpy_helper.from_array(np.array([5.0], np.float32))),
        node("Identity", "five", "also"),
        node("Relu", "x", "r"),
        node("Identity", "r", "first"),
        node("Relu", "x", "second"),
        node("Split", "x", "left right", axis=0, num_outputs=2),
        node("Identity", "w", "held"),
    ]
    outputs = "same five also first second left held w"
    m = typed(model(nodes, [tensor("x", [4])], outputs, {"w": floats(2)}, opset=18))
    simplified = checked(m, {"x": floats(4)})
    assert ops(simplified).count("Relu") == 1
    assert shapes(simplified)["right"] == [2]


def test_an_output_of_a_node_whose_other_output_is_known_already() -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Split", "x k", "left right", axis=0),
        node("Split", "x k", "again other", axis=0),
        node("Add", "left other", "y"),
    ]
    m = typed(model(nodes, [tensor("x", ["n"])], "y again right r", {"k": np.array([2, 2])}))
    simplified = checked(m, {"x": floats(4)})
    assert ops(simplified).count("Split") == 1


def test_an_output_whose_name_stands_for_something_else() -> None:
    nodes = [node("Dropout", "x", "y z")]
    simplified = checked(typed(model(nodes, [tensor("x", ["n"])], "y z"), z=BOOL), {"x": floats(3)})
    assert ops(simplified) == ["Dropout", "Identity"]


def test_defaults_of_inputs_stay_defaults() -> None:
    m = typed(model([node("Add", "x w", "a"), node("Add", "w w", "b"), node("Add", "a b", "y")],
                    [tensor("x", ["n"]), tensor("w", [1])], "y", {"w": np.ones(1, np.float32)}))  # fmt: skip
    x, other = floats(3), np.full(1, 7, np.float32)
    assert ops(checked(m, {"x": x}, {"x": x, "w": other})) == ["Add", "Add", "Add"]
    m.ir_version = 3
    simplified = checked(m, {"x": x})
    assert [i.name for i in simplified.graph.input] == ["x"], "in old files an initializer has to be an input"
    assert ops(simplified) == ["Add", "Add"]


def test_large_constants_are_not_unfolded() -> None:
    nodes = [node("ConstantOfShape", "k", "c"), node("Add", "x c", "y"), node("Mul", "x c", "z")]
    m = typed(model(nodes, [tensor("x", ["n", 1])], "y z", {"k": np.array([1, 100_000])}))
    assert ops(checked(m, {"x": floats(2, 1)})) == ["ConstantOfShape", "Add", "Mul"]


def test_calls_of_functions_stay_calls() -> None:
    twice = function("Twice", "x", [node("Add", "x x", "y")])
    unused = function("Unused", "x", [node("Relu", "x", "y")])
    nodes = [call("Twice", "x", "a"), call("Twice", "x", "b"), node("Mul", "a b", "y")]
    m = typed(model(nodes, [tensor("x", ["n"])], "y", domains=["acme"], functions=[twice, unused]))
    simplified = checked(m, {"x": floats(3)})
    assert ops(simplified) == ["Twice", "Mul"]
    assert [f.name for f in simplified.functions] == ["Twice"]


def test_what_the_file_says_of_itself_is_kept() -> None:
    m = heads()
    m.producer_name, m.doc_string, m.domain, m.model_version = "someone", "words", "d", 3
    m.graph.doc_string = "more"
    m.metadata_props.add(key="k", value="v")
    simplified = checked(m)
    assert (simplified.producer_name, simplified.doc_string, simplified.domain, simplified.model_version) == (
        "someone",
        "words",
        "d",
        3,
    )
    assert simplified.graph.doc_string == "more" and simplified.metadata_props[0].value == "v"
    assert simplified.opset_import == m.opset_import


def test_wrong_models_are_refused() -> None:
    with pytest.raises(ModelError):
        anyshape.simplify(b"soup")
    with pytest.raises(ArgumentError, match=r"no input of model has a dim 'depth'\. Dims without a number: 'batch', "):
        anyshape.simplify(heads(), {"depth": 1})


def test_what_we_would_refuse_is_left_as_it_is() -> None:
    assert ops(checked(heads(5), dims={"length": 1})) == ["Reshape"]
    scalar = typed(model([node("Unsqueeze", "x k", "y")], [tensor("x", ["n"])], "y", {"k": np.array(0)}))
    assert ops(checked(scalar, {"x": floats(3)})) == ["Unsqueeze"], "onnxruntime takes a scalar for axes"


def test_tensors_beyond_protobuf_go_to_a_file_beside(tmp_path: Path) -> None:
    w = floats(64, 64)
    m = typed(model([node("MatMul", "x w", "y")], [tensor("x", ["n", 64])], "y", {"w": w}))
    simplified = anyshape.simplify(m)
    write_model(simplified, tmp_path / "out.onnx", most=100)
    assert (tmp_path / "out.onnx").stat().st_size < 1000
    assert (tmp_path / "out.onnx.data").stat().st_size >= w.nbytes
    session = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": w})[0], w @ w, rtol=1e-4, atol=1e-4)
    assert simplified.graph.initializer[0].raw_data == w.tobytes()
    again = anyshape.simplify(str(tmp_path / "out.onnx"))
    assert again.graph.initializer[0].raw_data == w.tobytes(), "the data came in from the file beside"
    with pytest.raises(AnyshapeError, match="cannot be written"):
        write_model(simplified, tmp_path / "nowhere" / "out.onnx")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.onnx").write_bytes(heads().SerializeToString())
    assert main(["simplify", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--check"]) == 0
    out = capsys.readouterr().out
    assert "10 -> 1" in " ".join(out.split())
    assert "shapes known after: of 1 of 1 value" in out
    assert "results are equal in onnxruntime at 4 shapes" in out
    assert main(["simplify", str(tmp_path / "none.onnx"), str(tmp_path / "out.onnx")]) == 2
