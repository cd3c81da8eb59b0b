"""The data of dims: atoms, polynomials over them and conditions, each hash-consed, and the ring operations + - *.

In: ints and dims. Out: `Size` values in normal form. A `Dim` is an integer polynomial over atoms and never constant:
an operation whose result is a number returns an `int`. Equal expressions are one object, so `==` and `hash` are
identity.

Everything else of this package builds on these three classes; the constructors that simplify (division, minimum,
select …) live in other files and register themselves in `REBUILD`, which operators and substitution look up by kind.
Intern tables hold their dims weakly, and caches of operations are emptied when they are full, so that a process may compile any number
of models. No expression is nested deeper than MAX_DEPTH: what walks one by recursion does not meet the end of Python's stack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NoReturn, TypeAlias, TypeVar
from weakref import WeakValueDictionary
from zlib import crc32

from anyshape.dims.interning import Consed, enter, nesting
from anyshape.errors import ArgumentError

Result = TypeVar("Result")
Size: TypeAlias = "int | Dim"
Monomial: TypeAlias = "tuple[Atom, ...]"
Interval: TypeAlias = "tuple[int | None, int | None]"

REBUILD: dict[str, Callable[..., Any]] = {}
"""kind of an atom or a condition -> the function that makes one from its arguments, simplified."""

NO_SYMBOLS: frozenset[Any] = frozenset()
_uids = count()
_CACHE_LIMIT = 1 << 12


def digest_of(*parts: object) -> int:
    """A number that is the same in every process, from names, ints and the digests of children; orders terms."""
    words = [str(p.digest) if isinstance(p, Atom | Dim | Cond) else str(p) for p in parts]
    return crc32("\0".join(words).encode())


class Atom(Consed):
    """What a polynomial cannot look into: a symbol, or an operation that is not + - *.

    kind  symbol min max floordiv mod bcast select
    args  Sizes, except for select: (Cond, Size, Size); empty for a symbol
    """

    __slots__ = ("__weakref__", "_samples", "args", "conds", "depth", "digest", "dim", "high", "kind", "low", "name", "order", "symbols",
                 "uid", "weight")  # fmt: skip

    dim: Dim

    def __init__(self, kind: str, name: str, args: tuple[Any, ...], low: int | None, high: int | None) -> None:
        self.kind, self.name, self.args, self.low, self.high = kind, name, args, low, high
        self.uid = next(_uids)
        self._samples: tuple[int, ...] | None = None
        if kind == "symbol":
            self.digest = digest_of(name, low, high)
            self.symbols: frozenset[Atom] = frozenset((self,))
            self.conds: frozenset[Cond] = NO_SYMBOLS
            self.depth, self.weight = 0, 1
        else:
            self.digest = digest_of(kind, *args)
            self.symbols = union_of_symbols(args)
            self.conds = NO_SYMBOLS.union(*(a.conds for a in args if not isinstance(a, int)))
            if kind == "select":
                self.conds |= {args[0]}
            self.depth, self.weight = nesting(args)
        self.order = (kind != "symbol", name, self.digest, self.uid)

    def __repr__(self) -> str:
        return str(self.dim)


class Cond(Consed):
    """A condition that bounds and algebra do not decide.

    kind  eq (args[0] == 0), ge (args[0] >= 0), not (of an eq), and, or (of two or more conditions)
    """

    __slots__ = ("__weakref__", "_samples", "args", "conds", "depth", "digest", "kind", "symbols", "uid", "weight")

    def __init__(self, kind: str, args: tuple[Any, ...]) -> None:
        self.kind, self.args = kind, args
        self.uid = next(_uids)
        self._samples: tuple[int, ...] | None = None
        self.digest = digest_of(kind, *args)
        self.symbols: frozenset[Atom] = union_of_symbols(args)
        self.conds: frozenset[Cond] = NO_SYMBOLS.union(*(a.conds for a in args))
        self.depth, self.weight = nesting(args)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"the condition {self} is undecided and cannot choose a branch of Python code")

    def __and__(self, other: bool | Cond) -> Any:
        return REBUILD["and"](self, other) if isinstance(other, bool | Cond) else NotImplemented

    def __or__(self, other: bool | Cond) -> Any:
        return REBUILD["or"](self, other) if isinstance(other, bool | Cond) else NotImplemented

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> bool | Cond:
        opposite: bool | Cond = REBUILD["not"](self)
        return opposite

    def __repr__(self) -> str:
        return str(REBUILD["text"](self))


class Sameness(int):
    """What `==` and `!=` of dims and of values give: the truth whether they are one object. What takes conditions calls `demand`: a plain
    bool would decide the condition while the program is built, and nobody would notice."""

    sides: tuple[Any, Any]

    def __new__(cls, left: Any, right: Any, truth: bool) -> Sameness:
        sameness = super().__new__(cls, truth)
        sameness.sides = left, right
        return sameness

    def demand(self) -> bool:
        """The truth if it is one of sizes and elements too: that something is itself. Raises ArgumentError for any other."""
        a, b = self.sides
        if a is b:
            return bool(self)
        asked, equal = ("!=", "~") if self else ("==", "")
        if not isinstance(a, Dim):
            raise ArgumentError(
                f"{asked} of values asks whether they are one value; that their elements are equal is {equal}x.equal(y)"
            )
        equal = f"{'un' * self}equal is {equal}{a if a.is_symbol else f'({a})'}.equal({b})"
        raise ArgumentError(f"{a} {asked} {b} asks whether they are one dim; that the sizes are {equal}")

    def __repr__(self) -> str:
        return repr(bool(self))


class Dim(Consed):
    """A non-constant integer polynomial. `terms` are (monomial, coefficient) pairs, highest degree first, the
    constant last."""

    __slots__ = (
        "__weakref__", "_bounds", "_digest", "_nonneg", "_samples", "_symbols", "conds", "depth", "terms", "uid",
        "weight"
    )  # fmt: skip

    def __array_ufunc__(self, ufunc: Any, how: str, *operands: Any, **options: Any) -> Any:
        """What NumPy's functions make of dims, and its integers on the left of an operator: `ufuncs.of_ufunc`."""
        return REBUILD["ufunc"](ufunc, how, operands, options)

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self.uid = next(_uids)
        self.depth = self.weight = 0
        self.conds: frozenset[Cond] = NO_SYMBOLS
        for monomial, _ in terms:
            for atom in monomial:
                self.depth = max(self.depth, atom.depth)
                self.weight += atom.weight
                if atom.conds:
                    self.conds |= atom.conds
        self._bounds: Interval | None = None
        self._nonneg: bool | None = None
        self._samples: tuple[int, ...] | None = None
        self._symbols: frozenset[Atom] | None = None
        self._digest: int | None = None

    @property
    def atom(self) -> Atom | None:
        """The atom, where the whole dim is one atom with coefficient 1."""
        if len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1:
                return monomial[0]
        return None

    @property
    def kind(self) -> str:
        """The kind of the only atom, or `poly`."""
        return "poly" if (atom := self.atom) is None else atom.kind

    @property
    def args(self) -> tuple[Any, ...]:
        return () if (atom := self.atom) is None else atom.args

    @property
    def is_symbol(self) -> bool:
        return (atom := self.atom) is not None and atom.kind == "symbol"

    @property
    def name(self) -> str:
        """The name of a symbol; of anything else the text with names of symbols as they are."""
        return (
            atom.name if (atom := self.atom) is not None and atom.kind == "symbol" else str(REBUILD["exact text"](self))
        )

    @property
    def constant(self) -> int:
        """The constant term."""
        monomial, coefficient = self.terms[-1]
        return 0 if monomial else coefficient

    @property
    def symbols(self) -> frozenset[Atom]:
        if self._symbols is None:
            self._symbols = frozenset().union(*(a.symbols for m, _ in self.terms for a in m))
        return self._symbols

    @property
    def digest(self) -> int:
        if self._digest is None:
            self._digest = digest_of(*(part for m, c in self.terms for part in (*m, c)))
        return self._digest

    def __bool__(self) -> NoReturn:
        raise TypeError(f"the dim {self} is not a number; compare it with anyshape.dims.eq, ge, …")

    def __repr__(self) -> str:
        return str(REBUILD["text"](self))

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return NotImplemented if computes(other) else Sameness(self, other, self is other)  # type: ignore[return-value]  # a Sameness stands for a bool

    def __ne__(self, other: object) -> bool:
        return NotImplemented if computes(other) else Sameness(self, other, self is not other)  # type: ignore[return-value]  # a Sameness stands for a bool

    def __neg__(self) -> Dim:
        return _scaled(self, -1)  # type: ignore[return-value]  # a Dim, as it is times no 0

    def __add__(self, other: Size) -> Size:
        if not isinstance(other, Dim) and not isinstance(other, int) and (other := as_size(other)) is NotImplemented:
            return NotImplemented
        hit = _sums.get((self, other))
        return _add(self, other) if hit is None else hit

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        if isinstance(other, int):
            return self + -other
        if self is other:
            return 0
        if not isinstance(other, Dim) and (other := as_size(other)) is NotImplemented:
            return NotImplemented
        return self + -other

    def __rsub__(self, other: Size) -> Size:
        return _scaled(self, -1) + other

    def __mul__(self, other: Size) -> Size:
        if not isinstance(other, Dim) and not isinstance(other, int) and (other := as_size(other)) is NotImplemented:
            return NotImplemented
        hit = _products.get((self, other))
        return _mul(self, other) if hit is None else hit

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["floordiv"](self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["floordiv"](other, self)

    def __mod__(self, other: Size) -> Size:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["mod"](self, other)

    def __rmod__(self, other: Size) -> Size:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["mod"](other, self)

    def __pow__(self, exponent: int) -> Size:
        result: Size = 1
        for _ in range(exponent):
            result = self * result
        return result

    def __ge__(self, other: Size) -> bool | Cond:
        """What is known of self >= other, as of other comparisons: a truth, or a condition."""
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["ge"](self - other)

    def __le__(self, other: Size) -> bool | Cond:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["ge"](other - self)

    def __gt__(self, other: Size) -> bool | Cond:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["ge"](self - other - 1)

    def __lt__(self, other: Size) -> bool | Cond:
        return NotImplemented if (other := as_size(other)) is NotImplemented else REBUILD["ge"](other - self - 1)

    def equal(self, other: Size) -> bool | Cond:
        """What is known of whether the sizes are equal. `==` says whether they are one dim."""
        size = as_size(other)
        if size is NotImplemented:
            raise TypeError(
                f"a dim is compared with a size, not with {other!r}; a value is compared with a dim by value.equal(dim)"
            )
        decided: bool | Cond = REBUILD["eq"](self - size)
        return decided


_table: WeakValueDictionary[frozenset[tuple[Monomial, int]], Dim] = WeakValueDictionary()
"""Dims by their terms, but for those that are one atom alone, which their atoms hold: no key may lead to what it stands for."""
ATOMS: WeakValueDictionary[tuple[Any, ...], Atom] = WeakValueDictionary()
_conds: WeakValueDictionary[tuple[Any, ...], Cond] = WeakValueDictionary()
_sums: dict[tuple[Dim, Size], Size] = {}
_products: dict[tuple[Dim, Size], Size] = {}
_monomials: dict[tuple[Monomial, Monomial], Monomial] = {}


def union_of_symbols(args: Iterable[Any]) -> frozenset[Atom]:
    return NO_SYMBOLS.union(*(a.symbols for a in args if not isinstance(a, int)))


def interned() -> dict[str, int]:
    """How many dims, atoms and conditions there are."""
    return {"dims": len(_table), "atoms": len(ATOMS), "conditions": len(_conds)}


def remember(cache: dict[Any, Result], key: object, value: Result) -> Result:
    """Put a result in an operation cache, which is emptied rather than left to grow without end."""
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = value
    return value


def as_size(value: Any) -> Any:
    """An int or Dim from what Python or NumPy give; NotImplemented for anything else (a Vec, say)."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, tuple | list) or computes(value):
        return NotImplemented
    try:
        return operator.index(value)
    except TypeError:
        return NotImplemented


def computes(value: Any) -> bool:
    """Whether it is a value of a graph, which computes with dims itself."""
    return not isinstance(value, Dim | int) and getattr(value, "computes_with_dims", False) is True


def _term_order(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    monomial = term[0]
    return (-len(monomial), *(a.order for a in monomial))


def build(terms: dict[Monomial, int]) -> Size:
    """The Size with these terms; zero coefficients are dropped."""
    if 0 in terms.values():
        terms = {m: c for m, c in terms.items() if c}
    if len(terms) < 2:
        if not terms:
            return 0
        if () in terms:
            return terms[()]
        ((monomial, coefficient),) = terms.items()
        if coefficient == 1 and len(monomial) == 1:
            return monomial[0].dim
    key = frozenset(terms.items())
    hit = _table.get(key)
    return enter(_table, key, Dim(tuple(sorted(terms.items(), key=_term_order)))) if hit is None else hit


def _add(a: Dim, b: Size) -> Size:
    if isinstance(b, int) and b == 0:
        return a
    terms = dict(a.terms)
    add_terms(terms, b)
    return remember(_sums, (a, b), build(terms))


def add_terms(terms: dict[Monomial, int], size: Size, factor: int = 1) -> None:
    """Adds `factor` times the terms of a size to those of a sum. A sum of many sizes is built once, from all terms: each part of it that is
    built on the way is sorted, interned and bounded like any dim."""
    if isinstance(size, int):
        terms[()] = terms.get((), 0) + factor * size
        return
    for monomial, coefficient in size.terms:
        terms[monomial] = terms.get(monomial, 0) + factor * coefficient


def _scaled(a: Dim, factor: int) -> Size:
    if factor == 1:
        return a
    hit = _products.get((a, factor))
    return remember(_products, (a, factor), build({m: c * factor for m, c in a.terms})) if hit is None else hit


def times(m: Monomial, n: Monomial) -> Monomial:
    """The product of two monomials: their atoms in order, repeated for powers."""
    if not m:
        return n
    if not n:
        return m
    hit = _monomials.get((m, n))
    if hit is None:
        hit = remember(_monomials, (m, n), tuple(sorted(m + n, key=_atom_order)))
    return hit


def _atom_order(atom: Atom) -> tuple[Any, ...]:
    return atom.order


def _mul(a: Dim, b: Size) -> Size:
    if isinstance(b, int):
        return 0 if b == 0 else _scaled(a, b)
    terms: dict[Monomial, int] = {}
    for m, c in a.terms:
        for n, e in b.terms:
            product = times(m, n)
            terms[product] = terms.get(product, 0) + c * e
    result = build(terms)
    if isinstance(result, Dim) and (a.conds or b.conds):
        result = REBUILD["merged"](result)
    remember(_products, (b, a), result)
    return remember(_products, (a, b), result)


def make_atom(kind: str, args: tuple[Any, ...], bounds: Interval) -> Size:
    """The dim that is one atom of an operation; its bounds are a function of kind and args, so they are no part
    of the key."""
    if bounds[0] is not None and bounds[0] == bounds[1]:
        return bounds[0]
    key = (kind, args)
    atom = ATOMS.get(key)
    return (enter_atom(key, Atom(kind, kind, args, *bounds)) if atom is None else atom).dim


def find_atom(kind: str, args: tuple[Any, ...]) -> Dim | None:
    atom = ATOMS.get((kind, args))
    return None if atom is None else atom.dim


def enter_atom(key: tuple[Any, ...], atom: Atom) -> Atom:
    return enter(ATOMS, key, with_dim(atom))


def with_dim(atom: Atom) -> Atom:
    atom.dim = Dim((((atom,), 1),))
    return atom


def make_cond(kind: str, args: tuple[Any, ...]) -> Cond:
    key = (kind, args)
    cond = _conds.get(key)
    return enter(_conds, key, Cond(kind, args)) if cond is None else cond


def replace_atoms(p: Dim, values: Mapping[Atom, Size]) -> Size:
    """The polynomial with some of its own atoms replaced; atoms inside other atoms' arguments are left as they are."""
    return replaced_terms(p, lambda atom: values.get(atom, atom.dim))


def replaced_terms(p: Dim, value: Callable[[Atom], Size]) -> Size:
    """The polynomial with a value for each of its own atoms, which is the atom's own dim where it stays."""
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in p.terms:
        if len(monomial) == 1:
            add_terms(terms, value(monomial[0]), coefficient)
            continue
        product: Size = coefficient
        changed = False
        for atom in monomial:
            by = value(atom)
            changed = changed or by is not atom.dim
            product = product * by
        if changed:
            add_terms(terms, product)
        else:
            terms[monomial] = terms.get(monomial, 0) + coefficient
    return build(terms)
