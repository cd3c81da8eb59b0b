"""Reading and replacing what dims and conditions are made of: free symbols, substitution, evaluation on integers.

In: a Size or condition, and values for symbols. Out: the same expression over other symbols, simplified again on the
way (`substitute`), or a plain number in checked 64-bit arithmetic (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Size, build
from anyshape.errors import AnyshapeError, OverflowedError

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def free_symbols(e: Size | Cond | bool) -> frozenset[Dim]:
    """The symbols an expression depends on, as dims."""
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return frozenset()
    return frozenset(a.dim for a in e.symbols)


@overload
def substitute(e: bool | Cond, values: Mapping[Dim, Size]) -> bool | Cond: ...  # type: ignore[overload-overlap]
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
            hit = _replace_terms(e, values, done)
        done[e] = hit
    return hit


def _replace_terms(p: Dim, values: Mapping[Atom, Size], done: dict[Any, Any]) -> Size:
    total: Size = 0
    kept: dict[Any, int] = {}
    for monomial, coefficient in p.terms:
        product: Size = coefficient
        changed = False
        for atom in monomial:
            value = _replace_atom(atom, values, done)
            changed = changed or value is not atom.dim
            product = product * value
        if changed:
            total = total + product
        else:
            kept[monomial] = coefficient
    return total + build(kept)


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
    return _value(e, {_symbol_of(d): v for d, v in values.items()}, {})


def _value(e: Size | bool | Cond, values: Mapping[Atom, int], done: dict[Any, int]) -> int:
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return e
    if e in done:
        return done[e]
    if isinstance(e, Cond):
        result: int = _truth(e, values, done)
    else:
        result = 0
        for monomial, coefficient in e.terms:
            product = coefficient
            for atom in monomial:
                product *= _atom_value(atom, values, done)
            result += product
        if not INT64_MIN <= result <= INT64_MAX:
            raise OverflowedError(f"{e} is {result}, which does not fit a signed 64-bit integer")
    done[e] = result
    return result


def _truth(c: Cond, values: Mapping[Atom, int], done: dict[Any, int]) -> bool:
    kind, args = c.kind, c.args
    if kind == "eq":
        return _value(args[0], values, done) == 0
    if kind == "ge":
        return _value(args[0], values, done) >= 0
    if kind == "not":
        return not _value(args[0], values, done)
    if kind == "and":
        return all(_value(a, values, done) for a in args)
    return any(_value(a, values, done) for a in args)


def _atom_value(atom: Atom, values: Mapping[Atom, int], done: dict[Any, int]) -> int:
    if atom.kind == "symbol":
        value = values.get(atom)
        if value is None:
            known = ", ".join(sorted(a.name for a in values)) or "none"
            raise AnyshapeError(f"no value for the symbol {atom.name}; values are given for {known}")
        return value
    if atom.kind == "select":
        condition, then, otherwise = atom.args
        return _value(then if _value(condition, values, done) else otherwise, values, done)
    args = [_value(a, values, done) for a in atom.args]
    return int(REBUILD[atom.kind](*args))
