"""Conditions on dims: three-valued comparison and the logic over it.

In: Sizes. Out: `bool` where bounds and polynomial reasoning decide, else a hash-consed `Cond` in normal form: p == 0
and p >= 0 with coefficients divided by their common divisor, `not` only around p == 0, and/or flat. One relation has
one spelling: for n >= 0, both n > 0 and n != 0 are `not (n == 0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from typing import Any, TypeAlias

from anyshape.dims.bound import bounds, nonneg, split_linear
from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Monomial, Size, build, make_cond, remember, replace_atoms
from anyshape.dims.samples import samples
from anyshape.dims.substitution import substitute_atoms

Truth: TypeAlias = "bool | Cond"
SMALL = 200  # atoms in an expression that is worth taking apart by cases: each choice in it may double what comes out
PAIRWISE_LIMIT = 12  # above this many members, a conjunction is not searched for implied ones

_eq_zero: dict[Dim, Truth] = {}
_ge_zero: dict[Dim, Truth] = {}
_ands: dict[frozenset[Cond], Truth] = {}


def eq(a: Size, b: Size) -> Truth:
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return equals_zero(a - b)


def ne(a: Size, b: Size) -> Truth:
    return not_(eq(a, b))


def ge(a: Size, b: Size) -> Truth:
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    return at_least_zero(a - b)


def le(a: Size, b: Size) -> Truth:
    return ge(b, a)


def gt(a: Size, b: Size) -> Truth:
    if isinstance(a, int) and isinstance(b, int):
        return a > b
    return at_least_zero(a - b - 1)


def lt(a: Size, b: Size) -> Truth:
    return gt(b, a)


def equals_zero(p: Size) -> Truth:
    if not isinstance(p, Dim):
        return p == 0
    hit = _eq_zero.get(p)
    return remember(_eq_zero, p, _equals_zero(p)) if hit is None else hit


def at_least_zero(p: Size) -> Truth:
    if not isinstance(p, Dim):
        return p >= 0
    hit = _ge_zero.get(p)
    return remember(_ge_zero, p, _at_least_zero(p)) if hit is None else hit


def _equals_zero(p: Dim) -> Truth:
    low, high = bounds(p)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    reduced = _without_quotients(p)
    if reduced is not p:
        return equals_zero(reduced)
    common = _content(p)
    if common > 1:
        if p.constant % common:
            return False
        return equals_zero(_divided(p, common, 0))
    core = _without_factors(p)
    if core is not p:
        return equals_zero(core)
    if 0 not in samples(p) and (nonneg(p - 1) or nonneg(-p - 1)):
        return False
    if len(p.terms) == 1 and len(p.terms[0][0]) > 1:  # a product is 0 where a factor is
        return or_(*(equals_zero(a.dim) for a in p.terms[0][0]))
    if p.weight <= SMALL:
        lifted = _lift_select(p, equals_zero)
        if lifted is None:
            lifted = _equals_extreme(p)
        if lifted is not None:
            return lifted
    return make_cond("eq", (p if p.terms[0][1] > 0 else -p,))


def _at_least_zero(p: Dim) -> Truth:
    low, high = bounds(p)
    if low is not None and low >= 0:
        return True
    if high is not None and high < 0:
        return False
    common = _content(p)
    if common > 1:
        return at_least_zero(_divided(p, common, p.constant // common))
    if nonneg(p):
        return True
    if nonneg(-p - 1):
        return False
    if p.weight <= SMALL:
        lifted = _lift_select(p, at_least_zero)
        if lifted is None:
            lifted = _lift_extreme(p)
        if lifted is not None:
            return lifted
    if low == -1:
        return not_(equals_zero(p + 1))
    if high == 0:
        return equals_zero(p)
    return make_cond("ge", (p,))


def _content(p: Dim) -> int:
    """The greatest common divisor of the coefficients, the constant left out."""
    return gcd(*(c for m, c in p.terms if m))


def _divided(p: Dim, common: int, constant: int) -> Size:
    """p / common, its constant being `constant` (0: divided exactly too)."""
    terms: dict[Monomial, int] = {m: c // common for m, c in p.terms}
    if constant or p.constant % common:
        terms[()] = constant
    return build(terms)


def _without_factors(p: Dim) -> Size:
    """p without the atoms that divide every term and cannot be 0; a lone power loses its exponent."""
    shared = set(p.terms[0][0])
    for monomial, _ in p.terms[1:]:
        shared &= set(monomial)
    useless = [a for a in shared if (a.low is not None and a.low > 0) or (a.high is not None and a.high < 0)]
    if len(p.terms) == 1:
        monomial = tuple(dict.fromkeys(a for a in p.terms[0][0] if a not in useless))
        return build({monomial: 1})
    if not useless:
        return p
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in p.terms:
        left = list(monomial)
        for atom in useless:
            left.remove(atom)
        terms[tuple(left)] = coefficient
    return build(terms)


def _without_quotients(p: Dim) -> Size:
    """b * (a // b) written as a - a % b, for numbers b: then 4 * (n // 4) == n is n % 4 == 0."""
    for monomial, coefficient in p.terms:
        if len(monomial) == 1 and monomial[0].kind == "floordiv":
            b = monomial[0].args[1]
            if isinstance(b, int) and b > 1 and coefficient % b == 0:
                return replace_quotient(p, monomial[0], coefficient // b)
    return p


def replace_quotient(p: Dim, quotient: Atom, times: int) -> Size:
    """p with times * b * (a // b) replaced by times * (a - a % b); right wherever b != 0."""
    a, b = quotient.args
    remainder: Size = REBUILD["mod"](a, b)
    result: Size = p - quotient.dim * b * times + (a - remainder) * times
    return result


def _lift_select(p: Dim, compare: Callable[[Size], Truth]) -> Truth | None:
    """A comparison of one select becomes one of its branches', where that decides at least one of them."""
    selects = {atom for monomial, _ in p.terms for atom in monomial if atom.kind == "select"}
    if len(selects) != 1:
        return None
    atom = selects.pop()
    condition, a, b = atom.args
    then = _compared_assuming(compare, replace_atoms(p, {atom: a}), condition, True)
    otherwise = _compared_assuming(compare, replace_atoms(p, {atom: b}), condition, False)
    if not isinstance(then, bool) and not isinstance(otherwise, bool):
        return None
    return or_(and_(condition, then), and_(not_(condition), otherwise))


def _compared_assuming(compare: Callable[[Size], Truth], p: Size, condition: Cond, truth: bool) -> Truth:
    """compare(p) where the condition holds, or does not: with symbols in the bounds that this gives them if that decides it."""
    values = REBUILD["refinements"](condition)[0 if truth else 1]
    outcome = compare(substitute_atoms(p, values)) if values else None
    return outcome if isinstance(outcome, bool) else compare(REBUILD["assuming"](p, condition, truth))


def _lift_extreme(p: Dim) -> Truth | None:
    """min(a, b) >= k says a >= k and b >= k; likewise for max, and for negative coefficients."""
    for monomial, coefficient in p.terms:
        if len(monomial) == 1 and monomial[0].kind in ("min", "max"):
            atom = monomial[0]
            split = split_linear(p, atom)
            if split is None or not isinstance(split[0], int):
                continue
            cases = [at_least_zero(replace_atoms(p, {atom: a})) for a in atom.args]
            return and_(*cases) if (atom.kind == "min") == (coefficient > 0) else or_(*cases)
    return None


def _equals_extreme(p: Dim) -> Truth | None:
    """min(a, b) == r says that both are at least r and one is r: n == min(n, 512) is n <= 512. Likewise for max.

    Only where that decides whether one of them is r; else the equality is the shorter spelling.
    """
    extremes = [(m, c) for m, c in p.terms if any(a.kind in ("min", "max") for a in m)]
    if len(extremes) != 1 or len(extremes[0][0]) != 1 or abs(extremes[0][1]) != 1:
        return None  # several of them would be taken apart one within the other, in exponential time
    ((atom,), coefficient) = extremes[0]
    split = split_linear(p, atom)
    if split is None:
        return None
    r: Size = -coefficient * split[1]
    equal = [equals_zero(a - r) for a in atom.args]
    if not any(isinstance(e, bool) for e in equal):
        return None
    beyond = [at_least_zero(a - r if atom.kind == "min" else r - a) for a in atom.args]
    return and_(*beyond, or_(*equal))


def not_(c: Truth) -> Truth:
    if not isinstance(c, Cond):
        return not c
    kind = c.kind
    if kind == "eq":
        return make_cond("not", (c,))
    if kind == "not":
        inner: Cond = c.args[0]
        return inner
    if kind == "ge":
        return at_least_zero(-c.args[0] - 1)
    return make_cond("or" if kind == "and" else "and", _ordered(not_(a) for a in c.args))


def _ordered(members: Iterable[Any]) -> tuple[Cond, ...]:
    return tuple(sorted(members, key=lambda m: (m.digest, m.uid)))


def and_(*conditions: Truth) -> Truth:
    members: dict[Cond, None] = {}
    for c in conditions:
        if isinstance(c, Cond):
            for member in c.args if c.kind == "and" else (c,):
                members[member] = None
        elif not c:
            return False
    if len(members) < 2:
        return next(iter(members), True)
    key = frozenset(members)
    hit = _ands.get(key)
    return remember(_ands, key, _conjunction(list(members))) if hit is None else hit


def or_(*conditions: Truth) -> Truth:
    return not_(and_(*(not_(c) for c in conditions)))


def _conjunction(members: list[Cond]) -> Truth:
    if len(members) <= PAIRWISE_LIMIT:
        for c in members:
            for d in members:
                if c is d:
                    continue
                outcome = implied(c, d)
                if outcome is False:
                    return False
                if outcome is True and not (implied(d, c) is True and c.uid > d.uid):
                    return and_(*(m for m in members if m is not d))
                shorter = _assuming(c, d)
                if shorter is not d:
                    return and_(*(shorter if m is d else m for m in members))
    return make_cond("and", _ordered(members))


def _assuming(known: Cond, c: Cond) -> Truth:
    """A disjunction without the members that `known` excludes: a and (not a or b) is a and b."""
    if c.kind != "or":
        return c
    left = [m for m in c.args if implied(known, m) is not False]
    return c if len(left) == len(c.args) else or_(*left)


def implied(known: Cond, c: Cond) -> Truth:
    """What `c` is, given that `known` holds: True, False, or c itself where nothing follows."""
    if known is c:
        return True
    if known is not_(c):
        return False
    if c.kind == "and":
        outcomes = [implied(known, m) for m in c.args]
        return False if any(t is False for t in outcomes) else True if all(t is True for t in outcomes) else c
    if c.kind == "or":
        outcomes = [implied(known, m) for m in c.args]
        return True if any(t is True for t in outcomes) else False if all(t is False for t in outcomes) else c
    if known.symbols.isdisjoint(c.symbols):
        return c
    if known.kind == "eq":
        solved = solve(known.args[0])
        if solved is not None:
            outcome = substitute_atoms(c, {solved[0]: solved[1]})
            return outcome if isinstance(outcome, bool) else c
        return c
    if known.kind == "ge":
        return _implied_by_bound(known.args[0], c)
    if known.kind == "or":
        outcomes = [implied(m, c) for m in known.args]
        return True if all(t is True for t in outcomes) else False if all(t is False for t in outcomes) else c
    return c


def _implied_by_bound(p: Dim, c: Cond) -> Truth:
    q = c.args[0]
    if c.kind == "ge":
        return True if nonneg(q - p) else False if nonneg(-q - p - 1) else c
    negated = c.kind == "not"
    if negated:
        q = q.args[0]
    return negated if nonneg(q - p - 1) or nonneg(-q - p - 1) else c


def solve(p: Dim) -> tuple[Atom, Size] | None:
    """(x, e) with p == 0 exactly when x == e: x the youngest symbol with coefficient 1 or -1 and no other place
    in p."""
    best: Atom | None = None
    sign = 0
    for monomial, coefficient in p.terms:
        if len(monomial) == 1 and monomial[0].kind == "symbol" and coefficient in (1, -1):
            atom = monomial[0]
            alone = sum(atom in a.symbols for m, _ in p.terms for a in m) == 1
            if alone and (best is None or atom.uid > best.uid):
                best, sign = atom, coefficient
    if best is None:
        return None
    return best, (p - best.dim * sign) * -sign


REBUILD.update({"eq": equals_zero, "ge": at_least_zero, "not": not_, "and": and_, "or": or_})
