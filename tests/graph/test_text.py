"""The text form: what it prints, that it reads back, and what a broken text is told."""

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ParseError, ShapeError


def reshaped():
    x, s = anyshape.input("x", "f32[n, 224]"), anyshape.input("s", "i64[2]")
    return anyshape.function([x, s], {"y": ops.static.reshape(ops.dyn.reshape(x, s), newshape=(-1, 7), allowzero=True)})


def test_prints_what_a_person_would_write():
    x, y = anyshape.input("x", "f32[n, 224]"), anyshape.input("y", "f32[224]")
    f = anyshape.function([x, y], ops.softmax(ops.mul(ops.add(x, y), 2.0), axis=-1))
    assert str(f) == (
        "function main(%x: f32[n, 224], %y: f32[224]) {\n"
        "  const %c0: f32[] = 2.0\n"
        "  %0: f32[n, 224] = add(%x, %y)\n"
        "  %1: f32[n, 224] = mul(%0, %c0)\n"
        "  %2: f32[n, 224] = softmax(%1, axis=-1)\n"
        "  return output0=%2\n"
        "}"
    )


@pytest.mark.parametrize(
    "make",
    [
        reshaped,
        lambda: anyshape.function([x := anyshape.input("x", "f32[?, ?]")], ops.add(x, x)),
        lambda: anyshape.function([x := anyshape.input("x", "f32[...]")], ops.relu(x)),
        lambda: anyshape.function([x := anyshape.input("x", "f32[2*n + 1, min(n, 4)]")], ops.sum(x, (0,))),
        lambda: anyshape.function([x := anyshape.input("x", "i64[n]")], ops.cast(x, to="f64")),
        lambda: anyshape.function([x := anyshape.input("x", "f32[n, 6]")], list(ops.split(x, axis=1, sizes=(2, 4)))),
        lambda: anyshape.function([x := anyshape.input("x", "f32[...]")], list(ops.split(x, parts=3, outputs=3))),
        lambda: anyshape.function([x := anyshape.input("x", "bool[n]")], ops.where(x, 1.5, -np.inf)),
    ],
)
def test_reads_back_what_it_prints(make):
    f = make()
    again = anyshape.parse(str(f))
    assert str(again) == str(f)


def test_large_constants_are_given_beside_the_text():
    x, w = anyshape.input("x", "f32[n, 20]"), np.ones((20, 3), np.float32)
    f = anyshape.function([x], ops.matmul(x, anyshape.constant(w, "w")))
    assert "const %w: f32[20, 3] = @w" in str(f)
    again = anyshape.parse(str(f), {"w": w})
    assert str(again) == str(f)
    with pytest.raises(ParseError, match="no constant is given for @w"):
        anyshape.parse(str(f))


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("%0: f32[n] = relu(%z)", ParseError, "line 2: %z is not defined above"),
        ("%0: f32[n] = relu(%x, axis=3)", ParseError, "relu has no attribute axis"),
        ("%0: f32[n, 2] = relu(%x)", ParseError, r"the result is f32\[n\], and the text says f32\[n, 2\]"),
        ("nonsense", ParseError, "neither a header"),
        ("%0: f32[n] = softmax(%x, axis=4)", ShapeError, "axis 4 is out of range for x of rank 1"),
    ],
)
def test_a_broken_text_is_reported_by_its_line(line, error, message):
    with pytest.raises(error, match=message):
        anyshape.parse(f"function main(%x: f32[n]) {{\n  {line}\n  return y=%0\n}}")


def test_of_an_unknown_op_near_names_are_reported():
    with pytest.raises(anyshape.errors.UnsupportedError, match=r"there is no op softmx; did you mean softmax"):
        anyshape.parse("function main(%x: f32[n]) {\n  %0: f32[n] = softmx(%x)\n  return y=%0\n}")
