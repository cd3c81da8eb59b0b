"""`ops.require`: what is said of sizes is checked when the program runs, and known where it speaks of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.cli.explain import explanation
from anyshape.dims import maximum
from anyshape.errors import ArgumentError, ShapeError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.parse import parse
from anyshape.graph.value import Value
from anyshape.passes import optimise

EXECUTORS: list[dict[str, Any]] = [{}, {"loop": "python"}, {"kernels": "interpret"}, {"fuse": False}]
ODD = """few ("at most", '3') # {k}, [x) \\u0041 …é"""
A = np.arange(6, dtype=np.float32)


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


@pytest.fixture(params=EXECUTORS, ids=["default", "walk", "interpret", "unfused"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


def inputs(**types: str) -> list[Any]:
    return [anyshape.input(name, t) for name, t in types.items()]


def mask(*truths: int) -> Any:
    return np.array(truths, bool)


def checks_of(f: Function) -> list[str]:
    """What is checked when the function runs, but for what it requires."""
    checks = [*f.checks, *(c for n in f.all_nodes() for c in n.checks)]
    return [str(c) for c in checks if c.op != "require"]


def test_a_data_dependent_size_is_checked(options: dict[str, Any]) -> None:
    x, m = inputs(x="f32[n]", m="bool[n]")
    kept = x[m]
    ops.require(kept.shape[0] <= 3, "at most three are kept")
    f = anyshape.compile(anyshape.function([x, m], kept + 1.0), **options)
    np.testing.assert_array_equal(f(A, mask(1, 0, 1, 0, 1, 0)), [1, 3, 5])
    with pytest.raises(
        ShapeError, match=r"at most three are kept \(compress.shape\[0\] <= 3 does not hold: compress.shape\[0\] = 4\)"
    ):
        f(A, mask(1, 0, 1, 0, 1, 1))


def test_dims_of_inputs_are_checked_at_the_entry(options: dict[str, Any]) -> None:
    (x,) = inputs(x="f32[n, m]")
    n, m = x.shape
    ops.require((n % 2).equal(0), "an even number of rows")
    ops.require(n > m, "more rows than columns")
    f = anyshape.compile(anyshape.function([x], x.reshape(-1, 2, m)), **options)
    assert f(np.zeros((4, 3), np.float32)).shape == (2, 2, 3)
    for shape, message in (
        ((5, 3), "an even number of rows .*n = 5"),
        ((4, 4), "more rows than columns .*m = 4, n = 4"),
    ):
        with pytest.raises(ShapeError, match=message):
            f(np.zeros(shape, np.float32))


def test_integers_that_values_hold_are_checked(options: dict[str, Any]) -> None:
    x, lengths = inputs(x="f32[n]", lengths="i64[b]")
    total = ops.sum(lengths)
    ops.require(total >= 0, "no negative total")
    ops.require(x.shape[0] >= total, "as many elements as lengths say")
    f = anyshape.compile(anyshape.function([x, lengths], x[:total]), **options)
    np.testing.assert_array_equal(f(A, np.array([1, 3])), A[:4])
    for values, message in (([4, 3], "as many elements .*n = 6, sum = 7"), ([-1], "no negative total .*sum = -1")):
        with pytest.raises(ShapeError, match=message):
            f(A, np.array(values))


Said = Callable[[Value, Value], None]
BOTH: dict[str, tuple[Said, Callable[[Value, Value], Value], str]] = {
    "a bound": (
        lambda kept, other: ops.require(kept.shape[0] <= 512, "few"),
        lambda kept, other: ops.static.slice(kept, starts=(0,), ends=(512,)) + kept,
        "do not broadcast",
    ),
    "an equality": (
        lambda kept, other: ops.require(kept.shape[0].equal(other.shape[0]), "as many"),
        lambda kept, other: kept + other,
        "do not broadcast",
    ),
    "a divisor": (
        lambda kept, other: ops.require((kept.shape[0] % 4).equal(0), "fours"),
        lambda kept, other: kept.reshape(-1, 4),
        "not a multiple|cannot view",
    ),
    "a number": (
        lambda kept, other: ops.require(kept.shape[0].equal(4), "four"),
        lambda kept, other: kept.reshape(2, 2),
        "cannot view",
    ),
}


@pytest.mark.parametrize("known", BOTH)
def test_what_follows_is_checked_no_more(known: str) -> None:
    """There is a check without the requirement; with it there is none, before and after passes, and for certain sizes."""
    said, used, check = BOTH[known]
    for is_said in (False, True):
        x, m, o = inputs(x="f32[n]", m="bool[n]", o="bool[n]")
        kept, other = x[m], x[o]
        result = used(kept, other)
        if is_said:
            said(kept, other)
        f = anyshape.function([x, m, o], [result, kept, other])
        for g in (f, optimise(f), optimise(optimise(f)), f.specialize(n=(1, 10000)), optimise(f.specialize(n=600))):
            left = [c for c in checks_of(g) if any(part in c for part in check.split("|"))]
            assert bool(left) is not is_said, (str(g), left)


def test_types_are_known() -> None:
    x, m = inputs(x="f32[n]", m="bool[n]")
    kept = x[m]
    assert str(kept[:512].type.shape[0]).startswith("min(")
    ops.require(kept.shape[0] <= 512, "few")
    ops.require(x.shape[0].equal(600), "six hundred")
    f = anyshape.function([x, m], [kept[:512], x + 1.0])
    cut, whole = optimise(f).results
    assert cut.type.shape == kept.type.shape and whole.type.shape == (600,)


def test_a_relation_of_two_sizes_settles_their_minimum(options: dict[str, Any]) -> None:
    """A relation of dims of inputs, or of sizes that data decides, settles their minimum in the types behind it alone."""
    x, y, m = inputs(x="f32[n]", y="f32[k]", m="bool[n]")
    (n,), (k,), kept = x.shape, y.shape, x[m]
    ops.require(k <= n, "k is short")
    ops.require(kept.shape[0] <= k, "few are kept")
    results = [x[:k], ops.full(1.0, (maximum(k, n),)), x[:k] + y, y[: kept.shape[0]] * kept, x[: k + 1]]
    f = anyshape.function([x, y, m], results)
    for g in (f, optimise(f), f.specialize(n=(1, 100))):
        shapes = [v.type.shape for v in g.results]
        names = {s.name: s for s in g.symbols()}
        assert shapes[:3] == [(names["k"],), (names["n"],), (names["k"],)], shapes
        assert shapes[3] is not None and shapes[3][0].is_symbol and str(g.results[4].type) == "f32[min(k + 1, n)]"
    run = anyshape.compile(f, **options)
    got = run(A, A[:3], mask(1, 0, 0, 0, 0, 1))
    for a, expected in zip(got, (A[:3], np.ones(6), A[:3] * 2, A[:2] * [0, 5], A[:4]), strict=True):
        np.testing.assert_array_equal(a, expected)
    for size, kept_ones, message in ((7, 1, "k is short"), (2, 3, "few are kept")):
        with pytest.raises(ShapeError, match=message):
            run(A, np.zeros(size, np.float32), np.arange(6) < kept_ones)


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (0, 6), (6, 0)])
@pytest.mark.parametrize("first", ["kept", "other"])
def test_nothing_relies_on_a_requirement_before_it_is_checked(
    counts: tuple[int, int], first: str, options: dict[str, Any]
) -> None:
    """What is computed of one selection alone has its size, whatever it is required to equal."""
    x, m, o = inputs(x="f32[n]", m="bool[n]", o="bool[n]")
    kept, other = x[m], x[o]
    ops.require(kept.shape[0].equal(other.shape[0]), "as many")
    results = {"kept": kept * 2.0, "other": other * 3.0}
    closed = anyshape.function([x, m, o], [results.pop(first), *results.values(), kept + other])
    f = anyshape.compile(closed, **options)
    assert all(len(v.type.symbols()) == 1 for v in closed.results)
    masks = [np.arange(6) < n for n in counts]
    with pytest.raises(ShapeError, match="as many"):
        f(A, *masks)
    np.testing.assert_array_equal(f(A, masks[0], masks[0])[2], 2 * A[masks[0]])


def test_what_cannot_hold_is_refused_when_it_is_said() -> None:
    (x,) = inputs(x="f32[n]")
    n = x.shape[0]
    ops.require(True, "a truth")
    ops.require(n >= 0, "a size")
    for condition in (False, np.False_, n < 0, (2 * n).equal(2 * n + 1), anyshape.constant(np.array(False))):
        with pytest.raises(ShapeError, match="never"):
            ops.require(condition, "never")


CONDITIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], bool]]] = {
    "k <= n": (lambda k, n: k <= n, lambda k, n: k <= n),
    "~k.equal(n)": (lambda k, n: ~k.equal(n), lambda k, n: k != n),
    "(1 <= k) & (k <= n)": (lambda k, n: (k >= 1) & (k <= n), lambda k, n: 1 <= k <= n),
    "k.equal(n) | k.equal(1)": (lambda k, n: k.equal(n) | k.equal(1), lambda k, n: k in (n, 1)),
    "(k >= 0) & (k <= n)": (lambda k, n: (k >= 0) & (k <= n), lambda k, n: k <= n),
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_on_dims_choose_a_branch_and_elements(text: str, options: dict[str, Any]) -> None:
    """Written by & | and ~, and taken by all that takes a bool value."""
    condition, holds = CONDITIONS[text]
    x, y = inputs(x="f32[n]", y="f32[k]")
    n, k = x.shape[0], y.shape[0]
    (chosen,) = control.if_(condition(k, n), lambda: x, lambda: -x)
    f = anyshape.compile(anyshape.function([x, y], [chosen, ops.where(condition(k, n), x, -x)]), **options)
    ops.require(condition(k, n), "as said")
    required = anyshape.compile(anyshape.function([x, y], x + 1.0), **options)
    for sizes in ((1, 0), (2, 1), (2, 2), (2, 3), (1, 1)):
        a, b = (np.ones(s, np.float32) for s in sizes)
        so = holds(len(b), len(a))
        for result in f(a, b):
            np.testing.assert_array_equal(result, a if so else -a)
        if so:
            required(a, b)
        else:
            with pytest.raises(ShapeError, match="as said"):
                required(a, b)


def test_conditions_on_dims_and_on_values_are_combined() -> None:
    x, lengths = inputs(x="f32[n]", lengths="i64[b]")
    n, total = x.shape[0], ops.sum(lengths)
    ops.require((n <= 5) & (total <= n), "both")
    ops.require((total >= 1) | (n >= 3), "either")
    f = anyshape.compile(anyshape.function([x, lengths], x[:total]))
    assert f(A[:5], np.array([2, 1])).shape == (3,)
    for a, values, message in ((A, [2], "both"), (A[:2], [3], "both"), (A[:2], [0], "either")):
        with pytest.raises(ShapeError, match=message):
            f(a, np.array(values))


def test_what_is_no_condition_on_sizes_is_an_error() -> None:
    (x,) = inputs(x="f32[n]")
    for condition in (3, "n <= 4", None, x, (x > 0.0).all(), x > 0.0, ops.shape_of(x)):
        with pytest.raises(ArgumentError, match="condition on sizes"):
            ops.require(condition, "")
    with pytest.raises(ArgumentError, match="message"):
        ops.require(x.shape[0] <= 3, 3)
    with pytest.raises(ArgumentError, match="character 0"):
        ops.require(x.shape[0] <= 3, "\0")
    with pytest.raises(TypeError):
        x.shape[0].equal(x)


def test_a_requirement_is_of_the_function_that_has_its_sizes() -> None:
    """A requirement is that of the input made last, of two functions whose inputs have dims of one name."""
    before, x = inputs(before="f32[n]", x="f32[n]")
    ops.require(x.shape[0] <= 3, "few")
    (behind,) = inputs(behind="f32[n]")
    f = anyshape.compile(anyshape.function([x], x + 1.0))
    for other in (before, behind):
        assert anyshape.compile(anyshape.function([other], other + 1.0))(A).shape == (6,)
    with pytest.raises(ShapeError, match="few"):
        f(A)


def test_a_function_of_older_inputs_checks_it_where_none_of_the_newest_is() -> None:
    """`n` of x is n of y, too, which no function has; but of one that was closed over y it is y's, and nothing of a deleted model."""
    x, y, k = inputs(x="f32[n]", y="f32[n]", k="f32[k]")
    ops.require(x.shape[0] <= 3, "few")
    ops.require(x.shape[0] <= k.shape[0], "as many as of k")
    f = anyshape.compile(anyshape.function([x], x + 1.0))
    both = anyshape.compile(anyshape.function([x, k], x + k.sum()))
    assert f(A[:3]).shape == (3,) and both(A[:2], A[:3]).shape == (2,)
    for call, message in (((f, A), "few"), ((both, A[:4], A), "few"), ((both, A[:3], A[:2]), "as many as of k")):
        run, *arrays = call
        with pytest.raises(ShapeError, match=message):
            run(*arrays)
    with pytest.raises(ShapeError, match="few"):
        anyshape.compile(anyshape.function([y], y + 1.0))(A)
    assert anyshape.compile(anyshape.function([x], x + 1.0))(A).shape == (6,)
    (z,) = inputs(z="f32[n]")
    ops.require(z.shape[0] <= 3, "few of what is gone")
    del z
    assert anyshape.compile(anyshape.function([x], x + 1.0))(A).shape == (6,)


def test_a_dim_that_no_input_has_any_more_is_an_error() -> None:
    size = anyshape.input("gone", "f32[name_of_none]").shape[0]
    for condition in (size <= 3, anyshape.input("x", "f32[n]").shape[0] <= size):
        with pytest.raises(ArgumentError, match="no input has the dim name_of_none any more"):
            ops.require(condition, "few")


def test_a_size_that_no_result_needs_is_checked(options: dict[str, Any]) -> None:
    x, m = inputs(x="f32[n]", m="bool[n]")
    kept = x[m]
    ops.require(kept.shape[0] <= 3, "few")
    f = anyshape.compile(anyshape.function([x, m], x * 2.0), **options)
    np.testing.assert_array_equal(f(A, mask(1, 1, 1, 0, 0, 0)), 2 * A)
    with pytest.raises(ShapeError, match="few"):
        f(A, mask(1, 1, 1, 1, 0, 0))


def test_a_branch_checks_what_it_requires(options: dict[str, Any]) -> None:
    x, m, c = inputs(x="f32[n]", m="bool[n]", c="bool[]")
    kept = x[m]

    def few() -> Value:
        ops.require(kept.shape[0] <= 2, "few in this branch")
        doubled: Value = kept * 2.0
        return doubled

    (chosen,) = control.if_(c, few, lambda: kept)
    f = anyshape.compile(anyshape.function([x, m, c], chosen), **options)
    many = mask(1, 1, 1, 0, 0, 0)
    np.testing.assert_array_equal(f(A, many, np.array(False)), A[:3])
    np.testing.assert_array_equal(f(A, mask(0, 1, 1, 0, 0, 0), np.array(True)), [2, 4])
    with pytest.raises(ShapeError, match="few in this branch"):
        f(A, many, np.array(True))


def test_an_iteration_checks_what_it_requires(options: dict[str, Any]) -> None:
    x, trip = inputs(x="f32[n]", trip="i64[]")

    def body(i: Value, total: Value) -> list[Value]:
        selected = x[x > ops.cast(i, to="f32")]
        ops.require(selected.shape[0] <= 3, "three in each iteration")
        ops.require(i <= 2, "three iterations")
        return [total + selected.sum()]

    (total,) = control.loop(trip, body, [anyshape.constant(np.float32(0))])
    f = anyshape.compile(anyshape.function([x, trip], total), **options)
    few = np.array([-1, 1, 2, 3], np.float32)
    assert f(few, np.array(2)) == 6 + 5
    for a, n, message in ((A, 1, "three in each iteration"), (few, 4, "three iterations .*iteration = 3")):
        with pytest.raises(ShapeError, match=message):
            f(a, np.array(n))


def test_a_branch_of_an_iteration_and_the_iteration_require(options: dict[str, Any]) -> None:
    x, c, trip = inputs(x="f32[n]", c="bool[]", trip="i64[]")

    def body(i: Value, total: Value) -> list[Value]:
        def positive() -> Value:
            selected = x[x > ops.cast(i, to="f32")]
            ops.require(selected.shape[0] <= 4, "four in a branch")
            summed: Value = selected.sum()
            return summed

        (chosen,) = control.if_(c, positive, lambda: total)
        ops.require(i <= 1, "two iterations")
        return [total + chosen]

    (total,) = control.loop(trip, body, [anyshape.constant(np.float32(0))])
    f = anyshape.compile(anyshape.function([x, c, trip], total), **options)
    assert f(A[:5], np.array(True), np.array(2)) == 19 and f(A, np.array(False), np.array(2)) == 0
    for a, truth, n, message in ((A, True, 2, "four in a branch"), (A, False, 3, "two iterations")):
        with pytest.raises(ShapeError, match=message):
            f(a, np.array(truth), np.array(n))


def test_a_function_that_is_put_in_the_place_of_its_call_checks_what_it_requires() -> None:
    x, m = inputs(x="f32[n]", m="bool[n]")
    kept = x[m]
    ops.require(kept.shape[0] <= 2, "few")
    called = anyshape.function([x, m], kept * 2.0)
    y, o = inputs(y="f32[q]", o="bool[q]")
    (result,) = control.call(called, [y, o])
    f = anyshape.compile(anyshape.function([y, o], result + 1.0))
    np.testing.assert_array_equal(f(A, mask(1, 0, 1, 0, 0, 0)), [1, 5])
    with pytest.raises(ShapeError, match="few"):
        f(A, mask(1, 0, 1, 1, 0, 0))


def test_a_function_with_gradients_checks_what_it_requires() -> None:
    (x,) = inputs(x="f32[n]")
    ops.require(x.shape[0] <= 4, "short")
    square = ops.sum(x * x)
    f = anyshape.compile(anyshape.function([x], [square, *anyshape.gradients(square, [x])]))
    np.testing.assert_array_equal(f(A[:3])[1], [0, 2, 4])
    with pytest.raises(ShapeError, match="short"):
        f(A)


def test_a_called_function_checks_what_it_requires() -> None:
    callee = control.function("kept", {"x": "f32[n]", "m": "bool[n]"}, ["f32[k]"])

    def body(x: Value, m: Value) -> list[Value]:
        kept: Value = x[m]
        ops.require(kept.shape[0] <= 3, "few")
        ops.require((x.shape[0] % 2).equal(0), "even")
        return [kept]

    control.define(callee, body)
    x, m = inputs(x="f32[n]", m="bool[n]")
    f = anyshape.compile(anyshape.function([x, m], list(control.call(callee, [x, m]))))
    np.testing.assert_array_equal(f(A, mask(1, 0, 0, 0, 0, 1)), [0, 5])
    with pytest.raises(ShapeError, match="few"):
        f(A, mask(1, 1, 1, 0, 0, 1))
    with pytest.raises(ShapeError, match="even"):
        f(A[:3], mask(1, 0, 0))


def test_it_is_saved_printed_parsed_and_explained(tmp_path: Path) -> None:
    x, m = inputs(x="f32[n]", m="bool[n]")
    kept = x[m]
    ops.require(kept.shape[0] <= 3, ODD)
    ops.require(x.shape[0] <= 10, "not many")
    f = anyshape.function([x, m], kept + 1.0)
    exe = anyshape.compile(f)
    for text in (f" <= 3  # require: {ODD}\n", "  n <= 10  # require: not many\n"):
        assert text in explanation(exe)
    assert "required" not in explanation(
        anyshape.compile(anyshape.function(inputs(z="f32[n]"), [anyshape.constant(1.0)]))
    )
    exe.save(tmp_path / "kept.any")
    for again in (anyshape.load(tmp_path / "kept.any"), anyshape.compile(parse(str(f)))):
        np.testing.assert_array_equal(again(A, mask(1, 0, 0, 0, 0, 1)), [1, 6])
        with pytest.raises(ShapeError, match=re.escape(ODD)):
            again(A, mask(1, 1, 1, 1, 0, 0))
        with pytest.raises(ShapeError, match="not many"):
            again(np.zeros(11, np.float32), np.zeros(11, bool))


def test_what_is_implied_is_not_checked_and_leaves_nothing() -> None:
    x, m = inputs(x="f32[n]", m="bool[n]")
    kept = x[m]
    ops.require(kept.shape[0] <= 3, "few")
    ops.require(kept.shape[0] <= 5, "not many")
    ops.require(x.shape[0] >= 1, "some")
    ops.require(x.shape[0] + 1 >= 2, "some again")
    f = optimise(anyshape.function([x, m], kept + 1.0))
    required = [c for c in (*f.checks, *(c for n in f.nodes for c in n.checks)) if c.op == "require"]
    assert sorted(c.message for c in required) == ["few", "some"]
    exact = optimise(f.specialize(n=3))
    assert not any(n.checks for n in exact.nodes) and not any(n.op.name in ("require", "after") for n in exact.nodes)


def test_a_function_without_a_result_to_put_it_before_is_refused() -> None:
    (x,) = inputs(x="f32[...]")
    y, m = inputs(y="f32[n]", m="bool[n]")
    kept = y[m]
    ops.require(kept.shape[0] <= 3, "few")
    with pytest.raises(UnsupportedError, match="known rank"):
        anyshape.function([x, y, m], ops.exp(x))
