"""`anyshape explain`: types of inputs and outputs, what each symbolic dim is, and what stayed dynamic, with its cause."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, report, signature
from anyshape.cli.picture import write_drawing
from anyshape.dims import Dim, anonymous_names, bounds, free_symbols, substitute, symbol
from anyshape.graph.callee import callees_of
from anyshape.graph.function import Function
from anyshape.graph.origins import Names
from anyshape.graph.required import REQUIRE
from anyshape.graph.text import size_names
from anyshape.outline import Outline
from anyshape.vm import Executable
from anyshape.vm.report.causes import Causes


def explanation(exe: Executable) -> Outline:
    """Describes a compiled model as text."""
    return Outline(explain(exe).text)


def explain(exe: Executable) -> Answer:
    """Describes a compiled model."""
    types, f = signature(exe), exe.function
    lines = [line for side in ("inputs", "outputs") for line in (f"{side}:", *_typed(types[side]))]
    shown = size_names(f)
    symbols = f.symbols()
    names = {s: shown.get(s, s).name for t in (*f.params, *f.results) for s in t.type.symbols()}
    if symbols:
        lines += ["symbolic dims:", *(f"  {_symbol(names[s], s, f)}" for s in symbols)]
    data_dependent = {names[s]: s for v in f.results for s in v.type.symbols() if s not in symbols}
    why: dict[str, str] = {}
    if data_dependent:
        causes = Causes(f)
        why = {name: causes.of_dim(s) for name, s in sorted(data_dependent.items())}
        lines += ["data-dependent dims of the outputs:", *(f"  {s}: {cause}" for s, cause in why.items())]
    required = _required(f)
    if required:
        lines += ["required of sizes, and not implied by what is known:", *(f"  {c}" for c in required)]
    dims = {names[s]: {"least": bounds(s)[0] or 0, "most": bounds(s)[1], "axes": _axes(s, f)} for s in symbols}
    data = {**types, "dims": dims, "data_dependent": why, "required": required, "report": report(exe)}
    return Answer(text="\n".join([*lines, str(exe.report)]), data=data)


def explain_page(exe: Executable, args: argparse.Namespace, answer: Answer) -> Answer:
    """Writes the page of `--html`, and adds a line that says so. Raises AnyshapeError for a file that cannot be written."""
    page = exe.explain_html(arguments.numbers(args.at, "--at"), title=args.model)
    write_drawing(args.html, page)
    return replace(answer, text=f"{answer.text}\npage in {args.html}", data={**answer.data, "html": args.html})


def _required(f: Function) -> list[str]:
    """What the function, its regions and the functions that it calls require, as far as nothing else implies it: sizes in the words of
    their texts, others as messages call them."""
    said: dict[str, None] = {}
    for g in (f, *(c.function for c in callees_of([f]) if c.function is not None)):
        shown, names = size_names(g), Names(g)
        for c in (*g.checks, *(c for n in g.all_nodes() for c in n.checks)):
            if c.op == REQUIRE.name:
                spelled = {s: shown[s] if s in shown else symbol(names[s], *bounds(s)) for s in free_symbols(c.cond)}
                with anonymous_names():
                    said[c.spelled(substitute(c.cond, spelled))] = None
    return list(said)


def _typed(types: Mapping[str, str]) -> list[str]:
    width = max(map(len, types), default=0)
    return [f"  {n:<{width}}  {t}" for n, t in types.items()]


def _axes(s: Dim, f: Function) -> list[str]:
    return [
        f"{p.name}[{k}]" for p in f.params for k, d in enumerate(p.type.shape or ()) if isinstance(d, Dim) and d is s
    ]


def _symbol(name: str, s: Dim, f: Function) -> str:
    low, high = bounds(s)
    axes = _axes(s, f)
    limits = f"{low or 0} to {high}" if high is not None else f"at least {low or 0}"
    return f"{name}: {', '.join(axes) or 'part of a dim'}; {limits}"
