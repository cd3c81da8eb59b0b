"""The file of an explanation: styles, data and script in one page that loads nothing.

In: a function and the options of its compile. Out: HTML. Its Content-Security-Policy permits the script and the styles that are in it, by
their digests, and nothing else: what a model's names hold is never run, even if a browser took it for HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from anyshape.errors import ArgumentError
from anyshape.graph.function import Function
from anyshape.types import ListType
from anyshape.vm.compiling.folding import folding
from anyshape.vm.compiling.kernels import target_called
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.plans import Compiler, Described
from anyshape.vm.page.description import description, origins
from anyshape.vm.page.dims import DimOrigin
from anyshape.vm.page.layers import COLUMNS
from anyshape.vm.report.summary import Report
from anyshape.wording import counted

USUAL = {DimOrigin.INPUT: 64, DimOrigin.DATA: 16, DimOrigin.MACHINE: 1}
"""Sizes at which the sliders begin, as far as bounds permit."""
EXACT = 1 << 53
"""The first integer beside which JavaScript has not every other one."""
_FOLDER = Path(__file__).parent

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; {policy}">
<title>{title}</title>
<style>{style}</style></head>
<body>
<header><h1>{title}</h1><p>{summary}</p></header>
<noscript><p>This page is drawn by a script, which is switched off here; <code>anyshape explain MODEL</code> prints the text.</p></noscript>
<main>
<section aria-labelledby="h-sizes"><h2 id="h-sizes">Dims</h2>
<ul class="legend" id="legend"></ul>
<p class="soft">All numbers on this page are for the sizes chosen here. A click on a dim, anywhere, marks where else it is.</p>
<div id="sliders"></div><div class="refused" id="refused" role="status"></div></section>
<section aria-labelledby="h-graph"><h2 id="h-graph">Kernels</h2>
<form class="bar" id="find"><select id="graphs" aria-label="function or body"></select>
<input type="search" id="word" placeholder="find an op, a name, a type" aria-label="find"><button>next</button>
<span class="soft" id="hits"></span>
<button type="button" id="smaller" aria-label="smaller">−</button><button type="button" id="larger" aria-label="larger">+</button>
<label><input type="checkbox" id="every"> views and shape arithmetic too</label>
<span class="soft">arrow keys go along the graph</span></form>
<div class="split"><div class="frame" id="frame"><div class="board" id="board"></div></div>
<div class="detail" id="detail" aria-live="polite"></div></div></section>
<section aria-labelledby="h-memory"><h2 id="h-memory">Memory over time</h2>
<div id="memory"><select id="plans" aria-label="program or body"></select><p id="total"></p>
<p class="soft"><i class="block"></i>value <i class="scratch"></i>scratch of a kernel <i class="result"></i>result;
the line is what is in use</p>
<div class="chart"><div class="axis" id="axis"></div><div id="picture"></div>
<span class="soft">step</span><input type="range" id="cursor" min="0" value="0" aria-label="step"></div>
<div id="alive" aria-live="polite"></div><ul id="held"></ul></div></section>
<section aria-labelledby="h-dynamic"><h2 id="h-dynamic">What stayed dynamic, and why</h2><ul id="dynamic"></ul>{notes}</section>
<section aria-labelledby="h-symbols"><h2 id="h-symbols">Where dims come from</h2><div class="scroll"><table>
<thead><tr><th>dim<th>is<th>from<th>bounds<th class="right">places</thead><tbody id="symbols"></tbody></table></div></section>
</main>
<div class="dimbar" id="dimbar" role="status" hidden></div>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body></html>
"""


def explanation_page(
    f: Function,
    options: Options,
    notes: Sequence[str] = (),
    *,
    title: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """Renders the page. `notes`: what the importer took for granted; `sizes`: where the sliders begin, by name of a dim. Raises
    ArgumentError for a name that there is not, and for a size beyond the bounds of its dim."""
    described = _described(f, options)
    data = {**description(described), "columns": COLUMNS, "origins": origins()}
    _choose(data["symbols"], sizes or {})
    style, script = _text("page.css"), f"{_text('sizes.mjs')}\n{_text('page.mjs')}"
    return _PAGE.format(
        policy=f"style-src {_digest(style)}; script-src {_digest(script)}",
        title=escape(title if title is not None else f.name),
        summary=escape(_summary(described, data)),
        style=style,
        notes=f"<ul>{''.join(f'<li>{escape(n)}</li>' for n in notes)}</ul>" if notes else "",
        data=as_data(data),
        script=script,
    )


def as_data(data: Any) -> str:
    """JSON as the text of a script element: no `<` in it, and integers as text where a double does not hold them."""
    text = json.dumps(_exact(data), separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _exact(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {k: _exact(v) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [_exact(v) for v in data]
    return str(data) if isinstance(data, int) and not -EXACT < data < EXACT else data


def _described(f: Function, options: Options) -> Described:
    """Compiles a function once more, as far as text of kernels; interpreted kernels are none."""
    plain = replace(options, recorder=None, max_memory=None, dump=frozenset(), executor="vm")
    target = target_called(plain.target) if plain.kernels == "native" else None
    compiler = Compiler(plain, Report(), threading.RLock(), None, folding(plain), target=target)
    return compiler.described(f)


def _choose(symbols: Sequence[dict[str, Any]], sizes: Mapping[str, int]) -> None:
    """Adds the size at which each slider begins."""
    if unknown := sorted(set(sizes) - {s["name"] for s in symbols}):
        names = ", ".join(s["name"] for s in symbols) or "none"
        raise ArgumentError(f"no input has a dim {', '.join(unknown)}; there are {names}")
    for s in symbols:
        low, high = s["low"] or 0, s["high"]
        size = sizes.get(s["name"], max(low, USUAL[s["origin"]] if high is None else min(USUAL[s["origin"]], high)))
        if size < low or (high is not None and size > high):
            raise ArgumentError(f"{s['name']} is from {low} to {'any size' if high is None else high}, got {size}")
        s["value"] = size


def _summary(described: Described, data: Mapping[str, Any]) -> str:
    f = described.function
    steps = data["graphs"][0]["steps"]
    kernels = sum(s["kind"] == "kernel" for s in steps)
    lists = sum(isinstance(v.type, ListType) for v in (*f.params, *f.results))
    parts = [
        f"{counted(sum(1 for _ in f.all_nodes()), 'node')} in {counted(len(steps), 'step')}",
        counted(kernels, "kernel") if described.parts else "compiled in a call, which tells the ranks",
        counted(len(f.params), "input"),
        counted(len(f.results), "result"),
    ]
    return ", ".join([*parts, *([f"{counted(lists, 'list')} among them"] if lists else [])])


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
