"""Updates by vectors, with their indices tested a block at a time: native code against the interpreter, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from anyshape.dtypes import F16, F32, I8, I32, I64, DType
from anyshape.equations.functions import cast, exp, wrap
from anyshape.equations.interpret import interpret
from anyshape.lower import host_target, lower_group
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native

COUNTS = (0, 1, 63, 64, 65, 130)
WIDTHS = (0, 1, 15, 16, 21, 64, 85)


def rows(op: str, dtype: DType = F32) -> Builder:
    """Rows of a table, and in the updates something computed."""
    b = Builder("rows")
    index, updates, y = b.input([N], I32), b.input([N, M], dtype), b.tensor([K, M], dtype)
    k, m = b.eqs.indices("k", y.shape)
    i, j = b.eqs.indices("i", updates.shape)
    value = updates[i, j] * 2 if dtype.is_integer else exp(updates[i, j])
    b.eqs.define(y[k, m], cast(k * 3 + m, dtype))
    b.eqs.update(y[wrap(cast(index[i], I64), K), j], op, value)
    b.output(y)
    return b


def pairs() -> Builder:
    """Two indices, of which one is that of a whole row, and updates of which each has a place of its own."""
    b = Builder("pairs")
    left, right = b.input([N], I64), b.input([N, M], I64)
    updates, y = b.input([N, M]), b.tensor([K, B])
    k, m = b.eqs.indices("k", y.shape)
    i, j = b.eqs.indices("i", updates.shape)
    b.eqs.define(y[k, m], cast(k * 3 + m, F32))
    b.eqs.update(y[wrap(left[i], K), wrap(right[i, j], B)], "add", updates[i, j])
    b.output(y)
    return b


@pytest.mark.parametrize("op", ["set", "add", "max"])
@pytest.mark.parametrize("dtype", [F32, F16, I8])
def test_rows_are_the_same_by_vectors(op: str, dtype: DType) -> None:
    native, rng = Native(rows(op, dtype).group()), np.random.default_rng(1)
    index, updates = native.group.inputs
    for count, width in [(n, 21) for n in COUNTS] + [(9, m) for m in WIDTHS]:
        sizes = {K: 5, N: count, M: width}
        arrays = {index: rng.integers(-5, 5, count).astype(np.int32)}
        arrays[updates] = rng.integers(-9, 9, (count, width)).astype(dtype.numpy)
        (y,) = native.group.outputs
        status, (got,) = native.run(arrays, sizes)
        assert status == 0
        np.testing.assert_allclose(
            got, interpret(native.group.equations, arrays, sizes)[y], rtol=1e-2 if dtype is F16 else 1e-6
        )


def test_an_element_with_a_place_of_its_own() -> None:
    native, rng = Native(pairs().group()), np.random.default_rng(1)
    left, right, updates = native.group.inputs
    for count, width in [(n, 5) for n in (0, 1, 7)] + [(3, m) for m in (*COUNTS, 300)]:
        sizes = {K: 5, B: 7, N: count, M: width}
        arrays = {left: rng.integers(-5, 5, count), right: rng.integers(-7, 7, (count, width))}
        arrays[updates] = rng.integers(-9, 9, (count, width)).astype(np.float32)
        (y,) = native.group.outputs
        status, (got,) = native.run(arrays, sizes)
        assert status == 0
        np.testing.assert_array_equal(got, interpret(native.group.equations, arrays, sizes)[y])


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_every_index_of_every_block_is_tested(level: str) -> None:
    """Nothing is written out of bounds, as the harness sees."""
    native = Native(rows("add").group(), host_target().limited(level))
    wide = Native(pairs().group(), host_target().limited(level))
    for at in (0, 5, 63, 64, 127, 129):
        for wrong in (5, -6, 2**31 - 1, -(2**31)):
            index = np.zeros(130, np.int32)
            index[at] = wrong
            for width in (0, 1, 16, 21):
                arrays = dict(zip(native.group.inputs, (index, np.ones((130, width), np.float32)), strict=True))
                assert (native.run(arrays, {K: 5, N: 130, M: width})[0] != 0) == (width > 0)
                assert width == 0 or (f"index {wrong} " in native.refusal and f"x0[{at}] = {wrong})" in native.refusal)
        for wrong in (7, -8, 2**62, -(2**63), 2**63 - 1):
            right = np.zeros((1, 130), np.int64)
            right[0, at] = wrong
            arrays = dict(zip(wide.group.inputs, (np.array([4]), right, np.ones((1, 130), np.float32)), strict=True))
            wide.run(arrays, {K: 5, B: 7, N: 1, M: 130})
            assert "for axis 1" in wide.refusal


def test_the_index_of_a_row_is_named_by_its_axis() -> None:
    wide = Native(pairs().group())
    for left, right, axis in ((5, 0, 0), (0, 7, 1), (-6, 9, 0)):
        arrays = (np.array([left]), np.full((1, 130), right), np.ones((1, 130), np.float32))
        wide.run(dict(zip(wide.group.inputs, arrays, strict=True)), {K: 5, B: 7, N: 1, M: 130})
        assert f"for axis {axis}" in wide.refusal


def test_rows_that_are_known_to_be_long_have_one_form() -> None:
    b = Builder("long")
    index, updates, y = b.input([N], I64), b.input([N, 64]), b.tensor([K, 64])
    i, j = b.eqs.indices("i", updates.shape)
    b.eqs.update(y[wrap(index[i], K), j], "add", updates[i, j])
    b.output(y)
    known, unknown = (lower_group(g, host_target()).text.count("!prof") for g in (b.group(), rows("add").group()))
    assert (known, unknown) == (10, 17)  # tests of a block, and ahead of each row that is left; the others are polls


def test_of_the_indices_of_a_block_nothing_but_the_test_has_a_use() -> None:
    """What is told of them is loaded anew. For a processor that has the larger of two 64-bit numbers as an instruction."""
    text = lower_group(pairs().group(), replace(host_target(), triple="riscv64-unknown-linux-gnu", scalef=False)).text
    loads = re.findall(r"(%v\d+) = load <\d+ x i64>", text)
    used = [len(re.findall(rf"{name}\b", text)) - 1 for name in loads]
    assert used[:4] == [1] * 4
    assert len(used) == 8 and min(used[4:]) > 1
