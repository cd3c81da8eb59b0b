"""`anyshape quantise`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anyshape
from anyshape.cli.main import main
from tests.quantise.quantised_models import apart_from, drawn, in_onnxruntime, one_product, operators


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 1e6)
    (tmp_path / "m.onnx").write_bytes(one_product(64, 96).SerializeToString())
    np.savez(tmp_path / "in.npz", x=drawn(5, 64))
    np.savez(tmp_path / "wrong.npz", z=drawn(5, 64))
    np.save(tmp_path / "one.npy", drawn(5, 64))
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no archive")
    return "m.onnx"


def test_writes_a_model_and_a_table(path: str, capsys: Any) -> None:
    assert main(["quantise", path, "--inputs", "in.npz", "--group", "64"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["weight", "node", "shape", "bytes", "now", "error", "of", "output", "as"]
    assert lines[1].split()[:4] == ["w", "MatMul", "'dense'", "64x96"] and lines[1].endswith("MatMulNBits")
    assert lines[2] == "1 weight in int4 in groups of 64, with zero points, rtn, 0 kept"
    assert lines[3].startswith("tensors: 24.6 kB before, ") and lines[4].startswith("output y: relative RMS error 0.")
    assert lines[5:] == ["written to m.int4.onnx"]
    narrow, feed = onnx.load("m.int4.onnx"), {"x": drawn(5, 64)}
    assert apart_from(in_onnxruntime(narrow, feed)[0], anyshape.compile("m.int4.onnx").run(feed)[0]) < 1e-5


def test_json_has_what_the_table_has(path: str, capsys: Any) -> None:
    words = [
        "quantise",
        path,
        "--weights",
        "int8",
        "--symmetric",
        "--method",
        "mse",
        "--shape",
        "x=3x64",
        "--out",
        "o.onnx",
        "--json",
    ]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["weights"], data["group"], data["symmetric"], data["method"], data["written"]) == (
        "int8",
        32,
        True,
        "mse",
        "o.onnx",
    )
    (w,) = data["narrowed"]
    assert (w["weight"], w["shape"], w["before"]) == ("w", [64, 96], 64 * 96 * 4) and 0 < w["output_error"] < 0.02
    assert w["after"] == 64 * 96 + 64 * 96 // 32 * 4 and 0 < data["outputs"]["y"] < 0.02
    assert data["after"] < data["before"] and operators(onnx.load("o.onnx")) == ["MatMulNBits"]


def test_errors_on_inputs_are_those_of_the_results(path: str) -> None:
    feed = {"x": drawn(5, 64)}
    narrow, report = anyshape.quantise(path, inputs=feed)
    before, after = (anyshape.compile(p).run(feed)[0].astype(np.float64) for p in (path, narrow))
    error = np.sqrt(np.square(before - after).sum() / np.square(before).sum())
    assert report.narrowed[0].output_error == pytest.approx(error, rel=1e-4)
    assert report.outputs is not None and report.outputs["y"] == pytest.approx(error, rel=1e-4)
    assert anyshape.quantise(path)[1].outputs is None


def test_nothing_is_written_where_nothing_becomes_narrow(path: str, capsys: Any) -> None:
    assert main(["quantise", path, "--keep", "dense", "--out", "o.onnx"]) == 1
    out = capsys.readouterr().out
    assert "kept: w of MatMul 'dense', 24.6 kB: it matches the pattern 'dense'" in out and "nothing is written" in out
    assert not Path("o.onnx").exists()
    assert main(["quantise", path, "--least", "1MB", "--out", "o.onnx"]) == 1 and not Path("o.onnx").exists()


REFUSED = [
    (["--group", "33"], "group must be one of 16, 32, 64, 128, 256"), (["--group", "0"], "of at least 1"),
    (["--weights", "int2"], "invalid choice"), (["--least", "much"], "number of bytes"), (["--keep", "nope"], "'nope' matches no weight"),
    (["--keep=--"], "--keep has no value"), (["--out", "m.onnx"], "is the model itself"), (["--out", "gone/o.onnx"], "no directory gone"),
    (["--out", "."], "cannot be written"), (["--inputs", "gone.npz"], "--inputs must be an archive"), (["--inputs", "bad.npz"], "bad.npz"),
    (["--inputs", "one.npy"], "it is one array; pass it as --input NAME=FILE"), (["--inputs", "wrong.npz"], "no input 'z'"),
    (["--shape", "x=3x65"], "65"), (["--input", "x=[1, 2"], "NAME=file.npy"), (["--dim", "rows=²"], "NAME=1:512"),
    (["--weights", "f8e4m3", "--group", "32"], "leave group"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    path: str, capsys: Any, words: list[str], message: str
) -> None:
    before = set(Path().iterdir()), Path(path).read_bytes()
    try:
        code: Any = main(["quantise", path, *words])
    except SystemExit as e:
        code = e.code
    assert code == 2 and message in capsys.readouterr().err
    assert (set(Path().iterdir()), Path(path).read_bytes()) == before


@pytest.mark.parametrize("model", ["gone.onnx", "in.npz", "m.anyshape", "."])
def test_a_file_that_is_no_model_is_named(path: str, capsys: Any, model: str) -> None:
    anyshape.compile(path).save("m.anyshape")
    assert main(["quantise", model, "--out", "o.onnx", "--json"]) == 2
    said = capsys.readouterr()
    assert model in said.err and json.loads(said.out)["message"] and not Path("o.onnx").exists()


def test_pieces_of_a_model_end_in_errors(path: str) -> None:
    """Truncated and damaged files: an AnyshapeError, or a model."""
    data, random = Path(path).read_bytes(), np.random.default_rng(0)
    for k in range(60):
        damaged = bytearray(data)
        damaged[int(random.integers(len(data) if k % 2 else 200))] ^= int(random.integers(1, 256))
        try:
            anyshape.quantise(bytes(damaged[: len(data) if k % 3 else int(random.integers(len(data)))]), least=0)
        except anyshape.AnyshapeError as e:
            assert str(e)
