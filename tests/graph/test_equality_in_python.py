"""`==` of Python on dims and values asks whether they are one object: what takes conditions refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ArgumentError
from anyshape.graph.value import Value


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


def inputs(**types: str) -> list[Any]:
    return [anyshape.input(name, t) for name, t in types.items()]


EQUALITIES: dict[str, Callable[[Any, Any, Any], Any]] = {
    r"k == n asks whether they are one dim; that the sizes are equal is k\.equal\(n\)": lambda n, k, total: k == n,
    r"that the sizes are unequal is ~k\.equal\(n\)": lambda n, k, total: k != n,
    r"that the sizes are equal is \(2\*n\)\.equal\(4\)": lambda n, k, total: 2 * n == 4,
    r"elements are compared by x\.equal\(y\)": lambda n, k, total: total == n,
    r"compared by x\.equal\(y\)": lambda n, k, total: n != total,
    r"one value; that their elements are equal is x\.equal\(y\)": lambda n, k, total: total == total + 1,
    r"elements are equal is ~x\.equal\(y\)": lambda n, k, total: total != total + 1,
}
TAKES: dict[str, Callable[[Any, Value], Any]] = {
    "require": lambda condition, x: ops.require(condition, "m"),
    "if": lambda condition, x: control.if_(condition, lambda: x, lambda: x + 1.0),
    "loop": lambda condition, x: control.loop(3, lambda i, v: [i < 2, v + 1.0], [x], condition),
    "operand": lambda condition, x: ops.where(condition, x, 1.0),
    "list": lambda condition, x: ops.where([condition], x, 1.0),
    "attribute": lambda condition, x: ops.sum(x, axes=[0], keepdims=condition),
}


@pytest.mark.parametrize("message", EQUALITIES)
@pytest.mark.parametrize("taken", TAKES)
def test_an_equality_of_python_is_no_condition(taken: str, message: str) -> None:
    """An equality of Python is a truth about dims and values as objects, which would be decided at once, and nothing would say so."""
    x, y, lengths = inputs(x="f32[n]", y="f32[k]", lengths="i64[b]")
    with pytest.raises(ArgumentError, match=message):
        TAKES[taken](EQUALITIES[message](x.shape[0], y.shape[0], ops.sum(lengths)), x)


@pytest.mark.parametrize("taken", TAKES)
def test_that_a_dim_is_itself_is_true_of_its_size(taken: str) -> None:
    x, y = inputs(x="f32[n]", y="f32[n]")
    TAKES[taken](x.shape[0] == y.shape[0], x)
    TAKES[taken](x.shape == y.shape, x)


def test_dims_are_keys_and_members() -> None:
    x, y = inputs(x="f32[n]", y="f32[k]")
    n, k = x.shape[0], y.shape[0]
    assert {n: 1, k: 2}[n] == 1 and k in [n, k, 3] and n not in (k, 3) and (n, k) == (n, k) and (n, k) != (k, n)
    assert [bool(truth) for truth in (n == k, n != k, n == n, n != n)] == [False, True, True, False] and repr(
        n == k
    ) == "False"
    assert {n + 1, n + 1, k + 1} == {k + 1, n + 1} and x.type == anyshape.input("z", "f32[n]").type != y.type


def test_not_and_in_of_python_ask_for_one_expression_and_decide_at_once() -> None:
    """The operators `not` and `in` ask as a dict and an `assert` do, by `__bool__` of what `==` gives, so that refusing them would refuse
    those."""
    x, y = inputs(x="f32[n]", y="f32[k]")
    n, k = x.shape[0], y.shape[0]
    asked = []
    control.if_(k <= n, lambda: asked.append((not k == n, k in (n, 1), k in (n, k), k == n or n == n)) or x, lambda: x)  # noqa: SIM201, `not` is what is tested
    assert asked == [(True, False, True, True)]
    with pytest.raises(ArgumentError, match="equal"):
        ops.require(k == n, "they differ")
