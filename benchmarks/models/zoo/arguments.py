"""Seeded arguments for the zoo's models, several shapes each.

In: the name of a model. Out: `calls(name)`, dicts of arrays by input name, among them the least sizes that make sense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
WORDS = 100


def _floats(rng: Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)


def _tokens(rng: Generator, batch: int, length: int) -> Arrays:
    """Ids and a mask with padding in the first row."""
    mask = np.ones((batch, length), np.int64)
    mask[0, length // 2 + 1 :] = 0
    return {"ids": rng.integers(0, WORDS, (batch, length)), "mask": mask}


def _translation(rng: Generator, batch: int, length: int, written: int) -> Arrays:
    return {**_tokens(rng, batch, length), "decoded": rng.integers(0, WORDS, (batch, written))}


def step(rng: Generator, layers: int, heads: int, width: int, batch: int, length: int, past: int) -> Arrays:
    """`length` new words of a decoder after `past` old ones."""
    cache = {
        f"{kind}{k}": _floats(rng, batch, heads, past, width) for k in range(layers) for kind in ("keys", "values")
    }
    positions = np.tile(np.arange(past, past + length), (batch, 1))
    mask = np.ones((batch, past + length), np.int64)
    return {"ids": rng.integers(0, WORDS, (batch, length)), "mask": mask, "positions": positions, **cache}


def _lengths(rng: Generator, batch: int, length: int) -> Arrays:
    """Longest first, as packed sequences are."""
    lengths = np.sort(rng.integers(1, length + 1, batch))[::-1].astype(np.int64)
    lengths[0] = length
    return {"ids": rng.integers(0, WORDS, (batch, length)), "lengths": lengths.copy()}


def _graph(rng: Generator, nodes: int, edges: int) -> Arrays:
    return {"x": _floats(rng, nodes, 8), "edges": rng.integers(0, nodes, (2, edges))}


def _written(rng: Generator, batch: int, count: int) -> Arrays:
    return {"start": rng.integers(0, 50, batch), "count": np.array(count, np.int64)}


def _image(rng: Generator, batch: int, height: int, width: int) -> Arrays:
    return {"x": _floats(rng, batch, 3, height, width)}


IMAGES = [(1, 64, 64), (3, 48, 80), (2, 33, 47)]
MAKERS: dict[str, tuple[Callable[..., Arrays], list[tuple[int, ...]]]] = {
    "bert": (_tokens, [(2, 7), (1, 1), (5, 33)]),
    "gpt2": (lambda rng, *sizes: step(rng, 4, 4, 64, *sizes), [(2, 3, 5), (1, 1, 0), (3, 1, 40)]),
    "llama": (lambda rng, *sizes: step(rng, 2, 2, 8, *sizes), [(2, 3, 5), (1, 1, 0), (3, 1, 40)]),
    "t5": (_translation, [(2, 7, 4), (1, 20, 1), (3, 33, 12)]),
    "vit": (_image, [(2, 32, 48), (1, 64, 40), (3, 32, 32)]),
    "swin": (_image, [(2, 32, 32), (3, 32, 32), (1, 32, 32)]),
    "whisper": (lambda rng, batch: {"x": _floats(rng, batch, 16, 100)}, [(2,), (1,), (5,)]),
    "resnet": (_image, IMAGES),
    "mobilenet": (_image, IMAGES),
    "unet": (_image, [(2, 32, 32), (1, 40, 56), (3, 8, 12)]),
    "detector": (_image, IMAGES),
    "lstm": (_lengths, [(3, 6), (1, 1), (5, 17)]),
    "gru": (_lengths, [(3, 6), (1, 1), (5, 17)]),
    "greedy": (_written, [(2, 4), (3, 9), (1, 1)]),
    "experts": (lambda rng, *sizes: {"x": _floats(rng, *sizes, 16)}, [(2, 5), (1, 1), (3, 17)]),
    "graph_network": (_graph, [(6, 11), (50, 300), (1, 1)]),
    "tf_attention": (
        lambda rng, *sizes: {"ids": rng.integers(0, WORDS, sizes, dtype=np.int32)},
        [(2, 7), (1, 1), (5, 33)],
    ),
    "tf_pyramid": (lambda rng, *sizes: {"x": _floats(rng, *sizes, 3)}, [(2, 16, 16), (1, 9, 14), (3, 30, 21)]),
}


def calls(name: str) -> list[Arrays]:
    """Draws the arguments of some calls of a model, or of one of its other exports."""
    maker, shapes = MAKERS[name.removesuffix("_dynamo")]
    return [maker(np.random.default_rng([k, *shape]), *shape) for k, shape in enumerate(shapes)]
