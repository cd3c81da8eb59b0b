"""Attention is found in equations, whoever wrote it: one kernel by blocks of rows, or none where somebody else wants the scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops, passes
from anyshape.passes.fuse import fuse
from anyshape.passes.steps import KernelStep
from anyshape.vm import compile

Make = Callable[..., Any]


def kernels(f: Any) -> list[list[str]]:
    """The ops of each kernel."""
    return [[n.op.name for n in s.nodes] for s in fuse(f).steps if isinstance(s, KernelStep)]


def inputs() -> list[Any]:
    q, mask = anyshape.input("q", "f32[b, 2, s, 8]"), anyshape.input("mask", "f32[b, 1, s, t]")
    return [q, anyshape.input("k", "f32[b, 2, t, 8]"), anyshape.input("v", "f32[b, 2, t, 8]"), mask]


def transposed(x: Any) -> Any:
    return ops.transpose(x, axes=[0, 1, 3, 2])


def plain(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ops.matmul(ops.softmax(ops.add(ops.matmul(q, transposed(k)), mask), axis=-1), v)


def scaled(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = ops.div(ops.matmul(q, transposed(k)), np.float32(3))
    return ops.matmul(ops.softmax(ops.add(scores, mask), axis=-1), v)


def split_scale(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attends as torch exports scaled_dot_product_attention: each factor takes the root of the scale."""
    scores = ops.matmul(ops.mul(q, np.float32(0.5)), ops.mul(transposed(k), np.float32(0.5)))
    return ops.transpose(ops.matmul(ops.softmax(ops.add(scores, mask), axis=-1), v), axes=[0, 2, 1, 3])


def capped(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = ops.tanh(ops.matmul(q, transposed(k)))
    hidden = ops.less(mask, np.float32(0))
    return ops.matmul(ops.softmax(ops.where(hidden, np.float32(-1e9), scores), axis=-1), v)


@pytest.mark.parametrize("write", [plain, scaled, split_scale, capped])
def test_one_kernel(write: Make) -> None:
    params = inputs()
    f = anyshape.function(params, write(*params))
    together = [names for names in kernels(f) if "softmax" in names]
    assert len(together) == 1
    assert together[0].count("matmul") == 2
    rng = np.random.default_rng(1)
    exe, slow = compile(f), compile(f, kernels="interpret", fuse=False)
    for b, s, t in ((2, 5, 7), (1, 1, 33), (1, 100, 3), (2, 0, 4)):
        shapes = ((b, 2, s, 8), (b, 2, t, 8), (b, 2, t, 8), (b, 1, s, t))
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        np.testing.assert_allclose(exe(*arrays), slow(*arrays), rtol=1e-4, atol=1e-5)


def test_keys_repeated_for_the_heads_of_a_group_are_read_where_they_are() -> None:
    """Decoders are exported like this: keys and values of two heads, each copied for three heads of queries."""
    q, mask = anyshape.input("q", "f32[b, 6, s, 8]"), anyshape.input("mask", "f32[b, 1, s, t]")
    k, v = anyshape.input("k", "f32[b, 2, t, 8]"), anyshape.input("v", "f32[b, 2, t, 8]")

    def repeated(x: Any) -> Any:
        b, heads, t, e = x.type.shape
        return ops.reshape(ops.broadcast_to(ops.expand_dims(x, axes=[2]), (b, heads, 3, t, e)), (b, 3 * heads, -1, e))

    f = anyshape.function([q, k, v, mask], plain(q, repeated(k), repeated(v), mask))
    (together,) = [names for names in kernels(passes.optimise(f)) if "softmax" in names]
    assert together.count("matmul") == together.count("broadcast_to") == 2
    rng = np.random.default_rng(1)
    exe, slow = compile(f), compile(f, kernels="interpret", fuse=False)
    for b, s, t in ((2, 5, 7), (1, 1, 33), (1, 100, 3), (2, 0, 4), (2, 3, 0)):
        shapes = ((b, 6, s, 8), (b, 2, t, 8), (b, 2, t, 8), (b, 1, s, t))
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        np.testing.assert_allclose(exe(*arrays), slow(*arrays), rtol=1e-4, atol=1e-5)


def test_scores_that_are_results_stay() -> None:
    params = inputs()
    q, k, v, mask = params
    soft = ops.softmax(ops.matmul(q, transposed(k)), axis=-1)
    f = anyshape.function(params, {"y": ops.matmul(soft, v), "scores": ops.add(soft, mask)})
    assert all(names.count("matmul") < 2 for names in kernels(f))


def test_a_softmax_over_queries_stays() -> None:
    """A softmax over queries needs all rows at once."""
    params = inputs()
    q, k, v, mask = params
    soft = ops.softmax(ops.add(ops.matmul(q, transposed(k)), mask), axis=-2)
    assert all(names.count("matmul") < 2 for names in kernels(anyshape.function(params, ops.matmul(soft, v))))


def test_a_product_of_scores_with_themselves_stays() -> None:
    """The second factor has rows of all blocks."""
    q = anyshape.input("q", "f32[b, 2, s, 8]")
    soft = ops.softmax(ops.matmul(q, transposed(q)), axis=-1)
    assert all(names.count("matmul") < 2 for names in kernels(anyshape.function([q], ops.matmul(soft, soft))))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_operator_takes_its_heads_where_they_lie(groups: int) -> None:
    """What is around it moves heads; one kernel unless heads share keys in groups."""
    q = anyshape.input("q", "f32[b, s, 4, 8]")
    k, v = (anyshape.input(name, f"f32[b, t, {groups}, 8]") for name in "kv")
    heads = [ops.transpose(x, axes=[0, 2, 1, 3]) for x in (q, k, v)]
    f = anyshape.function([q, k, v], ops.transpose(ops.attention(*heads), axes=[0, 2, 1, 3]))
    assert len(kernels(f)) == (2 if groups == 2 else 1)
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=(2, n, h, 8)).astype(np.float32) for n, h in ((5, 4), (7, groups), (7, groups))]
    np.testing.assert_allclose(
        compile(f)(*arrays), compile(f, kernels="interpret", fuse=False)(*arrays), rtol=1e-4, atol=1e-5
    )


def test_a_conversion_to_the_dtype_that_is_there_separates_nothing() -> None:
    params = inputs()
    q, k, v, mask = params
    soft = ops.cast(ops.softmax(ops.add(ops.matmul(q, transposed(k)), mask), axis=-1), to="f32")
    f = passes.optimise(anyshape.function(params, ops.matmul(ops.transpose(soft, axes=[0, 1, 2, 3]), v)))
    assert [n.op.name for n in f.nodes] == ["transpose", "matmul", "add", "softmax", "matmul"]
    assert len(kernels(f)) == 1


def test_a_view_back_to_where_it_began_is_none() -> None:
    x, w = anyshape.input("x", "f32[6, k]"), anyshape.input("w", "f32[k, 4]")
    seen = ops.reshape(ops.reshape(ops.relu(ops.matmul(x, w)), [24]), [6, 4])
    f = passes.optimise(anyshape.function([x, w], ops.exp(seen)))
    assert [n.op.name for n in f.nodes] == ["matmul", "relu", "exp"]
