"""Dtypes: names and objects are one, NumPy and back, classes, accumulation, promotion, extremes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from anyshape import dtypes
from anyshape.dtypes import (
    ALL,
    BF16,
    F32,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    accum,
    bitcast,
    from_numpy,
    highest,
    literal_key,
    lowest,
    parse_dtype,
    promote,
)
from anyshape.errors import DtypeError


@pytest.mark.parametrize("t", ALL)
def test_names_numpy_and_copies_give_the_same_object(t: dtypes.DType) -> None:
    assert parse_dtype(str(t)) is t and t == str(t) and hash(t) == hash(str(t))
    assert from_numpy(t.numpy) is t and t.numpy.itemsize == t.itemsize
    assert copy.deepcopy(t) is t and pickle.loads(pickle.dumps(t)) is t


def test_byte_order_does_not_matter() -> None:
    assert from_numpy(np.dtype(">f4")) is F32


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(DtypeError, match=r"'f31'; known are f32, f64"):
        parse_dtype("f31")
    with pytest.raises(DtypeError, match="complex64"):
        from_numpy(np.complex64)


def test_a_literal_has_the_key_of_no_other() -> None:
    values = [
        0,
        1,
        True,
        False,
        0.0,
        -0.0,
        1.0,
        float("nan"),
        np.float32(0.1),
        0.1,
        float(np.float32(0.1)),
        np.float64(0.1),
        np.int64(1),
    ]
    assert len({literal_key(v) for v in values}) == len(values)
    assert all(literal_key(v) == literal_key(copy.copy(v)) for v in values) and literal_key(np.nan) == literal_key(
        float("nan")
    )


def test_accumulation_widens_narrow_floats_only() -> None:
    assert [accum(t) for t in ("f16", "bf16", "f32", "f64", "i8")] == ["f32", "f32", "f32", "f64", "i8"]


@pytest.mark.parametrize("t", ALL)
@pytest.mark.parametrize("u", ALL)
def test_promotion_is_symmetric_and_numpys_where_numpy_has_both(t: str, u: str) -> None:
    got = promote(t, u)
    assert got is promote(u, t)
    if BF16 not in (t, u):
        assert got.numpy == np.promote_types(dtypes.to_numpy(t), dtypes.to_numpy(u))


def test_extremes() -> None:
    for t in (I8, I16, I32, I64, U8, U16, U32, U64):
        assert (lowest(t), highest(t)) == (np.iinfo(t.numpy).min, np.iinfo(t.numpy).max)
    assert lowest("f32") == -np.inf and highest("bf16") == np.inf and (lowest("bool"), highest("bool")) == (False, True)


def test_bits_are_read_as_those_of_as_many() -> None:
    assert [bitcast(a, b) for a, b in (("f32", "u32"), ("bool", "i8"), ("u8", "f8e8m0"), ("f4e2m1", "u4"), ("i2", "u2"))] == [
        "u32", "i8", "f8e8m0", "u4", "u2",
    ]  # fmt: skip
    for a, b, why in (
        ("f32", "f64", "32 against 64"),
        ("u8", "u4", "8 against 4"),
        ("i32", "char", "strings have none"),
    ):
        with pytest.raises(DtypeError, match=f"bits of {a} cannot be read as {b}: {why}"):
            bitcast(a, b)
