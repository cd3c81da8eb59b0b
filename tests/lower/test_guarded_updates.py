"""Updates under a condition: native code against the interpreter, for every dtype, at empty extents, and beside indices out of range."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.dims import Dim, Size, evaluate
from anyshape.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, DType
from anyshape.equations import Equations
from anyshape.equations.expr import Expr, Tensor
from anyshape.equations.functions import and_, cast, checked, ge, lt, not_, range_index
from anyshape.equations.interpret import interpret
from anyshape.equations.operations import operations
from anyshape.equations.unknown import UnknownElement
from anyshape.errors import AnyshapeError
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.structural_key import StructuralKeyWriter
from tests.lower.groups import Builder, K, M, N
from tests.lower.native import Native

DTYPES = (F64, F32, F16, BF16, I64, I32, I16, I8, U32, U16, U8)
OPS = ("set", "add", "sub", "mul", "max", "min")


def inside(i: Expr, n: Dim) -> Expr:
    return and_(ge(i, 0), lt(i, n))


def elements(op: str, dtype: DType = F32) -> Builder:
    """Elements at places that a condition keeps in range."""
    b = Builder("elements")
    at, values, y = b.input([N], I64), b.input([N], dtype), b.tensor([K], dtype)
    (k,) = b.eqs.indices("k", y.shape)
    (j,) = b.eqs.indices("j", [N])
    b.eqs.define(y[k], cast(k, dtype))
    b.eqs.update(y[at[j]], op, values[j], where=inside(at[j], K))
    b.output(y)
    return b


def rows(op: str, dtype: DType = F32, guard: str = "row", extent: int | Dim = M) -> Builder:
    """Rows at places in range, of which a condition on the row, or on each of its elements, keeps some."""
    b = Builder("rows")
    at, values, y = b.input([N], I64), b.input([N, extent], dtype), b.tensor([K, extent], dtype)
    kept = b.input([N] if guard == "row" else [N, extent], BOOL)
    k, m = b.eqs.indices("k", y.shape)
    i, j = b.eqs.indices("i", values.shape)
    b.eqs.define(y[k, m], cast(k * 3 + m, dtype))
    where = kept[i] if guard == "row" else kept[i, j]
    b.eqs.update(checked(y)[at[i], j], op, values[i, j], where=and_(where, inside(at[i], K)))
    b.output(y)
    return b


def ranges() -> Builder:
    """Parts of a vector, added up at places of their own."""
    b = Builder("ranges")
    offsets, at, values, y = b.input([M + 1], I64), b.input([N], I64), b.input([N]), b.tensor([K])
    (r,) = b.eqs.indices("r", [M])
    (e,) = b.eqs.indices("e", [N])
    where = and_(ge(e, offsets[r]), lt(e, offsets[r + 1]))
    b.eqs.update(checked(y)[at[e]], "add", values[e] * cast(r + 1, F32), over=(r, e), where=where)
    b.output(y)
    return b


def shifted() -> Builder:
    """A row a place further on, where its last element is left out by data alone."""
    b = Builder("shifted")
    values, kept, y = b.input([N, M]), b.input([M], BOOL), b.tensor([N, M])
    i, j = b.eqs.indices("i", values.shape)
    b.eqs.update(checked(y)[i, j + 1], "add", values[i, j], where=kept[j])
    b.output(y)
    return b


def same(b: Builder, *arrays: np.ndarray, sizes: dict[Dim, int], level: str | None = None) -> np.ndarray:
    """What native code and the interpreter both give."""
    native = Native(b.group(), host_target() if level is None else host_target().limited(level))
    operands = dict(zip(native.group.inputs, arrays, strict=True))
    (y,) = native.group.outputs
    status, (got,) = native.run(operands, sizes)
    assert status == 0, native.refusal
    rtol = 1e-2 if y.dtype.bits == 16 and y.dtype.is_float else 1e-6
    np.testing.assert_allclose(
        np.asarray(got, np.float64), np.asarray(interpret(native.group.equations, operands, sizes)[y], np.float64), rtol
    )
    return np.asarray(got, np.float64)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_places_out_of_range_are_left_out(op: str, dtype: DType) -> None:
    rng = np.random.default_rng(1)
    for count, size in ((0, 5), (5, 0), (1, 1), (70, 7)):
        at = rng.choice([-(2**63), -1, *range(7), 2**62, 2**63 - 1], count)
        values = rng.integers(0, 5, count).astype(dtype.numpy)
        same(elements(op, dtype), at, values, sizes={K: size, N: count})


@pytest.mark.parametrize("guard", ["row", "element"])
@pytest.mark.parametrize("op", ["set", "add", "max"])
@pytest.mark.parametrize("dtype", [F32, F16, I8], ids=str)
def test_rows(op: str, dtype: DType, guard: str) -> None:
    rng = np.random.default_rng(2)
    for count, width in ((0, 21), (9, 0), (9, 1), (9, 15), (9, 16), (9, 64), (9, 85), (70, 21)):
        at, values = rng.choice([-1, *range(5), 2**60], count), rng.integers(-9, 9, (count, width)).astype(dtype.numpy)
        kept = rng.random((count,) if guard == "row" else (count, width)) < 0.5
        same(rows(op, dtype, guard), at, values, kept, sizes={K: 5, N: count, M: width})


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_nothing_of_a_row_that_is_left_out_is_touched(level: str) -> None:
    """The harness sees what is written out of bounds; an address far away would end the process."""
    at, values = np.array([2**58, 1, -(2**58)]), np.ones((3, 130), np.float32)
    for guard in ("row", "element"):
        kept = np.ones((3,) if guard == "row" else (3, 130), bool)
        got = same(rows("add", F32, guard), at, values, kept, sizes={K: 2, N: 3, M: 130}, level=level)
        np.testing.assert_array_equal(got[0], np.arange(130))
        np.testing.assert_array_equal(got[1], np.arange(130) + 4)


def test_rows_of_elements_under_a_condition_are_vectors() -> None:
    texts = {
        g: lower_group(rows("add", F32, g, 64).group(), host_target().limited("avx2")).text for g in ("row", "element")
    }
    assert "masked.load" in texts["element"]
    assert "masked.load" not in texts["row"]


def test_a_range_of_data_is_a_loop_from_one_end_to_the_other() -> None:
    """2^18 parts without elements of as many would take 2^36 iterations otherwise."""
    rng = np.random.default_rng(3)
    offsets = np.array([0, 300, 300, 260, 700, 700])
    same(ranges(), offsets, rng.integers(0, 9, 700), np.ones(700, np.float32), sizes={M: 5, N: 700, K: 9})
    cut, whole = (
        lower_group(b.group(), host_target()).text.count("llvm.smax.i64(") for b in (ranges(), elements("add"))
    )
    assert cut > whole == 0
    native, n = Native(ranges().group()), 1 << 18
    operands = (np.full(n + 1, 5), np.zeros(n, np.int64), np.ones(n, np.float32))
    status, (got,) = native.run(dict(zip(native.group.inputs, operands, strict=True)), {M: n, N: n, K: 1})
    assert (status, got.sum()) == (0, 0)


@pytest.mark.parametrize("width", [1, 16, 70])
def test_an_index_is_checked_where_the_condition_holds(width: int) -> None:
    """The range of an index at both ends of a row says nothing under a condition."""
    values, kept = np.ones((3, width), np.float32), np.arange(width) < width - 1
    got = same(shifted(), values, kept, sizes={N: 3, M: width})
    np.testing.assert_array_equal(got[:, 0], 0)
    native = Native(shifted().group())
    operands = dict(zip(native.group.inputs, (values, np.ones(width, bool)), strict=True))
    assert native.run(operands, {N: 3, M: width})[0] != 0
    assert f"index {width} is out of range for axis 1" in native.refusal
    with pytest.raises(AnyshapeError, match=f"index {width} is out of range for axis 1"):
        interpret(native.group.equations, operands, {N: 3, M: width})


@pytest.mark.parametrize("wrong", [3, -1])
def test_an_index_that_is_kept_is_checked(wrong: int) -> None:
    b = Builder("kept")
    at, kept, y = b.input([N], I64), b.input([N], BOOL), b.tensor([K])
    (j,) = b.eqs.indices("j", [N])
    b.eqs.update(y[at[j]], "add", 1.0, where=kept[j])
    b.output(y)
    native = Native(b.group())
    index = np.array([0, wrong, 1])
    for holds in (False, True):
        operands = dict(zip(native.group.inputs, (index, np.array([True, holds, True])), strict=True))
        assert (native.run(operands, {N: 3, K: 3})[0] != 0) == holds
    assert f"index {wrong} " in native.refusal


def test_an_update_goes_over_variables_that_nothing_mentions() -> None:
    b = Builder("over")
    kept, y = b.input([N], BOOL), b.tensor([], I64)
    i, j = b.eqs.index("i", N), b.eqs.index("j", M)
    b.eqs.update(y[()], "add", 1, over=(i, j), where=kept[i])
    b.output(y)
    for m in (0, 1, 5):
        assert same(b, np.array([True, False, True]), sizes={N: 3, M: m}) == 2 * m


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 0), (1, 1), (-1, 2)])
def test_ranges_of_positions(low: int, high: int) -> None:
    """`for k in range(j + low, n - j + high)`, which may be empty or beyond both ends."""
    b = Builder("triangle")
    values, y = b.input([N]), b.tensor([N])
    j = b.eqs.index("j", N)
    k, within = range_index("k", j + low, N - j + high)
    b.eqs.update(y[k], "add", values[j], over=(j, k), where=and_(within, inside(k, N)))
    b.output(y)
    for n in (0, 1, 2, 9, 40):
        expected = np.zeros(n)
        for i in range(n):
            expected[[p for p in range(i + low, n - i + high) if 0 <= p < n]] += i + 1
        np.testing.assert_array_equal(same(b, np.arange(1, n + 1, dtype=np.float32), sizes={N: n}), expected)


def test_a_range_that_is_empty_at_the_end_of_an_extent() -> None:
    """The condition holds beyond the end, where there are no iterations."""
    b = Builder("ahead")
    y = b.tensor([N])
    j = b.eqs.index("j", N)
    k, within = range_index("k", j + 1, N)
    b.eqs.update(y[j], "add", 1.0, over=(j, k), where=within)
    b.output(y)
    for n in (0, 1, 2, 7, 300):
        np.testing.assert_array_equal(same(b, sizes={N: n}), np.arange(n)[::-1])


def test_places_of_symbols_are_not_needed_where_the_condition_does_not_hold() -> None:
    """The symbolic reading knows what is put in place of what is known, and nothing where a place or a condition is a symbol."""
    b = Builder("symbolic")
    at, values, y = b.input([2], I64), b.input([2], I64), b.tensor([2], I64)
    (j,) = b.eqs.indices("j", [2])
    b.eqs.update(y[at[j]], "set", values[j], where=lt(values[j], 5))
    known = {at: np.array([1, N], object), values: np.array([3, 7], object)}
    assert interpret(b.eqs.equations, known, symbolic=True)[y].tolist() == [0, 3]
    for unknown in ({**known, values: np.array([3, 4], object)}, {**known, values: np.array([3, N], object)}):
        with pytest.raises(UnknownElement):
            interpret(b.eqs.equations, unknown, symbolic=True)


@pytest.mark.parametrize("dtype", [F32, F16, I8, BOOL], ids=str)
def test_what_only_updates_define_is_zero_before(dtype: DType) -> None:
    b = Builder("alone")
    at, y = b.input([N], I64), b.tensor([K], dtype)
    (j,) = b.eqs.indices("j", [N])
    b.eqs.update(checked(y)[at[j]], "set", cast(1, dtype))
    b.output(y)
    np.testing.assert_array_equal(same(b, np.array([3, 1]), sizes={N: 2, K: 5}), [0, 1, 0, 1, 0])


def lost(of_condition: bool) -> Builder:
    """A tensor without reads, which is inlined, at an index from data: in an index, or in a condition."""
    b = Builder("lost")
    at, t, y = b.input([N], I64), b.tensor([M], I64), b.tensor([K], I64)
    (i,) = b.eqs.indices("i", [M])
    (j,) = b.eqs.indices("j", [N])
    b.eqs.define(t[i], i * 2)
    if of_condition:
        b.eqs.update(y[0], "add", 1, where=lt(t[at[j]], 3))
    else:
        b.eqs.update(checked(y)[t[at[j]]], "add", 1)
    b.output(y)
    return b


@pytest.mark.parametrize("of_condition", [False, True])
def test_an_index_of_what_is_inlined_is_checked(of_condition: bool) -> None:
    native = Native(lost(of_condition).group())
    for index, refused in ((1, False), (2, True), (-1, True)):
        operands = dict(zip(native.group.inputs, (np.array([0, index]),), strict=True))
        assert (native.run(operands, {N: 2, M: 2, K: 9})[0] != 0) == refused
        assert not refused or f"index {index} is out of range for axis 0 of" in native.refusal


def test_a_condition_is_part_of_the_structural_key() -> None:
    """Groups that differ in it alone, or in what they go over, have kernels of their own."""

    def group(where: str, over: bool = False) -> Group:
        b = Builder("keyed")
        kept, y = b.input([N], BOOL), b.tensor([N])
        i, j = b.eqs.index("i", N), b.eqs.index("j", N)
        tests = {"": None, "kept": kept[j], "left out": not_(kept[j])}
        b.eqs.update(y[j], "add", 1.0, over=(i,) if over else (), where=tests[where])
        b.output(y)
        return b.group()

    keys = [
        StructuralKeyWriter().group(g)
        for g in (group(""), group("kept"), group("left out"), group("", True), group("kept", True))
    ]
    assert len(set(keys)) == len(keys)
    assert StructuralKeyWriter().group(group("kept")) == StructuralKeyWriter().group(group("kept"))


def test_operations_of_a_condition_count() -> None:
    eqs = elements("add").eqs.equations
    assert (
        evaluate(operations(eqs), {N: 7, K: 5}) == 7 * 3
    )  # two comparisons, and both of them together; adding is the update's own


@pytest.mark.parametrize("length", [N, 2])
def test_places_of_a_whole_order_are_set_once_and_those_of_its_first_elements_are_not_all(length: Size) -> None:
    eqs = Equations("order", {}, {})
    x, y, order = Tensor("x", I64, (N,)), Tensor("y", I64, (N,)), eqs.scratch("order", I64, (length,))
    eqs.argsort(order[:], [N], lambda k: x[k])
    u = eqs.index("u", length)
    eqs.update(y[order[u]], "set", u + 1)
    assert [q.form is None and q.target is y for q in eqs.equations].count(True) == (length is not N)
    got = interpret(eqs.equations, {x: np.array([30, 10, 20])}, {N: 3})[y]
    np.testing.assert_array_equal(got, [3, 1, 2] if length is N else [0, 1, 2])
