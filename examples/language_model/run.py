"""Decodes with a language model: what loading, a prompt and each further word take, as a share of what reading the weights would.

    python examples/language_model/run.py [--size tiny|100m|1b] [--weights int4|f32] [--prompt 32] [--words 64] [--threads N]
                                          [--room N] [--draft N] [--beside onnxruntime] [--folder DIR]

The model is written to `--folder` (or a temporary one) and compiled once; the compiled file is then loaded, its weights mapped. One word
of a model that is larger than the caches takes at least the time in which memory gives the weights: that is the limit that is printed. The
cache has room for `--room` words from the beginning: each call gets it and gives it back in the same arrays, and writes only what is new.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from decoder import Arrays, Decoder, Run, loaded  # type: ignore[import-not-found]  # files beside this one
from language_model import SIZES, build  # type: ignore[import-not-found]
from numpy.typing import NDArray

import anyshape
from anyshape import ops


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


def onnxruntime_run(path: Path, threads: int) -> Run:
    """The model in onnxruntime, whose caches are the same memory before and after a step too."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = onnxruntime.OrtValue.ortvalue_from_numpy

    def run(inputs: Arrays, outputs: Arrays) -> list[NDArray[Any]]:
        if not outputs:
            return list(session.run(None, inputs))
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, values(array))
        for result in session.get_outputs():
            if result.name in outputs:
                binding.bind_ortvalue_output(result.name, values(outputs[result.name]))
            else:
                binding.bind_output(result.name)
        session.run_with_iobinding(binding)
        scores, *_ = binding.get_outputs()
        return [scores.numpy(), *outputs.values()]

    return run


def again(decoder: Any, prompt: NDArray[np.int64]) -> float:
    """The least seconds of a prompt that is scored five times more."""
    least = float("inf")
    for _ in range(5):
        decoder.begin(len(prompt))
        start = time.perf_counter()
        decoder.scores(prompt)
        least = min(least, time.perf_counter() - start)
    return least


def show(name: str, of_prompt: float, later: float, seconds: list[float], prompt: int, limit: float) -> str:
    word = float(np.median(seconds))
    return (
        f"{name:<12} prompt of {prompt} words {of_prompt * 1e3:.1f} ms, later ones {later * 1e3:.1f}, "
        f"all words {(of_prompt + sum(seconds)) * 1e3:.1f} ms; a word {word * 1e3:.2f} ms, {1 / word:.1f} words a second, "
        f"{limit / word:.0%} of the rate at which memory gives the weights"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="100m")
    parser.add_argument("--weights", choices=("int4", "f32"), default="int4")
    parser.add_argument("--prompt", type=int, default=32, help="words of the prompt (32)")
    parser.add_argument("--words", type=int, default=64, help="words that are said (64)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--room", type=int, default=1024, help="words that the cache has room for from the beginning (1024)"
    )
    parser.add_argument("--draft", type=int, default=0, help="decode with drafts of up to so many words, too (0)")
    parser.add_argument("--beside", choices=("onnxruntime",), help="decode with this engine too, and compare the words")
    parser.add_argument("--folder", type=Path, help="where the model is written and stays")
    options = parser.parse_args()
    if options.words < 2 or options.prompt < 1:
        parser.error("at least one word of a prompt, and two words to say")
    with tempfile.TemporaryDirectory() as temporary:
        decode(options, options.folder or Path(temporary))


def decode(options: argparse.Namespace, folder: Path) -> None:
    size, path = SIZES[options.size], folder / f"{options.size}_{options.weights}.onnx"
    read = build(path, size, options.weights)
    limit = read / bandwidth(read, options.threads)
    model, compiled, seconds = loaded(path, options.threads)
    print(f"{read / 1e6:.0f} MB of weights; compiled once in {compiled:.1f} s, loaded in {seconds * 1e3:.0f} ms")
    prompt = np.random.default_rng(1).integers(0, size.words, (1, options.prompt))
    decoder = Decoder(model.run, size, options.room)
    said, of_prompt, each = decoder.words(prompt, options.words)
    print(show("anyshape", of_prompt, again(decoder, prompt), each, options.prompt, limit))
    if options.draft:
        start = time.perf_counter()
        drafted, calls = Decoder(model.run, size, options.room).drafted(prompt, options.words, options.draft)
        seconds = time.perf_counter() - start
        print(
            f"with drafts  {drafted.size} words by {calls} calls in {seconds * 1e3:.1f} ms, the prompt included; "
            f"{(said == drafted).sum()} are the same"
        )
    if options.beside:
        run = onnxruntime_run(path, options.threads)
        decoder = Decoder(run, size, options.room)
        other, of_prompt, each = decoder.words(prompt, options.words)
        print(show(options.beside, of_prompt, again(decoder, prompt), each, options.prompt, limit))
        print(f"{(said == other).sum()} of {said.size} words are the same")
    print("ids:", *said[0][:16])


if __name__ == "__main__":
    main()
