"""Figures of `models_bench --json` as a picture: per model, onnxruntime's time over ours at every shape, above 1 where we are ahead.

python -m benchmarks.plot figures.json picture.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """One row of bars a model, on a logarithmic axis of ratios."""
    figure, rows = plt.subplots(len(results), 1, figsize=(9, 2.4 * len(results)), squeeze=False, layout="constrained")
    for axes, result in zip(rows[:, 0], results, strict=True):
        labels = [f"{r['batch']}x{r['length']}" for r in result["rows"]]
        ratios = [r["onnxruntime"] / r["anyshape"] for r in result["rows"]]
        axes.bar(labels, ratios, bottom=0, color=["#2a7f62" if r >= 1 else "#b5402a" for r in ratios])
        axes.axhline(1, color="black", linewidth=1)
        axes.set_yscale("log")
        axes.set_ylabel("onnxruntime / anyshape")
        axes.set_title(
            f"{result['model']}: geometric mean {result['mean']:.2f}, least {result['least']:.2f}", loc="left"
        )
        axes.tick_params(axis="x", rotation=60)
    figure.savefig(path)


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
