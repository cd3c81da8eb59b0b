"""A node of several outputs that only moves elements is a node for each of them: parts of a split are read where they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.passes.fuse import fuse
from anyshape.passes.outputs_apart import MOST, outputs_apart
from anyshape.passes.steps import KernelStep
from anyshape.vm import compile


def kernels(f: Any) -> list[list[str]]:
    return [[n.op.name for n in s.nodes] for s in fuse(f).steps if isinstance(s, KernelStep)]


def gated(parts: int) -> Any:
    """Every other part gates the next."""
    x = anyshape.input("x", f"f32[n, {4 * parts}]")
    split = ops.split(x, parts=parts, axis=1)
    return anyshape.function([x], [ops.mul(ops.sigmoid(a), b) for a, b in zip(split[::2], split[1::2], strict=False)])


@pytest.mark.parametrize("parts", [2, 4, MOST])
def test_parts_are_read_where_they_are_used(parts: int) -> None:
    f = gated(parts)
    assert all("mul" in names and names.count("split") == 2 for names in kernels(f)), kernels(f)
    agree(f, 4 * parts)


def test_many_parts_are_a_kernel_of_their_own() -> None:
    f = gated(MOST + 1)
    assert ["split"] in kernels(f)
    agree(f, 4 * (MOST + 1))


def test_parts_that_are_results_are_as_they_were() -> None:
    x = anyshape.input("x", "f32[n, 8]")
    a, b = ops.split(x, parts=2, axis=1)
    agree(anyshape.function([x], {"a": a, "b": b, "c": ops.neg(b)}), 8)


def test_what_computes_stays_one_node() -> None:
    x = anyshape.input("x", "f32[n, 8]")
    f = anyshape.function([x], list(ops.topk(x, k=3)))
    assert outputs_apart(f) is f


def agree(f: Any, width: int) -> None:
    x = np.random.default_rng(1).normal(size=(5, width)).astype(np.float32)
    native, slow = (compile(f, **how).run({"x": x}) for how in ({}, {"kernels": "interpret", "fuse": False}))
    for got, want in zip(native, slow, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_parts_of_a_split_in_a_branch_and_in_a_loop() -> None:
    """Code reads the results of a region itself, which are those of the function that its steps are of."""
    x = anyshape.input("x", "f32[4]")

    def product() -> list[Any]:
        a, b = ops.split(x, parts=2, axis=0)
        return [a * b]

    (y,) = control.if_(ops.sum(x) > 0, product, lambda: [x[:2]])

    def again(_: Any, v: Any) -> list[Any]:
        a, b = ops.split(v, parts=2, axis=0)
        return [ops.concat([b + a, a], axis=0)]

    (z,) = control.loop(2, again, [x])
    exe = compile(anyshape.function([x], [y, z]))
    values = np.array([1, 2, 3, 4], np.float32)
    for got, want in zip(exe(values), ([3, 8], [5, 8, 4, 6]), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(exe(-values)[0], [-1, -2])
