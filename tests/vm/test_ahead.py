"""Memory for large results is touched before a call needs it, where typical calls have such results."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.types import parse_type
from anyshape.vm import compile
from anyshape.vm.native import ahead, executor
from anyshape.vm.native.ahead import MOST, typical_bytes
from anyshape.vm.native.allocator import store_of
from anyshape.vm.native.allocator_code import LARGE, PIECE
from tests.vm.allocators import ResultAllocator, doubling, ones

pytestmark = pytest.mark.parametrize("handmade_ops", ["native"], indirect=True)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="madvise of Linux")


@pytest.fixture
def store(new_allocators: int) -> ResultAllocator:
    return ResultAllocator(store_of(new_allocators))


def touched(store: ResultAllocator) -> int:
    return store.waiting() + store.out()


def expect(size: int) -> bool:
    """Whether a thread was needed, once it is done."""
    ahead = executor._ahead()
    assert ahead is not None
    thread = ahead.expect(size)
    if thread is not None:
        thread.join()
    return thread is not None


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@LINUX
def test_memory_is_there_once_and_stays(store: ResultAllocator) -> None:
    before = resident()
    assert expect(8 * PIECE)
    if touched(store) < PIECE:
        pytest.skip("a system that has no such call, or too little memory")
    assert touched(store) == 8 * PIECE and resident() - before > 7 * PIECE
    assert not expect(8 * PIECE) and not expect(3 * PIECE)
    assert expect(10 * PIECE)
    assert touched(store) == 10 * PIECE
    assert store.is_whole()


@LINUX
def test_who_waits_for_a_compile_waits_for_memory(store: ResultAllocator, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(ahead, "available_memory", lambda: gate.wait(10) and sys.maxsize)
    x = anyshape.input("x", "f32[n, 10000]")
    exe = compile(anyshape.function([x], ops.add(x, x)), threads=1)
    assert touched(store) < PIECE
    gate.set()
    exe.wait()
    assert not any(t.name == "anyshape-ahead" for t in threading.enumerate())
    assert touched(store) == 10 * PIECE or touched(store) < PIECE


@LINUX
def test_what_a_result_holds_stays_as_it_is(store: ResultAllocator) -> None:
    exe = doubling()
    held = [exe(ones(LARGE // 4) * k) for k in range(3)]
    expect(8 * PIECE)
    assert all(store.has(a) and (a == 2 * k).all() for k, a in enumerate(held))
    del held
    assert store.is_whole()


def test_little_memory_is_left_alone(store: ResultAllocator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "available_memory", lambda: 20 * PIECE)
    expect(8 * PIECE)
    assert touched(store) < PIECE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[4, 8]", 0),
        ("f32[n]", 0),
        ("f32[n, m]", 0),
        ("f32[n, m, 4096]", MOST),
        ("f32[...]", 0),
        ("f32[600, 1000]", 2400000),
        ("f32[n, 10000]", 512 * 40000),
    ],
)
def test_of_typical_results(text: str, expected: int) -> None:
    type_ = parse_type(text)
    assert typical_bytes([type_]) == expected


def test_of_no_results_and_of_several() -> None:
    assert typical_bytes([]) == 0
    part = parse_type("f32[n, 600]")
    assert typical_bytes([part]) == 0
    assert typical_bytes([part] * 20) == 20 * 512 * 2400


@LINUX
def test_a_compiling_model_is_announced(store: ResultAllocator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ahead = executor._ahead()
    assert ahead is not None
    monkeypatch.setattr(type(ahead), "expect", lambda self, size: asked.append(size))
    x = anyshape.input("x", "f32[n, 10000]")
    exe = compile(anyshape.function([x], ops.add(x, x)), threads=1)
    assert asked and set(asked) == {512 * 40000}
    assert (exe(np.ones((2, 10000), np.float32)) == 2).all()
