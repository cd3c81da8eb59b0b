"""`anyshape bench`: whole calls and nodes beside onnxruntime, whose fused and renamed nodes are found in the model again."""

from __future__ import annotations

import builtins
import json
import time
import xml.dom.minidom
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime")

from anyshape.cli import bench as benching
from anyshape.cli.bench import NodeGroup, alternating, differences, table, titled
from anyshape.cli.bench_plot import svg
from anyshape.cli.main import main
from anyshape.cli.onnxruntime_profile import covered, joined, least, profile_in_onnxruntime
from tests.frontends.models import model, node, tensor

RNG = np.random.default_rng(0)


def vision() -> onnx.ModelProto:
    """Convolutions, which onnxruntime fuses with what follows and computes on channels in blocks."""
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("Conv", "r v b", "d", pads=[1, 1, 1, 1]),
        node("Add", "d r", "s"), node("Relu", "s", "t"), node("GlobalAveragePool", "t", "g"), node("Flatten", "g", "y"),
    ]  # fmt: skip
    proto = model(nodes, [tensor("x", ["n", 16, "h", "w0"])], "y")
    weights = {"w": (32, 16, 3, 3), "v": (32, 32, 3, 3), "b": (32,)}
    proto.graph.initializer.extend(
        numpy_helper.from_array(RNG.standard_normal(s).astype(np.float32) * np.float32(0.1), n)
        for n, s in weights.items()
    )
    return proto


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 1e6)
    (tmp_path / "m.onnx").write_bytes(vision().SerializeToString())
    return str(tmp_path / "m.onnx")


def test_every_node_of_onnxruntime_is_found_in_the_model() -> None:
    proto = vision()
    rows = profile_in_onnxruntime(proto, {"x": np.ones((1, 16, 28, 28), np.float32)}, 3)
    places = sorted((sorted(p) for p, _ in rows if p), key=min)
    assert {k for p in places for k in p} >= set(range(6)) and all(p for p, _ in rows)
    assert [0, 1] in places and [2, 3, 4] in places and [5] in places and sum(s for _, s in rows) > 0


def test_what_covers_common_nodes_is_one_row() -> None:
    ours = [(frozenset({0, 1}), 1.0), (frozenset({2}), 2.0), (frozenset({3}), 3.0), (frozenset(), 0.5)]
    theirs = [(frozenset({0}), 10.0), (frozenset({1, 2}), 20.0), (frozenset({3}), 30.0)]
    assert sorted(joined(ours, theirs), key=lambda r: r[1]) == [
        (frozenset(), 0.5, 0.0), (frozenset({0, 1, 2}), 3.0, 30.0), (frozenset({3}), 3.0, 30.0),
    ]  # fmt: skip


def test_names_tell_what_results_do_not() -> None:
    """A constant belongs to nobody; a result in blocks is told by the node's name, and a change of layout belongs to what it follows."""
    graph = model([node("Constant", "", "k", value_float=1.0), node("Mul", "x k", "m"), node("Exp", "m", "e")], [], "e")
    optimised = model(
        [
            node("Mul", "x k", "blocked", name="m_nchwc"), node("Reorder", "blocked", "plain", name="r"),
            node("Exp", "plain", "other", name="#2#/fused"),
        ], [], "other",
    )  # fmt: skip
    assert covered(graph.graph, optimised.graph) == {
        "m_nchwc": frozenset({1}), "r": frozenset({1}), "#2#/fused": frozenset({2}),
    }  # fmt: skip


def test_of_calls_the_first_does_not_count_and_the_least_does() -> None:
    events = [{"cat": "Node", "name": "a_kernel_time", "dur": d} for d in (90, 7, 5, 6)]
    events += [
        {"cat": "Session", "name": "a_kernel_time", "dur": 1},
        {"cat": "Node", "name": "inner_kernel_time", "dur": 1},
    ]
    assert least(events, ["a", "b"], 4) == {"a": 5e-6}


def test_the_answer_has_all_nodes_and_both_times(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["bench", path, "--shape", "x=1x16x20x20", "--repeat", "2", "--threads", "1", "--plot", "p.svg", "--json"])
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["ratio"] == pytest.approx(answer["seconds"]["onnxruntime"] / answer["seconds"]["anyshape"])
    names = [n for g in answer["nodes"] for n in g["nodes"]]
    assert {"Conv 'c'", "Conv 'd'", "GlobalAveragePool 'g'"} <= set(names) and len(names) == len(set(names))
    ours = [g["seconds"]["anyshape"] for g in answer["nodes"]]
    assert ours == sorted(ours, reverse=True) and not answer["alone"] and not answer["differences"]
    xml.dom.minidom.parse("p.svg")
    assert main(["bench", path, "--repeat", "1"]) == 0
    said = capsys.readouterr().out
    assert "times as fast as onnxruntime" in said and "Conv+Relu 'c'" in said and "some sizes are chosen" in said


def test_without_onnxruntime_our_times_stand_alone(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *more: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert main(["bench", path, "--repeat", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (
        answer["seconds"].keys() == {"anyshape"}
        and answer["ratio"] is None
        and "pip install onnxruntime" in answer["alone"]
    )
    assert all(g["seconds"].keys() == {"anyshape"} and g["ratio"] is None for g in answer["nodes"])
    assert main(["bench", path, "--repeat", "1"]) == 0
    assert "pip install onnxruntime" in capsys.readouterr().out


def test_a_model_that_onnxruntime_cannot_run_is_measured_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.onnx"
    split = node("BiasSplitGelu", "x b", "y", domain="com.microsoft")
    proto = model([split], [tensor("x", [2, 3, 2560]), tensor("b", [2560])], "y", domains=["com.microsoft"])
    file.write_bytes(proto.SerializeToString())
    assert main(["bench", str(file), "--repeat", "1"]) == 0
    said = capsys.readouterr().out
    assert "onnxruntime fails on the model" in said and "BiasSplitGelu 'y'" in said


def test_results_that_differ_are_mentioned() -> None:
    a = np.array([1.0, 2.0], np.float32)
    assert differences(["y"], [a], [a * np.float32(1.00001)]) == []
    assert differences(["y"], [a], [a * 2]) == ["output y differs; see anyshape diff"]


def test_nodes_of_a_loop_belong_to_the_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = helper.make_graph(
        [node("Exp", "v", "e"), node("Tanh", "e", "t"), node("Identity", "c", "d")], "body",
        [tensor("i", [], TensorProto.INT64), tensor("c", [], TensorProto.BOOL), tensor("v", ["n"])],
        [tensor("d", [], TensorProto.BOOL), tensor("t", ["n"])],
    )  # fmt: skip
    proto = model(
        [node("Loop", "count - x", "l", "turns", body=body), node("Neg", "l", "y")],
        [tensor("x", ["n"])],
        "y",
        {"count": np.array(3)},
    )
    file = tmp_path / "loop.onnx"
    file.write_bytes(proto.SerializeToString())
    assert main(["bench", str(file), "--shape", "x=5000", "--repeat", "1", "--json"]) == 0
    (loop, *_) = answer = json.loads(capsys.readouterr().out)["nodes"]
    assert loop["nodes"][0] == "Loop 'turns'" and all(s > 0 for s in loop["seconds"].values()) and len(answer) <= 2


def test_calls_are_measured_alternating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benching, "WARM", 0.0)
    order: list[str] = []
    seconds = alternating({"a": lambda: order.append("a"), "b": lambda: (order.append("b"), time.sleep(1e-3))}, 4)
    assert "".join(order) == "aabbbbaaaabbbbaa" and seconds["b"] > 1e-3 > seconds["a"]


def test_a_table_shows_the_first_rows_and_sums_the_rest() -> None:
    rows = [NodeGroup(f"Conv '{k}'", (), {"anyshape": 1e-3, "onnxruntime": 2e-3}) for k in range(30)]
    lines = table(rows).splitlines()
    assert (
        len(lines) == 1 + benching.SHOWN + 1
        and lines[1].split()[-2:] == ["2.00", "3.3%"]
        and lines[-1].startswith("5 more")
    )
    assert titled([]) == "(between nodes)"
    text = svg("a<b", rows, "")
    assert xml.dom.minidom.parseString(text) and text.count("<rect") == 1 + 2 + 60
