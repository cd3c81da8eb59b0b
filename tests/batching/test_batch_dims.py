"""Dims along which requests can be joined: which models have one, which are refused and why, and that joined results are those of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.batching import BatchDim, Unbatched, batch_dim
from anyshape.graph.function import Function

RNG = np.random.default_rng(5)
W = RNG.normal(size=(6, 4)).astype(np.float32)
KERNEL = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
TABLE = RNG.normal(size=(10, 6)).astype(np.float32)
Body = Callable[..., Any]


def built(body: Body, **inputs: str) -> Function:
    """The function of a body over inputs of these types, whose dims of one name are one."""
    params = [anyshape.input(name, t) for name, t in inputs.items()]
    return anyshape.function(params, body(*params))


def attention(x: Any) -> Any:
    """Scores of every position with every other one, by four heads that a reshape makes: the batch and the heads become one axis."""
    n, m = (ops.gather(ops.shape_of(x), np.array([k])) for k in (0, 1))
    four, two = np.array([4]), np.array([2])
    heads = ops.dyn.reshape(x, ops.concat([n, m, four, two], axis=0))
    by_head = ops.static.transpose(heads, axes=(0, 2, 1, 3))
    flat = ops.dyn.reshape(by_head, ops.concat([ops.mul(n, four), m, two], axis=0), allowzero=True)
    weights = ops.softmax(ops.matmul(flat, ops.static.transpose(flat, axes=(0, 2, 1))), axis=-1)
    mixed = ops.dyn.reshape(ops.matmul(weights, flat), ops.concat([n, four, m, two], axis=0), allowzero=True)
    return ops.dyn.reshape(ops.static.transpose(mixed, axes=(0, 2, 1, 3)), ops.concat([n, m, np.array([8])], axis=0))


def counted_mean(x: Any) -> Any:
    """A mean over the features, whose number the graph computes."""
    n = ops.cast(ops.gather(ops.shape_of(x), 1), to="f32")
    return ops.div(ops.sum(x, axes=(1,)), n)


def masked_mean(x: Any, mask: Any) -> Any:
    weights = ops.expand_dims(ops.cast(mask, to="f32"), axes=(2,))
    return ops.div(ops.sum(ops.mul(x, weights), axes=(1,)), ops.sum(weights, axes=(1,)))


def computed_mask(x: Any, mask: Any) -> Any:
    """Each row's mask, picked from all of them by row * length + position, as exporters write attention masks."""
    n, m = (ops.gather(ops.shape_of(mask), np.array(k)) for k in (0, 1))
    first = ops.mul(ops.expand_dims(ops.dyn.arange(0, n, 1, dtype="i64"), axes=(1,)), m)
    places = ops.add(first, ops.expand_dims(ops.dyn.arange(0, m, 1, dtype="i64"), axes=(0,)))
    picked = ops.gather(ops.static.reshape(mask, newshape=(-1,)), places)
    return ops.where(picked, x, 0.0)


def shifted_mask(x: Any, mask: Any) -> Any:
    """Masks picked from the end of each row, so that position 0 has the first mask of the next row."""
    n, m = (ops.gather(ops.shape_of(mask), np.array(k)) for k in (0, 1))
    first = ops.mul(ops.expand_dims(ops.dyn.arange(0, n, 1, dtype="i64"), axes=(1,)), m)
    places = ops.add(first, ops.sub(m, ops.expand_dims(ops.dyn.arange(0, m, 1, dtype="i64"), axes=(0,))))
    return ops.where(ops.gather(ops.static.reshape(mask, newshape=(-1,)), places), x, 0.0)


def embedding(i: Any) -> Any:
    return ops.add(ops.gather(TABLE, i), ops.gather(TABLE, ops.arange(0, 5, 1, dtype="i64")))


def repeated_rows(x: Any) -> Any:
    three = ops.static.broadcast_to(ops.expand_dims(x, axes=(1,)), shape=(1, 3, 6))
    return ops.static.reshape(three, newshape=(-1, 6))


def lookup(x: Any, i: Any) -> Any:
    return ops.gather_nd(x, ops.expand_dims(i, axes=(1,)), batch_dims=1)


def rows_of(x: Any) -> Any:
    return ops.gather(ops.shape_of(x), 0)


def rolled(x: Any) -> Any:
    behind = ops.static.slice(x, starts=(1,), ends=(2**62,), axes=(0,))
    return ops.concat([behind, ops.static.slice(x, starts=(0,), ends=(1,), axes=(0,))], axis=0)


def flipped(x: Any) -> Any:
    return ops.static.slice(x, starts=(-1,), ends=(-(2**62),), axes=(0,), steps=(-1,))


def numbered(x: Any) -> Any:
    numbers = ops.cast(ops.arange(0, rows_of(x), 1, dtype="i64"), to="f32")
    return ops.add(x, ops.expand_dims(numbers, axes=(1,)))


def summed_by_loop(x: Any) -> Any:
    return control.loop(rows_of(x), lambda k, s: [ops.add(s, ops.gather(x, k))], [np.zeros(6, np.float32)])[0]


def centred(x: Any) -> Any:
    return ops.sub(x, ops.mean(x, axes=(0,), keepdims=True))


def columns_as_rows(x: Any) -> Any:
    return ops.static.reshape(ops.static.transpose(x, axes=(1, 0)), newshape=(-1,))


def of_pairs(x: Any) -> Any:
    return ops.sum(ops.static.reshape(x, newshape=(-1, 12)), axes=(1,))


def norm(x: Any) -> Any:
    return ops.layer_norm(x, np.ones(6, np.float32), np.zeros(6, np.float32))[0]


ROWS = {"x": "f32[n, 6]"}
TOKENS = {"x": "f32[n, m, 6]"}
MASKED = {"x": "f32[n, m]", "mask": "bool[n, m]"}

ACCEPTED: dict[str, tuple[Body, dict[str, str]]] = {
    "pointwise": (lambda x: ops.tanh(ops.add(ops.mul(x, 2.0), 1.0)), ROWS),
    "product over features": (lambda x: ops.relu(ops.matmul(x, W)), ROWS),
    "softmax over another axis": (lambda x: ops.softmax(x, axis=1), {"x": "f32[n, m]"}),
    "softmax, the batch last": (lambda x: ops.softmax(x, axis=0), {"x": "f32[6, n]"}),
    "layer norm": (norm, TOKENS),
    "embedding": (embedding, {"i": "i64[n, 5]"}),
    "attention": (attention, {"x": "f32[n, m, 8]"}),
    "a count of features": (counted_mean, {"x": "f32[n, m]"}),
    "masked mean": (masked_mean, {"x": "f32[n, m, 6]", "mask": "bool[n, m]"}),
    "a mask by computed indices": (computed_mask, MASKED),
    "first of each row": (lambda x: ops.gather(x, 0, axis=1), TOKENS),
    "sort of each row": (lambda x: ops.topk(x, k=2, axis=1)[0], ROWS),
    "cumulative sum along rows": (lambda x: ops.cumsum(x, axis=1), {"x": "f32[n, m]"}),
    "convolution": (lambda x: ops.conv(x, KERNEL), {"x": "f32[n, 3, 8, 8]"}),
    "rows merged with positions": (lambda x: ops.matmul(ops.static.reshape(x, newshape=(-1, 6)), W), TOKENS),
    "rows repeated": (repeated_rows, ROWS),
    "joined with itself": (lambda x: ops.concat([x, x], axis=1), {"x": "f32[n, m]"}),
    "an input without rows": (lambda x, w: ops.matmul(x, w), {"x": "f32[n, 6]", "w": "f32[6, k]"}),
    "a lookup within the row": (lookup, {"x": "f32[n, 5]", "i": "i64[n]"}),
}

REFUSED: dict[str, tuple[Body, dict[str, str], str]] = {
    "softmax over the batch": (lambda x: ops.softmax(x, axis=0), ROWS, "softmax"),
    "mean over the batch": (centred, ROWS, "mean"),
    "cumulative sum over the batch": (lambda x: ops.cumsum(x, axis=0), ROWS, "cumsum"),
    "flip of the batch": (flipped, ROWS, "slice"),
    "roll of the batch": (rolled, ROWS, "concat"),
    "the number of rows": (lambda x: ops.div(x, ops.cast(rows_of(x), to="f32")), ROWS, "n"),
    "the place of a row": (numbered, ROWS, "position along n"),
    "a mask of the next row": (shifted_mask, MASKED, "another row"),
    "products of rows with rows": (lambda x: ops.matmul(x, ops.static.transpose(x, axes=(1, 0))), ROWS, "matmul"),
    "rows that data picks": (lambda x, i: ops.gather(x, i), {**ROWS, "i": "i64[n]"}, "gather"),
    "rows that are kept": (lambda x: ops.nonzero(x), ROWS, "nonzero"),
    "rows merged behind others": (columns_as_rows, ROWS, "reshape"),
    "pairs of rows": (of_pairs, ROWS, "a check may hold of the joined call alone"),
    "the largest row": (lambda x: ops.add(x, ops.max(x)), ROWS, "max"),
    "one dim twice": (lambda x: ops.relu(x), {"x": "f32[n, n]"}, "not one axis"),
    "outer sum over the batch": (lambda x, y: ops.add(x, y), {"x": "f32[n]", "y": "f32[n, 1]"}, "add"),
    "a loop over rows": (summed_by_loop, ROWS, "loop"),
    "no dim": (lambda x: ops.relu(x), {"x": "f32[3, 6]"}, "no input has a dim"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_rows_stay_apart(case: str) -> None:
    body, inputs = ACCEPTED[case]
    f = built(body, **inputs)
    dim = batch_dim(f)
    assert isinstance(dim, BatchDim), str(dim)
    assert dim.name == "n"
    exe = anyshape.compile(f)
    requests = [{n: drawn(n, t, rows, inputs) for n, t in inputs.items()} for rows in (2, 1, 3)]
    requests = [{**r, **{i.name: requests[0][i.name] for i in dim.inputs if i.axis is None}} for r in requests]
    joined = {
        i.name: requests[0][i.name] if i.axis is None else np.concatenate([r[i.name] for r in requests], i.axis)
        for i in dim.inputs
    }
    each = [exe.run(r) for r in requests]
    for k, (o, together) in enumerate(zip(dim.outputs, exe.run(joined))):
        alone = each[0][k] if o.axis is None else np.concatenate([r[k] for r in each], o.axis)
        np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)


def drawn(name: str, type: str, rows: int, inputs: dict[str, str]) -> Any:
    kind, sizes = type.rstrip("]").split("[")
    shape = [rows if s == "n" else {"m": 5, "k": 4}.get(s) or int(s) for s in sizes.split(", ")]
    if kind == "f32":
        return RNG.normal(size=shape).astype(np.float32)
    return np.ones(shape, bool) if kind == "bool" else RNG.integers(0, 5, shape)


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_meet_are_refused(case: str) -> None:
    body, inputs, word = REFUSED[case]
    dim = batch_dim(built(body, **inputs))
    assert isinstance(dim, Unbatched), str(dim)
    assert word in str(dim)
    assert "n" in dim.reasons or not dim.reasons
