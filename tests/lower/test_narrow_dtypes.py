"""Dtypes of 8 bits and less: every code to every dtype that computes and back, in kernels and in the interpreter, beside ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import NARROW, NARROW_FLOATS, highest, lowest, parse_dtype
from anyshape.equations.numeric import _cast
from anyshape.errors import DtypeError

NAMES = [t.name for t in NARROW]
COMPUTING = ("f32", "f64", "f16", "i32", "u8", "i64")


def compiled(source: str, to: str, saturate: bool = True):
    x = anyshape.input("x", f"{source}[n]")
    return anyshape.compile(anyshape.function([x], ops.cast(x, to=to, saturate=saturate)))


def codes(name: str) -> np.ndarray:
    """Every value there is."""
    t = parse_dtype(name)
    if t.is_float:
        count = 16 if name == "f4e2m1" else 256
        return np.arange(count, dtype=np.uint8).view(t.numpy)
    return np.arange(int(lowest(t)), int(highest(t)) + 1).astype(t.numpy)


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    if got.dtype.name in ("float32", "float64", "float16"):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("to", COMPUTING)
@pytest.mark.parametrize("name", NAMES)
def test_every_code_widens(name, to):
    if parse_dtype(name).is_float and not to.startswith("f"):
        return
    values = codes(name)
    wide = np.float32 if parse_dtype(name).is_float else np.int64
    with np.errstate(all="ignore"):
        want = values.astype(wide).astype(parse_dtype(to).numpy)
        same(compiled(name, to)(values), want)
        same(_cast(values, parse_dtype(to)), want)


def floats(name: str, dtype: type) -> np.ndarray:
    """All values, what lies half-way between neighbours and just beside, what is beyond, and what is not a number."""
    with np.errstate(all="ignore"):
        known = np.unique(codes(name).astype(np.float64))
        known = known[np.isfinite(known)]
        middle = (known[1:] + known[:-1]) / 2
        beyond = np.array([1.02, 1.04, 1.0625, 1.125, 1.25, 2, 1e9]) * known.max()
        rest = [
            np.nextafter(middle, np.inf),
            np.nextafter(middle, -np.inf),
            beyond,
            -beyond,
            [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30],
        ]
        return np.concatenate([known, middle, *rest]).astype(dtype)


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("name", [n for n in NARROW_FLOATS if n != "f8e8m0"])
def test_floats_round_to_even_and_overflow_as_the_dtype_says(name, source):
    t = parse_dtype(name)
    values = floats(name, parse_dtype(source).numpy.type)
    with np.errstate(all="ignore"):
        plain = _cast(values, t)
        same(compiled(source, name, saturate=False)(values), plain)
        if source == "f32":
            same(plain, values.astype(t.numpy))
        cut = compiled(source, name)(values).astype(np.float64)
    finite = ~np.isnan(values)
    most = highest(t)
    assert (np.abs(cut[finite]) <= most).all()
    inside = finite & (np.abs(values) <= most)
    np.testing.assert_array_equal(cut[inside], plain.astype(np.float64)[inside])
    if name != "f4e2m1":  # has no NaN
        assert np.isnan(cut[~finite]).all()


@pytest.mark.parametrize("name", ["i4", "u4", "i2", "u2"])
def test_integers_take_the_lowest_bits(name):
    t = parse_dtype(name)
    low, high = int(lowest(t)), int(highest(t))
    whole = np.arange(-40, 40, dtype=np.int32)
    want = (whole - low) % (high - low + 1) + low
    for got in (compiled("i32", name)(whole), _cast(whole, t)):
        np.testing.assert_array_equal(got.astype(np.int64), want)
        np.testing.assert_array_equal(got.view(np.uint8), want.astype(t.numpy).view(np.uint8))
    real = np.array([0.9, -0.9, 1.5, 99.0, -99.0, np.nan, np.inf, -np.inf], np.float32)
    cut = [int(np.clip(np.trunc(v), -(2**31), 2**31 - 1)) if v == v else 0 for v in real.astype(np.float64)]
    want = [(v - low) % (high - low + 1) + low for v in cut]
    for got in (compiled("f32", name)(real), _cast(real, t)):
        assert got.astype(np.int64).tolist() == want


def test_they_are_moved_but_not_computed_with():
    x = anyshape.input("x", "i4[n, 2]")
    f = anyshape.compile(anyshape.function([x], ops.transpose(ops.reshape(x, newshape=(2, -1)))))
    values = np.array([[1, -8], [7, 0]]).astype(parse_dtype("i4").numpy)
    np.testing.assert_array_equal(f(values).astype(np.int8), values.astype(np.int8).reshape(2, 2).T)
    with pytest.raises(DtypeError, match="must be one of"):
        ops.add(x, x)
