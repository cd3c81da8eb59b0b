"""Budget of an export: the most bytes that the arena may have, against the formula of what it needs.

In: formulas, the caller's dims with their bounds, and a budget. Out: which sizes fit, for people; or an UnsupportedError with the formula
where sizes that the bounds allow do not. Where a dim has no upper bound, the exported code compares each call with the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent, wrap

from anyshape.dims import Dim, Size, bounds, evaluate, free_symbols
from anyshape.errors import OverflowedError, UnsupportedError
from anyshape.vm.export.interface import CallerDim, Interface

_MOST = 1 << 62
_BEYOND = 1 << 63


def largest_sizes(
    formula: Size, m: Interface, budget: int, at: Mapping[str, int] | None = None
) -> dict[str, int | None]:
    """Finds for each dim the largest size that fits with all others at their least, or as `at` says, by bisection; None where none does.
    What fits is refused by nobody; a larger size may fit again where the formula falls."""
    least = least_sizes(m)
    return {d.c_name: _largest(formula, d, {**least, **(at or {}), d.c_name: least[d.c_name]}, budget) for d in m.dims}


def least_sizes(m: Interface) -> dict[str, int]:
    """The least size of each dim, but 0."""
    return {d.c_name: max(bounds(d.symbol)[0] or 0, 1) for d in m.dims}


def fitting(sizes: Mapping[str, int | None]) -> list[str]:
    """Says which sizes fit (`largest_sizes`), but of dims of which all do."""
    return [
        f"{name} is at most {n}, where all others are at their least"
        for name, n in sizes.items()
        if n is not None and n < _MOST
    ]


def _largest(formula: Size, d: CallerDim, least: Mapping[str, int], budget: int) -> int | None:
    low, high = least[d.c_name], bounds(d.symbol)[1]
    if bytes_at(formula, least) > budget:
        return None
    above = (_MOST if high is None else high) + 1
    while above - low > 1:
        middle = (low + above) // 2
        fits = bytes_at(formula, {**least, d.c_name: middle}) <= budget
        low, above = (middle, above) if fits else (low, middle)
    return low


def bytes_at(formula: Size, sizes: Mapping[str, int]) -> int:
    """The bytes for sizes by the names of the header; more than any memory has where they do not fit 64 bits."""
    if not isinstance(formula, Dim):
        return formula
    try:
        return evaluate(formula, {s: sizes[s.name] for s in free_symbols(formula)})
    except OverflowedError:
        return _BEYOND


def demand_budget(formulas: Sequence[Size], m: Interface, budget: int) -> list[str]:
    """Says which sizes fit. Raises UnsupportedError where the least sizes do not, or where the largest that the bounds allow do not."""
    formula = formulas[0]
    least = least_sizes(m)
    sizes = largest_sizes(formula, m, budget)
    lines = [f"  {line}" for line in fitting(sizes)]
    highs = {d.c_name: bounds(d.symbol)[1] for d in m.dims}
    if bytes_at(formula, least) > budget:
        raise UnsupportedError(
            f"{m.name} needs {bytes_at(formula, least)} bytes of memory at {_spelled(least)}, and the budget is {budget}:\n"
            + _whole(formula)
        )
    bounded = {name: n for name, n in highs.items() if n is not None}
    if len(bounded) == len(highs) and (needed := bytes_at(formula, bounded)) > budget:
        raise UnsupportedError(
            f"{m.name} needs {needed} bytes of memory at {_spelled(bounded)}, and the budget is {budget}; lower the bounds. It fits where\n"
            + "\n".join([*lines, _whole(formula)])
        )
    return lines


def _whole(formula: Size) -> str:
    """The formula in lines, since messages leave out the middle of a long one."""
    return indent("\n".join(wrap(f"arena = {formula}", 120, break_long_words=False)), "  ")


def _spelled(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sizes.items()) or "any call"
