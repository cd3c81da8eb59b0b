"""Sizes as values: a dim wherever an op takes a number, `ops.full(0.0, (4 * x.shape[0], k))`.

In: a number, a dim, a Value, or a list with some of each. Out: a Value of i64 whose contents are what is known. A symbol that data decide
is read off the value that has it, the first that did; the name of an input's dim is resolved when the function is closed (`DimValue`).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from anyshape.dims import Cond, Dim, Size
from anyshape.errors import ArgumentError
from anyshape.graph.spelled import stacked
from anyshape.graph.value import Value, constant
from anyshape.public import short
from anyshape.types import TensorType

_PLACES: WeakKeyDictionary[Dim, tuple[ref[Value], int, bool]] = WeakKeyDictionary()
"""The value that has a symbol which no text names, and where: along an axis, or as an element."""


_INPUTS: WeakKeyDictionary[Value, None] = WeakKeyDictionary()
"""The inputs of functions that people build, in the order in which they are made"""


def remember_input(value: Value) -> None:
    _INPUTS[value] = None


def inputs_with(name: str) -> list[Value]:
    """The inputs that have a dim of that name, the newest last."""
    return [p for p in _INPUTS if any(s.name == name for s in p.type.symbols())]


def remember(value: Value, again: bool = False) -> None:
    """Notes where the symbols of a value stand that no text names; `again`: instead of where they stood before."""
    for k, n in enumerate(value.type.shape or ()):
        if isinstance(n, Dim):
            _note(n, value, k, again, False)
    for k, e in enumerate(value.contents or () if value.constant is None else ()):
        if isinstance(e, Dim):
            _note(e, value, k, again, True)


def _note(n: Dim, value: Value, k: int, again: bool, element: bool) -> None:
    if n.is_symbol and not _is_named(n):
        known = _PLACES.get(n)
        if again or known is None or known[0]() is None:
            _PLACES[n] = ref(value), k, element


def _is_named(n: Dim) -> bool:
    """Whether the symbol is one that texts of types name."""
    return not (n.name.startswith("?") or "." in n.name)


def is_size(argument: Any) -> bool:
    """Whether an argument is computed of dims or Values, and not of numbers alone."""
    return isinstance(argument, Dim) or (
        isinstance(argument, list | tuple) and any(isinstance(v, Dim | Value) for v in argument)
    )


def sizes(argument: Any, what: str) -> Value:
    """A dim as a value, or a list of numbers, dims and Values as a vector. Raises ArgumentError for anything else in it, an entry of
    `what`."""
    if isinstance(argument, Dim | int):
        return size(argument)
    return stacked([_entry(v, f"{what}[{k}]") for k, v in enumerate(argument)], 0)


def _entry(v: Any, what: str) -> Value:
    """An entry of a list of sizes, `i64[]`; a Value may also be a tensor of one element. Raises ArgumentError for anything else."""
    if isinstance(v, Dim) or (isinstance(v, int | np.integer) and not isinstance(v, bool)):
        return size(v if isinstance(v, Dim) else int(v))
    is_integer = isinstance(v, Value) and isinstance(v.type, TensorType) and v.dtype.is_index
    if not is_integer or any(isinstance(n, int) and n != 1 for n in v.type.shape or ()):
        got = v.type if isinstance(v, Value) else short(v)
        raise ArgumentError(f"{what} must be a number, a dim or a scalar of integers, got {got}")
    return _scalar(v, what)


def _scalar(v: Value, what: str) -> Value:
    from anyshape.graph.matching import make

    one: Value = v if v.dtype.name == "i64" else v.astype("i64")
    return one if one.type.rank == 0 else make("item", [one], {}, what)


def size(n: Size) -> Value:
    """A size as a value, `i64[]`. Raises ArgumentError for a symbol that no value has any more."""
    if isinstance(n, int):
        return constant(np.array(n))
    total: Value | None = None
    for monomial, factor in n.terms:
        product: Value | None = None
        for atom in monomial:
            one = _atom(atom.dim)
            product = one if product is None else product * one
        term = constant(np.array(factor)) if product is None else product if factor == 1 else product * factor
        total = term if total is None else total + term
    assert total is not None
    return total


def _atom(n: Dim) -> Value:
    from anyshape.graph.match_shape import DimValue
    from anyshape.graph.matching import make

    if n.is_symbol:
        if _is_named(n):
            return DimValue(n).reshape()
        place = _PLACES.get(n)
        value = None if place is None else place[0]()
        if place is None or value is None:
            raise ArgumentError(f"no value has the dim {n} any more; keep the value that it is of")
        k = place[1]
        if place[2]:
            return _scalar(value if value.type.rank in (0, None) else value.reshape(-1)[k], str(n))
        return make("shape_of", [value], {"start": k, "end": k + 1}, "").reshape()
    if n.kind in ("floordiv", "mod"):
        a, b = map(size, n.args)
        rest = a % b
        return rest if n.kind == "mod" else make("div", [a - rest, b], {}, "")
    if n.kind in ("min", "max"):
        first, *operands = map(size, n.args)
        for other in operands:
            first = make({"min": "minimum", "max": "maximum"}[n.kind], [first, other], {}, "")
        return first
    if n.kind == "select":
        return make("where", [truth_value(n.args[0]), size(n.args[1]), size(n.args[2])], {}, "")
    a, b = map(size, n.args)
    return make("where", [a.equal(1), b, a], {}, "")  # a broadcast


def truth_value(c: Cond) -> Value:
    """A condition on dims as a value."""
    if c.kind in ("and", "or"):
        first, *rest = map(truth_value, c.args)
        for other in rest:
            first = first & other if c.kind == "and" else first | other
        return first
    if c.kind == "not":
        return ~truth_value(c.args[0])
    return size(c.args[0]).equal(0) if c.kind == "eq" else size(c.args[0]) >= 0


__all__ = ["inputs_with", "is_size", "remember", "remember_input", "size", "sizes", "truth_value"]
