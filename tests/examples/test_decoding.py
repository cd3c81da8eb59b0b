"""The decoding loop of examples/decoding against the same loop in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from tests.examples.example_files import load_example

run = load_example("decoding/run.py", "decoding_run")


@pytest.fixture(scope="module")
def model() -> anyshape.Executable:
    return anyshape.compile(run.decoder())


def _next(tokens: list[int]) -> int:
    q, k, v = np.split(run.EMBED[tokens] @ run.QKV, 3, axis=-1)
    scores = q[-1] @ k.T / np.sqrt(run.WIDE)
    seen = np.exp(scores - scores.max())
    return int(np.argmax(seen / seen.sum() @ v @ run.OUT))


@pytest.mark.parametrize("length", [1, 2, 5, 40])
def test_says_what_numpy_says(model: anyshape.Executable, length: int) -> None:
    prompt = np.random.default_rng(length).integers(1, run.WORDS, length)
    said, rows = model(prompt)
    tokens = [int(t) for t in prompt]
    while (token := _next(tokens)) != run.END and len(tokens) < length + 30:
        tokens.append(token)
    assert said[:30].tolist() == tokens[length:]
    assert rows.tolist() == [length + len(said), run.WIDE]


def test_no_prompt_is_refused(model: anyshape.Executable) -> None:
    with pytest.raises(anyshape.errors.AnyshapeError):
        model(np.zeros(0, np.int64))


def test_its_report_names_what_the_loop_carries(model: anyshape.Executable) -> None:
    assert "a size of keys within loop, which its iterations decide" in str(model.report)
