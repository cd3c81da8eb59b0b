"""What kernels refuse in data is told in full, and alike however a model runs: op, source, equation, the index or the elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import Function, control, ops
from anyshape.errors import ShapeError

F32, I32 = np.float32, np.int32
WAYS: dict[str, dict[str, Any]] = {
    "native": {},
    "two threads": {"threads": 2},
    "python": {"loop": "python"},
    "interpreted": {"kernels": "interpret"},
    "unfused": {"fuse": False},
}


def message_of(f: Function, arrays: Sequence[Any], **options: Any) -> str:
    run = anyshape.compile(f, **options)
    messages = set()
    for _ in range(2):  # what one call told is gone before the next
        with pytest.raises(ShapeError) as e:
            run(*arrays)
        messages.add(re.sub(r"specs/\w+\.yaml:\d+", "SPEC", str(e.value)))
    (message,) = messages
    return message


def rows(indices: np.ndarray[Any, Any]) -> tuple[Function, list[Any]]:
    x, i = anyshape.input("x", "f32[n, m]"), anyshape.input("i", "i32[k, 2]")
    y = ops.exp(ops.gather(x, ops.add(i, np.int32(0)), source="node7"), source="node8")
    return anyshape.function([x, i], [y]), [np.ones((3, 40), F32), indices]


def elements() -> tuple[Function, list[Any]]:
    x, i = anyshape.input("x", "f32[n]"), anyshape.input("i", "i64[k]")
    index = np.zeros(1000, np.int64)
    index[[700, 901]] = 9, -6
    return anyshape.function([x, i], [ops.gather(x, i, source="node7")]), [np.ones(5, F32), index]


def scattered() -> tuple[Function, list[Any]]:
    x, i, u = anyshape.input("x", "f32[n, m]"), anyshape.input("i", "i64[k, 1]"), anyshape.input("u", "f32[k, m]")
    index = np.zeros((500, 1), np.int64)
    index[333] = -9
    f = anyshape.function([x, i, u], [ops.scatter_nd(x, i, u, reduction="add", source="node2")])
    return f, [np.ones((3, 40), F32), index, np.ones((500, 40), F32)]


def asked() -> tuple[Function, list[Any]]:
    x = anyshape.input("x", "f32[n, 3]")
    shares = np.full((50, 3), 0.5, F32)
    shares[41, 1] = 1.1
    return anyshape.function([x], [ops.couple_pairs(x, classes=3, source="node1")]), [shares]


def one_number() -> tuple[Function, list[Any]]:
    boxes, scores = anyshape.input("boxes", "f32[1, n, 4]"), anyshape.input("scores", "f32[1, 1, n]")
    least = anyshape.input("least", "f32[]")
    f = anyshape.function([boxes, scores, least], [ops.non_max_suppression(boxes, scores, least, source="nms")])
    return f, [np.ones((1, 3, 4), F32), np.ones((1, 1, 3), F32), np.array(1.5, F32)]


def in_a_function() -> tuple[Function, list[Any]]:
    x, i = anyshape.input("x", "f32[n, m]"), anyshape.input("i", "i32[k]")
    callee = anyshape.function([x, i], [ops.gather(x, i, source="node7")], name="rows")
    a, b = anyshape.input("a", "f32[n, m]"), anyshape.input("b", "i32[k]")
    return anyshape.function([a, b], list(control.call(callee, [a, b]))), [np.ones((3, 4), F32), np.array([0, 3], I32)]


GATHER = "SPEC: y[*a, *b, *c] = x[*a, wrap(index[*b], n), *c]"
CASES: dict[str, tuple[Callable[[], tuple[Function, list[Any]]], str]] = {
    "elements": (
        elements,
        f"gather (node7): index 9 is out of range for axis 0 of x with size 5 ({GATHER}: index[700] = 9)",
    ),
    "scattered": (
        scattered,
        "scatter_nd (node2): index -9 is out of range for axis 0 of y with size 3 "
        "(SPEC: y[*wrap([index[*a, l] for l in q], n), *c] += updates[*a, *c]: index[333, 0] = -9)",
    ),
    "asked": (
        asked,
        "static.couple_pairs (node1): a share is not within 0..1 "
        "(SPEC: all(0 <= shares[t, e] <= 1 for t in n for e in p) does not hold: shares[41, 1] = 1.1)",
    ),
    "one number": (
        one_number,
        "static.non_max_suppression (nms): iou_threshold is not within 0..1 "
        "(SPEC: 0 <= iou_threshold[*fill(len(s), 0)] <= 1 does not hold: iou_threshold = 1.5)",
    ),
    "in a function": (
        in_a_function,
        f"gather (node7): index 3 is out of range for axis 0 of x with size 3 ({GATHER}: index[1] = 3)",
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_what_data_is_refused_for_is_reported(case: str, way: str) -> None:
    make, expected = CASES[case]
    assert message_of(*make(), **WAYS[way]) == expected


@pytest.mark.parametrize("way", WAYS)
def test_of_several_ops_in_a_kernel_the_one_that_refuses_is_reported(way: str) -> None:
    """The message has what the index was computed from, or the index where another kernel computed that."""
    message = message_of(*rows(np.array([[0, 1], [2, -4]], I32)), **WAYS[way])
    head = f"gather (node7): index -4 is out of range for axis 0 of x with size 3 ({GATHER}: "
    assert message in (f"{head}b = 0, a[1, 1] = -4)", f"{head}index[1, 1] = -4)")


@pytest.mark.parametrize("wrong", [0, 700, None])
def test_what_holds_of_constants_is_not_asked_again(wrong: int | None) -> None:
    """Asserts on constants are evaluated while compiling, those on operands in calls; and a call refuses a constant of which one does not
    hold."""
    m = 1000
    modes, zeros, weights = np.full(m, 7), np.zeros(m, np.int64), np.ones(m, F32)
    if wrong is not None:
        modes[wrong] = 9
    x, operand = anyshape.input("x", "f32[n, 4]"), anyshape.input("modes", f"i64[{m}]")

    def leaves(mode: Any) -> Any:
        tables = (zeros, zeros, zeros, zeros[:1], np.arange(m + 1), zeros, weights, np.zeros(0, F32))
        return ops.tree_walks(x, zeros, weights, mode, *map(anyshape.constant, tables))

    known = anyshape.compile(anyshape.function([x], [leaves(anyshape.constant(modes))]), kernels="native")
    any_modes = anyshape.compile(anyshape.function([x, operand], [leaves(operand)]), kernels="native")
    assert known.disassemble().count("tree_walks(") == (1 if wrong is None else 2)
    assert any_modes.disassemble().count("tree_walks(") == 2
    for run, arrays in ((known, []), (any_modes, [modes])):
        if wrong is None:
            np.testing.assert_array_equal(run(np.ones((2, 4), F32), *arrays), np.ones((2, 1), F32))
        else:
            with pytest.raises(ShapeError, match=rf"a mode is not within .*mode\[{wrong}\] = 9"):
                run(np.ones((2, 4), F32), *arrays)
