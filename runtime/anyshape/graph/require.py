"""`require(k <= 512, "…")`: what a program says of sizes, checked when it runs and known wherever the function speaks of them.

In: a condition on sizes, and a message. Out: nothing; the condition is part of the function that is closed over it, or of the branch or the
iteration that says it (`required` has the ops).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from numpy import bool_

from anyshape.dims import Cond, Sameness
from anyshape.errors import ArgumentError, ShapeError
from anyshape.graph.function import topological
from anyshape.graph.infer import build
from anyshape.graph.match_shape import DimValue
from anyshape.graph.required import REQUIRE
from anyshape.graph.sizes import inputs_with, truth_value
from anyshape.graph.value import Value
from anyshape.public import public, short

_said: ContextVar[list[Value] | None] = ContextVar("said", default=None)
"""What the branch or the iteration that is being built requires; None outside of any"""
_NEWEST: WeakKeyDictionary[Value, tuple[ref[Value], ...]] = WeakKeyDictionary()
"""The newest inputs that had the names in a requirement when it was stated, by requirement"""
_CLOSED = WeakSet[Value]()
"""The requirements that a function with all of their newest inputs has taken"""


@public
def require(condition: Any, message: str, source: str = "") -> None:
    """Requires a condition on sizes: `require(k <= 512, "at most 512")`, `require((n % 8).equal(0), …)`, `require(k.equal(n), …)`.

    The sizes are dims, of inputs or data-dependent, and integers that values hold (`ops.sum(lengths) <= n`). The function that is closed
    over them checks the condition as soon as they are known and relies on it everywhere: what follows from it is not checked again. What a
    branch or an iteration requires is checked where that runs. A name is a dim of the newest input that has it; a function of older ones
    alone checks it as well, unless one of the newest has been closed. Raises ShapeError, with the message, for what cannot hold, as a call
    does where it does not hold; ArgumentError for what is no condition on sizes.
    """
    if "\0" in message:
        raise ArgumentError("require: a message has no character 0")
    stated = _stated(condition, message)
    if stated is None:
        return
    held = build(REQUIRE, (stated,), {"message": message}, source).outputs[0]
    if held.node is None or not held.node.checks:
        return
    inside = _said.get()
    if inside is not None:
        inside.append(held)
        return
    newest, roots = _roots(held)
    for root in (*newest, *roots):
        root.required = (*root.required, held)
    _NEWEST[held] = tuple(ref(p) for p in newest)


def _stated(condition: Any, message: str) -> Value | None:
    """A condition as a value; None for one that holds."""
    if isinstance(condition, Sameness):
        condition = condition.demand()
    if isinstance(condition, bool | bool_):
        if condition:
            return None
        raise ShapeError(f"require: {message}: the condition is false")
    if isinstance(condition, Cond):
        return truth_value(condition)
    if not isinstance(condition, Value) or not condition.type.dtype.is_bool:
        raise ArgumentError(
            f"require: a condition on sizes is a comparison of dims or a bool value, got {short(condition)}"
        )
    known = condition.elements()
    if known is None or len(known) != 1:
        raise ArgumentError(
            f"require: a condition on sizes is one truth that follows from dims and integers, and {condition!r} reads other elements"
        )
    return condition


def _roots(held: Value) -> tuple[list[Value], list[Value]]:
    """The values, of any function that may be closed over a requirement, of which it is computed: the newest inputs of the names in it, and
    all others. Raises ArgumentError for a name that no input has any more."""
    newest, roots = list[Value](), list[Value]()
    for node in topological([held]):
        for v in node.inputs:
            if isinstance(v, DimValue):
                having = inputs_with(v.dim.name)
                if not having:
                    raise ArgumentError(f"require: no input has the dim {v.dim} any more; keep the value that it is of")
                newest.append(having.pop())
                roots += having
            elif v is not None and v.is_param:
                roots.append(v)
        if all(v is None or v.is_constant for v in node.inputs):
            roots += node.outputs
    return newest, roots


def required_of(inputs: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    """What is required of the sizes of a function, in the order in which it was said."""
    computed = (v for node in topological(results) for v in node.outputs)
    names = {s.name for p in inputs for s in p.type.symbols()}
    said = dict.fromkeys(h for v in (*inputs, *computed) for h in v.required)
    own = set(inputs)
    return sorted(
        (h for h in said if _is_of(h, own, names) and _is_meant(h, own)),
        key=lambda h: h.node.serial if h.node is not None else 0,
    )


def _is_meant(held: Value, inputs: set[Value]) -> bool:
    """Whether a requirement on names is one on dims of these inputs, and not of newer ones of another function."""
    newest = [p() for p in _NEWEST.get(held, ())]
    if inputs.issuperset(newest):
        _CLOSED.add(held)
        return True
    return None not in newest and held not in _CLOSED


def _is_of(held: Value, inputs: set[Value], names: set[str]) -> bool:
    """Whether all that a requirement is computed of is a function's."""
    read = [v for node in topological([held]) for v in node.inputs if v is not None and v.is_param]
    return all(v.dim.name in names if isinstance(v, DimValue) else v in inputs for v in read)


@contextmanager
def requirements() -> Iterator[list[Value]]:
    """What is required while a branch, an iteration or the body of a function is built."""
    said = list[Value]()
    token = _said.set(said)
    try:
        yield said
    finally:
        _said.reset(token)


__all__ = ["require", "required_of", "requirements"]
