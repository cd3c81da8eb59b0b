"""Recurrences: native code against the interpreter and against NumPy, along both directions, over rows and around matrix products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import dims
from anyshape.dtypes import parse_dtype
from anyshape.equations import Equations, Tensor
from anyshape.equations.functions import (
    cast,
    eq,
    exp,
    gt,
    le,
    lt,
    maximum,
    minimum,
    reduce_,
    reduce_range,
    tanh,
    where,
    wrap,
)
from anyshape.equations.interpret import interpret
from anyshape.equations.recurrences import as_steps
from anyshape.errors import ShapeError
from anyshape.lower import Group, describe, host_target, lower_group
from anyshape.lower.binding import binding
from anyshape.lower.target import Target
from tests.kernel_texts import heard
from tests.lower.native import Native

T, N, M, H = (dims.symbol(name) for name in ("t", "n", "m", "h"))
RNG = np.random.default_rng(5)


def tensor(name: str, dtype: str, *shape: Any) -> Tensor:
    return Tensor(name, parse_dtype(dtype), shape)


def scan(dtype: str, backward: bool) -> tuple[Equations, Tensor, Tensor]:
    x, y, eqs = tensor("x", dtype, N, T, M), tensor("y", dtype, N, T, M), Equations("scan", {}, {})
    a, s, b = eqs.index("a", N), eqs.index("s", T), eqs.index("b", M)
    before = where(lt(s, T - 1), lambda: y[a, s + 1, b], 0) if backward else where(gt(s, 0), lambda: y[a, s - 1, b], 0)
    eqs.step(y[a, s, b], x[a, s, b] + before, s, backward)
    return eqs, x, y


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "f16", "i8"])
def test_rows_of_steps(dtype: str, backward: bool) -> None:
    eqs, x, y = scan(dtype, backward)
    group = Group("scan", tuple(eqs.equations), (x,), outputs=(y,))
    kernel = Native(group)
    for n, t, m in ((3, 7, 1), (2, 5, 70), (1, 1, 3), (2, 0, 4), (0, 3, 3), (2, 9, 0), (5, 3, 130)):
        values = RNG.integers(-3, 3, (n, t, m)).astype(x.dtype.numpy)
        sizes = {N: n, T: t, M: m}
        flipped = values[:, ::-1] if backward else values
        expected = np.cumsum(flipped, 1, values.dtype)
        expected = expected[:, ::-1] if backward else expected
        np.testing.assert_array_equal(interpret(eqs.equations, {x: values}, sizes)[y], expected)
        for parts in (1, 3):
            status, (got,) = kernel.run({x: values}, sizes, parts)
            assert status == 0
            np.testing.assert_array_equal(got, expected)
    assert kernel.kernel.schedule == ("steps",)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("heavy", [False, True])
def test_rows_along_which_no_lanes_run_take_steps_together(heavy: bool, backward: bool) -> None:
    """Four running sums do not wait for each other; those of a function have enough to do while they wait."""
    x, y, eqs = tensor("x", "f32", 2, N, T), tensor("y", "f32", 2, N, T), Equations("long", {}, {})
    p, a, s = eqs.index("p", 2), eqs.index("a", N), eqs.index("s", T)
    added = exp(minimum(x[p, a, s], 1.0)) * tanh(x[p, a, s]) if heavy else x[p, a, s] + a
    before = where(lt(s, T - 1), lambda: y[p, a, s + 1], 0) if backward else where(gt(s, 0), lambda: y[p, a, s - 1], 0)
    eqs.step(y[p, a, s], before + added, s, backward)
    native = Native(Group("long", tuple(eqs.equations), (x,), outputs=(y,)))
    most = max(block.count("= phi float") for block in native.kernel.text.split(":\n"))
    assert most == (1 if heavy else 4)
    for n, t in ((1, 9), (3, 5), (4, 1), (5, 30), (8, 2), (11, 7), (0, 3), (3, 0)):
        values = RNG.normal(size=(2, n, t)).astype(np.float32)
        expected = interpret(eqs.equations, {x: values}, {N: n, T: t})[y]
        for parts in (1, 3):
            status, (result,) = native.run({x: values}, {N: n, T: t}, parts)
            assert status == 0
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_rows_without_lanes_that_hand_on_nothing() -> None:
    """Each step reads the one two positions before it, through memory."""
    x, y, eqs = tensor("x", "f32", N, T), tensor("y", "f32", N, T), Equations("two back", {}, {})
    a, s = eqs.index("a", N), eqs.index("s", T)
    eqs.step(y[a, s], where(gt(s, 1), lambda: y[a, s - 2], 0) + x[a, s], s)
    native = Native(Group("two back", tuple(eqs.equations), (x,), outputs=(y,)))
    for n, t in ((3, 9), (1, 1), (5, 2)):
        values = RNG.integers(-3, 3, (n, t)).astype(np.float32)
        for parts in (1, 3):
            status, (result,) = native.run({x: values}, {N: n, T: t}, parts)
            assert status == 0
            np.testing.assert_array_equal(result, interpret(eqs.equations, {x: values}, {N: n, T: t})[y])


def chain(width: Any, follows: bool) -> tuple[Equations, tuple[Tensor, ...], Tensor]:
    """Places in a table, one step after the other: each is where the one before leads, or where the number of the step does."""
    start, table, eqs = tensor("start", "i64", width), tensor("table", "i32", 40), Equations("chain", {}, {})
    y = tensor("y", "i32", N, width, T)
    a, k, s = eqs.index("a", N), eqs.index("k", width), eqs.index("s", T)
    before = where(gt(s, 0), lambda: y[a, k, s - 1], 0)
    place = where(eq(s, 0), lambda: start[k], lambda: cast(before, parse_dtype("i64"))) if follows else start[k] + s
    eqs.step(y[a, k, s], table[wrap(place, 40)] + (0 if follows else before), s)
    return eqs, (start, table), y


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize(("width", "together"), [(M, 8), (100, 10), (72, 8), (21, 7), (13, 6), (3, 8)])
def test_steps_that_look_up_where_the_one_before_leads_take_several_rows(
    width: Any, together: int, follows: bool
) -> None:
    """Eight rows go together, or a number that leaves fewer over, or rows around. What leads nowhere needs no more than four."""
    eqs, (start, table), y = chain(width, follows)
    native = Native(Group("chain", tuple(eqs.equations), (start, table), outputs=(y,)))
    most = max(block.count("= phi i32") for block in native.kernel.text.split(":\n"))
    assert most == (together if follows else 4)
    for n, m, t in ((1, 9, 4), (2, 17, 1), (11, 3, 5), (9, 1, 2), (0, 4, 3), (2, 0, 3)):
        m = m if width is M else width
        values = {start: RNG.integers(-30, 30, m), table: RNG.integers(0, 40, 40).astype(np.int32)}
        sizes = {N: n, M: m, T: t}
        expected = interpret(eqs.equations, values, sizes)[y]
        for parts in (1, 3):
            status, (result,) = native.run(values, sizes, parts)
            assert status == 0
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("shape", [(N, T, M), (T, M), (T,)])
def test_rows_of_steps_are_worth_threads(shape: tuple[Any, ...]) -> None:
    """Work counts by the rows and their positions, if a loop is around that of the lanes: parts of rows side by side are slower."""
    x, y, eqs = tensor("x", "f32", *shape), tensor("y", "f32", *shape), Equations("scan", {}, {})
    index = [eqs.index("i", n) for n in shape]
    s = index[shape.index(T)]
    before = where(gt(s, 0), lambda: y[tuple(i - 1 if i is s else i for i in index)], 0)
    eqs.step(y[tuple(index)], x[tuple(index)] + before, s)
    kernel = lower_group(Group("scan", tuple(eqs.equations), (x,), outputs=(y,)), host_target())
    work = dims.evaluate(kernel.work, {N: 1000, T: 1000, M: 64})
    lanes = host_target().vector_bytes // 4
    assert kernel.pieces == (N if len(shape) == 3 else 1)
    assert work >= 1000 * 1000 * 64 / lanes if len(shape) == 3 else work == 0


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("heavy", [False, True])
def test_rows_with_little_work_are_carried_side_by_side(heavy: bool, level: str) -> None:
    """Half of the registers carry a running sum of what is read, and one that of a function: its work hides that rows lie apart."""
    x, y, eqs = tensor("x", "f32", T, M), tensor("y", "f32", T, M), Equations("wide", {}, {})
    s, b = eqs.index("s", T), eqs.index("b", M)
    added = exp(minimum(x[s, b], 1.0)) * tanh(x[s, b]) if heavy else x[s, b]
    eqs.step(y[s, b], where(gt(s, 0), lambda: y[s - 1, b], 0) + added, s)
    target = host_target().limited(level)
    native = Native(Group("wide", tuple(eqs.equations), (x,), outputs=(y,)), target)
    vector = f"<{target.lanes(4)} x float>"
    most = max(block.count(f"= phi {vector}") for block in native.kernel.text.split(":\n"))
    assert most == (1 if heavy else target.vector_registers // 2)
    for m in (1, 15, 16, 64, 130, 256, 300, 555):
        values = RNG.normal(size=(5, m)).astype(np.float32)
        status, (got,) = native.run({x: values}, {T: 5, M: m}, 2)
        assert status == 0
        np.testing.assert_allclose(
            got,
            np.cumsum(np.exp(np.minimum(values, 1)) * np.tanh(values) if heavy else values, 0),
            rtol=1e-5,
            atol=1e-6,
        )


def test_rows_from_a_start_through_a_tensor_of_its_own() -> None:
    """h[s + 1] = max(h[s], x[s]) from h[0] = h0, and what is kept of h is its difference: h itself stays in registers."""
    x, h0, y, eqs = (
        tensor("x", "f32", T, N),
        tensor("h0", "f32", N),
        tensor("y", "f32", T, N),
        Equations("peak", {}, {}),
    )
    h = eqs.scratch("h", x.dtype, (T + 1, N))
    a, s, b, c, u = eqs.index("a", N), eqs.index("s", T), eqs.index("b", N), eqs.index("c", N), eqs.index("u", T)
    eqs.define(h[0, a], h0[a])
    eqs.step(h[s + 1, b], maximum(h[s, b], x[s, b]), s)
    eqs.step(y[u, c], h[u + 1, c] - h[u, c], u)
    kernel = Native(Group("peak", tuple(eqs.equations), (x, h0), outputs=(y,)))
    for t, n in ((4, 33), (1, 2), (0, 3), (6, 0)):
        arrays = {x: RNG.normal(size=(t, n)).astype(np.float32), h0: RNG.normal(size=n).astype(np.float32)}
        peaks = np.maximum.accumulate(np.concatenate([arrays[h0][None], arrays[x]]), 0)
        status, (got,) = kernel.run(arrays, {T: t, N: n}, 2)
        assert status == 0
        np.testing.assert_array_equal(got, peaks[1:] - peaks[:-1])
        np.testing.assert_array_equal(interpret(eqs.equations, arrays, {T: t, N: n})[y], got)


def small_caches(level: str = "avx512", l2_bytes: int = 1 << 13) -> Target:
    """This machine with caches that a few rows do not fit."""
    return replace(host_target().limited(level), l1_bytes=1 << 12, l2_bytes=l2_bytes)


def two_sums(backward: bool) -> tuple[Equations, Tensor, tuple[Tensor, Tensor]]:
    """Running sums of what is read and of the opposite, for several planes."""
    x, y, z = tensor("x", "f32", N, T, M), tensor("y", "f32", N, T, M), tensor("z", "f32", N, T, M)
    eqs = Equations("two", {}, {})

    def before(t: Tensor, otherwise: Any, i: tuple[Any, ...]) -> Any:
        n, s, m = i
        if backward:
            return where(lt(s, T - 1), lambda: t[n, s + 1, m], otherwise)
        return where(gt(s, 0), lambda: t[n, s - 1, m], otherwise)

    i = (eqs.index("n", N), eqs.index("s", T), eqs.index("m", M))
    eqs.step(y[i], before(y, 1.0, i) + x[i], i[1], backward)
    j = (eqs.index("n", N), eqs.index("s", T), eqs.index("m", M))
    eqs.step(z[j], before(z, 2.0, j) - x[j], j[1], backward)
    return eqs, x, (y, z)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_rows_that_are_more_than_the_caches_hold_go_position_by_position(level: str, backward: bool) -> None:
    """Rows shorter than a piece of scratch, of several pieces, with and without a rest; and few rows, which stay in registers."""
    eqs, x, results = two_sums(backward)
    native = Native(Group("two", tuple(eqs.equations), (x,), outputs=results), small_caches(level))
    assert dims.evaluate(native.kernel.scratch, {}) > 0
    for n, t, m in (
        (1, 9, 300),
        (2, 5, 1000),
        (3, 40, 131),
        (2, 1, 600),
        (1, 3, 70),
        (2, 0, 300),
        (0, 9, 300),
        (2, 9, 5),
    ):
        values = RNG.integers(-3, 3, (n, t, m)).astype(np.float32)
        expected = interpret(eqs.equations, {x: values}, {N: n, T: t, M: m})
        for parts in (1, 3):
            status, got = native.run({x: values}, {N: n, T: t, M: m}, parts)
            assert status == 0
            for tensor_, result in zip(results, got, strict=True):
                np.testing.assert_array_equal(result, expected[tensor_])


@pytest.mark.parametrize(
    ("heavy", "width", "l2_bytes"),
    [(True, M, 1 << 13), (False, 16, 1 << 13), (False, 4096, 1 << 30), (False, 4096, 1 << 13)],
)
def test_rows_that_registers_hand_on(heavy: bool, width: Any, l2_bytes: int) -> None:
    """Heavy rows, rows no longer than what registers hand on, and rows that the second cache holds have no scratch; the last ones have
    nothing in registers."""
    x, y, eqs = tensor("x", "f32", 64, width), tensor("y", "f32", 64, width), Equations("wide", {}, {})
    s, b = eqs.index("s", 64), eqs.index("b", width)
    added = exp(minimum(x[s, b], 1.0)) * tanh(x[s, b]) if heavy else x[s, b]
    eqs.step(y[s, b], where(gt(s, 0), lambda: y[s - 1, b], 0) + added, s)
    native = Native(Group("wide", tuple(eqs.equations), (x,), outputs=(y,)), small_caches(l2_bytes=l2_bytes))
    streamed = not heavy and width == 4096 and l2_bytes == 1 << 13
    assert (dims.evaluate(native.kernel.scratch, {M: 4096}) > 0) is streamed
    lanes = native.target.lanes(x.dtype.itemsize)
    assert (f"= phi <{lanes} x float>" in native.kernel.text) is not streamed


def network() -> tuple[Group, Equations]:
    """Two tensors that need each other: gates of a product, a cell, a hidden state that the product reads."""
    x, r = tensor("x", "f32", T, N, 2, H), tensor("r", "f32", 2, H, H)
    h0, y, eqs = tensor("h0", "f32", N, H), tensor("y", "f32", T + 1, N, H), Equations("network", {}, {})
    pre, cell = eqs.scratch("pre", x.dtype, (T, N, 2, H)), eqs.scratch("cell", x.dtype, (T + 1, N, H))
    n, j = eqs.index("n", N), eqs.index("j", H)
    eqs.define(y[0, n, j], h0[n, j])
    n, j = eqs.index("n", N), eqs.index("j", H)
    eqs.define(cell[0, n, j], 0 * h0[n, j])
    s, n, a, j = eqs.index("s", T), eqs.index("n", N), eqs.index("a", 2), eqs.index("j", H)
    eqs.step(pre[s, n, a, j], x[s, n, a, j] + reduce_("sum", [H], lambda k: y[s, n, k] * r[a, j, k]), s)
    s, n, j = eqs.index("s", T), eqs.index("n", N), eqs.index("j", H)
    keep = 1 / (1 + exp(-pre[s, n, 0, j]))
    eqs.step(cell[s + 1, n, j], keep * cell[s, n, j] + (1 - keep) * tanh(pre[s, n, 1, j]), s)
    s, n, j = eqs.index("s", T), eqs.index("n", N), eqs.index("j", H)
    eqs.step(y[s + 1, n, j], tanh(cell[s + 1, n, j]) * where(eq(s, 0), lambda: as_one(), 1), s)
    return Group("network", tuple(eqs.equations), (x, r, h0), outputs=(y,)), eqs


def as_one() -> float:
    return 0.5


@pytest.mark.parametrize("constant", [False, True])
def test_steps_of_phases(constant: bool) -> None:
    group, eqs = network()
    x, r, h0 = group.inputs
    (y,) = group.outputs
    weights = RNG.normal(size=(2, 5, 5)).astype(np.float32)
    if constant:
        shape = (2, 5, 5)
        group, eqs = _with_constant(weights)
        x, r, h0 = group.inputs
        (y,) = group.outputs
        assert r.shape == shape
    kernel = Native(group)
    for t, n in ((4, 3), (1, 40), (0, 2), (3, 1), (3, 0)):
        arrays = {x: RNG.normal(size=(t, n, 2, 5)), r: weights, h0: RNG.normal(size=(n, 5))}
        arrays = {k: a.astype(np.float32) for k, a in arrays.items()}
        sizes = {T: t, N: n, H: 5}
        status, (got,) = kernel.run(arrays, sizes, 2)
        assert status == 0
        h, c = arrays[h0], 0 * arrays[h0]
        for s in range(t):
            pre = arrays[x][s] + np.einsum("nk,ajk->naj", h, weights)
            keep = 1 / (1 + np.exp(-pre[:, 0]))
            c = keep * c + (1 - keep) * np.tanh(pre[:, 1])
            h = np.tanh(c) * (0.5 if s == 0 else 1)
            np.testing.assert_allclose(got[s + 1], h, 1e-4, 1e-5)
        np.testing.assert_allclose(interpret(eqs.equations, arrays, sizes)[y], got, 1e-4, 1e-5)
    text = describe(group)
    assert text.index("product") > text.index("steps position") and "for i" in text


def directions(shared: bool, constant: Any = None) -> tuple[Group, Equations]:
    """Two directions with weights of their own, or the same for both: then a row of each stands in one product."""
    width: Any = H if constant is None else 5
    x, y = tensor("x", "f32", T, 2, N, width), tensor("y", "f32", T + 1, 2, N, width)
    r = tensor("r", "f32", width, width) if shared else tensor("r", "f32", 2, width, width)
    h0, eqs = tensor("h0", "f32", 2, N, width), Equations("directions", {}, {})
    u, n, j = eqs.index("u", 2), eqs.index("n", N), eqs.index("j", width)
    eqs.define(y[0, u, n, j], h0[u, n, j])
    s, u, n, j = eqs.index("s", T), eqs.index("u", 2), eqs.index("n", N), eqs.index("j", width)
    at = (j,) if shared else (u, j)
    total = reduce_("sum", [width], lambda k: y[s, u, n, k] * r[*at, k])
    eqs.step(y[s + 1, u, n, j], tanh(x[s, u, n, j] + total), s)
    constants = {} if constant is None else {r: constant}
    return Group("directions", tuple(eqs.equations), (x, r, h0), outputs=(y,), constants=constants), eqs


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_what_is_apart_is_around_the_positions_and_shared_out(constant: bool, shared: bool) -> None:
    weights = RNG.normal(size=(5, 5) if shared else (2, 5, 5)).astype(np.float32)
    group, eqs = directions(shared, weights if constant else None)
    x, r, h0 = group.inputs
    (y,) = group.outputs
    kernel = Native(group)
    assert kernel.kernel.pieces == (N if shared else 2)
    assert kernel.kernel.work != 0
    for t, n in ((4, 3), (1, 20), (0, 2), (3, 1), (3, 0)):
        arrays = {x: RNG.normal(size=(t, 2, n, 5)), r: weights, h0: RNG.normal(size=(2, n, 5))}
        arrays = {k: a.astype(np.float32) for k, a in arrays.items()}
        sizes = {T: t, N: n, H: 5}
        status, (whole,) = kernel.run(arrays, sizes, 1)
        assert status == 0
        h = arrays[h0]
        for s in range(t):
            h = np.tanh(arrays[x][s] + np.einsum("unk,jk->unj" if shared else "unk,ujk->unj", h, weights))
            np.testing.assert_allclose(whole[s + 1], h, 1e-4, 1e-5)
        np.testing.assert_allclose(interpret(eqs.equations, arrays, sizes)[y], whole, 1e-4, 1e-5)
        for parts in (2, 3):
            status, (got,) = kernel.run(arrays, sizes, parts)
            assert status == 0
            np.testing.assert_array_equal(got, whole)
    lines = [line.strip() for line in describe(group).splitlines()]
    before = lines[lines.index(next(line for line in lines if line.startswith("steps position"))) - 1]
    assert (before.startswith("for ") and before.endswith("in 2:")) == (not shared)
    assert (before.startswith("block of ") and before.endswith(" in n:")) == shared


@pytest.mark.parametrize("along", ["direction", "row", "gate", "positions"])
def test_what_reads_others_goes_through_the_positions_with_them(along: str) -> None:
    """Directions that read each other's values are not apart, but rows are; rows that do, another gate, other positions leave directions
    apart."""
    x, y = tensor("x", "f32", T, 2, N, 3, H), tensor("y", "f32", T + 2, 2, N, 3, H)
    r, eqs = tensor("r", "f32", 2, H, H), Equations("others", {}, {})
    for k in range(2):
        u, n, a, j = eqs.index("u", 2), eqs.index("n", N), eqs.index("a", 3), eqs.index("j", H)
        eqs.define(y[k, u, n, a, j], 0)
    s, u, n, a, j = eqs.index("s", T), eqs.index("u", 2), eqs.index("n", N), eqs.index("a", 3), eqs.index("j", H)
    at = {
        "direction": lambda k: where(lt(u, 1), lambda: y[s + 1, u + 1, n, a, k], 0),
        "row": lambda k: where(lt(n, N - 1), lambda: y[s + 1, u, n + 1, a, k], 0),
        "gate": lambda k: y[s + 1, u, n, 1, k],
        "positions": lambda k: y[s, u, n, a, k],
    }[along]
    eqs.step(y[s + 2, u, n, a, j], tanh(x[s, u, n, a, j] + reduce_("sum", [H], lambda k: at(k) * r[u, j, k])), s)
    group = Group("others", tuple(eqs.equations), (x, r), outputs=(y,))
    kernel = Native(group)
    assert kernel.kernel.pieces == (N if along == "direction" else 2)
    for t, n in ((4, 3), (1, 20), (3, 1)):
        arrays = {x: RNG.normal(size=(t, 2, n, 3, 5)), r: RNG.normal(size=(2, 5, 5))}
        arrays = {k: a.astype(np.float32) for k, a in arrays.items()}
        sizes = {T: t, N: n, H: 5}
        expected = interpret(eqs.equations, arrays, sizes)[y]
        for parts in (1, 2, 3):
            status, (got,) = kernel.run(arrays, sizes, parts)
            assert status == 0
            np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def limited(by: str) -> tuple[Group, Equations]:
    """Steps of a product up to the longest row, and beyond it what was given; the condition is one of positions, or another."""
    x, r, n_ = tensor("x", "f32", T, N, H), tensor("r", "f32", H, H), tensor("most", "i64", N)
    y, eqs = tensor("y", "f32", T + 1, N, H), Equations("limited", {}, {})
    cell = eqs.scratch("cell", x.dtype, (T + 1, N, H))
    for start in (y, cell):
        n, j = eqs.index("n", N), eqs.index("j", H)
        eqs.define(start[0, n, j], 0)
    s, n, j = eqs.index("s", T), eqs.index("n", N), eqs.index("j", H)

    def chosen(value: Any, s: Any, n: Any) -> Any:
        return value if by == "nothing" else where(lt(s, n_[n] if by == "row" else n_[0]), lambda: value, -2)

    fresh = tanh(x[s, n, j] + reduce_("sum", [H], lambda k: y[s, n, k] * r[j, k]))
    eqs.step(cell[s + 1, n, j], chosen(cell[s, n, j] + fresh, s, n), s)
    s, n, j = eqs.index("s", T), eqs.index("n", N), eqs.index("j", H)
    eqs.step(y[s + 1, n, j], tanh(cell[s + 1, n, j]) if by == "one" else chosen(tanh(cell[s + 1, n, j]), s, n), s)
    return Group("limited", tuple(eqs.equations), (x, r, n_), outputs=(y,)), eqs


@pytest.mark.parametrize("by", ["position", "row", "nothing", "one"])
def test_positions_beyond_all_rows_have_no_products(by: str) -> None:
    """Products stop beyond all rows where one condition of the position alone chooses every value; one that differs from row to row, or
    chooses some values only, is part of the values."""
    group, eqs = limited(by)
    x, r, most = group.inputs
    (y,) = group.outputs
    kernel = Native(group)
    text = describe(group)
    assert ("if (" in text.split("steps position")[1].split("product")[0]) == ("else:" in text) == (by == "position")
    for t, n, longest in ((4, 3, 2), (4, 20, 4), (3, 1, 0), (3, 2, 9), (0, 2, 1)):
        arrays = {x: RNG.normal(size=(t, n, 5)).astype(np.float32), r: RNG.normal(size=(5, 5)).astype(np.float32)}
        arrays[most] = np.maximum(longest - np.arange(n), 0)
        sizes = {T: t, N: n, H: 5}
        expected = interpret(eqs.equations, arrays, sizes)[y]
        for parts in (1, 2):
            status, (got,) = kernel.run(arrays, sizes, parts)
            assert status == 0
            np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


def _with_constant(weights: Any) -> tuple[Group, Equations]:
    global H
    outer, H = H, 5
    try:
        group, eqs = network()
    finally:
        H = outer
    constants = {group.inputs[1]: weights}
    return Group(group.name, group.equations, group.inputs, outputs=group.outputs, constants=constants), eqs


def test_part_of_a_range() -> None:
    """Sums of three neighbours: both ends move with the element; and a sum up to the element, which takes a step an element."""
    x, y, eqs = tensor("x", "i64", N), tensor("y", "i64", N), Equations("near", {}, {})
    i = eqs.index("i", N)
    eqs.define(y[i], reduce_range("sum", maximum(i - 1, 0), minimum(i + 2, N), lambda j: x[j]))
    kernel = Native(Group("near", tuple(eqs.equations), (x,), outputs=(y,)))
    running = Equations("running", {}, {})
    k = running.index("k", N)
    running.define(y[k], reduce_range("sum", 0, k + 1, lambda j: x[j]))
    steps = as_steps(running.equations)
    one = Native(Group("running", tuple(steps), (x,), outputs=(y,)))
    assert one.kernel.schedule == ("steps",)
    for n in (0, 1, 2, 9):
        arrays = {x: RNG.integers(-9, 9, n)}
        padded = np.concatenate([[0], arrays[x], [0]])
        status, (got,) = kernel.run(arrays, {N: n})
        assert status == 0
        np.testing.assert_array_equal(got, (padded[:-2] + padded[1:-1] + padded[2:])[:n])
        status, (got,) = one.run(arrays, {N: n}, 2)
        assert status == 0
        np.testing.assert_array_equal(got, np.cumsum(arrays[x]))


def test_a_demand_that_does_not_hold_ends_the_kernel() -> None:
    x, eqs = tensor("x", "i32", N), Equations("asked", {}, {})
    eqs.demand(reduce_("all", [N], lambda k: le(x[k], T)), ("more than ", T))
    (q,) = eqs.equations
    kernel = Native(Group("asked", (q,), (x,), outputs=(q.target,)))
    for values, holds in (([1, 2], True), ([], True), ([3, 4, 5], False)):
        arrays, sizes = {x: np.array(values, np.int32)}, {N: len(values), T: 4}
        status, _ = kernel.run(arrays, sizes)
        assert (status == 0) == holds
        if not holds:
            assert kernel.refusal == "asked: more than 4 (x[2] = 5)"
            with pytest.raises(ShapeError, match="more than 4"):
                interpret(eqs.equations, arrays, sizes)


GUARDED = {
    "of a row": lambda x, y, s: (y, where(gt(s, 0), lambda: y[s - 1] + reduce_("sum", [M], lambda k: x[s - 1, k]), 0)),
    "of either row": lambda x, y, s: (
        y, where(gt(s, 1), lambda: y[s - 1] + reduce_("sum", [M], lambda k: x[s - 2, k]), 0)
        + where(eq(s, 1), lambda: reduce_("sum", [M], lambda k: x[s - 1, k]), 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDED)
def test_a_reduction_that_is_computed_ahead_reads_only_where_it_is_asked_for(name: str) -> None:
    """What is before the first row is read by nobody: the interpreter refuses such a read."""
    x, y, eqs = tensor("x", "f64", T, M), tensor("y", "f64", T), Equations("guarded", {}, {})
    s = eqs.index("s", T)
    target, value = GUARDED[name](x, y, s)
    eqs.step(target[s], value, s)
    values, sizes = RNG.normal(size=(4, 3)), {T: 4, M: 3}
    steps = as_steps(eqs.equations)
    assert len(steps) > 1
    got, expected = (interpret(qs, {x: values}, sizes)[y] for qs in (steps, eqs.equations))
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize(("by_position", "steps"), [(False, 2), (True, 1)])
def test_a_prefix_sum_under_a_condition_reads_only_where_it_holds(by_position: bool, steps: int) -> None:
    """A sum under a condition of the position is none of steps: those before would read what it keeps from being read."""
    x, y, eqs = tensor("x", "f64", N, T), tensor("y", "f64", N, T), Equations("guarded", {}, {})
    i, k = eqs.index("i", N), eqs.index("k", T)
    condition = gt(i + k, 2) if by_position else gt(i, 0)
    value = where(condition, lambda: reduce_("sum", [T], lambda j: x[i - 1, j], lambda j: le(j, k)), 0)
    eqs.define(y[i, k], value)
    values, sizes = RNG.normal(size=(4, 3)), {N: 4, T: 3}
    stated = as_steps(eqs.equations)
    assert len(stated) == steps
    if not by_position:
        got, expected = (interpret(qs, {x: values}, sizes)[y] for qs in (stated, eqs.equations))
        np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("m", [0, 1, 3, 70])
@pytest.mark.parametrize("factor", [False, True])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_a_reduction_over_the_whole_row_before(kind: str, factor: bool, m: int) -> None:
    """A reduction over the row before does not depend on the row's variable, whose name it may have: that is no variable that rows are
    apart by."""
    x, y, eqs = tensor("x", "f64", T, M), tensor("y", "f64", T, M), Equations("whole", {}, {})
    s, j = eqs.index("s", T), eqs.index("j", M)
    before = where(gt(s, 0), lambda: reduce_(kind, [M], lambda k: y[s - 1, k]) * (x[s, j] if factor else 1), 0)
    eqs.step(y[s, j], x[s, j] + before, s)
    values, sizes = RNG.normal(size=(4, m)), {T: 4, M: m}
    for parts in (1, 3):
        status, (got,) = Native(Group("whole", tuple(eqs.equations), (x,), outputs=(y,))).run({x: values}, sizes, parts)
        assert status == 0
        np.testing.assert_allclose(got, interpret(eqs.equations, {x: values}, sizes)[y], rtol=1e-12)


def test_the_report_of_a_refusal_reads_no_variable_of_a_loop_that_is_over() -> None:
    """The elements of a determinant are read in one loop and refused behind it; LLVM's code generator accepts what its verifier does
    not."""
    texts: list[str] = []
    x = anyshape.input("x", "f32[n, m, m]")
    with heard(texts.append):
        anyshape.compile(anyshape.function([x], anyshape.ops.det(x)))
    assert texts
    for text in texts:
        binding.parse_assembly(text).verify()
