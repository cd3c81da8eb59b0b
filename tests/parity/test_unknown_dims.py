"""Ops over inputs of which dims are unknown: parity with test_any.py, one row per item that docs/parity.md maps."""

from __future__ import annotations

import numpy as np
import pytest
from parity_case import LOOPS, Case, agrees

import anyshape
from anyshape import control, ops
from anyshape.errors import ShapeError
from anyshape.graph.value import Value


def any_of(rank: int, dtype: str = "f32") -> str:
    return f"{dtype}[{', '.join('?' * rank)}]"


def like(x: Value, value: float) -> Value:
    return ops.full(np.float32(value), ops.shape_of(x))


def softmax(v: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(v - v.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The area that two boxes of corners share, of the area that they cover."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    both = np.prod(np.maximum(sides, 0))
    return float(both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both))


def kept_boxes(boxes: np.ndarray, scores: np.ndarray, most: float, least: float, limit: int) -> np.ndarray:
    rows = []
    for u, v in np.ndindex(scores.shape[:2]):
        kept: list[int] = []
        for j in sorted(range(scores.shape[2]), key=lambda j: (-scores[u, v, j], j)):
            apart = all(overlap(boxes[u, j], boxes[u, i]) <= most for i in kept)
            kept += [j] if apart and scores[u, v, j] > least and len(kept) < limit else []
        rows += [[u, v, j] for j in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


CORNERS = np.random.default_rng(2).uniform(0, 1, (2, 9, 2))
BOXES = np.concatenate([CORNERS, CORNERS + 0.4], -1)

CASES: dict[str, Case] = {
    "broadcast vector with 1": Case(["f32[?]", "f32[3, 2]"], ops.add, [(1,), (3, 2)], np.add),
    "broadcast vector": Case(["f32[?]", "f32[3, 2]"], ops.add, [(2,), (3, 2)], np.add),
    "broadcast of what is 1": Case(["f32[?, 2]", "f32[1, 2]"], ops.add, [(3, 2), (1, 2)], np.add),
    "broadcast to what is known": Case(["f32[?, 2]", "f32[3, 2]"], ops.add, [(1, 2), (3, 2)], np.add),
    "broadcast both ways": Case(["f32[?, 2]", "f32[3, ?]"], ops.add, [(1, 2), (3, 1)], np.add),
    "elementwise sqrt": Case(["f32[?]"], ops.sqrt, [(3,)], np.sqrt),
    "elementwise neg": Case(["f32[?, 2]"], ops.neg, [(5, 2)], np.negative),
    "elementwise exp": Case([any_of(2)], ops.exp, [(5, 4)], np.exp),
    "zeros like": Case([any_of(3)], lambda x: like(x, 0), [(22, 11, 15)], np.zeros_like),
    "ones like": Case([any_of(5)], lambda x: like(x, 1), [(2, 3, 4, 5, 6)], np.ones_like),
    "full": Case(["i64[4]"], lambda s: ops.full(np.float32(2), s), [[1, 2, 3, 4]], lambda s: np.full(s, 2)),
    "concat": Case(
        ["f32[?, 2]", "f32[1, 2]"],
        lambda x, y: ops.concat([ops.sub(x, 3.0), ops.mul(y, 5.0)], axis=0),
        [(3, 2), (1, 2)],
        lambda x, y: np.concatenate([x - 3, y * 5]),
    ),
    "concat of 25": Case(
        ["f32[?]"] * 25, lambda *xs: ops.concat(list(xs), axis=0), [(1,)] * 25, lambda *xs: np.concatenate(xs)
    ),
    "reshape with -1": Case(
        [any_of(3)], lambda x: ops.reshape(ops.relu(x), (1, -1)), [(2, 3, 4)], lambda x: x.reshape(1, 24)
    ),
    "reshape with 0": Case(
        [any_of(3)], lambda x: ops.reshape(ops.relu(x), (0, -1)), [(2, 3, 4)], lambda x: x.reshape(2, 12)
    ),
    "reshape by a value": Case([any_of(3), "i64[2]"], ops.reshape, [(2, 3, 4), [0, -1]], lambda x, s: x.reshape(2, 12)),
    "argwhere": Case([any_of(3, "bool")], ops.argwhere, [(5, 4, 5)], np.argwhere),
    "argwhere of a scalar": Case(["bool[]"], ops.argwhere, [True], np.argwhere),
    "argwhere of integers": Case([any_of(2, "i32")], ops.argwhere, [(5, 5)], np.argwhere),
    "take": Case(
        [any_of(2), "i32[1]"], lambda x, i: ops.gather(x, i, axis=0), [(4, 5), [2]], lambda x, i: x.take(i, 0)
    ),
    "take scalar": Case([any_of(2), "i32[]"], lambda x, i: ops.gather(x, i, axis=0), [(4, 5), 3], lambda x, i: x[3]),
    "take flat": Case(
        [any_of(2), any_of(3, "i32")],
        lambda x, i: ops.gather(ops.reshape(x, (-1,)), i),
        [(4, 5), (2, 3, 4)],
        lambda x, i: x.reshape(-1)[i],
    ),
    "take along -1": Case(
        [any_of(2), any_of(4, "i32")],
        lambda x, i: ops.gather(x, i, axis=-1),
        [(4, 5), (2, 3, 4, 5)],
        lambda x, i: x.take(i, -1),
    ),
    "shape_of": Case([any_of(2)], ops.shape_of, [(3, 4)], np.shape),
    "element of shape_of": Case([any_of(3)], lambda x: ops.gather(ops.shape_of(x), 1), [(2, 3, 4)], lambda x: 3),
    "reduce max": Case(
        [any_of(4)],
        lambda x: ops.max(x, axes=(0, 1, 2), keepdims=True),
        [(3, 4, 5, 6)],
        lambda x: x.max((0, 1, 2), keepdims=True),
    ),
    "reduce min": Case([any_of(3)], lambda x: ops.min(x, axes=(0, 1)), [(4, 5, 6)], lambda x: x.min((0, 1))),
    "reduce prod": Case(
        [any_of(4)],
        lambda x: ops.prod(x, axes=(0, 1, 3), keepdims=True),
        [(3, 4, 5, 6)],
        lambda x: x.prod((0, 1, 3), keepdims=True),
    ),
    "reduce mean": Case([any_of(2)], lambda x: ops.mean(x, axes=(0,)), [(1, 2)], lambda x: x.mean(0)),
    "variance of means": Case(
        [any_of(3)],
        lambda x: ops.mean(ops.pow(ops.sub(x, ops.mean(x, axes=(1, 2), keepdims=True)), 2.0), axes=(1, 2)),
        [(3, 4, 5)],
        lambda x: x.var((1, 2)),
    ),
    "layout transform": Case(
        [any_of(4)],
        lambda x: ops.transpose(x, axes=(0, 2, 3, 1)),
        [(3, 4, 5, 6)],
        lambda x: x.transpose(0, 2, 3, 1),
    ),
    "blocked layout": Case(
        [any_of(4)],
        lambda x: ops.transpose(
            ops.reshape(x, ops.concat([ops.shape_of(x, end=1), [-1, 4], ops.shape_of(x, start=2)], axis=0)),
            axes=(0, 1, 3, 4, 2),
        ),
        [(3, 8, 5, 6)],
        lambda x: x.reshape(3, 2, 4, 5, 6).transpose(0, 1, 3, 4, 2),
    ),
    "expand_dims": Case([any_of(3)], lambda x: ops.expand_dims(x, (1, 2)), [(1, 2, 3)], lambda x: x[:, None, None]),
    "expand_dims at the end": Case(
        [any_of(3)], lambda x: ops.expand_dims(x, (-1, -2)), [(1, 2, 3)], lambda x: x[..., None, None]
    ),
    "transpose": Case(
        [any_of(6)],
        lambda x: ops.transpose(x, axes=(0, 1, 3, 2, 5, 4)),
        [(3, 2, 2, 1, 9, 7)],
        lambda x: x.transpose(0, 1, 3, 2, 5, 4),
    ),
    "transpose reversed": Case([any_of(3)], ops.transpose, [(2, 3, 4)], np.transpose),
    "squeeze": Case([any_of(3)], lambda x: ops.squeeze(x, (0,)), [(1, 9, 8)], lambda x: x[0]),
    "squeeze of two": Case(
        ["f32[1, ?, ?, 1, ?, ?]"], lambda x: ops.squeeze(x, (0, 3)), [(1, 12, 2, 1, 9, 7)], lambda x: x[0, :, :, 0]
    ),
    "reshape like": Case(
        ["f32[?, 3, 10]", "f32[?, 5, 6]"],
        lambda x, y: ops.reshape(x, ops.shape_of(y)),
        [(3, 3, 10), (3, 5, 6)],
        lambda x, y: x.reshape(y.shape),
    ),
    "split in two": Case([any_of(2)], lambda x: ops.split(x, axis=1, parts=2), [(9, 4)], lambda x: np.split(x, 2, 1)),
    "split by sizes": Case(
        ["f32[?, 12]"],
        lambda x: ops.split(x, axis=1, sizes=(1, 3, 4, 4)),
        [(7, 12)],
        lambda x: np.split(x, (1, 4, 8), 1),
    ),
    "one result of a split": Case(
        ["f32[?, 4]"], lambda x: ops.split(x, axis=1, parts=2)[0], [(9, 4)], lambda x: x[:, :2]
    ),
    "batch flatten": Case([any_of(3)], ops.flatten, [(3, 3, 10)], lambda x: x.reshape(3, 30)),
    "dense": Case(
        [any_of(2), any_of(2)], lambda x, w: ops.gemm(x, w, trans_b=True), [(4, 16), (8, 16)], lambda x, w: x @ w.T
    ),
    "dense of known units": Case(
        [any_of(2), "f32[50, ?]"], lambda x, w: ops.gemm(x, w, trans_b=True), [(4, 40), (50, 40)], lambda x, w: x @ w.T
    ),
    "softmax": Case([any_of(4)], lambda x: ops.softmax(x, axis=2), [(13, 11, 3, 1)], lambda x: softmax(x, 2)),
    "relu": Case(
        [any_of(4)], lambda x: ops.relu(ops.sub(x, 0.5)), [(13, 11, 3, 1)], lambda x: np.maximum(x - np.float32(0.5), 0)
    ),
    "prelu": Case(
        [any_of(3)], lambda x: ops.prelu(ops.neg(x), np.array([2], np.float32)), [(1, 2, 3)], lambda x: -2 * x
    ),
    "leaky relu": Case([any_of(3)], lambda x: ops.leaky_relu(ops.neg(x), alpha=0.5), [(1, 2, 3)], lambda x: -x / 2),
    "bias": Case([any_of(4)], lambda x: ops.add(x, np.array([3], np.float32)), [(13, 11, 3, 1)], lambda x: x + 3),
    "topk by a value": Case(
        [any_of(1), "i64[]"],
        lambda x, k: ops.topk(x, k),
        [(10,), 5],
        lambda x, k: (-np.sort(-x)[:5], np.argsort(-x, kind="stable")[:5]),
    ),
    "topk of constant k": Case(
        [any_of(2)], lambda x: ops.topk(x, 2)[1], [(6, 3)], lambda x: np.argsort(-x, kind="stable")[:, :2]
    ),
    "topk of none": Case([any_of(2), "i64[]"], lambda x, k: ops.topk(x, k)[0], [(2, 3), 0], lambda x, k: x[:, :0]),
    "topk of nothing": Case([any_of(1), "i64[]"], lambda x, k: ops.topk(x, k)[0], [(0,), 0], lambda x, k: x),
    "fused": Case([any_of(2)], lambda x: ops.mul(ops.add(x, 1.0), 2.0), [(5, 4)], lambda x: (x + 1) * 2),
    "arange of a dim": Case(
        [any_of(3)],
        lambda x: ops.add(ops.arange(0, ops.gather(ops.shape_of(x), 0)), 1),
        [(10, 5, 3)],
        lambda x: np.arange(10) + 1,
    ),
    "strided slice by values": Case(
        [any_of(3), "i64[3]", "i64[3]", "i64[3]"],
        lambda x, b, e, s: ops.slice(x, b, e, (0, 1, 2), s),
        [(15, 17, 21), [1, 0, 1], [9, 6, 7], [1, 2, 2]],
        lambda x, *_: x[1:9, 0:6:2, 1:7:2],
    ),
    "strided slice": Case(
        [any_of(2)], lambda x: ops.slice(x, (1, 0), (7, 9), (0, 1), (2, 1)), [(15, 21)], lambda x: x[1:7:2, 0:9]
    ),
    "size": Case([any_of(4)], ops.size, [(1, 2, 3, 4)], np.size),
    "consecutive broadcasts": Case(
        [any_of(2)] * 4,
        lambda a, b, c, d: ops.mul(ops.sub(ops.add(a, b), ops.mul(a, b)), ops.sub(ops.add(c, d), ops.mul(c, d))),
        [(1, 4), (2, 4), (1, 4), (2, 4)],
        lambda a, b, c, d: ((a + b) - a * b) * ((c + d) - c * d),
    ),
    "reshape and concat": Case(
        [any_of(2), any_of(3)],
        lambda x, y: ops.concat([ops.reshape(x, (-1,)), ops.reshape(y, (-1,))], axis=0),
        [(4, 5), (2, 5, 2)],
        lambda x, y: np.concatenate([x.reshape(-1), y.reshape(-1)]),
    ),
    "reshape like and concat": Case(
        [any_of(2), any_of(2), any_of(3), any_of(3)],
        lambda x, y, s, t: ops.concat([ops.reshape(x, ops.shape_of(s)), ops.reshape(y, ops.shape_of(t))], axis=0),
        [(4, 5), (8, 5), (2, 2, 5), (4, 2, 5)],
        lambda x, y, s, t: np.concatenate([x.reshape(s.shape), y.reshape(t.shape)]),
    ),
    "stack": Case(
        [any_of(2)] * 3,
        lambda *xs: ops.concat([ops.expand_dims(x, (0,)) for x in xs], axis=0),
        [(1, 2)] * 3,
        lambda *xs: np.stack(xs),
    ),
    "where": Case([any_of(1, "bool"), any_of(1), any_of(1)], ops.where, [(5,), (5,), (5,)], np.where),
    "where with a 1": Case([any_of(1, "bool"), any_of(1), any_of(1)], ops.where, [(5,), (1,), (5,)], np.where),
    "where of other ranks": Case([any_of(1, "bool"), any_of(1), any_of(2)], ops.where, [(5,), (5,), (5, 5)], np.where),
    "where crosswise": Case([any_of(2, "bool"), any_of(2), any_of(2)], ops.where, [(3, 4), (3, 1), (1, 4)], np.where),
    "where of scalars picks an index": Case(
        ["i64[?]", any_of(2)],
        lambda x, y: ops.gather(
            y, ops.where(False, ops.add(ops.gather(x, 1), 4), anyshape.constant(np.int64(4))), axis=1
        ),
        [[1, 0], (2, 6)],
        lambda x, y: y[:, 4],
    ),
    "elementwise round": Case(["f32[?]"], lambda x: ops.round(ops.mul(x, 9.0)), [(3,)], lambda x: np.round(x * 9)),
    "one_hot": Case(
        [any_of(2, "i64")],
        lambda i: ops.one_hot(i, np.array([-0.5, 0.5], np.float32), 5, axis=1),
        [[[0, 4], [1, 2]]],
        lambda i: np.where(i[:, None] == np.arange(5)[:, None], 0.5, -0.5),
    ),
    "tile": Case([any_of(3)], lambda x: ops.tile(x, (3, 2, 1)), [(2, 3, 4)], lambda x: np.tile(x, (3, 2, 1))),
    "tile by fewer repeats": Case(
        [any_of(3)], lambda x: ops.tile(x, (3, 2)), [(2, 3, 4)], lambda x: np.tile(x, (3, 2))
    ),
    "tile by more repeats": Case(
        [any_of(2)], lambda x: ops.tile(x, (3, 2, 1)), [(3, 4)], lambda x: np.tile(x, (3, 2, 1))
    ),
    "reduce argmax": Case([any_of(3)], lambda x: ops.argmax(x, axis=1), [(3, 4, 5)], lambda x: x.argmax(1)),
    "reduce argmin": Case(
        [any_of(3)], lambda x: ops.argmin(x, axis=1, keepdims=True), [(3, 4, 5)], lambda x: x.argmin(1, keepdims=True)
    ),
    "reduce all": Case([any_of(3, "bool")], lambda x: ops.all(x, axes=(0,)), [(3, 4, 5)], lambda x: x.all(0)),
    "pad": Case(
        [any_of(3)],
        lambda x: ops.pad(x, pads=(0, 1, 2, 0, 1, 2)),
        [(1, 2, 3)],
        lambda x: np.pad(x, ((0, 0), (1, 1), (2, 2))),
    ),
    "pad by reflection": Case(
        ["f32[1, ?, ?]"],
        lambda x: ops.pad(x, pads=(0, 1, 1, 0, 1, 1), mode="reflect"),
        [(1, 5, 4)],
        lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1)), "reflect"),
    ),
    "repeat": Case([any_of(4)], lambda x: ops.repeat(x, 4, axis=2), [(2, 1, 1, 4)], lambda x: np.repeat(x, 4, 2)),
    "non_max_suppression": Case(
        [any_of(3), any_of(3), "i64[]"],
        lambda x, s, n: ops.non_max_suppression(x, s, np.float32(0.4), limit=n),
        [BOXES, (2, 1, 9), 4],
        lambda x, s, n: kept_boxes(x, s, 0.4, -np.inf, n),
    ),
    "non_max_suppression of all classes": Case(
        [any_of(3), any_of(3), "f32[]", "f32[]"],
        lambda x, s, most, least: ops.non_max_suppression(x, s, most, least, limit=9),
        [BOXES, (2, 3, 9), 0.2, 0.3],
        lambda x, s, most, least: kept_boxes(x, s, most, least, 9),
    ),
    "gather_nd": Case(
        ["f32[?, 2]", "i64[?, 2]"],
        ops.gather_nd,
        [(2, 2), [[0, 1], [1, 1], [1, 0]]],
        lambda x, i: x[i[:, 0], i[:, 1]],
    ),
    "rows picked by two index tensors": Case(
        ["f32[5, ?, ?]", "i64[1, ?]", "i64[1, ?]"],
        lambda x, i, j: ops.gather_nd(x, ops.concat([ops.expand_dims(i, (-1,)), ops.expand_dims(j, (-1,))], axis=-1)),
        [(5, 5, 10), [[0, 3, 1, 4]], [[4, 3, 2, 0]]],
        lambda x, i, j: x[i, j],
    ),
    "scatter_nd adds": Case(
        ["i64[2, 2]", "i64[?, 2]", "i64[?]"],
        lambda x, i, u: ops.scatter_nd(x, i, u, reduction="add"),
        [[[0, 0], [0, 0]], [[1, 0], [1, 1], [0, 0]], [2, 3, 0]],
        lambda *_: np.array([[0, 0], [2, 3]]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_any(name: str) -> None:
    CASES[name].check()


@pytest.mark.parametrize(
    ("types", "shapes"),
    [
        (["f32[?]", "f32[3, 2]"], [(4,), (3, 2)]),
        (["f32[?, 2]", "f32[3, 2]"], [(4, 2), (3, 2)]),
        (["f32[?, 2]", "f32[3, ?]"], [(4, 2), (3, 1)]),
        (["f32[?]", "f32[3, 2]"], [(3,), (3, 2)]),
    ],
)
def test_broadcasts_that_fail(types: list[str], shapes: list[tuple[int, ...]]) -> None:
    run = anyshape.compile(Case(types, ops.add, shapes, np.add).function())
    with pytest.raises(ShapeError, match="do not broadcast"):
        run(*(np.ones(s, np.float32) for s in shapes))


def test_a_squeeze_of_what_is_not_1_is_refused_at_run_time() -> None:
    x = anyshape.input("x", "f32[?, ?]")
    run = anyshape.compile(anyshape.function([x], ops.squeeze(x, (0,))))
    with pytest.raises(
        ShapeError, match=r"only axes of size 1 can be squeezed, got \[2\] \(x.shape\[0\] == 1 does not hold"
    ):
        run(np.ones((2, 3), np.float32))


def test_concat_of_unknown_dims_has_the_type_that_is_known() -> None:
    rows = [anyshape.input(f"x{k}", "f32[?, 3]") for k in range(3)]
    open_ = anyshape.input("y", "f32[?, ?]")
    assert str(ops.concat([*rows, open_], axis=0).type).endswith(", 3]")
    ones = [anyshape.input("p", "f32[1, 3]"), anyshape.input("q", "f32[1, ?]")]
    assert str(ops.concat(ones, axis=0).type) == "f32[2, 3]"  # an unknown that is concatenated with 3 elsewhere is 3
    assert str(ops.concat(ones, axis=1).type).startswith("f32[1, ")


@pytest.mark.parametrize("batches", [(1, 1), (5, 5), (5, 1)])
@pytest.mark.parametrize("unknown", ["none, batch", "none, all", "batch, none", "batch, batch", "batch, all"])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_batch_matmul(unknown: str, transposed: tuple[bool, bool], batches: tuple[int, int]) -> None:
    shapes = [(batches[0], 16, 32), (batches[1], 32, 20)]
    shapes = [(s[0], s[2], s[1]) if t else s for s, t in zip(shapes, transposed)]
    known = {"none": lambda s: s, "batch": lambda s: ("?", *s[1:]), "all": lambda s: ("?",) * 3}
    types = [f"f32[{', '.join(map(str, known[u](s)))}]" for u, s in zip(unknown.split(", "), shapes)]
    back = (0, 2, 1)

    def built(x: Value, y: Value) -> Value:
        return ops.matmul(*(ops.transpose(v, axes=back) if t else v for v, t in zip((x, y), transposed)))

    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.matmul(*(v.transpose(back) if t else v for v, t in zip((x, y), transposed)))

    Case(types, built, shapes, reference).check()


def test_a_loop_that_concatenates() -> None:
    """A carried value grows a row with each turn: its type is what all turns have in common."""
    start = anyshape.input("start", "i64[]")

    def iteration(_: Value, i: Value, rows: Value) -> list[Value]:
        more = ops.concat([rows, ops.reshape(i, (1, 1))], axis=0)
        return [ops.less(ops.add(i, 1), 10), ops.add(i, 1), more]

    joined = control.loop(None, iteration, [start, np.zeros((1, 1), np.int64)], cond=ops.less(start, 10))[1]
    f = anyshape.function([start], joined)
    for loop in LOOPS:
        agrees(anyshape.compile(f, loop=loop)(np.int64(0)), np.array([0, *range(10)]).reshape(11, 1))


def test_a_loop_with_a_wrong_annotation() -> None:
    """What is said to stay (1, 1) and does not is refused, with both sizes."""
    start = anyshape.input("start", "i64[]")

    def iteration(_: Value, i: Value, rows: Value) -> list[Value]:
        grown = ops.concat([rows, ops.reshape(i, (1, 1))], axis=0)
        return [ops.less(i, 10), ops.add(i, 1), ops.match_shape(grown, "i64[1, 1]")]

    with pytest.raises(ShapeError, match=r"expected \[1, 1\], got \[2, 1\]"):
        joined = control.loop(None, iteration, [start, np.zeros((1, 1), np.int64)], cond=ops.less(start, 10))[1]
        anyshape.compile(anyshape.function([start], joined))(np.int64(0))


def test_nested_tuples_are_inputs_and_results() -> None:
    state = anyshape.input("state", "(f32[?], (f32[?, 4], i64[]))")
    row, (table, count) = state
    run = anyshape.compile(anyshape.function([state], ((ops.add(table, ops.cast(count, "f32")), row), count)))
    a, b = np.ones(3, np.float32), np.zeros((2, 4), np.float32)
    (more, same), number = run((a, (b, np.array(5))))
    agrees((more, same, number), (b + 5, a, np.array(5)))


def test_several_inputs_and_results() -> None:
    """Inputs come in order or by name."""
    x, y, z = (anyshape.input(n, "f32[?, 4]") for n in "xyz")
    run = anyshape.compile(anyshape.function([x, y, z], {"both": ops.add(ops.mul(x, y), z), "first": ops.neg(x)}))
    a = np.full((9, 4), 2, np.float32)
    agrees(run(x=a, y=a, z=a), (a * 3, -a))
