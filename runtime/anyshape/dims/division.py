"""Floor division and modulo of dims, and what is made of them: ceil_div and exact_div.

In: Sizes. Out: a number or polynomial where the division can be carried out, terms that divide pulled out of it
otherwise, and one atom for what is left. `//` and `%` floor and are total (x // 0 == x % 0 == 0): the rule that
divides carries the check.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from anyshape.dims.bound import bounds, nonneg, nonzero
from anyshape.dims.expr import REBUILD, Atom, Dim, Interval, Monomial, Size, build, find_atom, make_atom, remember

_quotients: dict[tuple[Size, Size], Size] = {}
_remainders: dict[tuple[Size, Size], Size] = {}


def floordiv(a: Size, b: Size) -> Size:
    """a // b, rounded down; 0 where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    hit = _quotients.get((a, b))
    return remember(_quotients, (a, b), _floordiv(a, b)) if hit is None else hit


def mod(a: Size, b: Size) -> Size:
    """a % b, with the sign of b; 0 where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    hit = _remainders.get((a, b))
    return remember(_remainders, (a, b), _mod(a, b)) if hit is None else hit


def _floordiv(a: Size, b: Size) -> Size:
    if isinstance(a, int) and a == 0:
        return 0
    if isinstance(b, int):
        if b == 0:
            return 0
        return _by_number(-a, -b) if b < 0 else _by_number(a, b)
    if not nonzero(b):
        return _quotient_atom(a, b)
    a, b = _cancel(a, b)
    if isinstance(b, int):
        return floordiv(a, b)
    whole, rest = _divide(a, b)
    if isinstance(rest, int) and rest == 0:
        return whole
    if _fits(rest, b):
        return whole
    return whole + _quotient_atom(rest, b)


def _fits(rest: Size, b: Size) -> bool:
    """Whether 0 <= rest < b (or b < rest <= 0), so that rest // b is 0."""
    return (nonneg(rest) and nonneg(b - rest - 1)) or (nonneg(-rest) and nonneg(rest - b - 1))


def _by_number(a: Size, k: int) -> Size:
    if isinstance(a, int):
        return a // k
    whole, rest = _split_number(a, k)
    if isinstance(rest, int):
        return whole
    common = gcd(k, *(c for m, c in rest.terms if m))
    if common > 1:
        rest = build({m: c // common for m, c in rest.terms})
        return whole + _by_number(rest, k // common)
    low, high = bounds(rest)
    if low is not None and high is not None and low // k == high // k:
        return whole + low // k
    nested = _nested(rest, k)
    return whole + (_quotient_atom(rest, k) if nested is None else nested)


def _split_number(a: Dim, k: int) -> tuple[Size, Size]:
    """(u, v) with a == u * k + v, v the terms whose coefficients k does not divide, and 0 <= constant of v < k."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in a.terms:
        if not monomial:
            whole[monomial], rest[monomial] = divmod(c, k)
        elif c % k:
            rest[monomial] = c
        else:
            whole[monomial] = c // k
    return build(whole), build(rest)


def _nested(rest: Dim, k: int) -> Size | None:
    """(x // a + c) // k == (x + a * c) // (a * k), for numbers a, k >= 1."""
    monomial, coefficient = rest.terms[0]
    if coefficient == 1 and len(monomial) == 1 and monomial[0].kind == "floordiv" and len(rest.terms) <= 2:
        constant = rest - monomial[0].dim
        x, a = monomial[0].args
        if isinstance(constant, int) and isinstance(a, int) and a > 0:
            return floordiv(x + constant * a, a * k)
    return None


def _cancel(a: Size, b: Dim) -> tuple[Size, Size]:
    """Divides a and b by the numbers and atoms that divide every term of both; b is known not to be 0, so neither
    are they."""
    if isinstance(a, int):
        return a, b
    number = gcd(*(c for _, c in a.terms), *(c for _, c in b.terms))
    shared: list[Atom] = []
    for atom in dict.fromkeys(b.terms[0][0]):
        power = min(m.count(atom) for e in (a, b) for m, _ in e.terms)
        shared += [atom] * power
    if number == 1 and not shared:
        return a, b
    return _reduced(a, number, shared), _reduced(b, number, shared)


def _reduced(e: Dim, number: int, atoms: list[Atom]) -> Size:
    return build({_without(m, atoms): c // number for m, c in e.terms})


def _without(monomial: Monomial, atoms: list[Atom] | Monomial) -> Monomial:
    left = list(monomial)
    for atom in atoms:
        left.remove(atom)
    return tuple(left)


def _divide(a: Size, b: Dim) -> tuple[Size, Size]:
    """Polynomial division by b's leading term: (u, v) with a == u * b + v; u is 0 unless it takes terms away."""
    if isinstance(a, int):
        return 0, a
    lead, c = b.terms[0]
    whole: Size = 0
    rest: Size = a
    for _ in range(len(a.terms) + 4):
        if isinstance(rest, int):
            break
        step = _leading_quotient(rest, lead, c)
        if step is None:
            break
        smaller = rest - step * b
        if not isinstance(smaller, int) and len(smaller.terms) > len(rest.terms):
            whole, rest = _exactly(a, b)
            break
        whole, rest = whole + step, smaller
    return whole, rest


def _exactly(a: Dim, b: Dim) -> tuple[Size, Size]:
    """Division to the end, kept only where nothing is left: splitting half of a polynomial would not make it
    simpler."""
    lead, c = b.terms[0]
    whole: Size = 0
    rest: Size = a
    for _ in range(64):
        if isinstance(rest, int):
            break
        step = _leading_quotient(rest, lead, c)
        if step is None:
            break
        whole, rest = whole + step, rest - step * b
    return (whole, rest) if isinstance(rest, int) and rest == 0 else (0, a)


def _leading_quotient(rest: Size, lead: Monomial, c: int) -> Size | None:
    """The quotient of the first term of `rest` that the divisor's leading term c * lead divides."""
    if isinstance(rest, int):
        return None
    for monomial, e in rest.terms:
        if e % c == 0 and all(monomial.count(a) >= lead.count(a) for a in lead):
            return build({_without(monomial, lead): e // c})
    return None


def _quotient_atom(a: Size, b: Size) -> Size:
    atom = find_atom("floordiv", (a, b))
    if atom is None and (chosen := _by_cases(floordiv, a, b)) is not None:
        return chosen
    return make_atom("floordiv", (a, b), _quotient_bounds(a, b)) if atom is None else atom


def _by_cases(f: Callable[[Size, Size], Size], a: Size, b: Size) -> Size | None:
    if (isinstance(a, int) or not a.conds) and (isinstance(b, int) or not b.conds):
        return None
    choice: Size | None = REBUILD["by_cases"](f, (a, b))
    return choice


def _is_multiple(e: Dim, p: Dim) -> bool:
    return _exactly(e, p)[1] == 0 if e is not p else True


def _quotient_bounds(a: Size, b: Size) -> Interval:
    (low, high), (least, most) = bounds(a), bounds(b)
    if most == 0 and least == 0:
        return 0, 0
    if least is None or least < 0:
        return None, None
    if least == 0:  # x // 0 is 0, so 0 is always within reach
        least, low, high = 1, None if low is None else min(low, 0), None if high is None else max(high, 0)
    least_quotient = None if low is None else low // least if low < 0 else low // most if most is not None else 0
    most_quotient = None if high is None else high // least if high >= 0 else high // most if most is not None else -1
    return least_quotient, most_quotient


def _mod(a: Size, b: Size) -> Size:
    if isinstance(b, int):
        if b == 0:
            return 0
        if b < 0:
            return -mod(-a, -b)
        rest: Size = a if isinstance(a, int) else _split_number(a, b)[1]
        if isinstance(rest, int):
            return rest % b
        low, high = bounds(rest)
        if low is not None and high is not None and low // b == high // b:
            return rest - (low // b) * b
        common = gcd(b, *(c for _, c in rest.terms))
        if common > 1:
            return common * mod(_reduced(rest, common, []), b // common)
    else:
        rest = _divide(a, b)[1]
        if isinstance(rest, int) and rest == 0:
            return 0
        if _fits(rest, b):
            return rest
    atom = find_atom("mod", (rest, b))
    if atom is None and (chosen := _by_cases(mod, rest, b)) is not None:
        return chosen
    return make_atom("mod", (rest, b), _remainder_bounds(rest, b)) if atom is None else atom


def _remainder_bounds(a: Size, b: Size) -> Interval:
    least, most = bounds(b)
    if least is None or least < 0:
        return None, None
    low, high = bounds(a)
    top = None if most is None else max(most - 1, 0)
    if low is not None and low >= 0 and high is not None:
        top = high if top is None else min(top, high)
    return 0, top


def ceil_div(a: Size, b: Size) -> Size:
    """a / b rounded up; 0 where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b) if b else 0
    if isinstance(b, int) and abs(b) > 2**62:  # sums with it, and the opposite of the least number, do not fit 64 bits
        return -floordiv(-a, max(b, 1 - 2**63))  # the same for all a but the largest
    return floordiv(a + (b - 1), b) if nonneg(b - 1) else -floordiv(-a, b)


def exact_div(a: Size, b: Size, known_nonzero: bool = False) -> Size:
    """a / b where b is known, or checked, to divide a: the quotient where polynomial division finds it, else a // b.

    Where b may be 0, the quotient polynomial is only right under the check that it is not (`known_nonzero`).
    """
    if known_nonzero and isinstance(b, Dim) and isinstance(a, Dim):
        if a is b:
            return 1
        whole, rest = _divide(a, b)
        if isinstance(rest, int) and rest == 0:
            return whole
    return floordiv(a, b)


REBUILD.update({"floordiv": floordiv, "mod": mod, "is_multiple": _is_multiple})
