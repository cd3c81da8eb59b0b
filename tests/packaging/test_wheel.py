"""The wheel: what is in it, and that it runs a model where no part of the generator is installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = """
import importlib.util, sys
for name in ("yaml", "jinja2", "sympy", "hypothesis", "anyshape_gen", "anyshape_testing"):
    assert importlib.util.find_spec(name) is None, name
import numpy as np, anyshape
from anyshape import ops
x = anyshape.input("x", "f32[n, 4]")
run = anyshape.compile(anyshape.function([x], ops.softmax(x)))
for n in (1, 3, 0):
    assert run(np.ones((n, 4), np.float32)).shape == (n, 4)
assert anyshape.compile({model!r})(ids=np.ones((2, 9), np.int64))[0].shape == (2, 31)
print("ran from", anyshape.__file__)
"""


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


def test_the_wheel_runs_without_anything_of_the_generator(wheels, tmp_path):
    """An environment of its own, with the run-time dependencies alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = ["install", "--quiet", "--disable-pip-version-check", str(wheels["anyshape"])]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    code = EXAMPLE.replace("{model!r}", repr(str(ROOT / "examples" / "dates" / "dates.onnx")))
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "env") in done.stdout
