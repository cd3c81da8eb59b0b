"""`anyshape explain`: types of inputs and outputs, what each symbolic dim is, and what stayed dynamic, with its cause."""

from __future__ import annotations

from anyshape.cli.answer import Answer, report, signature
from anyshape.dims import Dim, bounds
from anyshape.graph.callee import callees_of
from anyshape.graph.function import Function
from anyshape.graph.required import REQUIRE
from anyshape.vm import Executable
from anyshape.vm.report.causes import Causes


def explanation(exe: Executable) -> str:
    """Describes a compiled model as text."""
    return explain(exe).text


def explain(exe: Executable) -> Answer:
    """Describes a compiled model."""
    lines = ["inputs:", *_typed(exe.input_names, exe.input_types)]
    lines += ["outputs:", *_typed(exe.output_names, exe.output_types)]
    symbols = exe.function.symbols()
    if symbols:
        lines += ["symbolic dims:", *(f"  {_symbol(s, exe.function)}" for s in symbols)]
    data_dependent = {s for t in exe.output_types for s in t.symbols()} - set(symbols)
    why: dict[str, str] = {}
    if data_dependent:
        causes = Causes(exe.function)
        why = {str(s): causes.of_dim(s) for s in sorted(data_dependent, key=str)}
        lines += ["data-dependent dims of the outputs:", *(f"  {s}: {cause}" for s, cause in why.items())]
    required = _required(exe.function)
    if required:
        lines += ["required of sizes, and not implied by what is known:", *(f"  {c}" for c in required)]
    dims = {str(s): {"least": bounds(s)[0] or 0, "most": bounds(s)[1], "axes": _axes(s, exe.function)} for s in symbols}
    data = {**signature(exe), "dims": dims, "data_dependent": why, "required": required, "report": report(exe)}
    return Answer(text="\n".join([*lines, str(exe.report)]), data=data)


def _required(f: Function) -> list[str]:
    """What the function, its regions and the functions that it calls require, as far as nothing else implies it."""
    functions = (f, *(c.function for c in callees_of([f]) if c.function is not None))
    checks = [c for g in functions for c in (*g.checks, *(c for n in g.all_nodes() for c in n.checks))]
    return list(dict.fromkeys(str(c) for c in checks if c.op == REQUIRE.name))


def _typed(names: tuple[str, ...], types: tuple[object, ...]) -> list[str]:
    width = max(map(len, names), default=0)
    return [f"  {n:<{width}}  {t}" for n, t in zip(names, types)]


def _axes(s: Dim, f: Function) -> list[str]:
    return [
        f"{p.name}[{k}]" for p in f.params for k, d in enumerate(p.type.shape or ()) if isinstance(d, Dim) and d is s
    ]


def _symbol(s: Dim, f: Function) -> str:
    low, high = bounds(s)
    axes = _axes(s, f)
    limits = f"{low or 0} to {high}" if high is not None else f"at least {low or 0}"
    return f"{s}: {', '.join(axes) or 'part of a dim'}; {limits}"
