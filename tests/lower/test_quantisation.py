"""Bytes of rounded quotients, and bytes less a zero point: which of them take fewer instructions, and that the bits are the same."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import F32, parse_dtype
from anyshape.equations.functions import cast, round_even
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.analyse.magnitudes import largest
from anyshape.lower.ir.dag import Dag
from tests.lower.groups import Builder, M, N
from tests.lower.native import check

SIZES = [{N: 3, M: 77}, {N: 1, M: 64}, {N: 1, M: 1}, {N: 0, M: 5}, {N: 5, M: 300}]
LEVELS = pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
PACKS = "packssdw"


def quantised(dtype: str, divisor: float | None = 0.05, of: str = "f32", point: bool = True) -> Group:
    """Numbers over a divisor (None: an operand), rounded, moved by a zero point and cut to bytes."""
    b = Builder("quantised")
    x, zero, scale = b.input([N, M], of), b.input([], dtype), b.input([])
    y = b.tensor([N, M], dtype)
    i, j = b.eqs.indices("i", y.shape)
    known = x[i, j] if of == "f32" else cast(x[i, j], F32) - cast(zero[()], F32)
    whole = round_even(known / (scale[()] if divisor is None else divisor))
    b.eqs.define(y[i, j], cast(whole + cast(zero[()], F32) if point else whole, parse_dtype(dtype)))
    b.output(y)
    return b.group()


def text_of(group: Group, level: str = "avx512") -> str:
    return lower_group(group, host_target().limited(level)).text


@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_which_quotients_are_products(dtype: str) -> None:
    """A quotient is a product if it is by a positive number that is not next to the ends of the range of floats."""
    of = "f32" if dtype == "u8" else "i16"
    assert " fdiv " not in text_of(quantised(dtype, of=of))
    assert " fdiv " not in text_of(quantised(dtype))
    assert " fdiv " in text_of(quantised(dtype, -0.05, of=of))
    assert " fdiv " in text_of(quantised(dtype, None, of=of))
    assert " fdiv " in text_of(quantised(dtype, 2.0**-70, of=of))
    assert " fdiv " in text_of(quantised(dtype, 2.0 - 2.0**-23, of=of))  # all ones
    assert " fdiv " in text_of(quantised(dtype, of=of), "sse")  # no multiply-add


def test_how_many_operations_a_quotient_takes() -> None:
    """A quotient by a power of two is a product, by most numbers a multiply-add more, by some two; of four vectors and of one."""
    counts = [len(re.findall("call .*llvm.fma", text_of(quantised("u8", d, of="i16")))) for d in (0.25, 0.05, 0.03)]
    assert counts == [0, 5, 10]


def test_what_is_packed_together() -> None:
    assert PACKS in text_of(quantised("u8"))
    assert PACKS in text_of(quantised("i8"))
    assert PACKS not in text_of(quantised("i16", of="i16"))


def hard(divisor: float) -> np.ndarray:
    """Floats whose quotients are next to halves and at them, of all magnitudes, and what is no number."""
    rng = np.random.default_rng(1)
    halves = (np.arange(-300, 300) + 0.5) * divisor
    near = np.concatenate([np.nextafter(np.float32(halves), np.float32(way)) for way in (-np.inf, np.inf)])
    spread = np.exp2(rng.uniform(-149, 128, 2000)) * rng.choice([-1, 1], 2000)
    few = rng.uniform(-300, 300, 4000) * divisor
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, 3.4e38, -3.4e38, 1e-45, 2.0**31 * divisor, -(2.0**31) * divisor]
    with np.errstate(over="ignore"):
        return np.concatenate([halves, near, spread, few, ends]).astype(np.float32)


@LEVELS
@pytest.mark.parametrize("divisor", [0.05, 0.03, 1.0, 3.0, 1 / 3, 1.9999996, 1.0000001, -0.7, 2.0**-59, 1e15])
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_products_are_rounded_as_quotients(dtype: str, divisor: float, level: str) -> None:
    group = quantised(dtype, divisor)
    x, zero, _ = group.inputs
    values = hard(float(np.float32(divisor)))
    for at in (0, 128, 255):
        fixed = {x: values[None], zero: np.array(at, np.uint8).view(parse_dtype(dtype).numpy)}
        check(group, [{N: 1, M: len(values)}], fixed=fixed, target=host_target().limited(level))


@LEVELS
@pytest.mark.parametrize("point", [False, True])
@pytest.mark.parametrize(
    ("dtype", "of"), [("u8", "f32"), ("i8", "f32"), ("u8", "u8"), ("i8", "i8"), ("u8", "i16"), ("i8", "u16")]
)
def test_bytes_of_rows_of_all_lengths(dtype: str, of: str, point: bool, level: str) -> None:
    if of in ("i16", "u16"):
        group = quantised(dtype, 100.0, of=of, point=point)
    else:
        group = quantised(dtype, 0.7, of=of, point=point)
    check(group, SIZES, special=of == "f32", target=host_target().limited(level))


@LEVELS
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_points_at_the_ends(dtype: str, level: str) -> None:
    ends = np.iinfo(parse_dtype(dtype).numpy)
    group = quantised(dtype, 0.01, of="i16")
    x, zero, _ = group.inputs
    values = np.array([[-32768, -1000, -1, 0, 1, 1000, 32767] * 11], np.int16)
    for at in (ends.min, ends.max):
        fixed = {x: values, zero: np.array(at, parse_dtype(dtype).numpy)}
        check(group, [{N: 1, M: values.shape[1]}], fixed=fixed, target=host_target().limited(level))


def difference(of: str, point: str) -> Group:
    """Integers less a zero point, one for all or one for each column, or a float."""
    b = Builder("difference")
    x, zero = b.input([N, M], of), b.input([M] if point == "columns" else [], "f32" if point == "float" else of)
    y = b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], (cast(x[i, j], F32) - cast(zero[j if point == "columns" else ()], F32)) * 0.3)
    b.output(y)
    return b.group()


@LEVELS
@pytest.mark.parametrize("of", ["u8", "i8", "u16", "i16"])
def test_integers_less_a_zero_point(of: str, level: str) -> None:
    group = difference(of, "one")
    x, zero = group.inputs
    ends = np.iinfo(parse_dtype(of).numpy)
    values = np.linspace(ends.min, ends.max, 256).astype(parse_dtype(of).numpy)[None]
    for at in (ends.min, 0, ends.max):
        fixed = {x: values, zero: np.array(at, parse_dtype(of).numpy)}
        check(group, [{N: 1, M: 256}], fixed=fixed, tolerance=0, target=host_target().limited(level))
    check(group, SIZES, tolerance=0, target=host_target().limited(level))


CONVERSION = {
    "u8": "uitofp <16 x i8>",
    "i8": "sitofp <16 x i8>",
    "u16": "uitofp <16 x i16>",
    "i32": "sitofp <16 x i32>",
}


@pytest.mark.skipif(host_target().vector_bytes < 64, reason="vectors are of 64 bytes in the text")
@pytest.mark.parametrize(
    ("of", "point", "converts"),
    [
        ("u8", "one", False),
        ("i8", "one", False),
        ("u16", "one", False),
        ("i32", "one", True),
        ("u8", "columns", True),
        ("u8", "float", True),
    ],
)
def test_which_integers_are_converted(of: str, point: str, converts: bool) -> None:
    assert (CONVERSION[of] in text_of(difference(of, point))) == converts


def test_how_large_values_may_be() -> None:
    dag = Dag()
    number, far = dag.const(3.0, F32), dag.const(math.inf, F32)
    double = dag.op("add", F32, number, number)
    assert largest(number) == 3.0
    assert 6.0 <= (largest(double) or 0) < 6.001
    assert largest(dag.op("mul", F32, double, far)) is None
    assert largest(dag.op("div", F32, double, number)) == pytest.approx(2.0, rel=1e-5)
    assert largest(dag.op("div", F32, number, double)) is None  # by what is no literal
    assert largest(dag.op("exp", F32, number)) is None
    chain: Any = double
    for _ in range(60):
        chain = dag.op("add", F32, chain, chain)
    assert largest(chain) == pytest.approx(6.0 * 2.0**60, rel=1e-3)
    for _ in range(60):
        chain = dag.op("add", F32, chain, chain)
    assert largest(chain) is None


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("of", ["f32", "i16"])
@LEVELS
def test_what_is_quantised_and_dequantised_is_no_byte(level: str, of: str, same: bool) -> None:
    """The rounded integer is the result where both have one zero point; else there is a byte, and a difference."""
    b = Builder("fake quantisation")
    x, zero, other = b.input([N, M], of), b.input([], "u8"), b.input([], "u8")
    y = b.tensor([N, M], "f32")
    i, j = b.eqs.indices("i", y.shape)
    known = x[i, j] if of == "f32" else cast(x[i, j], F32) * 0.01
    byte = cast(round_even(known / 0.05) + cast(zero[()], F32), parse_dtype("u8"))
    b.eqs.define(y[i, j], cast(byte, F32) - cast((zero if same else other)[()], F32))
    b.output(y)
    group = b.group()
    zeros = {group.inputs[1]: np.array(100, np.uint8), group.inputs[2]: np.array(3, np.uint8)}
    assert ("to <8 x i8>" in text_of(group, "avx2") or "to <16 x i8>" in text_of(group)) is not same
    check(group, SIZES, fixed=zeros, target=host_target().limited(level))
