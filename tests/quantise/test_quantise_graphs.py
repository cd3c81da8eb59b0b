"""Graphs of models with narrow weights: weights that several nodes use, graphs within nodes, functions, data in other files, old formats.
Nothing that is still read is lost, and nothing that is not read stays."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from tests.frontends.models import call, function, model, node, tensor
from tests.quantise.quantised_models import (
    CONTRIB,
    apart_from,
    drawn,
    in_onnxruntime,
    initializers,
    one_product,
    operators,
    versioned,
)
from tests.resident import LINUX, added

LONG = bool(os.environ.get("ANYSHAPE_LONG"))
X = tensor("x", ["n", 48])


def test_a_weight_that_two_nodes_use_is_stored_once() -> None:
    nodes = [
        node("MatMul", "x w", "a"), node("Transpose", "w", "t", perm=[1, 0]), node("Gemm", "x w", "b", transB=1),
        node("MatMul", "x t", "c"), node("Add", "a b", "y"),
    ]  # fmt: skip
    proto = versioned(model(nodes, [X], "y c", {"w": drawn(48, 48)}))
    narrow, report = anyshape.quantise(proto, least=0)
    # by columns for one product, by rows for the two that transpose it
    assert [w.after > 0 for w in report.narrowed] == [True, True, False]
    assert sum(name.endswith(("codes", "codes_2")) for name in initializers(narrow)) == 2
    feed = {"x": drawn(3, 48)}
    for here, there in zip(anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed)):
        assert apart_from(there, here) < 1e-5


def test_a_table_that_is_also_the_last_product_is_stored_once() -> None:
    nodes = [node("Gather", "t ids", "e"), node("Transpose", "t", "tt", perm=[1, 0]), node("MatMul", "e tt", "y")]
    proto = versioned(model(nodes, [tensor("ids", ["n"], TensorProto.INT64)], "y", {"t": drawn(30, 64)}))
    narrow, report = anyshape.quantise(proto, least=0)
    assert list(initializers(narrow)) == ["t_codes", "t_scales", "t_zeros", "t_shape"]
    assert report.after < 0.2 * report.before and "Transpose" not in operators(narrow)
    feed = {"ids": np.array([0, 29, -1])}
    assert apart_from(in_onnxruntime(narrow, feed)[0], anyshape.compile(narrow).run(feed)[0]) < 1e-5


def test_a_weight_that_something_else_reads_stays_beside_its_codes() -> None:
    """Other readers: a node, a result, a node that is kept."""
    for nodes, outputs, keep in (
        ([node("MatMul", "x w", "a"), node("Add", "a w", "y")], "y", []),
        ([node("MatMul", "x w", "y")], "y w", []),
        ([node("MatMul", "x w", "a", "one"), node("MatMul", "a w", "y", "two")], "y", ["two"]),
    ):
        proto = versioned(model(nodes, [tensor("x", [48, 48])], outputs, {"w": drawn(48, 48)}))
        narrow, report = anyshape.quantise(proto, least=0, keep=keep)
        assert {"w", "w_codes"} <= initializers(narrow).keys() and report.after > report.before
        feed = {"x": drawn(48, 48)}
        for here, there in zip(anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed)):
            assert apart_from(there, here) < 1e-5


def test_names_that_are_taken_are_not_used_again() -> None:
    nodes = [node("MatMul", "x w", "w_codes"), node("MatMul", "w_codes w_scales", "y")]
    proto = versioned(model(nodes, [X], "y", {"w": drawn(48, 20), "w_scales": drawn(20, 16)}))
    narrow, report = anyshape.quantise(proto, least=0)
    assert len(report.narrowed) == 2 and "w_codes_2" in initializers(narrow)
    feed = {"x": drawn(3, 48)}
    assert apart_from(in_onnxruntime(narrow, feed)[0], anyshape.compile(narrow).run(feed)[0]) < 1e-5


def branch(name: str, weight: str, own: bool) -> onnx.GraphProto:
    held = [numpy_helper.from_array(drawn(48, 9), weight)] if own else []
    return helper.make_graph([node("MatMul", f"x {weight}", name)], name, [], [tensor(name, None)], held)


def test_graphs_within_nodes_are_narrowed_too() -> None:
    """A weight of the graph around, which both a branch and the main graph read, and one of the branch itself."""
    nodes = [
        node("If", "c", "z", "choice", then_branch=branch("p", "w", False), else_branch=branch("q", "v", True)),
        node("MatMul", "x w", "y"),
    ]  # fmt: skip
    proto = versioned(model(nodes, [X, tensor("c", [], TensorProto.BOOL)], "z y", {"w": drawn(48, 9)}))
    narrow, report = anyshape.quantise(proto, least=0)
    places = sorted(w.node for w in report.narrowed)
    assert places == [
        "MatMul 'p' in then_branch of If 'choice'",
        "MatMul 'q' in else_branch of If 'choice'",
        "MatMul 'y'",
    ]
    graphs = [a.g for a in narrow.graph.node[0].attribute]
    assert [operators_of(g) for g in graphs] == [["MatMulNBits"]] * 2 and not any(g.initializer for g in graphs)
    assert {name for name in initializers(narrow) if name.endswith("codes")} == {"w_codes", "v_codes"}
    for c in (True, False):
        feed = {"x": drawn(3, 48), "c": np.array(c)}
        for here, there in zip(anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed)):
            assert apart_from(there, here) < 1e-5


def operators_of(graph: onnx.GraphProto) -> list[str]:
    return [n.op_type for n in graph.node]


def test_bodies_of_loops_are_narrowed_too() -> None:
    body = helper.make_graph(
        [node("MatMul", "s w", "p"), node("Tanh", "p", "t"), node("Identity", "going", "again")], "body",
        [tensor("k", [], TensorProto.INT64), tensor("going", [], TensorProto.BOOL), tensor("s", ["n", 48])],
        [tensor("again", [], TensorProto.BOOL), tensor("t", ["n", 48])],
    )  # fmt: skip
    proto = versioned(
        model(
            [node("Loop", "count - x", "y", "steps", body=body)], [X], "y", {"w": drawn(48, 48), "count": np.array(3)}
        )
    )
    feed = {"x": drawn(2, 48)}
    narrow, report = anyshape.quantise(proto, "int8", least=0, inputs=feed)
    assert [w.node for w in report.narrowed] == ["MatMul 'p' in body of Loop 'steps'"] and "w" not in initializers(
        narrow
    )
    assert report.narrowed[0].output_error is None and report.outputs is not None and 0 < report.outputs["y"] < 0.1
    assert apart_from(in_onnxruntime(narrow, feed)[0], anyshape.compile(narrow).run(feed)[0]) < 1e-4


def test_bodies_of_functions_stay_and_say_so() -> None:
    held = node("Constant", "", "w", value=numpy_helper.from_array(drawn(48, 9)))
    dense = function("Dense", "x", [held, node("MatMul", "x w", "y")])
    proto = model(
        [call("Dense", "x", "a"), node("MatMul", "a v", "y")],
        [X],
        "y",
        {"v": drawn(9, 16)},
        domains=["acme"],
        functions=[dense],
    )
    narrow, report = anyshape.quantise(versioned(proto), least=0)
    assert [k.reason for k in report.kept] == ["it is in the body of function 'Dense', which stays as it is"]
    assert operators(narrow) == ["Dense", "MatMulNBits"] and len(narrow.functions) == 1
    feed = {"x": drawn(3, 48)}
    assert apart_from(in_onnxruntime(narrow, feed)[0], anyshape.compile(narrow).run(feed)[0]) < 1e-5


def test_constants_that_are_nodes_are_left_out() -> None:
    held = node("Constant", "", "w", value=numpy_helper.from_array(drawn(48, 9)))
    proto = versioned(model([held, node("MatMul", "x w", "y")], [X], "y"))
    narrow, report = anyshape.quantise(proto, least=0)
    assert operators(narrow) == ["MatMulNBits"] and report.after < 0.25 * report.before


def test_nodes_that_nobody_supports_are_no_obstacle() -> None:
    """Results without a known type: what reads one stays, and all else becomes narrow."""
    nodes = [node("MatMul", "x w", "a"), call("Unknown", "a", "b"), node("MatMul", "b v", "y")]
    proto = versioned(model(nodes, [X], "y", {"w": drawn(48, 16), "v": drawn(16, 16)}, domains=["acme"]))
    narrow, report = anyshape.quantise(proto, least=0)
    assert operators(narrow) == ["MatMulNBits", "Unknown", "MatMul"]
    assert report.kept[0].reason == "the type of an operand is not known"


def test_a_format_in_which_initializers_are_inputs_becomes_one_in_which_they_need_not() -> None:
    proto = versioned(one_product(), ir=3)
    proto.graph.input.append(tensor("w", [40, 24]))
    narrow, report = anyshape.quantise(proto, least=0)
    assert len(report.narrowed) == 1 and narrow.ir_version >= 4 and [i.name for i in narrow.graph.input] == ["x"]
    assert proto.ir_version == 3 and operators(proto) == ["MatMul"], "the original does not change"


def test_data_in_other_files_is_read_from_there_and_written_into_the_model(tmp_path: Path) -> None:
    proto = one_product()
    proto.graph.node.append(node("Add", "y b", "z"))
    proto.graph.output[0].name = "z"
    proto.graph.initializer.append(numpy_helper.from_array(drawn(24), "b"))
    expected, _ = anyshape.quantise(proto, least=0)
    onnx.save_model(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    narrow, _ = anyshape.quantise(tmp_path / "m.onnx", least=0)
    assert (
        initializers(narrow).keys() == initializers(expected).keys()
        and len(onnx.load(tmp_path / "m.onnx").graph.node) == 2
    )
    for name, a in initializers(expected).items():
        np.testing.assert_array_equal(a, initializers(narrow)[name])
    apart = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    with pytest.raises(anyshape.AnyshapeError, match=r"its data is in another file .*load it by its path"):
        anyshape.quantise(apart, least=0)


def test_weights_stay_narrow_in_memory(tmp_path: Path) -> None:
    """A saved program holds what the compiled one has in memory: codes, of a product also in the order in which it reads them, and not
    what they stand for."""
    size, ids = 1024, tensor("ids", ["n"], TensorProto.INT64)
    product = one_product(size, size)
    lookup = versioned(model([node("Gather", "t ids", "y")], [ids], "y", {"t": drawn(size, size)}))
    saved: dict[str, float] = {}
    most = {"int4": 1.8, "int8": 2.9, "lookup": 1.4}
    for name, proto, weights in (("int4", product, "int4"), ("int8", product, "int8"), ("lookup", lookup, "int4")):
        anyshape.compile(anyshape.quantise(proto, weights)[0]).save(tmp_path / name)
        saved[name] = (tmp_path / name).stat().st_size / size**2
    assert all(saved[name] < bytes_of_one for name, bytes_of_one in most.items()), saved


def test_the_domain_of_the_nodes_is_imported_once() -> None:
    proto = one_product()
    narrow, _ = anyshape.quantise(proto, least=0)
    again, _ = anyshape.quantise(narrow, least=0)
    assert [o.domain for o in again.opset_import] == ["", CONTRIB] and operators(again) == ["MatMulNBits"]
    kept, report = anyshape.quantise(proto)
    assert [o.domain for o in kept.opset_import] == [""] and not report.narrowed, "a small weight stays as it is"


@pytest.mark.skipif(not (LONG and LINUX), reason="long: ANYSHAPE_LONG=1")
def test_weights_beyond_two_gigabytes_are_never_in_memory_at_once(tmp_path: Path) -> None:
    rows, columns = 5 << 19, 256  # 2.5 GiB of f32
    proto = versioned(model([node("Gather", "t ids", "y")], [tensor("ids", ["n"], TensorProto.INT64)], "y"))
    table = proto.graph.initializer.add(name="t", data_type=1, dims=[rows, columns], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="t.bin")
    with open(tmp_path / "t.bin", "wb") as file:
        file.truncate(rows * columns * 4)
        file.seek((rows - 1) * columns * 4)
        file.write(np.ones(columns, np.float32).tobytes())
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    before = f"""
import numpy as np
from pathlib import Path
import anyshape
from anyshape.frontends.onnx.writing import write_model
folder = Path({str(tmp_path)!r})
"""
    run = """
narrow, report = anyshape.quantise(folder / "m.onnx", symmetric=True)
write_model(narrow, folder / "n.onnx")
assert report.before > 2 << 30 and report.after < 0.18 * report.before
assert anyshape.compile(folder / "n.onnx")(np.array([-1, 0]))[:, 5].tolist() == [1, 0]
"""
    # Pages of the mapped file count, once; the codes are copied on their way into the file. Weights in memory would be 2.5 GiB more.
    assert added(before, run) < rows * columns * 4 + (2 << 30)
