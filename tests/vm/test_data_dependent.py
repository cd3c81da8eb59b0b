"""Sizes that data decides, end to end in both executors: counted by one kernel, loaded, and then symbols like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError
from anyshape.graph.value import Value

RNG = np.random.default_rng(7)
EXECUTORS: list[dict[str, Any]] = [{}, {"loop": "python"}, {"kernels": "interpret"}, {"fuse": False}]
DENSITIES = (0.0, 0.3, 1.0)


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


@pytest.fixture(params=EXECUTORS, ids=["default", "walk", "interpret", "unfused"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


def compiled(params: list[Value], results: Any, options: dict[str, Any]) -> Any:
    return anyshape.compile(anyshape.function(params, results), **options)


def sparse(n: int, density: float) -> Any:
    return np.where(RNG.random(n) < density, RNG.normal(size=n), 0).astype(np.float32)


def test_what_is_found_goes_through_a_chain(options: dict[str, Any]) -> None:
    x = anyshape.input("x", "f32[n]")
    elements = ops.exp(ops.cast(ops.gather(x, ops.nonzero(x)), to="f64"))
    f = compiled([x], ops.sum(elements), options)
    for n in (0, 1, 2, 17, 300):
        for density in DENSITIES:
            a = sparse(n, density)
            np.testing.assert_allclose(f(a), np.exp(a[np.nonzero(a)].astype(np.float64)).sum(), rtol=1e-6)


def test_positions_of_any_rank(options: dict[str, Any]) -> None:
    x = anyshape.input("x", "f32[n, m, 3]")
    f = compiled([x], [ops.nonzero(x), ops.argwhere(x)], options)
    for shape in ((2, 5, 3), (0, 4, 3), (1, 1, 3)):
        for density in DENSITIES:
            a = sparse(int(np.prod(shape)), density).reshape(shape)
            rows, columns = f(a)
            np.testing.assert_array_equal(rows, np.stack(np.nonzero(a)))
            np.testing.assert_array_equal(columns, np.argwhere(a))


def test_two_found_sizes_are_two_symbols(options: dict[str, Any]) -> None:
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]")
    first, second = ops.select(x, ops.greater(x, y)), ops.select(y, ops.less(x, y))
    f = compiled([x, y], [ops.concat([first, second]), ops.add(first, second)], options)
    a, b = np.array([3, 1, 4, 1], np.float32), np.array([2, 7, 1, 8], np.float32)
    both, added = f(a, b)
    np.testing.assert_array_equal(both, [3, 4, 7, 8])
    np.testing.assert_array_equal(added, [10, 12])
    _, added = f(a, np.array([0, 0, 0, 8], np.float32))
    np.testing.assert_array_equal(added, [11, 9, 12])  # 3 and 1
    with pytest.raises(AnyshapeError, match="add"):
        f(np.array([3, 3, 3, 1, 1], np.float32), np.array([2, 2, 2, 8, 8], np.float32))  # 3 and 2


def test_two_selections_by_one_mask_have_one_size(options: dict[str, Any]) -> None:
    x, y, mask = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]"), anyshape.input("mask", "bool[n]")
    both = x[mask] + y[mask]
    assert both.type.shape == x[mask].type.shape and both.node is not None and not both.node.checks
    f = compiled([x, y, mask], both, options)
    a, b = (RNG.normal(size=9).astype(np.float32) for _ in range(2))
    for density in DENSITIES:
        m = RNG.random(9) < density
        np.testing.assert_array_equal(f(a, b, m), a[m] + b[m])


def test_one_mask_is_counted_once() -> None:
    x, y, mask, other = (
        anyshape.input(name, f"{kind}[n]") for name, kind in zip("xymo", ("f32", "f32", "bool", "bool"))
    )

    def counts(results: list[Value]) -> int:
        return compiled([x, y, mask, other], results, {}).disassemble().count("load i64")

    assert counts([x[mask] + y[mask], ops.nonzero(mask)]) == 1
    assert counts([x[mask] + y[other], ops.nonzero(mask)]) == 2


def sizes_of(*values: Value) -> set[Any]:
    """The sizes that data decides in the types of values."""
    return {s for v in values for s in v.type.symbols() if "." in s.name}


def test_equal_counts_are_one_size_however_they_are_made() -> None:
    x, y = anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[n, m]")
    results = [
        x[x > y], y[x > y], ops.select(x, x > y), ops.nonzero(x > y), ops.argwhere(x > y),
        ops.compress(x.reshape(-1), (x > y).reshape(-1)),
        ops.gather(y.reshape(-1), ops.nonzero((x > y).reshape(-1))),
    ]  # fmt: skip
    assert len(sizes_of(*results)) == 1
    i = anyshape.input("i", "i64[n]")
    assert len(sizes_of(ops.unique(i)[0], ops.unique(i)[1])) == 1
    filled = [ops.sparse_fill_empty_rows(i[:, None], i, shape=[4]) for _ in range(2)]
    assert len(sizes_of(filled[0][0], filled[1][1])) == 1


def test_unequal_counts_are_sizes_of_their_own() -> None:
    x, y = anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[n, m]")
    rows = anyshape.input("rows", "bool[n]")
    for first, second in (
        (x[x > y], x[y > x]),
        (x[x > y], ops.nonzero(x)),
        (x[rows], x[~rows]),
        (x[rows], ops.compress(x, rows[1:])),
        (ops.nonzero(x > 0.0), ops.nonzero(x > 1.0)),
        (ops.unique(x.reshape(-1))[0], ops.unique(y.reshape(-1))[0]),
    ):
        assert len(sizes_of(first, second)) == 2
    drawn = [ops.random_uniform(ops.fresh_seed(), 0.0, 1.0, (5,)) > 0.5 for _ in range(2)]
    assert len(sizes_of(*map(ops.nonzero, drawn))) == 2


def test_a_mask_from_outside_has_one_size_in_a_loop_and_a_mask_of_an_iteration_its_own(options: dict[str, Any]) -> None:
    x, y, mask = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]"), anyshape.input("mask", "bool[n]")
    trip = anyshape.input("trip", "i64[]")
    selected = x[mask]
    (total,) = anyshape.control.loop(trip, lambda i, acc: [acc + y[mask] * selected], [selected * 0.0])
    assert total.type.shape == selected.type.shape
    f = compiled([x, y, mask, trip], [total, y[mask]], options)
    a, b, m = RNG.normal(size=7).astype(np.float32), np.ones(7, np.float32), RNG.random(7) < 0.5
    summed, ones = f(a, b, m, np.array(3))
    np.testing.assert_allclose(summed, 3 * a[m], rtol=1e-6)
    np.testing.assert_array_equal(ones, b[m])

    def shrinking(i: Value, keep: Value, n: Value) -> list[Value]:
        return [keep & (x > ops.cast(i, to="f32")), n + ops.shape_of(x[keep])[0]]

    kept, count = anyshape.control.loop(trip, shrinking, [mask, anyshape.constant(np.array(0))])
    f = compiled([x, mask, trip], [count, x[mask], x[kept]], options)
    a, m = np.array([5, 1, 2, 0.5, -1], np.float32), np.array([1, 1, 1, 0, 1], bool)
    number, first, last = f(a, m, np.array(3))
    assert number == 4 + 3 + 2
    np.testing.assert_array_equal(first, a[m])
    np.testing.assert_array_equal(last, [5])


def test_a_branch_counts_a_mask_from_outside_once_more_or_not(options: dict[str, Any]) -> None:
    x, y, mask = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]"), anyshape.input("mask", "bool[n]")
    c = anyshape.input("c", "bool[]")
    selected = x[mask]
    (chosen,) = anyshape.control.if_(c, lambda: selected + y[mask], lambda: y[mask] - selected)
    assert chosen.type.shape == selected.type.shape
    f = compiled([x, y, mask, c], chosen, options)
    a, b, m = RNG.normal(size=7).astype(np.float32), RNG.normal(size=7).astype(np.float32), RNG.random(7) < 0.5
    np.testing.assert_array_equal(f(a, b, m, np.array(True)), a[m] + b[m])
    np.testing.assert_array_equal(f(a, b, m, np.array(False)), b[m] - a[m])


def test_a_boolean_mask_then_rows(options: dict[str, Any]) -> None:
    x, keep = anyshape.input("x", "f32[n, m]"), anyshape.input("keep", "bool[n]")
    f = compiled([x, keep], ops.softmax(ops.compress(x, keep)), options)
    a = RNG.normal(size=(6, 5)).astype(np.float32)
    for mask in (np.zeros(6, bool), np.ones(6, bool), np.arange(6) % 2 == 0):
        e = np.exp(a[mask])
        np.testing.assert_allclose(f(a, mask), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_a_range_as_long_as_a_number_says(options: dict[str, Any]) -> None:
    i = anyshape.input("i", "i64[]")
    start, step = anyshape.constant(np.array(0)), anyshape.constant(np.array(1))
    f = compiled([i], ops.sum(ops.arange(start, i, step)), options)
    for n in (0, 1, 5, 1000):
        assert f(np.array(n)) == n * (n - 1) // 2


def test_topk_with_computed_k(options: dict[str, Any]) -> None:
    """k is how many are above a threshold."""
    x = anyshape.input("x", "f32[b, n]")
    positive = ops.cast(ops.greater(x, ops.cast(anyshape.constant(np.array(0.0)), to="f32")), to="i64")
    k = ops.min(ops.sum(positive, axes=[1]), axes=[0])
    f = compiled(
        [
            x,
        ],
        list(ops.topk(x, k)),
        options,
    )
    for shape in ((1, 3), (4, 50), (2, 1)):
        a = RNG.normal(size=shape).astype(np.float32)
        count = int((a > 0).sum(1).min())
        order = np.argsort(-a, axis=1, kind="stable")[:, :count]
        values, places = f(a)
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(a, order, 1))


def test_ragged_packing(options: dict[str, Any]) -> None:
    """Rows of different lengths, padded in: what is real is packed, computed on, and put back."""
    x, lengths = anyshape.input("x", "f32[b, t]"), anyshape.input("lengths", "i64[b]")
    start, step = anyshape.constant(np.array(0)), anyshape.constant(np.array(1))
    size = ops.gather(ops.shape_of(x), anyshape.constant(np.array(1)))
    real = ops.less(ops.arange(start, size, step), ops.expand_dims(lengths, axes=[1]))
    packed = ops.exp(ops.select(x, real))
    back = ops.scatter_nd(x, ops.argwhere(real), packed)
    f = compiled([x, lengths], [packed, back], options)
    for shape in ((3, 4), (1, 1), (5, 2)):
        a = RNG.normal(size=shape).astype(np.float32)
        n = RNG.integers(0, shape[1] + 1, shape[0])
        mask = np.arange(shape[1]) < n[:, None]
        flat, whole = f(a, n)
        np.testing.assert_allclose(flat, np.exp(a[mask]), rtol=1e-6)
        np.testing.assert_allclose(whole, np.where(mask, np.exp(a), a), rtol=1e-6)


def test_unique_and_its_inverse(options: dict[str, Any]) -> None:
    x = anyshape.input("x", "i64[n]")
    y, first, inverse, counts = ops.unique(x)
    f = compiled([x], [y, first, inverse, counts, ops.gather(y, inverse)], options)
    for n in (0, 1, 7, 200):
        a = RNG.integers(-5, 5, n)
        *results, again = f(a)
        for got, want in zip(results, np.unique(a, return_index=True, return_inverse=True, return_counts=True)):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(again, a)


def kernel_calls(f: anyshape.Executable) -> int:
    return sum("kernel" in op.named(o) for p in f.plan.programs for _, op, o in p.instructions())


def test_outputs_that_nobody_wants_are_not_computed() -> None:
    x = anyshape.input("x", "i64[n]")
    alone = compiled([x], ops.unique(x)[0], {})
    everything = compiled([x], list(ops.unique(x)), {})
    assert kernel_calls(alone) < kernel_calls(everything)


def test_what_is_found_in_a_constant_is_a_constant() -> None:
    """A size that a pass can know is a number in the types that follow."""
    a = np.array([0, 3, 0, 5], np.float32)
    f = anyshape.passes.optimise(anyshape.function([], ops.nonzero(anyshape.constant(a))))
    assert f.results[0].type.shape == (1, 2) and f.results[0].is_constant


def test_the_same_search_is_made_once() -> None:
    x = anyshape.input("x", "f32[n]")
    f = compiled([x], [ops.nonzero(x), ops.exp(ops.gather(x, ops.nonzero(x)))], {})
    assert f.disassemble().count("invoke nonzero") == 2  # a count and a compaction
    places, e = f(np.array([0, 1, 2], np.float32))
    np.testing.assert_array_equal(places, [[1, 2]])
    np.testing.assert_allclose(e, np.exp([[1.0, 2.0]]), rtol=1e-6)


def test_only_the_count_is_read_to_know_a_shape() -> None:
    x = anyshape.input("x", "f32[n]")
    f = compiled([x], ops.exp(ops.gather(x, ops.nonzero(x))), {})
    assert f.disassemble().count("load ") == 1


def test_an_update_outside_is_an_error(options: dict[str, Any]) -> None:
    x, at, u = anyshape.input("x", "f32[n]"), anyshape.input("at", "i64[m, 1]"), anyshape.input("u", "f32[m]")
    f = compiled([x, at, u], ops.scatter_nd(x, at, u, reduction="add"), options)
    a, b = np.zeros(4, np.float32), np.ones(2, np.float32)
    np.testing.assert_array_equal(f(a, np.array([[-1], [-1]]), b), [0, 0, 0, 2])
    with pytest.raises(AnyshapeError, match="out of range for axis 0 of y"):
        f(a, np.array([[4], [0]]), b)
