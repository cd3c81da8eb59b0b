"""What is known on either side of a condition, and what that makes of sizes that choose by it.

In: sizes, conditions. Out: sizes and conditions without the choices that are settled: `given(e, c, truth)` inside a branch, `by_cases`
around an operation, `merged` in products. All are equalities for every value of the symbols; none makes an expression larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anyshape.dims.conditions import SMALL, at_least_zero, implied, not_, solve
from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Monomial, Size, build, replace_atoms
from anyshape.dims.substitution import substitute_atoms
from anyshape.dims.symbols import twin_of

MOST_CHOICES = 2
"""Most choices of a product that is multiplied out: each side of one multiplies all others, so that the time doubles with every one
more."""


def refinements(c: Cond) -> tuple[dict[Atom, Size], dict[Atom, Size]]:
    """What to put for symbols where c holds and where it does not: the value it equals, or a twin with tighter
    bounds."""
    p = c.args[0]
    if c.kind == "eq":
        solved = solve(p)
        if solved is None:
            return _least(p)
        x, value = solved
        return {x: value}, _unequal(x, value)
    if c.kind == "ge":
        opposite = -p - 1
        return _bounded(p), _bounded(opposite)
    if c.kind == "not":
        unless, when = refinements(p)
        return when, unless
    if c.kind == "and":
        return _together(refinements(a)[0] for a in c.args), {}
    return {}, _together(refinements(a)[1] for a in c.args)


def _together(members: Iterable[dict[Atom, Size]]) -> dict[Atom, Size]:
    """The replacements of several conditions, for each symbol those of the first; no value mentions a symbol that is replaced."""
    replacements: dict[Atom, Size] = {}
    for values in members:
        for x, v in values.items():
            mentioned = v.symbols if isinstance(v, Dim) else ()
            if (
                x not in replacements
                and replacements.keys().isdisjoint(mentioned)
                and not any(isinstance(w, Dim) and x in w.symbols for w in replacements.values())
            ):
                replacements[x] = v
    return replacements


def _bounded(p: Size) -> dict[Atom, Size]:
    """p >= 0 for p = x + k or k - x: the twin of x with that bound. Of a quotient of a number it is a bound of what is divided."""
    alone = _alone(p)
    if alone is None:
        return {}
    x, sign, constant = alone
    if x.kind == "symbol":
        low, high = (-constant, None) if sign > 0 else (None, constant)
        return twin(x, low, high)
    divided, b = x.args
    bound = at_least_zero(divided + constant * b if sign > 0 else (constant + 1) * b - 1 - divided)
    return _bounded(bound.args[0]) if isinstance(bound, Cond) and bound.kind == "ge" else {}


def _alone(p: Size) -> tuple[Atom, int, int] | None:
    """(x, sign, k) of p = x + k or k - x, for a symbol x or a quotient of a number above 0."""
    if isinstance(p, int) or len(p.terms) > 2 or abs(p.terms[0][1]) != 1 or len(p.terms[0][0]) != 1:
        return None
    ((x,), sign), constant = p.terms[0], p.constant
    if len(p.terms) == 2 and p.terms[1][0]:
        return None
    is_quotient = x.kind == "floordiv" and isinstance(x.args[1], int) and x.args[1] > 0
    return (x, sign, constant) if x.kind == "symbol" or is_quotient else None


def _least(p: Dim) -> tuple[dict[Atom, Size], dict[Atom, Size]]:
    """What a quotient says that is the least that it can be, or is not."""
    alone = _alone(p)
    if alone is None or alone[0].low is None or alone[0].low + alone[2] != 0:
        return {}, {}
    return _bounded(-p), _bounded(p - 1)


def _unequal(x: Atom, value: Size) -> dict[Atom, Size]:
    """x != value at one end of x's range moves that end."""
    if isinstance(value, int) and value == x.low:
        return twin(x, value + 1, None)
    if isinstance(value, int) and value == x.high:
        return twin(x, None, value - 1)
    return {}


def twin(x: Atom, low: int | None, high: int | None) -> dict[Atom, Size]:
    """The symbol of x's name with bounds tightened by low and high, as a substitution."""
    least = x.low if low is None else low if x.low is None else max(low, x.low)
    most = x.high if high is None else high if x.high is None else min(high, x.high)
    if (least, most) == (x.low, x.high) or (least is not None and most is not None and least > most):
        return {}
    return {x: least if least is not None and least == most else twin_of(x, least, most)}


def is_multiple(e: Size, p: Dim) -> bool:
    """Whether polynomial division shows that e is 0 wherever p is."""
    return isinstance(e, Dim) and bool(REBUILD["is_multiple"](e, p))


def assuming(e: Any, c: Cond, truth: bool) -> Any:
    """A size, or a condition, where c holds (or does not): its selects settled by that, symbols in their bounds."""
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return e
    known = c if truth else not_(c)
    if e.conds and e.weight <= SMALL and isinstance(known, Cond):
        decided = {d: t for d in e.conds if (t := implied(known, d)).__class__ is bool}
        if decided:
            e = _settled(e, decided)
    when, unless = refinements(c)
    values = when if truth else unless
    if not values or isinstance(e, int | bool) or e.symbols.isdisjoint(values):
        return e
    seen = substitute_atoms(e, values)
    twins = _twins(values)
    if not twins or isinstance(seen, int | bool):
        return seen
    return substitute_atoms(seen, twins)


def _twins(values: dict[Atom, Size]) -> dict[Atom, Size]:
    """The way back from symbols with tighter bounds."""
    return {
        v.terms[0][0][0]: x.dim for x, v in values.items() if isinstance(v, Dim) and v.is_symbol and v.name == x.name
    }


def _settled(e: Any, decided: dict[Cond, Any]) -> Any:
    """e with the branches that `decided` chooses, at any depth."""
    if not isinstance(e, Dim | Cond) or e.conds.isdisjoint(decided):
        return e
    if isinstance(e, Cond):
        return REBUILD[e.kind](*(_settled(a, decided) for a in e.args))
    chosen: dict[Atom, Size] = {}
    for monomial, _ in e.terms:
        for atom in monomial:
            if atom in chosen or atom.conds.isdisjoint(decided):
                continue
            if atom.kind == "select" and atom.args[0] in decided:
                chosen[atom] = _settled(atom.args[1 if decided[atom.args[0]] else 2], decided)
            else:
                chosen[atom] = REBUILD[atom.kind](*(_settled(a, decided) for a in atom.args))
    return replace_atoms(e, chosen)


def by_cases(f: Callable[..., Size], args: tuple[Size, ...]) -> Size | None:
    """f of arguments that choose by one condition: the choice between what f is for either side, where that has no choice left and both
    sides can be carried out. (64*n) // select(n == 0, 64, n) is select(n == 0, 0, 64)."""
    conds = frozenset().union(*(a.conds for a in args if isinstance(a, Dim)))
    if len(conds) != 1 or sum(a.weight for a in args if isinstance(a, Dim)) > SMALL:
        return None
    (c,) = conds
    when, unless = refinements(c)
    twins = _twins(when) | _twins(unless)
    sides = []
    for truth, values in ((True, when), (False, unless)):
        side = f(*(substitute_atoms(assuming(a, c, truth), values) for a in args))
        sides.append(substitute_atoms(side, twins))
    if any(isinstance(s, Dim) and any(a.kind != "symbol" for m, _ in s.terms for a in m) for s in sides):
        return None
    chosen: Size = REBUILD["select"](c, *sides)
    return chosen


def merged(p: Dim) -> Size:
    """Products of choices by one condition, and of what the condition is about, where that leaves no choice:
    select(n == 0, 64, n) * select(n == 0, 0, 64) is 64*n."""
    folded: Size = 0
    kept: dict[Monomial, int] = {}
    for monomial, coefficient in p.terms:
        whole = _merged(monomial) if any(a.kind == "select" for a in monomial) and len(monomial) > 1 else None
        if whole is None:
            kept[monomial] = coefficient
        else:
            folded = folded + whole * coefficient
    return p if len(kept) == len(p.terms) else build(kept) + folded


def _merged(monomial: Monomial) -> Size | None:
    if sum(a.kind == "select" for a in monomial) > MOST_CHOICES:
        return None
    for chosen in monomial:
        if chosen.kind != "select" or chosen.weight > SMALL:
            continue
        c, then, otherwise = chosen.args
        left = list(monomial)
        left.remove(chosen)
        about = [a for a in left if a.conds & {c} or (a.kind == "symbol" and a in c.symbols)]
        if not about:
            continue
        factor = build({tuple(about): 1})
        one: Size = REBUILD["select"](c, assuming(factor, c, True) * then, assuming(factor, c, False) * otherwise)
        if isinstance(one, Dim) and one.conds & {c}:
            continue
        for a in about:
            left.remove(a)
        return one * build({tuple(left): 1}) if left else one
    return None


REBUILD.update({"assuming": assuming, "by_cases": by_cases, "merged": merged, "refinements": refinements})
