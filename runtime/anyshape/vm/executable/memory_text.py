"""Text of memory plans, for people: where values lie from which step to which, with symbolic sizes, and the total as a formula.

In: an executable. Out: text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anyshape.dims import Dim, Size, evaluate, free_symbols, symbol
from anyshape.errors import ArgumentError
from anyshape.graph.text import is_anonymous
from anyshape.outline import Outline
from anyshape.vm.compiling.kernels import THREADS
from anyshape.vm.program.memory_layout import Tenant
from anyshape.vm.program.memory_plan import SCRATCH, Area, Held, MemoryPlan
from anyshape.wording import counted

if TYPE_CHECKING:
    from anyshape.vm.executable.executable import Executable


def memory_text(executable: Executable, dims: Mapping[str, int] | None = None) -> Outline:
    """The plans of the programs compiled so far; with `dims`, by name of symbol, in numbers too. Raises ArgumentError for another name."""
    names = [s.name for s in executable.function.symbols() if not is_anonymous(s)]
    planned = [size for p in executable.plan.programs if p.memory for size in p.memory.sizes()]
    known = {*names, *(s.name for size in planned for s in free_symbols(size))}
    if unknown := sorted(set(dims or {}) - known):
        raise ArgumentError(f"no input has a dim {', '.join(unknown)}; there are {', '.join(names) or 'none'}")
    texts = []
    for p in executable.plan.programs:
        if p.memory is None:
            texts.append(f"memory of {p.name}: not kept in a saved model")
        else:
            texts.append("\n".join([f"memory of {p.name}:", *_lines(p.memory, dims or {})]))
    return Outline("\n\n".join(texts))


def _lines(plan: MemoryPlan, dims: Mapping[str, int]) -> list[str]:
    lines = [line for area in plan.areas for line in _area_lines(area, plan.steps, dims)]
    for i in plan.inside:
        inner = [_held_line(h, dims) for h in i.held] + (_lines(i.plan, dims) if i.plan.areas or i.plan.inside else [])
        lines += [f"  {i.title}:", *(f"  {line}" for line in inner)] if inner else []
    return lines or ["  none but the results"]


def _held_line(h: Held, dims: Mapping[str, int]) -> str:
    regions = f"region{'s' if len(h.regions) > 1 else ''} {' and '.join(map(str, h.regions))}"
    if h.collected:
        return f"  {regions}: {h.what}, {_spelled(h.bytes, dims)} bytes more in each iteration"
    return f"  {regions}: {h.what}, read in one and written in the other, {_spelled(h.bytes, dims)} bytes each"


def _area_lines(area: Area, steps: Sequence[str], dims: Mapping[str, int]) -> list[str]:
    """Sizes have letters, so that offsets can be read."""
    letters = _letters(area.tenants)
    named = [letters[t.bytes] if isinstance(t.bytes, Dim) else t.bytes for t in area.tenants]
    values = {letter: _value(size, dims) for size, letter in letters.items()}
    numbers = {letter: n for letter, n in values.items() if n is not None}
    offsets, total = area.places(named)
    scratches = area.contents.count(SCRATCH)
    kept = len(area.contents) - scratches
    contents = f"{counted(kept, 'value')} and {counted(scratches, 'scratch', 'scratches')}"
    lines = [f"  region {area.region}: {contents} in {_spelled(total, numbers)} bytes, where"]
    lines += [f"    {letter} = {_spelled(size, dims)}" for size, letter in letters.items()]
    for k in sorted(range(len(named)), key=lambda k: (area.tenants[k].start, area.tenants[k].end)):
        t = area.tenants[k]
        span = f"{t.start}" if t.start == t.end else f"{t.start}-{t.end}"
        by = f" of {steps[t.start]}" if t.start < len(steps) else ""
        lines.append(f"    {span:>9}  {named[k]} at {_spelled(offsets[k], numbers)}: {area.contents[k]}{by}")
    return lines


def _letters(tenants: Sequence[Tenant]) -> dict[Dim, Dim]:
    """A symbol for each symbolic size: A, B, … Z, A1, …"""
    letters: dict[Dim, Dim] = {}
    for t in tenants:
        if isinstance(t.bytes, Dim) and t.bytes not in letters:
            round_, letter = divmod(len(letters), 26)
            letters[t.bytes] = symbol(chr(ord("A") + letter) + (str(round_) if round_ else ""))
    return letters


def _value(e: Size, dims: Mapping[str, int]) -> int | None:
    """The number, where `dims` has all symbols."""
    if isinstance(e, int):
        return e
    dims = {THREADS.name: 1, **dims}
    symbols = free_symbols(e)
    return evaluate(e, {s: dims[s.name] for s in symbols}) if all(s.name in dims for s in symbols) else None


def _spelled(e: Size, dims: Mapping[str, int] | Mapping[Dim, int]) -> str:
    value = _value(e, {s if isinstance(s, str) else s.name: n for s, n in dims.items()})
    return str(e) if value is None or isinstance(e, int) else f"{e} = {value:,}"
