"""Calls: results at many shapes, arguments of every kind, messages, variants, threads, memory."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest
from handmade import ADD, DOUBLE, FILL, FLATTEN, MUL, PICK, RESHAPE, SHAPE_OF, STATIC_SUM, call

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, ArgumentError, DtypeError, OverflowedError, ShapeError, UnsupportedError
from anyshape.vm import Executable, compile
from anyshape.vm.compiling.uncollected import uncollected
from anyshape.vm.run.arena import MAPPED
from tests.in_threads import in_threads


def model(**options: Any) -> Executable:
    x, y, s = anyshape.input("x", "f32[n, 4]"), anyshape.input("y", "f32[4]"), anyshape.input("s", "i64[2]")
    a = call(ADD, x, y)
    b = call(DOUBLE, a)
    r = call(RESHAPE, b, s, source="model:7")
    results = {"r": r, "t": call(STATIC_SUM, b, axes=(1,)), "shape": call(SHAPE_OF, r), "a": a, "x": x, "again": r}
    return compile(anyshape.function([x, y, s], results), **options)


def reference(x: Any, y: Any, s: Any) -> list[Any]:
    b = (x + y) * 2
    return [b.reshape(s), b.sum(1), np.asarray(s), x + y, x, b.reshape(s)]


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize("fuse", [False, True])
def test_many_shapes_of_one_compile(loop: str, fuse: bool) -> None:
    exe = model(loop=loop, fuse=fuse)
    y = np.arange(4, dtype=np.float32)
    for n in (1, 2, 7, 64, 3):
        x = np.random.default_rng(n).random((n, 4), np.float32)
        got = exe(x, y, np.array([2 * n, 2]))
        for g, w in zip(got, reference(x, y, (2 * n, 2)), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6)
    assert exe.compiled_after_first_call == 0


def test_results_never_share_memory_with_arguments_or_each_other() -> None:
    exe = model()
    x, y = np.ones((2, 4), np.float32), np.ones(4, np.float32)
    got = exe(x, y, np.array([4, 2]))
    pieces = [x, y, *got]
    assert not any(np.shares_memory(p, q) for k, p in enumerate(pieces) for q in pieces[:k])


def test_an_empty_dim_runs_the_general_variant_compiled_when_first_needed() -> None:
    exe = model()
    y = np.zeros(4, np.float32)
    got = exe(np.zeros((0, 4), np.float32), y, np.array([0, 9]))
    assert [g.shape for g in got] == [(0, 9), (0,), (2,), (0, 4), (0, 4), (0, 9)]
    assert exe.compiled_after_first_call == 1
    exe(np.zeros((0, 4), np.float32), y, np.array([5, 0]))
    assert exe.compiled_after_first_call == 1


def test_nothing_is_checked_before_the_assumption_it_was_simplified_by() -> None:
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[max(n, 1)]")
    exe = compile(anyshape.function([x, y], [call(DOUBLE, x), call(DOUBLE, y)]))
    assert [a.shape for a in exe(np.ones(3, np.float32), np.ones(3, np.float32))] == [(3,), (3,)]
    assert [a.shape for a in exe(np.ones(0, np.float32), np.ones(1, np.float32))] == [(0,), (1,)]
    with pytest.raises(ShapeError, match=r"input y: dim 0 must be max\(n, 1\) = 1, got 0"):
        exe(np.ones(0, np.float32), np.ones(0, np.float32))


X, Y, S = np.zeros((3, 4), np.float32), np.zeros(4, np.float32), np.array([6, 2])


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X[:, :3], Y, S), ShapeError, "input x: dim 1 must be 4, got 3"),
        ((X, Y, np.array([6, 3])), ShapeError, "dyn.reshape (model:7): cannot view 12 elements as [6, 3]"),
        ((X[0], Y, S), ShapeError, "input x must be f32[n, 4], of rank 2; got rank 1, shape (4,)"),
        ((X.astype(np.float64), Y, S), DtypeError, "input x must be f32, got f64"),
        ((X, Y, S.astype(">i4")), DtypeError, "input s must be i64, got i32"),
        ((X, Y), ArgumentError, "the argument s is missing; the inputs are x, y, s"),
        ((X, Y, S, S), ArgumentError, "4 arguments were given, and the inputs are x, y, s"),
        ((X, Y, object()), ArgumentError, "input s must be an array of type i64[2]"),
        ((X, Y, np.array([-6, -2])), ShapeError, "dim 0 of the result would be negative: -6"),
    ],
)
@pytest.mark.parametrize("loop", ["native", "python"])
def test_errors_say_wanted_and_got(args: Any, error: type[AnyshapeError], message: str, loop: str) -> None:
    with pytest.raises(error) as caught:
        model(loop=loop)(*args)
    assert message in str(caught.value)
    assert type(caught.value) is error


def test_unknown_and_doubled_names() -> None:
    exe = model()
    with pytest.raises(ArgumentError, match="no input z; the inputs are x, y, s"):
        exe(X, Y, z=S)
    with pytest.raises(ArgumentError, match="x was given twice"):
        exe(X, Y, S, x=X)


def test_equal_names_are_one_dim() -> None:
    x, y = anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[m, 2*n]")
    exe = compile(anyshape.function([x, y], [call(DOUBLE, x), call(DOUBLE, y)]))
    exe(np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32))
    with pytest.raises(ShapeError, match=r"input y: dim 0 must be m = 3, got 2"):
        exe(np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32))
    with pytest.raises(ShapeError, match=r"input y: dim 1 must be 2\*n = 4, got 5"):
        exe(np.zeros((2, 3), np.float32), np.zeros((3, 5), np.float32))


def test_dims_given_to_compile() -> None:
    x = anyshape.input("x", "f32[n, m]")
    f = anyshape.function([x], call(DOUBLE, x))
    exe = compile(f, dims={"n": (2, 5), "m": 3})
    assert exe(np.ones((4, 3), np.float32)).shape == (4, 3)
    with pytest.raises(ShapeError, match=r"input x: dim 0 \(n\) must be at most 5, got 6"):
        exe(np.ones((6, 3), np.float32))
    with pytest.raises(ShapeError, match=r"input x: dim 0 \(n\) must be at least 2, got 0"):
        exe(np.ones((0, 3), np.float32))
    with pytest.raises(ShapeError, match="input x: dim 1 must be 3, got 4"):
        exe(np.ones((4, 4), np.float32))
    with pytest.raises(ArgumentError, match="no input has a dim k"):
        compile(f, dims={"k": 1})


def test_arguments_of_every_kind() -> None:
    exe = model()
    x = np.random.default_rng(0).random((3, 8), np.float32)
    expected = reference(x[:, ::2], Y, (6, 2))[0]
    for argument in (x[:, ::2], x[:, ::2].astype(">f4"), np.asfortranarray(x[:, ::2]), x[:, ::2].tolist()):
        np.testing.assert_allclose(exe(argument, y=[0, 0, 0, 0], s=(6, 2))[0], expected, rtol=1e-6)

    class Foreign:
        """Something that speaks only DLPack."""

        def __init__(self, a: Any) -> None:
            self.a = a

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.a.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return self.a.__dlpack_device__()

    np.testing.assert_allclose(exe(Foreign(x[:, ::2].copy()), Y, S)[0], expected, rtol=1e-6)
    assert exe.run({"s": S, "y": Y, "x": X})[0].shape == (6, 2)


def test_a_shape_from_elements_of_a_computed_tensor() -> None:
    x, v = anyshape.input("x", "f32[]"), anyshape.input("v", "i64[2]")
    f = anyshape.function([x, v], call(FILL, x, call(MUL, v, v)))
    exe = compile(f)
    assert exe(np.float32(3), np.array([2, -3])).shape == (4, 9)
    with pytest.raises(OverflowedError):
        exe(np.float32(3), np.array([1 << 40, 3]))


def test_sizes_known_only_after_a_kernel_ran() -> None:
    x, t, i = anyshape.input("x", "f32[]"), anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[2]")
    picked = call(PICK, t, i)
    big = call(FILL, x, picked)
    f = anyshape.function([x, t, i], call(STATIC_SUM, call(DOUBLE, call(ADD, big, big)), axes=(0,)))
    for fuse in (False, True):
        exe = compile(f, fuse=fuse)
        for n, m in ((2, 5), (300, 200), (1, 1), (0, 3)):
            got = exe(np.float32(0.5), np.array([9, n, m]), np.array([1, -1]))
            np.testing.assert_allclose(got, np.full(m, 2.0 * n))
        with pytest.raises(ShapeError, match="a dim cannot be negative, got -1"):
            exe(np.float32(0.5), np.array([9, -1, 2]), np.array([1, -1]))


def test_an_index_out_of_range_names_the_place() -> None:
    t, i = anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[2]")
    exe = compile(anyshape.function([t, i], call(PICK, t, i, source="gather#3")))
    with pytest.raises(ShapeError, match=r"gather#3"):
        exe(np.arange(3), np.array([0, 3]))


def test_results_are_put_where_the_caller_says() -> None:
    exe = model()
    place = np.empty(3, np.float32)
    got = exe.run({"x": X + 1, "y": Y, "s": S}, outputs={"t": place})
    assert got[1] is place and place.tolist() == [8, 8, 8]
    with pytest.raises(ArgumentError, match=r"output t must be an array of shape \(3,\)"):
        exe.run({"x": X, "y": Y, "s": S}, outputs={"t": np.empty(4, np.float32)})
    with pytest.raises(ArgumentError, match="there is no output q; the outputs are r, t"):
        exe.run({"x": X, "y": Y, "s": S}, outputs={"q": place})


def test_constants_and_parameters_as_results() -> None:
    x = anyshape.input("x", "f32[n]")
    c = anyshape.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    exe = compile(anyshape.function([x], [x, c, call(FLATTEN, c), call(FLATTEN, x)]))
    got = exe(np.ones(4, np.float32))
    np.testing.assert_array_equal(got[1], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(got[2], np.arange(6))
    got[1][...] = 7
    np.testing.assert_array_equal(exe(np.ones(1, np.float32))[1], [[0, 1, 2], [3, 4, 5]])


def test_threads_give_what_one_thread_gives() -> None:
    exe = model()
    rng = np.random.default_rng(1)
    calls = [(rng.random((n, 4), np.float32), rng.random(4, np.float32), np.array([4, n])) for n in range(1, 25)]
    expected = [exe(*c) for c in calls]
    wrong: list[int] = []

    def work(offset: int) -> None:
        for k in range(len(calls)):
            j = (k * 5 + offset) % len(calls)
            for g, w in zip(exe(*calls[j]), expected[j], strict=True):
                if not np.array_equal(g, w):
                    wrong.append(j)

    in_threads(work, range(8))
    assert not wrong


def test_memory_over_many_shapes_is_that_of_the_largest() -> None:
    x = anyshape.input("x", "f32[n, m]")
    a = call(DOUBLE, x)
    b = call(MUL, a, x)
    f = anyshape.function([x], call(STATIC_SUM, call(ADD, b, a), axes=(0, 1)))
    exe = compile(f, fuse=False)
    exe(np.ones((64, 100), np.float32))
    largest = exe.memory
    for n in range(1, 64):
        exe(np.ones((n, 100), np.float32))
        exe(np.ones((100, n), np.float32))
    assert exe.memory == largest
    assert largest <= max(3 * (64 * 100 * 4 + 64), MAPPED)


def test_numbers_that_do_not_fit_are_refused() -> None:
    x = anyshape.input("x", "i32[2]")
    exe = compile(anyshape.function([x], call(DOUBLE, x)))
    assert exe([1, 2]).tolist() == [2, 4]
    with pytest.raises(ArgumentError, match=r"input x must be an array of type i32\[2\], got \[1, 1099511627776\]"):
        exe([1, 1 << 40])
    with pytest.raises(DtypeError, match="input x must be i32, got f64"):
        exe([1.5, 2.0])


def test_the_graph_executor_takes_static_programs_only() -> None:
    x, s = anyshape.input("x", "f32[n]"), anyshape.input("s", "i64[2]")
    f = anyshape.function([x, s], call(RESHAPE, call(DOUBLE, x), s, source="node 1"))
    with pytest.raises(UnsupportedError) as caught:
        compile(f, executor="graph")
    assert "input x: f32[n] is not static" in str(caught.value)
    assert "dyn.reshape (node 1) stays dyn: newshape comes from the input s" in str(caught.value)
    g = anyshape.function([x], call(DOUBLE, x))
    assert compile(g, executor="graph", dims={"n": 3})(np.ones(3, np.float32)).tolist() == [2, 2, 2]


def test_options_are_checked() -> None:
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], call(DOUBLE, x))
    with pytest.raises(ArgumentError, match="no option fast"):
        compile(f, fast=True)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="kernels must be one of"):
        compile(f, kernels="magic")
    with pytest.raises(ArgumentError, match="compile takes a Function"):
        compile(3)


def test_dump_prints_the_stages(capsys: pytest.CaptureFixture[str]) -> None:
    x = anyshape.input("x", "f32[n]")
    compile(anyshape.function([x], call(DOUBLE, x)), dump=frozenset(("graph", "schedule", "program")))
    printed = capsys.readouterr().err
    assert "=== graph: main" in printed and " double(" in printed
    assert "%0: f32[n] = kernel double(%x)" in printed


def test_the_schedule_tells_why_nodes_are_one_kernel_and_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    x = anyshape.input("x", "f32[n, 8]")
    sums = ops.matmul(x, np.ones((8, 4), np.float32))
    compile(anyshape.function([x], ops.add(ops.softmax(ops.relu(sums), axis=0), sums)), dump=("schedule",))
    printed = capsys.readouterr().err
    assert "joined by epilogue of a contraction\n" in printed and "apart from %1: no rule\n" in printed
    assert "apart from %0: epilogue of a contraction, but a path leads from one to the other around them\n" in printed


def test_a_size_is_never_computed_in_the_kernel_that_needs_it() -> None:
    t, i = anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[1]")
    picked = call(PICK, t, i)
    c = anyshape.constant(np.int64(3))
    f = anyshape.function([t, i], call(ADD, call(FILL, c, picked), picked))
    for fuse in (False, True):
        np.testing.assert_array_equal(compile(f, fuse=fuse)(np.array([9, 4]), np.array([-1])), [7, 7, 7, 7])


def test_a_size_is_an_element_that_no_other_kernel_reads() -> None:
    t, i = anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[1]")
    picked = call(PICK, t, i)
    doubled = call(DOUBLE, picked)
    c = anyshape.constant(np.int64(3))
    f = anyshape.function([t, i], [call(FILL, c, call(FLATTEN, doubled)), call(DOUBLE, doubled)])
    for fuse in (False, True):
        filled, more = compile(f, fuse=fuse)(np.array([9, 4]), np.array([-1]))
        assert filled.shape == (8,) and more.tolist() == [16]


def test_compiles_go_without_the_garbage_collector_and_leave_it_as_it_was() -> None:
    seen = []
    with uncollected():
        with uncollected():
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())
    assert seen == [False, False] and gc.isenabled()
    with pytest.raises(ArgumentError):
        compile(3)
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_call_waits_for_large_constants() -> None:
    """Large constants are laid out beside what follows a compile; a call, a copy of the executable and a forked child find them ready."""
    w = np.random.default_rng(4).normal(size=(600, 700)).astype(np.float32)
    x, a = anyshape.input("x", "f32[n, 600]"), np.ones((3, 600), np.float32)
    f = anyshape.function([x], anyshape.ops.matmul(x, anyshape.constant(w)))
    product = a @ w
    for run in (lambda exe: exe(a), lambda exe: exe.by(loop="python")(a), lambda exe: (exe.wait(), exe(a))[1]):
        np.testing.assert_allclose(run(anyshape.compile(f)), product, rtol=1e-4, atol=1e-4)
    exe = anyshape.compile(f)
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0
    else:
        os._exit(0 if np.allclose(exe(a), product, rtol=1e-4, atol=1e-4) else 1)
