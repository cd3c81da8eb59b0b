"""Random functions of generated ops over symbolic dims, for comparing every way of compiling and running them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import anyshape
import anyshape_ops.api as ops
from anyshape.dtypes import parse_dtype
from anyshape.errors import AnyshapeError
from anyshape.graph.value import Value

F32 = parse_dtype("f32")
Step = Callable[[random.Random, list[Value]], Any]


def _one(rng: random.Random, values: list[Value], rank: int = 0) -> Value:
    fitting = [v for v in values if v.type.dtype is F32 and (v.type.rank or 0) >= rank]
    recent = fitting[-6:]
    return rng.choice(recent if rng.random() < 0.8 else fitting)


def _binary(rng: random.Random, values: list[Value]) -> Any:
    f = rng.choice([ops.add, ops.sub, ops.mul, ops.maximum, ops.minimum])
    other = _one(rng, values) if rng.random() < 0.8 else np.float32(rng.choice([0.5, 2.0, -1.0]))
    return f(_one(rng, values), other)


def _unary(rng: random.Random, values: list[Value]) -> Any:
    return rng.choice([ops.tanh, ops.relu, ops.sigmoid, ops.neg, ops.abs, ops.erf, ops.identity])(_one(rng, values))


def _reduce(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values, 1)
    axes = rng.sample(range(x.type.rank or 0), rng.randint(1, x.type.rank or 0))
    return rng.choice([ops.sum, ops.mean, ops.max])(x, axes=axes, keepdims=rng.random() < 0.6)


def _transpose(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values, 2)
    return ops.transpose(x, axes=rng.sample(range(x.type.rank or 0), x.type.rank or 0))


def _product(rng: random.Random, values: list[Value]) -> Any:
    a, b = _one(rng, values, 2), _one(rng, values, 2)
    order = [*range((b.type.rank or 0) - 2), (b.type.rank or 0) - 1, (b.type.rank or 0) - 2]
    return ops.matmul(a, ops.transpose(b, axes=order) if rng.random() < 0.7 else b)


def _flatten(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values, 1)
    return ops.reshape(x, rng.choice([(-1,), (0, -1), (-1, 1), (1, -1)]))


def _like(rng: random.Random, values: list[Value]) -> Any:
    """A reshape by dims that another tensor has: shape arithmetic as models export it."""
    x = _one(rng, values, 1)
    shape = ops.shape_of(x)
    first = ops.gather(shape, np.array([0]), axis=0)
    return ops.reshape(x, ops.concat([first, anyshape.constant(np.array([-1]))], axis=0))


def _concat(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values, 1)
    return ops.concat([x, ops.tanh(x), x][: rng.randint(1, 3)], axis=rng.randrange(x.type.rank or 0))


def _slice(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values, 1)
    starts, ends, steps = rng.choice([([0], [2], [1]), ([-2], [9], [1]), ([1], [99], [2]), ([-1], [-99], [-1])])
    return ops.slice(x, starts, ends, axes=[rng.randrange(x.type.rank or 0)], steps=steps)


def _softmax(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values, 1)
    return ops.softmax(x, axis=rng.randrange(x.type.rank or 0))


def _expand(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values)
    return ops.expand_dims(x, axes=[rng.randint(0, x.type.rank or 0)])


def _where(rng: random.Random, values: list[Value]) -> Any:
    x = _one(rng, values)
    return ops.where(ops.greater(x, np.float32(0)), x, _one(rng, values))


STEPS: list[Step] = [_binary, _binary, _unary, _unary, _reduce, _transpose, _product, _flatten, _like, _concat, _slice, _softmax,
                     _expand, _where]  # fmt: skip


def random_function(seed: int, nodes: int) -> anyshape.Function:
    """A function of f32 inputs x[n, m], y[m, 3], z[n] with up to `nodes` steps; what does not type is not taken."""
    rng = random.Random(seed)
    params = [anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[m, 3]"), anyshape.input("z", "f32[n]")]
    weights = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
    values = [*params, anyshape.constant(weights)]
    for _ in range(nodes):
        try:
            value = rng.choice(STEPS)(rng, values)
        except AnyshapeError:
            continue
        if value.type.rank is not None and value.type.rank <= 4:
            values.append(value)
    results = [v for v in values if v.node is not None][-3:] or [ops.identity(params[0])]
    return anyshape.function(params, {f"r{k}": v for k, v in enumerate(results)})


def arguments(n: int, m: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32) for s in ((n, m), (m, 3), (n,))]
