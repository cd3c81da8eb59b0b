"""Kernels shared between threads: the same bits, the same errors, no matter who runs which part or whether anybody comes to help."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops, processors
from anyshape.errors import AnyshapeError, ArgumentError, ShapeError
from anyshape.lower.gemm.library import resolve  # noqa: F401  loaded before a fork
from anyshape.vm.compiling import kernels
from anyshape.vm.compiling.executors import make_executor
from anyshape.vm.native import pool as pool_module
from anyshape.vm.native.executor import NativeExecutor, once
from anyshape.vm.native.executor import _pool as pool_of_process
from anyshape.vm.native.pool import usable_threads
from anyshape.vm.native.pool_layout import Line, PoolWord, place
from anyshape.vm.program.table import Op
from tests.in_threads import in_threads
from tests.resident import HANGS
from tests.threads.native_pool import KERNEL, share, words, working_pool

RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((96, 64)).astype(np.float32)
SHAPES = ((1, 96), (3, 96), (64, 96), (257, 96), (0, 96), (64, 96))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Calls of a few rows are shared, so that the tests are fast, and by as many threads as are asked for, be there processors or not;
    and kernels are machine code whatever else runs here."""
    monkeypatch.setattr(kernels, "CYCLES_PER_PART", 16)
    monkeypatch.setattr(pool_module, "usable_threads", lambda: 8)
    monkeypatch.setenv("ANYSHAPE_KERNELS", "native")
    monkeypatch.delenv("ANYSHAPE_LOOP", raising=False)


def model() -> anyshape.Function:
    x = anyshape.input("x", "f32[n, 96]")
    h = ops.tanh(ops.matmul(x, anyshape.constant(WEIGHTS)))
    return anyshape.function([x], [ops.softmax(h), ops.sum(ops.transpose(h, axes=[1, 0]), axes=[1])])


def bits(f: anyshape.Executable, shape: tuple[int, ...]) -> list[bytes]:
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return [a.tobytes() for a in f(x)]


@pytest.mark.parametrize("threads", [2, 3, 4, 7])
def test_results_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    f = model()
    alone, shared = anyshape.compile(f, threads=1), anyshape.compile(f, threads=threads)
    (program, *_) = shared.plan.programs
    assert any(op is Op.SHARE for _, op, _ in program.instructions())
    for shape in SHAPES:
        assert bits(alone, shape) == bits(shared, shape), shape
    assert pool_of_process().workers >= threads - 1


def test_python_runs_a_shared_program_in_one_part() -> None:
    f = model()
    native = anyshape.compile(f, threads=4)
    assert bits(anyshape.compile(f, loop="python"), (64, 96)) == bits(native, (64, 96))


def test_a_saved_model_is_loaded_for_any_number_of_threads(tmp_path: Path) -> None:
    f = anyshape.compile(model(), threads=1)
    f.save(tmp_path / "m")
    assert bits(anyshape.load(tmp_path / "m", threads=3), (64, 96)) == bits(f, (64, 96))


def test_the_lowest_part_that_fails_is_the_one_that_is_reported() -> None:
    """An index that is out of bounds in several parts, and in one alone: as many threads tell what one does."""
    x, i = anyshape.input("x", "f32[n]"), anyshape.input("i", "i64[m]")
    f = anyshape.function([x, i], ops.gather(x, i))
    for threads in (1, 4):
        exe = anyshape.compile(f, threads=threads)
        for wrong in ([5], [190_000], [5, 100_000, 190_000], range(200_000)):
            index = np.zeros(200_000, np.int64)
            index[list(wrong)] = 77
            with pytest.raises(ShapeError) as error:
                exe(np.zeros(10, np.float32), index)
            assert str(error.value).endswith(f": index[{min(wrong)}] = 77)")
        assert exe(np.arange(10, dtype=np.float32), np.full(200_000, 3))[-1] == 3


def test_many_callers_at_once() -> None:
    """One of them has the pool; the others do their work alone."""
    exe = anyshape.compile(model(), threads=4)
    want = {shape: bits(exe, shape) for shape in SHAPES}
    wrong: list[tuple[int, ...]] = []

    def calls(seed: int) -> None:
        for k in np.random.default_rng(seed).integers(0, len(SHAPES), 200):
            if bits(exe, SHAPES[k]) != want[SHAPES[k]]:
                wrong.append(SHAPES[k])

    in_threads(calls, range(16))
    assert not wrong


def test_pauses_between_calls_put_workers_to_sleep_and_wake_them() -> None:
    exe = anyshape.compile(model(), threads=3)
    want = bits(exe, (257, 96))
    pause = threading.Event()
    for k in range(60):
        pause.wait(0.0005 * (k % 4))
        assert bits(exe, (257, 96)) == want


def _in_child(want: list[bytes], exe: anyshape.Executable) -> None:
    assert pool_of_process().workers == 0
    assert bits(exe, (257, 96)) == want and bits(exe, (257, 96)) == want
    assert pool_of_process().workers >= 1
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    exe = anyshape.compile(model(), threads=2)
    want = bits(exe, (257, 96))
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(want, exe))
    child.start()
    child.join(HANGS)
    assert child.exitcode == 0
    assert bits(exe, (257, 96)) == want


def test_a_process_with_workers_ends_cleanly() -> None:
    script = (
        "import numpy as np, anyshape\n"
        "from anyshape import ops\n"
        "x = anyshape.input('x', 'f32[n, 64]')\n"
        "f = anyshape.compile(anyshape.function([x], ops.tanh(x)), threads=4)\n"
        "print(f(np.ones((5000, 64), np.float32)).shape)\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANGS)
        assert (done.returncode, done.stdout, done.stderr) == (0, "(5000, 64)\n", "")


@pytest.mark.skipif(
    not 2 <= len(os.sched_getaffinity(0)) <= 62, reason="one processor, or more than a pool has threads"
)
def test_workers_keep_off_the_callers_processor_as_long_as_there_are_enough_others() -> None:
    script = (
        "import os, threading, numpy as np, anyshape\n"
        "from anyshape import ops\n"
        "from anyshape.vm.native import pool\n"
        "pool.usable_threads = lambda: 64\n"
        "x = anyshape.input('x', 'f32[n, 64]')\n"
        "here = os.sched_getaffinity(0)\n"
        "def avoided():\n"
        "    ids = [t.native_id for t in threading.enumerate() if t.name.startswith('anyshape-')]\n"
        "    return len(ids), {len(here - os.sched_getaffinity(i)) for i in ids}\n"
        "for threads, wanted in ((2, 1), (len(here) + 2, 0)):\n"
        "    f = anyshape.compile(anyshape.function([x], ops.tanh(x)), threads=threads)\n"
        "    for turn in range(2000):\n"  # workers that are brought to their caller, beside other work, are not away from it for two calls
        "        f(np.ones((5000, 64), np.float32))\n"
        "        if turn > 200 and avoided() == (threads - 1, {wanted}):\n"
        "            break\n"
        "    print(avoided() == (threads - 1, {wanted}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANGS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n", "")


def test_where_no_thread_can_be_started_the_call_is_done_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoMore(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool_module.threading, "Thread", NoMore)
    pool = pool_module.Pool(lambda address: None, lambda address: None)
    pool.ensure(4)
    assert pool.workers == 0


def test_a_worker_that_ends_late_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load a worker may not see within the time that it is to end. It is told so still, and nobody takes its place meanwhile."""
    seen = threading.Event()
    monkeypatch.setattr(pool_module, "_LONGEST", 0.01)
    pool = pool_module.Pool(lambda address, number: seen.wait(), lambda address: None)
    pool.ensure(3)
    pool.stop()
    assert pool._words[PoolWord.STOP] == 1 and pool.workers == 2
    pool.ensure(5)
    assert pool.workers == 2
    seen.set()
    monkeypatch.setattr(pool_module, "_LONGEST", HANGS)
    pool.stop()
    assert pool._words[PoolWord.STOP] == 0 and pool.workers == 0
    pool.ensure(2)
    assert pool.workers == 1
    pool.stop()


def test_threads_that_are_first_together_make_one() -> None:
    """What a process has one of: workers live in code that would be unloaded with the one that is not kept."""
    objects: list[object] = []

    @once
    def inner() -> object:
        time.sleep(0.01)
        objects.append(object())
        return objects[-1]

    @once
    def outer() -> tuple[object, object]:
        return inner(), object()

    got: list[Any] = []
    in_threads(lambda make: got.append(make()), [inner, outer] * 4)
    pairs = [g for g in got if isinstance(g, tuple)]
    assert len(objects) == 1 and {*got, *(first for first, _ in pairs)} == {objects[0], *pairs} and len({*pairs}) == 1
    failing = iter((ValueError("no memory"), None))

    @once
    def again() -> int:
        if error := next(failing):
            raise error
        return 7

    with pytest.raises(ValueError, match="no memory"):
        again()
    assert again() == again() == 7


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("parts", [-(2**63), -1, 0, 1, 2, 3, 64, 2**62])
def test_a_kernel_never_runs_no_parts(parts: int, workers: int) -> None:
    """A kernel divides by the number of parts. Nobody comes to help here, so the caller runs all of them."""
    parts_run: list[tuple[int, int]] = []

    def run(scalars: int, buffers: int, scratch: int, part: int, count: int) -> int:
        parts_run.append((part, count))
        return 0

    pool = words()
    pool[PoolWord.WORKERS] = workers
    assert share(pool.ctypes.data, KERNEL(run), parts) == 0
    count = min(max(parts, 1), workers + 1)
    assert sorted(parts_run) == [(part, count) for part in range(count)]


@pytest.mark.parametrize("threads", [1, 4])
def test_sizes_of_zero_divide_nothing(threads: int) -> None:
    """Kernels divide by numbers of blocks, of panels and of batches, which are 0 where a dim is: the process would die of it."""
    a, b = anyshape.input("a", "f32[b, m, k]"), anyshape.input("b", "f32[b, k, n]")
    product = ops.matmul(a, b)
    exe = anyshape.compile(
        anyshape.function([a, b], [product, ops.softmax(ops.matmul(ops.exp(a), b), axis=-1)]), threads=threads
    )
    for batch, m, k, n in itertools.product((0, 1, 5), (0, 1, 70), (0, 1, 33), (0, 1, 40)):
        x, y = np.ones((batch, m, k), np.float32), np.ones((batch, k, n), np.float32)
        first, second = exe(x, y)
        np.testing.assert_array_equal(first, np.full((batch, m, n), k, np.float32))
        np.testing.assert_allclose(second, np.full((batch, m, n), 1 / max(n, 1), np.float32), rtol=1e-6)


def test_as_many_threads_as_the_container_grants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    allowed = len(os.sched_getaffinity(0))
    for text, granted in (
        ("max 100000\n", allowed),
        ("50000 100000\n", 1),
        ("150000 100000\n", min(2, allowed)),
        ("odd", allowed),
    ):
        (tmp_path / "cpu.max").write_text(text)
        monkeypatch.setattr(processors, "_CGROUP_2", tmp_path / "cpu.max")
        usable_threads.cache_clear()
        assert usable_threads() == granted
    monkeypatch.setattr(processors, "_CGROUP_2", tmp_path / "none")
    monkeypatch.setattr(processors, "_CGROUP_1", tmp_path)
    (tmp_path / "cpu.cfs_quota_us").write_text("100000")
    (tmp_path / "cpu.cfs_period_us").write_text("100000")
    usable_threads.cache_clear()
    assert usable_threads() == 1
    monkeypatch.undo()
    usable_threads.cache_clear()


def test_no_more_threads_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads would take turns: eight on two processors took three times as long as one (`benchmarks.oversubscribed`)."""
    monkeypatch.setattr(pool_module, "usable_threads", lambda: 2)
    f = anyshape.compile(model(), threads=7)
    assert f.options.threads == 7 and bits(f, (257, 96)) == bits(anyshape.compile(model(), threads=1), (257, 96))
    executor = make_executor(f.plan.programs[0], f.options, f.input_types)
    assert isinstance(executor, NativeExecutor) and executor._threads == 2


IN_A_SMALL_CONTAINER = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np, anyshape, threading
from anyshape import ops
from anyshape.vm.compiling import kernels
kernels.CYCLES_PER_PART = 16
x = anyshape.input("x", "f32[n, 64]")
for threads in (0, 4):
    f = anyshape.compile(anyshape.function([x], ops.softmax(ops.tanh(x))), threads=threads)
    f(np.ones((5000, 64), np.float32))
print(sum(t.name.startswith("anyshape") for t in threading.enumerate()))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_on_one_processor_of_many_nobody_is_called_for_help() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_SMALL_CONTAINER], capture_output=True, text=True, timeout=HANGS)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_beside_pools_of_others() -> None:
    """Threads of BLAS, and of Python, work in this process at the same time: results are the same, and everybody ends."""
    exe = anyshape.compile(model(), threads=3)
    want = bits(exe, (257, 96))
    stop, products = threading.Event(), []
    a = RNG.standard_normal((300, 300))

    def spin() -> None:
        products.append(float((a @ a)[0, 0]))
        while not stop.is_set():
            products.append(float((a @ a)[0, 0]))

    pool = [threading.Thread(target=spin) for _ in range(3)]
    for t in pool:
        t.start()
    try:
        assert all(bits(exe, (257, 96)) == want for _ in range(50))
    finally:
        stop.set()
        for t in pool:
            t.join()
    assert len(set(products)) == 1


@pytest.mark.parametrize("wrong", [-1, 65, "two", 1.5])
def test_a_number_of_threads_that_cannot_be(wrong: Any) -> None:
    with pytest.raises(
        ArgumentError, match=r"threads must be (a number from 1 to 64, or 0 for all processors|int, got)"
    ):
        anyshape.compile(model(), threads=wrong)


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHAPE_THREADS", "3")
    assert anyshape.compile(model()).options.threads == 3
    monkeypatch.setenv("ANYSHAPE_THREADS", "many")
    with pytest.raises(AnyshapeError, match="ANYSHAPE_THREADS must be a number, got 'many'"):
        anyshape.compile(model())


@pytest.mark.parametrize("parts", [2, 3])
def test_the_owner_runs_all_parts_in_order_when_nobody_comes(parts: int) -> None:
    pool, ran = words(), list[tuple[int, int]]()
    pool[PoolWord.WORKERS] = parts - 1
    for worker in range(parts - 1):
        pool[place(worker, Line.ID)] = (1 << 22) + 1  # more than there can be: nobody is moved

    def run(_scalars: int, _buffers: int, _scratch: int, part: int, count: int) -> int:
        ran.append((part, count))
        return 0

    assert share(pool.ctypes.data, KERNEL(run), parts) == 0
    assert ran == [(part, parts) for part in range(parts)]


def test_a_worker_and_the_owner_run_their_parts_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def meet(_scalars: int, _buffers: int, _scratch: int, _part: int, _parts: int) -> int:
        both.wait(60)
        return 0

    with working_pool() as pool:
        pool.ensure(2)
        assert share(pool.address, KERNEL(meet), 2) == 0
    assert not both.broken


def test_a_pool_that_another_call_owns_is_not_waited_for() -> None:
    exe = anyshape.compile(model(), threads=2)
    want = bits(exe, (257, 96))
    words = pool_of_process()._words
    words[PoolWord.OWNER] = 1
    try:
        assert bits(exe, (257, 96)) == want
    finally:
        words[PoolWord.OWNER] = 0
