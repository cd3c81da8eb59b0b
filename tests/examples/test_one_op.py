"""An op of eight lines (`examples/one_op`) from Python, C, WASI, Node, a browser, onnxruntime and PyTorch: the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from anyshape_testing.exports.c_programs import toolchain
from anyshape_testing.exports.javascript import command

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/one_op"
TOOLS = {
    "Python": True,
    "C": toolchain("x86-64-v2") is not None,
    "C in WASI": toolchain("wasm32") is not None,
    "Node": command("node") is not None,
    "a browser": command("browser") is not None,
    "onnxruntime": find_spec("onnxruntime") is not None and toolchain("x86-64-v2") is not None,
    "PyTorch": find_spec("torch") is not None,
}
"""Places where the op is called, and whether what calls it there is installed"""


def test_the_entry_has_eight_lines() -> None:
    (path,) = (EXAMPLE / "specs").glob("*.yaml")
    head, name, *entry = path.read_text().splitlines()
    assert (head, name, len(entry)) == ("ops:", "  unit_rows:", 8)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the example says of each shape."""
    path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    folder = tmp_path_factory.mktemp("one_op")
    command = [sys.executable, str(EXAMPLE / "run.py"), str(folder)]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if "the same in" in line]


@pytest.mark.parametrize("place", TOOLS)
def test_one_op_gives_the_same_everywhere(place: str, lines: list[str]) -> None:
    if not TOOLS[place]:
        pytest.skip(f"the op is not called in {place}: it is not installed here, or a tool that it needs")
    assert len(lines) == 6
    for line in lines:
        assert place in line.partition("the same in ")[2].split(", ")
