"""Exports in several threads at once are what each is alone: LLVM's options and its context are of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import anyshape
from anyshape import ops
from anyshape.lower.llvm.jit import compile_object
from anyshape.lower.target import host_target
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import export, export_target, linking

TARGETS = ("x86-64-v3", "aarch64-linux-gnu")
TEXT = "define i32 @f(i32 %a) {\n  ret i32 %a\n}\n"


def most_at_once(call: Callable[[Callable[[], bytes]], object], threads: int = 3) -> int:
    """Returns how many threads are inside the function that `call` is called with, at most."""
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> bytes:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.05)
        with lock:
            inside -= 1
        return b""

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(call, work) for _ in range(threads)]:
            done.result()
    return most


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], bytes]], object]:
    """Links nothing: calls a function where modules would be linked."""
    monkeypatch.setattr(linking, "_linked", lambda around, kernels, target: around[0]())
    monkeypatch.setattr(linking, "undefined", lambda code: set())
    around: Any = linking.link
    return lambda work: around([work], {}, export_target(TARGETS[0]))


def test_one_thread_links_at_a_time(linked: Callable[[Callable[[], bytes]], object]) -> None:
    assert most_at_once(linked) == 1


def test_threads_that_may_run_at_once_are_noticed() -> None:
    assert most_at_once(lambda work: work()) > 1


def test_no_kernel_is_compiled_while_an_export_is_linked(linked: Callable[[Callable[[], bytes]], object]) -> None:
    compiled = threading.Event()

    def compile_kernel() -> None:
        compile_object(TEXT, host_target())
        compiled.set()

    kernel = threading.Thread(target=compile_kernel)

    def work() -> bytes:
        kernel.start()
        assert not compiled.wait(0.2)
        return b""

    linked(work)
    kernel.join()
    assert compiled.is_set()


def test_objects_of_exports_at_once_are_those_of_each_alone() -> None:
    def object_for(target: str) -> bytes:
        x = anyshape.input("x", "f32[n]")
        f = anyshape.function([x], ops.exp(x))
        return export(f, "model", export_target(target), make_options({"dims": {}})).object

    alone = {target: object_for(target) for target in TARGETS}
    with ThreadPoolExecutor(len(TARGETS)) as pool:
        assert dict(zip(TARGETS, pool.map(object_for, TARGETS))) == alone
