"""netron opens what `simplify` writes: its parsers, run by node without a browser, read each file to its last tensor.

`make test-netron` installs netron in an environment of its own; elsewhere these tests are skipped, but for a package that is there."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import anyshape
from anyshape.errors import AnyshapeError
from anyshape.frontends.onnx.writing import write_model
from anyshape_testing.process.profile import LONG
from tests.frontends.models import call, chain, function, model, node, tensor
from tests.frontends.onnx_suite import cases

NETRON = importlib.util.find_spec("netron")
DRIVER = Path(__file__).with_name("netron_open.mjs")
STRIDE = 1 if LONG else 40
"""ONNX's own models are tried one in so many."""

pytestmark = [
    pytest.mark.skipif(NETRON is None, reason="netron is not installed (make test-netron)"),
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here"),
]


def opened(files: Sequence[Path]) -> list[dict[str, Any]]:
    """What netron says of files: nodes and elements of weights, or an error."""
    assert NETRON is not None and NETRON.origin is not None
    words = ["node", str(DRIVER), str(Path(NETRON.origin).parent)]
    done = subprocess.run(words, input=json.dumps([*map(str, files)]), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def branch(value: float) -> onnx.GraphProto:
    nodes = [node("Constant", "", "c", value_float=value), node("Mul", "x c", "z")]
    return helper.make_graph(nodes, "branch", [], [onnx.ValueInfoProto(name="z")])


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models of our own, one of each kind."""
    x = tensor("x", ["n", 4])
    for opset in range(7, 24):
        yield f"opset {opset}", model([node("Relu", "x", "h"), node("Add", "h x", "y")], [x], "y", opset=opset)
    yield "chain", chain()
    doubled = function("Twice", "x", [node("Add", "x x", "y")])
    yield "functions", model([call("Twice", "x", "y")], [x], "y", domains=["acme"], functions=[doubled])
    condition = tensor("c", [], onnx.TensorProto.BOOL)
    yield (
        "branches",
        model([node("If", "c", "y", then_branch=branch(2.0), else_branch=branch(3.0))], [x, condition], "y"),
    )
    sequence = [node("SequenceConstruct", "x x", "s"), node("ConcatFromSequence", "s", "y", axis=0)]
    yield "sequences", model([node("Relu", "x", "r"), *sequence], [x], "y")
    weights = {"w": np.ones((4, 300), np.float32), "scale": np.array(0.1, np.float32), "zero": np.array(3, np.uint8)}
    quantised = [node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q scale zero", "d")]
    yield "quantised", model([*quantised, node("MatMul", "d w", "y")], [x], "y", weights)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("simplified")
    files = {}
    for k, (name, m) in enumerate(models()):
        files[name] = folder / f"{k}.onnx"
        write_model(anyshape.simplify(m), files[name])
    return files


def test_models_of_every_kind(written: dict[str, Path]) -> None:
    for (name, path), answer in zip(written.items(), opened([*written.values()]), strict=True):
        assert "error" not in answer, (name, answer)
        graph = onnx.load(path).graph
        inner = sum(len(a.g.node) for n in graph.node for a in n.attribute)
        assert answer["nodes"] >= len(graph.node) + inner > 0, name


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    (quantised,) = (m for name, m in models() if name == "quantised")
    write_model(anyshape.simplify(quantised), path, most=0)
    assert len(list(tmp_path.iterdir())) == 2
    (answer,) = opened([path])
    assert "error" not in answer and answer["weights"] >= 4 * 300, answer
    next(p for p in tmp_path.iterdir() if p != path).unlink()
    (answer,) = opened([path])
    assert answer["weights"] < 4 * 300, "netron opens it without them"


def test_models_of_the_standard_tests(tmp_path: Path) -> None:
    files, refused = {}, 0
    suite = sorted(cases().items())[::STRIDE]
    for k, (name, case) in enumerate(suite):
        if getattr(case, "model", None) is None:
            continue
        try:
            simplified = anyshape.simplify(case.model)
        except AnyshapeError:
            refused += 1
            continue
        files[name] = tmp_path / f"{k}.onnx"
        write_model(simplified, files[name])
    assert len(files) > 4 * refused
    answers = dict(zip(files, opened([*files.values()]), strict=True))
    assert {name: a for name, a in answers.items() if "error" in a} == {}


def test_what_is_no_model_is_noticed(written: dict[str, Path], tmp_path: Path) -> None:
    content = written["chain"].read_bytes()
    for name, damaged in (("cut", content[: len(content) // 2]), ("empty", b""), ("text", b"no model")):
        (tmp_path / f"{name}.onnx").write_bytes(damaged)
    for answer in opened(sorted(tmp_path.iterdir())):
        assert "error" in answer
