"""The language model of examples/language_model: words as onnxruntime has them, prompts in blocks, drafts of several words, flat memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.examples.example_files import EXAMPLES, load_example
from tests.resident import LINUX, added

FOLDER = EXAMPLES / "language_model"


builder = load_example("language_model/builder.py", "builder")
attention = load_example("language_model/attention.py", "attention")
model = load_example("language_model/language_model.py", "language_model")
load_example("language_model/timed_words.py", "timed_words")
decoding = load_example("language_model/decoder.py", "decoder")
sessions = load_example("language_model/onnx_sessions.py", "onnx_sessions")
gguf_file = load_example("language_model/gguf_file.py", "gguf_file")
peers = load_example("language_model/peers.py", "peers")
run = load_example("language_model/run.py", "language_model_run")
batching = load_example("language_model/batching.py", "language_model_batching")
TINY = model.SIZES["tiny"]
PROMPT = np.random.default_rng(0).integers(0, TINY.words, (2, 9))


@pytest.fixture(scope="module", params=["int4", "f32"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("language_model") / f"{request.param}.onnx"
    model.build(path, TINY, request.param)
    return path


@pytest.fixture(scope="module")
def loaded(files: Path) -> Any:
    return decoding.loaded(files, 1)[0].run


@pytest.fixture(params=[0, 64], ids=["growing", "with room"])
def decoder(loaded: Any, request: pytest.FixtureRequest) -> Any:
    return decoding.Decoder(loaded, TINY, request.param)


def test_words_are_those_of_onnxruntime(files: Path, decoder: Any) -> None:
    """Scores of all steps, since a word may be another where two scores are all but equal."""
    other = decoding.Decoder(sessions.onnxruntime_run(files, 1), TINY, decoder._room)
    for d in (decoder, other):
        d.begin(2)
    for ids in (PROMPT, *PROMPT.T[:4, :, None]):
        np.testing.assert_allclose(decoder.scores(ids), other.scores(ids), rtol=2e-4, atol=2e-4)


def test_a_cache_that_is_full_grows(loaded: Any) -> None:
    small, large = (decoding.Decoder(loaded, TINY, room) for room in (11, 64))
    want = large.words(PROMPT, 6)[0]
    np.testing.assert_array_equal(small.words(PROMPT, 6)[0], want)
    assert small._caches["keys_0"].shape[2] == 14 and large._caches["keys_0"].shape[2] == 64


def test_a_session_like_onnxruntimes_shares_the_cache(
    files: Path, decoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyshape.onnxruntime

    monkeypatch.setitem(sys.modules, "onnxruntime", anyshape.onnxruntime)
    session = decoding.Decoder(sessions.onnxruntime_run(files, 1), TINY, 64)
    np.testing.assert_array_equal(session.words(PROMPT, 6)[0], decoder.words(PROMPT, 6)[0])
    assert session._caches["values_1"][:, :, 13].any() and not session._caches["values_1"][:, :, 14:].any()


@pytest.mark.parametrize("blocks", [(9,), (4, 5), (1, 7, 1)])
def test_a_prompt_in_blocks_is_the_whole_prompt(blocks: tuple[int, ...], decoder: Any) -> None:
    decoder.begin(2)
    whole = decoder.scores(PROMPT)
    decoder.begin(2)
    parts = [decoder.scores(ids) for ids in np.split(PROMPT, np.cumsum(blocks)[:-1], axis=1)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-4, atol=1e-4)


def test_scores_of_a_draft_depend_on_what_is_before_each_word_alone(decoder: Any) -> None:
    """What a draft of several words is checked by in one step; other words before it must change them."""
    decoder.begin(2)
    one, other = decoder.scores(PROMPT), PROMPT.copy()
    other[:, 6:] = (other[:, 6:] + 1) % TINY.words
    decoder.begin(2)
    changed = decoder.scores(other)
    np.testing.assert_allclose(changed[:, :6], one[:, :6], rtol=1e-4, atol=1e-4)
    assert np.abs(changed[:, 6:] - one[:, 6:]).max() > 0.1


@pytest.mark.parametrize(("wrong", "calls"), [(0, 7), (1, 30), (3, 11)])
def test_words_with_drafts_are_those_without(
    wrong: int, calls: int, decoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts of four that are right, whose first word is wrong, or whose third one is: of a step's words those before it count, and one."""
    prompt = PROMPT[:1]
    words = decoder.words(prompt, 30)[0]
    whole = [*prompt[0].tolist(), *words[0].tolist()]

    def draft(text: list[int], most: int) -> list[int]:
        after = whole[len(text) : len(text) + most]
        return [(w + 1) % TINY.words if k == wrong - 1 else w for k, w in enumerate(after)]

    assert decoder.drafted(prompt, 30, 4)[0].tolist() == words.tolist()
    monkeypatch.setattr(decoding, "continuation", draft)
    assert decoder.drafted(prompt, 30, 0)[1] == 30
    drafted, used = decoder.drafted(prompt, 30, 4)
    assert (drafted.tolist(), used) == (words.tolist(), calls)
    assert decoder._length == prompt.size + 29


def test_a_draft_is_what_followed_the_last_two_words() -> None:
    assert decoding.continuation([5, 6, 7, 8, 5, 6], 2) == [7, 8] and decoding.continuation([5, 6, 7, 8, 5, 6], 9) == [
        7,
        8,
        5,
        6,
    ]
    assert decoding.continuation([1, 2, 3, 1, 2, 4, 1, 2], 1) == [4]  # the last place counts
    assert decoding.continuation([1, 2, 3], 4) == decoding.continuation([1], 4) == []


def are_likeliest(decoder: Any, prompt: Any, words: list[int]) -> bool:
    """Whether each word is the likeliest after the prompt and the words before it, alone: or all but so, since sums of several rows may be
    rounded otherwise than those of one."""
    decoder.begin(1)
    scores = decoder.scores(np.array([[*prompt, *words[:-1]]]))[0, len(prompt) - 1 :]
    return bool((scores[np.arange(len(words)), words] > scores.max(axis=1) - 1e-3).all())


@pytest.mark.parametrize(("slots", "block"), [(1, 64), (3, 64), (3, 5), (20, 1)])
def test_requests_decoded_together_get_their_own_words(loaded: Any, slots: int, block: int) -> None:
    """Requests of unequal lengths join and leave between steps; each gets what it gets alone."""
    requests = batching.requests_of(TINY, 9)
    batch = batching.ContinuousBatch(loaded, TINY, slots, 192, block)
    for r in requests[:5]:
        batch.add(r)
    for _ in range(7):
        batch.step()
    for r in requests[5:]:
        batch.add(r)
    while batch.step():
        pass
    alone = decoding.Decoder(loaded, TINY, 192)
    for r in requests:
        assert len(r.words) == r.count and are_likeliest(alone, r.prompt, r.words)
    changed = [(w + 1) % TINY.words for w in requests[0].words]
    assert not are_likeliest(alone, requests[0].prompt, changed)
    if slots == 3 and block == 64:
        assert batch.steps < sum(r.count for r in requests)


@pytest.mark.parametrize(("prompt", "count"), [(150, 60), (0, 3), (3, 0)])
def test_a_request_that_has_no_room_is_refused(loaded: Any, prompt: int, count: int) -> None:
    batch = batching.ContinuousBatch(loaded, TINY, 2, 192)
    with pytest.raises(ValueError, match=f"a prompt of {prompt} words and {count} more"):
        batch.add(batching.Request(np.zeros(prompt, np.int64), count))


BEFORE = """
import sys; sys.path.insert(0, {folder!r})
import numpy as np, decoder as decoding, language_model, pathlib
size = language_model.SIZES["tiny"]
decoder = decoding.Decoder(decoding.loaded(pathlib.Path({file!r}), 1)[0].run, size, {room})
prompt = np.ones((1, 9), np.int64)
decoder.words(prompt, 20)
"""


@pytest.mark.parametrize("room", [0, 4000])
@pytest.mark.skipif(not LINUX, reason="the system does not tell how much memory is resident")
def test_memory_is_that_of_the_cache(files: Path, room: int) -> None:
    """Words after a prompt add their keys and values, with room ahead of them, and nothing else."""
    count = 2000 if os.environ.get("ANYSHAPE_LONG") else 200
    cache = sum(a.nbytes for a in model.Cache().arrays(TINY, 1, count).values())
    before = BEFORE.format(folder=str(FOLDER), file=str(files), room=room)
    assert added(before, f"decoder.words(prompt, {count})") < 4 * cache + (4 << 20)


def test_bytes_of_weights_are_those_of_the_file(files: Path) -> None:
    read = model.build(files, TINY, files.stem)
    kept = (files.parent / f"{files.name}.weights").stat().st_size
    table = TINY.words * TINY.width * 4 + TINY.longest * TINY.head * 4
    assert read <= kept - table < read + 20_000
