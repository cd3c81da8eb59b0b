"""The first positions of an order: selected where they are few, sorted where they are not, and the same positions either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import parse_dtype
from anyshape.equations.orders import first_of_orders
from anyshape.graph.infer import equations_of, flat, tensors_of
from anyshape.lower import Group, host_target, lower_group

STYLES = ("random", "ties", "rising", "falling", "last", "NaN")
AVX2 = host_target().limited("avx2")


def contents(style: str, rows: int, n: int, dtype: str) -> Any:
    numbers = np.random.RandomState(n + rows)
    values = {
        "random": lambda: numbers.randint(-100, 100, (rows, n)) + numbers.rand(rows, n),
        "ties": lambda: numbers.randint(0, 3, (rows, n)),
        "rising": lambda: np.broadcast_to(np.arange(n) % 120, (rows, n)),
        "falling": lambda: np.broadcast_to(-np.arange(n) % 120, (rows, n)),
        "last": lambda: np.full((rows, n), np.nan if dtype.startswith("f") else np.iinfo(parse_dtype(dtype).numpy).max),
        "NaN": lambda: np.where(numbers.rand(rows, n) < 0.5, np.nan, numbers.randn(rows, n)),
    }[style]()
    return np.asarray(values).astype(parse_dtype(dtype).numpy)


def first(x: Any, k: int, largest: bool) -> Any:
    """The positions by numpy: NaN as the greatest, equal ones in their own order."""
    ranks = (
        np.unique(np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x, return_inverse=True)[1].reshape(
            x.shape
        )
        * 2
    )
    ranks = ranks + (np.isnan(x) if x.dtype.kind == "f" else 0)
    return np.argsort(-ranks if largest else ranks, axis=-1, kind="stable")[:, :k]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u8", "f16"])
def test_the_first_of_rows_of_any_length(dtype: str, largest: bool) -> None:
    x = anyshape.input("x", f"{dtype}[rows, n]")
    k = anyshape.input("k", "i64[]")
    exe = anyshape.compile(anyshape.function([x, k], list(ops.topk(x, k, largest=largest))))
    for style in STYLES if dtype.startswith("f") else STYLES[:-1]:
        for rows, n, count in (
            (3, 4, 1),
            (2, 45, 1),
            (2, 17, 4),
            (1, 70, 9),
            (2, 300, 17),
            (1, 1100, 256),
            (1, 1100, 257),
            (2, 40, 0),
            (2, 9, 9),
        ):
            array = contents(style, rows, n, dtype)
            values, indices = exe(array, np.int64(count))
            np.testing.assert_array_equal(indices, first(array, count, largest), f"{style} {n} {count}")
            np.testing.assert_array_equal(values, np.take_along_axis(array, indices, 1))


def test_an_axis_that_is_not_the_last() -> None:
    x = anyshape.input("x", "f32[n, m]")
    exe = anyshape.compile(anyshape.function([x], list(ops.topk(x, 3, axis=0))))
    array = contents("random", 50, 7, "f32")
    np.testing.assert_array_equal(exe(array)[1], first(array.T.copy(), 3, True).T)


def test_orders_that_are_read_whole_stay_whole() -> None:
    for value, short in (
        (ops.topk(anyshape.input("x", "f32[9]"), 2)[1], True),
        (ops.topk(anyshape.input("x", "f32[9]"), 9)[1], False),
    ):
        ins, outs = tensors_of(value.node)
        stated = equations_of(value.node, ins, outs).equations
        orders = [q for q in first_of_orders(stated, flat(outs)) if q.form is not None]
        assert (orders[0].target.shape == (2,)) is short and stated[0].target.shape == (9,)
        assert first_of_orders(stated, [q.target for q in stated]) == list(stated)


@pytest.mark.skipif(AVX2.vector_bytes != 32, reason="a processor with AVX2")
@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_one_position_is_selected_by_words_of_the_key(dtype: str) -> None:
    """Keys of up to 32 bits and their places are words of 32."""
    node = ops.topk(anyshape.input("x", f"{dtype}[n, 256]"), 1)[1].node
    ins, outs = tensors_of(node)
    stated = first_of_orders(equations_of(node, ins, outs).equations, flat(outs))
    order = next(q for q in stated if q.form is not None)
    text = lower_group(Group("order", (order,), tuple(flat(ins)), outputs=(order.target,)), AVX2).text
    assert ("@llvm.vector.reduce.umin.v8i32" in text) == (dtype == "f32")
