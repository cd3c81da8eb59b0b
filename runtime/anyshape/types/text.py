"""`parse_type`: the text of a type, as people write it for inputs: f32[n, 224], i64[?], f32[...], f32[2*n + 1], list[f32[?, 4]]."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from anyshape.dims import Dim, Size, fresh, parse_dim, symbol
from anyshape.dtypes import parse_dtype
from anyshape.errors import AnyshapeError, ParseError
from anyshape.types.function_type import function_type
from anyshape.types.list_type import DIFFERS, list_of
from anyshape.types.tensor_type import TensorType

_TYPE = re.compile(r"\s*([A-Za-z]\w*)\s*(?:\[(.*)\])?\s*", re.S)


def parse_type(text: str, scope: MutableMapping[str, Dim] | None = None, low: int = 0) -> TensorType:
    """The type that text spells: of a tensor, `list[...]` or `optional[...]` of one, `function[... -> ...]`. Raises ParseError.

    A name is the symbol of that name in `scope`, or a new one (at least `low`) put there; `?` is a fresh symbol each
    time; `...` an unknown rank; `f32` alone and `f32[]` are scalars.
    """
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ParseError(
            f"{text!r} is not a type; write one like f32[n, 224], i64[2], f32[?, ?], f32[...] or list[f32[?, 4]]"
        )
    if match.group(1) in _LISTS and match.group(2):
        return _list_type(match.group(1), match.group(2).strip(), scope, low)
    if match.group(1) == "function" and match.group(2):
        return _function(match.group(2))
    try:
        dtype = parse_dtype(match.group(1))
    except AnyshapeError as e:
        raise ParseError(f"{text!r}: {e}") from None
    inside = (match.group(2) or "").strip()
    if inside == "...":
        return TensorType(dtype, None)
    names = {} if scope is None else scope
    return TensorType(dtype, tuple(_dim(piece, text, names, low) for piece in _split(inside)))


def parse_types(text: str | TensorType, scope: MutableMapping[str, Dim] | None = None) -> Any:
    """The type that text spells, or a tuple of them: `(f32[n], (i64[], f32[n, 4]))`. Raises ParseError."""
    if isinstance(text, TensorType):
        return text
    inside = text.strip()
    if not inside.startswith("("):
        return parse_type(text, scope)
    if not inside.endswith(")"):
        raise ParseError(f"{text!r}: a tuple is written (f32[n], i64[])")
    names: MutableMapping[str, Dim] = {} if scope is None else scope
    return tuple(parse_types(piece, names) for piece in _split(inside[1:-1].strip().rstrip(",")))


def _function(inside: str) -> TensorType:
    """`function[a, b -> c]`: its names are its own."""
    params, arrow, results = inside.partition("->")
    if not arrow or "->" in results:
        raise ParseError(f"'function[{inside}]': a function is written function[f32[n] -> f32[n]]")
    own: dict[str, Dim] = {}
    sides = [[parse_type(piece, own) for piece in _split(side.strip())] for side in (params, results)]
    return function_type(*sides)


def _list_type(word: str, inside: str, scope: MutableMapping[str, Dim] | None, low: int) -> TensorType:
    """`list[...]`: an unknown dim of the element differs from element to element; `[none]` in its place: no element came yet."""
    if inside.endswith("[none]"):
        return list_of(parse_type(f"{inside.removesuffix('[none]')}[...]"), word == "optional", never=True)
    element = parse_type(inside, scope, low)
    differing = {s: DIFFERS for s in element.symbols() if s.name.startswith("?")}
    return list_of(element.substitute(differing), word == "optional")


def _dim(piece: str, text: str, scope: MutableMapping[str, Dim], low: int) -> Size:
    if piece == "?":
        return fresh("?", low)
    if piece.startswith("?") and piece[1:].isalnum():  # how an unknown prints: one name, one symbol
        return scope.setdefault(piece, symbol(piece, low))
    for name in re.findall(r"[A-Za-z_]\w*", piece):
        if name not in scope and name not in _FUNCTIONS:
            scope[name] = symbol(name, low)
    try:
        size = parse_dim(piece, scope)
    except AnyshapeError as e:
        raise ParseError(f"{text!r}: {piece!r} is not a dim: {e}") from None
    if isinstance(size, int) and size < 0:
        raise ParseError(f"{text!r}: a dim cannot be negative, got {size}")
    return size


_LISTS = ("list", "optional")
_FUNCTIONS = frozenset(("min", "max", "bcast", "select", "and", "or", "not", "if", "else"))


def _split(inside: str) -> list[str]:
    """Splits at commas outside brackets."""
    pieces, depth, start = [], 0, 0
    for k, c in enumerate(inside):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            pieces.append(inside[start:k].strip())
            start = k + 1
    return [*pieces, inside[start:].strip()] if inside else []
