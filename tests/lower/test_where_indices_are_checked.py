"""An index of data is tested once per row, ahead of what is moved; and that this refuses nothing more."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import F32, I64, DType
from anyshape.equations import Equations, Tensor
from anyshape.equations.functions import checked, clamp, lt, maximum, minimum, where, wrap
from anyshape.equations.interpret import interpret
from anyshape.lower import Group, describe, host_target, lower_group
from tests.lower.forbidden import before_forbidden_memory
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native, check


def _rows(width: Size = M) -> Builder:
    b = Builder("rows")
    table, index, y = b.input([K, width]), b.input([N], I64), b.tensor([N, width])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], table[wrap(index[i], K), j])
    b.output(y)
    return b


def _added() -> Builder:
    b = Builder("added")
    index, updates, y = b.input([N], I64), b.input([N, M]), b.tensor([K, M])
    i, j = b.eqs.indices("i", updates.shape)
    b.eqs.update(y[wrap(index[i], K), j], "add", updates[i, j])
    b.output(y)
    return b


def test_a_row_is_tested_once() -> None:
    """Updates have forms for long rows and short ones, each with whole blocks of rows and what is left: see `test_updates`."""
    text = lower_group(_rows(64).group(), host_target()).text
    assert text.count("call i32 @tell") == 1


@pytest.mark.parametrize("shared", [True, False])
def test_two_reads_of_one_condition_share_its_test(shared: bool) -> None:
    """Two tables of as many rows are read in row index[i]; of tables of other lengths each has a test of its own."""

    def native_of(reads: int) -> tuple[Native, Tensor, Tensor, Tensor]:
        b = Builder("rows of two")
        first, second = b.input([K, 2]), b.input([K if shared else M, 2])
        index, y = b.input([N], I64), b.tensor([N])
        (i,) = b.eqs.indices("i", y.shape)
        factors = checked(first)[index[i], 0], checked(first)[index[i], 1], checked(second)[index[i], 0]
        b.eqs.define(y[i], math.prod(factors[1:reads], start=factors[0]))
        b.output(y)
        return Native(b.group()), first, second, index

    one, *_ = native_of(1)
    native, first, second, index = native_of(3)
    tests = one.kernel.text.count("call i32 @tell")
    assert (native.kernel.text.count("call i32 @tell") <= tests) == shared
    tables = {first: np.ones((5, 2), np.float32), second: np.ones((5 if shared else 3, 2), np.float32)}
    for place, wrong in ((2, False), (4, not shared), (5, True), (-1, True)):
        for count in (1, 100):
            arrays = {**tables, index: np.full(count, place)}
            assert (native.run(arrays, {K: 5, M: 3, N: count})[0] != 0) == wrong


def test_a_test_ahead_of_loops_without_iterations_is_none_for_others() -> None:
    """A row is read for two results, either of which may have no columns: then its test asks nothing."""
    b = Builder("two results")
    table, index, few, many = b.input([K, 4]), b.input([N], I64), b.tensor([N, B]), b.tensor([N, M])
    for y in (few, many):
        i, j = b.eqs.indices("i", y.shape)
        b.eqs.define(y[i, j], checked(table)[index[i], 0] + j)
        b.output(y)
    native = Native(b.group())
    arrays = {table: np.ones((3, 4), np.float32), index: np.array([0, 7])}
    for few_columns, many_columns in ((0, 4), (4, 0), (2, 2), (0, 0)):
        refused = native.run(arrays, {K: 3, N: 2, B: few_columns, M: many_columns})[0] != 0
        assert refused == (few_columns + many_columns > 0)


@pytest.mark.parametrize("make", [_rows, _added])
@pytest.mark.parametrize("width", [0, 1, 5, 16, 67, 200])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_row_without_elements_is_no_access(make, width: int, parts: int) -> None:
    native = Native(make().group())
    x0, x1 = native.group.inputs
    for index, wrong in (([0, 2, -3], False), ([0, 3, 1], True), ([-4, 0, 0], True), ([], False)):
        sizes = {K: 3, M: width, N: len(index)}
        shapes = {t: [int(dims.evaluate(n, sizes)) for n in t.shape] for t in (x0, x1)}
        arrays = {t: np.ones(shapes[t], np.float32) for t in (x0, x1) if t.dtype != I64}
        arrays |= {t: np.array(index, np.int64) for t in (x0, x1) if t.dtype == I64}
        assert (native.run(arrays, sizes, parts)[0] != 0) == (wrong and width > 0)


def _pairs() -> tuple[Native, Tensor, Tensor]:
    b = Builder("pairs")
    x, index, y = b.input([K, B, M]), b.input([N, 2], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[wrap(index[i, 0], K), wrap(index[i, 1], B), j])
    b.output(y)
    return Native(b.group()), x, index


@pytest.mark.parametrize("count", [1, 15, 16, 31, 65, 200])
@pytest.mark.parametrize("parts", [1, 3])
def test_rows_that_iteration_out_to_have_one_element_are_picked_and_refused_in_their_order(
    count: int, parts: int
) -> None:
    native, x, index = _pairs()
    sizes = {K: 3, B: 5, M: 1, N: count}
    array = before_forbidden_memory(np.arange(15, dtype=np.float32).reshape(3, 5, 1))
    pairs = before_forbidden_memory(np.random.default_rng(1).integers([-3, -5], [3, 5], (count, 2)))
    status, (got,) = native.run({x: array, index: pairs}, sizes, parts)
    assert status == 0
    assert (got == array[pairs[:, 0], pairs[:, 1]]).all()
    for at in sorted(
        {0, count // 2, count - 1}, reverse=True
    ):  # what is refused comes before all that is wrong already
        for axis in (1, 0):
            pairs[at, axis] = 9000 + at
            status, _ = native.run({x: array, index: pairs}, sizes, parts)
            assert status != 0
            assert f"index {9000 + at} " in native.refusal
            assert f"axis {axis}" in native.refusal


def test_of_two_indices_the_one_that_is_wrong_is_named() -> None:
    native, x, index = _pairs()
    sizes = {K: 2, B: 5, M: 3, N: 2}
    array = np.ones((2, 5, 3), np.float32)
    for pair, axis in (([1, 4], -1), ([2, 4], 0), ([1, 5], 1), ([-3, 0], 0), ([0, -6], 1)):
        status, _ = native.run({x: array, index: np.array([[0, 0], pair])}, sizes)
        assert status == 0 if axis < 0 else f"for axis {axis}" in native.refusal


@pytest.mark.parametrize("count", [1, 16, 64, 65, 300])
@pytest.mark.parametrize("guarded", [False, True])
def test_every_lane_of_every_block_is_tested(count: int, guarded: bool) -> None:
    b = Builder("numbers")
    x, index, y = b.input([K]), b.input([N], I64), b.tensor([N])
    (i,) = b.eqs.indices("i", y.shape)
    read = x[wrap(index[i], K)]
    b.eqs.define(y[i], where(lt(index[i], 100), read, 0.0) if guarded else read)
    b.output(y)
    native = Native(b.group())
    array, sizes = np.arange(7, dtype=np.float32), {K: 7, N: count}
    for at in {0, count // 2, count - 1}:
        for wrong in (7, -8, 2**62, -(2**63), 50):
            indices = np.arange(count) % 14 - 7
            assert native.run({x: array, index: indices}, sizes)[0] == 0
            indices[at] = wrong
            assert (native.run({x: array, index: indices}, sizes)[0] != 0) == (not guarded or wrong < 100)


def _numbers(dtype: DType) -> Builder:
    b = Builder("numbers")
    x, index, y = b.input([K], dtype), b.input([N], I64), b.tensor([N], dtype)
    (i,) = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i], x[wrap(index[i], K)])
    b.output(y)
    return b


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_what_is_picked_is_stored_before_the_next_vector_is_tested(level: str) -> None:
    """Otherwise what is picked waits behind all tests of its block."""
    text = lower_group(_numbers(F32).group(), host_target().limited(level)).text
    body = text[text.index("define i32 @k") :]
    order = [m.group() for m in re.finditer(r"!prof|store <|masked\.store|masked\.scatter", body)]
    assert len(order) > 4
    assert all((at % 2 == 0) == (what == "!prof") for at, what in enumerate(order))


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_a_result_may_lie_over_the_indices(level: str) -> None:
    sizes = [{K: 10, N: n} for n in (0, 1, 16, 63, 64, 65, 200)]
    native = check(_numbers(I64).group(), sizes, target=host_target().limited(level))
    assert (0, 1) in native.kernel.reusable


def test_a_vector_of_indices_takes_one_look() -> None:
    """A look is at as many lanes as a register has, whatever the number of bounds. The target is a processor that has the larger of two
    64-bit numbers as an instruction, whichever this is."""
    target = replace(host_target(), triple="riscv64-unknown-linux-gnu", vector_bytes=32, scalef=False)
    for group in (_numbers(F32).group(), _pairs()[0].group):
        text = lower_group(group, target).text
        looks = re.findall(r"reduce\.and\.v(\d+)i1.*\nbr .*!prof", text)
        assert set(looks) == {"4", "8"}  # a block, and what is left under a mask
        assert not re.search(r"= and i1 .*\nbr .*!prof", text)


@pytest.mark.parametrize(("counted", "shift"), [(7, 0), (5, 0), (9, 0), (7, 1), (7, -1)])
def test_an_index_from_the_end_is_the_same_whatever_is_counted_and_added(counted: int, shift: int) -> None:
    """What `wrap` gives as a number, as an index of another size and with something added: in range or not."""
    b = Builder("counted")
    x, index, y, z = b.input([K]), b.input([N], I64), b.tensor([N]), b.tensor([N], I64)
    (i,) = b.eqs.indices("i", y.shape)
    place = wrap(index[i], M)
    b.eqs.define(y[i], x[place + shift if shift else place])
    b.eqs.define(z[i], place)
    b.output(y)
    b.output(z)
    native, array = Native(b.group()), np.arange(7, dtype=np.float32)
    for number in (*range(-12, 12), 2**63 - 1, -(2**63)):
        indices = np.full(64, number)
        expected = (number + counted if number < 0 else number) + shift
        status, outputs = native.run({x: array, index: indices}, {K: 7, M: counted, N: 64})
        assert (status == 0) == (0 <= expected < 7)
        if status == 0:
            assert (outputs[0] == array[expected]).all() and (outputs[1] == expected - shift).all()


def test_an_index_of_positions_is_tested_ahead_of_all_loops() -> None:
    b = Builder("shifted")
    x, y = b.input([K, M]), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], checked(x)[i + 1, j * 2 - 3])
    b.output(y)
    native = Native(b.group())
    assert [native.kernel.text.count(f", i64 {k}, i64 0, i64") for k in (1, 2)] == [
        1,
        1,
    ]  # of several loops along a row
    for k, n, m, wrong in ((3, 2, 0, 0), (3, 0, 4, 0), (3, 2, 1, 1), (2, 2, 4, 1), (9, 2, 4, 1)):
        arrays = {x: np.ones((k, m), np.float32)}
        assert (native.run(arrays, {K: k, N: n, M: m}, 3)[0] != 0) == bool(wrong)


@pytest.mark.parametrize("width", [0, 3])
def test_an_index_from_the_end_is_the_same_where_it_picks_nothing(width: int) -> None:
    """Any index of rows without elements is right, and what it is as a number stands in another result."""
    b = Builder("picked")
    x, index, y, z = b.input([K, M]), b.input([N], I64), b.tensor([N, M]), b.tensor([N], I64)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[wrap(index[i], K), j])
    (i,) = b.eqs.indices("i", z.shape)
    b.eqs.define(z[i], wrap(index[i], K))
    b.output(y)
    b.output(z)
    native, array = Native(b.group()), np.ones((7, width), np.float32)
    for number in (*range(-16, 10), 2**63 - 1, -(2**63)):
        status, outputs = native.run({x: array, index: np.full(3, number)}, {K: 7, M: width, N: 3})
        assert (status == 0) == (width == 0 or -7 <= number < 7)
        assert status or (outputs[1] == (number + 7 if number < 0 else number)).all()


@pytest.mark.parametrize("falls", [False, True])
def test_a_test_of_positions_keeps_no_loops_apart(falls: bool) -> None:
    """Rows that lie side by side are one loop, tested or not; the index is in range for all if it is for the first and the last."""
    b = Builder("moved")
    x, y = b.input([K, M]), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[N - 1 - i if falls else i, j], checked(x)[N - i if falls else i + 1, j] * 2.0)
    b.output(y)
    assert ("for i0 in n, i1 in m" in describe(b.group())) == falls
    native = Native(b.group())
    for k, n, m in ((4, 3, 5), (3, 3, 5), (2, 1, 1), (1, 1, 1), (0, 1, 0), (0, 0, 5), (70, 69, 33), (69, 69, 33)):
        array = np.arange(k * m, dtype=np.float32).reshape(k, m)
        status, outputs = native.run({x: array}, {K: k, N: n, M: m}, 3)
        assert (status != 0) == (m > 0 and k < n + 1 and n > 0)
        assert status or (outputs[0] == array[1 : n + 1] * 2).all()


CLAMPED: dict[str, tuple[Any, bool]] = {
    "from both sides": (lambda q, i, k: minimum(maximum(q, 0), k - 1), True),
    "a choice": (lambda q, i, k: where(lt(i, q), lambda: clamp(q - 1 - i, 0, k - 1), i), True),
    "from below": (lambda q, i, k: maximum(q, 0), False),
    "from above": (lambda q, i, k: minimum(q, k - 1), False),
    "one too far": (lambda q, i, k: clamp(q, 0, k), False),
    "one too low": (lambda q, i, k: clamp(q, -1, k - 1), False),
    "half a choice": (lambda q, i, k: where(lt(i, q), lambda: clamp(q, 0, k - 1), q), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAMPED)
def test_an_index_that_is_kept_within_an_axis_is_not_tested(name: str) -> None:
    index, free = CLAMPED[name]
    b = Builder("kept")
    table, at, y = b.input([N, M]), b.input([N], I64), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], table[index(at[i], i, N), j])
    b.output(y)
    assert ("checked" not in describe(b.group())) == free
    native = Native(b.group())
    for values in ([0, 1, 2], [3, 2, 1], [-9, 1 << 40, 5], []):
        arrays: dict[Tensor, Any] = {table: np.arange(2 * len(values), dtype=np.float32).reshape(-1, 2)}
        arrays[at] = np.array(values, np.int64)
        sizes = {N: len(values), M: 2}
        status, results = native.run(arrays, sizes)
        if free:
            assert status == 0
        if status == 0:
            np.testing.assert_array_equal(results[0], interpret(b.group().equations, arrays, sizes)[y])


@pytest.mark.parametrize("varies", [False, True])
def test_an_axis_that_may_have_no_elements_holds_no_index(varies: bool) -> None:
    """What does not vary with the position is read ahead of the loop over the positions: not where there is none, so that nothing is
    refused."""
    x, q = Tensor("x", F32, (N, M)), Tensor("q", I64, (M,))
    y, eqs = Tensor("y", F32, (N + 1, M)), Equations("kept", {}, {})
    j = eqs.index("j", M)
    eqs.define(y[0, j], 0)
    s, j = eqs.index("s", N), eqs.index("j", M)
    eqs.step(y[s + 1, j], y[s, j] + x[clamp(q[0] - s if varies else q[0], 0, N - 1), j], s)
    group = Group("kept", tuple(eqs.equations), (x, q), outputs=(y,))
    assert ("checked" not in describe(group)) == varies
    for n in (0, 1, 4):
        arrays: dict[Tensor, Any] = {x: np.ones((n, 3), np.float32), q: np.array([2, 0, 0])}
        status, (got,) = Native(group).run({**arrays, x: before_forbidden_memory(arrays[x])}, {N: n, M: 3})
        assert status == 0
        np.testing.assert_array_equal(got, np.arange(n + 1)[:, None] * np.ones(3))
