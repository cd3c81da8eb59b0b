"""Contractions: native code equals the interpreter, in every transposition, with batches, epilogues and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import F32, F64, I64, parse_dtype
from anyshape.equations import Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import exp, maximum, minimum, reduce_, where
from anyshape.lower import Group, PackedConstant, describe, host_target, lower_group
from anyshape.lower.emit.values import elementwise
from anyshape.lower.gemm import tiles_for
from anyshape.lower.target import Target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import CANARY, Array, Native, check

SIZES = [
    {N: n, M: m, K: k, B: 2}
    for n, m, k in (
        (5, 70, 33),
        (1, 40, 20),
        (0, 3, 2),
        (3, 2, 0),
        (20, 17, 100),
        (33, 129, 64),
        (3, 0, 4),
        (1, 1, 1),
        (4, 5, 0),
    )
]


def not_measured() -> Target:
    """The host but for its last cache: nothing is measured of it, so factors are loaded once, and widened columns kept for other tiles."""
    return replace(host_target(), l3_bytes=2 * host_target().l3_bytes)


def with_constants(group: Group, arrays: Mapping[Tensor, Array]) -> Group:
    return replace(group, constants=dict(arrays))


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_transpositions(ta: bool, tb: bool) -> None:
    b = Builder("matmul")
    p, q = b.input([K, N] if ta else [N, K]), b.input([M, K] if tb else [K, M])
    b.output(b.matmul(p, q, ta, tb))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("product",)


@pytest.mark.parametrize(
    "stored",
    [("f16", "f16"), ("bf16", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f32", "i8"), ("i8", "f32"), ("i8", "bf16")],
)
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_narrow_operands_are_widened_as_they_are_read(stored: tuple[str, str], ta: bool, tb: bool) -> None:
    b = Builder("matmul")
    p, q = b.input([B, K, N] if ta else [B, N, K], stored[0]), b.input([M, K] if tb else [K, M], stored[1])
    wide = [b.map(lambda x: cast(x, F32), t, dtype="f32") for t in (p, q)]
    b.output(b.matmul(*wide, ta, tb))  # type: ignore[call-arg]
    rows = [{N: n, M: 300, K: 40, B: 2} for n in (1, 2, 4, 5)]
    native = check(b.group(), [*SIZES, *rows], tolerance=1e-4)
    assert native.kernel.schedule == ("product",)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_bytes_are_widened_with_their_signs(level: str) -> None:
    """Sums of whole numbers below 2^24 are exact, at every layout of the bytes and number of rows; bytes without a sign are no such
    operand."""
    rng = np.random.default_rng(5)
    for flips in (False, True):
        b = Builder("matmul")
        x, w = b.input([N, K]), b.input([M, K] if flips else [K, M], "i8")
        b.output(b.matmul(x, b.map(lambda a: cast(a, F32), w, dtype="f32"), False, flips))
        native = Native(b.group(), host_target().limited(level))
        assert native.kernel.schedule == ("product",)
        for n, m, k in ((1, 70, 33), (3, 1000, 64), (3, 64, 1000), (5, 17, 130), (20, 200, 40)):
            rows, codes = (
                rng.integers(-9, 9, (n, k)).astype(np.float32),
                rng.integers(-128, 128, (k, m)).astype(np.int8),
            )
            codes[0, 0], codes[-1, -1] = -128, 127
            stored = np.ascontiguousarray(codes.T) if flips else codes
            for parts in (1, 2):
                got = native.run({x: rows, w: stored}, {N: n, M: m, K: k}, parts)[1][0]
                np.testing.assert_array_equal(got, rows @ codes.astype(np.float32))
    b = Builder("matmul")
    x, w = b.input([N, K]), b.input([K, M], "u8")
    b.output(b.matmul(x, b.map(lambda a: cast(a, F32), w, dtype="f32")))
    assert Native(b.group(), host_target().limited(level)).kernel.schedule != ("product",)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8"])
def test_constant_weights_of_fewer_bits_stay_so(dtype: str) -> None:
    b = Builder("matmul")
    x, w = b.input([N, 40]), b.input([40, 70], dtype)
    b.output(b.matmul(x, b.map(lambda a: cast(a, F32), w, dtype="f32")))
    values = (np.random.default_rng(1).standard_normal((40, 70)) * (1 if w.dtype.is_float else 40)).astype(
        w.dtype.numpy
    )
    group = with_constants(b.group(), {w: values})
    native = check(group, [{N: n} for n in (0, 1, 3, 8, 33)], tolerance=1e-4, fixed={w: values})
    assert native.kernel.schedule == ("product",)
    (packed,) = (t for t in native.kernel.inputs if isinstance(t, PackedConstant))
    assert packed.array.dtype == values.dtype


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8"])
@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("columns", [193, 200, 212])
def test_constant_weights_are_widened_once_for_many_rows(dtype: str, level: str, columns: int) -> None:
    """Results have the same bits with a second cache that holds a widened panel and with one that does not, for any number of parts, and
    rows in tiles of any height that three and more can have."""
    b = Builder("matmul")
    x, w = b.input([N, 40]), b.input([40, columns], dtype)
    b.output(b.matmul(x, b.map(lambda a: cast(a, F32), w, dtype="f32")))
    rng = np.random.default_rng(2)
    values = (rng.standard_normal((40, columns)) * (1 if w.dtype.is_float else 40)).astype(w.dtype.numpy)
    rows = rng.standard_normal((70, 40)).astype(np.float32)
    natives = [
        Native(with_constants(b.group(), {w: values}), replace(not_measured().limited(level), l2_bytes=l2_bytes))
        for l2_bytes in (1 << 20, 8 << 10)
    ]
    most = tiles_for(host_target().limited(level), elementwise.memory_type(F32)).rows
    for n in (*range(2 * most + 1, 3 * most + 2), 70):
        results = [native.run({x: rows[:n]}, {N: n}, parts)[1][0] for native in natives for parts in (1, 2, 3)]
        np.testing.assert_allclose(results[0], rows[:n] @ values.astype(np.float32), rtol=1e-4, atol=1e-4)
        for other in results[1:]:
            np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("columns", [16, 33, 70])
def test_weights_widen_to_the_same_bits_wherever_factors_are_loaded(dtype: str, columns: int) -> None:
    """The operands are any 16 bits of numbers up to 2^15, those below the normal ones too; an infinity in one column and a NaN in
    another."""
    b = Builder("matmul")
    x, w = b.input([N, 600], dtype), b.input([600, columns], dtype)
    b.output(b.matmul(*(b.map(lambda a: cast(a, F32), t, dtype="f32") for t in (x, w))))
    rng = np.random.default_rng(4)
    every = np.arange(1 << 16, dtype=np.uint16).view(w.dtype.numpy)
    some = every[np.abs(every.astype(np.float32)) < 2**15]
    rows, values = rng.choice(some, (33, 600)), rng.choice(some, (600, columns))
    values[5, 0], values[7, 1] = np.inf, np.nan
    group = with_constants(b.group(), {w: values})
    natives = [Native(group, target) for target in (host_target(), not_measured())]
    for n in (*range(1, 16), 33):
        with np.errstate(all="ignore"):
            once, again = (native.run({x: rows[-n:]}, {N: n})[1][0] for native in natives)
        np.testing.assert_array_equal(once.view(np.uint32), again.view(np.uint32))
        assert np.isfinite(again[:, 2:]).all() and not np.isfinite(again[:, :2]).any()


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_the_least_rows_of_a_tile(level: str) -> None:
    """The least rows are those of an even split, as the driver makes it."""
    tiles = tiles_for(host_target().limited(level), elementwise.memory_type(F32))
    for count in (2, 3, 4):
        split = [(rows, -(-rows // tiles.rows)) for rows in range(1, 20 * tiles.rows)]
        assert tiles.least_rows(count) == min(rows // n for rows, n in split if n >= count)


def test_weights_that_are_widened_once_are_shared_out() -> None:
    """Widened weights are shared out by columns, although there are rows enough: each part would widen all of them."""
    b = Builder("matmul")
    x, w = b.input([N, 40]), b.input([40, 200], "f16")
    b.output(b.matmul(x, b.map(lambda a: cast(a, F32), w, dtype="f32")))
    values = np.random.default_rng(2).standard_normal((40, 200)).astype(np.float16)
    rows = np.random.default_rng(3).standard_normal((70, 40)).astype(np.float32)
    native = Native(with_constants(b.group(), {w: values}), not_measured())
    (whole,), (half,) = (native.run({x: rows}, {N: 70}, 2, ran=ran)[1] for ran in (2, 1))
    columns = tiles_for(host_target(), elementwise.memory_type(F32)).columns
    mine = -(-200 // columns) // 2 * columns
    np.testing.assert_array_equal(half[:, :mine], whole[:, :mine])
    assert (np.ascontiguousarray(half[:, mine:]).view(np.uint8) == CANARY).all()


@pytest.mark.parametrize("batch", [((B,), (B,)), ((B,), ()), ((), (B,)), ((B, 3), (3,)), ((1, 3), (B, 1))])
def test_batches(batch: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
    b = Builder("matmul")
    b.output(b.matmul(b.input([*batch[0], N, K]), b.input([*batch[1], K, M])))
    check(b.group(), SIZES, tolerance=1e-4)


def test_open_batch() -> None:
    """A batch dim that is only known to be equal or 1."""
    b = Builder("matmul")
    p, q = dims.symbol("p"), dims.symbol("q")
    b.output(b.matmul(b.input([p, N, K]), b.input([q, K, M])))
    for pp, qq in ((1, 1), (3, 1), (1, 3), (3, 3)):
        check(b.group(), [{N: 5, M: 20, K: 7, p: pp, q: qq}], tolerance=1e-4)


@pytest.mark.parametrize("dtype", [F32, F64, I64])
def test_dtypes(dtype: Any) -> None:
    b = Builder("matmul")
    b.output(b.matmul(b.input([N, K], dtype), b.input([K, M], dtype)))
    check(b.group(), SIZES, tolerance=1e-4)


def test_bias_gelu_residual() -> None:
    b = Builder("mlp")
    y = b.matmul(b.input([B, N, K]), b.input([K, M]))
    y = b.gelu(b.map(lambda p, q: p + q, y, b.input([M])))
    b.output(b.map(lambda p, q: p + q, y, b.input([B, N, M])))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("product",)


def test_scale_and_mask() -> None:
    b = Builder("scores")
    y = b.matmul(b.input([B, N, K]), b.input([B, M, K]), tb=True)
    flag = b.input([B, 1, M], "bool")
    b.output(b.map(lambda s, c: where(c, s * 0.125, -1e9), y, flag, dtype="f32"))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("product",)


def test_two_outputs() -> None:
    b = Builder("two")
    y = b.output(b.matmul(b.input([N, K]), b.input([K, M])))
    b.output(b.map(lambda p: maximum(p, 0.0), y))
    check(b.group(), SIZES, tolerance=1e-4)


def test_heads_split_and_merged() -> None:
    """Operands and results that are views of [batch, length, heads * width]."""
    b = Builder("heads")
    q, k = b.input([B, N, 4, 8]), b.input([B, M, 4, 8])
    y = b.tensor([B, 4, N, M])
    i = b.eqs.indices("i", y.shape)
    from anyshape.equations.functions import reduce_

    b.eqs.define(y[i], reduce_("sum", [8], lambda r: q[i[0], i[2], i[1], r] * k[i[0], i[3], i[1], r]))
    b.output(y)
    v = b.input([B, N, M, 4])
    z = b.tensor([B, N, 4, 8])
    j = b.eqs.indices("j", z.shape)
    b.eqs.define(z[j], reduce_("sum", [M], lambda r: v[j[0], j[1], r, j[2]] * k[j[0], r, j[2], j[3]]))
    b.output(z)
    check(b.group(), SIZES, tolerance=1e-4)


def test_transposed_result() -> None:
    b = Builder("transposed")
    y = b.matmul(b.input([N, K]), b.input([K, M]))
    z = b.tensor([M, N])
    i, j = b.eqs.indices("i", z.shape)
    b.eqs.define(z[i, j], y[j, i] + 1.0)
    b.output(z)
    check(b.group(), SIZES, tolerance=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_constant_operand_is_packed(transposed: bool, shared: bool) -> None:
    b = Builder("linear")
    x = b.input([B, N, 20])
    w = b.input([45, 20] if transposed else [20, 45])
    y = b.matmul(x, w, tb=transposed)
    y = b.map(lambda p, q: p + q, y, b.input([45]))
    b.output(y)
    if shared:
        b.output(b.map(lambda p: p * 2.0, w))
    array = np.random.default_rng(1).normal(size=w.shape).astype(np.float32)
    group = with_constants(b.group(), {w: array})
    native = check(group, SIZES, tolerance=1e-4, fixed={w: array})
    packed = [t for t in native.kernel.inputs if isinstance(t, PackedConstant)]
    assert len(packed) == 1
    assert len(native.kernel.inputs) == 3 + shared


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lead", [(1,), (1, 1), (B,)])
def test_a_row_times_a_constant_is_a_product_of_a_packed_matrix(lead: tuple[Any, ...], transposed: bool) -> None:
    """A dim of 1 is no loop, and the matrix is packed all the same."""
    b = Builder("matmul")
    array = np.random.default_rng(0).random((70, 40) if transposed else (40, 70), np.float32)
    x, w = b.input([*lead, 40]), b.input(array.shape)
    b.output(b.map(maximum, b.matmul(x, w, tb=transposed), b.input([70])))
    group = with_constants(b.group(), {w: array})
    native = check(group, [{B: n} for n in (0, 1, 3)], tolerance=1e-4, fixed={w: array})
    assert native.kernel.schedule == ("product",) and any(isinstance(i, PackedConstant) for i in native.kernel.inputs)


def test_constant_batched_operand() -> None:
    b = Builder("experts")
    w = b.input([3, 20, 45])
    b.output(b.matmul(b.input([3, N, 20]), w))
    array = np.random.default_rng(1).normal(size=w.shape).astype(np.float32)
    check(with_constants(b.group(), {w: array}), SIZES, tolerance=1e-4, fixed={w: array})


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_part_of_a_constant_is_packed(first: int, backward: bool) -> None:
    """One gate's weights among those of all, in their order or from the last column back."""
    b = Builder("gate")
    x, w, y = b.input([N, 20]), b.input([3, 45, 20]), b.tensor([N, 45])
    i, j = b.eqs.indices("i", y.shape)
    at = 44 - j if backward else j
    b.eqs.define(y[i, j], reduce_("sum", [20], lambda k: x[i, k] * w[first, at, k]))
    b.output(y)
    array = np.random.default_rng(1).normal(size=w.shape).astype(np.float32)
    native = check(with_constants(b.group(), {w: array}), SIZES, tolerance=1e-4, fixed={w: array})
    assert [type(t) for t in native.kernel.inputs] == [Tensor, PackedConstant]


def test_a_part_of_a_constant_that_begins_anywhere_is_not_packed() -> None:
    b = Builder("gate")
    x, w, y = b.input([N, 20]), b.input([3, 45, 20]), b.tensor([N, 45])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [20], lambda k: x[i, k] * w[minimum(K, 2), j, k]))
    b.output(y)
    array = np.random.default_rng(1).normal(size=w.shape).astype(np.float32)
    native = check(with_constants(b.group(), {w: array}), SIZES, tolerance=1e-4, fixed={w: array})
    assert [type(t) for t in native.kernel.inputs] == [Tensor, Tensor]


def test_computed_operand() -> None:
    """A factor that is more than a load is computed once, into scratch."""
    b = Builder("prologue")
    x = b.gelu(b.input([N, K]))
    b.output(b.matmul(x, b.input([K, M])))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("blocked", "rows", "product")


@pytest.mark.parametrize("checked", [True, False])
def test_a_factor_of_several_summed_variables_that_is_checked_is_computed_once(checked: bool) -> None:
    """Loops would look each element up again, and check it, for every column. One without checks is computed as it is packed."""
    b = Builder("looked up")
    x, at, w = b.input([5, 3, N]), b.input([5], I64), b.input([M, 5, 3])
    y = b.tensor([M, N])
    j, i = b.eqs.indices("i", y.shape)
    b.eqs.define(y[j, i], reduce_("sum", [5, 3], lambda p, q: exp(x[at[p] if checked else p, 2 - q, i]) * w[j, p, q]))
    b.output(y)
    native = check(b.group(), SIZES, tolerance=1e-4, fixed={at: np.array([4, 0, 2, 2, 1])})
    assert native.kernel.schedule == (("rows", "product") if checked else ("product",))


@pytest.mark.parametrize(
    ("rows", "step", "gap", "copied"), [(64, 2, 0, True), (63, 2, 0, False), (64, 1, 0, False), (64, 2, 1, False)]
)
def test_places_of_a_strided_factor_are_columns_of_one_product(rows: int, step: int, gap: int, copied: bool) -> None:
    """The product is of a copy, where there are rows enough to pay for it, and results that lie one behind the other."""
    b = Builder("strided")
    x, w = b.input([K, 3 * step, M * step]), b.input([rows, K])
    y, bias = b.tensor([rows, 3, M]), b.input([3, M + gap])
    c, i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[c, i, j], reduce_("sum", [K], lambda k: w[c, k] * x[k, i * step, j * step]) + bias[i, j])
    b.output(y)
    assert ("ahead dense" in describe(b.group())) == copied
    check(b.group(), SIZES, tolerance=1e-4)


def test_product_then_layer_norm() -> None:
    b = Builder("project")
    y = b.matmul(b.input([N, K]), b.input([K, M]))
    y = b.map(lambda p, q: p + q, y, b.input([N, M]))
    b.output(b.layer_norm(y, b.input([M]), b.input([M])))
    native = check(b.group(), SIZES, tolerance=3e-4)
    assert native.kernel.schedule == ("blocked", "product", "rows")


def test_whole_attention() -> None:
    b = Builder("attention")
    q, k, v = b.input([B, N, K]), b.input([B, M, K]), b.input([B, M, K])
    s = b.map(lambda p: p * 0.25, b.matmul(q, k, tb=True))
    b.output(b.matmul(b.softmax(s), v))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("blocked", "product", "rows", "product")


def test_products_side_by_side_are_shared_out_and_take_scratch_in_iterations() -> None:
    """One of them stores its heads elsewhere."""
    b = Builder("side by side")
    x = b.input([N, 40])
    ws = [b.input([40, 64]), b.input([40, M]), b.input([40, 17])]
    first, second, third = (b.matmul(x, w) for w in ws)
    y = b.output(b.tensor([4, N, 16]))
    h, i, j = b.eqs.index("h", 4), b.eqs.index("i", N), b.eqs.index("j", 16)
    b.eqs.define(y[h, i, j], first[i, h * 16 + j])
    b.output(b.map(lambda v: maximum(v, 0.0), second))
    b.output(third)
    native = check(
        b.group(), [{N: n, M: m} for n, m in ((0, 3), (1, 33), (4, 0), (9, 5), (70, 40))], 1e-4, parts=(1, 2, 4)
    )
    assert native.kernel.schedule == ("product",) * 3
    assert native.kernel.work != 0
    alone = Builder("alone")
    alone.output(alone.matmul(alone.input([N, 40]), alone.input([40, 17])))
    assert native.kernel.scratch == lower_group(alone.group(), host_target()).scratch


def test_matrix_vector_goes_to_rows() -> None:
    b = Builder("vector")
    b.output(b.matmul(b.input([N, K]), b.input([K, 1])))
    native = check(b.group(), SIZES, tolerance=1e-4)
    assert native.kernel.schedule == ("rows",)


def test_text_is_deterministic() -> None:
    b = Builder("mlp")
    b.output(b.gelu(b.matmul(b.input([N, K]), b.input([K, M]))))
    group = b.group()
    assert lower_group(group, host_target()).text == lower_group(group, host_target()).text


def test_columns_of_a_product_are_work_in_whole_vectors() -> None:
    def work(columns: int) -> Size:
        b = Builder("matmul")
        b.output(b.matmul(b.input([N, 300]), b.input([300, columns])))
        return lower_group(b.group(), host_target()).work

    lanes = host_target().lanes(4)
    assert work(2) == work(lanes) and work(lanes + 1) == work(2 * lanes)
    assert dims.evaluate(work(lanes + 1), {N: 100}) > dims.evaluate(work(lanes), {N: 100})


@pytest.mark.parametrize(("multiply_adds", "expected"), [(1, 100 + 2), (2, 50 + 2)])
def test_work_is_counted_by_what_a_cycle_multiplies(
    multiply_adds: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One vector where the widest are executed as two halves, else two; and half a vector of the second operand is read."""
    monkeypatch.setattr("anyshape.lower.schedule.work.multiply_adds", lambda target: multiply_adds)
    b = Builder("matmul")
    b.output(b.matmul(b.input([N, 300]), b.input([300, 48])))
    work = lower_group(b.group(), host_target()).work
    assert dims.evaluate(work, {N: 100}) == 300 * 48 // host_target().lanes(4) * expected


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_rows_are_not_gathered_from_windows_where_the_constant_differs_between_those(dtype: str, level: str) -> None:
    """y[n, i, o] = sum(x[n, j, i, c] * w[i, j, c, o]): adjacent c of each i look like windows that do not overlap."""
    b = Builder("steps")
    x, w = b.input([B, 4, 3, 2], dtype), b.input([3, 4, 2, 21], "i8" if dtype == "u8" else dtype)
    wide = "i32" if dtype == "u8" else dtype
    y = b.tensor([B, 3, 21], wide)
    n, i, o = b.eqs.indices("i", y.shape)

    def term(j: Any, c: Any) -> Any:
        return cast(x[n, j, i, c], parse_dtype(wide)) * cast(w[i, j, c, o], parse_dtype(wide))

    b.eqs.define(y[n, i, o], reduce_("sum", [4, 2], term))
    b.output(y)
    values = np.random.default_rng(1).integers(-100, 100, (3, 4, 2, 21)).astype(w.dtype.numpy)
    group = replace(b.group(), constants={w: values})
    check(group, [{B: 1}, {B: 5}], fixed={w: values}, target=host_target().limited(level))


@pytest.mark.parametrize(
    ("batches", "rows", "shared"),
    [(3, 60, "rows"), (4, 60, "batches"), (3, None, "batches"), (33, 60, "batches")],
)
@pytest.mark.parametrize("columns", ["constant", "in place", "along k"])
def test_few_batches_that_are_uneven_share_out_rows(batches: int, rows: int | None, shared: str, columns: str) -> None:
    """One part of two would have two of three batches; there have to be rows enough (None: too few), and one more of many batches is not
    much. Columns that have to be packed are packed by the part that has their batch."""
    rows = rows or 3 * tiles_for(host_target(), elementwise.register_type(F32)).rows // 2
    b = Builder("products of batches")
    x, w = b.input([N, 24]), b.input([batches, 40, 24] if columns == "along k" else [batches, 24, 40])
    y = b.tensor([batches, N, 40])
    p, i, j = b.eqs.indices("i", y.shape)
    of_w = (lambda k: w[p, j, k]) if columns == "along k" else (lambda k: w[p, k, j])
    b.eqs.define(y[p, i, j], reduce_("sum", [24], lambda k: x[i, k] * of_w(k)))
    b.output(y)
    values = np.random.default_rng(5).normal(size=w.shape).astype(np.float32)
    group = with_constants(b.group(), {w: values}) if columns == "constant" else b.group()
    native = check(group, [{N: rows}], tolerance=1e-4, fixed={w: values})
    argument = np.random.default_rng(6).normal(size=(rows, 24)).astype(np.float32)
    arguments = {x: argument} if columns == "constant" else {x: argument, w: values}
    (whole,), (half,) = (native.run(arguments, {N: rows}, 2, ran=ran)[1] for ran in (2, 1))
    shared = "batches" if columns == "along k" else shared
    own = (whole == half).all(axis=-1)
    assert own[:, : rows // 2].all() == (shared == "rows")
    assert own[: batches // 2].all() == (shared == "batches")
