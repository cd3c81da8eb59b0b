"""Rounding of weights: no error is larger than half a step, `mse` is never worse than `rtn`, and extreme numbers stay finite."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.dtypes import to_numpy
from anyshape.quantisation import rounding
from anyshape.quantisation.rounding import GroupedCodes, Rounding, rounded, rounded_to_floats
from tests.quantise.quantised_models import Array, code_at, drawn


def values_of(codes: GroupedCodes, how: Rounding, size: int) -> Array:
    """What codes stand for, in f64."""
    rows, groups, _ = codes.packed.shape
    values = np.zeros((rows, groups * how.group))
    for j in range(rows):
        for k in range(groups * how.group):
            g = k // how.group
            zero = 1 << how.bits - 1 if codes.zeros is None else code_at(codes.zeros[j], g, how.bits)
            values[j, k] = (code_at(codes.packed[j].reshape(-1), k, how.bits) - zero) * float(codes.scales[j, g])
    assert not values[:, size:].any(), "the padding stands for 0"
    return values[:, :size]


@pytest.mark.parametrize("method", ["rtn", "mse"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rounds_to_nearest_within_the_range(bits: int, symmetric: bool, method: str) -> None:
    rows = drawn(5, 40) * np.float32(3)
    rows[1] = abs(rows[1])
    rows[2], rows[3] = 0, -1
    how = Rounding(bits=bits, group=16, symmetric=symmetric, method=method)
    codes = rounded(rows, how)
    values = values_of(codes, how, 40)
    lost = np.square(values - rows).sum()
    assert codes.error == pytest.approx(float(np.sqrt(lost / np.square(rows, dtype=np.float64).sum())), rel=1e-5)
    assert not values[2].any() and codes.error < {4: 0.12, 8: 0.01}[bits]
    if method == "rtn":
        step = np.abs(np.repeat(codes.scales.astype(np.float64), 16, 1)[:, :40])
        # Of symmetric groups the code after the last is missing on one side; of others the zero point is rounded, too.
        assert (np.abs(values - rows) <= step * 1.001).all() and (np.abs(values - rows) <= step * 0.501).mean() > 0.9
    else:
        assert codes.error <= rounded(rows, Rounding(bits=bits, group=16, symmetric=symmetric, method="rtn")).error


def test_clipping_pays_where_one_element_is_far_out() -> None:
    rows = drawn(4, 64)
    rows[:, 0] = 4
    errors = {m: rounded(rows, Rounding(bits=4, group=64, symmetric=False, method=m)).error for m in ("rtn", "mse")}
    assert errors["mse"] < 0.97 * errors["rtn"]
    even = np.tile(np.arange(16, dtype=np.float32), (2, 2))
    errors = {m: rounded(even, Rounding(bits=4, group=32, symmetric=False, method=m)).error for m in ("rtn", "mse")}
    assert errors["mse"] == errors["rtn"] == 0, "an even range is not clipped"


def test_chunks_do_not_change_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, how = drawn(9, 50), Rounding(bits=4, group=16, symmetric=False, method="mse")
    whole = rounded(rows, how, 0.5)
    monkeypatch.setattr(rounding, "CHUNK", 100)
    parts = rounded(rows, how, 0.5)
    for name in ("packed", "scales", "zeros"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    np.testing.assert_array_equal(rounded(rows * np.float32(0.5), how).packed, whole.packed)
    assert len(list(rounding.chunks(rows))) == 5 and list(rounding.chunks(drawn(0, 3))) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_largest_and_the_smallest_numbers_stay_finite(symmetric: bool, dtype: type) -> None:
    most, least = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    rows: Array = np.array([[most, -most, 0, most], [least, -least, 0, 0], [0, 0, 0, 0], [-0.0, 1, 2, 3]], dtype)
    with np.errstate(all="raise", under="ignore", over="ignore"):
        for bits in (4, 8):
            how = Rounding(bits=bits, group=16, symmetric=symmetric, method="mse")
            codes = rounded(rows, how)
            values = values_of(codes, how, 4)
            assert (
                np.isfinite(codes.scales).all()
                and codes.scales.dtype == dtype
                and np.isfinite(values.astype(dtype)).all()
            )
            assert np.abs(values[0] - rows[0].astype(np.float64)).max() <= float(most) * 0.2
            assert np.abs(values[1:3]).max() <= 16 * float(least)
            assert np.abs(values[3] - [0, 1, 2, 3]).max() <= 0.25


def test_narrow_floats_of_each_row_reach_its_largest_element() -> None:
    rows = drawn(6, 30) * np.float32(100)
    rows[2] = 0
    floats = rounded_to_floats(rows, to_numpy("f8e4m3fn"))
    values = floats.values.astype(np.float32) * floats.scales[:, None]
    assert floats.values.dtype == to_numpy("f8e4m3fn") and np.isfinite(values).all() and not values[2].any()
    assert np.abs(floats.values.astype(np.float32)).max(1)[[0, 1, 3, 4, 5]].tolist() == [448] * 5
    assert np.abs(values - rows).max() <= np.abs(rows).max() / 16 and 0.01 < floats.error < 0.04
