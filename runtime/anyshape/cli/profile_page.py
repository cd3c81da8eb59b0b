"""A profile as one page of HTML that needs nothing else: kernels along a line of time, and what each of them is."""

from __future__ import annotations

import html
import zlib
from typing import TYPE_CHECKING

from anyshape.vm.profile import Profile, Sample

if TYPE_CHECKING:
    from anyshape.cli.profile import Limits

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
 body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }}
 .line {{ position: relative; height: 3em; background: #f2f2f2; margin: 1em 0; min-width: 100%; }}
 .line a {{ position: absolute; top: 0; bottom: 0; min-width: 1px; border-right: 1px solid #fff; overflow: hidden; }}
 .line a:hover, tr:target {{ outline: 2px solid #000; }}
 table {{ border-collapse: collapse; }} td, th {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }}
 td:nth-child(2), th:nth-child(2), td:last-child, th:last-child {{ text-align: left; }}
 .scroll {{ overflow-x: auto; }} i {{ display: inline-block; width: 1em; height: 1em; margin-right: .5em; vertical-align: -.1em; }}
 label {{ user-select: none; }}
</style>
<h1>{title}</h1>
<p>One call takes {call:,.1f} us. Its {count} kernels, one after another on one thread, take {kernels:,.1f} us;
nothing between them is drawn.</p>
<label>zoom <input type="range" min="100" max="4000" value="100"
 oninput="document.getElementById('line').style.width = this.value + '%'"></label>
<div class="scroll"><div class="line" id="line">{bars}</div></div>
<table><tr><th>#<th>kernel<th>us<th>share<th>GFLOP/s<th>GB/s<th>limit<th>from</tr>
{rows}
</table></html>
"""


def page(title: str, found: Profile, limits: Limits) -> str:
    """The whole file."""
    total = found.kernels or 1.0
    bars, rows, at = [], [], 0.0
    for k, s in enumerate(found.samples):
        bars.append(_bar(k, s, at, total))
        rows.append(_row(k, s, total, limits))
        at += s.seconds
    return _PAGE.format(
        title=html.escape(title), call=found.call * 1e6, count=len(rows), kernels=found.kernels * 1e6,
        bars="".join(bars), rows="\n".join(rows),
    )  # fmt: skip


def _colour(name: str) -> str:
    """The same for equal names, in any process."""
    return f"hsl({zlib.crc32(name.encode()) % 360} 60% 65%)"


def _bar(k: int, s: Sample, at: float, total: float) -> str:
    place = f"left:{at / total:.5%};width:{s.seconds / total:.5%};background:{_colour(s.name)}"
    return f'<a href="#k{k}" style="{place}" title="{html.escape(s.name)}: {s.seconds * 1e6:.1f} us"></a>'


def _row(k: int, s: Sample, total: float, limits: Limits) -> str:
    speed = (s.operations / s.seconds / 1e9, s.moved / s.seconds / 1e9) if s.seconds else (0.0, 0.0)
    limit = min(limits.fraction(s.seconds, s.operations, s.moved), 1.0)
    sources = ", ".join(dict.fromkeys(n.source or n.op.full_name for n, _ in s.nodes))
    return (
        f'<tr id="k{k}"><td>{k}<td><i style="background:{_colour(s.name)}"></i>{html.escape(s.name)}'
        f"<td>{s.seconds * 1e6:.1f}<td>{s.seconds / total:.1%}<td>{speed[0]:.1f}<td>{speed[1]:.1f}<td>{limit:.0%}"
        f"<td>{html.escape(sources)}</tr>"
    )
