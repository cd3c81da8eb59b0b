"""Upper bounds of data-dependent sizes, in sizes that the entry knows.

In: a function, and the steps that define symbols. Out: the greatest that symbols can be, and what an expression is at most for them. A
bound is that of the rule which counts the size, or one that a check demands: that check stands where the size is loaded, ahead of every
kernel that writes as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anyshape.dims import Atom, Cond, Dim, Size, bounds, floordiv, free_symbols, linear, minimum, nonneg, substitute
from anyshape.graph.function import Function


def upper_bounds(f: Function, entry: int, defined_at: Mapping[Dim, int]) -> dict[Dim, Size]:
    """The upper bounds of symbols that steps behind the entry define, as far as there are any."""
    stated: dict[Dim, list[Size]] = {}
    for node in f.nodes:
        if node.bound is not None:
            for s, high in node.bound.upper_bounds.items():
                stated.setdefault(s, []).append(high)
    for check in (*f.checks, *(c for node in f.nodes for c in node.checks)):
        for s, high in _demanded(check.cond):
            if all(defined_at.get(x, entry) == entry for x in free_symbols(high)):
                stated.setdefault(s, []).append(high)
    known: dict[Dim, Size] = {}
    for s in sorted((s for s, at in defined_at.items() if at > entry), key=lambda s: (defined_at[s], s.uid)):
        most = [bounds(s)[1], *(at_most(high, known) for high in stated.get(s, ()))]
        usable = [n for n in most if n is not None and all(defined_at.get(x, entry) == entry for x in free_symbols(n))]
        if usable:
            known[s] = minimum(*usable) if len(usable) > 1 else usable[0]
    return known


def at_most(e: Size, most: Mapping[Dim, Size]) -> Size | None:
    """The expression for the upper bounds of its symbols; None where it may fall as one of them rises."""
    bounded = free_symbols(e) & most.keys()
    return substitute(e, {s: most[s] for s in bounded}) if all(_rises(e, s) for s in bounded) else None


def _demanded(c: Cond) -> Iterator[tuple[Dim, Size]]:
    """The upper bounds of single symbols that a condition says."""
    for part in c.args if c.kind == "and" else (c,):
        if part.kind in ("ge", "eq"):
            for s in free_symbols(part):
                parts = linear(part.args[0], s)
                if parts is not None and (parts[0] < 0 or part.kind == "eq"):
                    factor, rest = parts
                    yield s, floordiv(rest, -factor) if factor < 0 else floordiv(-rest, factor)


def _rises(e: Size, s: Dim) -> bool:
    """Whether an expression is never less for a greater s, as far as that is seen."""
    if not isinstance(e, Dim) or s not in free_symbols(e):
        return True
    for monomial, factor in e.terms:
        mentioning = [a for a in monomial if s in free_symbols(a.dim)]
        if mentioning and (factor < 0 or not all(_atom_rises(a, s) for a in mentioning)):
            return False
        if mentioning and len(monomial) > 1 and not all(nonneg(a.dim) for a in monomial):
            return False
    return True


def _atom_rises(a: Atom, s: Dim) -> bool:
    if a.kind == "floordiv":
        return _rises(a.args[0], s) and isinstance(a.args[1], int) and a.args[1] > 0
    return a.kind == "symbol" or (a.kind in ("min", "max") and all(_rises(n, s) for n in a.args))
