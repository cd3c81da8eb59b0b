"""Symbols: by name and bounds, fresh ones that equal nothing else, and twins with tighter bounds.

In: names and bounds. Out: dims that are one symbol.
"""

from __future__ import annotations

from itertools import count

from anyshape.dims.expr import ATOMS, Atom, Dim, enter_atom, with_dim


def symbol(name: str, low: int | None = 0, high: int | None = None) -> Dim:
    """The symbol of that name and those bounds: the same arguments give the same object."""
    key = ("symbol", name, low, high)
    return (ATOMS.get(key) or enter_atom(key, Atom("symbol", name, (), low, high))).dim


def twin_of(x: Atom, low: int | None, high: int | None) -> Dim:
    """A stand-in for the symbol x with tighter bounds, used inside one decision; never part of a result."""
    key = ("twin", x, low, high)
    return (ATOMS.get(key) or enter_atom(key, Atom("symbol", x.name, (), low, high))).dim


_fresh = count(1)
_last = 0


def fresh(prefix: str = "?", low: int | None = 0, high: int | None = None) -> Dim:
    """A symbol equal to nothing else, named like `?7`, or `k.7` for the prefix k (a name no text can spell as a
    plain one)."""
    global _last
    _last = number = next(_fresh)
    name = f"{prefix}{number}" if prefix.endswith("?") else f"{prefix}.{number}"
    return with_dim(Atom("symbol", name, (), low, high)).dim


def last_fresh() -> int:
    """The number of a symbol that `fresh` made; another one as soon as this or another thread has made one more."""
    return _last


def is_fresh(atom: Atom) -> bool:
    """Whether a symbol is one that `fresh` made, so that its name and bounds do not find it again."""
    return ATOMS.get(("symbol", atom.name, atom.low, atom.high)) is not atom
