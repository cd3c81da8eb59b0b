"""Ops of users as a package of operators of torch: written by `anyshape_gen --target torch`, installed from its wheel, used alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anyshape.vm.export import own_levels
from anyshape_gen.cli import main

ROOT = Path(__file__).parents[2]
SPEC = """
ops:
  swoosh:
    summary: x times its sigmoid, times a number.
    inputs: {x: "F[*d]"}
    params: {scale: {kind: float, default: 1.0}}
    outputs: {y: "F[*d]"}
    kernel: "y[*i] = x[*i] * scale / (1 + exp(-x[*i]))"
    reference: x * x.dtype.type(scale) / (1 + np.exp(-x))
    examples:
      - {x: {value: [0.0]}, y: {value: [0.0]}}
  widen:
    summary: Every element k times.
    inputs: {x: "F[*d]"}
    params: {k: {kind: int, default: 1, dyn: operand}}
    outputs: {y: "F[*d, k]"}
    shape: |
      assert k >= 0, "cannot repeat {k} times"
    kernel: "y[*i, j] = x[*i]"
    reference: np.repeat(x[..., None], k, -1)
    examples:
      - {x: {value: [1.0]}, k: 2, y: {value: [[1.0, 1.0]]}}
      - {x: [2], k: -1, error: cannot repeat}
  above:
    summary: The places of positive elements.
    inputs: {x: "F[n]"}
    outputs: {y: "i64[k]"}
    kernel: |
      k = count(x[i] > 0 for i in n)
      y[:] = [i for i in n if x[i] > 0]
    reference: np.flatnonzero(x > 0)
    examples:
      - {x: {value: [1.0, -1.0, 2.0]}, y: {value: [0, 2]}}
  longest:
    summary: The texts as they are.
    inputs: {x: "char[*d]"}
    outputs: {y: "char[*d]"}
    kernel: "y[*i] = x[*i]"
    reference: np.copy(x)
    examples:
      - {x: {value: [a]}, y: {value: [a]}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "my_ops").mkdir()
    (folder / "my_ops/mine.yaml").write_text(SPEC)
    words = ["--specs", str(folder / "my_ops"), "--package", "my_ops_torch", "--out", str(folder / "out")]
    levels = own_levels().levels[0].name
    calls = [
        "--kernels",
        levels,
        "--dtypes",
        "f32,f64",
        "--ranks",
        "1:2",
        "--param",
        "scale=1.0",
        "--param",
        "scale=0.5",
    ]
    assert main(["--target", "torch", *words, *calls]) == 0
    (wheel,) = (folder / "out").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(wheel)], check=True)
    return folder / "site"


def alone(site: Path, script: str, *words: str) -> str:
    """Runs a program where of this repository only the run time is; returns what it prints."""
    path = os.pathsep.join([str(site), str(ROOT / "runtime"), str(ROOT / "generated")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/pytorch" / script), *words],
        cwd=site,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_package_is_used_with_torch_and_the_run_time_alone(site: Path) -> None:
    said = alone(site, "package_use.py")
    assert said.split() == ["operators", "registrations", "compiling", "exporting", "same_operators"]


def test_compiled_kernels_need_no_compiler(site: Path) -> None:
    said = alone(site, "package_compiled.py")
    assert said.split() == ["values", "sizes_of_data", "gradients", "programs", "threads", "refusals"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++, which AOTInductor needs")
def test_aot_inductor_packs_a_model_with_the_operators(site: Path, tmp_path: Path) -> None:
    assert alone(site, "package_aoti.py", str(tmp_path)).split() == ["1", "2", "7", "50"]
