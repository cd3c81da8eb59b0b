"""Hooks of calls: what they are told, of every way into an executable; and that without one a call is what it was."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import AnyshapeError, ArgumentError, Cancelled, DeadlineExceeded, DtypeError, ShapeError
from anyshape.vm.executable.hooks import CallRecord
from tests.in_threads import in_threads


def doubled() -> anyshape.Executable:
    x, y = anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[m]")
    return anyshape.compile(anyshape.function([x, y], ops.add(x, y)))


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_a_hook_is_called_for_every_way_to_call() -> None:
    exe, records = doubled(), list[CallRecord]()
    exe.on_call(records.append)
    exe(ones(2, 3), ones(3))
    exe(x=ones(4, 3), y=ones(3))
    exe.run({"x": ones(5, 3), "y": ones(3)})
    exe.run({"x": ones(6, 3), "y": ones(3)}, outputs={"output0": ones(6, 3)})
    exe.run({"x": ones(7, 3), "y": ones(3)}, deadline=100)
    exe(ones(16, 3)[::2], ones(3))  # copied first
    exe(ones(0, 3), ones(3))  # by the general program
    assert [r.dims for r in records] == [{"n": n, "m": 3} for n in (2, 4, 5, 6, 7, 8, 0)]
    assert {r.model for r in records} == {"main"} and {r.error for r in records} == {None}
    assert all(0 <= r.seconds < 100 and r.arena_bytes >= 0 for r in records)


def test_errors_are_reported_and_raised() -> None:
    exe, records = doubled(), list[CallRecord]()
    exe.on_call(records.append)
    with pytest.raises(ShapeError):
        exe(ones(2, 3), ones(4))
    with pytest.raises(DtypeError):
        exe(ones(2, 3), np.ones(3))
    with pytest.raises(ArgumentError):
        exe(ones(2, 3))
    assert [type(r.error) for r in records] == [ShapeError, DtypeError, ArgumentError]
    assert [r.dims for r in records] == [{"n": 2, "m": 3}, {}, {}]
    assert exe(ones(1, 1), ones(1)) == 2 and records[-1].error is None


def test_a_call_that_is_stopped_is_reported() -> None:
    trip, x = anyshape.input("trip", "i64[]"), anyshape.input("x", "f32[k]")
    (y,) = control.loop(trip, lambda _, s: [ops.add(s, 1.0)], [x])
    exe, records = anyshape.compile(anyshape.function([trip, x], y)), list[CallRecord]()
    exe.on_call(records.append)
    with pytest.raises(DeadlineExceeded):
        exe.run({"trip": np.array(2**62), "x": ones(3)}, deadline=0.05)
    assert isinstance(records[0].error, Cancelled) and records[0].seconds >= 0.05 and records[0].dims == {"k": 3}


def test_what_a_hook_raises_is_logged_and_the_other_hooks_are_called(caplog: pytest.LogCaptureFixture) -> None:
    exe, records = doubled(), list[CallRecord]()

    def broken(record: CallRecord) -> None:
        raise ZeroDivisionError("of the hook")

    with exe.on_call(broken), exe.on_call(records.append), caplog.at_level(logging.ERROR, "anyshape.calls"):
        assert exe(ones(1, 1), ones(1)) == 2
    assert len(records) == 1 and "main: a hook raised an error" in caplog.text and "of the hook" in caplog.text


def test_a_hook_that_is_interrupted_interrupts() -> None:
    exe = doubled()

    def interrupt(record: CallRecord) -> None:
        raise KeyboardInterrupt

    with exe.on_call(interrupt), pytest.raises(KeyboardInterrupt):
        exe(ones(1, 1), ones(1))
    assert exe(ones(1, 1), ones(1)) == 2


def test_without_hooks_a_call_is_the_plans_own_entry() -> None:
    exe, records = doubled(), list[CallRecord]()
    before = exe._direct, exe._bind, exe._run
    assert before == (exe.plan.direct, exe.signature.bind, exe.plan.run)
    first, second = exe.on_call(records.append), exe.on_call(records.append)
    exe(ones(1, 1), ones(1))
    first.remove()
    first.remove()
    exe(ones(1, 1), ones(1))
    assert len(records) == 3
    second.remove()
    exe(ones(1, 1), ones(1))
    assert len(records) == 3 and (exe._direct, exe._bind, exe._run) == before


def test_threads_come_and_go_with_hooks() -> None:
    exe, counts = doubled(), [0] * 8
    lock = threading.Lock()

    def work(k: int) -> None:
        def count(record: CallRecord) -> None:
            if record.dims["n"] == k + 1:
                with lock:
                    counts[k] += 1

        for _ in range(50):
            with exe.on_call(count):
                np.testing.assert_array_equal(exe(ones(k + 1, 2), ones(2)), np.full((k + 1, 2), 2))

    in_threads(work, range(8))
    assert counts == [50] * 8 and exe._direct == exe.plan.direct


def test_a_saved_model_has_hooks_and_its_first_check(tmp_path: Path) -> None:
    doubled().save(tmp_path / "m")
    exe, records = anyshape.load(tmp_path / "m"), list[CallRecord]()
    with exe.on_call(records.append):
        exe(ones(2, 3), ones(3))
        exe(ones(3, 3), ones(3))
    assert [r.dims["n"] for r in records] == [2, 3] and exe._direct == exe.plan.direct


def test_names_that_no_input_has_alone_are_left_out() -> None:
    x, y = anyshape.input("x", "f32[2 * n, ?, 5]"), anyshape.input("y", "f32[q]")
    exe, records = anyshape.compile(anyshape.function([x, y], [ops.neg(x), ops.neg(y)])), list[CallRecord]()
    exe.on_call(records.append)
    exe(ones(4, 3, 5), ones(7))
    assert records[0].dims == {"q": 7}


class Hostile:
    """An argument of which nothing can be asked."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("no shape")


def test_arguments_of_any_kind_are_refused_as_without_a_hook() -> None:
    exe, records = doubled(), list[CallRecord]()
    exe.on_call(records.append)
    for argument in (Hostile(), None, "text", [[1, 2], [3]], object, np.ones(3, object)):
        with pytest.raises(AnyshapeError):
            exe(argument, ones(3))
        with pytest.raises(AnyshapeError):
            exe.run({"x": argument, "y": ones(3)})
    assert len(records) == 12 and all(isinstance(r.error, AnyshapeError) and r.dims == {} for r in records)
