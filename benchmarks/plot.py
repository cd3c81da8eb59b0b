"""Figures of `models_bench --json` or `single_ops --json` as a picture: the best peer's time over ours, above 1 where we are ahead.

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
from matplotlib.axes import Axes

from benchmarks.models_bench import mean
from benchmarks.single_ops import groups

DARK, LIGHT = ("#2a7f62", "#b5402a"), ("#7fbfa8", "#e09a8a")
"""Ahead, behind."""


def bars(axes: Axes, labels: list[str], ratios: dict[str, list[float]], title: str) -> None:
    """Draws one or two bars a label on a logarithmic axis."""
    width = 0.8 / len(ratios)
    for k, (name, values) in enumerate(ratios.items()):
        shift = (k - (len(ratios) - 1) / 2) * width
        places = [place + shift for place in range(len(labels))]
        colours = [(LIGHT if k else DARK)[r < 1] for r in values]
        axes.bar(places, values, width=width, color=colours, label=name)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_yscale("log")
    axes.set_ylabel("best peer / anyshape")
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
    axes.set_title(title, loc="left")


def draw_models(results: list[dict[str, Any]], path: Path) -> None:
    """Draws a row of bars for each model."""
    figure, rows = plt.subplots(len(results), 1, figsize=(9, 2.4 * len(results)), squeeze=False, layout="constrained")
    for axes, result in zip(rows[:, 0], results, strict=True):
        labels = [f"{r['batch']}x{r['length']}" for r in result["rows"]]
        ratios = {kind: [r[f"{kind}_ratio"] for r in result["rows"]] for kind in ("steady", "shuffled")}
        means = f"steady {result['steady_mean']:.2f}, shuffled {result['shuffled_mean']:.2f}"
        bars(axes, labels, ratios, f"{result['model']}, {result['threads']} thread(s): geometric means {means}")
        axes.legend(fontsize="small")
    figure.savefig(path)


def draw_ops(results: list[dict[str, Any]], path: Path) -> None:
    """Draws two bars for each group of cases: its geometric mean, and its least."""
    ratios_of = {g: [r["ratio"] for r in rows] for g, rows in groups(results).items()}
    figure, axes = plt.subplots(1, 1, figsize=(10, 4), layout="constrained")
    ratios = {"mean": [mean(r) for r in ratios_of.values()], "least": [min(r) for r in ratios_of.values()]}
    bars(axes, list(ratios_of), ratios, "single ops, one thread")
    axes.legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    results = json.loads(Path(sys.argv[1]).read_text())
    (draw_models if "model" in results[0] else draw_ops)(results, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
