"""`anyshape explain MODEL --memory`: the plan of the memory of intermediate values, and the formula of what an exported model needs.

In: an executable and the arguments. Out: an answer; with `--plot` a picture of the bytes over each dim.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.memory_plot import Curve, png, svg
from anyshape.cli.picture import demand_plot, draw
from anyshape.dims import bounds
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.vm import Executable
from anyshape.vm.executable.memory_text import memory_text
from anyshape.vm.export import ArenaFormulas, arena_of, bytes_at, export_target
from anyshape.vm.export.interface import CallerDim

USUAL, FARTHEST, POINTS = 64, 1024, 65
"""Size of a dim that `--at` does not set while another one varies; last size of one without an upper bound; points of a curve."""


def memory_answer(exe: Executable, args: argparse.Namespace) -> Answer:
    """Describes the memory. Raises ArgumentError for a picture of what has no formula."""
    demand_plot(args.plot)
    at, target = arguments.numbers(args.at, "--at"), export_target(args.target)
    plan = memory_text(exe, at)
    try:
        formulas, why = arena_of(exe.function, target, exe.options), ""
    except UnsupportedError as e:
        formulas, why = None, str(e)
    lines = formulas.lines() if formulas is not None else [f"none: {why}"]
    if formulas is not None and formulas.grows:
        lines.append("a run may need more, by what elements decide")
    said = [plan, "", f"bytes beside inputs and outputs, exported for {target.name}:", *(f"  {line}" for line in lines)]
    if args.plot is not None:
        if formulas is None:
            raise ArgumentError(f"--plot draws the memory of an exported model: {why}")
        picture = (f"{args.model}: bytes beside inputs and outputs, exported for {target.name}", curves(formulas, at))
        draw(args.plot, lambda: svg(*picture), lambda path: png(path, *picture))
        said.append(f"plot in {args.plot}")
    data = {"memory": plan.splitlines(), "target": target.name, "exported": lines, "plot": args.plot}
    return Answer(text="\n".join(said), data=data)


def curves(formulas: ArenaFormulas, at: Mapping[str, int]) -> list[Curve]:
    """The bytes over each dim, the other dims being as `at` says or of a usual size."""
    dims = formulas.interface.dims
    fixed = {d.c_name: at.get(d.label, at.get(d.c_name, _within(USUAL, d))) for d in dims}
    return [_curve(formulas, d, fixed) for d in dims]


def _within(n: int, d: CallerDim) -> int:
    low, high = bounds(d.symbol)
    return max(low or 0, 1, n if high is None else min(n, high))


def _curve(formulas: ArenaFormulas, d: CallerDim, fixed: Mapping[str, int]) -> Curve:
    low, high = _within(1, d), bounds(d.symbol)[1]
    last = max(low, FARTHEST if high is None else high)
    sizes = sorted({low + (last - low) * k // (POINTS - 1) for k in range(POINTS)})
    fixed_sizes = ", ".join(f"{name} = {n}" for name, n in fixed.items() if name != d.c_name)
    return Curve(d.c_name, fixed_sizes, sizes, _bytes(formulas, d, sizes, fixed))


def _bytes(formulas: ArenaFormulas, d: CallerDim, sizes: Sequence[int], fixed: Mapping[str, int]) -> list[int]:
    return [bytes_at(formulas.sizes[0], {**fixed, d.c_name: n}) for n in sizes]
