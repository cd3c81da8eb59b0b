"""Vector mathematics against double precision and mpmath: ulp bounds on dense samples, and every special case."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import mpmath
import numpy as np
import pytest
import scipy.special

import anyshape
from anyshape import ops
from anyshape.lower.llvm import vecmath
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import F32, F64, I16, I32, I64, PTR, VOID, Type
from anyshape.lower.target import host_target

LEVELS = ["avx512", "avx2", "sse"]
TYPES = {"float32": F32, "float64": F64, "int16": I16, "int32": I32, "int64": I64}
UNSIGNED = {"uint16": I16, "uint32": I32, "uint64": I64}


@cache
def kernel(name: str, dtype: str, level: str, operands: int, lanes: int = -1) -> Loaded:
    target = host_target().limited(level)
    module = Module(target)
    element: Type = (TYPES | UNSIGNED)[dtype]
    width = target.lanes(element.bytes) if lanes < 0 else lanes
    function = getattr(vecmath, name)
    with module.function("map", VOID, [("a", PTR), ("b", PTR), ("y", PTR), ("n", I64)]) as f:
        a, b, y, n = f.args
        with f.for_range(0, n, max(1, width)) as loop:
            args = [f.load(p, element.vector(width), loop.index) for p in (a, b)[:operands]]
            extra = {"unsigned": True} if dtype in UNSIGNED else {}
            f.store(function(f, *args, **extra), y, loop.index)
        f.ret()
    return compile_module(module)


def run(name: str, a: np.ndarray, b: np.ndarray | None = None, level: str = "avx512", lanes: int = -1) -> np.ndarray:
    count = len(a)
    padded = [np.concatenate([x, np.ones(64, a.dtype)]) for x in (a, a if b is None else b)]
    padded = [np.ascontiguousarray(x[: (len(x) // 64) * 64]) for x in padded]
    y = np.zeros_like(padded[0])
    loaded = kernel(name, a.dtype.name, level, 1 if b is None else 2, lanes)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(loaded.address("map"))
    whole = len(y) // max(1, lanes) * max(1, lanes)  # the last of vectors of three would end behind the arrays
    assert count <= whole
    call(padded[0].ctypes.data, padded[1].ctypes.data, y.ctypes.data, whole)
    return y[:count]


def ulp_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest distance, in units of the last place of the wanted value; subnormal results count by the smallest."""
    limits = np.finfo(got.dtype)
    expected = expected.astype(np.longdouble)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(expected), np.longdouble(limits.smallest_normal))))
        unit = np.exp2(exponent - limits.nmant)
        distance = np.abs(got.astype(np.longdouble) - expected) / unit
    fine = np.isfinite(expected) & (np.abs(expected) < limits.max)
    assert np.isfinite(got[fine]).all()
    return float(distance[fine].max())


def dense(low: float, high: float, dtype: str, count: int = 200_000) -> np.ndarray:
    rng = np.random.default_rng(7)
    even = rng.uniform(low, high, count)
    small = np.exp(rng.uniform(np.log(1e-30), np.log(max(abs(low), abs(high))), count)) * rng.choice([-1, 1], count)
    small = small[(small >= low) & (small <= high)]
    return np.concatenate([even, small]).astype(dtype)


F32_CASES: list[tuple[str, float, float, float, Callable[[np.ndarray], np.ndarray]]] = [
    ("exp", -87.3, 88.7, 1.0, np.exp),
    ("expm1", -100, 88.7, 2.0, np.expm1),
    ("expm1", -1, 1, 2.0, np.expm1),
    ("log1p", -0.999, 1, 1.5, np.log1p),
    ("log1p", 1e-3, 1e38, 1.5, np.log1p),
    ("sigmoid", -80, 100, 2.5, scipy.special.expit),
    ("tanh", -12, 12, 3.0, np.tanh),
    ("erf", -5, 5, 3.0, scipy.special.erf),
    ("log", 1e-38, 1e38, 1.0, np.log),
    ("log", 0.4, 2.5, 1.0, np.log),
    ("sin", -1000, 1000, 1.0, np.sin),
    ("cos", -1000, 1000, 1.0, np.cos),
    ("sqrt", 0, 1e30, 0.5, np.sqrt),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name, low, high, bound, oracle", F32_CASES)
def test_f32_stays_within_its_bound(
    name: str, low: float, high: float, bound: float, oracle: Callable[[np.ndarray], np.ndarray], level: str
) -> None:
    x = dense(low, high, "float32")
    slack = 1.0 if level == "sse" else 0.0  # two roundings where the machine has no fused multiply-add
    assert ulp_error(run(name, x, level=level), oracle(x.astype(np.float64))) <= bound + slack


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted({name for name, *_ in F32_CASES}))
def test_a_result_does_not_depend_on_its_neighbours(name: str, dtype: str, level: str) -> None:
    """Lanes of a vector that is not full may be anything: here every other one is, in turns."""
    x = dense(-3, 3, dtype, 2000)
    x = x[: len(x) // 2 * 2]
    alone = run(name, x, level=level)
    anything = np.array([1e30, -1e13, np.inf, np.nan, 0.0, 1e-44, 3e6, -1.0], dtype)
    for first in (0, 1):
        beside = x.copy()
        beside[1 - first :: 2] = np.resize(anything, len(x) // 2)
        np.testing.assert_array_equal(run(name, beside, level=level)[first::2], alone[first::2])


def exactly(function: Callable[..., object], *arrays: np.ndarray) -> np.ndarray:
    with mpmath.workprec(300):
        values = [function(*map(mpmath.mpf, map(float, items))) for items in zip(*arrays)]
        return np.array([np.longdouble(mpmath.nstr(v, 25)) for v in values])


F64_CASES: list[tuple[str, float, float, float, Callable[..., object]]] = [
    ("exp", -708, 709, 1.0, mpmath.exp),
    ("expm1", -50, 709.7, 2.0, mpmath.expm1),
    ("expm1", -1, 1, 2.0, mpmath.expm1),
    ("log1p", -0.999, 1, 1.5, mpmath.log1p),
    ("log1p", 1e-3, 1e300, 1.5, mpmath.log1p),
    ("sigmoid", -80, 100, 2.5, lambda v: 1 / (1 + mpmath.exp(-v))),
    ("tanh", -25, 25, 3.0, mpmath.tanh),
    ("erf", -7, 7, 4.0, mpmath.erf),
    ("log", 1e-300, 1e300, 1.0, mpmath.log),
    ("log", 0.4, 2.5, 1.0, mpmath.log),
    ("sin", -1000, 1000, 2.0, mpmath.sin),
    ("cos", -1000, 1000, 2.0, mpmath.cos),
]


@pytest.mark.parametrize("name, low, high, bound, oracle", F64_CASES)
def test_f64_stays_within_its_bound(
    name: str, low: float, high: float, bound: float, oracle: Callable[..., object]
) -> None:
    x = dense(low, high, "float64", 2000)
    assert ulp_error(run(name, x), exactly(oracle, x)) <= bound


@pytest.mark.parametrize("dtype, bound", [("float32", 1.0), ("float64", 0.6)])
def test_pow_stays_within_its_bound(dtype: str, bound: float) -> None:
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(-20, 20, 3000)).astype(dtype)
    y = rng.uniform(-4, 4, 3000).astype(dtype)
    x[:500] = rng.uniform(0.9, 1.1, 500)
    y[:500] = rng.uniform(-600, 600, 500)
    x[500:600], y[500:600] = 10.0, np.arange(100) % 75 - 37
    assert ulp_error(run("pow_", x, y), exactly(mpmath.power, x, y)) <= bound


def exact_powers(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, x ** y) where a float of the dtype holds all three: x = r ** 2**m, y = k / 2**m, of whole numbers r, k, m."""
    most = 2 ** (np.finfo(dtype).nmant + 1)
    rows = [
        (r**roots, sign * k / roots, float(r) ** (sign * k))
        for roots in (1, 2, 4, 8)
        for r in (*range(2, 1000), *range(1000, most, most // 1000))
        for k in (1, 2, 3, 5, 7)
        for sign in (1, -1)
        if r**roots <= most and r**k <= most and (sign > 0 or r & (r - 1) == 0)
    ]
    x, y, expected = (np.array(column, dtype) for column in zip(*rows))
    return x, y, expected


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_power_that_a_float_holds_is_that_float(dtype: str, level: str) -> None:
    """9 ** 0.5 is 3: what is cut from less is 2."""
    x, y, expected = exact_powers(dtype)
    np.testing.assert_array_equal(run("pow_", x, y, level), expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_specials(dtype: str, level: str) -> None:
    inf, nan = np.inf, np.nan
    table: dict[str, tuple[list[float], list[float]]] = {
        "exp": ([0, -0.0, inf, -inf, nan, 1e5, -1e5], [1, 1, inf, 0, nan, inf, 0]),
        "log": ([0, -0.0, -1, inf, -inf, nan, 1], [-inf, -inf, nan, inf, nan, nan, 0]),
        "expm1": ([0, -0.0, inf, -inf, nan, 1e5, -1e5, 1e-40, -1e-40], [0, -0.0, inf, -1, nan, inf, -1, 1e-40, -1e-40]),
        "log1p": ([0, -0.0, inf, -inf, nan, -1, -2, 1e-40, -1e-40], [0, -0.0, inf, nan, nan, -inf, nan, 1e-40, -1e-40]),
        "tanh": ([0, -0.0, inf, -inf, nan, 50], [0, -0.0, 1, -1, nan, 1]),
        "erf": ([0, -0.0, inf, -inf, nan, 30, -30], [0, -0.0, 1, -1, nan, 1, -1]),
        "sigmoid": ([0, inf, -inf, nan, 200], [0.5, 1, 0, nan, 1]),
        "sin": ([0, -0.0, inf, nan], [0, -0.0, nan, nan]),
        "cos": ([0, -0.0, inf, nan], [1, 1, nan, nan]),
        "floor": ([1.5, -1.5, inf, nan, -0.0], [1, -2, inf, nan, -0.0]),
        "ceil": ([1.5, -1.5, -inf, nan], [2, -1, -inf, nan]),
        "round_even": ([0.5, 1.5, 2.5, -0.5, nan], [0, 2, 2, -0.0, nan]),
        "trunc": ([1.9, -1.9, nan], [1, -1, nan]),
        "abs_": ([-0.0, -inf, nan, -3], [0, inf, nan, 3]),
    }
    for name, (arguments, expected) in table.items():
        got = run(name, np.array(arguments, dtype), level=level)
        np.testing.assert_array_equal(got, np.array(expected, dtype), err_msg=name)
        zeros = np.array(expected) == 0
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(np.array(expected)[zeros]), err_msg=name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_exponential_that_is_zero_underflows_nowhere(dtype: str, level: str) -> None:
    """Masked scores are such: an operation that underflows takes Intel's processors more than a hundred cycles."""
    underflow, floats = 16, ctypes.CDLL("libm.so.6")

    def underflows(name: str, *values: float) -> bool:
        x = np.resize(np.asarray(values, dtype), 128)
        floats.feclearexcept(underflow)
        got = run(name, x, level=level)
        raised = bool(floats.fetestexcept(underflow))
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(got, np.exp(x) if name == "exp" else 1 / (1 + np.exp(-x)), rtol=1e-6)
        return raised

    lowest = float(np.finfo(dtype).min)
    assert not underflows("exp", -1e4, lowest, -np.inf, 0.0, -1.0)
    assert not underflows("sigmoid", 1e4, -lowest, np.inf, 0.0, 1.0)
    assert underflows("exp", -100.0 if dtype == "float32" else -740.0, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_subnormals_are_gradual(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([tiny, tiny * 5, np.finfo(dtype).smallest_normal / 3], dtype)
    np.testing.assert_allclose(run("log", x), np.log(x.astype(np.longdouble)).astype(dtype), rtol=3e-7)
    low = np.array([-100.0, -103.0] if dtype == "float32" else [-740.0, -745.0], dtype)
    expected = np.exp(low.astype(np.longdouble)).astype(dtype)
    assert (np.abs(run("exp", low) - expected) <= tiny).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("level", LEVELS)
def test_pow_specials_follow_numpy(dtype: str, level: str) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 2.5, -7.0]
    x, y = (m.ravel().astype(dtype) for m in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    got = run("pow_", x, y, level)
    for a, b, g, w in zip(x, y, got, expected):
        same = (np.isnan(g) and np.isnan(w)) or (np.isclose(g, w, rtol=1e-6, atol=0) and np.signbit(g) == np.signbit(w))
        assert same, f"{a} ** {b}: wanted {w}, got {g}"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("exponent", [1.0, 2.0, -1.0, 0.5, -0.5, 2.5])
def test_powers_by_a_known_exponent(exponent: float, dtype: str, level: str) -> None:
    """Powers that are one instruction are the numbers that a power of any exponent is."""
    x, y = anyshape.input("x", f"{dtype}[n]"), anyshape.input("y", f"{dtype}[n]")
    number = anyshape.constant(np.array(exponent, {"f32": np.float32, "f64": np.float64}[dtype]))
    known, any_one = (
        anyshape.compile(anyshape.function(inputs, ops.pow(x, by)), target=level, threads=1)
        for inputs, by in (([x], number), ([x, y], y))
    )
    special = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e30, -1e-30, 0.25]
    values = np.array([*special, *np.random.default_rng(1).standard_normal(100)], number.type.dtype.numpy)
    got, expected = known(values), any_one(values, np.full_like(values, exponent))
    np.testing.assert_array_max_ulp(np.nan_to_num(got, nan=7.0), np.nan_to_num(expected, nan=7.0), 1)
    np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(expected) & ~np.isnan(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_and_fmod_follow_numpy(dtype: str) -> None:
    values = [0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 7.25]
    x, y = (m.ravel().astype(dtype) for m in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run("minimum", x, y), np.minimum(x, y))
        np.testing.assert_array_equal(run("maximum", x, y), np.maximum(x, y))
        np.testing.assert_array_equal(run("fmod", x, y), np.fmod(x, y))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e7, 2.0**24, 1e9, 1e12])
def test_remainders_of_any_quotient_are_exact(scale: float, level: str) -> None:
    rng = np.random.default_rng(7)
    y = rng.standard_normal(4096).astype(np.float32)
    multiples = (np.round(rng.standard_normal(2048) * scale) * y[:2048]).astype(np.float32)
    x = np.concatenate([multiples, (rng.standard_normal(2048) * scale).astype(np.float32)])
    remainders = run("fmod", x, y, level)
    np.testing.assert_array_equal(remainders, np.fmod(x, y))
    np.testing.assert_array_equal(np.signbit(remainders), np.signbit(x))


@pytest.mark.parametrize("level", LEVELS)
def test_remainders_of_small_and_of_infinite_divisors_are_exact(level: str) -> None:
    """The divisors are subnormal, or infinite in some lanes, for which no quotient is computed."""
    rng = np.random.default_rng(8)
    y = (rng.standard_normal(4096) * 1e-40).astype(np.float32)
    x = (np.round(rng.standard_normal(4096) * 1e6) * y).astype(np.float32)
    y[3000::7], x[3500:] = np.inf, -x[3500:]
    np.testing.assert_array_equal(run("fmod", x, y, level), np.fmod(x, y))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["int16", "int32", "uint16", "uint32"])
def test_quotients_of_short_integers_are_exact(dtype: str, level: str) -> None:
    """Dividends are multiples and their neighbours, up to the largest number: a quotient that is rounded down is one too small there."""
    rng = np.random.default_rng(5)
    largest = int(np.iinfo(dtype).max)
    y = np.concatenate([rng.integers(1, 100, 3000), rng.integers(1, largest, 3000), largest - np.arange(100)])
    quotients = largest // y
    quotients[::2] -= rng.integers(0, quotients[::2] + 1)
    x = np.concatenate([quotients * y + step for step in (-1, 0, 1)]).clip(0, largest)
    y = np.tile(y, 3)
    if np.iinfo(dtype).min < 0:
        x, y = x * rng.choice([-1, 1], x.size), y * rng.choice([-1, 1], y.size)
    x, y = x.astype(dtype), y.astype(dtype)
    np.testing.assert_array_equal(run("floor_div", x, y, level), x // y)
    np.testing.assert_array_equal(run("floor_mod", x, y, level), x % y)
    np.testing.assert_array_equal(run("trunc_mod", x, y, level), np.fmod(x, y))


BITS = {32: [8, 23, 24, 25, 31], 64: [8, 31, 49, 50, 51, 53, 63]}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype, bits", [(f"{u}int{n}", bits) for n in BITS for u in ("", "u") for bits in BITS[n]])
def test_quotients_of_long_integers_are_exact(dtype: str, bits: int, level: str) -> None:
    """The quotients are next to a whole number, where a float would round up to it, or in a vector that has one lane that is too long."""
    rng = np.random.default_rng(5)
    y = rng.integers(1, 1 << max(bits // 2, 1), 4096, dtype)
    x = rng.integers(0, 1 << (bits - bits // 2), 4096, dtype) * y + rng.integers(-1, 2, 4096).astype(dtype)
    x[::64] = (1 << bits) - 1
    if np.iinfo(dtype).min < 0:
        x, y = (n * rng.choice([-1, 1], 4096).astype(dtype) for n in (x, y))
    np.testing.assert_array_equal(run("floor_div", x, y, level), x // y)
    np.testing.assert_array_equal(run("floor_mod", x, y, level), x % y)
    np.testing.assert_array_equal(run("trunc_mod", x, y, level), np.fmod(x, y))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("divisor", [1, 3, 4095, 4097, 2**24 - 1, 2**24])
def test_quotients_of_as_many_bits_as_a_float_has_are_exact(divisor: int, level: str) -> None:
    """Dividends are next to multiples of the divisor, up to the last that is divided as an f32 and beyond."""
    multiples = np.arange(max(0, 2**24 // divisor - 700), 2**24 // divisor + 3) * divisor
    x = np.concatenate([s * multiples + step for s in (-1, 1) for step in (-1, 0, 1)]).astype(np.int32)
    for y in (np.full_like(x, divisor), np.full_like(x, -divisor)):
        np.testing.assert_array_equal(run("trunc_div", x, y, level), np.trunc(x / y.astype(np.float64)))
        np.testing.assert_array_equal(run("floor_mod", x, y, level), x % y)


@pytest.mark.parametrize("uniform", [True, False])
def test_a_divisor_of_all_lanes_has_one_reciprocal(uniform: bool) -> None:
    """A reciprocal is computed ahead of the branch between short integers and others, out of which code generation does not move it."""
    module = Module(host_target().limited("avx2"))
    with module.function("map", VOID, [("a", PTR), ("b", PTR)]) as f:
        a, b = f.args
        f.store(vecmath.trunc_div(f, f.load(a, I32.vector(8)), f.load(b, I32.vector(0 if uniform else 8))), a)
        f.ret()
    text = module.text()
    assert ("fdiv <8 x double>" in text[: text.index("br i1")]) is uniform
    assert text.count("fdiv <8 x double>") == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_integer_division_never_traps(dtype: str, level: str) -> None:
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1], dtype)
    if limits.min < 0:
        edges = np.concatenate([edges, np.array([-1, -2, -3, -7], dtype)])
    x, y = (m.ravel() for m in np.meshgrid(edges, edges))
    x = np.concatenate([x, rng.integers(limits.min, limits.max, 2000, dtype)])
    y = np.concatenate([y, rng.integers(max(limits.min, -50), 50, 2000).astype(dtype)])
    with np.errstate(all="ignore"):
        floored, rest = np.floor_divide(x, y), np.mod(x, y)
        np.testing.assert_array_equal(run("floor_div", x, y, level), floored)
        np.testing.assert_array_equal(run("floor_mod", x, y, level), rest)
        np.testing.assert_array_equal(run("trunc_mod", x, y, level), np.fmod(x, y))
    division = run("trunc_div", x, y, level)
    for a, b, q in zip(x.tolist(), y.tolist(), division.tolist()):
        expected = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert (q - expected) % (1 << limits.bits) == 0, (a, b, q)


@pytest.mark.parametrize("lanes", [0, 3, 4, 32])
def test_any_width(lanes: int) -> None:
    x = np.linspace(-5, 5, 192, dtype=np.float32)
    for name, oracle in (("exp", np.exp), ("tanh", np.tanh), ("erf", scipy.special.erf)):
        np.testing.assert_allclose(run(name, x, lanes=lanes), oracle(x.astype(np.float64)), rtol=5e-7)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype, bound", [("float32", 1.0), ("float64", 2.0)])
def test_angles_of_any_size(dtype: str, bound: float, level: str) -> None:
    rng = np.random.default_rng(9)
    x = (10.0 ** rng.uniform(0, 38, 512) * rng.choice([-1, 1], 512)).astype(dtype)
    near = (np.arange(1, 513) * (np.pi / 2)).astype(dtype)  # where the result is all cancellation
    for name, oracle in (("sin", mpmath.sin), ("cos", mpmath.cos)):
        for angles in (x, np.sort(np.abs(x)), near):
            slack = 1.0 if level == "sse" else 0.0
            assert ulp_error(run(name, angles, level=level), exactly(oracle, angles)) <= bound + slack


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("number", [0.5, -0.0, float("inf"), float("nan")])
@pytest.mark.parametrize("first", [False, True])
def test_extremes_of_a_number_that_is_known_test_nothing(name: str, number: float, first: bool) -> None:
    """The machine's own min and max give their second operand where one is NaN; of a literal NaN the test stays."""
    module, lanes = Module(host_target()), host_target().lanes(4)
    with module.function("map", VOID, [("x", PTR)]) as f:
        x = f.load(f.args[0], F32.vector(lanes))
        of = getattr(vecmath, name)
        f.store(of(f, number, x) if first else of(f, x, number), f.args[0])
        f.ret()
    assert ("fcmp uno" in module.text()) == np.isnan(number)
    x = np.resize(np.array([np.nan, 1.0, -2.0, 0.25, np.inf, -np.inf], np.float32), lanes)
    want = getattr(np, name)(x, np.float32(number))
    loaded = compile_module(module)
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(loaded.address("map"))(x.ctypes.data)
    np.testing.assert_array_equal(x, want)
