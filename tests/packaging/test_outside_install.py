"""A package of ops outside this repository as its author and its users install it: from a wheel of anyshape, into fresh environments.

Long, since pip fetches the dependencies twice: with ANYSHAPE_LONG=1 only. What it does without pip is in test_op_authors.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anyshape_testing.process.profile import LONG
from tests.packaging.broken_laws import SPEC

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / part) for part in (".", "generator", "testing")]
pytestmark = pytest.mark.skipif(not LONG, reason="long: ANYSHAPE_LONG=1")

MODEL = """
import onnx
from onnx import helper as h
x = h.make_tensor_value_info("x", 1, ["n", 3])
y = h.make_tensor_value_info("y", 1, ["n", 3])
graph = h.make_graph([h.make_node("Turn", ["x"], ["y"], domain="com.example")], "g", [x], [y])
opsets = [h.make_opsetid("", 17), h.make_opsetid("com.example", 1)]
onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=9), "turn.onnx")
"""
USE = """
import sys, numpy as np, anyshape, my_ops.api
from anyshape import ops
x = anyshape.input("x", "f32[n]")
for turn in (my_ops.api.turn, ops.turn):
    assert (anyshape.compile(anyshape.function([x], turn(x)))(np.ones(3, np.float32)) == -1).all()
print(my_ops.__file__)
"""


class Environment:
    """A virtual environment, and commands run in it."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self.bin = folder / "bin"

    def run(self, *words: str, where: Path, **more: str) -> str:
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(where), "ANYSHAPE_EXAMPLES": "5", **more}
        done = subprocess.run(
            [self.bin / words[0], *words[1:]], cwd=where, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, *what: str, where: Path) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what, where=where)


def test_author_and_user(tmp_path: Path) -> None:
    author, user = Environment(tmp_path / "author"), Environment(tmp_path / "user")
    author.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), *SOURCES, where=tmp_path)
    (wheel,) = tmp_path.glob("anyshape-*.whl")
    beside = ("--find-links", str(tmp_path))  # where the extras are, as on an index
    project = tmp_path / "project"
    (project / "specs").mkdir(parents=True)
    (project / "specs/mine.yaml").write_text(
        SPEC.replace("    rewrites:\n", '    onnx: {"com.example:Turn": {1: "x"}}\n    rewrites:\n')
    )
    author.install(*beside, f"{wheel}[gen,test]", where=tmp_path)
    author.run("anyshape-gen", "--specs", "specs", "--package", "my_ops", "--out", ".", where=project)
    author.install("--editable", ".", where=project)
    assert "passed" in author.run("python", "-m", "pytest", where=project)
    assert "all laws hold" in author.run(
        "python", "-m", "anyshape_testing.quick", "turn", "--package", "my_ops", where=project
    )
    used(author, project, tmp_path)
    author.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), ".", where=project)
    (mine,) = tmp_path.glob("my_ops-*.whl")
    user.install(f"{wheel}[onnx]", str(mine), where=tmp_path)
    assert str(tmp_path / "user") in used(user, tmp_path, tmp_path)
    # The tests are in the installed package too: a user of the ops can run them.
    user.install(*beside, f"{wheel}[test]", where=tmp_path)
    assert "passed" in user.run("python", "-m", "pytest", "--pyargs", "my_ops.tests", where=tmp_path)


def used(environment: Environment, where: Path, folder: Path) -> str:
    """Uses an installed package from Python and in a model; returns what `import my_ops` printed."""
    environment.run("python", "-c", MODEL, where=folder)
    said = environment.run("anyshape", "run", str(folder / "turn.onnx"), "--input", "x=[[1, 2, 3]]", where=where)
    assert "[[-1. -2. -3.]]" in " ".join(said.split()).replace("[ ", "["), said
    return environment.run("python", "-c", USE, where=where)
