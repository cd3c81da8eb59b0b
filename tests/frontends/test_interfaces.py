"""What tools and programs call: the standard ONNX backend and the onnxruntime look-alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anyshape
from anyshape import onnx_backend
from anyshape.errors import AnyshapeError, ArgumentError, ModelError, UnsupportedError
from anyshape.onnxruntime import InferenceSession
from tests.frontends.models import chain, model, node, tensor

pytestmark = pytest.mark.usefixtures("small_table")
X = np.array([[-9.0, 1.0, -2.5, 3.0]] * 2, np.float32)
EXPECTED = np.maximum(X + np.arange(4, dtype=np.float32), 0) + X


def test_backend_runs_models_at_any_shape():
    prepared = onnx_backend.prepare(chain())
    for n in (2, 1, 0, 7, 2):
        x = np.resize(X, (n, 4))
        (y,) = prepared.run([x])
        np.testing.assert_allclose(y, np.maximum(x + np.arange(4, dtype=np.float32), 0) + x)
    np.testing.assert_allclose(onnx_backend.run_model(chain(), {"x": X})[0], EXPECTED)
    np.testing.assert_allclose(onnx_backend.Backend.run_model(chain(), X)[0], EXPECTED)
    with pytest.raises(ArgumentError, match="1 input "):
        prepared.run([X, X])


def test_backend_runs_nodes():
    (y,) = onnx_backend.run_node(node("Relu", "x", "y"), [X])
    np.testing.assert_allclose(y, np.maximum(X, 0))
    (y,) = onnx_backend.run_node(node("Add", "x x", "y"), [X, X], opset_version=13)
    np.testing.assert_allclose(y, X + X)
    with pytest.raises(UnsupportedError, match="Det"):
        onnx_backend.run_node(node("Det", "x", "y"), [X])
    with pytest.raises(UnsupportedError, match="complex64"):
        onnx_backend.run_node(node("Relu", "x", "y"), [X.astype(np.complex64)])


def test_backend_says_what_it_can_do():
    assert onnx_backend.is_compatible(chain())
    assert not onnx_backend.is_compatible(model([node("Det", "x", "y")], [tensor("x", [2, 2])], "y"))
    assert onnx_backend.supports_device("CPU") and not onnx_backend.supports_device("CUDA:0")
    with pytest.raises(UnsupportedError, match="CUDA"):
        onnx_backend.prepare(chain(), "CUDA")
    with pytest.raises(ModelError):
        onnx_backend.is_compatible(b"not a model")
    assert issubclass(onnx_backend.Backend, onnx.backend.base.Backend)


def test_session_answers_as_onnxruntime_does(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = chain()
    proto.ir_version = 8
    proto.graph.output[0].CopyFrom(tensor("y", ["batch", 4]))
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for get in ("get_inputs", "get_outputs"):
        answers = [[(a.name, a.type, a.shape) for a in getattr(s, get)()] for s in (theirs, ours)]
        assert answers[0] == answers[1]
    for names in (None, ["y"]):
        np.testing.assert_allclose(ours.run(names, {"x": X})[0], theirs.run(names, {"x": X})[0])
    with pytest.raises(ArgumentError, match="there is no output z"):
        ours.run(["z"], {"x": X})


class Program:
    """Stands for torch.onnx.ONNXProgram, which has a ModelProto under this name and no method to serialise itself."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.model_proto = proto


@pytest.mark.parametrize("call", [
    lambda m: anyshape.compile(m).run({"x": X}), lambda m: InferenceSession(m).run(None, {"x": X}),
    lambda m: onnx_backend.prepare(m).run([X]),
])  # fmt: skip
def test_every_kind_of_model_is_taken(call: Callable[[Any], Sequence[Any]], tmp_path: Path) -> None:
    path, saved = tmp_path / "m.onnx", tmp_path / "m.anyshape"
    path.write_bytes(chain().SerializeToString())
    anyshape.compile(path).save(saved)
    for source in (
        path,
        str(path),
        path.read_bytes(),
        bytearray(path.read_bytes()),
        memoryview(path.read_bytes()),
        chain(),
        Program(chain()),
        saved,
        str(saved),
    ):
        np.testing.assert_allclose(call(source)[0], EXPECTED)
    for source in (Program(None), 5, None):
        with pytest.raises(AnyshapeError):
            call(source)


def test_a_saved_model_keeps_what_was_decided_when_it_was_compiled(tmp_path: Path) -> None:
    saved = tmp_path / "m.anyshape"
    anyshape.compile(chain()).save(saved)
    loaded = anyshape.compile(saved, threads=1, loop="python", fuse=True, kernels="native", repair=False)
    assert (loaded.options.threads, loaded.options.loop) == (1, "python") and "load" in loaded.report.phases
    np.testing.assert_allclose(loaded(X), EXPECTED)
    for options in (
        {"dims": {"batch": 2}},
        {"fuse": False},
        {"kernels": "interpret"},
        {"repair": True},
        {"verify": True},
    ):
        with pytest.raises(ArgumentError, match=f"pass {next(iter(options))} when you compile the ONNX model"):
            anyshape.compile(saved, **options)
    with pytest.raises(ArgumentError, match="profile the ONNX model"):
        anyshape.profile(saved, {"x": X})
    for source in (saved, saved.read_bytes()):
        with pytest.raises(ModelError, match="a saved model; pass the ONNX model"):
            anyshape.simplify(source)
    with pytest.raises(ModelError, match="a saved model"):
        anyshape.compile(saved.read_bytes())
