"""Bounds and signs of dims: what the bounds of symbols imply about a polynomial.

In: a Size. Out: `bounds(e)`, the tightest (low, high) found, None where there is none, and `nonneg(e)`, True when e
>= 0 was proved. Both are cached on the dim. Three steps, cheapest first: interval arithmetic; the polynomial
rewritten in x' = x - low(x), where equal signs prove what intervals cannot (a*b - a >= 0 for b >= 1); and replacing
Min, Max, //, %, bcast and select by what bounds them.
"""

from __future__ import annotations

from anyshape.dims.expr import Atom, Dim, Interval, Monomial, Size, build, replace_atoms
from anyshape.dims.samples import samples

LARGEST_SIZE = (
    1 << 60
)  # no symbol that is a size exceeds it: used only against constants beyond FAR, such as "to the end"
FAR = 1 << 62
DEPTH = 4  # how many opaque atoms one proof may take apart, one after the other
LARGEST_PROOF = 256  # how many it may take apart in all, whichever it tried first


def bounds(e: Size) -> Interval:
    """(low, high): every value of e lies between them; None means that no bound is known."""
    if isinstance(e, int):
        return e, e
    if e._bounds is None:
        e._bounds = _bounds(e)
    return e._bounds


def _bounds(p: Dim) -> Interval:
    terms = p.terms
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        atom = terms[0][0][0]
        return atom.low, atom.high
    low, high = _interval(p)
    if abs(p.constant) >= FAR:
        return _far_bounds(p, low, high)
    if len(terms[0][0]) > 1 and len(terms) > 1:  # correlated terms: only then can the shifted form know more
        low = _larger(low, _shifted_low(terms, 1))
        above = _shifted_low(terms, -1)
        high = _smaller(high, None if above is None else -above)
    return low, high


def _far_bounds(p: Dim, low: int | None, high: int | None) -> Interval:
    """Bounds of n - INT64_MAX and the like, which slices "to the end" compare with 0."""
    weight = 0
    for monomial, coefficient in p.terms:
        if monomial:
            atom = monomial[0]
            if len(monomial) > 1 or atom.kind != "symbol" or atom.low is None or atom.low < -LARGEST_SIZE:
                return low, high
            weight += abs(coefficient)
    if weight > 3:
        return low, high
    reach = weight * LARGEST_SIZE
    return _larger(low, p.constant - reach), _smaller(high, p.constant + reach)


def _larger(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _interval(p: Dim) -> Interval:
    low: int | None = 0
    high: int | None = 0
    for monomial, c in p.terms:
        a, b = monomial_bounds(monomial)
        if c < 0:
            a, b = b, a
        low = None if low is None or a is None else low + c * a
        high = None if high is None or b is None else high + c * b
    return low, high


def monomial_bounds(monomial: Monomial) -> Interval:
    low: int | None = 1
    high: int | None = 1
    i, n = 0, len(monomial)
    while i < n:
        a = monomial[i]
        if i + 1 < n and monomial[i + 1] is a:
            b = product_bounds((a.low, a.high), (a.low, a.high))
            step, i = (max(b[0] or 0, 0), b[1]), i + 2
            low, high = product_bounds((low, high), step)
        else:
            low, high = product_bounds((low, high), (a.low, a.high))
            i += 1
    return low, high


def product_bounds(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if a is not None and c is not None and a >= 0 and c >= 0:
        if b == 0 or d == 0:
            return 0, 0
        return a * c, None if b is None or d is None else b * d
    if x == (0, 0) or y == (0, 0):
        return 0, 0
    corners: list[int] = []
    low_open = high_open = False
    for s, side in ((a, -1), (b, 1)):
        for t, other in ((c, -1), (d, 1)):
            if s is not None and t is not None:
                corners.append(s * t)
                continue
            sign = (side if s is None else (s > 0) - (s < 0)) * (other if t is None else (t > 0) - (t < 0))
            if sign > 0:
                high_open = True
            elif sign < 0:
                low_open = True
            else:
                corners.append(0)
    return None if low_open or not corners else min(corners), None if high_open or not corners else max(corners)


def _shifted_low(terms: tuple[tuple[Monomial, int], ...], sign: int) -> int | None:
    """A lower bound of sign * p from its expansion in x' = x - low(x), in which every variable is at least 0."""
    expanded: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        parts: dict[Monomial, int] = {(): coefficient * sign}
        for atom in monomial:
            low = atom.low
            if low is None:
                return None
            grown = {(*m, atom): c for m, c in parts.items()}
            if low:
                for m, c in parts.items():
                    grown[m] = grown.get(m, 0) + c * low
            parts = grown
        for m, c in parts.items():
            expanded[m] = expanded.get(m, 0) + c
    bound = expanded.pop((), 0)
    for monomial, coefficient in expanded.items():
        if coefficient < 0:
            for atom in monomial:
                if atom.high is None or atom.low is None:
                    return None
                coefficient *= atom.high - atom.low
            bound += coefficient
    return bound


def nonneg(e: Size) -> bool:
    """Whether e >= 0 was proved; False says nothing."""
    if isinstance(e, int):
        return e >= 0
    if e._nonneg is None:
        e._nonneg = min(samples(e)) >= 0 and _Proof().of(e, DEPTH)
    return e._nonneg


def nonzero(e: Size) -> bool:
    """Whether e != 0 was proved."""
    low, high = bounds(e)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return True
    return 0 not in samples(e) and (nonneg(e - 1) or nonneg(-e - 1))


class _Proof:
    """One proof. What could not be proved is not tried again, and after LARGEST_PROOF steps the answer is unknown: whatever order of
    splitting finds a proof, the work is bounded. Nothing depends on other proofs but `nonneg`, which is the same whoever asks first."""

    def __init__(self) -> None:
        self.left = LARGEST_PROOF
        self.failed: dict[Dim, int] = {}

    def of(self, e: Size, depth: int) -> bool:
        low, high = bounds(e)
        if low is not None and low >= 0:
            return True
        if depth == 0 or (high is not None and high < 0) or isinstance(e, int):
            return False
        if self.failed.get(e, 0) >= depth or not self.left:
            return False
        if self._split(e, depth):
            return True
        self.failed[e] = depth
        return False

    def _split(self, e: Dim, depth: int) -> bool:
        for atom in _opaque(e):
            split = split_linear(e, atom)
            if split is None:
                continue
            if not self.left:
                return False
            self.left -= 1
            alternatives = _relaxed(e, atom, *split)
            for alternative in alternatives:
                if all(min(samples(case)) >= 0 for case in alternative) and all(
                    self.of(c, depth - 1) for c in alternative
                ):
                    return True
            if len(alternatives) == 1 and len(alternatives[0]) > 1:
                return False  # a split into all cases loses nothing: another order of splitting would not help
        return False


def _opaque(p: Dim) -> list[Atom]:
    """The atoms of a polynomial that are no symbols, the deepest first."""
    atoms = dict.fromkeys(a for m, _ in p.terms for a in m if a.kind != "symbol")
    return sorted(atoms, key=lambda a: -a.depth)


def split_linear(p: Dim, atom: Atom) -> tuple[Size, Size] | None:
    """(q, rest) with p == q * atom + rest, where the atom is in no other place of the polynomial's own terms."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in p.terms:
        times = monomial.count(atom)
        if times > 1:
            return None
        if times:
            factor[tuple(a for a in monomial if a is not atom)] = coefficient
        else:
            rest[monomial] = coefficient
    return build(factor), build(rest)


def _relaxed(p: Dim, atom: Atom, q: Size, rest: Size) -> list[list[Size]]:
    """Alternatives, each a list of expressions: if all of one alternative are >= 0, so is p = q * atom + rest."""
    low, high = bounds(q)
    sign = 1 if low is not None and low >= 0 else -1 if high is not None and high <= 0 else 0
    args = atom.args
    if atom.kind in ("select", "bcast"):
        return [[replace_atoms(p, {atom: a}) for a in args[-2:]]]
    if sign == 0:
        return []
    if atom.kind in ("min", "max"):
        cases = [replace_atoms(p, {atom: a}) for a in args]
        every = (sign > 0) == (atom.kind == "min")
        return [cases] if every else [[case] for case in cases]
    a, b = args
    if not nonneg(b - 1):
        return []
    if atom.kind == "mod":
        top = [[replace_atoms(p, {atom: b - 1})]] if sign < 0 else []
        return top + ([[replace_atoms(p, {atom: a})]] if sign < 0 and nonneg(a) else [])
    return _relaxed_quotient(p, atom, q, rest, sign)


def _relaxed_quotient(p: Dim, atom: Atom, q: Size, rest: Size, sign: int) -> list[list[Size]]:
    """Uses a - b + 1 <= b * (a // b) <= a, and a // b <= a for a >= 0, where b >= 1."""
    a, b = atom.args
    relaxed: list[list[Size]] = []
    within = sign < 0 and nonneg(a)
    if isinstance(q, int) and isinstance(b, int):
        edge = a - b + 1 if sign > 0 else a
        relaxed.append([rest * b + edge * q + (b - 1)])
    elif not isinstance(b, int):
        factor = _multiple_of(q, b)
        if factor is not None:
            relaxed.append([rest + (a - b + 1 if sign > 0 else a) * factor])
    if within:
        relaxed = [[left] for edge in relaxed if (left := _without_multiple(edge[0], a)) is not None] + relaxed
        relaxed.append([replace_atoms(p, {atom: a})])
    return relaxed


def _without_multiple(e: Size, a: Size) -> Size | None:
    """e less as many times a, which is at least 0, as its leading term has: what cuts of cuts come down to."""
    if isinstance(e, int) or isinstance(a, int):
        return None
    monomial, coefficient = a.terms[0]
    times = dict(e.terms).get(monomial, 0) // coefficient
    return e - a * times if times > 0 else None


def _multiple_of(q: Size, b: Dim) -> int | None:
    """The number k with q == k * b."""
    if isinstance(q, int) or len(q.terms) != len(b.terms):
        return None
    k, left = divmod(q.terms[0][1], b.terms[0][1])
    return k if not left and b * k is q else None
