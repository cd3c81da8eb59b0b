"""Steps one after the other: native code against the interpreter, and what a step outside of its array does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import parse_dtype
from anyshape.equations import Equations, Tensor
from anyshape.equations.functions import and_, checked, eq, ge, gt, lt, ne, reduce_
from anyshape.equations.interpret import interpret
from anyshape.lower import Group, describe
from anyshape.lower.emit.sequences.sort import FIRST, LONG
from anyshape.lower.structural_key import StructuralKeyWriter
from tests.lower.native import Native

N, M = dims.symbol("n"), dims.symbol("m")
RNG = np.random.default_rng(5)
I64, F32 = parse_dtype("i64"), parse_dtype("f32")


def tensor(name: str, dtype: str, *shape: Any) -> Tensor:
    return Tensor(name, parse_dtype(dtype), shape)


def agree(
    eqs: Equations, arrays: dict[Tensor, np.ndarray[Any, Any]], outputs: tuple[Tensor, ...], sizes: Any
) -> Native:
    kernel = Native(Group(eqs.op, tuple(eqs.equations), tuple(arrays), outputs=outputs))
    expected = interpret(eqs.equations, arrays, sizes)
    for parts in (1, 2):
        status, got = kernel.run(arrays, sizes, parts)
        assert status == 0, kernel.refusal
        for t, a in zip(outputs, got, strict=True):
            np.testing.assert_array_equal(a, expected[t])
    return kernel


def kept_by_distance() -> tuple[Equations, Tensor, Tensor, Tensor]:
    """Greedy: numbers in descending order, each kept if all kept before are far enough."""
    x, y = tensor("x", "f32", N), tensor("y", "f32", N)
    eqs = Equations("greedy", {"x": x}, {"y": y})
    p = eqs.procedure()
    kept, y_ = p.array("kept", F32, (N,)), p.output("y")
    k, pick, m = p.variable("k", I64), p.array("pick", I64, (N,)), p.variable("m", I64)
    p.set(k[()], 0)
    p.set(m[()], 0)
    with p.loop("i", N) as i, p.when(gt(checked(x)[i], 0.0)):
        p.set(checked(pick)[m[()]], i)
        p.set(m[()], 1, "add")
    with p.ordered("j", [p.size(m[()])], lambda q: checked(x)[checked(pick)[q]], descending=True) as j:
        v = checked(x)[checked(pick)[j]]
        far = reduce_("all", [p.size(k[()])], lambda q: gt(checked(kept)[q] - v, 0.25))
        with p.when(and_(lt(k[()], 20), far)):
            p.set(checked(kept)[k[()]], v)
            p.set(checked(y_)[checked(pick)[j]], v)
            p.set(k[()], 1, "add")
        with p.otherwise(), p.when(eq(k[()], 20)):
            p.leave()
    p.end()
    return eqs, x, y, kept


def test_greedy_choice() -> None:
    eqs, x, y, _ = kept_by_distance()
    for n in (0, 1, 2, 40, 300):
        agree(eqs, {x: RNG.normal(size=n).astype(np.float32) * 4}, (y,), {N: n})


def in_order(dtype: str, *, leaves: bool, writes: bool) -> tuple[Equations, tuple[Tensor, ...], Tensor]:
    """The first positions in the order of a key, up to a number of them, each where it comes; what the key reads may be written."""
    x, most, y = tensor("x", dtype, N), tensor("most", "i64"), tensor("y", "i64", N)
    eqs = Equations("in_order", {"x": x, "most": most}, {"y": y})
    p = eqs.procedure()
    own, y_, k = p.array("own", parse_dtype(dtype), (N,)), p.output("y"), p.variable("k", I64)
    p.set(k[()], 0)
    with p.loop("i", N) as i:
        p.set(own[i], x[i])
    with p.ordered("j", [N], lambda q: own[q] if writes else x[q], descending=leaves) as j:
        with p.when(ge(k[()], most[()])):
            if leaves:
                p.leave()
            else:
                p.set(k[()], 0, "add")
        with p.otherwise():
            p.set(checked(y_)[k[()]], j)
        if writes:
            p.set(checked(own)[j], 0)
        p.set(k[()], 1, "add")
    p.end()
    return eqs, (x, most), y


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_a_loop_in_an_order_comes_as_far_as_it_goes(dtype: str) -> None:
    """The first positions of a long row are selected, and the row is sorted once the loop comes further; a short row is sorted."""
    eqs, (x, most), y = in_order(dtype, leaves=True, writes=False)
    native = Native(Group(eqs.op, tuple(eqs.equations), (x, most), outputs=(y,)))
    assert "all where more are asked for" in describe(native.group)
    values = RNG.integers(-500, 500, LONG + 1).astype(x.dtype.numpy)  # some of them equal
    values = np.where(values == 7, np.nan, values) if dtype == "f32" else values
    for n in (0, 1, LONG - 1, LONG, LONG + 1):
        row = values[:n]
        keys = (
            np.where(np.isnan(row), -np.inf, -row) if dtype == "f32" else -row
        )  # the greatest first, and NaN is greater
        order = np.argsort(keys, kind="stable")
        for count in (0, 1, FIRST - 1, FIRST, FIRST + 1, n):
            status, (result,) = native.run({x: row, most: np.array(count)}, {N: n}, 1)
            expected = np.where(np.arange(n) < count, order, 0)
            assert status == 0
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("leaves", "writes"), [(False, False), (True, True)])
def test_a_loop_that_comes_to_all_positions_or_changes_keys_has_all_sorted(leaves: bool, writes: bool) -> None:
    eqs, (x, most), y = in_order("f32", leaves=leaves, writes=writes)
    native = agree(eqs, {x: RNG.normal(size=300).astype(np.float32), most: np.array(250)}, (y,), {N: 300})
    assert "all where more are asked for" not in describe(native.group)


def test_leaving_loops() -> None:
    x, y = tensor("x", "i64", N, M), tensor("y", "i64", N)
    eqs = Equations("leave", {"x": x}, {"y": y})
    p = eqs.procedure()
    y_ = p.output("y")
    with p.loop("i", N) as i:
        with p.loops_over("j", [M, 2]) as (j, k):
            with p.when(gt(x[i, j], 5)):
                p.leave()
            p.set(y_[i], x[i, j] * k, "add")
        with p.repeat(9):
            p.unless(gt(y_[i], 3))
            p.set(y_[i], 2, "sub")
        with p.loops_over("z", []):
            with p.when(ne(y_[i], 1)):
                p.leave()
            p.set(y_[i], 100)
        with p.range("a", i, N) as a:
            p.set(y_[i], a, "add")
        with p.items("w", [3, N]) as w:
            p.set(y_[i], y_[i] * 2 + w)
    p.end()
    for n, m in ((3, 4), (5, 0), (0, 2), (9, 30)):
        kernel = agree(eqs, {x: RNG.integers(-3, 8, (n, m))}, (y,), {N: n, M: m})
    assert "leave" in describe(kernel.group) and "one after the other" in describe(kernel.group)


def test_loops_that_only_fill_use_vectors() -> None:
    x, y = tensor("x", "f32", N, 4), tensor("y", "f32", N)
    eqs = Equations("fill", {"x": x}, {"y": y})
    p = eqs.procedure()
    area, y_ = p.array("area", F32, (N,)), p.output("y")
    with p.loop("i", N) as i:
        p.set(area[i], x[i, 2] * x[i, 3])
    with p.loop("i", N) as i:
        p.set(y_[i], reduce_("sum", [N], lambda q: area[q] * x[i, 0]))
    p.end()
    arrays = {x: RNG.integers(-3, 4, (50, 4)).astype(np.float32)}
    kernel = agree(eqs, arrays, (y,), {N: 50})
    assert "one after the other" not in describe(kernel.group)
    assert " x float>" in kernel.kernel.text


def test_out_of_range() -> None:
    """A step outside of its array ends the call: an error, and nothing is written there."""
    x, y = tensor("x", "i64", N), tensor("y", "i64", M)
    eqs = Equations("outside", {"x": x}, {"y": y})
    p = eqs.procedure()
    y_, k = p.output("y"), p.variable("k", I64)
    p.set(k[()], 0)
    with p.loop("i", N) as i, p.when(gt(x[i], 0)):
        p.set(checked(y_)[k[()]], x[i])
        p.set(k[()], 1, "add")
    p.end()
    agree(eqs, {x: np.array([1, -1, 2])}, (y,), {N: 3, M: 2})
    kernel = Native(Group("outside", tuple(eqs.equations), (x,), outputs=(y,)))
    kernel.run({x: np.array([1, 3, 2])}, {N: 3, M: 2})
    assert kernel.refusal == "outside: index 2 is out of range for axis 0 of y with size 2 (y[k[]]: k = 2)"


def test_the_form_tells_steps_apart() -> None:
    """Kernels are shared by form: another step is another form."""

    def key_of(limit: int, op: str) -> Any:
        y = tensor("y", "i64", N)
        eqs = Equations("same", {}, {"y": y})
        p = eqs.procedure()
        y_ = p.output("y")
        with p.loop("i", N) as i, p.when(lt(i, limit)):
            p.set(y_[i], i, op)
        p.end()
        return StructuralKeyWriter().group(Group("same", tuple(eqs.equations), (), outputs=(y,)))

    assert key_of(3, "add") == key_of(3, "add")
    assert len({key_of(3, "add"), key_of(4, "add"), key_of(3, "sub")}) == 3
