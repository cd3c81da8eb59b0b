"""Tuples: inputs, results, what branches give and loops carry, parameters and results of functions; nested; wrong forms are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.errors import ArgumentError, ParseError, ShapeError

X, Y = np.arange(3, dtype=np.float32), np.ones((2, 3), np.float32)


def stepped() -> anyshape.Function:
    """A state of a vector and (a matrix that grows, a list), carried through a loop and a branch."""
    state, k = anyshape.input("state", "(f32[n], (f32[m, n], list[f32[?]]))"), anyshape.input("k", "i64[]")

    def iteration(i: Any, s: Any) -> list[Any]:
        v, (rows, seen) = s
        after = (
            ops.add(v, 1.0),
            (ops.concat([rows, ops.static.expand_dims(v, axes=(0,))], axis=0), lists.append(seen, v)),
        )
        return list(control.if_(ops.equal(ops.mod(i, 2), 0), lambda: (after,), lambda: (s,)))

    (last,) = control.loop(k, iteration, [state])
    return anyshape.function([state, k], {"last": last, "iterations": k})


def check(exe: anyshape.Executable) -> None:
    seen = [X[:1]]
    (v, (rows, kept)), iterations = exe((X, (Y, seen)), np.array(3))
    np.testing.assert_array_equal(v, X + 2)
    np.testing.assert_array_equal(rows, np.concatenate([Y, [X], [X + 1]]))
    assert [a.tolist() for a in kept] == [X[:1].tolist(), X.tolist(), (X + 1).tolist()] and iterations == 3
    for again in (exe(state=(X, (Y, seen)), k=np.array(3)), exe(X, Y, seen, np.array(3))):
        np.testing.assert_array_equal(again[0][1][0], rows)


def test_in_and_out(options: dict[str, Any]) -> None:
    exe = anyshape.compile(stepped(), **options)
    assert exe.input_names == ("state.0", "state.1.0", "state.1.1", "k")
    assert exe.output_names == ("last.0", "last.1.0", "last.1.1", "iterations")
    check(exe)


def test_text_and_saved(tmp_path: Path) -> None:
    f = stepped()
    assert str(anyshape.parse(str(f))) == str(f)
    anyshape.compile(f).save(tmp_path / "m")
    check(anyshape.load(tmp_path / "m"))


def test_functions_take_and_give_tuples(options: dict[str, Any]) -> None:
    f = control.function("f", {"p": "(f32[n], i64[])"}, ["(f32[n], (i64[],))", "f32[n]"])

    def body(p: Any) -> Any:
        v, k = p
        return control.if_(
            ops.greater(k, 0),
            lambda: control.call(f, [(ops.mul(v, 2.0), ops.sub(k, 1))]),
            lambda: [(v, (k,)), v],
        )

    control.define(f, body)
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    exe = anyshape.compile(anyshape.function([x, k], control.call(f, {"p": (x, k)})), **options)
    (v, (left,)), again = exe(X, np.array(3))
    np.testing.assert_array_equal(v, X * 8)
    np.testing.assert_array_equal(again, X * 8)
    assert left == 0


def test_scan_carries_tuples() -> None:
    xs = anyshape.input("xs", "f32[n, 3]")
    start = (np.zeros(3, np.float32), np.float32(0))
    (total, count), rows = control.scan(
        lambda s, row: [(ops.add(s[0], row), ops.add(s[1], 1.0)), row], [start], [xs], collects=1
    )
    got = anyshape.compile(anyshape.function([xs], [(total, count), rows]))(Y)
    np.testing.assert_array_equal(got[0][0], Y.sum(0))
    assert got[0][1] == 2 and got[1].shape == (2, 3)


def test_wrong_forms_are_reported() -> None:
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")
    with pytest.raises(ShapeError, match=r"the branch then has \(\(\*, \*\),\), and the branch otherwise \(\*, \*\)"):
        control.if_(c, lambda: ((x, x),), lambda: (x, x))
    with pytest.raises(ArgumentError, match=r"it carries \(\(\*, \*\),\), and \(\*,\) after an iteration"):
        control.loop(3, lambda i, s: [s[0]], [(x, x)])
    f = control.function("f", {"x": "f32[n]"}, ["(f32[n], f32[n])"])
    with pytest.raises(ArgumentError, match=r"returns \(\(\*, \*\),\); its body returns \(\*,\)"):
        control.define(f, lambda x: x)
    with pytest.raises(ParseError, match="a tuple is written"):
        anyshape.input("s", "(f32[n], i64[]")
    state = anyshape.input("s", "(f32[n], i64[])")
    exe = anyshape.compile(anyshape.function([state], list(state)))
    with pytest.raises(ArgumentError, match="missing"):
        exe((X,))
