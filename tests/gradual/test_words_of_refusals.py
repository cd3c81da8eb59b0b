"""Refusals that only a run makes: what does not fit 64 bits, has no memory, or differs from turn to turn, in names and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import AnyshapeError, ArgumentError, OverflowedError, ShapeError

WAYS: dict[str, dict[str, Any]] = {
    "native": {},
    "python": {"loop": "python"},
    "interpreted": {"kernels": "interpret"},
}
Case = tuple[list[str], Callable[..., Any], list[Any], type[AnyshapeError], str]
CASES: dict[str, Case] = {
    "a message with a number beyond 64 bits": (
        ["i64[]"], lambda i: ops.dyn.zeros(ops.expand_dims(ops.sub(i, 2**63 - 4), axes=(0,))), [-(2**63)],
        ShapeError, "no negative dims, got [-18446744073709551612]",
    ),
    "a size of a result": (
        ["i64[]"], lambda i: ops.dyn.zeros(ops.expand_dims(ops.mul(i, 4), axes=(0,))), [2**62],
        OverflowedError, "a size of the result output0 does not fit",
    ),
    "a size in a check": (
        ["f32[n, 3]", "i64[]"], lambda x, r: ops.dyn.repeat(x, r, axis=0), [np.ones((2, 3)), 2**62],
        OverflowedError, "dyn.repeat: a size does not fit a signed 64-bit integer (",
    ),
    "a size of scratch": (
        ["f32[n, 3]", "i64[2]"], ops.dyn.tile, [np.ones((2, 3)), [2**62, 1]],
        OverflowedError, "does not fit a signed 64-bit integer",
    ),
    "a result of too many elements": (
        ["i64[1]"], ops.dyn.zeros, [[2**46]],
        AnyshapeError, "the result output0, of shape [70368744177664] and dtype float32, cannot be allocated",
    ),
    "what turns collect": (
        ["f32[n]", "i64[]"],
        lambda x, k: control.loop(k, lambda i, s: [ops.concat([s, x], axis=0), s], [x], collects=1),
        [np.ones(2), 3],
        ShapeError, "loop: dim 0 of what iteration 1 collects is 4, and was 2 before",
    ),
    "what a scan goes through": (
        ["f32[n]", "f32[m]"],
        lambda x, y: control.scan(lambda s, a, b: [ops.add(s, ops.mul(a, b))], [np.float32(0)], [x, y], 0, source="dot"),
        [np.ones(3), np.ones(2)],
        ShapeError, "(dot: scan): the dims differ: expected [3], got [2]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_says(name: str, way: str) -> None:
    types, make, elements, error, words = CASES[name]
    inputs = [anyshape.input(f"in{k}", t) for k, t in enumerate(types)]
    results = make(*inputs)
    exe = anyshape.compile(
        anyshape.function(inputs, list(results) if isinstance(results, tuple) else results), **WAYS[way]
    )
    arrays = [np.asarray(a, v.type.dtype.numpy) for a, v in zip(elements, inputs, strict=True)]
    with pytest.raises(error, match=re.escape(words)):
        exe(*arrays)


@pytest.mark.parametrize("way", WAYS)
def test_a_step_of_the_least_integer(way: str) -> None:
    x = anyshape.input("x", "f32[n]")
    s, e, p = (anyshape.input(name, "i64[1]") for name in "sep")
    run = anyshape.compile(anyshape.function([x, s, e, p], ops.dyn.slice(x, s, e, steps=p)), **WAYS[way])
    least = np.array([-(2**63)])
    np.testing.assert_array_equal(run(np.arange(5, dtype=np.float32), np.array([2**63 - 1]), least, least), [4.0])


def test_members_of_an_enum() -> None:
    x = anyshape.input("x", "f32[n]")
    with pytest.raises(ArgumentError, match="mode must be one of constant, edge, reflect, wrap, got 'mirror'"):
        ops.static.pad(x, pads=(1, 1), mode="mirror")


def test_branches_of_different_numbers_of_results() -> None:
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")
    with pytest.raises(ShapeError, match="the branch then has 2 results, and the branch otherwise 1 result"):
        control.if_(c, lambda: [x, x], lambda: x)
