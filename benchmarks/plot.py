"""Figures of `models_bench --json` as a picture: per model, the best peer's time over ours at every shape, above 1 where we are ahead.

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
        places = range(len(labels))
        for shift, kind, colours in (
            (-0.2, "steady", ("#2a7f62", "#b5402a")),
            (0.2, "shuffled", ("#7fbfa8", "#e09a8a")),
        ):
            ratios = [r[f"{kind}_ratio"] for r in result["rows"]]
            axes.bar([k + shift for k in places], ratios, width=0.4, color=[colours[r < 1] for r in ratios], label=kind)
        axes.axhline(1, color="black", linewidth=1)
        axes.set_yscale("log")
        axes.set_ylabel("best peer / anyshape")
        axes.set_xticks(list(places), labels, rotation=60)
        axes.legend(fontsize="small")
        means = f"steady {result['steady_mean']:.2f}, shuffled {result['shuffled_mean']:.2f}"
        axes.set_title(f"{result['model']}, {result['threads']} thread(s): geometric means {means}", loc="left")
    figure.savefig(path)


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
