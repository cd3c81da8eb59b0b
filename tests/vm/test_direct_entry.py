"""The direct entry of the native loop: what it takes, what it leaves to Python, who owns what, and many threads."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import ADD, DOUBLE, FILL, MUL, PICK, PRODUCT, SHAPE_OF, STATIC_SUM, call

import anyshape
from anyshape.errors import AnyshapeError, ArgumentError, OverflowedError, ShapeError
from anyshape.vm import Executable, compile
from anyshape.vm.compiling.plans import ProgramPlan
from anyshape.vm.native import executor, objects
from anyshape.vm.native.executor import NativeExecutor
from anyshape.vm.run import arena
from tests.in_threads import in_threads
from tests.resident import HANGS

pytestmark = pytest.mark.parametrize("handmade_ops", ["native"], indirect=True)


@pytest.fixture(params=["direct", "turns"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with the direct entry, and as where Python's objects are laid out otherwise."""
    if request.param == "turns":
        monkeypatch.setattr(executor, "_methods", lambda: None)
    return str(request.param)


def add() -> Executable:
    """One thread: with more, the first call of a process goes another way, to start them."""
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]")
    return compile(anyshape.function([x, y], {"sum": call(ADD, x, y), "product": call(MUL, x, y)}), threads=1)


def ones(n: int) -> Any:
    return np.ones(n, np.float32)


def test_this_python_has_the_direct_entry() -> None:
    assert objects.layout_is_as_published() and objects.functions() is not None
    exe = add()
    exe(ones(3), ones(3))  # the first call may have threads to start
    plan = exe.plan
    assert isinstance(plan, ProgramPlan) and plan.direct is not None
    assert plan.direct((ones(3), ones(3))) is not None


def test_arrays_with_a_dtype_object_of_their_own_go_the_same_way() -> None:
    x = pickle.loads(pickle.dumps(ones(3)))
    assert x.dtype is not np.dtype(np.float32)
    exe = add()
    exe(x, x)
    plan = exe.plan
    assert isinstance(plan, ProgramPlan) and plan.direct is not None
    results = plan.direct((x, x))
    assert results is not None
    np.testing.assert_array_equal(results[0], [2, 2, 2])


@pytest.mark.parametrize(
    "arguments",
    [
        (ones(3),),
        (ones(3), ones(3), ones(3)),
        (ones(3), [1, 1, 1]),
        (ones(3), None),
        (ones(3), np.ones(3)),
        (ones(3), np.ones(3, np.dtype(np.float32).newbyteorder())),
        (ones(3), np.ones(3, np.int32)),
        (ones(3), np.ones((3, 1), np.float32)),
        (ones(3), np.ones(6, np.float32)[::2]),
        (ones(3), np.zeros(13, np.uint8)[1:].view(np.float32)),
        (ones(3), ones(3).view(np.matrix)),
        (ones(3), np.float32(1)),
        (ones(3), ones(4)),
        (ones(0), ones(0)),
    ],
)
def test_anything_else_is_left_to_python(arguments: Any) -> None:
    plan = add().plan
    assert plan.direct is not None and plan.direct(arguments) is None


def test_what_python_adapts_is_right(way: str) -> None:
    exe = add()
    odd = np.zeros(13, np.uint8)[1:].view(np.float32)
    for other in ([1, 1, 1], np.ones(6, np.float32)[::2], odd + 1, ones(3).astype(">f4")):
        assert exe(ones(3), other)[0].tolist() == [2, 2, 2]
    assert exe(odd, odd)[0].tolist() == [0, 0, 0]
    assert exe(ones(0), ones(0))[0].shape == (0,)
    with pytest.raises(ShapeError, match="input y: dim 0 must be n = 3, got 4"):
        exe(ones(3), ones(4))


def test_results_belong_to_the_caller_alone(way: str) -> None:
    exe = add()
    x = ones(5)
    held = sys.getrefcount(x)
    for _ in range(50):
        for r in exe(x, x):
            assert sys.getrefcount(r) <= 4 and r.base is None and r.flags.owndata and r.flags.writeable
        with pytest.raises(ShapeError):
            exe(x, ones(4))
    gc.collect()  # an error that was caught holds its arguments
    assert sys.getrefcount(x) == held


COUNTS = """
import gc, sys
import numpy as np
import anyshape
from anyshape import ops
from anyshape.errors import ShapeError
from anyshape.vm.native import executor

if sys.argv[1] == "turns":
    executor._methods = lambda: None
x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]")
exe = anyshape.compile(anyshape.function([x, y], {"sum": ops.add(x, y), "product": ops.mul(x, y)}), threads=1)
assert (exe.plan.direct is None) == (sys.argv[1] == "turns")
x, y = np.ones(5, np.float32), np.ones(4, np.float32)

def counts(calls):
    for _ in range(calls):
        exe(x, x)
        try:
            exe(x, y)
        except ShapeError:
            pass
    gc.collect()
    return [sys.getrefcount(o) for o in (None, x.dtype)]

before = counts(10)
print(*(b - a for a, b in zip(before, counts(1000))))
"""
"""References to what a whole process shares are counted in one of its own: elsewhere, others hold some and let go of them meanwhile."""


@pytest.mark.parametrize("entry", ["direct", "turns"])
def test_calls_neither_keep_nor_drop_references_to_what_all_share(entry: str) -> None:
    command, root = [sys.executable, "-c", COUNTS, entry], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, cwd=root)
    assert done.returncode == 0, done.stderr
    assert all(abs(int(more)) < 100 for more in done.stdout.split())


def test_given_arrays_are_computed_in(way: str) -> None:
    exe = add()
    x, y = ones(4), np.arange(4, dtype=np.float32)
    for _ in range(3):
        a, b = np.zeros(4, np.float32), np.zeros(4, np.float32)
        count = sys.getrefcount(a)
        got = exe.run({"x": x, "y": y}, {"product": b, "sum": a})
        assert got[0] is a and got[1] is b and a.tolist() == [1, 2, 3, 4] and b.tolist() == [0, 1, 2, 3]
        del got
        assert sys.getrefcount(a) == count
    fresh = exe.run({"x": x, "y": y}, {"sum": a})
    assert fresh[0] is a and fresh[1] is not b
    assert exe(x, y)[0] is not a


def test_given_arrays_that_overlap_something(way: str) -> None:
    exe = add()
    memory = np.arange(8, dtype=np.float32)
    got = exe.run({"x": memory[:4], "y": memory[4:]}, {"sum": memory[2:6], "product": np.zeros(4, np.float32)})
    assert got[0].tolist() == [4, 6, 8, 10] and got[1].tolist() == [0, 5, 12, 21]
    strided = np.zeros(8, np.float32)
    exe.run({"x": ones(4), "y": ones(4)}, {"sum": strided[::2]})
    assert strided.tolist() == [2, 0] * 4
    x = np.arange(4, dtype=np.float32)
    assert exe.run({"x": x, "y": x}, {"sum": x})[1].tolist() == [0, 1, 4, 9]
    assert x.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"sum": np.zeros(5, np.float32)},
            r"output sum must be an array of shape \(4,\) and dtype float32, got \(5,\) float32",
        ),
        ({"sum": np.zeros((4, 1), np.float32)}, r"output sum must be an array of shape \(4,\)"),
        ({"sum": np.zeros(4)}, "output sum must be a writable array of dtype float32, got .* float64"),
        ({"sum": [0, 0, 0, 0]}, r"output sum must be a writable array of dtype float32, got \[0, 0, 0, 0\]"),
        ({"q": np.zeros(4)}, "there is no output q; the outputs are sum, product"),
    ],
)
def test_given_arrays_that_do_not_fit(outputs: Any, message: str, way: str) -> None:
    exe = add()
    with pytest.raises(ArgumentError, match=message):
        exe.run({"x": ones(4), "y": ones(4)}, outputs)
    assert exe(ones(4), ones(4))[0].tolist() == [2, 2, 2, 2]


def test_a_read_only_array_cannot_be_given(way: str) -> None:
    place = ones(4)
    place.flags.writeable = False
    with pytest.raises(ArgumentError, match="which is read-only"):
        add().run({"x": ones(4), "y": ones(4)}, {"sum": place})


def test_dlpack_both_ways(way: str) -> None:
    class Foreign:
        def __init__(self, a: Any) -> None:
            self.__dlpack__, self.__dlpack_device__ = a.__dlpack__, a.__dlpack_device__

    x = np.arange(3, dtype=np.float32)
    total, _ = add()(Foreign(x), Foreign(x))
    assert np.from_dlpack(Foreign(total)).tolist() == [0, 2, 4]


def test_sizes_that_appear_late_and_errors_after_kernels(way: str) -> None:
    x, t, i = anyshape.input("x", "f32[]"), anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[2]")
    big = call(FILL, x, call(MUL, call(PICK, t, i), call(PICK, t, i)))
    exe = compile(anyshape.function([x, t, i], {"d": call(DOUBLE, big), "s": call(STATIC_SUM, big, axes=(0,))}))
    one, index = np.array(1, np.float32), np.array([1, -1])
    for n, m in ((2, 3), (20, 10), (0, 2), (1, 1)):
        d, s = exe(one, np.array([9, n, m]), index)
        assert d.shape == (n * n, m * m) and s.tolist() == [n * n] * (m * m)
    with pytest.raises(OverflowedError):
        exe(one, np.array([9, 1 << 40, 1]), index)
    with pytest.raises(ShapeError, match="pick"):
        exe(one, np.array([9, 1, 1]), np.array([1, 7]))
    with pytest.raises(AnyshapeError, match=r"cannot be allocated|cannot allocate"):
        exe(one, np.array([9, 1 << 21, 1 << 5]), index)
    assert exe(one, np.array([9, 1, 1]), index)[0].tolist() == [[2]]


def network() -> Executable:
    x = anyshape.input("x", "f32[n, 16]")
    weights = [np.random.default_rng(k).standard_normal((16, 16)).astype(np.float32) for k in range(4)]
    h = x
    for w in weights:
        h = call(ADD, call(DOUBLE, call(PRODUCT, h, anyshape.constant(w))), x)
    return compile(anyshape.function([x], {"h": h, "s": call(STATIC_SUM, h, axes=(1,)), "d": call(SHAPE_OF, h)}))


def test_sixteen_threads_give_the_serial_results(way: str) -> None:
    exe = network()
    calls = [np.random.default_rng(n).standard_normal((n % 13, 16)).astype(np.float32) for n in range(40)]
    expected = [exe(x) for x in calls]
    wrong: list[int] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(calls))
        for k in order:
            if not all(np.array_equal(g, w) for g, w in zip(exe(calls[k]), expected[k], strict=True)):
                wrong.append(int(k))

    in_threads(work, range(16))
    assert not wrong


def test_kernels_run_without_the_lock() -> None:
    """A second thread gets on while a long kernel runs."""
    x = anyshape.input("x", "f32[n, 64]")
    w = anyshape.constant(np.ones((64, 64), np.float32))
    h = x
    for _ in range(20):
        h = call(PRODUCT, h, w)
    exe = compile(anyshape.function([x], h))
    big = np.zeros((20000, 64), np.float32)
    exe(big)
    iterations, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            iterations[0] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.3)
    try:
        thread = threading.Thread(target=count)
        thread.start()
        before = iterations[0]
        exe(big)
        after = iterations[0]
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert after > before


def test_without_types_there_is_no_direct_entry() -> None:
    plan = add().plan
    assert NativeExecutor(plan.programs[0]).context().call is None


def growing_squares() -> Executable:
    """Compiles a sum of squares whose arena is as large as an argument."""
    x = anyshape.input("x", "f32[n]")
    return compile(anyshape.function([x], call(STATIC_SUM, call(MUL, x, x), axes=(0,))), fuse=False, threads=1)


def test_memory_grows_without_leaving_the_entry() -> None:
    exe = growing_squares()
    plan = exe.plan
    assert isinstance(plan, ProgramPlan) and plan.direct is not None
    for n in (3, 1 << 20, 5, 1 << 21, 1 << 10):
        results = plan.direct((ones(n),))
        assert results is not None and results[0] == n
    assert exe.memory == 4 << 21


def test_memory_that_is_not_to_be_had_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = growing_squares()
    assert exe(ones(1 << 20)) == 1 << 20
    monkeypatch.setattr(arena, "available_memory", lambda: 0)
    with pytest.raises(AnyshapeError, match="cannot allocate 134217728 bytes for intermediate values: 0 are available"):
        exe(ones(1 << 25))
    assert exe(ones(1 << 20)) == 1 << 20
