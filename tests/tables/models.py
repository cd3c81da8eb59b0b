"""Small models of texts, and rows of unequal lengths for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import anyshape
from anyshape import ops


def text_model() -> anyshape.Function:
    """A model of which rows stay apart: vectors of ids, scaled by weights, and their sum over the length."""
    ids, w = anyshape.input("ids", "i64[batch, length]"), anyshape.input("w", "f32[batch, length]")
    table = anyshape.constant(np.arange(40, dtype=np.float32).reshape(10, 4))
    states = ops.mul(ops.gather(table, ids), ops.static.expand_dims(w, axes=(2,)))
    return anyshape.Function([ids, w], [ops.sum(states, axes=(1,)), states], result_names=["pooled", "states"])


def centred_model() -> anyshape.Function:
    """A model whose rows depend on each other along both dims, so that none may be joined: elements minus the mean of all."""
    x = anyshape.input("x", "f32[batch, length]")
    return anyshape.Function([x], [ops.sub(x, ops.mean(x, axes=(0, 1), keepdims=True))], result_names=["y"])


def columns_of_model() -> anyshape.Function:
    """A model whose batch dim is the second axis of its input."""
    x = anyshape.input("x", "f32[3, n]")
    return anyshape.Function([x], [ops.mul(x, 2.0)], result_names=["y"])


def text_rows(count: int, seed: int = 0, longest: int = 6) -> dict[str, Any]:
    """Columns `ids` and `w` of so many rows, of lengths from 0."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, count)
    return {
        "ids": [rng.integers(0, 10, n) for n in lengths],
        "w": [rng.random(n).astype(np.float32) for n in lengths],
    }
