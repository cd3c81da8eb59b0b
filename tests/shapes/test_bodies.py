"""Types of values inside of bodies of If, Loop and Scan: what is said of them is so in every run of the body."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper

import anyshape
from anyshape.cli.main import main
from anyshape.frontends.onnx.loading import read_source
from anyshape.frontends.onnx.named_values import named_values
from anyshape.frontends.symbolic_shapes import Shapes
from anyshape.frontends.symbolic_shapes.annotated import annotate
from anyshape.types import TensorType
from tests.frontends.models import model, node, tensor
from tests.frontends.onnx_suite import as_array, cases, in_form
from tests.shapes.conditional_models import BOOL, I64, feed_of
from tests.shapes.exposed import contradictions, exposed, run


def graph(nodes: list[Any], inputs: list[Any], outputs: str, name: str = "body") -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, [onnx.ValueInfoProto(name=n) for n in outputs.split()])


NUMBER, RUNS = tensor("i", [], I64), tensor("runs", [], BOOL)


def _grows() -> onnx.ModelProto:
    """Appends rows while fewer iterations than k ran, and counts elements that are not 0."""
    more = graph([node("Concat", "acc x", "t", axis=0), node("Identity", "t", "u")], [], "u")
    same = graph([node("Identity", "acc", "v")], [], "v")
    nodes = [
        node("Less", "i k", "c"), node("If", "c", "w", "branch", then_branch=more, else_branch=same), node("NonZero", "w", "p"),
        node("Size", "p", "size"), node("Shape", "w", "s"), node("MatMul", "w m", "mm"), node("Identity", "runs", "on"),
        node("ReduceSum", "mm", "sum", keepdims=0), node("Gather", "s zero", "rows"), node("Add", "sum sum", "dead"),
    ]  # fmt: skip
    body = graph(nodes, [NUMBER, RUNS, tensor("acc", None)], "on w sum rows size")
    outer = [node("Relu", "x0", "x"), node("Loop", "trip - x", "y sums rows sizes", "l", body=body)]
    inputs = [tensor("x0", ["n", 3]), tensor("k", [], I64), tensor("trip", [], I64), tensor("m", [3, "q"])]
    return model(outer, inputs, "y sums rows sizes", {"zero": np.array(0)})


def _nested() -> onnx.ModelProto:
    """A loop of three iterations in a loop, both of which read their numbers."""
    inner_nodes = [
        node("Add", "b j", "b2"), node("Add", "b2 i", "b3"), node("Unsqueeze", "b2 first", "j1"), node("Expand", "row j1", "e"),
        node("Size", "e", "size"), node("Identity", "runs2", "on2"),
    ]  # fmt: skip
    inner = graph(inner_nodes, [tensor("j", [], I64), tensor("runs2", [], BOOL), tensor("b", [], I64)], "on2 b3 size")
    nodes = [
        node("Loop", "three - i", "b4 sizes", "inner", body=inner), node("Unsqueeze", "b4 first", "n1"),
        node("Expand", "row n1", "wide"), node("Concat", "a wide", "a2", axis=0), node("Identity", "runs", "on"),
        node("ReduceSum", "a2", "r", keepdims=0), node("ReduceMax", "sizes", "largest", keepdims=0),
    ]  # fmt: skip
    body = graph(nodes, [NUMBER, RUNS, tensor("a", None)], "on a2 r largest")
    constants = {"three": np.array(3), "first": np.array([0])}
    loop = node("Loop", "trip - x", "y rs ls", "outer", body=body)
    return model([loop], [tensor("x", ["n"]), tensor("row", [1]), tensor("trip", [], I64)], "y rs ls", constants)


def _scans() -> onnx.ModelProto:
    """Scans columns backwards beside rows, and stacks along the second axis."""
    nodes = [
        node("Mul", "col row", "both"), node("Add", "state both", "next"), node("Concat", "both both", "twice", axis=0),
        node("Transpose", "extra", "turned"), node("MatMul", "turned col", "product"),
    ]  # fmt: skip
    body = graph(nodes, [tensor("state", None), tensor("col", None), tensor("row", None)], "next twice product")
    scan = node(
        "Scan", "start x z", "last stack products", "s", body=body, num_scan_inputs=2, scan_input_axes=[1, 0],
        scan_input_directions=[1, 0], scan_output_axes=[1, 0], scan_output_directions=[0, 1],
    )  # fmt: skip
    inputs = [tensor("start", ["n"]), tensor("x", ["n", "t"]), tensor("z", ["t", 1]), tensor("extra", ["n", "m"])]
    return model([scan], inputs, "last stack products")


def _branches() -> onnx.ModelProto:
    """Branches that read a size which data decides, and unnamed dims."""
    then = graph([node("Concat", "f w", "t", axis=0), node("Neg", "t", "n")], [], "n", "then")
    otherwise = graph(
        [node("Cast", "x", "e", to=1), node("Reshape", "w flat", "r"), node("Concat", "e r", "er", axis=0)],
        [],
        "er",
        "else",
    )
    otherwise.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), "flat"))
    nodes = [
        node("NonZero", "x", "p"), node("Squeeze", "p zero", "q"), node("Cast", "q", "f", to=1),
        node("If", "c", "y", then_branch=then, else_branch=otherwise),
    ]  # fmt: skip
    return model(nodes, [tensor("x", [None]), tensor("w", ["m"]), tensor("c", [], BOOL)], "y", {"zero": np.array([0])})


MODELS = {f.__name__.strip("_"): f() for f in (_grows, _nested, _scans, _branches)}
PLACES = {
    "grows": {"Loop 'l' body", "Loop 'l' body / If 'branch' then_branch", "Loop 'l' body / If 'branch' else_branch"},
    "nested": {"Loop 'outer' body", "Loop 'outer' body / Loop 'inner' body"}, "scans": {"Scan 's' body"},
    "branches": {"If 'y' then_branch", "If 'y' else_branch"},
}  # fmt: skip
SIZES: dict[str, dict[str, list[int]]] = {
    "grows": {"n": [0, 1, 4], "k": [0, 2, 9], "trip": [1, 5], "q": [2]}, "nested": {"n": [0, 3], "trip": [1, 4]},
    "scans": {"n": [1, 4], "t": [1, 3], "m": [2, 5]}, "branches": {"x.shape[0]": [0, 1, 5], "m": [0, 2]},
}  # fmt: skip


def calls(name: str, shapes: Shapes) -> list[dict[str, NDArray[Any]]]:
    sizes = [dict(zip(SIZES[name], p, strict=True)) for p in itertools.product(*SIZES[name].values())]
    feeds = [feed_of(shapes, s) | {n: np.array(v) for n, v in s.items() if n in shapes.inputs} for s in sizes]
    for k, f in enumerate(feeds):
        if name == "branches":
            f["c"], f["x"] = np.array(k % 2 == 0), np.arange(f["x"].size, dtype=np.float32)
    return feeds


def wrong(proto: onnx.ModelProto, shapes: Shapes, feeds: list[dict[str, NDArray[Any]]]) -> list[str]:
    e = exposed(proto, shapes)
    return [w for feed in feeds for w in contradictions(e, shapes, feed, run(e, feed))]


@pytest.mark.parametrize("name", MODELS)
def test_types_inside_are_those_of_a_run(name: str) -> None:
    shapes = anyshape.shapes(MODELS[name])
    assert set(shapes.bodies) == PLACES[name]
    assert not wrong(MODELS[name], shapes, calls(name, shapes))


def test_what_is_said() -> None:
    shapes = anyshape.shapes(MODELS["grows"])
    body, then = shapes.bodies["Loop 'l' body"], shapes.bodies["Loop 'l' body / If 'branch' then_branch"]
    assert str(body["mm"]) == "f32[Loop 'l' body: w.shape[0], q]" and str(body["i"]) == "i64[] = Loop 'l' body: i"
    assert str(then["t"]) == "f32[Loop 'l' body: acc.shape[0] + n, 3]" and "dead" not in body
    assert shapes.body_sizes["Loop 'l' body: acc.shape[0]"].cause == "iterations decide it"
    assert "NonZero 'p' in body of Loop 'l'" in shapes.body_sizes["Loop 'l' body: p.shape[1]"].cause
    assert not shapes.data.keys() & shapes.body_sizes.keys()
    branches = anyshape.shapes(MODELS["branches"]).bodies
    assert str(branches["If 'y' then_branch"]["t"]) == "f32[m + p.shape[1]]"
    assert str(branches["If 'y' else_branch"]["er"]) == "f32[m + x.shape[0]]"
    scanned = anyshape.shapes(MODELS["scans"])
    assert str(scanned.bodies["Scan 's' body"]["twice"]) == "f32[2*n]" and "t" not in str(
        scanned.bodies["Scan 's' body"]["product"]
    )


def altered(shapes: Shapes, place: str, name: str, **changes: Any) -> Shapes:
    values = {**shapes.bodies[place], name: replace(shapes.bodies[place][name], **changes)}
    return replace(shapes, bodies={**shapes.bodies, place: values})


@pytest.mark.parametrize(("name", "place", "value", "change"), [
    ("grows", "Loop 'l' body / If 'branch' then_branch", "t", lambda s: (s[0] + 1, 3)),
    ("grows", "Loop 'l' body", "acc", lambda s: (4, 3)), ("grows", "Loop 'l' body", "mm", lambda s: (s[0],)),
    ("scans", "Scan 's' body", "twice", lambda s: (s[0] + 1,)), ("branches", "If 'y' then_branch", "t", lambda s: (s[0] * 2,)),
    ("nested", "Loop 'outer' body / Loop 'inner' body", "e", lambda s: (3,)),
])  # fmt: skip
def test_a_wrong_type_is_seen(name: str, place: str, value: str, change: Any) -> None:
    shapes = anyshape.shapes(MODELS[name])
    old = shapes.bodies[place][value].type
    assert old is not None and old.shape is not None
    false = altered(shapes, place, value, type=TensorType(old.dtype, change(old.shape)))
    said = wrong(MODELS[name], false, calls(name, shapes))
    assert said and all(w.startswith(f"{place}") for w in said)


def test_a_wrong_element_is_seen() -> None:
    shapes = anyshape.shapes(MODELS["grows"])
    false = altered(shapes, "Loop 'l' body", "size", elements=(7,))
    assert any("size (elements)" in w for w in wrong(MODELS["grows"], false, calls("grows", shapes)))


def test_types_inside_of_models_of_the_suite() -> None:
    listed = 0
    for name, case in cases().items():
        if (
            case.model is None
            or name.startswith("real:")
            or not {n.op_type for n in case.model.graph.node} & {"If", "Loop", "Scan"}
        ):
            continue
        proto, feed = of_suite(name)
        shapes = anyshape.shapes(proto)
        assert shapes.bodies, name
        assert not wrong(proto, shapes, [feed]), name
        listed += sum(map(len, shapes.bodies.values()))
    assert listed > 700, "values inside of bodies of the suite are not listed any more"


def of_suite(name: str) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto, names = in_form(cases()[name], "constants")
        return proto, dict(zip(names, map(as_array, cases()[name].data_sets[0][0])))


def test_nodes_of_one_name_are_not_confused() -> None:
    """Two loops of one name with equal bodies are not listed, since a body has types of its own in each; of two names, both are."""

    def loop(name: str, of: str, to: str) -> onnx.NodeProto:
        body = graph([node("Neg", "a", "b"), node("Identity", "runs", "on")], [NUMBER, RUNS, tensor("a", None)], "on b")
        return node("Loop", f"trip - {of}", to, name, body=body)

    inputs = [tensor("x", ["n"]), tensor("z", [3, "m"]), tensor("trip", [], I64)]
    assert not anyshape.shapes(model([loop("l", "x", "y"), loop("l", "z", "w")], inputs, "y w")).bodies
    shapes = anyshape.shapes(model([loop("l", "x", "y"), loop("k", "z", "w")], inputs, "y w"))
    assert {p: str(v["b"]) for p, v in shapes.bodies.items()} == {
        "Loop 'l' body": "f32[n]",
        "Loop 'k' body": "f32[3, m]",
    }


def test_a_branch_that_fails_whenever_it_is_taken_is_not_listed() -> None:
    then = graph([node("Add", "x w", "t")], [], "t", "then")
    otherwise = graph([node("Neg", "x", "e")], [], "e", "else")
    nodes = [node("If", "c", "y", then_branch=then, else_branch=otherwise)]
    m = model(nodes, [tensor("x", [3]), tensor("c", [], BOOL)], "y", {"w": np.ones(4, np.float32)})
    assert set(anyshape.shapes(m).bodies) == {"If 'y' else_branch"}


@pytest.mark.parametrize("name", MODELS)
def test_bodies_are_annotated(name: str) -> None:
    """ONNX and onnxruntime accept what is written, and names are those of the main graph alone."""
    new, shapes = annotate(MODELS[name])
    onnx.checker.check_model(new)
    onnxruntime.InferenceSession(new.SerializeToString(), providers=["CPUExecutionProvider"])
    names = {d.dim_param for i in described(new.graph) for d in i.type.tensor_type.shape.dim} - {""}
    assert names and not any("body" in n for n in names)
    assert {i.name for i in described(new.graph)} >= {
        n for v in shapes.bodies.values() for n, t in v.items() if n in produced(new.graph)
    }


def test_what_is_written_into_a_body() -> None:
    new, _ = annotate(MODELS["grows"])
    types = {i.name: i.type.tensor_type for i in described(new.graph)}
    assert [(d.dim_value, d.dim_param) for d in types["mm"].shape.dim] == [(0, ""), (0, "q")]
    assert [(d.dim_value, d.dim_param) for d in types["t"].shape.dim] == [(0, ""), (3, "")]
    types["mm"].elem_type = onnx.TensorProto.INT32  # a wrong dtype is seen by onnxruntime
    with pytest.raises(Exception, match="Type"):
        onnxruntime.InferenceSession(new.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("outputs", "described_loops"), [("y", ["y"]), ("y w", [])])
def test_the_body_of_a_node_that_nothing_needs_is_left_as_it_is(outputs: str, described_loops: list[str]) -> None:
    """A node that nothing needs may have the name of another: types of that one's body are not written into it."""

    def loop(of: str, to: str) -> onnx.NodeProto:
        body = graph(
            [node("Neg", "a", "t"), node("Neg", "t", "b"), node("Identity", "runs", "on")],
            [NUMBER, RUNS, tensor("a", None)],
            "on b",
        )
        return node("Loop", f"trip - {of}", to, "l", body=body)

    inputs = [tensor("x", ["n"]), tensor("z", [3, "m"]), tensor("trip", [], I64)]
    new, _ = annotate(model([loop("x", "y"), loop("z", "w")], inputs, outputs))
    assert [n.output[0] for n in new.graph.node if n.attribute[0].g.value_info] == described_loops


def test_a_body_is_inferred_over_what_it_reads_of_the_nodes_around() -> None:
    """The function of a branch has its own nodes alone, however many there are before it, and knows constants that nodes around compute."""
    chain = [node("Exp", f"a{k}", f"a{k + 1}") for k in range(30)]
    both = {
        name: graph([node(op, "a30", "b"), node("Reshape", "b shape", "c"), node("Neg", "c", "d")], [], "d", name)
        for name, op in (("then_branch", "Relu"), ("else_branch", "Sin"))
    }
    nodes = [*chain, node("Concat", "minus four", "shape", axis=0), node("If", "c0", "y", "i", **both)]
    constants = {"minus": np.array([-1]), "four": np.array([4])}
    proto = model(nodes, [tensor("a0", ["n", 8]), tensor("c0", [], BOOL)], "y", constants)
    known = named_values(read_source(proto, None, False, []), as_compiled=True)
    branch = known.nodes[-1]
    for a in branch.attribute:
        inner = known.within(branch, a.name, a.g)
        assert inner is not None and len(inner.function.nodes) <= 3, inner
        assert [p.name for p in inner.function.params] == ["a30"]
        d = inner.values["d"]
        assert d is not None and str(d.type) == "f32[2*n, 4]"


def described(g: Any) -> list[Any]:
    inner = [i for n in g.node for a in n.attribute if a.HasField("g") for i in described(a.g)]
    return [*g.value_info, *g.output, *inner]


def produced(g: Any) -> set[str]:
    return {o for n in g.node for o in n.output}.union(
        *(produced(a.g) for n in g.node for a in n.attribute if a.HasField("g"))
    )


def test_the_text_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODELS["grows"].SerializeToString())
    said = str(anyshape.shapes(path))
    assert "Loop 'l' body (shapes.bodies[\"Loop 'l' body\"]):\n" in said and "(shapes.body_sizes):\n" in said
    assert main(["simplify", str(path), "--shapes-only", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["bodies"]["Loop 'l' body"]["mm"]["shape"] == ["Loop 'l' body: w.shape[0]", "q"]
    assert answer["body_sizes"]["Loop 'l' body: i"] == "iterations decide it"
