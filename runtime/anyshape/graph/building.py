"""Building a function by hand: `input` makes a parameter, `function` closes over results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.errors import ArgumentError
from anyshape.graph.function import Function
from anyshape.graph.match_shape import resolved
from anyshape.graph.value import Value
from anyshape.types import TensorType, parse_type


def input(name: str, type: str | TensorType) -> Value:
    """A parameter, of a type like "f32[n, 224]", "f32[?, ?]" or "f32[...]". A name of a dim means the same in every input."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"an input needs a name, got {name!r}")
    return Value(type if isinstance(type, TensorType) else parse_type(type), name)


def function(
    inputs: Sequence[Value],
    results: Value | Sequence[Value] | Mapping[str, Value],
    name: str = "main",
) -> Function:
    """The function of these inputs; a dict of results names them. Raises ArgumentError if something else is needed."""
    names = tuple(results) if isinstance(results, Mapping) else None
    listed = (results,) if isinstance(results, Value) else results.values() if isinstance(results, Mapping) else results
    values = tuple(listed)
    for v in (*inputs, *values):
        if not isinstance(v, Value):
            raise ArgumentError(f"inputs and results of a function are values of a graph, got {v!r}")
    strange = [v for v in inputs if not v.is_param]
    if strange:
        raise ArgumentError(f"an input of a function is made by anyshape.input, got {strange[0]}")
    return Function(tuple(inputs), resolved(inputs, values), name, names)
