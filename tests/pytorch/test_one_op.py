"""An op of eight lines (`examples/one_op`) from Python, C, onnxruntime, PyTorch and, where there are tools, WebAssembly: same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from anyshape_testing.exports.c_programs import toolchain

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/one_op"


def test_the_entry_has_eight_lines() -> None:
    (path,) = (EXAMPLE / "specs").glob("*.yaml")
    head, name, *entry = path.read_text().splitlines()
    assert (head, name, len(entry)) == ("ops:", "  unit_rows:", 8)


def test_one_op_gives_the_same_everywhere(tmp_path: Path) -> None:
    path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(EXAMPLE / "run.py"), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    tools = {"C": "x86-64-v2", "WebAssembly": "wasm32", "onnxruntime": "x86-64-v2"}
    places = ", ".join(["Python", *(name for name, target in tools.items() if toolchain(target)), "PyTorch"])
    lines = [line for line in done.stdout.splitlines() if "the same in" in line]
    assert len(lines) == 6 and all(line.endswith(f"the same in {places}") for line in lines), done.stdout
