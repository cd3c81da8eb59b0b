"""The picture of `anyshape bench`: a bar for each row and engine."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshape.cli.bench import NodeGroup

COLOURS = {"anyshape": "#2a7f62", "onnxruntime": "#e0a030"}
_BAR, _LEFT, _WIDTH, _TOP = 11, 420, 980, 72


def svg(title: str, rows: Sequence[NodeGroup], subtitle: str) -> str:
    """Draws bars of microseconds, each with its number."""
    engines = list(rows[0].seconds) if rows else []
    longest = max((s for g in rows for s in g.seconds.values()), default=0) or 1.0
    step = _BAR * len(engines) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_TOP + step * len(rows) + 10}"',
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="20" font-size="14">{html.escape(title)}</text><text x="10" y="40">{html.escape(subtitle)}</text>',
    ]
    for k, n in enumerate(engines):
        x = _LEFT + 120 * k
        parts.append(
            f'<rect x="{x}" y="50" width="10" height="10" fill="{COLOURS[n]}"/><text x="{x + 14}" y="59">{n}, us</text>'
        )
    for k, g in enumerate(rows):
        y = _TOP + step * k
        name = g.name if len(g.name) < 68 else g.name[:67] + "…"
        parts.append(f'<text x="{_LEFT - 6}" y="{y + _BAR}" text-anchor="end">{html.escape(name)}</text>')
        for row, n in enumerate(engines):
            wide, top = (_WIDTH - _LEFT - 80) * g.seconds[n] / longest, y + _BAR * row
            parts.append(f'<rect x="{_LEFT}" y="{top}" width="{wide:.1f}" height="{_BAR - 1}" fill="{COLOURS[n]}"/>')
            parts.append(
                f'<text x="{_LEFT + wide + 4:.1f}" y="{top + 9}" font-size="9">{g.seconds[n] * 1e6:,.1f}</text>'
            )
    return "\n".join([*parts, "</svg>"])


def png(path: str, title: str, rows: Sequence[NodeGroup], subtitle: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 1.5 + 0.35 * len(rows)), layout="constrained")
    engines = list(rows[0].seconds) if rows else []
    for k, n in enumerate(engines):
        places = [row + 0.4 * k for row in range(len(rows))]
        axes.barh(places, [g.seconds[n] * 1e6 for g in rows], height=0.4, color=COLOURS[n], label=n)
    axes.set_yticks(range(len(rows)), [g.name[:68] for g in rows], fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("us")
    axes.set_title(f"{title}\n{subtitle}", loc="left", fontsize="small")
    if engines:
        axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
