"""`max_memory` of compile: calls beyond it are refused before they run, with what would fit; calls within it are as without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ArgumentError, MemoryLimitExceeded, ShapeError


def softmax(max_memory: Any = None) -> anyshape.Executable:
    x, w = anyshape.input("x", "f32[n, m]"), anyshape.input("w", "f32[m, k]")
    f = anyshape.function([x, w], ops.softmax(ops.matmul(x, w)))
    return anyshape.compile(f, max_memory=max_memory, threads=1)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_a_call_beyond_is_refused_and_one_within_runs() -> None:
    free, limited = softmax(), softmax("64KB")
    small, large = (ones(3, 4), ones(4, 5)), (ones(300, 4), ones(4, 500))
    np.testing.assert_array_equal(limited(*small), free(*small))
    with pytest.raises(MemoryLimitExceeded) as e:
        limited(*large)
    assert re.match(
        r"main: a call with n = 300, m = 4, k = 500 needs \d+ bytes for intermediate values and results, and max_memory is 64000; "
        r"they are 4\*k\*n \+ .*; n may be at most \d+ with the other sizes of this call; k may be at most \d+",
        str(e.value),
    )
    assert limited.memory < 1 << 22, "nothing was allocated for the call"
    np.testing.assert_array_equal(limited(*small), free(*small))


def test_the_sizes_that_the_message_says_are_the_largest() -> None:
    exe = softmax(64000)
    with pytest.raises(MemoryLimitExceeded) as e:
        exe(ones(300, 4), ones(4, 500))
    (n,), (k,) = (re.findall(rf"{name} may be at most (\d+)", str(e.value)) for name in "nk")
    assert exe(ones(int(n), 4), ones(4, 500)).shape == (int(n), 500)
    assert exe(ones(300, 4), ones(4, int(k))).shape == (300, int(k))
    for shape in ((int(n) + 1, 500), (300, int(k) + 1)):
        with pytest.raises(MemoryLimitExceeded):
            exe(ones(shape[0], 4), ones(4, shape[1]))


def test_every_way_to_call_is_limited() -> None:
    exe = softmax(64000)
    large = {"x": ones(300, 4), "w": ones(4, 500)}
    for call in (
        lambda: exe(**large),
        lambda: exe.run(large),
        lambda: exe.run(large, deadline=100),
        lambda: exe(np.ones((300, 8), np.float32)[:, ::2], large["w"]),
    ):
        with pytest.raises(MemoryLimitExceeded):
            call()
    with pytest.raises(ShapeError):
        exe(ones(3, 4), ones(5, 5))


def test_memory_of_the_caller_does_not_count() -> None:
    x = anyshape.input("x", "f32[n]")
    exe = anyshape.compile(anyshape.function([x], ops.exp(x)), max_memory=1000)
    with pytest.raises(MemoryLimitExceeded):
        exe(ones(1000))
    place = ones(1000)
    (result,) = exe.run({"x": ones(1000)}, outputs={"output0": place})
    assert result is place and abs(place[999] - np.e) < 1e-6


def test_an_empty_dim_runs_another_program_within_the_limit() -> None:
    exe = softmax(64000)
    assert exe(ones(0, 4), ones(4, 5)).shape == (0, 5)
    with pytest.raises(MemoryLimitExceeded):
        exe(ones(300, 0), ones(0, 500))


def test_what_elements_decide_is_counted() -> None:
    x = anyshape.input("x", "f32[n]")
    exe = anyshape.compile(anyshape.function([x], ops.nonzero(x)), max_memory="1KB")
    assert exe(ones(3)).shape == (1, 3) and exe(np.zeros(30, np.float32)).shape == (1, 0)
    with pytest.raises(MemoryLimitExceeded, match="elements decide how many"):
        exe(ones(500))
    assert exe(ones(4)).shape == (1, 4)


def test_an_unknown_rank_is_counted() -> None:
    x = anyshape.input("x", "f32[...]")
    exe = anyshape.compile(anyshape.function([x], ops.exp(ops.sum(ops.exp(x), axes=(0,)))), max_memory=2000)
    assert exe(ones(3, 4)).shape == (4,)
    with pytest.raises(MemoryLimitExceeded):
        exe(ones(3, 40, 40))


def test_what_a_loop_collects_is_limited() -> None:
    trip, x = anyshape.input("trip", "i64[]"), anyshape.input("x", "f32[n]")
    _, rows = control.loop(trip, lambda _, s: [ops.add(s, 1.0), s], [x], collects=1)
    exe = anyshape.compile(anyshape.function([trip, x], rows), max_memory=10_000)
    assert exe(np.array(3), ones(100)).shape == (3, 100)
    for trips in (100, 10**10):
        with pytest.raises(MemoryLimitExceeded):
            exe(np.array(trips), ones(100))
    assert exe(np.array(3), ones(100)).shape == (3, 100)


def test_a_model_of_which_no_call_fits_is_refused_when_it_is_compiled() -> None:
    x = anyshape.input("x", "f32[1000]")
    f = anyshape.function([x], ops.exp(x))
    with pytest.raises(MemoryLimitExceeded, match=r"a call needs 4000 bytes .* max_memory is 3999"):
        anyshape.compile(f, max_memory=3999)
    assert anyshape.compile(f, max_memory=4000)(ones(1000)).shape == (1000,)


@pytest.mark.parametrize("most", [0, -1, "", "64", "64 MB", "1e3", "64MX", True, 1.5, "9" * 30, b"1", [1]])
def test_what_a_limit_may_be(most: Any) -> None:
    if most == "64":
        softmax(most)
        return
    with pytest.raises(ArgumentError, match="max_memory must be"):
        softmax(most)


@pytest.mark.parametrize(("text", "number"), [("64MB", 64_000_000), ("1KiB", 1024), ("2GB", 2_000_000_000), ("1TiB", 1 << 40)])  # fmt: skip
def test_units(text: str, number: int) -> None:
    assert softmax(text).options.max_memory == number


def test_a_policy_and_a_limit_exclude_each_other() -> None:
    x = anyshape.input("x", "f32[n]")
    with pytest.raises(ArgumentError, match="exclude each other"):
        anyshape.compile(anyshape.function([x], ops.exp(x)), max_memory=1000, policy="specialised")


def test_a_saved_model_takes_a_limit_and_other_options_keep_it(tmp_path: Path) -> None:
    softmax().save(tmp_path / "m")
    exe = anyshape.load(tmp_path / "m", max_memory="64KB")
    also = anyshape.compile(str(tmp_path / "m"), max_memory="64KB")
    for limited in (exe, also, exe.by(threads=1), exe.by(loop="python"), softmax().by(max_memory=64000)):
        assert limited(ones(3, 4), ones(4, 5)).shape == (3, 5)
        with pytest.raises(MemoryLimitExceeded):
            limited(ones(300, 4), ones(4, 500))
    assert anyshape.load(tmp_path / "m")(ones(300, 4), ones(4, 500)).shape == (300, 500)
