"""What turns collect: the sizes of a stack to which no turn gave any, and stacks for which there is no memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import AnyshapeError, ShapeError
from anyshape.vm.run import arena
from anyshape.vm.run.available import available_memory


def shapes(exe: anyshape.Executable, *arrays: Any) -> list[tuple[int, ...]]:
    return [a.shape for a in exe(*arrays)]


def test_a_stack_of_no_iterations_has_the_sizes_of_a_first_iteration(options: dict[str, Any]) -> None:
    x, k, at = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]"), anyshape.input("at", "i64[1]")

    def iteration(i: Any, kept: Any) -> list[Any]:
        cut = ops.slice(kept, at, [100], [0])
        positive = ops.compress(kept, ops.greater(kept, 0.0), axis=0)
        return [cut, cut, ops.concat([kept, x], axis=0), ops.slice(x, ops.reshape(i, [1]), [100], [0]), positive]

    _, *stacks = control.loop(k, iteration, [x], collects=4)
    exe = anyshape.compile(anyshape.function([x, k, at], stacks), **options)
    five, none = np.ones(5, np.float32), np.ones(0, np.float32)
    assert shapes(exe, five, np.array(1), np.array([2])) == [(1, 3), (1, 10), (1, 5), (1, 5)]
    assert shapes(exe, five, np.array(0), np.array([2])) == [(0, 3), (0, 10), (0, 5), (0, 0)]
    assert shapes(exe, five, np.array(-1), np.array([-1])) == [(0, 1), (0, 10), (0, 5), (0, 0)]
    assert shapes(exe, none, np.array(0), np.array([2])) == [(0, 0), (0, 0), (0, 0), (0, 0)]


def test_a_stack_of_no_iterations_inside_a_iteration(options: dict[str, Any]) -> None:
    """The sizes of the inner stack follow from what the outer loop carries, which is longer in every turn."""
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")

    def outer(_: Any, rows: Any, __: Any) -> list[Any]:
        _, stack = control.loop(k, lambda i, v: [ops.concat([v, x], axis=0), v], [rows], collects=1)
        return [ops.concat([rows, x], axis=0), ops.sum(stack, axes=(0,))]

    _, last = control.loop(3, outer, [x, x])
    exe = anyshape.compile(anyshape.function([x, k], last), **options)
    np.testing.assert_array_equal(exe(np.ones(2, np.float32), np.array(0)), np.zeros(6))
    np.testing.assert_array_equal(exe(np.ones(2, np.float32), np.array(1)), np.ones(6))


def test_a_first_iteration_that_is_refused_gives_sizes_of_at_least_0(options: dict[str, Any]) -> None:
    x, k, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]"), anyshape.input("s", "i64[]")

    def iteration(_: Any, kept: Any) -> list[Any]:
        return [ops.concat([kept, x], axis=0), ops.broadcast_to(0.5, ops.reshape(ops.sub(n, ops.size(kept)), [1]))]

    _, stack = control.loop(k, iteration, [x], collects=1)
    exe = anyshape.compile(anyshape.function([x, k, n], stack), **options)
    five = np.ones(5, np.float32)
    assert exe(five, np.array(1), np.array(7)).shape == (1, 2)
    assert exe(five, np.array(0), np.array(7)).shape == (0, 2)
    assert exe(five, np.array(0), np.array(1)).shape == (0, 0)


def counting(**cond: Any) -> anyshape.Function:
    """Collects a row in each of k turns; `cond` may end it."""
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")

    def iteration(_: Any, row: Any, *again: Any) -> list[Any]:
        return [*again, row, *again, ops.add(row, 1.0)]

    _, *_, rows = control.loop(k, iteration, [x, *cond.values()], collects=1, source="model:Loop_7", **cond)
    return anyshape.function([x, k, *cond.values()], rows)


def test_iterations_for_which_there_is_no_memory_are_refused_before_the_first(options: dict[str, Any]) -> None:
    exe, row = anyshape.compile(counting(), **options), np.ones(5, np.float32)
    assert exe(row, np.array(3)).shape == (3, 5)
    with pytest.raises(
        AnyshapeError, match=r"loop \(model:Loop_7\): collected value 0: cannot allocate 21990232555520 bytes"
    ):
        exe(row, np.array(1 << 40))
    with pytest.raises(
        ShapeError,
        match=r"loop \(model:Loop_7\): more than 140737488355328 iterations are not stacked \(iterations <= 140737488355328 does",
    ):
        exe(row, np.array((1 << 63) - 1))
    assert exe(row, np.array(4)).shape == (4, 5)


def test_a_stack_that_a_condition_ends_grows_as_long_as_there_is_memory(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena, "available_memory", lambda: 1 << 20)
    monkeypatch.setattr(arena, "LOOKED_AT", 1 << 18)
    exe, row = anyshape.compile(counting(cond=anyshape.input("c", "bool[]")), **options), np.ones(5000, np.float32)
    assert exe(row, np.array(3), np.array(True)).shape == (3, 5000)
    assert exe(row, np.array(1 << 40), np.array(False)).shape == (0, 5000)
    with pytest.raises(
        AnyshapeError,
        match=r"loop \(model:Loop_7\): collected value 0: cannot allocate \d+ bytes .* 1048576 are available",
    ):
        exe(row, np.array(1 << 40), np.array(True))


def test_memory_that_is_available_is_the_least_of_the_machine_and_the_group(tmp_path: Any) -> None:
    meminfo, group = tmp_path / "meminfo", tmp_path / "group"
    assert available_memory(meminfo, group) > 1 << 60
    meminfo.write_text("MemTotal:       200 kB\nMemAvailable:   100 kB\nHugePages_Total:       0\n")
    assert available_memory(meminfo, group) == 100 * 1024
    group.mkdir()
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5000\n")
    assert available_memory(meminfo, group) == 100 * 1024
    (group / "memory.max").write_text("9000\n")
    (group / "memory.stat").write_text("anon 4000\ninactive_file 300\n")
    assert available_memory(meminfo, group) == 4300
    (group / "memory.current").write_text("20000\n")
    assert available_memory(meminfo, group) == 0
    assert available_memory() > 0
