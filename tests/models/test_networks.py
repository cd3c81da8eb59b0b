"""The table of `benchmarks.networks`: its networks give what onnxruntime does, and lines that are no layers are refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnxruntime

import anyshape
from anyshape.comparison import apart
from benchmarks.networks import errors, lines, network, networks
from benchmarks.op_audit import TOLERANCE, difference
from benchmarks.quantised import Quantised

LAYERS: dict[str, Any] = {
    "in": ["b", 3, "h", "w"],
    "at": {"b": [1], "h": [8], "w": [8]},
    "layers": ["y = relu(conv(x, 4))"],
}


@pytest.mark.parametrize("name", networks())
def test_results_are_onnxruntimes(name: str) -> None:
    import onnxruntime

    case = networks()[name]
    model, arguments = case.model().SerializeToString(), case.arrays(case.at[0])
    (expected,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, arguments)
    (got,) = anyshape.compile(model, threads=1).run(arguments)
    assert np.isfinite(expected).all() and apart(expected, got) <= TOLERANCE["float32"]
    assert apart(expected, got + np.float32(1e-3) * np.abs(expected).max()) > TOLERANCE["float32"]


def test_errors_are_at_most_twice_onnxruntimes() -> None:
    """Errors are larger with all algorithms, which have to be asked for."""
    measured = [errors(networks()["densenet"], growth) for growth in (None, 200)]
    ratios = [e["anyshape"] / e["onnxruntime"] for e in measured]
    assert ratios[0] < 2 < ratios[1]


def test_a_quantised_model_is_a_case() -> None:
    small = Quantised("small", "mlp", "QDQ", ({"batch": 1, "length": 1},))
    assert "QuantizeLinear" in {n.op_type for n in small.model().graph.node}
    arguments = small.arrays(small.at[0])
    (result,) = anyshape.compile(small.model()).run(arguments)
    session = onnxruntime.InferenceSession(small.model().SerializeToString(), providers=["CPUExecutionProvider"])
    assert difference(small, [result], session.run(small.outputs, arguments)) == ""
    assert difference(small, [result], [result * 1.01]) == ""
    assert difference(small, [result], [result * 2.0]) != ""
    assert difference(networks()["densenet"], [result], [result * 1.01]) != ""


def test_layers_are_nodes_with_constants() -> None:
    case = network("one", LAYERS)
    assert [n.op_type for n in case.nodes] == ["Conv", "Relu"] and case.outputs == ["v1"]
    assert {n: v.dims for n, v in case.constants.items()} == {"c0": ("4", "3", "3", "3"), "c1": ("4",)}


def test_lines_are_repeated_with_values() -> None:
    inner = {"for": {"k": [1, 2]}, "do": ["y$c = f($c, ${k + c}, $k)"]}
    assert [*lines([{"for": {"c": [3, 4]}, "do": ["a$c", inner]}, "z"])] == [
        "a3", "y3 = f(3, 4, 1)", "y3 = f(3, 5, 2)", "a4", "y4 = f(4, 5, 1)", "y4 = f(4, 6, 2)", "z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line, error", [("relu(x)", ValueError), ("y = none(x)", NameError), ("y = conv(z, 3)", NameError)]
)
def test_what_is_no_layer_is_refused(line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        network("bad", {**LAYERS, "layers": [line]})


def test_a_network_that_is_not_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.networks", "nonet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "no network nonet" in done.stderr
