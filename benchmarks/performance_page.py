"""docs/performance.md from figures: python -m benchmarks.performance_page one.json all.json bounds.json

In: `models_bench --json` with one thread and with all, `bounds --json`. Out: the page; what was learned, in words, is in
`performance_notes.md` beside this file and is taken over as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.models_bench import US, mean

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
NOTES = Path(__file__).with_name("performance_notes.md")
HEAD = """\
# Performance

Made by `make performance` from the figures of one run: every engine in one process, in turns, the same threads, outputs compared.
Ratios are the best peer's time over ours: above 1 we are ahead. *Steady* is the least of several batches of equal calls, *shuffled* the
median in a stream of all shapes in random order.
"""


def models(results: list[dict[str, Any]]) -> str:
    peers = [n for n in results[0]["engines"] if n != US]
    lines = [
        f"## Models, {results[0]['threads']} thread{'s' * (results[0]['threads'] > 1)}, beside {' and '.join(peers)}\n",
        "| model | steady mean | least | shuffled mean | least | first call at a new shape, p95 | the best peer's | noise |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        theirs = min(r["first_call"][n]["p95"] for n in peers)
        lines.append(
            f"| {r['model']} | {r['steady_mean']:.2f} | {r['steady_least']:.2f} | {r['shuffled_mean']:.2f} | {r['shuffled_least']:.2f} "
            f"| {r['first_call'][US]['p95']:.2f} | {theirs:.2f} | {r['noise']:.2f} |"
        )
    means = [mean(r[f"{kind}_mean"] for r in results) for kind in ("steady", "shuffled")]
    lines.append(f"\nOver the models: steady {means[0]:.2f}, shuffled {means[1]:.2f}.")
    return "\n".join(lines)


def losses(results: list[dict[str, Any]]) -> str:
    """Every shape at which a peer is faster."""
    found = [
        f"- {r['model']} {row['batch']}x{row['length']}, {kind}, {r['threads']} thread(s): {row[f'{kind}_ratio']:.2f}"
        for r in results for row in r["rows"] for kind in ("steady", "shuffled") if row[f"{kind}_ratio"] < 1
    ]  # fmt: skip
    return "## Where a peer is faster\n\n" + ("\n".join(found) if found else "Nowhere in this run.")


def bounds(results: list[dict[str, Any]]) -> str:
    lines = [
        "## What bounds each model\n",
        "Time in kernels on one thread (`python -m benchmarks.bounds`), the part of it in kernels that are bound by arithmetic, and of\n"
        "these and of the others the part that the core's limits explain.\n",
        "| model | shape | us | products | reached | others | reached |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in results:
        for row in r["rows"]:
            parts = " | ".join(
                f"{row[k] / row['kernels']:.0%} | {row[f'{k}_reached']:.0%}" for k in ("products", "others")
            )
            lines.append(f"| {r['model']} | {row['batch']}x{row['length']} | {row['kernels'] * 1e6:,.1f} | {parts} |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    one, several, limits = (json.loads(Path(p).read_text()) for p in sys.argv[1:])
    parts = [HEAD, models(one), models(several), bounds(limits), losses([*one, *several]), NOTES.read_text()]
    PAGE.write_text("\n\n".join(p.strip() for p in parts) + "\n")
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
