"""`match_shape` and `specialize`: what a program says of shapes in its middle binds, is checked once, and is known from there on."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError, DtypeError, ParseError, ShapeError
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.passes import optimise


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def checks_of(f: Function) -> list[str]:
    """Every check that a call makes: at entry, and in nodes."""
    done = optimise(f)
    return [str(c.cond) for c in (*done.checks, *(c for n in done.nodes for c in n.checks))]


def test_a_number_is_checked_and_known() -> None:
    x = anyshape.input("x", "f32[?, ?]")
    y = ops.match_shape(x, "f32[?, 10]")
    assert y.type.shape is not None and y.type.shape[1] == 10
    run = anyshape.compile(anyshape.function([x], ops.exp(y)))
    assert run(ones(3, 10)).shape == (3, 10)
    with pytest.raises(ShapeError, match=r"ensure_shape.*expected \[-1, 10\], got \[3, 7\].*x\.shape\[1\] = 7"):
        run(ones(3, 7))


def test_a_name_is_one_size_in_the_whole_function() -> None:
    x, y = anyshape.input("x", "f32[?, ?]"), anyshape.input("y", "f32[?]")
    rows = ops.match_shape(ops.exp(x), "f32[n, 10]")
    f = anyshape.function([x, y], ops.add(ops.sum(rows, axes=(1,)), ops.match_shape(y, "f32[n]")))
    assert len(f.results[0].type.symbols()) == 1  # no open broadcast is left
    run = anyshape.compile(f)
    assert run(ones(3, 10), ones(3)).shape == (3,)
    with pytest.raises(ShapeError, match=r"n == y\.shape\[0\] does not hold: n = 3, y\.shape\[0\] = 1"):
        run(ones(3, 10), ones(1))  # would broadcast, had nothing been said


def test_a_name_of_an_input_is_that_size() -> None:
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[?]")
    f = anyshape.function([x, y], ops.add(x, ops.match_shape(ops.neg(y), "f32[n]")))
    assert str(f.results[0].type) == "f32[n]"
    with pytest.raises(ShapeError, match="n = 3"):
        anyshape.compile(f)(ones(3), ones(4))


def test_names_of_two_functions_have_nothing_to_do_with_each_other() -> None:
    def pairs(a: Value) -> Value:
        return ops.match_shape(a, "f32[n, n]")

    x, y = anyshape.input("x", "f32[?, ?]"), anyshape.input("y", "f32[?, ?]")
    for p, size in ((x, 3), (y, 5)):
        assert anyshape.compile(anyshape.function([p], ops.exp(pairs(p))))(ones(size, size)).shape == (size, size)


def test_assumed_once_however_often_it_is_used() -> None:
    """A function that wants (10, 10), called three times with (?, ?): two equations, each checked once, at the entry."""

    def wants_ten(a: Value, b: Value) -> Value:
        return ops.matmul(ops.match_shape(a, "f32[10, 10]"), ops.match_shape(b, "f32[10, 10]"))

    x = anyshape.input("x", "f32[?, ?]")
    f = anyshape.function([x], wants_ten(wants_ten(x, x), x))
    assert len(checks_of(f)) == 1  # one conjunction over both dims
    assert str(optimise(f).results[0].type) == "f32[10, 10]"
    run = anyshape.compile(f)
    assert sum("check" in line for line in run.disassemble().splitlines()) == 1
    np.testing.assert_allclose(run(ones(10, 10)), np.full((10, 10), 100.0))
    with pytest.raises(ShapeError, match="expected"):
        run(ones(10, 9))


def test_what_is_known_needs_no_check() -> None:
    x = anyshape.input("x", "f32[4, n]")
    f = anyshape.function([x], ops.exp(ops.match_shape(ops.neg(x), "f32[4, n]")))
    assert checks_of(f) == []
    assert not [n for n in optimise(f).nodes if n.op.name == "ensure_shape"]  # nothing stands between the two maps


def test_equal_demands_are_checked_once_and_weaker_ones_not_at_all() -> None:
    x, y, z = (anyshape.input(n, "f32[?]") for n in "xyz")
    xy, yz = ops.match_shape(ops.add(x, x), "f32[n]"), ops.match_shape(y, "f32[n]")
    zz = ops.match_shape(z, "f32[n]")
    f = anyshape.function([x, y, z], ops.add(ops.add(xy, yz), ops.add(zz, ops.add(y, z))))
    assert len(checks_of(f)) == 2  # x == y and y == z; x == z follows, and every broadcast is decided


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("f32[4, ?, ?]", ShapeError),
        ("f32[?, 5]", ShapeError),
        ("i64[?, ?]", DtypeError),
        ("f32[n // 2, ?]", ParseError),
    ],
)
def test_what_cannot_be_is_refused_while_building(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        ops.match_shape(anyshape.input("x", "f32[n, 4]"), text)


def test_sizes_that_only_a_run_knows() -> None:
    x = anyshape.input("x", "f32[n]")
    picked = ops.match_shape(ops.nonzero(x), "i64[1, 3]")
    run = anyshape.compile(anyshape.function([x], ops.add(picked, 1)))
    assert run(np.array([1, 0, 2, 3], np.float32)).tolist() == [[1, 3, 4]]
    with pytest.raises(ShapeError, match="expected"):
        run(np.array([1, 0, 2], np.float32))


def test_specialize() -> None:
    x, y = anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[m]")
    f = anyshape.function([x, y], ops.reshape(ops.add(x, y), ops.concat([ops.shape_of(x, start=1), [-1]], axis=0)))
    fixed = f.specialize(m=4)
    assert [str(p.type) for p in fixed.params] == ["f32[n, 4]", "f32[4]"]
    assert str(fixed.specialize(n=2).results[0].type) == "f32[4, 2]"
    assert [n.op.full_name for n in optimise(fixed.specialize(n=2)).nodes] == ["add", "static.reshape"]
    with pytest.raises(ArgumentError, match="no input has a dim k; there are n, m"):
        f.specialize(k=1)
    with pytest.raises(ArgumentError, match="n must be a size"):
        f.specialize(n=-1)


def test_a_name_of_an_unknown_dim_can_be_specialised() -> None:
    x, y = anyshape.input("x", "f32[?, ?]"), anyshape.input("y", "f32[?]")
    f = anyshape.function([x, y], ops.matmul(ops.match_shape(ops.exp(x), "f32[n, 10]"), ops.match_shape(y, "f32[10]")))
    assert str(f.params[0].type).startswith("f32[n, ?") and str(f.results[0].type) == "f32[n]"
    assert str(f.specialize(n=128).params[0].type).startswith("f32[128, ?")
    assert str(f.specialize(n=128).results[0].type) == "f32[128]"
    run = anyshape.compile(f, dims={"n": (1, 4)})
    np.testing.assert_allclose(run(ones(4, 10), ones(10)), np.full(4, 10 * np.e), rtol=1e-6)
    with pytest.raises(ShapeError, match=r"dim 0 \(n\) must be at most 4, got 5"):
        run(ones(5, 10), ones(10))


def test_a_name_of_what_only_a_run_knows_cannot_be_specialised() -> None:
    x = anyshape.input("x", "f32[m]")
    f = anyshape.function([x], ops.match_shape(ops.nonzero(x), "i64[1, n]"))
    with pytest.raises(ArgumentError, match="no input has a dim n; there are m"):
        f.specialize(n=3)


def test_dims_bind_and_bound_functions() -> None:
    x, w = anyshape.input("x", "f32[batch, seq]"), anyshape.input("w", "f32[512]")
    f = anyshape.function([x, w], ops.add(x, ops.slice(w, (0,), ops.shape_of(x, start=1), (0,))))
    assert any("seq" in c for c in checks_of(f))
    run = anyshape.compile(f, dims={"seq": (1, 512), "batch": 8})
    checked = [line.split("# ")[1] for line in run.disassemble().splitlines() if "  # " in line]
    assert [c for c in checked if "seq" in c] == [
        "seq at least 1",
        "seq at most 512",
    ]  # nothing else is left to ask of it
    assert run(ones(8, 100), ones(512)).shape == (8, 100)
    with pytest.raises(ShapeError, match=r"input x: dim 1 \(seq\) must be at most 512, got 513"):
        run(ones(8, 513), ones(512))
    with pytest.raises(ShapeError, match="input x: dim 0 must be 8, got 7"):
        run(ones(7, 100), ones(512))


def test_a_size_that_no_dim_can_have_is_refused() -> None:
    x = anyshape.input("x", "f32[n]")
    with pytest.raises(ArgumentError, match="n must be a size or"):
        anyshape.compile(anyshape.function([x], ops.exp(x)), dims={"n": 1 << 63})
