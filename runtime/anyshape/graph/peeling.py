"""Loops whose carried values have another rank after the first iterations, as branches: an iteration, then the loop over what it gives.

In: a node of a loop that has no form for all iterations. Out: a branch in its place, whose results have those of the loop, one by one:

    if(cond and trip > 0): the first iteration, then loop(trip - 1, its condition) over what it carries; stacks begin with what it collects
    otherwise:             the initial values, and stacks of no iterations

The ranks of two iterations that follow each other have to be the same by then, or that loop is peeled again, up to LIMIT times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from anyshape.dtypes import parse_dtype
from anyshape.errors import ShapeError
from anyshape.graph.control import IF
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.loops import LOOP, RankChanges, carried_count
from anyshape.graph.matching import make
from anyshape.graph.regions import captures, close, failed, params_for, retyped, spliced
from anyshape.graph.truth import known_truth
from anyshape.graph.value import Node, Value, constant, mark
from anyshape.types import TensorType

LIMIT = 4
"""How many iterations are peeled off a loop; each is code of its own."""

NAMES = ("then", "otherwise")
_DEPTH: ContextVar[int] = ContextVar("peeled", default=0)


def peeled(node: Node, why: RankChanges) -> Node:
    """The branch in place of a loop. Raises `why` where ranks go on changing."""
    begins = _begins(node.inputs[-2], node.inputs[-1], node.source)
    ends = known_truth(begins) is False
    if _DEPTH.get() >= LIMIT and not ends:
        raise why
    since = [mark()]
    some = [] if ends else _first_iteration(node, why)
    since.append(mark())
    none = _no_iteration(node, some[carried_count(node) :])
    sides = [(results, began) for results, began in zip((some, none), since)]
    captured = tuple(dict.fromkeys(v for results, began in sides for v in captures(results, (), began)))
    then, otherwise = (close(name, results, (), captured, began) for name, (results, began) in zip(NAMES, sides))
    if ends:
        then = failed(then.name, then.params, "loop: it has no iteration")
    return build(IF, (*captured, begins), {}, node.source, regions=(then, otherwise))


@contextmanager
def _one_deeper() -> Iterator[None]:
    token = _DEPTH.set(_DEPTH.get() + 1)
    try:
        yield
    finally:
        _DEPTH.reset(token)


def _begins(trip: Value | None, cond: Value | None, source: str) -> Value:
    """Whether a loop has an iteration."""
    conditions = [] if cond is None or known_truth(cond) is True else [_scalar(cond, source)]
    if trip is not None:
        conditions.append(make("greater", [_scalar(trip, source), constant(np.int64(0))], {}, source))
    if not conditions:
        return constant(np.True_)
    return conditions[0] if len(conditions) == 1 else make("logical_and", conditions, {}, source)


def _scalar(v: Value, source: str) -> Value:
    return v if v.type.shape == () else make("reshape", [v], {"newshape": ()}, source)


def _first_iteration(node: Node, why: RankChanges) -> list[Value]:
    """The results of a loop by its first iteration and a loop of the others."""
    body, n, source = node.regions[0], carried_count(node), node.source
    captured, trip = node.op.control.captured(node) if node.op.control is not None else (), node.inputs[-2]
    initial = [v for v in node.inputs[:n] if v is not None]
    results = spliced(body, [constant(np.int64(0)), *initial, *captured])
    if results is None:  # it relies on checks of its own entry
        raise why
    again, carried, collected = results[0], results[1 : 1 + n], results[1 + n :]
    left = None if trip is None else make("sub", [_scalar(trip, source), constant(np.int64(1))], {}, source)
    inputs = (*carried, *captured, left, again)
    try:
        with _one_deeper():
            rest = build(LOOP, inputs, node.attrs, source, regions=(_later(body, carried, captured, source),)).outputs
    except RankChanges:
        raise why from None
    return [*rest[:n], *(_stacked(k, one, rest[n + k], source) for k, one in enumerate(collected))]


def _stacked(k: int, one: Value, rest: Value, source: str) -> Value:
    mine, its = one.type.rank, rest.type.rank
    if mine is not None and its is not None and its != mine + 1:
        t = TensorType(rest.type.dtype, rest.type.shape[1:] if rest.type.shape is not None else None)
        raise ShapeError(
            f"loop: collected value {k}: its rank changes between iterations, from {one.type} to {t}; a stack has one"
        )
    return make("concat", [[make("expand_dims", [one], {"axes": (0,)}, source), rest]], {"axis": 0}, source)


def _later(body: Function, carried: Sequence[Value], captured: Sequence[Value], source: str) -> Function:
    """The body for iterations that are numbered from 0 again, over values of the types of those that the first iteration gives."""
    number = Value(TensorType(parse_dtype("i64"), ()), body.params[0].name)
    shifted = make("add", [number, constant(np.int64(1))], {}, source)
    own = params_for(body.params[1:], [*carried, *captured])
    return retyped(body, [number, *own], dict(zip(body.params, [shifted, *own], strict=True)))


def _no_iteration(node: Node, stacks: Sequence[Value]) -> list[Value]:
    """The results of a loop that has no iteration: the initial values, and of a first iteration what its stacks are as large as."""
    n = carried_count(node)
    initial = [v for v in node.inputs[:n] if v is not None]
    if not stacks:
        return initial
    body = node.regions[0]
    params = [body.params[0], *params_for(body.params[1:], [v for v in node.inputs[:-2] if v is not None])]
    typed = retyped(body, params, dict(zip(body.params, params, strict=True)))
    same = Function(
        typed.params,
        [constant(np.False_), *typed.params[1 : 1 + n], *typed.results[1 + n :]],
        body.name,
        checks=typed.checks,
    )
    inputs = (*node.inputs[:-2], constant(np.int64(0)), constant(np.False_))
    return list(build(LOOP, inputs, node.attrs, node.source, regions=(same,)).outputs)
