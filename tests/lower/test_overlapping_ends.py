"""Rows of maps that step over elements end with a vector that overlaps the one before it, unless a result may be an operand's memory; what
is masked of every second element is loaded by masked vectors."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.dtypes import parse_dtype
from anyshape.equations import Tensor
from anyshape.equations.functions import exp, maximum, pad
from anyshape.lower import host_target
from anyshape.lower.emit.scopes.rows import may_compute_twice
from anyshape.lower.kernel import Group
from anyshape.lower.lowering import lower_group
from anyshape.lower.schedule.kernel_schedule import schedule_group
from anyshape.lower.schedule.tree import Scope
from tests.lower.groups import Builder, M, N
from tests.lower.native import Native, check

LENGTHS = (0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 40, 63, 64, 65, 100)
SIZES = [{N: n, M: m} for n, m in [*((3, m) for m in LENGTHS), (0, 20), (70, 3)]]


def strided(step: int, dtype: str = "f32", heavy: bool = False) -> Group:
    """Every `step`-th element of rows, and of a row that all rows have."""
    b = Builder("strided")
    x, w = b.input([N, step * M], dtype), b.input([step * M], dtype)
    y = b.tensor([N, M], dtype)
    i, j = b.eqs.indices("i", y.shape)
    value = x[i, step * j] + w[step * j + (step - 1)]
    b.eqs.define(y[i, j], exp(value) if heavy else value)
    b.output(y)
    return b.group()


def in_place(step: int = 2, dtype: str = "f32") -> Group:
    """A sum with every second element, written over the operand that has the result's elements."""
    b = Builder("in_place")
    x, w = b.input([N, M], dtype), b.input([step * M], dtype)
    y = b.tensor([N, M], dtype)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[i, j] + w[step * j])
    b.output(y)
    return b.group()


def overlaps(group: Group) -> bool:
    (scope,) = [p for p in schedule_group(group).phases if isinstance(p, Scope)]
    return may_compute_twice(scope)


@pytest.mark.parametrize("step", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "i64"])
def test_rows_of_any_length(dtype: str, step: int) -> None:
    assert overlaps(strided(step, dtype))
    check(strided(step, dtype), SIZES)


def test_rows_of_long_bodies() -> None:
    check(strided(2, heavy=True), SIZES)


def test_several_parts() -> None:
    group = strided(2)
    check(group, [{N: n, M: m} for n, m in ((1, 1000), (1, 1001), (2, 65), (5, 16))])
    native, (x, w) = Native(group), group.inputs
    arrays = {x: np.arange(2002, dtype=np.float32).reshape(1, -1), w: np.ones(2002, np.float32)}
    for parts in (1, 2, 3, 7):
        status, (got,) = native.run(arrays, {N: 1, M: 1001}, parts=parts)
        assert status == 0
        np.testing.assert_array_equal(got, arrays[x][:, ::2] + 1)


def test_what_is_written_over_an_operand_is_computed_once() -> None:
    group = in_place()
    assert lower_group(group, host_target()).reusable == ((0, 0),) and not overlaps(group)
    check(group, SIZES)
    native, (x, w) = Native(group), group.inputs
    for m in LENGTHS:
        rows, ones = np.random.default_rng(m).normal(size=(3, m)).astype(np.float32), np.ones(2 * m, np.float32)
        arrays: dict[Tensor, np.ndarray] = {x: rows.copy(), w: ones}
        status, (got,) = native.run(arrays, {N: 3, M: m}, over=((0, 0),))
        assert status == 0
        np.testing.assert_array_equal(got, rows + 1)


def padded_steps(dtype: str = "f32") -> Group:
    """The largest of every second element and the one behind it, of rows with a pad of one at both ends."""
    b = Builder("padded_steps")
    x = b.input([N, M], dtype)
    y = b.tensor([N, M // 2 + 1], dtype)
    i, j = b.eqs.indices("i", y.shape)
    outside = 1 if parse_dtype(dtype).is_integer else 0.5
    seen = pad(x, outside)
    b.eqs.define(y[i, j], maximum(seen[i, j * 2 - 1], seen[i, j * 2]))
    b.output(y)
    return b.group()


GATHERS = "masked.gather"


def test_which_elements_are_gathered() -> None:
    """Elements of larger steps are gathered, and elements of which a masked load would be one load each."""
    target = host_target()
    assert GATHERS not in lower_group(in_place(), target).text
    assert GATHERS not in lower_group(in_place(), target.limited("avx2")).text
    assert GATHERS in lower_group(in_place(3), target).text
    assert GATHERS in lower_group(in_place(dtype="i8"), target.limited("avx2")).text
    assert GATHERS in lower_group(in_place(), target.limited("sse")).text


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "i64"])
def test_masked_elements(dtype: str, level: str) -> None:
    sizes = [{N: 3, M: m} for m in (1, 2, 3, 7, 15, 16, 17, 31, 33, 40, 64, 100)]
    check(in_place(dtype=dtype), sizes, target=host_target().limited(level))
    check(padded_steps(dtype), sizes, target=host_target().limited(level))
