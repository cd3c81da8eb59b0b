"""Maps and reductions: native code equals the interpreter, whatever the shape."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import BOOL, F32, F64, I32, I64, parse_dtype
from anyshape.equations.expr import cast, const, scalar
from anyshape.equations.functions import (
    and_,
    erf,
    exp,
    floor,
    ge,
    log,
    lt,
    maximum,
    minimum,
    quotient,
    reduce_,
    remainder,
    sqrt,
    tanh,
    trunc_div,
    where,
)  # fmt: skip
from anyshape.lower import describe, host_target, lower_group
from anyshape.lower.schedule.tree import SHORT_SUM
from tests.lower.groups import ROW_SIZES as SIZES
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native, check


def test_softmax_last_axis() -> None:
    b = Builder("softmax")
    b.output(b.softmax(b.input([N, M])))
    check(b.group(), SIZES, special=True)
    check(b.group(), SIZES)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_any_axis(axis: int) -> None:
    b = Builder("softmax")
    b.output(b.softmax(b.input([K, N, M]), axis))
    check(b.group(), SIZES)


def test_softmax_f64() -> None:
    b = Builder("softmax64")
    b.output(b.softmax(b.input([N, M], F64)))
    check(b.group(), SIZES, tolerance=1e-12)


def test_layer_norm_with_residual() -> None:
    b = Builder("ln")
    x = b.map(lambda p, q: p + q, b.input([N, M]), b.input([N, M]))
    b.output(x)
    b.output(b.layer_norm(x, b.input([M]), b.input([M])))
    check(b.group(), SIZES, tolerance=1e-4)


def test_gelu_chain() -> None:
    b = Builder("gelu")
    x = b.map(lambda p, q: p + q, b.input([K, N, M]), b.input([M]))
    b.output(b.map(lambda p, q: p * q, b.gelu(x), b.input([N, 1])))
    check(b.group(), SIZES)


def test_open_broadcast() -> None:
    b = Builder("open")
    p, q = dims.symbol("p"), dims.symbol("q")
    b.output(b.map(lambda x, y: x + y, b.input([N, M]), b.input([p, q])))
    for nn, mm, pp, qq in (
        (5, 70, 1, 1),
        (5, 70, 5, 1),
        (5, 70, 1, 70),
        (5, 70, 5, 70),
        (1, 1, 5, 70),
        (1, 70, 5, 1),
        (0, 3, 1, 3),
    ):
        check(b.group(), [{N: nn, M: mm, p: pp, q: qq}])


@pytest.mark.parametrize(("batch", "computed"), [(1, np.s_[:, :3]), (2, np.s_[:1]), (5, np.s_[:2])])
def test_a_loop_shorter_than_the_number_of_parts_leaves_it_to_the_next_to_be_shared_out(
    batch: int, computed: tuple[slice, ...]
) -> None:
    """The first of two parts computes three of six channels of one image, and else whole images."""
    b = Builder("scaled")
    x, scales = b.input([K, N, M]), b.input([N, 1])
    b.output(b.map(lambda p, q: p * q, x, scales))
    native, rng = Native(b.group()), np.random.default_rng(1)
    arrays = {t: rng.uniform(1, 2, shape).astype(np.float32) for t, shape in ((x, (batch, 6, 70)), (scales, (6, 1)))}
    (whole,), (half,) = (native.run(arrays, {K: batch, N: 6, M: 70}, 2, ran=ran)[1] for ran in (2, 1))
    is_computed = np.zeros(whole.shape, bool)
    is_computed[computed] = True
    np.testing.assert_array_equal(half == whole, is_computed)


def test_compare_cast_where() -> None:
    b = Builder("mixed")
    x, y, z = b.input([N, M]), b.input([N, M]), b.input([N, M], I64)
    flag = b.map(lambda p, q: lt(p, q), x, y, dtype="bool")
    b.output(flag)
    b.output(b.map(lambda c, p, q: where(c, p, q * 2.0), flag, x, y, dtype="f32"))
    b.output(b.map(lambda p: cast(p, I32), x, dtype="i32"))
    b.output(b.map(lambda p: cast(p, F64) * 0.5, z, dtype="f64"))
    b.output(b.map(lambda p: cast(p, BOOL), z, dtype="bool"))
    check(b.group(), SIZES, special=True)


def test_integer_division() -> None:
    for dtype in (I32, I64):
        b = Builder("div")
        x, y = b.input([N, M], dtype), b.input([N, M], dtype)
        for f in (lambda p, q: p // q, lambda p, q: p % q, lambda p, q: trunc_div(p, q), lambda p, q: maximum(p, q)):
            b.output(b.map(f, x, y))
        check(b.group(), SIZES)


def test_float_functions() -> None:
    b = Builder("functions")
    x = b.input([N, M])
    for f in (exp, tanh, erf, floor, lambda v: log(v * v), lambda v: sqrt(v), lambda v: minimum(maximum(v, 0.0), 6.0)):
        b.output(b.map(f, x))
    check(b.group(), SIZES, tolerance=2e-5, special=True)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1), (0, 1, 2)])
def test_reductions(kind: str, axes: tuple[int, ...]) -> None:
    for keep in (False, True):
        b = Builder(kind)
        x = b.input([K, N, M])
        y = b.map(lambda p: p * 0.5 + 1.0, x) if kind == "prod" else x
        b.output(b.reduce(kind, y, axes, keep))
        check(b.group(), SIZES[:6], tolerance=2e-3, special=kind in ("max", "min"), parts=(1, 3))


@pytest.mark.parametrize("kind", ["any", "all", "count"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_truth_reductions(kind: str, axes: tuple[int, ...]) -> None:
    b = Builder(kind)
    b.output(b.reduce(kind, b.map(lambda p: lt(p, 1.0), b.input([N, M]), dtype="bool"), axes))
    check(b.group(), SIZES)


@pytest.mark.parametrize("dtype", [F32, F64, I32, I64])
def test_integer_and_double_sums(dtype: object) -> None:
    b = Builder("sums")
    x = b.input([N, M], dtype)
    for kind in ("sum", "max", "min"):
        b.output(b.reduce(kind, x, (1,)))
    b.output(b.reduce("max", x, (0,)))
    check(b.group(), SIZES, tolerance=1e-4)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_argmax(kind: str, axis: int) -> None:
    b = Builder(kind)
    b.output(b.reduce(kind, b.input([N, M]), (axis,)))
    some = [s for s in SIZES if 0 not in s.values()]
    check(b.group(), some)
    check(b.group(), some, special=True)


def test_filtered_reduction() -> None:
    b = Builder("causal")
    x, y = b.input([N, N]), b.tensor([N])
    (i,) = b.eqs.indices("i", [N])
    b.eqs.define(y[i], reduce_("max", [N], lambda r: x[i, r], where=lambda r: ge(i, r)))
    b.output(y)
    check(b.group(), [{N: n} for n in (0, 1, 5, 40)])


def test_maps_without_inputs() -> None:
    b = Builder("arange")
    y, z = b.tensor([N, M], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], i * 10 + j)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(z[i, j], cast(scalar(N + M), F32) * 0.5)
    b.output(y)
    b.output(z)
    check(b.group(), SIZES)


def test_scalars() -> None:
    b = Builder("scalar")
    x, y = b.input([]), b.tensor([])
    b.eqs.define(y[()], exp(x[()]) + 1.0)
    b.output(y)
    check(b.group())


def test_floor_division_in_an_index() -> None:
    b = Builder("repeat")
    x, y = b.input([N, M]), b.tensor([N * 3, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[i // 3, j] + x[i // 3, j * 7 % M])
    b.output(y)
    check(b.group(), [s for s in SIZES if s[M]])


def test_a_reduction_at_two_indices_is_computed_once() -> None:
    b = Builder("outer")
    m = b.reduce("sum", b.input([N, M]), (1,))
    y = b.tensor([N, N])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], m[i] + m[j] * 2.0)
    b.output(y)
    check(b.group(), SIZES, tolerance=1e-4)


def test_attention_as_rows() -> None:
    """Reductions with free variables that the group does not share become scratch of their own."""
    b = Builder("attention")
    q, k, v = b.input([N, 8]), b.input([M, 8]), b.input([M, 8])
    s = b.matmul(q, k, tb=True)
    b.output(b.matmul(b.softmax(s), v))
    check(b.group(), SIZES, tolerance=1e-4)


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_matmul_in_all_transpositions(ta: bool, tb: bool) -> None:
    b = Builder("matmul")
    p, q = b.input([K, N] if ta else [N, K]), b.input([M, K] if tb else [K, M])
    b.output(b.matmul(p, q, ta, tb))
    check(
        b.group(),
        [{N: n, M: m, K: k} for n, m, k in ((5, 70, 33), (1, 40, 20), (0, 3, 2), (3, 2, 0), (20, 17, 100))],
        tolerance=1e-4,
    )


def test_integer_matmul_with_batches() -> None:
    b = Builder("matmul")
    b.output(b.matmul(b.input([B, N, K], I64), b.input([1, K, M], I64)))
    check(b.group(), SIZES)


def test_same_structure_same_text() -> None:
    """Names of symbols and tensors do not reach the text, so groups share kernels."""
    texts = []
    for n, m in (("n", "m"), ("rows", "a_b")):
        b = Builder(n)
        b.output(b.softmax(b.input([dims.symbol(n), dims.symbol(m)])))
        texts.append(lower_group(b.group(), host_target()).text)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("level", ["avx2", "sse"])
def test_narrower_vectors(level: str) -> None:
    b = Builder("narrow")
    b.output(b.softmax(b.map(lambda p, q: p + q, b.input([N, M]), b.input([M]))))
    check(b.group(), SIZES, target=host_target().limited(level))


def test_an_operand_is_transposed_in_blocks() -> None:
    b = Builder("addt")
    x, t, y = b.input([N, M]), b.input([M, N]), b.tensor([N, M])
    i, j = b.eqs.indices("i", [N, M])
    b.eqs.define(y[i, j], x[i, j] + t[j, i])
    b.output(y)
    assert (
        describe(b.group())
        == "for i0 in n, i1 in m along, transposed i0:\n  t0[i0*m + i1] = (x0[i0*m + i1] + x1[i0 + i1*n])\n"
    )
    sizes = [{N: n, M: m} for n, m in ((64, 64), (65, 63), (1, 200), (130, 129), (0, 5), (5, 0))]
    native = check(b.group(), sizes)
    assert native.kernel.schedule == ("transposed",)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8", "i16", "u16", "u32", "u64"])
def test_narrow_and_unsigned_dtypes(dtype: str) -> None:
    b = Builder(dtype)
    x, y = b.input([N, M], dtype), b.input([M], dtype)
    z = b.output(b.map(lambda p, q: maximum(p * q + p, q), x, y))
    b.output(b.reduce("max", z, (1,)))
    b.output(b.reduce("min", z, (0,)))
    b.output(b.map(lambda p: cast(p, F32) * 0.5, z, dtype="f32"))
    b.output(b.map(lambda p, q: lt(p, q), x, y, dtype="bool"))
    tolerance = {"f16": 2e-3, "bf16": 2e-2}.get(dtype, 0.0)
    check(b.group(), SIZES, tolerance=max(tolerance, 1e-6))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u8"])
def test_narrow_sums_and_products(dtype: str) -> None:
    b = Builder(dtype)
    x, y = b.input([N, K], dtype), b.input([K, M], dtype)
    b.output(b.reduce("sum", x, (1,)))
    b.output(b.matmul(x, y))
    tolerance = {"f16": 4e-3, "bf16": 4e-2}.get(dtype, 1e-6)
    check(b.group(), SIZES, tolerance=tolerance)


def test_a_long_chain_of_maps() -> None:
    b = Builder("chain")
    x = b.input([N, M])
    y = x
    for _ in range(120):
        y = b.map(lambda p, q: maximum(p * 0.5 + q, p) * 0.9 - 0.5, y, x)
    b.output(y)
    assert lower_group(b.group(), host_target()).schedule == ("rows",)


def test_a_guarded_gather_is_checked_where_it_counts() -> None:
    """An index out of range is an error only where the condition asks for the element."""
    b = Builder("guarded")
    table, index, flag, y = b.input([7, M]), b.input([N], I64), b.input([N], "bool"), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], where(flag[i], table[index[i], j], -1.0))
    b.output(y)
    native = Native(b.group())
    sizes = {N: 4, M: 20}
    x = {
        table: np.ones((7, 20), np.float32),
        index: np.array([3, 99, 0, -5]),
        flag: np.array([True, False, True, False]),
    }
    status, (got,) = native.run(x, sizes)
    assert status == 0
    np.testing.assert_array_equal(got[:, 0], [1, -1, 1, -1])
    status, _ = native.run({**x, flag: np.array([True, True, True, False])}, sizes)
    assert "out of range for axis 0" in native.refusal
    assert "size 7" in native.refusal


def test_constants_of_one_element_are_literals() -> None:
    b = Builder("scale")
    x, c, flag = b.input([N, M]), b.input([1, 1]), b.input([], "bool")
    y = b.map(lambda p, q: p / q, x, c)
    b.output(b.map(lambda p, q: where(q, p, 0.0), y, flag, dtype="f32"))
    for value in (8.0, 3.0, np.inf, np.nan):
        constants = {c: np.array([[value]], np.float32), flag: np.array(True)}
        group = replace(b.group(), constants=constants)
        check(group, SIZES, fixed=constants)
        assert "/ " + str(value) in describe(group)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("few", [2, 3, 4])
@pytest.mark.parametrize("read", [False, True])
def test_lanes_are_positions_where_few_elements_lie_side_by_side(read: bool, few: int, level: str) -> None:
    """What is computed of a position for two or three elements runs over positions; what is read along them, over the elements."""
    b = Builder("points")
    x, scale = b.input([M, few]), b.input([few])
    y = b.tensor([N, M, few])
    i, j, k = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j, k], scale[k] * (x[j, k] if read else cast(j, F32)) + cast(i, F32))
    b.output(y)
    target = host_target().limited(level)
    text = describe(b.group())
    assert ("i1 in m along" in text) == (not read and few < 4), text
    check(b.group(), [{N: 3, M: 1}, {N: 2, M: 37}, {N: 0, M: 4}, {N: 1, M: 130}], target=target)


@pytest.mark.parametrize("few", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("level", ["avx512", "sse"])
def test_lanes_run_along_results_where_few_elements_are_summed(few: int, level: str) -> None:
    b = Builder("short rows")
    x, y, first = b.input([N, few]), b.tensor([N]), b.tensor([N], "i64")
    i = b.eqs.index("i", N)
    b.eqs.define(y[i], reduce_("sum", [few], lambda k: x[i, k] * x[i, k]))
    b.eqs.define(first[i], reduce_("argmax", [few], lambda k: x[i, k]))
    b.output(y)
    b.output(first)
    assert ("for i0 in n along" in describe(b.group())) == (few < SHORT_SUM)
    check(b.group(), [{N: n} for n in (0, 1, 7, 16, 53, 130)], target=host_target().limited(level))


def test_conditions_that_hold_everywhere_are_no_tests() -> None:
    """Windows of two that are whole inside of their rows, of which the last element is left out where there are three."""
    b = Builder("pairs")
    x, y, z = b.input([N]), b.tensor([dims.floordiv(N, 2)]), b.tensor([N])
    i, j = b.eqs.index("i", y.shape[0]), b.eqs.index("j", N)
    at = 2 * i + 1
    b.eqs.define(y[i], where(and_(ge(at, 0), lt(at, N)), lambda: x[at], 7.0))
    b.eqs.define(z[j], where(and_(ge(j, 1), lt(j, N)), lambda: x[j - 1], 7.0))
    b.output(y)
    b.output(z)
    pairs, rest = describe(b.group()).split("t1[")
    assert " if " not in pairs
    assert rest.count(">=") == 1
    assert rest.count("<") == 0
    check(b.group(), [{N: n} for n in (0, 1, 2, 3, 16, 53, 130)])


@pytest.mark.parametrize("divisor", [1, 2, 64, 3, -4])
@pytest.mark.parametrize("dtype", ["i64", "i32", "u8"])
def test_divisors_that_are_powers_of_two_take_a_shift(divisor: int, dtype: str) -> None:
    if dtype == "u8" and divisor < 0:
        return
    b = Builder("quotients")
    x = b.input([N], dtype)
    number = const(divisor, x.dtype)
    b.output(b.map(lambda a: quotient(a, number), x))
    b.output(b.map(lambda a: remainder(a, number), x))
    native = check(b.group(), [{N: 0}, {N: 37}])
    limits = np.iinfo(x.dtype.numpy)
    values = np.array([limits.min, limits.max, 0, 1, 5, 63, 64, 65, limits.max - 1], x.dtype.numpy)
    for result, expected in zip(
        native.run({x: values}, {N: len(values)})[1], np.divmod(values, x.dtype.numpy.type(divisor)), strict=True
    ):
        np.testing.assert_array_equal(result, expected)
    divides = bool(re.search(r"\b[sfu]div <", native.kernel.text))
    assert divides == (divisor not in (1, 2, 64))


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize(
    ("exponent", "short"),
    [(1.0, True), (2.0, True), (0.5, True), (-1.0, True), (0.25, True), (0.75, True), (0.375, False), (-2.0, False)],
)
def test_powers_that_take_an_instruction(exponent: float, short: bool, dtype: str) -> None:
    """Exponents that are known, also as quotients: 3 / 4 of a parameter p."""
    b = Builder("powers")
    x = b.input([N], dtype)
    power = const(3.0, x.dtype) / cast(const(3.0 / exponent, F64), x.dtype)
    b.output(b.map(lambda a: a**power, x))
    group = b.group()
    assert ("pow" not in describe(group)) == short
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -2.0, 3.0, 0.3], parse_dtype(dtype).numpy)
    (y,) = Native(group).run({x: values}, {N: len(values)})[1]
    with np.errstate(all="ignore"):
        expected = np.power(values, np.full(values.shape, exponent, values.dtype))
    np.testing.assert_allclose(y, expected, rtol=1e-3 if dtype == "f16" else 1e-6)
    assert (np.signbit(y) == np.signbit(expected))[~np.isnan(expected)].all()
