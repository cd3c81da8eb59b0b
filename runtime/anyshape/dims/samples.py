"""Values of dims at a few fixed points, which refute a claim before anything is spent on proving it.

In: a Size or condition. Out: its values at POINTS assignments of its symbols, the same in every process, each within
the symbols' bounds. Where two points disagree about p >= 0, neither p >= 0 nor p < 0 can be proved. Kept on atoms, so
that the values of a new polynomial are a few multiplications.
"""

from __future__ import annotations

from typing import Any

from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Monomial

POINTS = 7
_LARGE = 1 << 50
_SPREAD = (0, 1, 2, 5, 11, 30)  # distances from the lowest value; the digest of a symbol picks among the later ones


def samples(e: Any) -> tuple[int, ...]:
    if isinstance(e, int | bool):
        return (e,) * POINTS
    known: tuple[int, ...] | None = e._samples
    if known is None:
        known = e._samples = _of_terms(e.terms) if isinstance(e, Dim) else _of_condition(e)
    return known


def _of_terms(terms: tuple[tuple[Monomial, int], ...]) -> tuple[int, ...]:
    total = [0] * POINTS
    for monomial, coefficient in terms:
        product = [coefficient] * POINTS
        for atom in monomial:
            product = [x * y for x, y in zip(product, atom_samples(atom))]
        total = [x + y for x, y in zip(total, product)]
    return tuple(total)


def atom_samples(atom: Atom) -> tuple[int, ...]:
    known = atom._samples
    if known is None:
        known = atom._samples = _of_symbol(atom) if atom.kind == "symbol" else _of_operation(atom)
    return known


def _of_symbol(atom: Atom) -> tuple[int, ...]:
    """The first point is the lowest value of all symbols; then values that differ from symbol to symbol, large ones last, of which
    quotients by a number are not 0."""
    low, high = atom.low, atom.high
    if low is None:
        low = -1 if high is None else high - 40
    steps = [0, *(_SPREAD[(atom.digest >> (3 * k)) % len(_SPREAD)] for k in range(POINTS - 2)), _LARGE + atom.digest]
    return tuple(low + step if high is None else min(low + step, high) for step in steps)


def _of_operation(atom: Atom) -> tuple[int, ...]:
    if atom.kind == "select":
        condition, a, b = map(samples, atom.args)
        return tuple(x if c else y for c, x, y in zip(condition, a, b))
    operation = REBUILD[atom.kind]
    return tuple(operation(*values) for values in zip(*map(samples, atom.args)))


def _of_condition(c: Cond) -> tuple[int, ...]:
    columns = [samples(a) for a in c.args]
    if c.kind == "eq":
        return tuple(v == 0 for v in columns[0])
    if c.kind == "ge":
        return tuple(v >= 0 for v in columns[0])
    if c.kind == "not":
        return tuple(not v for v in columns[0])
    return tuple(map(all if c.kind == "and" else any, zip(*columns)))
