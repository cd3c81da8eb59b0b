"""Errors of scores by what keys and values are kept in, against float64, beside those of other engines that keep them so.

    python examples/language_model/errors.py [--size tiny] [--prompt 64] [--words 16] [--caches f32 bf16 f16 int8]
                                             [--beside onnxruntime llama.cpp]

Weights are f32, so that nothing but the cache and the order of sums differs. After a prompt of random words, so many more follow one by
one, the same for all; their scores are compared with those of the model with all its arithmetic in f64 and all words at once. What is
printed is the root of the mean square of the differences, as a part of that of the scores. An engine that cannot keep a cache so has none.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from decoder import Decoder  # type: ignore[import-not-found]  # files beside this one
from language_model import SIZES, Cache, Size, build  # type: ignore[import-not-found]
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from peers import SCORING, PeerError, PeerModel, peer  # type: ignore[import-not-found]

import anyshape

CACHES = ("f32", "bf16", "f16", "int8")


class Scoring(Protocol):
    """What scores the words that may follow others, which it keeps in a cache."""

    def begin(self) -> None: ...

    def scores(self, ids: NDArray[np.int64]) -> NDArray[np.float32]: ...


def widened(path: Path, wide: Path) -> None:
    """Writes a model of f32 as one of f64."""
    model = onnx.load(path)
    graph = model.graph
    for array in graph.initializer:
        if array.data_type == TensorProto.FLOAT:
            array.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(array).astype(np.float64), array.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    onnx.save_model(model, wide, save_as_external_data=True, location=f"{wide.name}.weights")


def exact_scores(folder: Path, size: Size, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """The scores of all words at once, in f64: of a cache in a ring that no word leaves, since it is written in operators of any float."""
    cache = Cache(dtype="f32", window=ids.shape[1], ring=True)
    path, wide = folder / "exact.onnx", folder / "wide.onnx"
    build(path, size, "f32", cache=cache)
    widened(path, wide)
    past = {f"past_{n}": a.astype(np.float64) for n, a in cache.arrays(size, 1, 2 * ids.shape[1]).items()}
    count = ids.shape[1]
    sizes = {"last": np.array([count - 1], np.int32), "total": np.array(count, np.int32)}
    results: list[NDArray[Any]] = anyshape.compile(wide).run({"ids": ids, **sizes, **past})
    return results[0]


def scores_by_steps(engine: Scoring, ids: NDArray[np.int64], prompt: int) -> NDArray[np.float32]:
    """The scores after the words behind a prompt, one by one: [1, words, scores]."""
    engine.begin()
    engine.scores(ids[:, :prompt])
    steps = [engine.scores(ids[:, k : k + 1])[:, -1:] for k in range(prompt, ids.shape[1])]
    return np.concatenate(steps, axis=1)


def error(scores: NDArray[Any], exact: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((scores - exact) ** 2) / np.mean(exact**2)))


def errors(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measures the error of each engine with each cache that it has."""
    size = SIZES[options.size]
    ids = np.random.default_rng(1).integers(0, size.words, (1, options.prompt + options.words))
    exact = exact_scores(folder, size, ids)[:, options.prompt :]
    of_caches: dict[str, dict[str, float]] = {}
    for dtype in options.caches:
        cache, path = Cache(dtype=dtype), folder / f"{dtype}.onnx"
        build(path, size, "f32", cache=cache)
        model = PeerModel(path=path, size=size, cache=cache, room=2 * ids.shape[1], threads=1, unsaid=0)
        engines = {"anyshape": Decoder(anyshape.compile(path).run, size, model.room, cache)}
        for name in options.beside:
            try:
                engines[name] = peer(name, model)
            except PeerError as e:
                print(f"{dtype}: {e}")
        of_caches[dtype] = {name: error(scores_by_steps(e, ids, options.prompt), exact) for name, e in engines.items()}
    return of_caches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--prompt", type=int, default=64, help="words of the prompt (64)")
    parser.add_argument("--words", type=int, default=16, help="words that follow one by one (16)")
    parser.add_argument("--caches", choices=CACHES, nargs="+", default=CACHES, help="what keys and values are kept in")
    parser.add_argument("--beside", choices=SCORING, nargs="+", default=[], help="these engines, too")
    options = parser.parse_args()
    if min(options.prompt, options.words) < 1:
        parser.error("at least one word of a prompt, and one that follows")
    names = ("anyshape", *options.beside)
    with tempfile.TemporaryDirectory() as folder:
        measured = errors(Path(folder), options)
    print(" ".join(["cache", *(f"{name:>12}" for name in names)]))
    for dtype, of in measured.items():
        print(" ".join([f"{dtype:5}", *(f"{of[name]:12.2e}" if name in of else f"{'-':>12}" for name in names)]))


if __name__ == "__main__":
    main()
