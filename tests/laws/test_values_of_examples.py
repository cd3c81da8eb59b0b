"""Values that an example shows: of a variadic a list of them, each compared, and what `anyshape show` makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape.cli.show import _call
from anyshape.dtypes import parse_dtype
from anyshape.graph.registry import find_op
from anyshape.properties import Given
from anyshape_testing.calls.examples import array
from anyshape_testing.laws.examples import expected

PAIR = Given(value=((1.0, 2.0), (3.0,)))
RIGHT: list[Any] = [np.array([1, 2], np.float32), np.array([3], np.float32)]


def test_each_tensor_of_a_variadic_is_compared() -> None:
    expected(PAIR, RIGHT, True)
    for wrong in (RIGHT[:1], [RIGHT[0], RIGHT[1] + 1], [RIGHT[0], RIGHT[1][None]]):
        with pytest.raises(AssertionError):
            expected(PAIR, wrong, True)


def test_floats_may_differ_by_four_units_in_the_last_place() -> None:
    one, step = Given(value=1.0), np.finfo(np.float32).eps
    expected(one, [np.float32(1 + 4 * step)], False)
    with pytest.raises(AssertionError):
        expected(one, [np.float32(1 + 5 * step)], False)


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1"])
def test_floats_of_a_byte_and_less_are_exact(dtype: str) -> None:
    def kind(values: list[float]) -> Any:
        return np.array(values).astype(parse_dtype(dtype).numpy)

    expected(Given(value=(2.0, -0.5)), [kind([2.0, -0.5])], False)
    with pytest.raises(AssertionError):
        expected(Given(value=3.0), [kind([2.0])[0]], False)
    if dtype != "f4e2m1":
        expected(Given(value=(float("nan"),)), [kind([float("nan")])], False)


@pytest.mark.parametrize(("dtype", "kind"), [(None, np.float32), ("u8", np.uint8)])
def test_a_variadic_is_given_tensors_of_one_dtype(dtype: str | None, kind: type) -> None:
    op, example = find_op("concat"), Given(value=PAIR.value, dtype=dtype)
    tensors = array(op, op.inputs[0], example, 0)
    assert [a.dtype for a in tensors] == [kind, kind] and [a.tolist() for a in tensors] == [[1, 2], [3]]
    shown = _call(op, {}, {"xs": example}, {"axis": 0})
    assert [(a.dtype, a.tolist()) for a in shown.contents.values()] == [(kind, [1, 2]), (kind, [3])]
