"""Building a function by hand: `input` makes a parameter, `function` closes over results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.errors import ArgumentError
from anyshape.graph.function import UNNAMED, Function
from anyshape.graph.match_shape import names_of_unknowns, resolved
from anyshape.graph.require import required_of
from anyshape.graph.retype import with_dims
from anyshape.graph.sizes import remember, remember_input
from anyshape.graph.tuples import flat, flats, form_of, formed, member_names
from anyshape.graph.value import Value
from anyshape.public import public
from anyshape.types import TensorType, parse_types


@public
def input(name: str, type: str | TensorType) -> Any:
    """A parameter, of a type like "f32[n, 224]", "f32[?, ?]", "f32[...]" or "list[f32[?, 4]]". A name of a dim means the same in every
    input.

    Of a type like "(f32[n], i64[])" it is a tuple of parameters, `name.0` and `name.1`."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"an input needs a name, got {name!r}")
    types = parse_types(type)
    names = member_names(name, form_of(types))
    params = [Value(t, n) for t, n in zip(flat(types), names, strict=True)]
    for p in params:
        remember(p)
        remember_input(p)
    return formed(form_of(types), iter(params))


@public
def function(inputs: Sequence[Any], results: Any, name: str = UNNAMED) -> Function:
    """The function of these inputs, values or tuples of them; results are a value, a list, or a dict that names them, and tuples among them
    come out as tuples. Raises ArgumentError if something else is needed."""
    listed = (results,) if isinstance(results, Value) else results.values() if isinstance(results, Mapping) else results
    if not isinstance(listed, Iterable) or isinstance(listed, np.ndarray):
        raise ArgumentError(f"results of a function are a value, a list of values or a dict of them, got {results!r}")
    outputs = tuple(listed)
    said = tuple(results) if isinstance(results, Mapping) else tuple(f"output{k}" for k in range(len(outputs)))
    names = [n for one, v in zip(said, outputs) for n in member_names(one, form_of(v))]
    inputs, values = flats(inputs), tuple(flats(outputs))
    for v in (*inputs, *values):
        if not isinstance(v, Value):
            raise ArgumentError(f"inputs and results of a function are values of a graph, got {v!r}")
    strange = [v for v in inputs if not v.is_param]
    if strange:
        raise ArgumentError(f"an input of a function is made by anyshape.input, got {strange[0]}")
    held = required_of(inputs, values)
    closed = Function(tuple(inputs), resolved(inputs, values, held), name, names, form=form_of(outputs))
    return with_dims(closed, names_of_unknowns(inputs, (*held, *values)))
