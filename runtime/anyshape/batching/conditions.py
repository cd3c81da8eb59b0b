"""Whether a check on sizes that a joined call passes is passed by each of the requests alone."""

from __future__ import annotations

from anyshape.dims import Atom, Cond, Dim, Monomial, free_symbols


def holds_of_fewer(cond: Cond, rows: Dim) -> bool:
    """Whether a condition that holds of a number of rows holds of every smaller one from 1; False where that is not seen."""
    if rows not in free_symbols(cond):
        return True
    if cond.kind in ("and", "or"):
        return all(holds_of_fewer(c, rows) for c in cond.args)
    if cond.kind == "not":
        return holds_of_fewer(cond.args[0], rows)  # of an equation, which is true or false of all numbers alike
    terms = cond.args[0].terms
    if any(rows in free_symbols(a.dim) and a is not rows.atom for monomial, _ in terms for a in monomial):
        return False
    if cond.kind == "eq":  # a product with the rows is 0 if what they are multiplied with is
        return len({monomial.count(rows.atom) for monomial, _ in terms}) == 1
    return all(_falls(monomial, coefficient, rows) for monomial, coefficient in terms)


def _falls(monomial: Monomial, coefficient: int, rows: Dim) -> bool:
    """Whether a term does not grow with the rows."""
    rest: list[Atom] = [a for a in monomial if a is not rows.atom]
    return len(rest) == len(monomial) or (coefficient < 0 and all(a.low is not None and a.low >= 0 for a in rest))
