"""Reading and replacing what dims and conditions are made of: free symbols, substitution, evaluation on integers.

In: a Size or condition, and values for symbols. Out: the same expression over other symbols, simplified again on the
way (`substitute`), or a plain number in checked 64-bit arithmetic (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, overload

from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Size, replaced_terms
from anyshape.errors import AnyshapeError, OverflowedError

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def free_symbols(e: Size | Cond | bool) -> frozenset[Dim]:
    """The symbols an expression depends on, as dims."""
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return frozenset()
    return frozenset(a.dim for a in e.symbols)


@overload
def substitute(e: bool | Cond, values: Mapping[Dim, Size]) -> bool | Cond: ...  # type: ignore[overload-overlap]  # a bool is an int
@overload
def substitute(e: Size, values: Mapping[Dim, Size]) -> Size: ...
def substitute(e: Size | bool | Cond, values: Mapping[Dim, Size]) -> Size | bool | Cond:
    """The expression with symbols replaced, all at once, and simplified as if it had been written so."""
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return e
    if not values:
        return e
    replaced: Size | Cond = _replace(e, {_symbol_of(d): v for d, v in values.items()}, {})
    return replaced


def substitute_atoms(e: Any, values: Mapping[Atom, Size]) -> Any:
    return _replace(e, values, {}) if values else e


def _symbol_of(d: Dim) -> Atom:
    atom = d.atom if isinstance(d, Dim) else None
    if atom is None or atom.kind != "symbol":
        raise AnyshapeError(f"only a symbol can be given a value, not {d}")
    return atom


def _replace(e: Any, values: Mapping[Atom, Size], done: dict[Any, Any]) -> Any:
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return e
    if e.symbols.isdisjoint(values):
        return e
    hit = done.get(e)
    if hit is None:
        if isinstance(e, Cond):
            hit = REBUILD[e.kind](*(_replace(a, values, done) for a in e.args))
        else:
            hit = replaced_terms(e, lambda atom: _replace_atom(atom, values, done))
        done[e] = hit
    return hit


def _replace_atom(atom: Atom, values: Mapping[Atom, Size], done: dict[Any, Any]) -> Size:
    if atom.kind == "symbol":
        return values.get(atom, atom.dim)
    if atom.symbols.isdisjoint(values):
        return atom.dim
    hit: Size | None = done.get(atom)
    if hit is None:
        hit = done[atom] = REBUILD[atom.kind](*(_replace(a, values, done) for a in atom.args))
    return hit


@overload
def evaluate(e: bool | Cond, values: Mapping[Dim, int]) -> bool: ...
@overload
def evaluate(e: Size, values: Mapping[Dim, int]) -> int: ...
def evaluate(e: Size | bool | Cond, values: Mapping[Dim, int]) -> int | bool:
    """The number (or truth) of an expression; raises OverflowedError when a value leaves signed 64 bits."""
    return _value(e, {_symbol_of(d): v for d, v in values.items()}, {}, True)


def value_text(e: Size | bool | Cond, values: Mapping[Dim, int]) -> str:
    """The number of an expression for a message, also where 64 bits do not hold it."""
    return str(_value(e, {_symbol_of(d): v for d, v in values.items()}, {}, False))


def _value(e: Size | bool | Cond, values: Mapping[Atom, int], done: dict[Any, int], limited: bool) -> int:
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return e
    if e in done:
        return done[e]
    if isinstance(e, Cond):
        result: int = _truth(e, values, done, limited)
    else:
        result = sum(_terms(e, values, done, limited))
        _require_fit(e, result, limited)
    done[e] = result
    return result


def _terms(e: Dim, values: Mapping[Atom, int], done: dict[Any, int], limited: bool) -> list[int]:
    return [
        prod((_atom_value(atom, values, done, limited) for atom in monomial), start=coefficient)
        for monomial, coefficient in e.terms
    ]


def _require_fit(e: Dim | Cond, result: int, limited: bool) -> None:
    if limited and not INT64_MIN <= result <= INT64_MAX:
        raise OverflowedError(f"{e} is {result}, which does not fit a signed 64-bit integer")


def _truth(c: Cond, values: Mapping[Atom, int], done: dict[Any, int], limited: bool) -> bool:
    kind, args = c.kind, c.args
    if kind in ("eq", "ge"):  # one side against the other: their difference need not fit
        terms = _terms(args[0], values, done, limited)
        signs = [coefficient > 0 for _, coefficient in args[0].terms]
        plus = sum(t for t, positive in zip(terms, signs) if positive)
        minus = -sum(t for t, positive in zip(terms, signs) if not positive)
        _require_fit(c, plus, limited)
        _require_fit(c, minus, limited)
        return plus == minus if kind == "eq" else plus >= minus
    if kind == "not":
        return not _value(args[0], values, done, limited)
    if kind == "and":
        return all(_value(a, values, done, limited) for a in args)
    return any(_value(a, values, done, limited) for a in args)


def _atom_value(atom: Atom, values: Mapping[Atom, int], done: dict[Any, int], limited: bool) -> int:
    if atom.kind == "symbol":
        value = values.get(atom)
        if value is None:
            known = ", ".join(sorted(a.name for a in values)) or "none"
            raise AnyshapeError(f"no value for the symbol {atom.name}; values are given for {known}")
        return value
    if atom.kind == "select":
        condition, then, otherwise = atom.args
        return _value(then if _value(condition, values, done, limited) else otherwise, values, done, limited)
    args = [_value(a, values, done, limited) for a in atom.args]
    return int(REBUILD[atom.kind](*args))
