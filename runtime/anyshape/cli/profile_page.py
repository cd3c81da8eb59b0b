"""Renders a profile as one self-contained page of HTML: a timeline of kernels, and tables of what each of them is."""

from __future__ import annotations

import html
import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyshape.cli import profile as texts
from anyshape.vm.executable.profile import Profile
from anyshape.vm.run.recorder import Sample
from anyshape.wording import counted

if TYPE_CHECKING:
    from anyshape.cli.profile import Limits, ProfileRow

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
 body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #222; background: #fff; max-width: 110em; }}
 h1 {{ font-size: 1.4em; overflow-wrap: anywhere; }} h2 {{ font-size: 1.1em; margin-top: 2em; }} .note {{ color: #666; max-width: 60em; }}
 .scroll {{ overflow-x: auto; border: 1px solid #ccc; padding-bottom: .3em; }} .line {{ position: relative; height: 5em; min-width: 100%; }}
 .line a {{ position: absolute; top: 0; height: 3.2em; box-sizing: border-box; overflow: hidden; white-space: nowrap; color: #222;
   text-decoration: none; font-size: 12px; line-height: 3.2em; padding-left: 1px; border-right: 1px solid #fff; }}
 .line a:hover, .line a:focus {{ outline: 2px solid #000; z-index: 1; }} tr:target td {{ background: #ffef9f; }}
 .line span {{ position: absolute; top: 3.4em; padding-left: 3px; border-left: 1px solid #999; font-size: 12px; color: #555; }}
 table {{ border-collapse: collapse; }} td, th {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }}
 th {{ background: #f6f6f6; }} .name, .from {{ text-align: left; }} .from {{ max-width: 50em; overflow-wrap: anywhere; color: #555; }}
 i {{ display: inline-block; width: 1em; height: 1em; margin-right: .5em; vertical-align: -.1em; }}
 .part {{ background: linear-gradient(to right, #bcd7f5 var(--p), transparent var(--p)); }}
</style>
<h1>{title}</h1>
<p>One call takes <b>{call:,.1f} us</b>. {count} on one thread, one after another: {kernels:,.1f} us;
what is between them is not drawn. Limits of one core: {limits}.</p>
<label>zoom <input type="range" min="0" max="100" value="0"
 oninput="document.getElementById('line').style.width = 100 * Math.pow(2, this.value / 12) + '%'"></label>
<div class="scroll"><div class="line" id="line">{bars}{ticks}</div></div>
<p class="note">A bar is a kernel; equal colours are equal kernels. A click leads to its row in the last table.</p>
<h2>By kernel</h2>
<table><tr><th class="name">kernel<th class="name">result<th>calls<th>us<th>share<th>GFLOP/s<th>GB/s<th>limit</tr>
{kernel_rows}
</table>
<h2>By op of the model</h2>
<table><tr><th class="name">op<th>calls<th>us<th>share<th>GFLOP/s<th>GB/s<th>limit</tr>
{op_rows}
</table>
<p class="note">{note}</p>
<h2>In the order of the call</h2>
<table><tr><th>#<th class="name">kernel<th class="name">result<th>us<th>share<th>GFLOP/s<th>GB/s<th>limit<th class="from">from</tr>
{rows}
</table></html>
"""


def page(title: str, profile: Profile, limits: Limits) -> str:
    """Renders the page."""
    total = profile.kernels or 1.0
    bars, rows, at = [], [], 0.0
    for k, s in enumerate(profile.samples):
        bars.append(_bar(k, s, at, total))
        rows.append(_row(k, s, total, limits))
        at += s.seconds
    return _PAGE.format(
        title=html.escape(title), call=profile.call * 1e6, count=counted(len(rows), "kernel"), kernels=profile.kernels * 1e6,
        limits=limits, bars="".join(bars), ticks="".join(_ticks(profile.kernels)),
        kernel_rows=_grouped(texts.by_kernel(profile.samples, limits), total),
        op_rows=_grouped(texts.by_op(profile.samples, limits), total),
        note=html.escape(texts.NOTE), rows="\n".join(rows),
    )  # fmt: skip


def _colour(name: str) -> str:
    """Picks a colour by name: equal names have equal colours, in any process."""
    return f"hsl({zlib.crc32(name.encode()) % 360} 60% 75%)"


def _bar(k: int, s: Sample, at: float, total: float) -> str:
    place = f"left:{at / total:.5%};width:{s.seconds / total:.5%};background:{_colour(s.name)}"
    name = html.escape(s.name)
    title = f"{name}, {texts.spell_sizes(s.result)}: {s.seconds * 1e6:.1f} us, {s.seconds / total:.1%}"
    return f'<a href="#k{k}" style="{place}" title="{title}">{name}</a>'


def _ticks(seconds: float) -> list[str]:
    """Draws about ten ticks, at round numbers of microseconds."""
    whole = seconds * 1e6
    if whole <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(whole / 10))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if whole / step <= 12)
    return [
        f'<span style="left:{k * step / whole:.5%}">{k * step:,.10g} us</span>' for k in range(int(whole / step) + 1)
    ]


def _figures(r: ProfileRow, total: float) -> str:
    flops, rate = texts.speeds(r.seconds, r.operations, r.moved)
    parts = (
        f'<td class="part" style="--p:{part:.1%}">{part:{form}}'
        for part, form in ((r.seconds / total, ".1%"), (r.limit, ".0%"))
    )
    return f"<td>{r.seconds * 1e6:,.1f}{next(parts)}<td>{flops:.1f}<td>{rate:.1f}{next(parts)}"


def _grouped(rows: Sequence[ProfileRow], total: float) -> str:
    lines = []
    for r in rows:
        colour = f'<i style="background:{_colour(r.name)}"></i>' if r.result else ""
        result = f'<td class="name">{r.result}' if r.result else ""
        figures = _figures(r, total)
        lines.append(f'<tr><td class="name">{colour}{html.escape(r.name)}{result}<td>{r.count}{figures}</tr>')
    return "\n".join(lines)


def _row(k: int, s: Sample, total: float, limits: Limits) -> str:
    (r,) = texts.by_kernel([s], limits)
    sources = ", ".join(dict.fromkeys(n.source or n.op.full_name for n, _ in s.nodes))
    return (
        f'<tr id="k{k}"><td>{k}<td class="name"><i style="background:{_colour(s.name)}"></i>{html.escape(s.name)}'
        f'<td class="name">{r.result}{_figures(r, total)}'
        f'<td class="from">{html.escape(sources)}</tr>'
    )
