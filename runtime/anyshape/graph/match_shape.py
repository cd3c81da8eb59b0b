"""`match_shape(x, "f32[n, 10]")`: a type written in the middle of a program, checked there and known from there on.

In: a value and the text of a type. Out: the same value through `ensure_shape`, its required dims an operand. A name in the text
stands for a size of the function that the call ends up in: a dim of an input that has the name, or else the dim at which the
name is written first. Which that is shows only when the function is closed, so until then the name is a `DimValue`, and
`resolved` puts the size in its place. It calls ops by name, as users do: how many calls there are follows from a text, which no spec's
composition can take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anyshape.dims import (
    Definition,
    Dim,
    Size,
    bounds,
    definitions,
    eq,
    free_symbols,
    ge,
    linear,
    substitute,
    symbol,
)
from anyshape.dtypes import parse_dtype
from anyshape.errors import ArgumentError, DtypeError, ParseError, ShapeError, UnsupportedError
from anyshape.graph.callee import bind_argument
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import Function, topological
from anyshape.graph.infer import rebuild
from anyshape.graph.joining import joined_list, unlike_ranks
from anyshape.graph.local_names import localised, over
from anyshape.graph.matching import make
from anyshape.graph.required import after
from anyshape.graph.value import Value, constant
from anyshape.public import public
from anyshape.types import FunctionType, ListType, TensorType, parse_type

I64 = parse_dtype("i64")


class DimValue(Value):
    """A size that a text calls by a name, as a vector of one item; `of` and `axis` say where it is written, if anywhere but in an input."""

    __slots__ = ("axis", "dim", "of", "within")

    def __init__(self, size: Dim, of: Value | None = None, axis: int = 0, within: Size | None = None) -> None:
        super().__init__(TensorType(I64, (1,)), f"dim {size}", contents=(size,))
        self.dim, self.of, self.axis, self.within = size, of, axis, size if within is None else within


@dataclass(frozen=True, slots=True)
class DimSource:
    """A dim of a value that tells a symbol: it is (dim - rest) / factor."""

    of: Value
    axis: int
    factor: int = 1
    rest: Size = 0

    def size(
        self, places: Mapping[Dim, DimSource], mapped: Mapping[Value, Value] | None = None, source: str = ""
    ) -> Value:
        """The symbol as a vector of one item; `mapped` has what stands for values now."""
        of = (mapped or {}).get(self.of, self.of)
        size = make("shape_of", [of], {"start": self.axis, "end": self.axis + 1}, source)
        if not isinstance(self.rest, int) or self.rest != 0:
            size = make("sub", [size, _size(self.rest, places)], {}, source)
        return size if self.factor == 1 else make("div", [size, constant(np.array([self.factor]))], {}, source)


@public
def match_shape(x: Value, type: str, source: str = "") -> Value:
    """x, known to be of this type: numbers are checked, `?` is anything, a name is the same size wherever the function says it.

    Raises DtypeError or ShapeError where x cannot be of that type, ParseError for a text that is none.
    """
    expected = parse_type(type)
    if x.type.dtype is not expected.dtype:
        raise DtypeError(f"match_shape: expected {type}, got {x.type}; use cast to change the dtype")
    if expected.shape is None:
        return x
    if x.type.rank not in (None, expected.rank):
        raise ShapeError(f"match_shape: expected {type}, of rank {expected.rank}, got {x.type}")
    places = definitions(enumerate(expected.shape))
    pieces = [_piece(n, x, axis, type, expected.shape, places) for axis, n in enumerate(expected.shape)]
    if all(p.constant is not None for p in pieces):
        shape: Value = constant(np.concatenate([np.zeros(0, np.int64), *(p.constant for p in pieces)]))
    else:
        shape = make("concat", [pieces], {"axis": 0}, source)
    return make("ensure_shape", [x], {"shape": shape}, source)


def ensure(v: Value, expected: TensorType, where: str, params: Sequence[Value]) -> Value:
    """v as a value of a type whose dims follow from those of parameters, or are names of their own: checked where that is not seen, as is a
    rank that branches decide.

    Raises DtypeError or ShapeError."""
    if isinstance(expected, ListType | FunctionType) or isinstance(v.type, ListType | FunctionType):
        fits = isinstance(expected, ListType) and joined_list(expected, v.type, where) == expected
        if not fits and expected != v.type:
            raise DtypeError(f"{where} must be {expected}, got {v.type}")
        return v
    of_branches = v.type.shape is None and unlike_ranks(topological([v]))
    _demand_kind(v, expected, where, of_branches)
    known = {n for p in params for n in p.type.symbols()}
    open_: list[Size | None] = []
    for axis, (n, m) in enumerate(zip(expected.shape or (), v.type.shape or expected.shape or ())):
        decided = eq(n, m) if v.type.shape is not None else None
        if decided is False:
            raise ShapeError(f"{where} must be {expected}, got {v.type}: dim {axis} is not {n}")
        own = isinstance(n, Dim) and not free_symbols(n) <= known
        open_.append(None if decided is True or own else n)
    if all(n is None for n in open_) and not of_branches:
        return v
    places = _entry_places(params)
    for size in (n for n in open_ if n is not None):
        unknown = free_symbols(size) - places.keys()
        if unknown or (isinstance(size, Dim) and any(a.kind != "symbol" for t, _ in size.terms for a in t)):
            raise UnsupportedError(f"a declared dim may be a sum of products of dims of the parameters; {size} is none")
    return ensured(v, [None if n is None else _size(n, places) for n in open_], where)


def _demand_kind(v: Value, expected: TensorType, where: str, any_rank: object) -> None:
    if v.type.dtype is not expected.dtype:
        raise DtypeError(f"{where} must be {expected}, got {v.type}")
    if v.type.rank != expected.rank and not any_rank:
        raise ShapeError(f"{where} must be {expected}, got {v.type}")


def ensured(v: Value, sizes: Sequence[Value | None], where: str) -> Value:
    """v with these sizes, vectors of one item; anything where there is None."""
    pieces = [constant(np.array([-1], np.int64)) if n is None else n for n in sizes]
    shape = make("concat", [pieces], {"axis": 0}, "") if pieces else constant(np.zeros(0, np.int64))
    return make("ensure_shape", [v], {"shape": shape}, where)


def as_parameters(name: str, params: Sequence[Value], arguments: Sequence[Value]) -> list[Value]:
    """Arguments of a function as values of its parameters' types: a dim that is a number, that another dim is called like, or that has
    bounds is checked where that is not seen.

    Raises DtypeError or ShapeError for what cannot fit."""
    actual: dict[Dim, Size] = {}
    positions: dict[Dim, DimSource] = {}
    fitted: list[Value] = []
    for k, (p, v) in enumerate(zip(params, arguments, strict=True)):
        where, t = f"{name}: argument {k}", p.type
        if (t.rank is not None and v.type.rank is not None) or t.dtype is not v.type.dtype:
            bind_argument(where, t, v.type, actual)
        for s, d in definitions(enumerate(t.shape or ()), positions).items():
            positions[s] = DimSource(v, d.place, d.factor, d.rest)
        sizes = [_demanded(n, v, axis, actual, positions) for axis, n in enumerate(t.shape or ())]
        fitted.append(v if all(n is None for n in sizes) else ensured(v, sizes, where))
    return fitted


def _demanded(
    n: Size, v: Value, axis: int, actual: dict[Dim, Size], positions: Mapping[Dim, DimSource]
) -> Value | None:
    """The size that v must have along an axis; None where it is known to have it, or where this argument is the first to define it."""
    m = v.type.shape[axis] if v.type.shape is not None else None
    if isinstance(n, Dim) and n.is_symbol and (positions[n].of, positions[n].axis, positions[n].factor) == (v, axis, 1):
        return None if m is not None and _is_within(m, *bounds(n)) else _limited(v, axis, *bounds(n))
    if not free_symbols(n) <= positions.keys() or (
        isinstance(n, Dim) and any(a.kind != "symbol" for t, _ in n.terms for a in t)
    ):
        return None
    seen = m is not None and free_symbols(n) <= actual.keys() and eq(substitute(n, actual), m) is True
    return None if seen else _size(n, positions)


def _is_within(m: Size, low: int | None, high: int | None) -> bool:
    return (low is None or ge(m, low) is True) and (high is None or ge(high, m) is True)


def _limited(v: Value, axis: int, low: int | None, high: int | None) -> Value:
    """The nearest size within bounds: that of v, or one that v does not have."""
    size = make("shape_of", [v], {"start": axis, "end": axis + 1}, "")
    if low is not None:
        size = make("maximum", [size, constant(np.array([low], np.int64))], {}, "")
    return size if high is None else make("minimum", [size, constant(np.array([high], np.int64))], {}, "")


def _size(n: Size, places: Mapping[Dim, DimSource]) -> Value:
    """A size as a vector of one item, computed from the dims that define its symbols."""
    if isinstance(n, int):
        return constant(np.array([n], np.int64))
    return _computed(n, {s: places[s].size(places) for s in free_symbols(n)})


def _entry_places(params: Sequence[Value]) -> dict[Dim, DimSource]:
    """Returns the places in parameters at which their symbols are read."""
    sizes = [((p, axis), n) for p in params for axis, n in enumerate(p.type.shape or ())]
    return {s: DimSource(*d.place, d.factor, d.rest) for s, d in definitions(sizes).items()}


def _piece(
    n: Size, x: Value, axis: int, text: str, shape: Sequence[Size], places: Mapping[Dim, Definition[int]]
) -> Value:
    """One required dim as a vector of one item; -1 for `?`. `places`: which dim of the text tells each name."""
    if isinstance(n, int):
        return constant(np.array([n], np.int64))
    if n.name.startswith("?"):
        return constant(np.array([-1], np.int64))
    if any(a.kind != "symbol" for monomial, _ in n.terms for a in monomial):
        raise ParseError(
            f"match_shape: {text!r}: a dim must be a number, ?, a name, or a sum of products of names, got {n}"
        )
    at = {s: places[s].place if s in places else axis for s in free_symbols(n)}
    named = {s: DimValue(s, x, k, shape[k]) for s, k in at.items()}
    return named[n] if n.is_symbol else _computed(n, named)


def _computed(n: Dim, values: Mapping[Dim, Value]) -> Value:
    """A sum of products of vectors of one item."""
    total: Value | None = None
    for monomial, factor in n.terms:
        product: Value = constant(np.array([factor]))
        for atom in monomial:
            product = make("mul", [product, values[atom.dim]], {}, "")
        total = product if total is None else make("add", [total, product], {}, "")
    assert total is not None
    return total


def resolved(params: Sequence[Value], results: Sequence[Value], held: Sequence[Value] = ()) -> list[Value]:
    """The results with every name of a dim read off an input, or off the value at which it is written first; put through what is required,
    which is known of all of them."""
    nodes = topological((*held, *results))
    if not held and not any(isinstance(v, DimValue) for node in nodes for v in node.inputs):
        return list(results)
    scope = _entry_names(params)
    entry = EntryFacts(Function(params, ()), required={h.node for h in held})
    mapped: dict[Value, Value] = {}
    seen = {*params, *(v for node in nodes for v in node.outputs)}
    for node in nodes:
        inner: dict[Value, str] = {}
        for v in node.inputs:
            if isinstance(v, DimValue):
                name = v.dim.name
                if name not in scope and node.regions and (v.of is None or not (v.of in seen or v.of.is_constant)):
                    inner[v] = name
                    continue
                if name not in scope:
                    scope[name] = _written(v, scope)
                place = scope[name]
                mapped[v] = place.size({s: scope[s.name] for s in free_symbols(place.rest)}, mapped, node.source)
        inputs = tuple(v if v is None else mapped.get(v, v) for v in node.inputs)
        facts = entry.facts_for(inputs)
        rebuilt = localised(over(node, inputs), inner, facts) if inner else rebuild(node, inputs, facts)
        entry.learn(rebuilt)
        entry.rely_on(rebuilt, node)
        mapped.update(zip(node.outputs, rebuilt.outputs, strict=True))
    return after([mapped.get(v, v) for v in results], [mapped[h] for h in held])


def _written(v: DimValue, scope: Mapping[str, DimSource]) -> DimSource:
    """Returns the place at which a name is written first. Raises ArgumentError if it is nowhere, or beside other names that nothing
    tells."""
    parts = linear(v.within, v.dim)
    if v.of is None or parts is None or not {s.name for s in free_symbols(parts[1])} <= scope.keys():
        known = ", ".join(scope) or "none"
        if v.of is None:
            raise ArgumentError(f"a size is computed of {v.dim}, and no input has that dim; there are {known}")
        raise ArgumentError(f"match_shape: the dim {v.within} does not tell {v.dim}; known are {known}")
    return DimSource(v.of, v.axis, *parts)


def names_of_unknowns(params: Sequence[Value], results: Sequence[Value]) -> dict[Dim, Size]:
    """Symbols by the names that texts give to unknown dims of inputs, so that these can be spoken of: f.specialize(n=128)."""
    unknown = {s for p in params for s in p.type.symbols() if s.name.startswith("?")}
    taken, renamed = set(_entry_names(params)), dict[Dim, Size]()
    for node in topological(results) if unknown else ():
        for v in node.inputs:
            if not isinstance(v, DimValue) or v.of is None or v.dim.name in taken:
                continue
            taken.add(v.dim.name)
            if v.within is not v.dim:
                continue
            n = v.of.type.shape[v.axis] if v.of.type.shape is not None else None
            if isinstance(n, Dim) and n in unknown:
                renamed.setdefault(n, symbol(v.dim.name, *bounds(n)))
    return renamed


def _entry_names(params: Sequence[Value]) -> dict[str, DimSource]:
    return {s.name: place for s, place in _entry_places(params).items() if not s.name.startswith("?")}
