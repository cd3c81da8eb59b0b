"""The picture of `anyshape explain --memory`: a curve of bytes for each dim."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

COLOUR = "#2a7f62"
_WIDE, _HIGH, _LEFT, _TOP, _BETWEEN = 560, 160, 90, 50, 80


@dataclass(frozen=True, slots=True)
class Curve:
    """The bytes for sizes of one dim; `fixed` are the sizes of the other dims, as text."""

    dim: str
    fixed: str
    sizes: Sequence[int]
    bytes: Sequence[int]


def svg(title: str, curves: Sequence[Curve]) -> str:
    """Draws a curve below the other, each with its ends in numbers."""
    height = _TOP + max(len(curves), 1) * (_HIGH + _BETWEEN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDE + 110}" height="{height}"',
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="20" font-size="14">{html.escape(title)}</text>',
    ]
    for k, c in enumerate(curves):
        parts += _panel(c, _TOP + k * (_HIGH + _BETWEEN) + 20)
    return "\n".join([*parts, "</svg>"])


def _panel(c: Curve, top: int) -> list[str]:
    most, first, last = max(*c.bytes, 1), c.sizes[0], c.sizes[-1]
    points = [
        (_LEFT + _WIDE * (n - first) / max(last - first, 1), top + _HIGH * (1 - b / most))
        for n, b in zip(c.sizes, c.bytes, strict=True)
    ]
    bottom = top + _HIGH
    return [
        f'<text x="{_LEFT}" y="{top - 8}">{html.escape(_heading(c))}</text>',
        f'<path d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDE}" fill="none" stroke="#888"/>',
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{COLOUR}" stroke-width="2"/>',
        f'<text x="{_LEFT - 6}" y="{top + 8}" text-anchor="end">{most:,}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{bottom + 15}">{first:,}</text>',
        f'<text x="{_LEFT + _WIDE}" y="{bottom + 15}" text-anchor="end">{last:,}</text>',
    ]


def _heading(c: Curve) -> str:
    return f"bytes over {c.dim}{f', where {c.fixed}' if c.fixed else ''}"


def png(path: str, title: str, curves: Sequence[Curve]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    rows = max(len(curves), 1)
    figure, panels = plt.subplots(rows, squeeze=False, figsize=(8, 1 + 2.5 * rows), layout="constrained")
    for axes, c in zip(panels[:, 0], curves):
        axes.plot(c.sizes, c.bytes, color=COLOUR)
        axes.set_ylim(bottom=0)
        axes.set_title(_heading(c), loc="left", fontsize="small")
    figure.suptitle(title, fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)
