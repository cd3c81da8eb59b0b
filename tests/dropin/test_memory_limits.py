"""Limits on memory as onnxruntime's users set them: the same scripts with both, and what sessions here keep and count."""

from __future__ import annotations

import gc
import logging
import re
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import anyshape.onnxruntime as ours
from anyshape.onnxruntime import log
from anyshape.onnxruntime.allocators import _registered
from anyshape.onnxruntime.capi import onnxruntime_pybind11_state as state
from anyshape.onnxruntime.options import RunOptions
from tests.dropin.memory_scripts import (
    EXCEEDS,
    FITS,
    MAX_MEM,
    MEMORY,
    bound,
    in_environment,
    memory_info,
    register,
    run,
    shrinking,
)
from tests.dropin.scripts import CHAIN, SPLIT, X, options, session, typed
from tests.dropin.test_dropin import compare, quiet
from tests.frontends.models import model, node, tensor

__all__ = ["quiet"]
NONZERO = typed(model([node("NonZero", "x", "y")], [tensor("x", ["n"])], "y"), [1, "m"], 7)


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    yield
    _registered.clear()


@pytest.mark.parametrize("name", MEMORY)
def test_a_script_about_memory_does_the_same(name: str) -> None:
    compare(MEMORY[name])


def test_a_refusal_names_the_bytes_the_limit_and_the_largest_size() -> None:
    """A run of the size that is named fits, and a run of one more does not."""
    register(ours)
    s = in_environment(ours)
    with pytest.raises(
        state.Fail, match=rf"batch = {EXCEEDS} needs \d+ bytes .* is {MAX_MEM} \(max_mem\); batch is at most \d+"
    ) as e:
        run(s, EXCEEDS)
    largest = int(str(e.value).split("batch is at most ")[1].split(",")[0])
    assert run(s, largest)[0].shape == (largest, 4)
    with pytest.raises(state.Fail):
        run(s, largest + 1)
    with pytest.raises(state.InvalidArgument, match="dim 1 must be 4"):
        s.run(None, {"x": np.ones((EXCEEDS, 3), np.float32)})


def test_an_empty_batch_fits() -> None:
    register(ours)
    assert run(in_environment(ours), 0)[0].shape == (0, 4)


def test_results_in_memory_of_the_caller_do_not_count() -> None:
    rows = MAX_MEM // 16 - 10  # a result fills the limit, and intermediate values take a little
    with pytest.raises(RuntimeError, match="needs"):
        bound(ours, 2 * rows, place=False)
    np.testing.assert_array_equal(
        bound(ours, 2 * rows, place=True)[0], session(ours).run(None, {"x": np.ones((2 * rows, 4), np.float32)})[0]
    )


@pytest.mark.parametrize(("ones", "fits"), [(FITS, True), (EXCEEDS, True), (1 << 18, False)])
def test_elements_that_decide_the_memory_are_counted(ones: int, fits: bool) -> None:
    """NonZero's result has eight bytes for each element that is not 0."""
    register(ours, 1 << 21)
    s, x = in_environment(ours, NONZERO), np.zeros(1 << 18, np.float32)
    x[:ones] = 1
    for _ in range(2):  # what a run took is given back
        if fits:
            np.testing.assert_array_equal(s.run(None, {"x": x})[0], [np.arange(ones)])
        else:
            with pytest.raises(state.Fail, match=r"needs at least \d+ bytes for intermediate values and results"):
                s.run(None, {"x": x})


def test_lists_are_counted() -> None:
    register(ours)
    s = in_environment(ours, SPLIT)
    assert len(s.run(None, {"x": np.ones((3, FITS), np.float32)})[0]) == 3
    with pytest.raises(state.Fail, match="needs at least"):
        s.run(None, {"x": np.ones((3, EXCEEDS), np.float32)})


def test_ranks_that_a_call_tells_are_counted() -> None:
    shape = model([node("Reshape", "x s", "y")], [tensor("x", ["n"]), tensor("s", ["r"], 7)], "y")
    shape.ir_version = 8
    shape.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", 1, None))
    register(ours)
    s = in_environment(ours, shape)
    feed = {"x": np.ones(4 * FITS, np.float32), "s": np.array([2, -1])}
    assert s.run(None, feed)[0].shape == (2, 2 * FITS)
    with pytest.raises(state.Fail, match="needs at least"):
        s.run(None, {**feed, "x": np.ones(4 * EXCEEDS, np.float32)})


def test_counted_runs_are_stopped_by_their_options() -> None:
    register(ours)
    s, o = in_environment(ours, NONZERO), RunOptions()
    assert s.run(None, {"x": X[0]}, o)[0].shape == (1, 3)
    o.terminate = True
    with pytest.raises(state.Fail, match="terminate flag"):
        s.run(None, {"x": X[0]}, o)


def test_sessions_share_a_limit() -> None:
    """Runs at once of several sessions together have the limit; one at a time, each has all of it."""
    register(ours, 1 << 21)
    allocator = _registered[0]
    a, b = in_environment(ours), in_environment(ours)
    assert run(a, 50_000) and run(b, 50_000)
    assert allocator.reserve(1 << 20, a.executable) is None
    with pytest.raises(state.Fail, match=f"other calls use {1 << 20} of these"):
        run(b, 80_000)
    allocator.reserve(-(1 << 20), a.executable)
    assert run(b, 80_000)


def test_a_limit_holds_from_several_threads() -> None:
    register(ours)
    s, failed = in_environment(ours), []

    def work() -> None:
        for n in (FITS, EXCEEDS) * 20:
            try:
                run(s, n)
            except state.Fail as e:
                failed.append("other calls" in str(e) or f"batch = {n}" in str(e))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(failed) >= 80 and all(failed) and _registered[0].reserve(MAX_MEM, s.executable) is None, (
        "all bytes were given back"
    )


def test_arenas_of_other_sessions_are_released_for_a_run() -> None:
    register(ours, 1 << 24)
    a, b = (in_environment(ours, deep()) for _ in range(2))
    a.run(None, {"x": np.ones((400_000,), np.float32)})
    assert a.executable.memory
    b.run(None, {"x": np.ones((10,), np.float32)})
    assert a.executable.memory, "a small run leaves other arenas"
    b.run(None, {"x": np.ones((2_000_000,), np.float32)})
    assert not a.executable.memory and b.executable.memory


def deep() -> onnx.ModelProto:
    """A cumulative sum of a cumulative sum, which keeps the first in the arena."""
    axis = np.array(0)
    return typed(
        model([node("CumSum", "x a", "s"), node("CumSum", "s a", "y")], [tensor("x", ["n"])], "y", {"a": axis}), ["n"]
    )


def test_arenas_are_released_where_a_run_asks_for_it() -> None:
    """What runs with other options keep is released, too; runs without the entry keep their arenas."""
    s, x = session(ours, deep()), np.ones(100_000, np.float32)
    other = RunOptions()
    s.run(None, {"x": x}, other)
    s.run(None, {"x": x})
    own = other._stoppable[s.executable]
    context = weakref.ref(s.executable.plan._pool._idle[0])  # type: ignore[attr-defined]  # a plan that has a pool
    assert s.executable.memory >= x.nbytes and own.memory >= x.nbytes
    gc.disable()
    try:
        s.run(None, {"x": x}, shrinking(ours))
        assert s.executable.memory == own.memory == 0 and context() is None
    finally:
        gc.enable()
    s.run(None, {"x": x})
    assert s.executable.memory >= x.nbytes


def test_no_arena_is_kept_where_none_is_wanted() -> None:
    x = np.ones(100_000, np.float32)
    without = session(ours, deep(), sess_options=options(ours, enable_cpu_mem_arena=False))
    for o in (None, RunOptions()):
        np.testing.assert_array_equal(without.run(None, {"x": x}, o)[0], session(ours, deep()).run(None, {"x": x})[0])
        assert without.executable.memory == 0
    register(ours, 0, "ORT_DEVICE_ALLOCATOR")
    s = in_environment(ours, deep())
    s.run(None, {"x": x})
    assert s.executable.memory == 0


def test_sessions_without_limits_run_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, and runs with options, do not come to what limits memory."""
    s = session(ours)
    assert s._memory.is_unlimited and s._is_plain
    monkeypatch.setattr(s._memory, "call", None)
    assert (
        s.run(None, {"x": X})
        and s.run(None, {"x": X}, RunOptions())
        and s.run_with_ort_values(None, {"x": ours.OrtValue.ortvalue_from_numpy(X)})
    )
    register(ours)
    assert not in_environment(ours)._memory.is_unlimited


@pytest.mark.parametrize("strategy", [2, 7, -2])
def test_a_strategy_that_there_is_not_is_refused(strategy: int) -> None:
    with pytest.raises(RuntimeError, match="arena_extend_strategy must be -1, 0 or 1"):
        ours.create_and_register_allocator(memory_info(ours), ours.OrtArenaCfg(0, strategy, -1, -1))


def test_what_has_no_effect_is_logged_by_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_named", set())
    with caplog.at_level(logging.WARNING, "anyshape.onnxruntime"):
        for _ in range(2):
            ours.create_and_register_allocator(memory_info(ours), ours.OrtArenaCfg(MAX_MEM, 1, 1024, -1))
            ours.create_and_register_allocator_v2("CPUExecutionProvider", memory_info(ours), {"a": "b"}, None)
            run(in_environment(ours, CHAIN, "1", False), FITS, shrinking(ours))
            session(ours, sess_options=options(ours, enable_mem_reuse=False, enable_mem_pattern=False))
    said = [record.getMessage().partition(" has no effect")[0] for record in caplog.records]
    assert sorted(said) == [
        "OrtArenaCfg.arena_extend_strategy", "OrtArenaCfg.initial_chunk_size_bytes", "SessionOptions.enable_mem_pattern",
        "SessionOptions.enable_mem_reuse", "the option 'a' of an allocator",
    ]  # fmt: skip


def test_the_page_has_the_message() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "onnxruntime.md").read_text().split())
    softmax = [node("Relu", "x", "a"), node("Softmax", "a", "b"), node("Softmax", "b", "c"), node("Softmax", "c", "y")]
    register(ours)
    s = in_environment(ours, typed(model(softmax, [tensor("x", ["n", 256])], "y"), ["n", 256]))
    with pytest.raises(state.Fail) as e:
        s.run(None, {"x": np.ones((600, 256), np.float32)})
    own = re.compile(
        r"(?<=needs )\d+|(?<=is at most )\d+"
    )  # they depend on the processor, and on how many threads it runs
    assert len(own.findall(str(e.value))) == 2
    assert own.sub("#", str(e.value)) in own.sub("#", page)
