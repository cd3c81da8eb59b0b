"""`anyshape diff`: a model that agrees with onnxruntime, one in which one op is wrong on purpose, one that is wrong only when fused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from anyshape.cli import diff as diff_module
from anyshape.cli.main import main
from anyshape.comparison import apart
from anyshape.frontends.onnx.node import OnnxNode
from anyshape.graph.infer import build
from anyshape.graph.value import Value
from tests.frontends.models import chain, model, node, tensor
from tests.frontends.small_ops import ADD, RELU, TABLE


@pytest.fixture
def path(tmp_path: Path) -> str:
    proto = chain()
    proto.ir_version = 8
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    return str(tmp_path / "m.onnx")


def wrong_relu(n: OnnxNode) -> Sequence[Value]:
    """relu(x) + relu(x)"""
    x = build(RELU, [n.input(0)], {}, n.source).outputs[0]
    return build(ADD, [x, x], {}, n.source).outputs


def test_what_agrees_is_said_to_agree(path: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["diff", path, "--shape", "x=3x4", "-o", str(tmp_path / "d")]) == 0
    out = capsys.readouterr().out
    assert "output y: " in out and "results agree" in out and not (tmp_path / "d").exists()


def test_the_wrong_node_is_named_and_repeated(path: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("anyshape.frontends.onnx.loading.all_mappings", lambda: {**TABLE, "Relu": {6: wrong_relu}})
    folder = tmp_path / "d"
    assert main(["diff", path, "--shape", "x=3x4", "-o", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "first differs at node 1, Relu 'act', in its result 'b'" in out and "the node alone" in out
    node_model = onnx.load(folder / "model.onnx")
    assert [n.op_type for n in node_model.graph.node] == ["Relu"]
    read = np.load(folder / "inputs/0.npy")
    np.testing.assert_array_equal(np.load(folder / "onnxruntime.npy"), np.maximum(read, 0))
    np.testing.assert_array_equal(np.load(folder / "anyshape.npy"), 2 * np.maximum(read, 0))
    # The op is right where nobody patched the table.
    run = subprocess.run([sys.executable, folder / "replay.py"], capture_output=True, text=True)
    assert run.stdout.endswith("\nequal\n"), run.stdout + run.stderr


def test_what_differs_only_in_company_is_bisected(path: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    """Wrong unless the result of the relu is an output: as a fusion would be."""
    real = diff_module.compiled

    class Wrong:
        def __init__(self, exe: Any, is_wrong: bool) -> None:
            self.exe, self.is_wrong, self.input_names, self.input_types = (
                exe,
                is_wrong,
                exe.input_names,
                exe.input_types,
            )
            self.output_names = exe.output_names

        def run(self, feed: Any) -> list[Any]:
            results: list[Any] = self.exe.run(feed)
            return [r + 1 if self.is_wrong and n == "y" else r for n, r in zip(self.output_names, results)]

    monkeypatch.setattr(diff_module, "compiled", lambda m, outputs, a: Wrong(real(m, outputs, a), "b" not in outputs))
    folder = tmp_path / "d"
    assert main(["diff", path, "--shape", "x=3x4", "-o", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "first differs at node 2, Add, in its result 'y'" in out and "since the node alone agrees" in out
    kept = onnx.load(folder / "model.onnx")
    assert [o.name for o in kept.graph.output] == ["y", "a"] and len(kept.graph.node) == 3


def test_what_neither_can_compare_is_one_message(tmp_path: Path, capsys: Any) -> None:
    proto = model([node("Relu", "x", "y", domain="nobody")], [tensor("x", [2])], "y", domains=["nobody"])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert main(["diff", str(tmp_path / "m.onnx")]) == 2
    assert "anyshape: model: not supported:" in capsys.readouterr().err
    assert main(["diff", str(tmp_path / "gone.onnx")]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [1.0, 2.2], 0.1),
        ([np.nan, np.inf], [np.nan, np.inf], 0.0),
        ([np.nan, 1.0], [0.0, 1.0], np.inf),
        ([1, 2], [1, 3], 1.0),
        ([1.0], [[1.0]], np.inf),
        ([1.0], [1], np.inf),
    ],
)
def test_apart(a: Any, b: Any, share: float) -> None:
    assert apart(np.array(a), np.array(b)) == pytest.approx(share)


def test_strings_are_compared_with_those_of_onnxruntime(tmp_path: Path, capsys: Any) -> None:
    kind = onnx.TensorProto.STRING
    proto = model([node("StringConcat", "a b", "y")], [tensor(n, ["n"], kind) for n in "ab"], "y", opset=20)
    proto.ir_version = 9
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    path = str(tmp_path / "m.onnx")
    assert main(["diff", path, "--input", 'a=["x", "yy"]']) == 0
    assert "output y: equal" in capsys.readouterr().out
    assert main(["bench", path, "--repeat", "1"]) == 0
    assert "times as fast as onnxruntime" in capsys.readouterr().out
    assert apart(np.array(["x"], object), np.array(["x"])) == 0
    assert apart(np.array(["x"], object), np.array(["y"])) == 1
    assert apart(np.array(["x"], object), np.array([1])) == np.inf
