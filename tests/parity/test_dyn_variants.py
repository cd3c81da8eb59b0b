"""Dyn variants fed with values, and dyn-to-static on them: parity with dyn/test_dynamic_op_level*.py and test_pass_dynamic_to_static.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from parity_case import LOOPS, Case, agrees

import anyshape
from anyshape import control, ops
from anyshape.graph.value import Value
from anyshape.passes import dyn_to_static, optimise


def sliced(shape: tuple[int, ...], starts: list[int], ends: list[int], steps: list[int] | None = None) -> Case:
    k = len(starts)
    cut = tuple(slice(b, e if e >= -d else None, s) for b, e, s, d in zip(starts, ends, steps or [1] * k, shape))
    operands = [starts, ends] + ([steps] if steps else [])
    return Case(
        [f"f32[{', '.join(map(str, shape))}]", *[f"i64[{k}]"] * len(operands)],
        lambda x, b, e, *s: ops.dyn.slice(x, b, e, np.arange(k), *s),
        [shape, *operands],
        lambda x, *_: x[cut],
    )


def reshaped(shape: tuple[int, ...], new: list[int], shape_after: tuple[int, ...], op: Any = ops.dyn.reshape) -> Case:
    types = [f"f32[{', '.join(map(str, shape))}]", f"i64[{len(new)}]"]
    return Case(types, op, [shape, new], lambda x, _: x.reshape(shape_after))


def by_all_codes(shape: tuple[int, ...], new: tuple[int, ...], shape_after: tuple[int, ...]) -> Case:
    types = [f"f32[{', '.join('?' for _ in shape)}]"]
    return Case(types, lambda x: ops.reshape_by_all_codes(x, newshape=new), [shape], lambda x: x.reshape(shape_after))


DYN: dict[str, Case] = {
    "reshape": reshaped((2, 3, 4), [8, 3], (8, 3)),
    "reshape to a higher rank": reshaped((4, 7), [2, 7, 2], (2, 7, 2)),
    "reshape copies dims": reshaped((2, 3, 4), [2, 0, 0], (2, 3, 4)),
    "reshape copies one dim": reshaped((2, 3, 4), [4, 0, 2], (4, 3, 2)),
    "reshape with -1": reshaped((2, 3, 4), [0, -1], (2, 12)),
    "reshape with -1 first": reshaped((2, 3, 4), [-1, 0], (8, 3)),
    "reshape with -3": reshaped((2, 3, 4), [-3, 0], (6, 4), ops.dyn.reshape_by_codes),
    "reshape with -3 and -1": reshaped((2, 3, 4, 5), [0, -3, -1], (2, 12, 5), ops.dyn.reshape_by_codes),
    "reshape with -2": by_all_codes((2, 3, 4), (0, -2), (2, 3, 4)),
    "reshape with -2 and -3": by_all_codes((2, 3, 4), (-3, -2, 1), (6, 4, 1)),
    "reshape with -4": by_all_codes((6, 4), (-4, 2, -1, -2), (2, 3, 4)),
    "reshape that joins dims": Case(
        ["f32[?, ?, ?]"],
        lambda x: ops.reshape(
            x,
            ops.concat([ops.shape_of(x, end=1), ops.prod(ops.shape_of(x, start=1), axes=(0,), keepdims=True)], axis=0),
        ),
        [(2, 3, 4)],
        lambda x: x.reshape(2, 12),
    ),
    "reshape by a shape": Case(
        ["f32[4, 7]", "f32[2, 7, 2]"],
        lambda x, y: ops.reshape(x, ops.shape_of(y)),
        [(4, 7), (2, 7, 2)],
        lambda x, y: x.reshape(2, 7, 2),
    ),
    "squeeze": Case(
        ["f32[1, 2, 1, 2, 1]", "i64[2]"], ops.dyn.squeeze, [(1, 2, 1, 2, 1), [0, 2]], lambda x, _: x.reshape(2, 2, 1)
    ),
    "expand_dims": Case(["f32[2, 2]", "i64[2]"], ops.dyn.expand_dims, [(2, 2), [1, 2]], lambda x, _: x[:, None, None]),
    "zeros and ones": Case(
        ["i64[4]"],
        lambda s: [ops.dyn.zeros(s, dtype="f32"), ops.dyn.ones(s, dtype="f32")],
        [[8, 9, 1, 2]],
        lambda s: [np.zeros(s), np.ones(s)],
    ),
    "full": Case(["i32[]", "i64[4]"], ops.dyn.full, [4, [1, 3, 4, 4]], lambda v, s: np.full(s, v)),
    "sparse_to_dense": Case(
        ["i64[2, 3]", "i64[2]", "i64[3]"],
        lambda i, v, shape: ops.dyn.sparse_to_dense(i, v, np.int64(4), shape=shape),
        [[[0, 0, 0], [1, 2, 3]], [1, 2], [2, 3, 4]],
        lambda *_: np.array([1] + [4] * 22 + [2]).reshape(2, 3, 4),
    ),
    "slice": sliced((1, 24, 24, 3), [0, 2, 2, 0], [1, 14, 14, 3], [1, 1, 1, 1]),
    "slice with steps": sliced((3, 4, 3), [1, 1, 0], [4, 4, 3], [2, 1, 1]),
    "slice past the end": sliced((3, 4, 3), [1, 1, 0], [4, 1000, 3]),
    "slice backwards": sliced((3, 4, 3), [1, -1, 0], [4, -5, 3], [2, -1, 1]),
    "slice backwards from the end": sliced((20, 10, 5), [20, 10, 4], [0, 0, 1], [-1, -3, -2]),
    "slice of the first axes": sliced((3, 4, 3), [1, 0], [4, 2], [2, 1]),
    "topk, axis 0, smallest": Case(
        ["f32[20, 10]", "i64[]"],
        lambda x, k: ops.dyn.topk(x, k, axis=0, largest=False),
        [(20, 10), 5],
        lambda x, k: (np.sort(x, 0)[:5], np.argsort(x, 0, kind="stable")[:5]),
    ),
    "broadcast_to": Case(
        ["f32[4, 1]", "i64[3]"], ops.dyn.broadcast_to, [(4, 1), [1, 4, 3]], lambda x, s: np.broadcast_to(x, s)
    ),
    "broadcast_to of one element": Case(
        ["f32[1]", "i64[2]"], ops.dyn.broadcast_to, [(1,), [4, 3]], lambda x, s: np.broadcast_to(x, s)
    ),
    "broadcast_to of a reshape": Case(
        ["f32[12]", "i64[2]", "i64[3]"],
        lambda x, r, s: ops.dyn.broadcast_to(ops.dyn.reshape(x, r), s),
        [(12,), [4, 3], [3, 4, 3]],
        lambda x, r, s: np.broadcast_to(x.reshape(r), s),
    ),
    "tile": Case(["f32[2, 3]", "i64[2]"], ops.dyn.tile, [(2, 3), [3, 2]], np.tile),
    "tile by fewer repeats": Case(["f32[2, 3]", "i64[1]"], ops.dyn.tile, [(2, 3), [3]], np.tile),
    "tile by more repeats": Case(["f32[2, 3]", "i64[4]"], ops.dyn.tile, [(2, 3), [2, 1, 3, 2]], np.tile),
    "tile by any number of repeats": Case(["f32[2, 3]", "i64[?]"], ops.dyn.tile, [(2, 3), [2, 3, 2]], np.tile),
    "pad": Case(
        ["f64[2, 7]", "i64[4]", "f64[]"],
        lambda x, w, v: ops.dyn.pad(x, v, pads=w),
        [(2, 7), [1, 2, 4, 2], 4.0],
        lambda x, w, v: np.pad(x, ((1, 4), (2, 2)), constant_values=4.0),
    ),
    "one_hot": Case(
        ["i64[2, 2]", "i64[]"],
        lambda i, d: ops.dyn.one_hot(i, np.array([-0.5, 0.5]), d),
        [[[0, 4], [1, 2]], 5],
        lambda i, d: np.where(i[..., None] == np.arange(5), 0.5, -0.5),
    ),
}


@pytest.mark.parametrize("name", DYN)
def test_dyn(name: str) -> None:
    DYN[name].check()


def test_dims_that_a_slice_leaves_alone_stay_known() -> None:
    x, b, e = anyshape.input("x", "f32[3, 4, 3]"), anyshape.input("b", "i64[1]"), anyshape.input("e", "i64[1]")
    shape = ops.dyn.slice(x, b, e, np.array([0])).type.shape
    assert shape is not None and shape[1:] == (4, 3)


# --- dyn to static: operands become constants one way or another, the variant becomes static, the result stays


def bound(f: Any, values: dict[str, Any]) -> Any:
    """f with inputs replaced by constants."""
    from anyshape.graph.retype import rebuild

    constants = {p: anyshape.constant(values[p.name]) for p in f.params if p.name in values}
    return rebuild(f, constants, [p for p in f.params if p not in constants], f.nodes)


def only_static(f: Any, name: str, type: str) -> None:
    done = dyn_to_static(f)
    assert not [n.op.full_name for n in done.nodes if n.op.variant == "dyn"]
    assert f"static.{name}" in {n.op.full_name for n in done.nodes}
    assert str(done.results[0].type) == type


def by_shape(op: Callable[..., Value], x: str, y: str) -> Any:
    """op(x, shape_of(y)) of two inputs whose dims are all known."""
    a, b = anyshape.input("x", x), anyshape.input("y", y)
    return anyshape.function([a, b], op(a, ops.shape_of(b)))


STATIC: dict[str, tuple[Callable[[], Any], str, str]] = {
    "reshape": (lambda: by_shape(ops.dyn.reshape, "f32[4, 7]", "f32[2, 7, 2]"), "reshape", "f32[2, 7, 2]"),
    "squeeze": (lambda: by_shape(ops.dyn.squeeze, "f32[1, 3, 4, 1]", "f32[0, 3]"), "squeeze", "f32[3, 4]"),
    "broadcast_to": (lambda: by_shape(ops.dyn.broadcast_to, "f32[3, 1]", "f32[3, 3]"), "broadcast_to", "f32[3, 3]"),
    "full": (lambda: by_shape(ops.dyn.full, "i32[]", "i64[1, 2, 3, 4]"), "full", "i32[1, 2, 3, 4]"),
    "topk": (
        lambda: bound(
            Case(["f32[20, 100]", "i64[]"], lambda x, k: ops.dyn.topk(x, k)[0], [], abs).function(), {"b": np.int64(5)}
        ),
        "topk",
        "f32[20, 5]",
    ),
    "slice": (
        lambda: bound(
            sliced((3, 4, 3), [1, -1, 0], [4, -5, 3], [2, -1, 1]).function(),
            {"b": np.array([1, -1, 0]), "c": np.array([4, -5, 3]), "d": np.array([2, -1, 1])},
        ),
        "slice",
        "f32[1, 4, 3]",
    ),
    "tile": (lambda: by_shape(ops.dyn.tile, "f32[4, 7]", "f32[4, 2]"), "tile", "f32[16, 14]"),
    "pad": (lambda: bound(DYN["pad"].function(), {"b": np.array([1, 2, 4, 2])}), "pad", "f64[7, 11]"),
    "one_hot": (lambda: bound(DYN["one_hot"].function(), {"b": np.int64(5)}), "one_hot", "f64[2, 2, 5]"),
    "sparse_to_dense": (
        lambda: bound(DYN["sparse_to_dense"].function(), {"c": np.array([2, 3, 4])}),
        "sparse_to_dense",
        "i64[2, 3, 4]",
    ),
    "dynamic rank": (
        lambda: anyshape.function(
            (x := anyshape.input("x", "f32[]"), y := anyshape.input("y", "i64[1, 2, 8, 10]")),
            ops.dyn.full(x, ops.dyn.slice(ops.shape_of(y), [0], ops.shape_of(ops.shape_of(y)))),
        ),
        "full",
        "f32[1, 2, 8, 10]",
    ),
}


@pytest.mark.parametrize("name", STATIC)
def test_becomes_static(name: str) -> None:
    build, op, type = STATIC[name]
    f = build()
    only_static(f, op, type)
    if not name.startswith("squeeze"):  # others have arguments that may be anything
        args = [np.ones([int(n) for n in p.type.shape or ()], p.type.dtype.numpy) for p in f.params]
        agrees(
            anyshape.compile(dyn_to_static(f))(*args), anyshape.compile(f, loop="python", kernels="interpret")(*args)
        )


def test_zeros_and_ones_of_a_known_shape_are_constants() -> None:
    y = anyshape.input("y", "i64[2, 5]")
    results = [op(ops.shape_of(y), dtype="f32") for op in (ops.dyn.zeros, ops.dyn.ones)]
    done = dyn_to_static(anyshape.function([y], results))
    assert not done.nodes
    agrees([v.constant for v in done.results], [np.zeros((2, 5), np.float32), np.ones((2, 5), np.float32)])


@pytest.mark.parametrize("times", [2, 4])
def test_reshapes_back_and_forth(times: int) -> None:
    x, y = anyshape.input("x", "f32[2, 3, 4]"), anyshape.input("y", "f32[8, 3]")
    z = x
    for k in range(times):
        z = ops.dyn.reshape(z, ops.shape_of(x if k % 2 else y))
    f = anyshape.function([x, y], z)
    only_static(f, "reshape", "f32[2, 3, 4]")
    assert optimise(f).nodes == ()  # and there is nothing left to do


def test_an_if_that_is_decided_becomes_its_branch() -> None:
    x = anyshape.input("x", "i64[2, 2]")
    (y,) = control.if_(True, lambda: ops.reshape(x, (1, 4)), lambda: ops.reshape(x, (4, 1)))
    f = dyn_to_static(anyshape.function([x], y))
    assert [n.op.full_name for n in f.nodes] == ["static.reshape"]
    a = np.arange(4).reshape(2, 2)
    for loop in LOOPS:
        agrees(anyshape.compile(f, loop=loop)(a), a.reshape(1, 4))


def test_attributes_that_are_not_promoted_are_kept() -> None:
    x = anyshape.input("x", "f32[0, 3]")
    f = dyn_to_static(anyshape.function([x], ops.dyn.reshape(x, anyshape.constant(np.array([3, 0])), allowzero=True)))
    assert [(n.op.full_name, n.attrs["allowzero"]) for n in f.nodes] == [("static.reshape", True)]
