"""Sizes that models compute in floats: what is said of them is what floats give for every size within the bounds, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anyshape
from anyshape import ops
from anyshape.dims import Dim, evaluate, free_symbols
from tests.frontends.models import model, node, tensor

Array = NDArray[Any]
LIMIT = 5000
EXACT: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "halves": (lambda n: ops.floor(n * 0.5), lambda n: np.floor(n * n.dtype.type(0.5))),
    "windows": (lambda n: ops.ceil(n / 4.0) * 4.0, lambda n: np.ceil(n / n.dtype.type(4)) * 4),
    "thirds": (lambda n: ops.floor(n / 3.0), lambda n: np.floor(n / n.dtype.type(3))),
    "sevenths": (lambda n: ops.ceil(n / 7.0) + 1.0, lambda n: np.ceil(n / n.dtype.type(7)) + 1),
    "scaled": (lambda n: ops.floor(n * 1.515625), lambda n: np.floor(n * n.dtype.type(1.515625))),
    "below": (lambda n: ops.floor((n - 10000.0) * 0.25), lambda n: np.floor((n - 10000) * n.dtype.type(0.25))),
    "truncated": (lambda n: n * 2.75, lambda n: n * n.dtype.type(2.75)),
    "divided": (lambda n: ops.ceil((n * 3.0 + 1.0) / 2.5), lambda n: np.ceil((n * 3 + 1) / n.dtype.type(2.5))),
    "clamped": (
        lambda n: ops.minimum(ops.maximum(n * 0.5, -1e9), 300.0),
        lambda n: np.minimum(np.maximum(n * n.dtype.type(0.5), n.dtype.type(-1e9)), 300),
    ),
    "negative": (lambda n: -ops.floor(-n * 0.5), lambda n: -np.floor(-n * n.dtype.type(0.5))),
}  # fmt: skip
OPEN: dict[str, Callable[[Any], Any]] = {
    "a tenth, which no float is": lambda n: ops.floor(n * 0.1),
    "a quotient that was rounded": lambda n: ops.floor(n / 3.0 * 2.0),
    "the larger one of what was rounded": lambda n: ops.floor(ops.maximum(n / 3.0, 100.5)),
    "an infinite number": lambda n: ops.floor(n * np.inf),
    "a part of a negative number": lambda n: (n - 10000.0) * 0.5,
    "a quotient by zero": lambda n: ops.floor(n / 0.0),
}


def size_of(expression: Callable[[Any], Any], dtype: str, high: int | None) -> Any:
    """The element of a size that is computed of n by floats of a dtype, and the symbol n."""
    x = anyshape.input("x", "f32[n]")
    n = ops.cast(ops.shape_of(x), to=dtype)
    f = anyshape.function([x], {"size": ops.cast(expression(n), to="i64")})
    shapes = anyshape.shapes(f, {"n": (0, high)})
    elements = shapes.values["size"].elements
    return elements and elements[0], shapes.dims["n"].symbol


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", EXACT)
def test_sizes_are_those_that_floats_give(name: str, dtype: str) -> None:
    expression, in_numpy = EXACT[name]
    size, n = size_of(expression, dtype, LIMIT)
    assert isinstance(size, Dim) and str(size).count("n"), size
    numbers = np.arange(LIMIT + 1)
    want = in_numpy(numbers.astype({"f32": np.float32, "f64": np.float64}[dtype])).astype(np.int64)
    assert [evaluate(size, {n: k}) for k in numbers.tolist()] == want.tolist()


@pytest.mark.parametrize("name", OPEN)
def test_nothing_is_said_where_a_float_may_be_another_number(name: str) -> None:
    size, n = size_of(OPEN[name], "f32", LIMIT)
    assert not isinstance(size, Dim) or str(n) not in str(size), size


@pytest.mark.parametrize(("dtype", "most"), [("f32", 1 << 24), ("f64", 1 << 53)])
def test_a_size_is_followed_as_far_as_floats_have_every_integer(dtype: str, most: int) -> None:
    def same(n: Any) -> Any:
        return n * 1.0

    size, n = size_of(same, dtype, most)
    assert size is n
    for high in (most + 1, None):
        size, n = size_of(same, dtype, high)
        assert not isinstance(size, Dim) or str(n) not in str(size), size


@pytest.mark.parametrize(("least", "is_known"), [((1 << 24) - 4, True), ((1 << 24) - 2, False)])
def test_a_quotient_is_followed_as_far_as_its_floor_is_proved(least: int, is_known: bool) -> None:
    size, n = size_of(lambda v: ops.floor(v / 3.0), "f32", least)
    assert (isinstance(size, Dim) and str(n) in str(size)) is is_known


def test_sizes_of_a_model_that_rounds_up_in_floats() -> None:
    """A model as exporters write `ceil(n / 4) * 4`: its sizes are known where n is bounded."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s first", "n"), node("Cast", "n", "f", to=1), node("Div", "f four", "q"),
        node("Ceil", "q", "c"), node("Mul", "c four", "r"), node("Cast", "r", "m", to=7), node("Unsqueeze", "m axes", "shape"),
        node("Expand", "one shape", "y"),
    ]  # fmt: skip
    constants = {
        "first": np.array(0), "four": np.array(4, np.float32), "axes": np.array([0]), "one": np.ones(1, np.float32)
    }  # fmt: skip
    proto = model(nodes, [tensor("x", ["n", 2])], "y", constants)
    known = anyshape.shapes(proto, {"n": (1, 4096)})
    (size,) = known.values["y"].type.shape  # type: ignore[union-attr, misc]
    n, run = known.dims["n"].symbol, anyshape.compile(proto, {"n": (1, 4096)})
    for k in (1, 3, 4, 5, 4095, 4096):
        assert (evaluate(size, {n: k}),) == run(np.ones((k, 2), np.float32)).shape == (-(-k // 4) * 4,)
    assert [*anyshape.shapes(proto).data]  # without a bound the floats may round


@pytest.mark.parametrize("step", [1.0, 3.0, 0.5])
def test_a_range_in_floats_is_as_long_as_its_ends_say(step: float) -> None:
    """`torch.arange(n, dtype=float32)` is a Range from 0.0 to a size that became a float."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s first", "n"), node("Cast", "n", "f", to=1), node("Range", "zero f step", "y"),
    ]  # fmt: skip
    constants = {"first": np.array(0), "zero": np.array(0, np.float32), "step": np.array(step, np.float32)}
    proto = model(nodes, [tensor("x", ["n"])], "y", constants)
    known = anyshape.shapes(proto, {"n": (0, 4096)})
    assert not known.data
    (size,) = known.values["y"].type.shape  # type: ignore[union-attr, misc]
    n, run = known.dims["n"].symbol, anyshape.compile(proto, {"n": (0, 4096)})
    for k in (0, 1, 5, 30, 4096):
        assert (evaluate(size, {n: k}),) == run(np.ones(k, np.float32)).shape == np.arange(0, k, step).shape
    assert [*anyshape.shapes(proto).data]  # without a bound the size may be rounded


CHOICES: dict[str, tuple[Callable[[Any], Any], Callable[[int], int]]] = {
    "less, of halves": (lambda n: ops.less(n * 0.5, 8.0), lambda n: n / 2 < 8),
    "equal, of a quotient that is exact": (lambda n: ops.equal(n * 0.25, 3.0), lambda n: n == 12),
    "a number is itself": (lambda n: ops.equal(n / 3.0, n / 3.0), lambda n: True),
    "a rounded quotient is below what all such are below": (lambda n: ops.less(n / 3.0, 1e9), lambda n: True),
    "none is above it": (lambda n: ops.greater_equal(n / 3.0, 1e9), lambda n: False),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_comparisons_of_floats_are_those_of_sizes(name: str) -> None:
    expression, is_so = CHOICES[name]
    size, n = size_of(expression, "f32", LIMIT)
    for k in (0, 1, 11, 12, 13, 15, 16, 17, LIMIT):
        assert (evaluate(size, {n: k}) if isinstance(size, Dim) else size) == is_so(k), k


@pytest.mark.parametrize("compare", [ops.equal, ops.less, ops.greater_equal], ids=["equal", "less", "greater_equal"])
def test_a_rounded_quotient_is_compared_only_where_all_such_are_apart(compare: Callable[..., Any]) -> None:
    """The float next to n / 3 may be one that n / 3 is not."""
    size, n = size_of(lambda v: compare(v / 3.0, 100.0), "f32", LIMIT)
    assert size is None or (isinstance(size, Dim) and n not in free_symbols(size)), size
