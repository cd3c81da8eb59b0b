"""A package of ops as an earlier generator wrote it, which this run time has to run.

`python -m tests.generator.frozen_package` writes the one of the present interface. The file has the version of the interface in
its name. Code that does not run any more is the reason to raise `INTERFACE`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from anyshape.package_versions import INTERFACE

FOLDER = Path(__file__).parent / "data"
NAME = "frozen_ops"
LEFT_OUT = ("tests", "strategies")
"""What the run time does not import"""
SPEC = """define: |
  def squashed(v): return 1 / (1 + exp(-v))
ops:
  frozen_gate:
    summary: The first half of each row times the sigmoid of the second, and more.
    inputs: {x: "F[*d, 2 * k]", bias: "F[*u] = 0"}
    params:
      slope: {kind: float, default: 1.0}
      mode: {kind: [plain, halved], default: plain}
    outputs: {y: "F[*d, k]"}
    dtypes: {F: [f32, f64]}
    shape: |
      assert k > 0, "rows of nothing: {d} and {k}"
      assert broadcasts(u, [*d, k]), "bias {u} does not broadcast"
    kernel: |
      if mode == "plain": y[*i, j] = x[*i, j] * squashed(x[*i, k + j] * F(slope)) + bias[*i, j]
      else:               y[*i, j] = x[*i, j] / 2
    reference: x[..., :x.shape[-1] // 2] / x.dtype.type(2)
    onnx: {"frozen:Gate": {1: "x, bias, slope=attr(1.0)"}}
    examples:
      - {x: [2, 4], y: [2, 2]}
      - {x: [2, 4], mode: halved, y: [2, 2]}
      - {x: [2, 0], error: rows of nothing}
      - {x: [2, 4], bias: [3], error: does not broadcast}
  frozen_window:
    summary: Part of a vector.
    inputs: {x: "T[n]"}
    params: {start: {kind: int, default: 0, dyn: operand}, length: {kind: int, dyn: operand}}
    outputs: {y: "T[length]"}
    shape: |
      assert 0 <= start and 0 <= length and start + length <= n, "{length} from {start} on of {n}"
    kernel: "y[i] = x[start + i]"
    reference: x[start:start + length]
    examples:
      - {x: [4], start: 1, length: 2, y: [2]}
      - {x: [4], start: 3, length: 2, error: " on of "}
  frozen_positives:
    summary: The positive elements.
    inputs: {x: "f32[n]"}
    outputs: {y: "f32[k]"}
    kernel: |
      k    = count(x[i] > 0 for i in n)
      y[:] = [x[i] for i in n if x[i] > 0]
    reference: x[x > 0]
    examples:
      - {x: {value: [1, -2, 3]}, y: {value: [1, 3]}}
  frozen_sum:
    summary: The running sum.
    inputs: {x: "F[n]"}
    outputs: {y: "F[n]"}
    dtypes: {F: [f32, f64]}
    kernel: "y[i] = x[i] + (y[i - 1] if i > 0 else 0)"
    reference: np.cumsum(x)
    examples:
      - {x: {value: [1, 2]}, y: {value: [1, 3]}}
"""


def path_of(interface: int) -> Path:
    return FOLDER / f"package_of_interface_{interface}.json"


def main() -> None:
    """Writes the package of the present generator."""
    from anyshape_gen.cli import main as generate

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "specs").mkdir()
        (folder / "specs/ops.yaml").write_text(SPEC)
        words = ["--specs", str(folder / "specs"), "--package", NAME, "--out", str(folder)]
        assert generate(words) == 0
        package = folder / NAME
        paths = [p for p in sorted(package.rglob("*.*")) if not set(LEFT_OUT) & set(p.relative_to(package).parts)]
        files = {p.relative_to(package).as_posix(): p.read_text() for p in paths if p.is_file() and p.suffix != ".pyc"}
    path_of(INTERFACE).write_text(json.dumps(files, indent=1) + "\n")


if __name__ == "__main__":
    main()
