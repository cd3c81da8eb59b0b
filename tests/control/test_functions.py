"""Functions that are called: recursion, functions as values, lists in and out, checks of what was declared, how deep, memory, text."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.errors import ArgumentError, DtypeError, ParseError, ShapeError, UnsupportedError
from anyshape.graph.verify import verify
from tests.in_threads import in_threads
from tests.resident import LINUX, added

X = np.arange(5, dtype=np.float32)


def fibonacci() -> anyshape.Function:
    fib = control.function("fib", {"n": "i64[]"}, ["i64[]"])

    def body(n: Any) -> Any:
        return control.if_(
            ops.less(n, 2),
            lambda: n,
            lambda: ops.add(*(control.call(fib, [ops.sub(n, k)])[0] for k in (1, 2))),
        )

    control.define(fib, body)
    n = anyshape.input("n", "i64[]")
    return anyshape.function([n], control.call(fib, {"n": n}))


def grows() -> anyshape.Function:
    """A vector that is longer by one in each frame: its size is new in each call."""
    grow = control.function("grow", {"x": "f32[n]", "k": "i64[]"}, ["f32[m]"])

    def body(x: Any, k: Any) -> Any:
        longer = ops.concat([x, ops.slice(ops.add(x, 1.0), [-1], [2**31])], axis=0)
        return control.if_(ops.greater(k, 0), lambda: control.call(grow, [longer, ops.sub(k, 1)])[0], lambda: x)

    control.define(grow, body)
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    return anyshape.function([x, k], control.call(grow, [x, k]))


def test_recursion(options: dict[str, Any]) -> None:
    f = fibonacci()
    verify(f)
    exe = anyshape.compile(f, **options)
    assert [int(exe(np.array(n))) for n in range(12)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


def test_sizes_that_are_new_in_each_call(options: dict[str, Any]) -> None:
    exe = anyshape.compile(grows(), **options)
    for n, k in ((1, 0), (3, 4), (2, 40)):
        got = exe(X[:n], np.array(k))
        np.testing.assert_array_equal(got, np.concatenate([X[:n], X[n - 1] + 1 + np.arange(k, dtype=np.float32)]))


def test_calls_that_are_nested_too_deeply_are_an_error(options: dict[str, Any]) -> None:
    """Calls nested too deeply are refused in a thread with little stack too; afterwards all is as before."""
    exe = anyshape.compile(grows(), **options)
    with pytest.raises(UnsupportedError, match="grow: calls are nested more than 1000 deep"):
        exe(X, np.array(2000))
    assert exe(X, np.array(998)).shape == (1003,)
    messages: list[str] = []

    def work() -> None:
        try:
            exe(X, np.array(2000))
        except UnsupportedError as e:
            messages.append(str(e))

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert messages


def test_functions_that_call_each_other(options: dict[str, Any]) -> None:
    even, odd = (control.function(name, {"n": "i64[]"}, ["bool[]"]) for name in ("even", "odd"))
    for f, other, at_zero in ((even, odd, True), (odd, even, False)):
        control.define(
            f,
            lambda n, o=other, z=at_zero: control.if_(
                ops.equal(n, 0), lambda: np.array(z), lambda: control.call(o, [ops.sub(n, 1)])[0]
            ),
        )
    n = anyshape.input("n", "i64[]")
    exe = anyshape.compile(anyshape.function([n], control.call(even, [n])), **options)
    assert [bool(exe(np.array(k))) for k in range(6)] == [True, False] * 3


def two_functions() -> list[Any]:
    functions = []
    for name, body in (("double", lambda x: ops.mul(x, 2.0)), ("first", lambda x: ops.add(x, ops.slice(x, [0], [1])))):
        functions.append(control.define(control.function(name, {"x": "f32[n]"}, ["f32[n]"]), body))
    return functions


def test_a_function_is_chosen_at_run_time(options: dict[str, Any]) -> None:
    """A function is chosen in a branch, and anew in each iteration of a loop that carries it."""
    double, first = two_functions()
    x, c, k = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]"), anyshape.input("k", "i64[]")
    (chosen,) = control.if_(c, lambda: control.reference(double), lambda: control.reference(first))
    assert str(chosen.type) == "function[f32[n] -> f32[n]]"

    def iteration(i: Any, v: Any, f: Any, g: Any) -> list[Any]:
        return [control.call(f, [v])[0], g, f]

    y, *_ = control.loop(k, iteration, [x, chosen, control.reference(double)])
    f = anyshape.function([x, c, k], [control.call(chosen, [x])[0], y])
    verify(f)
    exe = anyshape.compile(f, **options)
    both = (lambda v: v * 2, lambda v: v + v[:1])
    for flag in (True, False):
        for iterations in (0, 1, 4):
            now, after = (both[0] if flag else both[1]), both[0]
            want = X + 1
            for _ in range(iterations):
                want = now(want)
                now, after = after, now
            one, other = exe(X + 1, np.array(flag), np.array(iterations))
            np.testing.assert_array_equal(one, (both[0] if flag else both[1])(X + 1))
            np.testing.assert_array_equal(other, want)


def test_a_function_takes_a_function(options: dict[str, Any]) -> None:
    double, first = two_functions()
    twice = control.function("twice", {"f": "function[f32[n] -> f32[n]]", "x": "f32[n]"}, ["f32[n]"])
    control.define(twice, lambda f, x: control.call(f, control.call(f, [x])))
    x = anyshape.input("x", "f32[n]")
    results = [control.call(twice, [control.reference(f), x])[0] for f in (double, first)]
    a, b = anyshape.compile(anyshape.function([x], results), **options)(X + 1)
    np.testing.assert_array_equal(a, (X + 1) * 4)
    np.testing.assert_array_equal(b, X + 4)


def test_lists_go_in_and_come_out(options: dict[str, Any]) -> None:
    """A tree of calls that splits a list in two halves, and joins what comes back in the other order."""
    transposed = control.function("turned", {"xs": "list[f32[?]]"}, ["list[f32[?]]", "i64[]"])

    def body(xs: Any) -> Any:
        def both() -> list[Any]:
            first, rest = lists.at(xs, 0), lists.erase(xs, 0)
            back, count = control.call(transposed, [rest])
            return [lists.append(back, first), ops.add(count, 1)]

        return control.if_(ops.equal(lists.length(xs), 0), lambda: [xs, np.array(0)], both)

    control.define(transposed, body)
    xs = anyshape.input("xs", "list[f32[?]]")
    exe = anyshape.compile(anyshape.function([xs], [*control.call(transposed, [xs]), xs]), **options)
    arrays = [X[:k] for k in (3, 1, 4, 2)]
    back, count, same = exe(arrays)
    assert count == 4 and [len(a) for a in back] == [2, 4, 1, 3] and [len(a) for a in same] == [3, 1, 4, 2]


def test_what_was_declared_is_checked(options: dict[str, Any]) -> None:
    half = control.function("half", {"x": "f32[n, 4]"}, ["f32[n]"])
    control.define(half, lambda x: ops.gather(x, 0, axis=1))
    x = anyshape.input("x", "f32[n, m]")
    exe = anyshape.compile(anyshape.function([x], control.call(half, [x])), **options)
    assert exe(np.ones((3, 4), np.float32)).shape == (3,)
    with pytest.raises(ShapeError, match="half: argument x: dim 1 must be 4, got 5"):
        exe(np.ones((3, 5), np.float32))
    wrong = control.function("wrong", {"x": "f32[n]", "k": "i64[]"}, ["f32[n]"])
    control.define(wrong, lambda x, k: ops.slice(x, ops.static.reshape(k, newshape=(1,)), [2**31]))
    y, k = anyshape.input("y", "f32[n]"), anyshape.input("k", "i64[]")
    exe = anyshape.compile(anyshape.function([y, k], control.call(wrong, [y, k])), **options)
    assert exe(X, np.array(0)).shape == (5,)
    with pytest.raises(ShapeError, match="wrong: result 0"):
        exe(X, np.array(1))


def test_errors_when_building() -> None:
    f = control.function("f", {"x": "f32[n, n]"}, ["f32[n]"])
    x, k = anyshape.input("x", "f32[3, 4]"), anyshape.input("k", "i64[]")
    with pytest.raises(ShapeError, match=r"f: argument 0 must be f32\[n, n\], got f32\[3, 4\]: dim 1 is not n"):
        control.call(f, [x])
    with pytest.raises(DtypeError, match=r"f: argument 0 must be f32\[n, n\], got i64"):
        control.call(f, [k])
    with pytest.raises(ArgumentError, match="f takes 1 argument, got 2"):
        control.call(f, [x, x])
    with pytest.raises(ArgumentError, match="expected x, got y"):
        control.call(f, {"y": x})
    with pytest.raises(DtypeError, match="what is called must be a function, got i64"):
        control.call(k, [x])
    y = anyshape.input("y", "f32[n, n]")
    with pytest.raises(ArgumentError, match="the function f is called, but not defined"):
        anyshape.compile(anyshape.function([y], control.call(f, [y])))
    with pytest.raises(DtypeError, match=r"f: result 0 must be f32\[n\], got i64"):
        control.define(f, lambda x: ops.shape_of(x))
    with pytest.raises(ShapeError, match=r"f: result 0 must be f32\[n\], got f32\[n, n\]"):
        control.define(f, lambda x: x)
    with pytest.raises(ArgumentError, match="has 1 result, but its body returns 2"):
        control.define(f, lambda x: [x, x])
    control.define(f, lambda x: ops.gather(x, 0))
    with pytest.raises(ArgumentError, match="is defined already"):
        control.define(f, lambda x: ops.gather(x, 0))
    g = control.define(control.function("g", {"x": "f32[n]"}, ["f32[n]"]), lambda x: x)
    with pytest.raises(
        DtypeError, match=r"if: result 0 is function.* in the branch then and function.* in the branch otherwise"
    ):
        control.if_(anyshape.input("c", "bool[]"), lambda: control.reference(f), lambda: control.reference(g))
    with pytest.raises(UnsupportedError, match="ranks of its parameters and results must be known"):
        control.function("h", {"x": "f32[...]"}, ["f32[n]"])
    with pytest.raises(ArgumentError, match="no dim of a parameter defines n"):
        control.function("h", {"x": "f32[n*n]"}, ["f32[n]"])
    with pytest.raises(ArgumentError, match="must follow from dims of the parameters, or be a name"):
        control.function("h", {"x": "f32[n]"}, ["f32[m + n]"])
    with pytest.raises(ParseError):
        control.function("h", {"x": "f33[n]"}, ["f32[n]"])


def test_an_error_inside_is_reported_and_leaves_nothing(options: dict[str, Any]) -> None:
    f = control.function("down", {"xs": "list[f32[?]]", "k": "i64[]"}, ["f32[m]"])
    control.define(
        f,
        lambda xs, k: control.if_(
            ops.greater(k, 0),
            lambda: control.call(f, [lists.append(xs, lists.at(xs, 0)), ops.sub(k, 1)])[0],
            lambda: lists.at(xs, 99),
        ),
    )
    xs, k = anyshape.input("xs", "list[f32[?]]"), anyshape.input("k", "i64[]")
    exe = anyshape.compile(anyshape.function([xs, k], control.call(f, [xs, k])), **options)
    for _ in range(2):
        with pytest.raises(ShapeError, match="list_at: position 99 is outside of a list of 6"):
            exe([X], np.array(5))
        assert exe([X], np.array(99)).shape == (5,)


def test_memory_of_frames_is_used_again() -> None:
    exe = anyshape.compile(grows())
    exe(X, np.array(50))
    held = exe.memory
    exe(X, np.array(50))
    assert exe.memory == held


@pytest.mark.skipif(not LINUX, reason="tells resident memory by Linux's own file")
def test_calls_of_frames_keep_no_memory() -> None:
    before = """
import numpy as np, anyshape
from tests.control.test_functions import X, grows
exe = anyshape.compile(grows())
for _ in range(20): exe(X, np.array(50))
"""
    assert added(before, "for _ in range(3000): exe(X, np.array(50))") < 1 << 20  # all frames would be 16 MB


def test_many_threads() -> None:
    exe = anyshape.compile(fibonacci())
    results: list[int] = []
    in_threads(lambda _: results.extend(int(exe(np.array(15))) for _ in range(20)), range(6))
    assert results == [610] * 120


def test_text_and_back() -> None:
    for f in (fibonacci(), grows()):
        text = str(f)
        assert str(anyshape.parse(text)) == text
        verify(anyshape.parse(text))


def test_saved_and_loaded(tmp_path: Path) -> None:
    exe = anyshape.compile(fibonacci())
    exe.save(tmp_path / "m")
    again = anyshape.load(tmp_path / "m")
    assert not again.report.rebuilt and again(np.array(10)) == 55
    assert str(again.function) == str(exe.function)
