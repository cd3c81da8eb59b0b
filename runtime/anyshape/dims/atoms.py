"""The operations that are not + - *: floor division, modulo, minimum, maximum, select and bcast.

In: Sizes (and a condition, for select). Out: an int, a polynomial where the operation can be carried out, else one
atom in normal form. `//` and `%` floor and are total (x // 0 == x % 0 == 0): the rule that divides carries the check.
"""

from __future__ import annotations

from functools import reduce
from math import gcd
from typing import Any

from anyshape.dims.bound import bounds, nonneg, nonzero
from anyshape.dims.conditions import Truth, equals_zero, not_, solve
from anyshape.dims.expr import (
    REBUILD,
    Atom,
    Bounds,
    Cond,
    Dim,
    Monomial,
    Size,
    build,
    find_atom,
    make_atom,
    remember,
    twin_of,
)
from anyshape.dims.substitution import substitute_atoms

_quotients: dict[tuple[Size, Size], Size] = {}
_remainders: dict[tuple[Size, Size], Size] = {}
_minima: dict[tuple[Size, ...], Size] = {}
_maxima: dict[tuple[Size, ...], Size] = {}
_selects: dict[tuple[Cond, Size, Size], Size] = {}
_broadcasts: dict[tuple[Size, Size], Size] = {}


def floordiv(a: Size, b: Size) -> Size:
    """a // b, rounded down; 0 where b is 0."""
    if a.__class__ is int and b.__class__ is int:
        return a // b if b else 0
    hit = _quotients.get((a, b))
    return remember(_quotients, (a, b), _floordiv(a, b)) if hit is None else hit


def mod(a: Size, b: Size) -> Size:
    """a % b, with the sign of b; 0 where b is 0."""
    if a.__class__ is int and b.__class__ is int:
        return a % b if b else 0
    hit = _remainders.get((a, b))
    return remember(_remainders, (a, b), _mod(a, b)) if hit is None else hit


def _floordiv(a: Size, b: Size) -> Size:
    if a.__class__ is int and a == 0:
        return 0
    if b.__class__ is int:
        if b == 0:
            return 0
        return _by_number(-a, -b) if b < 0 else _by_number(a, b)
    if not nonzero(b):
        return _quotient_atom(a, b)
    a, b = _cancel(a, b)
    if b.__class__ is int:
        return floordiv(a, b)
    whole, rest = _divide(a, b)
    if rest.__class__ is int and rest == 0:
        return whole
    if _fits(rest, b):
        return whole
    return whole + _quotient_atom(rest, b)


def _fits(rest: Size, b: Size) -> bool:
    """Whether 0 <= rest < b (or b < rest <= 0), so that rest // b is 0."""
    return (nonneg(rest) and nonneg(b - rest - 1)) or (nonneg(-rest) and nonneg(rest - b - 1))


def _by_number(a: Size, k: int) -> Size:
    if a.__class__ is int:
        return a // k
    whole, rest = _split_number(a, k)
    if rest.__class__ is int:
        return whole
    common = gcd(k, *(c for m, c in rest.terms if m))  # type: ignore[union-attr]
    if common > 1:
        rest = build({m: c // common for m, c in rest.terms})  # type: ignore[union-attr]
        return whole + _by_number(rest, k // common)
    low, high = bounds(rest)
    if low is not None and high is not None and low // k == high // k:
        return whole + low // k
    nested = _nested(rest, k)
    return whole + (_quotient_atom(rest, k) if nested is None else nested)


def _split_number(a: Size, k: int) -> tuple[Size, Size]:
    """(u, v) with a == u * k + v, v the terms whose coefficients k does not divide, and 0 <= constant of v < k."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in a.terms:  # type: ignore[union-attr]
        if not monomial:
            whole[monomial], rest[monomial] = divmod(c, k)
        elif c % k:
            rest[monomial] = c
        else:
            whole[monomial] = c // k
    return build(whole), build(rest)


def _nested(rest: Size, k: int) -> Size | None:
    """(x // a + c) // k == (x + a * c) // (a * k), for numbers a, k >= 1."""
    monomial, coefficient = rest.terms[0]  # type: ignore[union-attr]
    if coefficient == 1 and len(monomial) == 1 and monomial[0].kind == "floordiv" and len(rest.terms) <= 2:  # type: ignore[union-attr]
        constant = rest - monomial[0].dim
        x, a = monomial[0].args
        if constant.__class__ is int and a.__class__ is int and a > 0:
            return floordiv(x + constant * a, a * k)
    return None


def _cancel(a: Size, b: Size) -> tuple[Size, Size]:
    """Both without the numbers and atoms that divide every term of both; b is known not to be 0, so neither are
    they."""
    if a.__class__ is int:
        return a, b
    number = gcd(*(c for _, c in a.terms), *(c for _, c in b.terms))  # type: ignore[union-attr]
    shared: list[Atom] = []
    for atom in dict.fromkeys(b.terms[0][0]):  # type: ignore[union-attr]
        power = min(m.count(atom) for e in (a, b) for m, _ in e.terms)  # type: ignore[union-attr]
        shared += [atom] * power
    if number == 1 and not shared:
        return a, b
    return _reduced(a, number, shared), _reduced(b, number, shared)


def _reduced(e: Size, number: int, atoms: list[Atom]) -> Size:
    return build({_without(m, atoms): c // number for m, c in e.terms})  # type: ignore[union-attr]


def _without(monomial: Monomial, atoms: list[Atom] | Monomial) -> Monomial:
    left = list(monomial)
    for atom in atoms:
        left.remove(atom)
    return tuple(left)


def _divide(a: Size, b: Dim | Size) -> tuple[Size, Size]:
    """Polynomial division by b's leading term: (u, v) with a == u * b + v; u is 0 unless it takes terms away."""
    if a.__class__ is int:
        return 0, a
    lead, c = b.terms[0]  # type: ignore[union-attr]
    whole: Size = 0
    rest: Size = a
    for _ in range(len(a.terms) + 4):  # type: ignore[union-attr]
        step = _leading_quotient(rest, lead, c)
        if step is None:
            break
        smaller = rest - step * b
        if smaller.__class__ is not int and len(smaller.terms) > len(rest.terms):  # type: ignore[union-attr]
            whole, rest = _exactly(a, b)
            break
        whole, rest = whole + step, smaller
    return whole, rest


def _exactly(a: Size, b: Size) -> tuple[Size, Size]:
    """Division to the end, kept only where nothing is left: splitting half of a polynomial would not make it
    simpler."""
    lead, c = b.terms[0]  # type: ignore[union-attr]
    whole: Size = 0
    rest: Size = a
    for _ in range(64):
        if rest.__class__ is int:
            break
        step = _leading_quotient(rest, lead, c)
        if step is None:
            break
        whole, rest = whole + step, rest - step * b
    return (whole, rest) if rest.__class__ is int and rest == 0 else (0, a)


def _leading_quotient(rest: Size, lead: Monomial, c: int) -> Size | None:
    """The quotient of the first term of `rest` that the divisor's leading term c * lead divides."""
    if rest.__class__ is int:
        return None
    for monomial, e in rest.terms:  # type: ignore[union-attr]
        if e % c == 0 and all(monomial.count(a) >= lead.count(a) for a in lead):
            return build({_without(monomial, lead): e // c})
    return None


def _quotient_atom(a: Size, b: Size) -> Dim:
    found = find_atom("floordiv", (a, b))
    return make_atom("floordiv", (a, b), _quotient_bounds(a, b)) if found is None else found


def _quotient_bounds(a: Size, b: Size) -> Bounds:
    (low, high), (least, most) = bounds(a), bounds(b)
    if least is None or least < 0:
        return None, None
    if least == 0:  # x // 0 is 0, so 0 is always within reach
        least, low, high = 1, None if low is None else min(low, 0), None if high is None else max(high, 0)
    least_quotient = None if low is None else low // least if low < 0 else low // most if most is not None else 0
    most_quotient = None if high is None else high // least if high >= 0 else high // most if most is not None else -1
    return least_quotient, most_quotient


def _mod(a: Size, b: Size) -> Size:
    if b.__class__ is int:
        if b == 0:
            return 0
        if b < 0:
            return -mod(-a, -b)
        rest: Size = a if a.__class__ is int else _split_number(a, b)[1]
        if rest.__class__ is int:
            return rest % b
        low, high = bounds(rest)
        if low is not None and high is not None and low // b == high // b:
            return rest - (low // b) * b
        common = gcd(b, *(c for _, c in rest.terms))  # type: ignore[union-attr]
        if common > 1:
            return common * mod(_reduced(rest, common, []), b // common)
    else:
        rest = _divide(a, b)[1]
        if rest.__class__ is int and rest == 0:
            return 0
        if _fits(rest, b):
            return rest
    found = find_atom("mod", (rest, b))
    return make_atom("mod", (rest, b), _remainder_bounds(rest, b)) if found is None else found


def _remainder_bounds(a: Size, b: Size) -> Bounds:
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
    if a.__class__ is int and b.__class__ is int:
        return -(-a // b) if b else 0
    return floordiv(a + (b - 1), b) if nonneg(b - 1) else -floordiv(-a, b)


def exact_div(a: Size, b: Size, known_nonzero: bool = False) -> Size:
    """a / b where b is known, or checked, to divide a: the quotient where polynomial division finds it, else a // b.

    Where b may be 0, the quotient polynomial is only right under the check that it is not (`known_nonzero`).
    """
    if known_nonzero and b.__class__ is Dim and a.__class__ is Dim:
        if a is b:
            return 1
        whole, rest = _divide(a, b)
        if rest.__class__ is int and rest == 0:
            return whole
    return floordiv(a, b)


def minimum(*xs: Size) -> Size:
    hit = _minima.get(xs)
    return remember(_minima, xs, _extreme("min", xs)) if hit is None else hit


def maximum(*xs: Size) -> Size:
    hit = _maxima.get(xs)
    return remember(_maxima, xs, _extreme("max", xs)) if hit is None else hit


def clamp(x: Size, low: Size, high: Size) -> Size:
    """x moved into low..high; where they contradict, high wins."""
    return minimum(maximum(x, low), high)


def _extreme(kind: str, xs: tuple[Size, ...]) -> Size:
    """Flattened, without members that another one always beats, in a fixed order."""
    number: int | None = None
    members: dict[Dim, None] = {}
    for x in xs:
        for member in x.args if x.__class__ is Dim and x.kind == kind else (x,):
            if member.__class__ is Dim:
                members[member] = None
            elif number is None or (member < number if kind == "min" else member > number):
                number = member
    kept: list[Size] = [*members] if number is None else [*members, number]
    if len(kept) > 1:
        kept = _unbeaten(kind, kept)
    if len(kept) == 1:
        return kept[0]
    args = tuple(sorted(kept, key=_argument_order))
    found = find_atom(kind, args)
    return make_atom(kind, args, _extreme_bounds(kind, args)) if found is None else found


def _unbeaten(kind: str, xs: list[Size]) -> list[Size]:
    kept = list(xs)
    for x in xs:
        others = [y for y in kept if y is not x]
        if others and any(nonneg(x - y) if kind == "min" else nonneg(y - x) for y in others):
            kept = others
    return kept


def _argument_order(x: Size) -> tuple[Any, ...]:
    """Numbers last; dims as their leading terms are ordered."""
    if x.__class__ is int:
        return (1, x)
    return (0, *(a.order for a in x.terms[0][0]), (2, "", x.digest, x.uid))  # type: ignore[union-attr]


def _extreme_bounds(kind: str, args: tuple[Size, ...]) -> Bounds:
    lows, highs = zip(*(bounds(a) for a in args))
    if kind == "min":
        known = [h for h in highs if h is not None]
        return None if None in lows else min(lows), min(known) if known else None
    known = [v for v in lows if v is not None]
    return max(known) if known else None, None if None in highs else max(highs)


def select(c: Truth, a: Size, b: Size) -> Size:
    """a where c holds, else b: each branch simplified under what the condition says."""
    if c.__class__ is not Cond:
        return a if c else b
    if a is b:
        return a
    hit = _selects.get((c, a, b))
    return remember(_selects, (c, a, b), _select(c, a, b)) if hit is None else hit


def _select(c: Cond, a: Size, b: Size) -> Size:
    if c.kind == "not":
        return select(c.args[0], b, a)
    if c.kind == "ge" and c.args[0].terms[0][1] < 0:  # one spelling for a condition and its opposite
        return select(not_(c), b, a)
    when, unless = refinements(c)
    a, b = _under(a, c, True), _under(b, c, False)
    if c.kind == "eq" and when:
        a = substitute_atoms(a, when)
        if a is b or substitute_atoms(b, when) is a:
            return b
    if a.__class__ is int and b.__class__ is int and a == b:
        return a
    found = find_atom("select", (c, a, b))
    if found is not None:
        return found
    (low, high), (least, most) = bounds(substitute_atoms(a, when)), bounds(substitute_atoms(b, unless))
    return make_atom(
        "select",
        (c, a, b),
        (
            None if low is None or least is None else min(low, least),
            None if high is None or most is None else max(high, most),
        ),
    )


def _under(e: Size, c: Cond, truth: bool) -> Size:
    """e with its selects on the condition c settled."""
    if e.__class__ is int:
        return e
    chosen = {
        atom: atom.args[1 if truth else 2]
        for m, _ in e.terms  # type: ignore[union-attr]
        for atom in m
        if atom.kind == "select" and atom.args[0] is c
    }
    if not chosen:
        return e
    return reduce(lambda total, term: total + _product(term, chosen), e.terms, 0)  # type: ignore[union-attr]


def _product(term: tuple[Monomial, int], chosen: dict[Atom, Size]) -> Size:
    value: Size = term[1]
    for atom in term[0]:
        value = value * chosen.get(atom, atom.dim)
    return value


def refinements(c: Cond) -> tuple[dict[Atom, Size], dict[Atom, Size]]:
    """What to put for symbols where c holds and where it does not: the value it equals, or a twin with tighter
    bounds."""
    p = c.args[0]
    if c.kind == "eq":
        solved = solve(p)
        if solved is None:
            return {}, {}
        x, value = solved
        return {x: value}, _unequal(x, value)
    if c.kind == "ge":
        opposite = -p - 1
        return _bounded(p), _bounded(opposite)
    return {}, {}


def _bounded(p: Dim | Size) -> dict[Atom, Size]:
    """p >= 0 for p = x + k or k - x: the twin of x with that bound."""
    if p.__class__ is int or len(p.terms) > 2 or abs(p.terms[0][1]) != 1 or not p.terms[0][0]:  # type: ignore[union-attr]
        return {}
    (monomial, sign), constant = p.terms[0], p.constant  # type: ignore[union-attr]
    if len(monomial) != 1 or monomial[0].kind != "symbol" or (len(p.terms) == 2 and p.terms[1][0]):  # type: ignore[union-attr]
        return {}
    x = monomial[0]
    low, high = (-constant, None) if sign > 0 else (None, constant)
    return twin(x, low, high)


def _unequal(x: Atom, value: Size) -> dict[Atom, Size]:
    """x != value at one end of x's range moves that end."""
    if value.__class__ is int and value == x.low:
        return twin(x, value + 1, None)
    if value.__class__ is int and value == x.high:
        return twin(x, None, value - 1)
    return {}


def twin(x: Atom, low: int | None, high: int | None) -> dict[Atom, Size]:
    """The symbol of x's name with bounds tightened by low and high, as a substitution."""
    least = x.low if low is None else low if x.low is None else max(low, x.low)
    most = x.high if high is None else high if x.high is None else min(high, x.high)
    if (least, most) == (x.low, x.high) or (least is not None and most is not None and least > most):
        return {}
    return {x: least if least is not None and least == most else twin_of(x, least, most)}


def bcast(a: Size, b: Size) -> Size:
    """The broadcast of two dims: a where b is 1, b where a is 1, else either, for they are equal (checked where
    it was made)."""
    if a is b:
        return a
    if a.__class__ is int and b.__class__ is int:
        return b if a == 1 else a
    hit = _broadcasts.get((a, b))
    return remember(_broadcasts, (a, b), _bcast(a, b)) if hit is None else hit


def _bcast(a: Size, b: Size) -> Size:
    members: dict[Size, None] = {}
    _flatten(a, members)
    _flatten(b, members)
    members.pop(1, None)
    for x in members:
        if equals_zero(x - 1) is False:  # not 1: it is the result, whatever the rest
            return x
    ordered = sorted(members, key=_argument_order)
    return reduce(_bcast_atom, ordered)


def _flatten(x: Size, members: dict[Size, None]) -> None:
    if x.__class__ is Dim and x.kind == "bcast":
        for arg in x.args:
            _flatten(arg, members)
    else:
        members[x] = None


def _bcast_atom(a: Size, b: Size) -> Size:
    found = find_atom("bcast", (a, b))
    if found is not None:
        return found
    (low, high), (least, most) = bounds(a), bounds(b)
    return make_atom(
        "bcast",
        (a, b),
        (
            None if low is None or least is None else min(low, least),
            None if high is None or most is None else max(high, most),
        ),
    )


REBUILD.update({"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum, "select": select, "bcast": bcast})
