"""Other engines that decode with the same weights: onnxruntime, onnxruntime-genai, OpenVINO and llama.cpp.

In: the model's file, and how its cache is kept. Out: what decodes with it. Each engine is a package of its own, which is imported where it
is asked for. onnxruntime runs the file as it is, with any cache. The others have caches of their own kinds: OpenVINO's runtime reads the
file and keeps the cache as its state; onnxruntime-genai gets a folder with the file, whose inputs are those that it passes, and a
configuration; llama.cpp gets the weights as a GGUF file, codes of 4 bits as blocks of Q4_0, which are the same numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from decoder import Decoder, Decoding  # type: ignore[import-not-found]  # files beside this one
from gguf_weights import for_llama_cpp  # type: ignore[import-not-found]
from language_model import Cache, Size  # type: ignore[import-not-found]
from numpy.typing import NDArray
from onnx_sessions import for_genai, onnxruntime_run  # type: ignore[import-not-found]
from timed_words import Words, timed_words  # type: ignore[import-not-found]

INSTALLED_BY = {
    "onnxruntime": "onnxruntime",
    "onnxruntime_genai": "onnxruntime-genai",
    "openvino": "openvino",
    "llama_cpp": "llama-cpp-python",
}


GGML_TYPES = {"f32": 0, "f16": 1, "int8": 8, "bf16": 30}
"""The numbers of element types in llama.cpp, not all of which its Python package names; of 8 bits its blocks of 32 with a scale."""


class PeerError(Exception):
    """An engine that is not installed, or does not keep a cache so."""


@dataclass(frozen=True, kw_only=True)
class PeerModel:
    """What an engine is to decode with. `unsaid`: a word that is not among those to come: where one engine would stop."""

    path: Path
    size: Size
    cache: Cache
    room: int
    threads: int
    unsaid: int
    gguf: Path | None = None
    """The file that the weights come from, if it is one of GGUF."""


def peer(name: str, model: PeerModel) -> Decoding:
    """What decodes by the engine of a name. Raises PeerError where it cannot."""
    return PEERS[name](model)


def _imported(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise PeerError(f"{module} is not there ({e}): pip install {INSTALLED_BY[module]}") from None


def _plain_cache(name: str, model: PeerModel) -> None:
    if model.cache != Cache():
        raise PeerError(
            f"{name} is compared with a cache in f32 of all words, and not with one in {model.cache.dtype} or a window"
        )


def _onnxruntime(model: PeerModel) -> Decoding:
    _imported("onnxruntime")
    return Decoder(onnxruntime_run(model.path, model.threads), model.size, model.room, model.cache)


class _Genai:
    """onnxruntime-genai, whose generators keep the cache; one memory for it before and after a step."""

    def __init__(self, model: PeerModel) -> None:
        _plain_cache("onnxruntime-genai", model)
        self._genai = _imported("onnxruntime_genai")
        folder = for_genai(model.path, model.size, model.room, model.threads, model.unsaid)
        self._model = self._genai.Model(str(folder))
        self._parameters = self._genai.GeneratorParams(self._model)
        self._parameters.set_search_options(max_length=model.room, do_sample=False)

    def words(self, prompt: NDArray[np.int64], count: int) -> Words:
        generator = self._genai.Generator(self._model, self._parameters)

        def likeliest(ids: NDArray[np.int64]) -> int:
            if ids is prompt:
                generator.append_tokens(prompt.astype(np.int32))
            generator.generate_next_token()
            return int(generator.get_next_tokens()[0])

        return timed_words(likeliest, prompt, count)  # type: ignore[no-any-return]


class _OpenVino:
    """OpenVINO's runtime, whose requests keep the cache as their state."""

    def __init__(self, model: PeerModel) -> None:
        _plain_cache("openvino", model)
        openvino = _imported("openvino")
        transformations = importlib.import_module("openvino._offline_transformations")
        read = openvino.Core().read_model(model.path)
        shapes = {i.get_any_name(): i.partial_shape for i in read.inputs}
        one = {name: openvino.PartialShape([1, *list(s)[1:]]) for name, s in shapes.items() if s.rank.get_length()}
        read.reshape(one)
        kept = {name: name.replace("past", "present") for name in shapes if name.startswith("past")}
        transformations.apply_make_stateful_transformation(read, kept)
        options = {
            "INFERENCE_NUM_THREADS": model.threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        self._request = openvino.Core().compile_model(read, "CPU", options).create_infer_request()

    def words(self, prompt: NDArray[np.int64], count: int) -> Words:
        self._request.reset_state()
        length = 0

        def likeliest(ids: NDArray[np.int64]) -> int:
            nonlocal length
            length += ids.shape[1]
            last, total = np.array([length - 1], np.int32), np.array(length, np.int32)
            scores = self._request.infer({"ids": ids, "last": last, "total": total})[0]
            return int(scores[0, -1].argmax())

        return timed_words(likeliest, prompt, count)  # type: ignore[no-any-return]


class _LlamaCpp:
    """llama.cpp through llama-cpp-python, by the functions of its C interface."""

    def __init__(self, model: PeerModel) -> None:
        if model.cache.window:
            raise PeerError("llama.cpp is compared with a cache of all words, and not with a window")
        self._cpp = _imported("llama_cpp")
        dtype = GGML_TYPES[model.cache.dtype]
        weights = str(model.gguf or for_llama_cpp(model.path, model.size))
        self._llama = self._cpp.Llama(
            weights, n_ctx=model.room, n_threads=model.threads, n_threads_batch=model.threads,
            type_k=dtype, type_v=dtype, flash_attn=True, verbose=False,
        )  # fmt: skip
        self._words = model.size.words

    def begin(self) -> None:
        """Empties the cache."""
        self._llama.reset()

    def scores(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of the last of new ids [1, new], which join the cache: [1, 1, words]."""
        self._llama.eval(ids[0].tolist())
        scores = self._cpp.llama_get_logits_ith(self._llama.ctx, -1)
        return np.ctypeslib.as_array(scores, (1, 1, self._words)).copy()

    def words(self, prompt: NDArray[np.int64], count: int) -> Words:
        self.begin()
        return timed_words(lambda ids: int(self.scores(ids).argmax()), prompt, count)  # type: ignore[no-any-return]


PEERS: dict[str, Callable[[PeerModel], Decoding]] = {
    "onnxruntime": _onnxruntime,
    "onnxruntime-genai": _Genai,
    "openvino": _OpenVino,
    "llama.cpp": _LlamaCpp,
}
SCORING = ("onnxruntime", "llama.cpp")
"""Engines that give the scores of words, and keep a cache in any of its types"""
