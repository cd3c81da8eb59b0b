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


def _diffused(rng: Generator, batch: int, height: int, width: int, words: int) -> Arrays:
    latents = _floats(rng, batch, 4, height, width)
    return {"x": latents, "step": rng.integers(0, 1000, batch), "text": _floats(rng, batch, words, 24)}


def _wave(rng: Generator, batch: int, samples: int) -> Arrays:
    return {"wave": _floats(rng, batch, samples)}


def _columns(rng: Generator, rows: int) -> Arrays:
    """Rows with gaps."""
    numbers = _floats(rng, rows, 5)
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    return {"numbers": numbers, "categories": rng.integers(0, 30, (rows, 3))}


def _rows(rng: Generator, rows: int) -> Arrays:
    return {"x": _floats(rng, rows, 6)}


def _colours(rng: Generator, rows: int) -> Arrays:
    """Numbers with gaps, and colours of which the model knows some."""
    numbers = _floats(rng, rows, 3)
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    colour = rng.choice(["red", "green", "blue", "mauve"], (rows, 1)).astype(object)
    return {"numbers": numbers, "colour": colour}


def _pixels(rng: Generator, batch: int, height: int, width: int) -> Arrays:
    return {"pixel_values": _floats(rng, batch, 3, height, width)}


def _text(rng: Generator, batch: int, length: int) -> Arrays:
    """What `_tokens` draws, by the names of Hugging Face."""
    tokens = _tokens(rng, batch, length)
    return {"input_ids": tokens["ids"], "attention_mask": tokens["mask"]}


def _captions(rng: Generator, texts: int, length: int, images: int) -> Arrays:
    return {**_text(rng, texts, length), **_pixels(rng, images, 32, 32)}


def _generated(rng: Generator, batch: int, length: int, past: int) -> Arrays:
    """What `step` draws, by the names of Hugging Face."""
    arrays = step(rng, 2, 2, 8, batch, length, past)
    cache = {f"past_key_values.{k}.{kind}": arrays[f"{kind}s{k}"] for k in range(2) for kind in ("key", "value")}
    head = {"input_ids": arrays["ids"], "attention_mask": arrays["mask"], "position_ids": arrays["positions"]}
    return {**head, **cache}


def _crossed(rng: Generator, batch: int, read: int, length: int, past: int) -> Arrays:
    """`length` new words of a decoder after `past` old ones, or the first ones, about `read` words of an encoder."""
    cache = {
        f"past_key_values.{k}.{side}.{kind}": _floats(rng, batch, 4, size, 8)
        for k in range(2)
        for side, size in (("decoder", past), ("encoder", read))
        for kind in ("key", "value")
    }
    return {
        "encoder_attention_mask": np.ones((batch, read), np.int64), "input_ids": rng.integers(3, WORDS, (batch, length)),
        "encoder_hidden_states": _floats(rng, batch, read, 32), "use_cache_branch": np.array([past > 0]),
        "cache_position": np.arange(past, past + length), **cache,
    }  # fmt: skip


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
    "tf_recurrent": (
        lambda rng, *sizes: {"ids": rng.integers(0, WORDS, sizes, dtype=np.int32)},
        [(2, 7), (1, 1), (5, 33)],
    ),
    "tf_search": (lambda rng, rows: {"x": _floats(rng, rows, 8)}, [(4,), (1,), (9,)]),
    "tf_separable": (lambda rng, *sizes: {"x": _floats(rng, *sizes, 3)}, [(2, 16, 16), (1, 9, 14), (3, 30, 21)]),
    "segmenter": (_image, [(2, 48, 64), (1, 33, 20), (3, 16, 16)]),
    "yolo": (_image, [(2, 64, 96), (1, 32, 48), (3, 80, 64)]),
    "denoiser": (_diffused, [(2, 16, 24, 5), (1, 9, 7, 1), (3, 8, 8, 12)]),
    "spectrum": (_wave, [(2, 400), (1, 64), (3, 1111)]),
    "codec": (_wave, [(2, 200), (1, 64), (3, 333)]),
    "columns": (_columns, [(4,), (1,), (33,)]),
    "forecast": (lambda rng, *sizes: {"series": _floats(rng, *sizes)}, [(2, 24, 3), (1, 9, 1), (3, 50, 5)]),
    "chunked": (
        lambda rng, batch, length, chunk: {"x": _floats(rng, batch, length, 8), "chunk": np.array(chunk, np.int64)},
        [(2, 9, 4), (1, 3, 4), (3, 16, 5)],
    ),
    "state_space": (lambda rng, *sizes: {"x": _floats(rng, *sizes, 6)}, [(2, 7), (1, 1), (3, 30)]),
    "sklearn_columns": (_colours, [(4,), (1,), (50,)]),
    "sklearn_neighbours": (_rows, [(4,), (1,), (50,)]),
    "sklearn_gaussian_process": (_rows, [(4,), (1,), (50,)]),
    "sklearn_support_vectors": (_rows, [(4,), (1,), (50,)]),
    "xgboost": (_rows, [(4,), (1,), (50,)]),
    "lightgbm": (_rows, [(4,), (1,), (50,)]),
    "optimum_qwen2": (_generated, [(2, 3, 5), (1, 1, 0), (3, 1, 40)]),
    "optimum_bart": (_crossed, [(2, 7, 3, 5), (1, 4, 1, 0), (3, 9, 1, 20)]),
    "optimum_whisper_decoder": (_crossed, [(2, 7, 1, 5), (1, 4, 1, 1), (3, 50, 1, 20)]),
    "optimum_wav2vec2": (lambda rng, *sizes: {"input_values": _floats(rng, *sizes)}, [(2, 800), (1, 333), (3, 1234)]),
    "optimum_detr": (_pixels, [(2, 64, 96), (1, 48, 40), (3, 32, 32)]),
    "optimum_segformer": (_pixels, [(2, 64, 96), (1, 48, 40), (3, 32, 32)]),
    "optimum_clip": (_captions, [(2, 7, 3), (1, 1, 1), (5, 20, 2)]),
    "optimum_deberta": (_text, [(2, 7), (1, 1), (3, 40)]),
    "optimum_mobilevit": (_pixels, [(2, 64, 64), (1, 128, 64), (3, 64, 128)]),
    "optimum_distilbert": (_text, [(2, 7), (1, 1), (5, 33)]),
}


def calls(name: str) -> list[Arrays]:
    """Draws the arguments of some calls of a model, or of one of its other exports."""
    maker, shapes = MAKERS[name.removesuffix("_dynamo")]
    return [maker(np.random.default_rng([k, *shape]), *shape) for k, shape in enumerate(shapes)]
