"""A function that wants a type, called with values of which less is known: it compiles under that assumption, which is checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import DtypeError, ShapeError
from anyshape.graph.function import Function
from anyshape.passes import optimise


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def wants(*types: str) -> Function:
    """Parameters of these types, their exponentials."""
    params = [anyshape.input(f"p{k}", t) for k, t in enumerate(types)]
    return anyshape.function(params, [ops.exp(p) for p in params])


def called(f: Function, *types: str) -> Function:
    inputs = [anyshape.input(n, t) for n, t in zip("xyz", types)]
    return anyshape.function(inputs, list(control.call(f, inputs)))


@pytest.mark.parametrize(("argument", "result"), [("f32[?, ?]", "f32[10, 10]"), ("f32[...]", "f32[...]")])
def test_ten_by_ten_called_with_anything(argument: str, result: str) -> None:
    f = called(wants("f32[10, 10]"), argument)
    assert str(f.results[0].type) == result
    run = anyshape.compile(f)
    assert run(ones(10, 10)).shape == (10, 10)
    with pytest.raises(ShapeError, match=r"main: argument 0.*expected \[10, 10\], got \[10, 9\]"):
        run(ones(10, 9))


def test_checked_once_however_often_it_is_called() -> None:
    f, x = wants("f32[10, 10]"), anyshape.input("x", "f32[?, ?]")
    twice = anyshape.function([x], ops.add(control.call(f, [x])[0], control.call(f, control.call(f, [x]))[0]))
    done = optimise(twice)
    assert len([*done.checks, *(c for n in done.nodes for c in n.checks)]) == 1


def test_one_name_is_one_size() -> None:
    run = anyshape.compile(called(wants("f32[n, m]", "f32[m, 2*n]"), "f32[?, ?]", "f32[?, ?]"))
    assert [r.shape for r in run(ones(2, 3), ones(3, 4))] == [(2, 3), (3, 4)]
    for a, b in (((2, 3), (4, 4)), ((2, 3), (3, 5))):
        with pytest.raises(ShapeError, match="main: argument 1"):
            run(ones(*a), ones(*b))


def test_bounds_are_checked() -> None:
    f = wants("f32[n]").specialize(n=(2, 5))
    run = anyshape.compile(called(f, "f32[k]"))
    assert [run(ones(k)).shape for k in (2, 5)] == [(2,), (5,)]
    for k in (1, 6):
        with pytest.raises(ShapeError, match="main: argument 0"):
            run(ones(k))
    inside = called(f, "f32[k]").specialize(k=(3, 4))
    assert not [n for n in optimise(inside).nodes if n.op.name == "ensure_shape"]


def test_what_is_seen_to_fit_costs_nothing() -> None:
    assert [n.op.name for n in called(wants("f32[n, 10]", "f32[n]"), "f32[m, 10]", "f32[m]").nodes] == ["exp", "exp"]


@pytest.mark.parametrize(
    ("param", "got", "error", "text"),
    [
        ("f32[10, 10]", "f32[10, 9]", ShapeError, "argument 0 must be f32.10, 10., got f32.10, 9.: dim 1 is not 10"),
        ("f32[n, n]", "f32[3, 4]", ShapeError, "dim 1 is not n"),
        ("f32[10, 10]", "f32[?]", ShapeError, "must be f32.10, 10., got"),
        ("f32[?]", "i64[?]", DtypeError, "must be f32.*got i64"),
    ],
)
def test_what_cannot_fit_is_refused_where_it_is_called(param: str, got: str, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        called(wants(param), got)


def test_a_declared_function_checks_the_same() -> None:
    f = control.function("f", {"x": "f32[10, 10]"}, ["f32[10, 10]"])
    control.define(f, lambda x: ops.exp(x))
    x = anyshape.input("x", "f32[?, ?]")
    run = anyshape.compile(anyshape.function([x], control.call(f, [x])))
    assert run(ones(10, 10)).shape == (10, 10)
    with pytest.raises(ShapeError, match="10"):
        run(ones(10, 9))
