"""Decides whether linear inequalities over the integers contradict each other, by bounded Fourier–Motzkin elimination.

In: rows, which are polynomials that are at least 0, and polynomials that are 0. A monomial is one variable, so the only facts
about products are rows that have them; `products` adds more such rows. Out: True where no integers satisfy all rows; False
means "not proved", never "satisfiable". Elimination follows Schrijver, "Theory of Linear and Integer Programming",
12.2; to divide a row by the common divisor of its coefficients, and round its constant down, is valid for integers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

from anyshape.dims import Dim, Monomial, Size
from anyshape.dims.expr import times

Row = dict[Monomial, int]
"""coefficients by monomial; the constant is that of ()"""
Known = dict[tuple[tuple[int, int], ...], int]
"""least constants of rows by their coefficients, which are pairs of the number of a monomial and its coefficient"""
MOST_ROWS = 260
"""elimination stops above this many rows: such a problem is left undecided"""
MOST_PRODUCTS = 160


def row_of(p: Size) -> Row:
    return dict(p.terms) if isinstance(p, Dim) else {(): p}


def contradictory(rows: Iterable[Size], zeros: Iterable[Size], with_products: bool = False) -> bool:
    """Whether no integers make every row at least 0 and every zero 0."""
    positive = [row_of(p) for p in rows]
    equal = [row_of(p) for p in zeros]
    if with_products:
        positive, equal = products(positive, equal)
    return _eliminate(positive, equal)


def _eliminate(positive: list[Row], equal: list[Row]) -> bool:
    while equal:
        chosen = _tightened_equality(equal.pop(0))
        if chosen is None:
            return True
        pivot = _pivot(chosen)
        if pivot is None:
            continue
        positive = [_substituted(r, chosen, pivot) for r in positive]
        equal = [_substituted(r, chosen, pivot) for r in equal]
    known = _strongest(_numbered(positive))
    while known is not None:
        variable = _cheapest(known)
        if variable is None:
            return False
        known = _without(known, variable)
        if known is not None and len(known) > MOST_ROWS:
            return False
    return True


def _tightened_equality(row: Row) -> Row | None:
    """Divides an equality by the common divisor of its coefficients; None where it has no integer solution."""
    row = {m: c for m, c in row.items() if c}
    common = gcd(*(c for m, c in row.items() if m))
    constant = row.get((), 0)
    if common == 0:
        return row if constant == 0 else None
    if constant % common:
        return None
    return {m: c // common for m, c in row.items()}


def _pivot(row: Row) -> Monomial | None:
    """Selects the variable to solve for: one with coefficient 1 or -1, so that the result is exact on integers, else the smallest."""
    names = [m for m in row if m]
    return min(names, key=lambda m: (abs(row[m]), len(m)), default=None)


def _substituted(row: Row, solved: Row, pivot: Monomial) -> Row:
    c = row.get(pivot, 0)
    if c == 0:
        return row
    lead = solved[pivot]
    sign = 1 if lead > 0 else -1
    out = {m: k * abs(lead) for m, k in row.items()}
    for m, k in solved.items():
        out[m] = out.get(m, 0) - sign * c * k
    return {m: k for m, k in out.items() if k}


def _numbered(rows: Sequence[Row]) -> Iterator[tuple[dict[int, int], int]]:
    """Yields the coefficients of each row by numbers in place of monomials, which are compared often, and its constant."""
    names = sorted({m for row in rows for m in row if m}, key=_order)
    number = {m: k for k, m in enumerate(names)}
    return (({number[m]: c for m, c in row.items() if m}, row.get((), 0)) for row in rows)


def _order(monomial: Monomial) -> tuple[int, ...]:
    return tuple(a.uid for a in monomial)


def _strongest(rows: Iterable[tuple[Mapping[int, int], int]]) -> Known | None:
    """Groups rows by their coefficients, each with its least constant; None where a row is a contradiction by itself."""
    least: Known = {}
    for coefficients, constant in rows:
        parts = sorted([(m, c) for m, c in coefficients.items() if c])
        if not parts:
            if constant < 0:
                return None
            continue
        common = gcd(*[c for _, c in parts])
        if common > 1:
            parts = [(m, c // common) for m, c in parts]
            constant //= common
        key = tuple(parts)
        if key not in least or constant < least[key]:
            least[key] = constant
    return least


def _cheapest(known: Known) -> int | None:
    """Selects the variable whose elimination makes fewest rows; the first of equal ones."""
    counts: dict[int, list[int]] = {}
    for key in known:
        for m, c in key:
            pair = counts.get(m)
            if pair is None:
                pair = counts[m] = [0, 0]
            pair[c > 0] += 1
    return min(counts, key=lambda m: counts[m][0] * counts[m][1] - sum(counts[m]), default=None)


def _without(known: Known, variable: int) -> Known | None:
    above: list[tuple[dict[int, int], int]] = []
    below: list[tuple[dict[int, int], int]] = []
    rest: list[tuple[dict[int, int], int]] = []
    for key, constant in known.items():
        row = dict(key)
        c = row.get(variable, 0)
        (above if c > 0 else below if c < 0 else rest).append((row, constant))
    for up, high in above:
        a = up[variable]
        for down, low in below:
            b = -down[variable]
            row = {m: c * b for m, c in up.items()}
            for m, c in down.items():
                row[m] = row.get(m, 0) + c * a
            rest.append((row, high * b + low * a))
    return _strongest(rest)


# --- products ---------------------------------------------------------------------------------------------------------


def products(positive: list[Row], equal: list[Row]) -> tuple[list[Row], list[Row]]:
    """Adds rows: where monomials u*v and u occur and v >= 0 is known, every row that has u is multiplied by v.

    This is done twice, for products of three factors; only cofactors of monomials that occur are tried.
    """
    signs: dict[Monomial, int] = {}
    for _ in range(2):
        cofactors = _cofactors([*positive, *equal])
        not_negative, zero = list(positive), list(equal)
        for part, cofactor in cofactors:
            if cofactor not in signs:
                signs[cofactor] = _sign(cofactor, positive, equal)
            for row in equal:
                if row.get(part):
                    zero.append(_times(row, cofactor, 1))
            for row in positive if signs[cofactor] else ():
                if row.get(part):
                    not_negative.append(_times(row, cofactor, signs[cofactor]))
            if len(not_negative) > MOST_PRODUCTS:
                break
        positive, equal = _distinct(not_negative), _distinct(zero)
    return positive, equal


def _distinct(rows: list[Row]) -> list[Row]:
    return list({frozenset(row.items()): row for row in rows}.values())


def _cofactors(rows: Sequence[Row]) -> list[tuple[Monomial, Monomial]]:
    """Lists (u, v) for every monomial u*v that occurs, where u also occurs or is one variable."""
    occurring = dict.fromkeys(m for row in rows for m in row if m)
    pairs: dict[tuple[Monomial, Monomial], None] = {}
    for m in occurring:
        if 2 <= len(m) <= 4:
            for k in range(len(m)):
                pairs[(m[k],), (*m[:k], *m[k + 1 :])] = None
            for u in occurring:
                rest = _divided(m, u) if 1 < len(u) < len(m) else None
                if rest is not None:
                    pairs[u, rest] = None
    return list(pairs)


def _divided(m: Monomial, u: Monomial) -> Monomial | None:
    left = list(m)
    for a in u:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


def _sign(cofactor: Monomial, positive: list[Row], equal: list[Row]) -> int:
    """Returns 1 where the product is known to be at least 0, -1 where it is at most 0, else 0."""
    total = 1
    for atom in dict.fromkeys(cofactor):
        if cofactor.count(atom) % 2 == 0:
            continue
        if (atom.low is not None and atom.low >= 0) or _eliminate([*positive, {(atom,): -1, (): -1}], list(equal)):
            continue
        if (atom.high is not None and atom.high <= 0) or _eliminate([*positive, {(atom,): 1, (): -1}], list(equal)):
            total = -total
        else:
            return 0
    return total


def _times(row: Row, cofactor: Monomial, sign: int) -> Row:
    out: Row = {}
    for m, c in row.items():
        product = times(m, cofactor)
        out[product] = out.get(product, 0) + c * sign
    return out
