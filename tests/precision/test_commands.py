"""`--precision` of the commands that compile a model, and `anyshape diff --beside exact`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.cli.main import main
from anyshape.vm.compiling.kernels import target_called
from tests.frontends.models import model, node, tensor


@pytest.fixture
def path(tmp_path: Path) -> str:
    w = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    proto = model(
        [node("Relu", "x", "a"), node("MatMul", "a w", "y", "dense")], [tensor("x", ["n", 64])], "y", {"w": w}
    )
    proto.ir_version = 8
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    return str(tmp_path / "m.onnx")


@pytest.mark.parametrize("command", ["run", "compile", "explain"])
def test_commands_say_what_is_narrowed(command: str, path: str, capsys: Any) -> None:
    shape = ["--shape", "x=3x64"] if command == "run" else []
    assert main([command, path, *shape, "--precision", "bf16", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    if command != "run":
        assert said["report"]["precision"] == "bf16" and said["report"]["narrowed"] == ["matmul (MatMul 'dense')"]


def test_text_names_the_ops(path: str, capsys: Any) -> None:
    assert main(["explain", path, "--precision", "bf16"]) == 0
    assert "precision bf16: 1 node multiplies numbers rounded to bf16, with sums in f32" in capsys.readouterr().out
    assert main(["explain", path]) == 0
    assert "precision" not in capsys.readouterr().out


def test_a_saved_file_is_run_as_it_is(path: str, tmp_path: Path, capsys: Any) -> None:
    saved = str(tmp_path / "m.anyshape")
    assert main(["compile", path, "--precision", "bf16", "-o", saved]) == 0
    capsys.readouterr()
    assert main(["explain", saved]) == 0
    assert "precision bf16: 1 node" in capsys.readouterr().out
    assert main(["explain", saved, "--precision", "exact"]) == 2
    assert "pass precision when you compile the ONNX model" in capsys.readouterr().err


@pytest.mark.parametrize("target, in_f16", [("fp16", True), ("avx2", False)])
def test_it_is_said_in_what_chunks_add_up(target: Any, in_f16: bool, path: str, tmp_path: Path) -> None:
    """Before a file is saved, and once it is loaded."""
    compiled = anyshape.compile(path, precision="f16-chunked", target=target)
    compiled.save(tmp_path / "m.anyshape")
    loaded = anyshape.load(tmp_path / "m.anyshape")
    for exe in (compiled, loaded):
        in_chunks = target_called(target).halves
        assert in_chunks == in_f16 or not target_called("fp16").halves
        sums = "of 64 products in f16, and of these in f32" if in_chunks else "in f32"
        assert f"1 node multiplies numbers rounded to f16, with sums {sums}" in str(exe.report)


def test_another_precision_is_refused(path: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", path, "--precision", "half"])
    assert end.value.code == 2 and "'exact', 'bf16'" in capsys.readouterr().err.replace(
        "exact, bf16", "'exact', 'bf16'"
    )


def test_diff_compares_with_the_exact_model(path: str, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "d"
    beside = ["diff", path, "--shape", "x=3x64", "--precision", "bf16", "--beside", "exact", "-o", str(folder)]
    assert main([*beside, "--tolerance", "0.02"]) == 0
    assert "results agree to within 0.02" in capsys.readouterr().out and not folder.exists()
    assert main([*beside, "--tolerance", "1e-5"]) == 1
    out = capsys.readouterr().out
    assert "first differs at node 1, MatMul 'dense', in its result 'y'" in out and "\n  exact " in out
    run = subprocess.run([sys.executable, folder / "replay.py"], capture_output=True, text=True)
    assert run.stdout.endswith("\nnot equal\n"), run.stdout + run.stderr
    assert main(["diff", path, "--shape", "x=3x64", "--beside", "exact", "--tolerance", "0", "-o", str(folder)]) == 0
