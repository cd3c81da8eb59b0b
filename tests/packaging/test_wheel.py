"""The wheel: what is in it, and that it runs saved models where neither onnx nor a part of the generator is installed."""

import email
import os
import re
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

import anyshape

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "dates" / "dates.onnx"
EXAMPLE = """
import importlib.util, sys
for name in ("onnx", "yaml", "jinja2", "sympy", "hypothesis", "anyshape_gen", "anyshape_testing"):
    assert importlib.util.find_spec(name) is None, name
import numpy as np, anyshape
from anyshape import ops
x = anyshape.input("x", "f32[n, 4]")
run = anyshape.compile(anyshape.function([x], ops.softmax(x)))
for n in (1, 3, 0):
    assert run(np.ones((n, 4), np.float32)).shape == (n, 4)
saved = anyshape.load(sys.argv[2], rebuild=False)
assert saved(ids=np.ones((2, 9), np.int64))[0].shape == (2, 31)
assert anyshape.compile(sys.argv[2]).input_names == ("ids",)
assert anyshape.InferenceSession(sys.argv[2]).run(None, {"ids": np.ones((2, 9), np.int64)})[0].shape == (2, 31)
for needs_onnx in (
    lambda: anyshape.compile(sys.argv[1]), lambda: anyshape.shapes(sys.argv[1]), lambda: anyshape.simplify(sys.argv[1]),
    lambda: anyshape.InferenceSession(sys.argv[1]), lambda: anyshape.onnx_backend,
):
    try:
        needs_onnx()
    except anyshape.AnyshapeError as e:
        assert "pip install 'anyshape[onnx]'" in str(e), e
    else:
        raise AssertionError("onnx was not needed")
assert issubclass(anyshape.errors.MissingPackageError, ModuleNotFoundError)
print("ran from", anyshape.__file__)
"""
PYTHONS = [sys.executable, *filter(None, os.environ.get("ANYSHAPE_PYTHONS", "").split(os.pathsep))]
"""This interpreter and others, as ANYSHAPE_PYTHONS=/usr/bin/python3.13:/opt/python3.14/bin/python3 names them"""
RUN_TIME = {"numpy", "llvmlite", "ml_dtypes"}
EXTRAS = {"editor", "onnx", "gen", "torch", "test", "bench", "cross", "serve", "ray", "docs", "lint"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    sources = (ROOT, ROOT / "generator", ROOT / "testing")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder)]
    subprocess.run([*build, *map(str, sources)], check=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def test_each_wheel_holds_its_packages(wheels):
    held = {
        name: {n.split("/")[0] for n in zipfile.ZipFile(path).namelist() if ".dist-info" not in n}
        for name, path in wheels.items()
    }
    assert held == {
        "anyshape": {"anyshape", "anyshape_ops"},
        "anyshape_gen": {"anyshape_gen"},
        "anyshape_testing": {"anyshape_testing"},
    }
    generator = zipfile.ZipFile(wheels["anyshape_gen"]).namelist()
    assert "anyshape_gen/specs/rows.yaml" in generator
    assert any(n.startswith("anyshape_gen/templates/") for n in generator)
    assert "anyshape_testing/matrix/forms.yaml" in zipfile.ZipFile(wheels["anyshape_testing"]).namelist()


def test_the_run_time_needs_three_packages(wheels):
    archive = zipfile.ZipFile(wheels["anyshape"])
    (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
    required = metadata.get_all("Requires-Dist")
    assert {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in required if "extra ==" not in line} == RUN_TIME
    assert set(metadata.get_all("Provides-Extra")) == EXTRAS
    assert metadata["Author"] == "anyshape developers" and metadata["Description-Content-Type"] == "text/markdown"


@pytest.mark.parametrize("interpreter", PYTHONS)
def test_the_wheel_runs_saved_models_without_onnx_and_the_generator(wheels, interpreter, tmp_path):
    """An environment of its own, with the run-time dependencies alone."""
    subprocess.run([interpreter, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = ["install", "--quiet", "--disable-pip-version-check", str(wheels["anyshape"])]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    saved = tmp_path / "dates.anyshape"
    anyshape.compile(MODEL).save(saved)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    done = run([python, "-c", EXAMPLE, str(MODEL), str(saved)])
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "env") in done.stdout
    command = [python, "-m", "anyshape.cli.main"]
    done = run([*command, "run", str(saved), "--shape", "ids=2x9"])
    assert done.returncode == 0, done.stderr
    for words in (["run", str(MODEL), "--shape", "ids=2x9"], ["explain", str(MODEL)], ["diff", str(MODEL)]):
        done = run([*command, *words])
        assert done.returncode == 2 and "pip install 'anyshape[onnx]'" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
