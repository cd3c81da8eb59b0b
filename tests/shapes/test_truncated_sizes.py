"""Integer divisions towards zero of what may be negative, as ONNX's Div and torch's newer exporter write `(n - 1) // 2 + 1`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import Dim, evaluate, free_symbols
from tests.frontends.models import model, node, tensor

CASES = [(1, -1, 2), (1, -7, 3), (-1, 0, 4), (-3, 5, 4), (2, -9, 2), (1, 0, -3), (-2, 7, -5)]
"""The factor of n and what is added to it, and the divisor"""


def quotient_of(factor: int, added: int, divisor: int) -> tuple[Any, Any]:
    x = anyshape.input("x", "f32[n]")
    n = ops.shape_of(x)
    f = anyshape.function([x], {"size": ops.div(n * factor + added, divisor)})
    shapes = anyshape.shapes(f)
    elements = shapes.values["size"].elements
    return elements and elements[0], shapes.dims["n"].symbol


@pytest.mark.parametrize(("factor", "added", "divisor"), CASES)
def test_a_quotient_towards_zero_is_one_of_sizes(factor: int, added: int, divisor: int) -> None:
    size, n = quotient_of(factor, added, divisor)
    assert isinstance(size, Dim) and free_symbols(size) == {n}
    for k in range(40):
        assert evaluate(size, {n: k}) == int((factor * k + added) / divisor), k


def test_a_quotient_by_what_may_be_zero_is_not_followed() -> None:
    """The divisor n - 5 has no known sign: what a division by zero gives is no size."""
    x = anyshape.input("x", "f32[n]")
    n = ops.shape_of(x)
    elements = anyshape.shapes(anyshape.function([x], {"size": ops.div(n, n - 5)})).values["size"].elements
    assert elements is None or "n" not in str(elements[0])


def test_halves_as_the_newer_exporter_of_torch_writes_them() -> None:
    """`(n - 1) // 2 + 1` is the size of a convolution of stride 2, also where n may be 0."""
    nodes = [
        node("Shape", "x", "s", start=2), node("Sub", "s one", "less"), node("Div", "less two", "half"), node("Add", "half one", "m"),
        node("Expand", "one m", "y"), node("MaxPool", "x", "z", kernel_shape=[1], strides=[2]),
    ]  # fmt: skip
    proto = model(nodes, [tensor("x", [1, 2, "n"])], "y z", {"one": np.array([1]), "two": np.array([2])})
    known = anyshape.shapes(proto)
    assert not known.data
    run, n = anyshape.compile(proto), known.dims["n"].symbol
    for k in (1, 2, 5, 8):
        y, z = run(np.zeros((1, 2, k), np.float32))
        said = [evaluate(known.values[v].type.shape[-1], {n: k}) for v in ("y", "z")]  # type: ignore[union-attr, index]
        assert said == [y.shape[0], z.shape[2]]
